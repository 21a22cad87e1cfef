"""specs/roberta.formula and data2vec_text.formula against the library's RoBERTa and its relatives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.configs import TINY, labels, unusual
from tests.specs.peers import LENGTH, MASK, Array, agree, alone, batch, names_match, saved
from transformula import TransformulaError
from transformula.compiler import reference
from transformula.compiler.driver import compile_graph

HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
RELATIVES = ("XLMRoberta", "Camembert", "Data2VecText")


def folder_of(path: Path, kind: str = "RobertaModel", **more: Any) -> Path:
    family = next(one for one in ("Roberta", *RELATIVES) if kind.startswith(one))
    return saved(path, kind, getattr(transformers, f"{family}Config")(**{**TINY, **more}))


@pytest.mark.parametrize("head", HEADS)
def test_heads(tmp_path: Path, head: str) -> None:
    """The activation of the layers is none of the masked head's: that one is a GELU always."""
    kind = f"Roberta{head}"
    folder = folder_of(tmp_path, kind, hidden_act="relu", **labels(kind, 0))
    names_match(folder)
    agree(folder, kind, batch(9, 2))


@pytest.mark.parametrize("number", range(9))
def test_unusual(tmp_path: Path, number: int) -> None:
    kind = f"Roberta{HEADS[number % len(HEADS)]}"
    config = unusual(number, LENGTH, **labels(kind, number))
    agree(folder_of(tmp_path, kind, **config), kind, batch(config["vocab_size"], config["type_vocab_size"]))


@pytest.mark.parametrize("family", RELATIVES)
@pytest.mark.parametrize("head", HEADS[1:3])
def test_relatives(tmp_path: Path, family: str, head: str) -> None:
    folder = folder_of(tmp_path, f"{family}{head}")
    names_match(folder)
    agree(folder, f"{family}{head}", batch(9))


# --- positions ----------------------------------------------------------------------------------------------

PLACES = """
spec seen extends roberta
model Places(tokens[seq] as input_ids) → [seq] = position(seq, places(tokens))
"""


def places(pad: int = 1, **given: Any) -> Array:
    graph = compile_graph(PLACES, {"pad_token_id": pad}, "Places", until="formula").formula
    arrays = {name: np.array(value) for name, value in given.items()}
    return reference.run(graph, {}, arrays)["output"]


@pytest.mark.parametrize(
    ("pad", "ids", "wanted"),
    [
        (1, [[0, 5, 6, 2], [0, 5, 2, 1]], [[2, 3, 4, 5], [2, 3, 4, 1]]),
        (1, [[1, 1, 4, 2], [3, 1, 1, 4]], [[1, 1, 2, 3], [2, 1, 1, 3]]),
        (0, [[0, 5, 6, 2], [1, 1, 0, 1]], [[0, 1, 2, 3], [1, 2, 0, 3]]),
        (9, [[0, 5, 6, 2], [9, 9, 9, 9]], [[10, 11, 12, 13], [9, 9, 9, 9]]),
    ],
)
def test_positions_follow_the_ids(pad: int, ids: list[list[int]], wanted: list[list[int]]) -> None:
    """BL-06, and padding inside a text, which the library skips."""
    assert places(pad, input_ids=ids).tolist() == wanted


def test_positions_and_the_mask() -> None:
    """The ids of an example's own tokens decide: those that are hidden between others count as in the library, what
    the mask hides before the first and after the last is no part of the example."""
    ids, mask = [[7, 7, 5, 1, 6, 7, 8, 7]], [[0, 0, 1, 0, 1, 0, 1, 0]]
    assert places(input_ids=ids, attention_mask=mask).tolist() == [[0, 0, 2, 1, 3, 4, 5, 0]]


def test_padding_on_the_left_is_no_part_whatever_it_holds(tmp_path: Path) -> None:
    """The library counts hidden tokens before the text as well; an example alone is what counts here."""
    folder = folder_of(tmp_path)
    given = batch(31, 2, low=2)
    padded = {**given, "input_ids": np.where(MASK == 1, given["input_ids"], 1)}
    other = transformula.load(folder, backend="reference")(**given)["last_hidden_state"]
    agree(folder, "RobertaModel", padded)
    for row in (1, 2, 4):  # where nothing is hidden in between
        found = transformula.load(folder, backend="reference")(**padded)["last_hidden_state"]
        np.testing.assert_allclose(found[row], other[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [5, 1])
def test_given_positions_win(tmp_path: Path, rows: int) -> None:
    folder = folder_of(tmp_path, "RobertaForMaskedLM")
    given = {**batch(31, 2), "attention_mask": np.ones_like(MASK)}
    chosen = np.random.default_rng(2).integers(0, 16, (rows, LENGTH))
    wanted = alone(folder, "RobertaForMaskedLM", {**given, "position_ids": np.broadcast_to(chosen, MASK.shape)})
    for backend in ("reference", "numpy"):
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**given, position_ids=chosen)["logits"]
        for row, (_, results) in enumerate(wanted):
            np.testing.assert_allclose(found[row], results["logits"], rtol=0, atol=1e-10)
        with pytest.raises(TransformulaError, match=r"position_ids holds 16, the rows of the table bert\.embed\.P"):
            model(**given, position_ids=chosen * 0 + 16)


@pytest.mark.parametrize("backend", ["reference", "numpy"])
@pytest.mark.parametrize("pad", [1, 4])
def test_longest_text(tmp_path: Path, backend: str, pad: int) -> None:
    """max_position_embeddings - pad - 1 tokens fit; padding that the mask shows needs no room."""
    folder = folder_of(tmp_path, pad_token_id=pad)
    model, fits = transformula.load(folder, backend=backend), 16 - pad - 1
    assert model.max_length == fits
    ids = np.full((2, 20), pad)
    ids[0, 3 : 3 + fits] = 7
    assert np.isfinite(model(ids)["last_hidden_state"]).all()
    ids[1, : fits + 1] = 7
    with pytest.raises(TransformulaError) as caught:
        model(ids)
    told = f"a text has {fits + 1} entries other than {pad} along seq, the table of positions embed.P[place] has room"
    assert told in str(caught.value)
    mask = np.ones_like(ids)
    mask[1, 0] = 0
    assert np.isfinite(model(ids, mask)["last_hidden_state"]).all()
