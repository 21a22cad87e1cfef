"""What encoder-decoders have in common: losses, decoder ids that are made, empty texts, long ones, tables in files."""

import types
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import transformula
from tests.specs import test_bart, test_marian, test_t5
from tests.specs.peers import Array, change_config
from tests.specs.seq2seq import change, library, saved
from tests.specs.test_dropout import drawn
from transformula import TransformulaError

pytestmark = pytest.mark.usefixtures("no_islands", "exact_sinusoids")
BACKENDS = ("reference", "numpy", "torch")
START = {"decoder_start_token_id": 5, "pad_token_id": 3}
CONFIGS: dict[str, Any] = {
    "T5ForConditionalGeneration": test_t5.config(num_layers=1, num_decoder_layers=1, **START),
    "BartForConditionalGeneration": test_bart.config(encoder_layers=1, decoder_layers=1, **START),
    "MarianMTModel": test_marian.config(encoder_layers=1, decoder_layers=1, **START),
    "BartModel": test_bart.config(encoder_layers=1, decoder_layers=1, **START),
    "BartForSequenceClassification": test_bart.config(encoder_layers=1, decoder_layers=1, num_labels=4, **START),
}
WRITERS = [kind for kind in CONFIGS if kind.endswith(("Generation", "MTModel"))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: saved(tmp_path_factory.mktemp(kind), kind, config) for kind, config in CONFIGS.items()}


@lru_cache(maxsize=32)
def loaded(folder: Path, backend: str) -> Any:
    """A model in float64."""
    return transformula.load(folder, backend=backend, dtype="float64")


def texts(kind: str) -> dict[str, Array]:
    """Two texts, padded on the right, as the library needs it to shift them, and labels of the head's kind."""
    draw = np.random.default_rng(2)
    ids, mask = draw.integers(6, 31, (2, 7)), np.ones((2, 7), int)
    mask[1, 5:] = 0
    ids[:, 4] = test_bart.EOS
    given = {"input_ids": np.where(mask == 1, ids, 3), "attention_mask": mask}
    if kind in WRITERS:
        labels = draw.integers(0, 31, (2, 5))
        labels[0, 1] = labels[1, 3] = labels[1, 4] = -100
        given["labels"] = labels
    return {**given, "labels": np.array([3, 0])} if "Classification" in kind else given


def alone(model: Any) -> Any:
    """The generated module by itself."""
    made = types.ModuleType("made")
    exec(compile(model.program.source, "<made>", "exec"), made.__dict__)
    return made.__dict__["Model"]


def shown(found: Any, name: str, given: dict[str, Array], kind: str) -> Array:
    """A result, 0 at padding."""
    value = np.asarray(found[name].detach() if isinstance(found[name], torch.Tensor) else found[name])
    along = value.ndim == 3 and (name == "encoder_last_hidden_state" or kind == "BartModel")
    return value * given["attention_mask"][..., None] if along else value


@pytest.mark.parametrize("kind", CONFIGS)
def test_decoder_ids_are_made(folders: dict[str, Path], kind: str) -> None:
    """Of labels, one place later behind the start, -100 as padding; else, by BART, of the source. And the loss."""
    folder, given = folders[kind], texts(kind)
    with torch.inference_mode():
        wanted = library(folder, kind)(**{name: torch.from_numpy(value) for name, value in given.items()})
    for backend in BACKENDS:
        model = loaded(folder, backend)
        found = [model(**given)]
        if backend == "numpy":
            found.append(alone(model).load(folder, dtype="float64")(**given))
        elif backend == "torch":
            found.append(model.module(**{name: torch.from_numpy(value) for name, value in given.items()}))
        for made in found:
            assert ("loss" in made) == ("labels" in given)
            for name in made:
                theirs = shown(wanted, name, given, kind)
                np.testing.assert_allclose(shown(made, name, given, kind), theirs, rtol=0, atol=1e-10, err_msg=backend)


