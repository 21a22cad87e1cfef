"""Several texts an example, one for each choice: every architecture against the library, on every backend."""

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

import transformula
from tests.specs.peers import MASK, batch, names_match, saved
from tests.specs.test_losses import BACKENDS, CONFIGS, WITHOUT_SEGMENTS, close, config_of, theirs
from transformula import TransformulaError
from transformula.compiler.driver import check, compile_graph

pytestmark = pytest.mark.usefixtures("no_islands")
Array = NDArray[Any]
KINDS = [kind for kind in CONFIGS if kind != "Deberta"]
LABELS = np.array([2, 0])


def choices(kind: str) -> dict[str, Array]:
    """Two examples of three choices, of several lengths; padding on the right, as the library needs it."""
    low = 2 if kind in ("Roberta", "MPNet") else 0
    whole = batch(31, 0 if kind in WITHOUT_SEGMENTS else 2, low)
    lengths = np.array([[7, 4, 1], [3, 7, 5]])
    made = {name: np.stack([value[:3], value[2:5]]) for name, value in whole.items()}
    return {**made, "attention_mask": (np.arange(7) < lengths[..., None]).astype(int)}


@pytest.mark.parametrize("kind", KINDS)
def test_choices(tmp_path: Path, kind: str) -> None:
    name, given = f"{kind}ForMultipleChoice", choices(kind)
    folder = saved(tmp_path, name, config_of(kind))
    names_match(folder)
    wanted = theirs(folder, name, {**given, "labels": LABELS}, output_hidden_states=True)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**given, labels=LABELS, output_hidden_states=True, output_attentions=True)
        close(found["logits"], wanted.logits, backend)
        close(found["loss"], wanted.loss, backend)
        states = found["hidden_states"]
        assert len(states) == len(wanted.hidden_states)
        assert states[0].shape == (2, 3, 7, 12)
        first = wanted.hidden_states[1].reshape(2, 3, 7, 12)[:, :, 0]
        close(np.asarray(states[1])[:, :, 0], first, backend)
        assert found["attentions"][0].shape == (2, 3, 3, 7, 7)


@pytest.mark.parametrize("kind", ["Bert", "DistilBert"])
def test_the_modules_alone(tmp_path: Path, kind: str) -> None:
    """The files that compile writes take groups of texts, too, in each layout."""
    given = choices(kind)
    folder = saved(tmp_path, f"{kind}ForMultipleChoice", config_of(kind))
    wanted = transformula.load(folder, backend="reference")(**given, labels=LABELS)
    made = types.ModuleType("made")
    exec(transformula.load(folder).program.source, made.__dict__)
    numpy_one = made.__dict__["Model"].load(folder, dtype="float64")(**given, labels=LABELS)
    tensors = {name: torch.from_numpy(value) for name, value in {**given, "labels": LABELS}.items()}
    for layout in ("padded", "packed"):
        model = transformula.load(folder, backend="torch", dtype="float64", layout=layout)
        with torch.inference_mode():
            torch_one = model.module(**tensors)
        for name in ("logits", "loss"):
            np.testing.assert_allclose(numpy_one[name], wanted[name], rtol=0, atol=1e-12)
            np.testing.assert_allclose(torch_one[name].numpy(), wanted[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_choice_does_not_depend_on_the_others(tmp_path: Path, backend: str) -> None:
    """The law, for each text of a group; padding may stand on either side."""
    model = transformula.load(
        saved(tmp_path, "BertForMultipleChoice", config_of("Bert")), backend=backend, dtype="float64"
    )
    ids = batch(31)["input_ids"]
    whole = np.asarray(model(np.stack([ids, ids[::-1]]), np.stack([MASK, MASK[::-1]]))["logits"])
    for row in range(5):
        alone = np.asarray(model(ids[row : row + 1, None][:, :, MASK[row] > -1], MASK[row][None, None])["logits"])
        np.testing.assert_allclose(whole[0, row], alone[0, 0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(whole[1, 4 - row], alone[0, 0], rtol=0, atol=1e-12)


def test_wrong_calls_are_told(tmp_path: Path) -> None:
    model = transformula.load(saved(tmp_path, "BertForMultipleChoice", config_of("Bert")))
    ids = np.zeros((2, 3, 7), int)
    with pytest.raises(TransformulaError, match=r"input_ids should be \[batch, choice, seq\]"):
        model(ids[0])
    with pytest.raises(TransformulaError, match=r"attention_mask is \[2, 7\], and input_ids is \[2, 3, 7\]"):
        model(ids, np.ones((2, 7)))
    with pytest.raises(TransformulaError, match="labels has 3 along batch, input_ids has 2"):
        model(ids, labels=[0, 1, 2])
    with pytest.raises(TransformulaError, match="holds 31, the rows of the table"):
        model(ids + 31)
    with pytest.raises(TransformulaError, match="token_type_ids has 2 along choice"):
        model(ids, token_type_ids=ids[:, :2])


def test_head_of_each_choice() -> None:
    """The axis of the choices stands first in a result, and no formula sees it."""
    graph = compile_graph("bert", entry="BertForMultipleChoice", until="formula").formula
    assert graph.each == "choice"
    assert [[str(axis) for axis in out.axes] for out in graph.outputs] == [["batch"]]
    text = "spec other extends bert\nmodel M of bert for choice → logits = scorer(pooler_output)\n"
    with pytest.raises(TransformulaError, match=r"N232.*first axis"):
        check(text)
    text = "spec other extends bert\nmodel M of bert for choice → logits[choice] = sum[choice](scorer(pooler_output))\n"
    with pytest.raises(TransformulaError, match="no axis `choice`"):
        check(text)


def test_the_library_is_right_about_one_choice(tmp_path: Path) -> None:
    """With one choice all is well defined: the softmax of one is one, and the loss 0."""
    folder = saved(tmp_path, "BertForMultipleChoice", config_of("Bert"))
    given = {name: value[:, :1] for name, value in choices("Bert").items()}
    peer = transformers.BertForMultipleChoice.from_pretrained(folder, dtype=torch.float64).eval()
    wanted = peer(**{name: torch.from_numpy(value) for name, value in given.items()}).logits.detach()
    found = transformula.load(folder, dtype="float64")(**given, labels=[0, 0])
    close(found["logits"], wanted, "one choice")
    assert abs(float(found["loss"])) < 1e-14
