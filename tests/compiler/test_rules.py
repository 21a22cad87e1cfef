"""Every rewrite rule by its own samples, and all of them together on random formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.spec_tools import Array, rng
from transformula.compiler import ir, numeric, rules
from transformula.compiler.evaluate import Evaluator, Lengths, align
from transformula.compiler.ir import Axis, Graph, Length, Node, Output
from transformula.compiler.ledger import Ledger
from transformula.compiler.rules import INFERENCE, SIMPLIFY, Rule, algebra, inference, products, renames, rewrite
from transformula.compiler.rules.rule import nothing_against

TABLES = {"algebra": algebra.RULES, "inference": inference.RULES, "products": products.RULES, "renames": renames.RULES}
ALL = (*INFERENCE, *SIMPLIFY)
SAMPLES = [
    pytest.param(rule, one, id=f"{rule.name}-{i}")
    for rule in ALL
    for i, one in enumerate(rule.samples())
]
REFUSED = [
    pytest.param(rule, one, id=f"{rule.name}-{i}")
    for rule in ALL
    for i, one in enumerate(rule.refused())
]
A, B = Axis("a", 3), Axis("b", 2)


def resized(root: Node, size: int) -> Node:
    """The same node with every axis of fixed size having another one (different axes stay different)."""

    def moved(value: Any) -> Any:
        if isinstance(value, Axis):
            new = value.size if isinstance(value.size, Length) else size
            return Axis(value.name, new, moved(value.owner) if value.owner else None, value.tag)
        return tuple(moved(one) for one in value) if isinstance(value, tuple) else value

    done: dict[Node, Node] = {}
    for one in ir.walk([root]):
        attrs = {name: moved(value) for name, value in one.attrs.items()}
        done[one] = ir.node(one.op, [done[arg] for arg in one.args], moved(one.axes), one.kind, **attrs)
    return done[root]


def value(root: Node, seed: int = 0, length: int = 3, training: bool = False, whole: bool = False) -> Array:
    """The node at random (whole) inputs and weights; examples of the lengths have 0 to all entries, some hidden."""
    lengths = Lengths({"batch": 2, "seq": length}, {"seq": np.array([length, length // 2])})
    lengths.visible["seq"] = np.arange(length) < lengths.count["seq"][:, None]
    leaves = [one for one in ir.walk([root]) if one.op in ("input", "weight")]
    extent = Evaluator({}, lambda name, axes: np.zeros(0), lengths).extent
    drawn = {}
    for one in leaves:
        made = rng(seed + crc32(one["name"].encode())).normal(size=[extent(axis) for axis in one.axes])
        rounded = one.kind == "int" or (whole and one.kind != "bool")
        drawn[one["name"]] = np.round(made * 3) if rounded else made > 0 if one.kind == "bool" else made
    return Evaluator(drawn, lambda name, axes: drawn[name], lengths, seed, training)(root)


def applied(rule: Rule, root: Node) -> tuple[Node, list[str]]:
    """The node after one pass of one rule over its parts, and the reasons why the rule was refused."""
    reasons: list[str] = []

    def change(one: Node) -> Node:
        match = rule.find(one)
        if match is None:
            return one
        reason = rule.refuse(match)
        if reason:
            reasons.append(reason)
            return one
        made = rule.make(match)
        assert set(made.axes) == set(one.axes), f"{rule.name} makes {made.axes} of {one.axes}"
        return made

    return ir.transform([root], change)[0], reasons


def same(left: Node, right: Node, **how: Any) -> None:
    found = align(value(right, **how), right.axes, left.axes)
    np.testing.assert_allclose(found, value(left, **how), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_sample_fires_and_keeps_the_value(rule: Rule, sample: Node, size: int) -> None:
    sample = resized(sample, size)
    made, reasons = applied(rule, sample)
    assert made is not sample, "the sample does not fire"
    assert not reasons
    for length in (1, 4):
        for seed in range(3):
            same(sample, made, seed=seed, length=length)
            if rule in SIMPLIFY:
                same(sample, made, seed=seed, length=length, training=True)


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_sample_moves_numbers_as_far_as_its_class_says(rule: Rule, sample: Node, size: int) -> None:
    """exact: whole numbers to the last bit. reassociating: a few units in the last place, for each term of a sum."""
    assert rule.numeric in (numeric.EXACT, numeric.REASSOCIATING), "what approximates is a pass of its own"
    sample = resized(sample, size)
    made = applied(rule, sample)[0]
    for seed in range(4):
        for length in (1, 4):
            how: dict[str, Any] = {"seed": seed, "length": length}
            wanted, whole = (value(sample, **how, whole=one) for one in (False, True))
            found, exact = (align(value(made, **how, whole=one), made.axes, sample.axes) for one in (False, True))
            if rule.numeric == numeric.EXACT:
                np.testing.assert_array_equal(exact, whole)
            else:
                ulps = numeric.ULPS[rule.numeric] * numeric.UNIT * max(np.abs(wanted).max(initial=0.0), 1.0)
                np.testing.assert_allclose(found, wanted, rtol=0, atol=ulps)


def test_a_rule_that_says_exact_and_is_not_is_found_out() -> None:
    wrong = replace(ALL[0], make=lambda match: ir.apply("*", match["x"], ir.const(1 - 2.0**-50)), numeric=numeric.EXACT)
    (sample, *_) = wrong.samples()
    with pytest.raises(AssertionError):
        test_sample_moves_numbers_as_far_as_its_class_says(wrong, sample, 5)


@pytest.mark.parametrize(("rule", "sample"), REFUSED)
def test_refused_sample_stays_and_says_why(rule: Rule, sample: Node) -> None:
    made, reasons = applied(rule, sample)
    assert made is sample
    assert reasons
    assert all(reason.strip() and "\n" not in reason for reason in reasons)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_rule_is_told_in_full(rule: Rule) -> None:
    assert rule.samples(), "a rule without a sample is not tested"
    assert rule.law.strip()
    assert rule.why.strip()
    assert "\n" not in rule.law + rule.why
    assert bool(rule.refused()) == (rule.refuse is not nothing_against), (
        "each refusal has a sample, and only those"
    )


def test_every_table_is_in_the_list_and_names_are_unique() -> None:
    listed = [rule for table in TABLES.values() for rule in table]
    assert {rule.name for rule in listed} == {rule.name for rule in ALL}
    assert len({rule.name for rule in ALL}) == len(ALL)
    files = [name for name in dir(rules) if hasattr(getattr(rules, name), "RULES")]
    assert sorted(files) == sorted(TABLES), "a new file of rules belongs into TABLES above"


# --- what must not change ------------------------------------------------------------------------------------


def graph_of(roots: Sequence[Node]) -> Graph:
    outputs = tuple(Output(f"o{i}", one, one.axes) for i, one in enumerate(roots))
    return Graph("g", outputs, (), (), {})


def simplified(root: Node, table: Sequence[Rule] = SIMPLIFY) -> Node:
    return rewrite(graph_of([root]), table, "simplify", Ledger(), 24).roots[0]


X, Y = ir.input_("x", (A, B), "real"), ir.input_("y", (B,), "real")
N, C = ir.input_("n", (A,), "int"), ir.input_("c", (A, B), "bool")
Z, V = ir.input_("z", (A, B), "real"), ir.input_("v", (B, Axis("c", 2)), "real")


@pytest.mark.parametrize(
    "kept",
    [
        ir.apply("-", ir.const(0), X),
        ir.apply("/", ir.const(1), X),
        ir.apply("^", ir.const(1), X),
        ir.apply("^", X, ir.const(3)),
        ir.apply("neg", ir.apply("not", C)),
        ir.reduce("mean", ir.where(C, X, ir.const(0)), (A,)),
        ir.reduce("sum", ir.where(C, X, ir.const(1)), (A,)),
        ir.reduce("max", ir.where(C, X, ir.const(0)), (A,)),
        ir.where(C, ir.where(ir.apply("not", C), X, ir.const(1)), Y),
        ir.apply("/", X, ir.const(0)),
        # shares of another sum, a factor without the axis that is summed over, and dropout of everything
        ir.apply("/", ir.contract(ir.apply("exp", Z), V, (B,)), ir.reduce("sum", ir.apply("exp", X), (B,))),
        ir.reduce("sum", ir.apply("*", X, ir.input_("w", (Axis("c", 2),), "real")), (B,)),
        ir.draw("dropout", (X, ir.const(1)), (), "real", "site"),
    ],
    ids=repr,
)
def test_near_misses_stay(kept: Node) -> None:
    assert simplified(kept) is kept


def test_a_relation_that_is_wider_than_the_sum_stays_right() -> None:
    wide = ir.reduce("sum", ir.where(ir.apply(">", Y, ir.const(0)), X, ir.const(0)), (A, B))
    same(wide, simplified(wide))
    narrow = ir.reduce("sum", ir.where(ir.apply(">", Y, ir.const(0)), ir.const(2), ir.const(0)), (B,))
    same(narrow, simplified(narrow))


def test_rewriting_ends_and_is_idempotent() -> None:
    deep = X
    for _ in range(2000):
        deep = ir.apply("*", ir.apply("+", deep, ir.const(0)), ir.const(1))
    assert simplified(deep) is X
    turned = X
    for _ in range(100):
        turned = ir.apply("neg", turned)
    assert simplified(turned) is X


def test_ledger_has_a_line_for_each_kind_of_firing_and_refusal() -> None:
    ledger = Ledger()
    both = [ir.apply("+", X, ir.const(0)), ir.apply("/", N, ir.const(1)), ir.apply("+", Y, ir.const(0))]
    rewrite(graph_of(both), SIMPLIFY, "simplify", ledger)
    fired = [(line.rule, line.count) for line in ledger.lines if line.fired]
    assert fired == [("neutral", 2)]
    assert [(line.rule, bool(line.reason)) for line in ledger.lines if not line.fired] == [("neutral", True)]


# --- random formulas -----------------------------------------------------------------------------------------


def constant(value: object) -> Node:
    assert isinstance(value, int | float | Fraction)
    return ir.const(value)


NUMBERS = st.sampled_from([0, 1, 2, -1, Fraction(1, 2), Fraction(3, 7), 0.1])
LEAVES = st.one_of(st.sampled_from([X, Y, N]), NUMBERS.map(constant))
SAFE = ("+", "-", "*", "max", "min")


def conditions(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    tests = st.builds(ir.apply, st.sampled_from(["<", ">="]), children, children)
    return st.one_of(st.just(C), tests, tests.map(lambda one: ir.apply("not", ir.apply("not", one))))


def longer(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(ir.apply, st.sampled_from(SAFE), children, children),
        st.builds(ir.apply, st.sampled_from(["neg", "abs", "stop", "tanh"]), children),
        st.builds(lambda x: ir.apply("^", x, ir.const(2)), children),
        st.builds(ir.where, conditions(children), children, children),
        st.builds(
            summed, st.sampled_from(["sum", "mean", "max"]), children, conditions(children), st.booleans()
        ),
        st.builds(lambda x: ir.draw("dropout", (x, ir.const(Fraction(1, 10))), (), "real", "s"), children),
        st.builds(turned, children),
    )


def summed(kind: str, x: Node, condition: Node, inside: bool) -> Node:
    over = tuple(axis for axis in x.axes if axis == B)
    if not over:
        return x
    return ir.reduce(
        kind, ir.where(condition, x, ir.const(0)) if inside else x, over, None if inside else condition
    )


def turned(x: Node) -> Node:
    """The value through another axis of the same size."""
    other = Axis("b", 2, None, 9)
    if B not in x.axes:
        return x
    there = ir.apply("tanh", ir.rename(x, {B: other}))
    return ir.rename(ir.apply("*", there, ir.const(2)), {other: B})


@settings(max_examples=150, deadline=None)
@given(root=st.recursive(LEAVES, longer, max_leaves=12), seed=st.integers(0, 5))
def test_random_formula_keeps_its_value(root: Node, seed: int) -> None:
    """Outside training and in it, where the draws are the same; and outside it without any draw."""
    made = simplified(root)
    assert set(made.axes) == set(root.axes)
    for training in (False, True):
        same(root, made, seed=seed, training=training)
    assert simplified(made) is made
    used = simplified(root, ALL)
    same(root, used, seed=seed)
    assert not any(one.op == "random" or one.get("fn") == "stop" for one in ir.walk([used]))


def test_origins_go_along() -> None:
    origin = ir.Origin(None, "p", "n", "b")
    old = ir.apply("+", ir.apply("^", X, ir.const(2)), ir.const(0))
    graph = replace(graph_of([old]), origins={old: origin})
    made = rewrite(graph, SIMPLIFY, "simplify", Ledger())
    assert made.origins[made.roots[0]] == origin


def test_an_exact_number_is_not_a_rounded_one() -> None:
    """Which of them was made first, somewhere else, must change nothing."""
    rounded, exact = ir.const(0.5), ir.const(Fraction(1, 2))
    assert (type(rounded["value"]), type(exact["value"])) == (float, Fraction)
    assert ir.const(0.5) is rounded
    assert ir.const(Fraction(1, 2)) is exact
    axis = Axis("a", 1)
    assert type(ir.table((0.5,), axis)["values"][0]) is float
    assert type(ir.table((Fraction(1, 2),), axis)["values"][0]) is Fraction