@pytest.mark.parametrize("kind", CONFIGS)
def test_made_ids_do_not_depend_on_padding(folders: dict[str, Path], kind: str) -> None:
    """The law: an example gives what it gives alone, on whichever side it is padded."""
    folder, given = folders[kind], texts(kind)
    place = np.array([[0, 1, 2, 3, 4, 5, 6], [6, 5, 0, 1, 2, 3, 4]])
    moved = {name: np.take_along_axis(given[name], place, axis=1) for name in ("input_ids", "attention_mask")}
    if kind in WRITERS:  # the labels are padded, too, and their mask says so
        labels = np.concatenate([np.full((2, 2), 9), given["labels"]], axis=1)
        mask = np.array([[0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]])
        moved = {**moved, "labels": labels, "decoder_attention_mask": mask}
    elif "labels" in given:
        moved["labels"] = given["labels"]
    for backend in BACKENDS:
        model = loaded(folder, backend)
        here, there = model(**given), model(**moved)
        modules = [alone(model).load(folder, dtype="float64")] if backend == "numpy" else []
        modules += [model.module] if backend == "torch" else []
        tensors = {name: torch.from_numpy(value) for name, value in moved.items()}
        for other in (there, *(module(**(tensors if backend == "torch" else moved)) for module in modules)):
            for name, value in here.items():
                theirs = other[name].detach() if backend == "torch" else other[name]
                ours, theirs = np.asarray(value), np.asarray(theirs)
                if name == "logits" and kind in WRITERS:
                    ours, theirs = ours[1, :3], theirs[1, 2:5]
                elif ours.ndim == 3:
                    ours, theirs = ours[1, :5], theirs[1, 2:]
                np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12, err_msg=f"{name} by {backend}")


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "nothing": ("T5ForConditionalGeneration", {}, r"'decoder_input_ids' is missing \(decoder_inputs_embeds can"),
    "no labels": ("MarianMTModel", {}, "and it can be made of labels"),
    "a label": ("T5ForConditionalGeneration", {"labels": [[4, 31]]}, "labels holds 31, labels are 0 … 30, or -100"),
    "a half": ("MarianMTModel", {"labels": [[4, 0.5]]}, "labels should be whole numbers"),
    "a shape": ("BartForConditionalGeneration", {"labels": [4]}, r"a loss takes labels\[batch, tgt\]"),
    "of two": ("T5ForConditionalGeneration", {"labels": [[4], [4]]}, "decoder_input_ids has 2 along batch"),
    "too long": ("BartForConditionalGeneration", {"labels": [[4] * 10]}, "a text has 10 entries along tgt, .* has 9"),
    "too long a source": ("BartModel", {"input_ids": [[4] * 10]}, "a text has 10 entries along seq, .* has 9"),
    "beyond the sinusoids": ("MarianMTModel", {"decoder_input_ids": [[4] * 10]}, r"the table of positions P\[place\]"),
    "an id": ("MarianMTModel", {"decoder_input_ids": [[31]]}, "decoder_input_ids holds 31, the rows of the table"),
    "no end": ("BartForSequenceClassification", {"input_ids": [[4, 4]]}, "reads an entry that does not exist"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told(folders: dict[str, Path], name: str) -> None:
    kind, more, told = WRONG[name]
    given = {"input_ids": [[4, 5]], **more}
    for backend in BACKENDS if name != "no end" else ("reference", "numpy"):  # torch takes no branch on values
        with pytest.raises(TransformulaError, match=told):
            loaded(folders[kind], backend)(**given)
    with pytest.raises(ValueError, match=told):
        alone(loaded(folders[kind], "numpy")).load(folders[kind])(**given)


def test_a_start_that_config_lacks(tmp_path: Path) -> None:
    """T5 has no token to start with unless config names it; what is given needs none."""
    folder = saved(tmp_path, "T5ForConditionalGeneration", CONFIGS["T5ForConditionalGeneration"])
    change_config(folder, decoder_start_token_id=None)
    given = texts("T5ForConditionalGeneration")
    told = "'decoder_input_ids' is missing: it would be made of labels, and config has no decoder_start_token_id"
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend)
        with pytest.raises(TransformulaError, match=told):
            model(**given)
        assert "loss" in model(**given, decoder_input_ids=given["labels"] % 31)
    with pytest.raises(ValueError, match=told):
        alone(transformula.load(folder)).load(folder)(**given)


@pytest.mark.parametrize("kind", WRITERS)
def test_training_with_labels(folders: dict[str, Path], kind: str) -> None:
    """The gradient of each weight, the tied table among them, is the library's."""
    folder, given = folders[kind], texts(kind)
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}
    peer = library(folder, kind)
    peer(**tensors).loss.backward()
    model = loaded(folder, "torch")
    model.module(**tensors)["loss"].backward()
    ours = {name: value.grad for name, value in model.module.named_parameters()}
    table = next(name for name in ours if name.endswith("encoder_E"))
    wanted = peer.get_input_embeddings().weight.grad
    rows = [row for row in range(31) if row != 3]  # the library keeps the row of padding as it is
    rows = list(range(31)) if kind.startswith("T5") else rows
    torch.testing.assert_close(ours[table][rows], wanted[rows], rtol=0, atol=1e-10)
    assert {name for name, value in ours.items() if value is None} <= {"lm_head_c"}  # that is no parameter


