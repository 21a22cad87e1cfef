"""What a relation lets each row see, by its meaning: bounds, the rest, and whether a row may be empty."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.spec_tools import Array
from transformula.compiler import affine, ir, masks
from transformula.compiler.evaluate import Evaluator, Lengths, align
from transformula.compiler.ir import Axis, Length, Node
from transformula.compiler.masks import Facts, derive, never_empty

BATCH = Axis("batch", Length("batch"))
SEQ, TGT = Axis("seq", Length("seq"), BATCH), Axis("tgt", Length("tgt"), BATCH)
KEY = Axis("key", Length("seq"), BATCH)
ROW, TOP, COL = ir.index(SEQ), ir.index(TGT), ir.index(KEY)
SIZE, ROWS = ir.size(KEY), ir.size(TGT)
GOOD = ir.input_("good", (BATCH, KEY), "bool")
PART = ir.input_("part", (BATCH, SEQ), "bool")
PREFIX = ir.input_("prefix", (BATCH,), "int")


def number(value: int | Fraction) -> Node:
    return ir.const(Fraction(value))


def say(fn: str, left: Node, right: Node | int | Fraction) -> Node:
    return ir.apply(fn, left, right if isinstance(right, Node) else number(right))


def both(*parts: Node) -> Node:
    made = parts[0]
    for part in parts[1:]:
        made = ir.apply("and", made, part)
    return made


def table(one: Node | None, seq: int, tgt: int, rows: Axis = SEQ, seed: int = 0) -> Array:
    """The relation as [row, key] of one example of these lengths; None is everything."""
    draw = np.random.default_rng(seed)
    inputs = {"good": draw.random((1, seq)) < 0.5, "part": draw.random((1, seq)) < 0.5}
    lengths = Lengths({"batch": 1, "seq": seq, "tgt": tgt}, {"seq": np.array([seq]), "tgt": np.array([tgt])})
    whole = (BATCH, rows, KEY)
    shape = (1, seq if rows == SEQ else tgt, seq)
    if one is None:
        return np.ones(shape[1:], bool)
    made = Evaluator({**inputs, "prefix": np.array([seed % 5])}, lambda name, axes: np.zeros(0), lengths)(one)
    found: Array = np.broadcast_to(align(made, one.axes, whole), shape)[0].astype(bool)
    return found


def bounds(found: Facts) -> Node | None:
    first, stop = affine.extreme("max", found.first), affine.extreme("min", found.stop)
    return masks.bounded(KEY, first.node() if first else None, stop.node() if stop else None)


def agree(see: Node, rows: Axis = SEQ, lengths: tuple[int, ...] = (1, 2, 3, 5, 8)) -> Facts:
    """The facts of a relation, compared with it at many lengths: nothing seen lies outside, nothing is lost."""
    found = derive(see, KEY, (BATCH, rows))
    for seq in lengths:
        for tgt in (1, 2, 4, 9) if rows == TGT else (1,):
            wanted = table(see, seq, tgt, rows, seq)
            within = table(bounds(found), seq, tgt, rows, seq)
            assert not (wanted & ~within).any(), "a key that is seen lies outside the bounds"
            np.testing.assert_array_equal(within & table(found.rest, seq, tgt, rows, seq), wanted)
    return found


# --- by hand -------------------------------------------------------------------------------------------------

CAUSAL = [
    say("<=", COL, ROW),
    say(">=", ROW, COL),
    ir.apply("not", say(">", COL, ROW)),
    say("<", COL, say("+", ROW, 1)),
    say("<=", say("-", COL, ROW), 0),
    say(">=", say("*", ROW, 3), say("*", number(3), COL)),
    say("<", say("-", COL, ROW), Fraction(1, 2)),
    ir.apply("or", say("<", COL, ROW), say("==", COL, ROW)),
    both(say("<=", COL, ROW), say("<", COL, SIZE), say(">=", COL, 0)),
    say("<=", say("max", COL, ROW), ROW),
    say("==", say("max", say("-", COL, ROW), 0), 0),
    say("<=", COL, say("-", say("+", ROW, SIZE), ir.size(SEQ))),
    ir.apply("where", say("<=", COL, ROW), ir.const(True), ir.const(False)),
]


@pytest.mark.parametrize("number", range(len(CAUSAL)))
def test_spellings_of_causality_are_one_fact(number: int) -> None:
    found = agree(CAUSAL[number])
    assert found == Facts((), (affine.Form({ROW: 1}, 1),)), bounds(found)
    assert masks.offset(found.stop[0].node(), SEQ, KEY) == 1


WINDOW = [
    say("<=", ir.apply("abs", say("-", ROW, COL)), 2),
    say(">", number(3), ir.apply("abs", say("-", COL, ROW))),
    both(say("<=", say("-", ROW, COL), 2), say("<=", say("-", COL, ROW), 2)),
    ir.apply("not", ir.apply("or", say("<", COL, say("-", ROW, 2)), say(">", COL, say("+", ROW, 2)))),
    say("<=", say("max", say("-", ROW, COL), say("-", COL, ROW)), 2),
    say("<=", say("/", ir.apply("abs", say("-", ROW, COL)), 3), Fraction(2, 3)),
]


@pytest.mark.parametrize("number", range(len(WINDOW)))
def test_spellings_of_a_window_are_one_fact(number: int) -> None:
    assert agree(WINDOW[number]) == Facts((affine.Form({ROW: 1}, -2),), (affine.Form({ROW: 1}, 3),))


EVERYTHING = {
    "true": ir.const(True),
    "any place": say(">=", COL, 0),
    "within the length": say("<", COL, SIZE),
    "earlier or later": ir.apply("or", say("<=", COL, ROW), say(">", COL, ROW)),
    "not later or not earlier": ir.apply("not", both(say(">", COL, ROW), say("<", COL, ROW))),
    "no distance is negative": say(">=", ir.apply("abs", say("-", ROW, COL)), 0),
    "a wide overlap": ir.apply("or", say("<=", COL, say("+", ROW, 4)), say(">=", COL, say("-", ROW, 1))),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_relation_that_always_holds_is_nothing(name: str) -> None:
    assert agree(EVERYTHING[name]).everything


EXACT: dict[str, tuple[Node, bool, bool]] = {
    "a prefix of the example": (say("<", COL, PREFIX), False, True),
    "a prefix, then causal": (ir.apply("or", say("<", COL, PREFIX), say("<=", COL, ROW)), False, True),
    "blocks": (say("==", say("//", ROW, 3), say("//", COL, 3)), True, True),
    "earlier blocks": (say(">=", say("//", ROW, 2), say("//", COL, 2)), False, True),
    "blocks and causal": (both(say("==", say("//", ROW, 3), say("//", COL, 3)), say("<=", COL, ROW)), True, True),
    "every other row of keys": (say("<=", say("*", COL, 2), ROW), False, True),
    "twice as far": (say(">", say("*", COL, 2), ROW), True, False),
    "half as far": (say("<=", COL, say("/", ROW, 2)), False, True),
    "a third as far": (say("<", COL, say("/", say("+", ROW, 1), 3)), False, True),
    "later": (say(">", COL, ROW), True, False),
    "one place": (say("==", COL, ROW), True, True),
    "one row alone sees all": (
        ir.apply("or", say("==", ROW, 0), say("<=", ir.apply("abs", say("-", ROW, COL)), 1)), True, True
    ),
    "rows of a kind are causal": (ir.apply("or", ir.apply("not", PART), say("<=", COL, ROW)), False, True),
    "rows of a kind see nothing": (both(PART, say("<=", COL, ROW)), False, True),
    "a choice by the row": (ir.apply("where", PART, say("<=", COL, ROW), say(">=", COL, ROW)), True, True),
    "never": (both(say("<", COL, ROW), say(">", COL, ROW)), False, True),
    "an overlap": (
        ir.apply("or", say("<=", ir.apply("abs", say("-", ROW, COL)), 2), say("==", COL, say("-", ROW, 3))), True, True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact_bounds(name: str) -> None:
    see, first, stop = EXACT[name]
    found = agree(see)
    assert (bool(found.first), bool(found.stop), found.rest) == (first, stop, None)


DENSE: dict[str, tuple[Node, bool, bool]] = {
    "tokens of the key": (GOOD, False, False),
    "tokens of the key, causal": (both(GOOD, say("<=", COL, ROW)), False, True),
    "every other key": (say("==", say("%", say("-", ROW, COL), 2), 0), False, False),
    "every other key of a window": (
        both(say("==", say("%", say("-", ROW, COL), 2), 0), say("<=", ir.apply("abs", say("-", ROW, COL)), 3)),
        True,
        True,
    ),
    "all but one": (say("!=", COL, ROW), False, False),
    "a window and the first key": (
        ir.apply("or", say("==", COL, 0), both(say("<=", COL, ROW), say(">", COL, say("-", ROW, 2)))), False, True
    ),
    "far away": (say(">=", ir.apply("abs", say("-", ROW, COL)), 2), False, False),
    "a square": (say("<=", say("*", COL, COL), ROW), False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_what_is_no_bound_stays_as_the_rest(name: str) -> None:
    see, first, stop = DENSE[name]
    found = agree(see)
    assert (bool(found.first), bool(found.stop)) == (first, stop)
    assert found.rest is not None


def test_two_lengths_keep_the_alignment_that_the_formula_says() -> None:
    """Top-left is j ≤ i, bottom-right adds what the keys have more; neither is the other."""
    left, right = say("<=", COL, TOP), say("<=", COL, say("-", say("+", TOP, SIZE), ROWS))
    assert agree(left, TGT).stop != agree(right, TGT).stop
    assert agree(right, TGT).rest is None
    assert masks.offset(agree(left, TGT).stop[0].node(), TGT, KEY) is None, "the lengths differ"


def test_bounds_know_the_axes_of_the_row_alone() -> None:
    head = Axis("head", 3)
    wide = say("<=", COL, say("+", ROW, ir.index(head)))
    assert derive(wide, KEY, (BATCH, SEQ)) == Facts((), (), wide)
    assert derive(wide, KEY, (BATCH, SEQ, head)).rest is None


def test_a_deep_relation_needs_no_recursion() -> None:
    deep = say("<=", COL, ROW)
    for turn in range(5000):
        deep = both(deep, say("<", COL, say("+", ROW, turn)))
    assert derive(deep, KEY, (BATCH, SEQ)).rest is not None
    assert never_empty(deep, KEY) == masks.NO_KEY_OF_ALL


# --- at random -----------------------------------------------------------------------------------------------


def numbers() -> st.SearchStrategy[Node]:
    leaves = st.sampled_from([ROW, COL, ROW, COL, SIZE, PREFIX]) | st.integers(-4, 6).map(number)

    def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        two = st.tuples(st.sampled_from(["+", "-", "max", "min"]), inner, inner)
        by = st.tuples(st.sampled_from(["//", "%", "*"]), inner, st.integers(1, 3).map(number))
        return (two | by).map(lambda part: ir.apply(part[0], *part[1:])) | inner.map(lambda x: ir.apply("abs", x))

    return st.recursive(leaves, grown, max_leaves=4)


def relations() -> st.SearchStrategy[Node]:
    fns = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    tests = st.tuples(fns, numbers(), numbers()).map(lambda part: ir.apply(*part))
    leaves = tests | st.sampled_from([GOOD, PART, ir.const(True), ir.const(False)])

    def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        two = st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(lambda part: ir.apply(*part))
        three = st.tuples(inner, inner, inner).map(lambda part: ir.apply("where", *part))
        return two | three | inner.map(lambda one: ir.apply("not", one))

    return st.recursive(leaves, grown, max_leaves=5)


@settings(max_examples=600, deadline=None)
@given(relations())
def test_any_relation_is_its_facts(see: Node) -> None:
    agree(see, lengths=(1, 2, 4, 7))


@settings(max_examples=600, deadline=None)
@given(numbers(), st.integers(1, 6))
def test_the_range_of_a_form_holds_every_value(one: Node, seq: int) -> None:
    made = affine.form(one)
    assert made is not None
    if PREFIX in ir.walk([one]):
        return
    lengths = Lengths({"batch": 1, "seq": seq, "tgt": 1}, {"seq": np.array([seq]), "tgt": np.array([1])})
    evaluate: Callable[[Node], Array] = Evaluator({}, lambda name, axes: np.zeros(0), lengths)
    value = evaluate(one)
    assert affine.least(made) <= value.min()
    assert value.max() <= affine.greatest(made)
    again = made.node()
    np.testing.assert_array_equal(
        np.broadcast_to(align(evaluate(again), again.axes, (BATCH, SEQ, KEY)), (1, seq, seq)),
        np.broadcast_to(align(value, one.axes, (BATCH, SEQ, KEY)), (1, seq, seq)),
    )


# --- empty rows ----------------------------------------------------------------------------------------------

FULL = {
    "nothing is said": None,
    "causal": say("<=", COL, ROW),
    "later": say(">=", COL, ROW),
    "a prefix": say("<", COL, 3),
    "a prefix, then causal": ir.apply("or", say("<", COL, PREFIX), say("<=", COL, ROW)),
    "all but a window": say("<=", COL, say("max", ROW, 4)),
    "a window, and the first key": ir.apply("or", say("==", COL, 0), say("<=", ir.apply("abs", say("-", ROW, COL)), 1)),
    "the last key": say("==", COL, say("-", SIZE, 1)),
    "earlier blocks": say(">=", say("//", ROW, 2), say("//", COL, 2)),
    "later by half": say(">=", say("*", COL, 2), ROW),
    "top-left": say("<=", COL, TOP),
}
MAY_BE_EMPTY = {
    "a window": (say("<=", ir.apply("abs", say("-", ROW, COL)), 1), masks.NO_KEY_OF_ALL),
    "itself": (say("==", ROW, COL), masks.NO_KEY_OF_ALL),
    "strictly earlier": (say("<", COL, ROW), masks.NO_KEY_OF_ALL),
    "blocks": (say("==", say("//", ROW, 2), say("//", COL, 2)), masks.NO_KEY_OF_ALL),
    "all but itself": (say("!=", COL, ROW), masks.NO_KEY_OF_ALL),
    "bottom-right": (say("<=", COL, say("-", say("+", TOP, SIZE), ROWS)), masks.NO_KEY_OF_ALL),
    "a prefix that may be none": (say("<", COL, PREFIX), masks.OF_TOKENS),
    "tokens of the key": (GOOD, masks.OF_TOKENS),
    "tokens of the row": (both(PART, say("<=", COL, ROW)), masks.OF_TOKENS),
    "nothing": (ir.const(False), masks.NO_KEY_OF_ALL),
}


@pytest.mark.parametrize("name", FULL)
def test_rows_that_always_see_something(name: str) -> None:
    assert never_empty(FULL[name], KEY) == ""


@pytest.mark.parametrize("name", MAY_BE_EMPTY)
def test_rows_that_may_be_empty(name: str) -> None:
    see, reason = MAY_BE_EMPTY[name]
    assert never_empty(see, KEY) == reason
    rows = TGT if TGT in see.axes else SEQ
    assert any(
        not (table(see, seq, tgt, rows, seed) & shown(seq, hole)).any(axis=1).all()
        for seq in (1, 2, 5)
        for tgt in ((1, 3, 6) if rows == TGT else (1,))
        for hole in (False, True)
        for seed in range(6)
    ), "a row is empty at some length"


def shown(seq: int, hole: bool) -> Array:
    """The visible keys: the first and the last, and those between if there is no hole."""
    made = np.full(seq, not hole)
    made[[0, -1]] = True
    return made


@settings(max_examples=600, deadline=None)
@given(relations())
def test_a_proof_that_no_row_is_empty_is_right(see: Node) -> None:
    if never_empty(see, KEY) == "":
        for seq in (1, 2, 3, 6):
            for seed in range(3):
                assert (table(see, seq, 1, SEQ, seed) & shown(seq, True)).any(axis=1).all()
