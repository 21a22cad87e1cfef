"""What a generated module owes: the law of batches, clear errors, threads, standing alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula.backends.program import compile

ONE_LENGTH = [name for name in zoo.NAMES if name not in (*zoo.TWO, "no_length", "similarities")]
LAW = [
    "bert",
    "sbert",
    "gpt",
    "alibi",
    "rope",
    "deberta",
    "maps",
    "pools",
    "two_states",
    "crossed",
    "token_mask",
    "shift",
]
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


@cache
def model(name: str, dtype: str = "float64", threads: int = 1) -> Any:
    """A model of the zoo, ready to be called."""
    return zoo.model(zoo.whole(name), dtype, threads)


@cache
def dimensions(name: str) -> dict[str, tuple[str, ...]]:
    """The names of each result's dimensions."""
    return dict(zoo.module(zoo.whole(name).source)["OUTPUTS"])


# --- the law: an example in a batch is what it is alone ------------------------------------------------------


@st.composite
def masks(draw: st.DrawFn) -> Array:
    """Batches of 0 to 5 texts of 0 to 8 places, padded on either side, some with holes, some empty."""
    batch, width = draw(st.integers(0, 5)), draw(st.integers(0, 8))
    rows = np.zeros((batch, width), int)
    for row in rows:
        first = draw(st.integers(0, width))
        last = draw(st.integers(first, width))
        row[first:last] = 1
        if last - first > 2 and draw(st.booleans()):
            row[draw(st.integers(first + 1, last - 2))] = 0
    return rows


def check_law(name: str, mask: Array, dtype: str, threads: int, seed: int) -> None:
    tokens = rng(seed).integers(0, 20, mask.shape)
    found = model(name, dtype, threads)(input_ids=tokens, attention_mask=mask)
    alone = model(name, dtype, 1)
    for key, axes in dimensions(name).items():
        assert found[key].shape[:1] == mask.shape[:1]
        for row, seen in enumerate(mask.astype(bool)):
            if not seen.any():
                assert (found[key][row] == 0).all()
                continue
            own = np.flatnonzero(seen)
            span = slice(own[0], own[-1] + 1)
            wanted = alone(
                input_ids=tokens[row : row + 1, span], attention_mask=mask[row : row + 1, span], outputs=[key]
            )[key][0]
            cut = tuple(slice(None) if axis.isdigit() else span for axis in axes[1:])
            size = max(1.0, float(np.abs(wanted).max(initial=0.0)))
            assert np.abs(found[key][row][cut] - wanted).max(initial=0.0) <= TOLERANCE[dtype] * size
            outside = np.array(found[key][row])
            outside[cut] = 0
            assert not outside.any(), "padding is 0"


@pytest.mark.parametrize("name", LAW)
@settings(max_examples=40, deadline=None)
@given(
    mask=masks(),
    dtype=st.sampled_from(["float64", "float32"]),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 9),
)
def test_law(name: str, mask: Array, dtype: str, threads: int, seed: int) -> None:
    check_law(name, mask, dtype, threads, seed)


@pytest.mark.parametrize("name", ONE_LENGTH)
def test_order_of_a_batch_does_not_matter(name: str) -> None:
    given_, order = zoo.inputs(name), rng(4).permutation(len(zoo.MASK))
    whole = model(name)(**given_)
    turned = model(name)(**{key: value[order] for key, value in given_.items()})
    assert zoo.difference(turned, {key: value[order] for key, value in whole.items()}) < 1e-12


@pytest.mark.parametrize("name", zoo.NAMES)
def test_module_is_the_formula(name: str) -> None:
    for dtype, tolerance in TOLERANCE.items():
        found = model(name, dtype)(**zoo.inputs(name))
        assert zoo.difference(found, zoo.wanted(name)) < tolerance
        assert all(value.dtype == dtype or value.dtype.kind in "bi" for value in found.values())