@pytest.mark.parametrize("kind", CONFIGS)
def test_states_and_attention(folders: dict[str, Path], kind: str) -> None:
    """Of encoder and decoder, at each real place; T5's last states are behind its norm."""
    folder, given = folders[kind], texts(kind)
    asked = {"output_hidden_states": True, "output_attentions": True}
    with torch.inference_mode():
        wanted = library(folder, kind)(**{name: torch.from_numpy(value) for name, value in given.items()}, **asked)
    shows = ["encoder_hidden_states", "encoder_attentions", "decoder_hidden_states", "decoder_attentions"]
    for backend in BACKENDS:
        model = loaded(folder, backend)
        found = model(**given, **asked)
        assert set(found) == {*model(**given), *shows, "cross_attentions"}
        for name in (*shows, "cross_attentions"):
            assert len(found[name]) == len(wanted[name])
            for ours, theirs in zip(found[name], wanted[name], strict=True):
                for row, length in enumerate((7, 5)):
                    rows = length if kind not in WRITERS or name.startswith("encoder") else 5
                    keys = slice(length if name == "cross_attentions" else rows)
                    place = (row, slice(rows)) if "states" in name else (row, ..., slice(rows), keys)
                    one, other = np.asarray(ours)[place], theirs.numpy()[place]
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-10, err_msg=f"{name} by {backend}")


def test_one_part_of_the_states(folders: dict[str, Path]) -> None:
    model = loaded(folders["BartModel"], "numpy")
    assert "decoder_hidden_states" not in model(**texts("BartModel"), output_encoder_hidden_states=True)
    assert list(model(**texts("BartModel"), outputs=["cross_attentions"])) == ["cross_attentions"]


SHARES = {"dropout": 0.125, "attention_dropout": 0.25, "activation_dropout": 0.375, "classifier_dropout": 0.5}


@pytest.mark.parametrize("kind", CONFIGS)
def test_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Each draw of a module in training is one of the library's, if not in its order: no layer is computed twice."""
    rates = {"dropout_rate": 0.125} if kind.startswith("T5") else SHARES
    keys = {**CONFIGS[kind].to_diff_dict(), **rates, "encoder_layers": 2, "decoder_layers": 2}
    folder, given = saved(tmp_path, kind, type(CONFIGS[kind])(**keys)), texts(kind)
    tensors = {name: torch.from_numpy(value) for name, value in given.items() if name != "attention_mask"}
    ours = transformula.load(folder, backend="torch").module
    assert drawn(monkeypatch, ours.eval(), **tensors) == []
    found, wanted = (Counter(drawn(monkeypatch, one.train(), **tensors)) for one in (ours, library(folder, kind)))
    assert sorted(rate for rate, _ in found.elements()) == sorted(rate for rate, _ in wanted.elements())
    alone = {(0.125, (2, 12)): 3, (0.25, (2, 3, 1, 7)): 1, (0.375, (2, 20)): 1}  # the last block's, of one row
    assert dict(found - wanted) == (alone if "Classification" in kind else {})


@pytest.mark.parametrize("kind", CONFIGS)
def test_round_trip(folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """What is trained and saved is what the library reads: no key is missing or unexpected."""
    model, given = transformula.load(folders[kind], backend="torch", dtype="float64"), texts(kind)
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype, generator=draws) * 0.1)
    after = model.save_pretrained(tmp_path / "after")
    network, told = getattr(transformers, kind).from_pretrained(
        after, output_loading_info=True, dtype=torch.float64, attn_implementation="eager"
    )
    assert not any(told[fault] for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.inference_mode():
        wanted = network.eval()(**{name: torch.from_numpy(value) for name, value in given.items()})
    again, before = (transformula.load(one, dtype="float64")(**given) for one in (after, folders[kind]))
    for name in again:
        own, theirs = (shown(one, name, given, kind) for one in (again, wanted))
        np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-10)
    assert max(np.abs(value - before[name]).max() for name, value in again.items()) > 1e-2


# --- texts without a token, long ones -----------------------------------------------------------------------


def test_an_empty_source(folders: dict[str, Path]) -> None:
    """Attention to no key gives 0: as SDPA has it, and as a source of zeros has it where maps have no bias."""
    ids = np.random.default_rng(0).integers(6, 31, (4, 4))
    mask, target = np.ones((4, 4), int), np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0], [0, 0, 0]])
    mask[[1, 3]] = 0
    given = {"attention_mask": mask, "decoder_input_ids": ids[:, 1:], "decoder_attention_mask": target}
    for kind in WRITERS:
        folder = folders[kind]
        peer = library(folder, kind, "sdpa")
        source: dict[str, Any] = {"input_ids": torch.ones((1, 1), dtype=torch.long)}
        source["attention_mask"] = torch.zeros((1, 1), dtype=torch.long)
        if kind.startswith("T5"):
            source = {"encoder_outputs": (torch.zeros((1, 1, 12), dtype=torch.float64),)}
        with torch.inference_mode():
            wanted = peer(decoder_input_ids=torch.from_numpy(ids[1:2, 2:].copy()), **source).logits[0].numpy()
        for backend in BACKENDS:
            model = loaded(folder, backend)
            for sources, more in ((ids, given), (ids[:, :0], {**given, "attention_mask": mask[:, :0]})):
                found = model(input_ids=sources, **more)
                logits, states = np.asarray(found["logits"]), np.asarray(found["encoder_last_hidden_state"])
                np.testing.assert_allclose(logits[1, 1:], wanted, rtol=0, atol=1e-10, err_msg=f"{kind} by {backend}")
                assert not logits[2:].any()
                assert not states[[1, 3]].any()