@pytest.mark.parametrize("name", zoo.NAMES)
@pytest.mark.parametrize("shape", [(0, 5), (2, 5), (1, 1), (3, 8), (5, 2)], ids=str)
def test_any_batch_and_length(name: str, shape: tuple[int, int]) -> None:
    """BL-40: one module for every batch and length, nobody included."""
    given_ = zoo.inputs(name, np.ones(shape, int))
    found = model(name)(**given_)
    assert zoo.difference(found, zoo.reference_results(zoo.whole(name).compiled.formula, given_)) < 1e-12


def test_a_text_that_is_longer_than_a_table_of_places() -> None:
    """BL-07: whether it speaks of positions or of an index, what is added to it, and what the table is made of."""
    table = "    where P[spot, d] = t\n          t[i: spot, c: d] = sin(i / 7 + c)\n    weights E : [vocab, d]\n"
    result = "h[seq, d] = E[vocab = tokens] + P[spot = index(seq) + 3]\n"
    moved = zoo.spec("", f"axes spot = 16\n{zoo.IDS}{result}{table}")
    for name, room in (("gpt", 16), (moved, 13)):
        made = model(name)
        ids = np.ones((1, room + 1), int)
        with pytest.raises(ValueError, match=rf"a text has {room + 1} entries along seq, .*\] has {room}:"):
            made(input_ids=ids)
        made(input_ids=ids, attention_mask=np.arange(room + 1)[None] > 0)


def test_no_text_at_all() -> None:
    for shape in ((0, 0), (3, 0)):
        found = model("sbert")(input_ids=np.zeros(shape, int))
        assert {key: value.shape for key, value in found.items()} == {
            "sentence_embedding": (shape[0], 12),
            "last_hidden_state": (*shape, 12),
        }


def test_masks_of_every_type() -> None:
    ids, mask = zoo.inputs("sbert")["input_ids"], zoo.MASK
    whole = model("sbert")(input_ids=ids, attention_mask=mask)
    for other in (mask.astype(bool), mask.astype(np.float32), mask.astype(np.uint8), mask.tolist(), mask * 7):
        again = model("sbert")(input_ids=ids.tolist(), attention_mask=other)
        assert zoo.difference(again, whole) == 0
    strided = np.repeat(ids, 2, axis=1)[:, ::2]
    assert zoo.difference(model("sbert")(input_ids=strided.astype(np.int32), attention_mask=mask), whole) == 0


def test_pooling_over_padding_and_over_nothing() -> None:
    """BL-30, BL-31, BL-39: means and first tokens of left-padded, right-padded and empty rows, holes left out."""
    text = zoo.spec(
        "",
        zoo.IDS + "mean[d] = mean[seq](u), first[d] = u[seq = 0], last[d] = u[seq = seq - 1]\n"
        "    where u = E[vocab = tokens]\n" + zoo.EMBED,
    )
    made = zoo.whole(text)
    E = rng(0).normal(size=(20, 12))
    run = zoo.module(made.source)["Model"]({"E": E}, dtype="float64")
    ids = np.array([[7, 8, 1, 2], [1, 2, 7, 8], [5, 6, 7, 8], [1, 7, 2, 8]])
    mask = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]])
    found = run(input_ids=ids, attention_mask=mask)
    for row in (0, 1, 3):
        np.testing.assert_allclose(found["mean"][row], (E[1] + E[2]) / 2, atol=1e-15)
        np.testing.assert_allclose(found["first"][row], E[1], atol=1e-15)
        np.testing.assert_allclose(found["last"][row], E[2], atol=1e-15)
    assert all(not found[key][2].any() for key in found)