@pytest.mark.parametrize("length", [1, 150])
def test_every_bucket(tmp_path: Path, length: int) -> None:
    """BL-22: of far keys, both ways in the encoder, one way in the decoder, in both precisions, of both sides."""
    more = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
    kind = "T5ForConditionalGeneration"
    folder = saved(tmp_path, kind, test_t5.config(num_layers=1, num_decoder_layers=2, num_heads=1, **more))
    ids = np.random.default_rng(0).integers(0, 31, (1, length))
    with torch.inference_mode():
        tensor = torch.from_numpy(ids)
        wanted = library(folder, kind)(input_ids=tensor, decoder_input_ids=tensor).logits.numpy()
    for backend in ("numpy", "torch"):
        for dtype, bound in (("float64", 1e-10), ("float32", 1e-4 * np.abs(wanted).max())):
            found = transformula.load(folder, backend=backend, dtype=dtype)(input_ids=ids, decoder_input_ids=ids)
            np.testing.assert_allclose(np.asarray(found["logits"]), wanted, rtol=0, atol=bound)


# --- given embeddings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["T5ForConditionalGeneration", "MarianMTModel"])
def test_given_embeddings(tmp_path: Path, kind: str) -> None:
    """Instead of either ids; a table's scale is no part of them."""
    keys = {key: value for key, value in CONFIGS[kind].to_dict().items() if key != "scale_embedding"}
    config = CONFIGS[kind] if kind.startswith("T5") else type(CONFIGS[kind])(**keys, scale_embedding=True)
    folder, draw = saved(tmp_path, kind, config), np.random.default_rng(1)
    given = {"inputs_embeds": draw.normal(size=(1, 4, 12)), "decoder_inputs_embeds": draw.normal(size=(1, 3, 12))}
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}
    with torch.inference_mode():
        wanted = library(folder, kind)(**tensors).logits.numpy()
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["logits"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=1e-10)


# --- what files hold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["BartForConditionalGeneration", "MarianMTModel"])
def test_a_bias_of_the_logits_that_is_absent_is_0(tmp_path: Path, kind: str) -> None:
    folder, given = saved(tmp_path, kind, CONFIGS[kind]), texts(kind)
    before = transformula.load(folder, dtype="float64")(**given)["logits"]
    bias = load_file(folder / "model.safetensors")["final_logits_bias"].double().numpy()
    change(folder, final_logits_bias=None)
    model = transformula.load(folder, dtype="float64")
    np.testing.assert_allclose(model(**given)["logits"] + bias, before, rtol=0, atol=1e-12)
    assert "final_logits_bias" not in load_file(model.save_pretrained(tmp_path / "again") / "model.safetensors")


@pytest.mark.parametrize("said", [True, False])
def test_t5_with_a_table_of_its_own_for_the_logits(tmp_path: Path, said: bool) -> None:
    """The file decides whether the tables are one; config, whether states are scaled: the library says tied always."""
    kind = "T5ForConditionalGeneration"
    folder, given = saved(tmp_path, kind, test_t5.config(tie_word_embeddings=said)), texts(kind)
    shared = load_file(folder / "model.safetensors")["shared.weight"]
    given = {**given, "decoder_input_ids": given["labels"] % 31}
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}
    for head, tied in ((None, True), (shared.clone(), True), (shared + torch.randn_like(shared), False)):
        change(folder, **{"lm_head.weight": head})
        with torch.inference_mode():
            wanted = library(folder, kind)(**tensors)
        for backend in BACKENDS:
            model = transformula.load(folder, backend=backend, dtype="float64")
            assert model.config["tied"] is tied
            np.testing.assert_allclose(np.asarray(model(**given)["logits"]), wanted.logits, rtol=0, atol=1e-10)
        back = model.save_pretrained(tmp_path / "back")
        assert load_file(back / "model.safetensors").keys() == load_file(folder / "model.safetensors").keys()
    change_config(folder, tie_word_embeddings=False, scale_decoder_outputs=None)  # as files of version 1.1 have it
    with torch.inference_mode():
        wanted = library(folder, kind)(**tensors)
    np.testing.assert_allclose(transformula.load(folder, dtype="float64")(**given)["logits"], wanted.logits, atol=1e-10)