def test_no_draw_at_evaluation() -> None:
    """BL-33: dropout of any rate changes nothing, bit by bit."""
    plain = model("bert")(**zoo.inputs("bert"))
    wet = compile("bert", entry="Bert", settings={**zoo.BERT, "p": 0.5, "p_attn": 0.999})
    assert zoo.difference(zoo.model(wet)(**zoo.inputs("bert")), plain) == 0
    kept = compile("bert", entry="Bert", settings={**zoo.BERT, "p": 0.5, "p_attn": 0.999}, without=("inference",))
    assert zoo.difference(zoo.model(kept)(**zoo.inputs("bert")), plain) < 1e-12
    told = "dropout is the identity: a NumPy module drops nothing out"
    assert [line.what for line in kept.ledger.lines if line.pass_name == "inference"] == [told]
    assert told not in str(wet.ledger)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("name", ["gpt", "alibi", "rope", "deberta", "attention_pool", "maps", "bert"])
def test_large_scores(name: str, size: float) -> None:
    """Scores of ±1e4 and beyond: no overflow, no warning, the same as the formula's stable form."""
    made = zoo.whole(name)
    graph = made.compiled.graph
    values = {key: value * size for key, value in zoo.weight_values(made.compiled.formula).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in TOLERANCE:
            run = zoo.module(made.source)["Model"](
                zoo.nested(made.compiled.formula, values), dtype=dtype, threads=2
            )
            found = run(**zoo.inputs(name))
            assert all(np.isfinite(value).all() for value in found.values())
            if dtype == "float64":
                wanted = zoo.reference.run(graph, values, zoo.inputs(name))
                for key, value in wanted.items():
                    np.testing.assert_allclose(
                        found[key], value, rtol=1e-7, atol=1e-9 * float(np.abs(value).max())
                    )


# --- calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sbert", "maps", "two", "pools"])
def test_outputs_are_chosen(name: str) -> None:
    whole = model(name)(**zoo.inputs(name))
    for key in whole:
        alone = model(name)(**zoo.inputs(name), outputs=[key])
        assert zoo.difference(alone, {key: whole[key]}) == 0
    assert model(name)(**zoo.inputs(name), outputs=[]) == {}
    with pytest.raises(ValueError, match=f"'nothing'.*{next(iter(whole))}"):
        model(name)(**zoo.inputs(name), outputs=["nothing"])


IDS = [[1, 2, 3], [4, 5, 6]]
WRONG: dict[str, tuple[Mapping[str, Any], str]] = {
    "too large an id": ({"input_ids": [[1, 20]]}, "input_ids holds 20.*0 … 19"),
    "a negative id": ({"input_ids": [[1, -1]]}, "input_ids holds -1"),
    "too large a segment": (
        {"input_ids": IDS, "token_type_ids": [[0, 0, 3], [0, 0, 0]]},
        "token_type_ids holds 3",
    ),
    "too long a text": ({"input_ids": np.zeros((1, 17), int)}, "17 entries.*16"),
    "a position outside": (
        {"input_ids": IDS, "position_ids": [[0, 1, 16], [0, 1, 2]]},
        "position_ids holds 16",
    ),
    "a list of ids": ({"input_ids": [1, 2]}, "input_ids should be.*batch, seq"),
    "three dimensions": ({"input_ids": np.zeros((1, 2, 3), int)}, "input_ids should be"),
    "a shorter mask": ({"input_ids": IDS, "attention_mask": [[1, 1], [1, 1]]}, "attention_mask is .2, 2."),
    "other segments": (
        {"input_ids": IDS, "token_type_ids": [[0, 0, 0]]},
        "token_type_ids has 1.*input_ids has 2",
    ),
    "other positions": ({"input_ids": IDS, "position_ids": [[0, 1]]}, "position_ids is .1, 2.*2, 3"),
    "rows of two lengths": ({"input_ids": [[1, 2], [3]]}, "input_ids should be"),
    "words": ({"input_ids": [["a", "b"]]}, "input_ids should be"),
    "halves": ({"input_ids": [[0.5, 1.0]]}, "input_ids should be whole numbers"),
    "not a number": ({"input_ids": [[float("nan"), 1.0]]}, "input_ids should be whole numbers"),
    "nothing": ({}, "input_ids. is missing .inputs_embeds"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told(name: str) -> None:
    given_, told = WRONG[name]
    with pytest.raises(ValueError, match=told):
        model("bert")(**given_)


def test_ids_behind_the_mask_are_nobody_s_business() -> None:
    ids = np.array([[1, 2, 999], [-7, 3, 4]])
    mask = np.array([[1, 1, 0], [0, 1, 1]])
    found = model("bert")(input_ids=ids, attention_mask=mask)
    clean = model("bert")(input_ids=np.where(mask == 1, ids, 0), attention_mask=mask)
    assert zoo.difference(found, clean) == 0


OUT_OF_TABLE = {
    "a shifted id": "E[vocab = tokens + 1]",
    "an id below": "E[vocab = tokens - 1]",
    "a doubled id": "E[vocab = 2 * tokens]",
    "a selected id": "(E[vocab = tokens + 1] if tokens > 3 else u)",
}


@pytest.mark.parametrize("name", OUT_OF_TABLE)
def test_computed_places_outside_a_table_never_wrap(name: str) -> None:
    text = zoo.spec(
        "", f"{zoo.IDS}h[seq, d] = {OUT_OF_TABLE[name]} + 0 * u\n    where u = E[vocab = tokens]\n{zoo.EMBED}"
    )
    run = zoo.model(zoo.whole(text))
    assert np.isfinite(run(input_ids=[[1, 5, 9]])["h"]).all()
    with pytest.raises(ValueError, match=r"does not exist|holds 19|holds 0"):
        run(input_ids=[[19, 0, 5]])


def test_position_ids_replace_positions_alone() -> None:
    ids = zoo.inputs("bert")["input_ids"]
    places = rng(2).integers(0, 16, ids.shape)
    given_ = {"input_ids": ids, "attention_mask": zoo.MASK, "position_ids": places}
    wanted = zoo.reference_results(zoo.whole("bert").compiled.formula, given_)
    assert zoo.difference(model("bert")(**given_), wanted) < 1e-12
    one_row = {**given_, "position_ids": places[:1]}
    same = model("bert")(**{**given_, "position_ids": np.broadcast_to(places[0], ids.shape)})
    assert zoo.difference(model("bert")(**one_row), same) == 0


@pytest.mark.parametrize("name", ["sbert", "two", "deberta", "pools"])
def test_inputs_and_results_are_nobody_else_s_memory(name: str) -> None:
    given_ = zoo.inputs(name)
    before = {key: value.copy() for key, value in given_.items()}
    first = model(name)(**given_)
    kept = {key: value.copy() for key, value in first.items()}
    assert all((given_[key] == before[key]).all() for key in given_)
    model(name)(**zoo.inputs(name, seed=8))
    assert zoo.difference(first, kept) == 0
    for value in first.values():
        value[...] = 7  # a caller may write into a result
    assert zoo.difference(model(name)(**given_), kept) == 0


@pytest.mark.parametrize("name", ["sbert", "gpt", "maps", "history"])
def test_calls_at_the_same_time(name: str) -> None:
    batches = [zoo.inputs(name, zoo.MASK[: 1 + i % 6], seed=i) for i in range(12)]
    wanted = [model(name)(**one) for one in batches]
    run = model(name, threads=2)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda one: run(**one), batches))
            assert max(zoo.difference(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-12


def test_many_threads_and_more_than_examples() -> None:
    for threads in (1, 2, 7, None):
        found = zoo.model(zoo.whole("bert"), "float64", threads)(**zoo.inputs("bert"))
        assert zoo.difference(found, zoo.wanted("bert")) < 1e-12


def test_two_modules_do_not_share_scratch() -> None:
    """Two models in one thread, called in turn, each with its own shapes."""
    wide = compile("bert", entry="Bert", settings={**zoo.BERT, "d": 24, "ffn": 30})
    one, two = zoo.model(wide, "float32"), model("bert", "float32")
    first, second = one(**zoo.inputs("bert")), two(**zoo.inputs("bert"))
    for _ in range(2):
        assert zoo.difference(one(**zoo.inputs("bert")), first) == 0
        assert zoo.difference(two(**zoo.inputs("bert")), second) == 0
