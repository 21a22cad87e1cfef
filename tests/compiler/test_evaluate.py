"""The naive evaluator of core operations against NumPy, and laws of single operations."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, close, rng
from transformula.compiler import ir, kernels, ops
from transformula.compiler.driver import compile_graph
from transformula.compiler.evaluate import Evaluator, Lengths, align
from transformula.compiler.ir import Axis, Length, Node

A, B, C, BATCH, SEQ = (
    Axis("a", 3),
    Axis("b", 4),
    Axis("c", 2),
    Axis("batch", Length("batch")),
    Axis("seq", Length("seq"), Axis("batch", Length("batch"))),
)
X, Y = ir.input_("x", (A, B), "real"), ir.input_("y", (B, C), "real")
FLOATS = st.floats(-5, 5, allow_nan=False, width=32)
QUICK = settings(max_examples=25, deadline=None)


def run(node: Node, lengths: Lengths | None = None, **inputs: Any) -> Array:
    return Evaluator({k: np.asarray(v) for k, v in inputs.items()}, _none, lengths)(node)


def _none(name: str, axes: tuple[Axis, ...]) -> Array:
    raise KeyError(name)


def numbers(*shape: int) -> st.SearchStrategy[Array]:
    return arrays(np.float64, shape, elements=FLOATS)


REAL: Mapping[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
    "neg": np.negative,
    "erf": np.vectorize(math.erf),
    "stop": lambda x: x,
}


@pytest.mark.parametrize(
    "name", [n for n, row in ops.FUNCTIONS.items() if row.arity == 1 and row.takes != "truth"]
)
def test_functions_of_one_number(name: str) -> None:
    x = np.abs(rng(1).normal(size=(3, 4))) + 0.1
    close(run(ir.apply(name, X), x=x), REAL[name](x))


TWO: Mapping[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "^": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


@pytest.mark.parametrize(
    "name", [n for n, row in ops.FUNCTIONS.items() if row.arity == 2 and row.takes != "truth"]
)
def test_functions_of_two_numbers_align_by_name(name: str) -> None:
    x, y = np.abs(rng(1).normal(size=(3, 4))) + 0.1, np.abs(rng(2).normal(size=(4, 2))) + 0.1
    found = run(ir.apply(name, X, Y), x=x, y=y)
    close(found, TWO[name](x[:, :, None], y[None]))


def test_every_function_has_a_test_row() -> None:
    assert {n for n, row in ops.FUNCTIONS.items() if row.takes != "truth" and row.arity < 3} == set(
        REAL
    ) | set(TWO)


def test_logic_and_selection() -> None:
    p, q = ir.apply(">", X, ir.const(0)), ir.apply("<", X, ir.const(1))
    x = rng(1).normal(size=(3, 4))
    assert (run(ir.apply("and", p, q), x=x) == ((x > 0) & (x < 1))).all()
    assert (run(ir.apply("or", ir.apply("not", p), q), x=x) == ((x <= 0) | (x < 1))).all()
    close(run(ir.where(p, X, ir.const(2)), x=x), np.where(x > 0, x, 2))


def test_a_selection_by_a_constant_has_the_axes_of_both_sides() -> None:
    made = ir.where(ir.const(True), ir.const(1), X)
    assert set(made.axes) == {A, B}
    close(run(made, x=np.zeros((3, 4))), np.ones((3, 4)))


@given(numbers(3, 4), numbers(4, 2))
@QUICK
def test_contraction(x: Array, y: Array) -> None:
    close(run(ir.contract(X, Y, [B]), x=x, y=y), x @ y, 1e-9)
    close(run(ir.contract(X, Y, []), x=x, y=y), x[:, :, None] * y[None], 1e-9)


@given(numbers(3, 4), numbers(3, 4), numbers(4, 2))
@QUICK
def test_contraction_is_linear(x: Array, z: Array, y: Array) -> None:
    node = ir.contract(X, Y, [B])
    close(run(node, x=x + z, y=y), run(node, x=x, y=y) + run(node, x=z, y=y), 1e-8)


SUMS: Mapping[str, Any] = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("kind", SUMS)
@given(x=numbers(3, 4))
@QUICK
def test_reductions(kind: str, x: Array) -> None:
    close(run(ir.reduce(kind, X, [B]), x=x), SUMS[kind](x, axis=1), 1e-9)
    close(run(ir.reduce(kind, X, [A, B]), x=x), SUMS[kind](x), 1e-9)


@pytest.mark.parametrize("kind", SUMS)
@given(x=numbers(3, 4), keep=arrays(bool, (3, 4)))
@QUICK
def test_restricted_reductions_see_the_chosen_entries_only(kind: str, x: Array, keep: Array) -> None:
    condition = ir.apply(">", ir.input_("keep", (A, B), "real"), ir.const(0))
    found = run(ir.reduce(kind, X, [B], condition), x=x, keep=keep)
    for row in range(3):
        chosen = x[row, keep[row]]
        wanted = SUMS[kind](chosen) if len(chosen) else 0.0 if kind == "mean" else ops.REDUCTIONS[kind].empty
        close(found[row], wanted, 1e-9)


@given(numbers(3, 4))
@QUICK
def test_norm_argmax_and_rank(x: Array) -> None:
    close(run(ir.reduce("norm", X, [B]), x=x), np.linalg.norm(x, axis=1), 1e-9)
    close(run(ir.reduce("argmax", X, [B]), x=x), x.argmax(1).astype(float))
    rank = run(ir.rank(X, B), x=x)
    assert (np.sort(rank, 1) == np.arange(4)).all()
    close(np.take_along_axis(x, np.argsort(rank, 1), 1), -np.sort(-x, 1))


@given(numbers(3, 4), arrays(np.int64, (3, 2), elements=st.integers(-6, 6)))
@QUICK
def test_pick_takes_or_is_undefined(x: Array, at: Array) -> None:
    found = run(ir.pick(X, {B: ir.input_("at", (A, C), "int")}), x=x, at=at)
    inside = (at >= 0) & (at < 4)
    close(found[inside], np.take_along_axis(x, np.clip(at, 0, 3), 1)[inside])
    assert np.isnan(found[~inside]).all()


def test_an_undefined_place_is_undefined() -> None:
    at = ir.pick(ir.index(B), {B: ir.input_("at", (A,), "int")})
    found = run(ir.pick(X, {B: at}), x=np.ones((3, 4)), at=[0, 9, 3])
    assert np.isnan(found).tolist() == [False, True, False]


def test_rename_split_merge_concat_widen() -> None:
    x = rng(1).normal(size=(3, 4))
    z, two, six = Axis("z", 3), Axis("two", 2), Axis("half", 2)
    close(run(ir.rename(X, {A: z}), x=x), x)
    assert ir.rename(X, {A: z}).axes == (z, B)
    close(run(ir.split(X, B, (two, six)), x=x), x.reshape(3, 2, 2))
    whole = Axis("whole", 12)
    close(run(ir.merge(X, (A, B), whole), x=x), x.reshape(12))
    close(run(ir.merge(X, (B, A), whole), x=x), x.T.reshape(12))
    joined = Axis("joined", 9)
    found = run(ir.concat([X, ir.const(7), X], [B, None, B], joined), x=x)
    close(found, np.concatenate([x, np.full((3, 1), 7.0), x], 1))
    close(run(ir.widen(X, C), x=x), np.repeat(x[..., None], 2, -1))


@given(numbers(3, 4))
@QUICK
def test_split_then_merge_is_nothing(x: Array) -> None:
    two, half = Axis("two", 2), Axis("half", 2)
    close(run(ir.merge(ir.split(X, B, (two, half)), (two, half), B), x=x), x, 0)


def test_renaming_twice_is_renaming_once() -> None:
    z, w = Axis("z", 3), Axis("w", 3)
    assert ir.rename(ir.rename(X, {A: z}), {z: w}) is ir.rename(X, {A: w})
    assert ir.rename(ir.rename(X, {A: z}), {z: A}) is X


def test_equal_nodes_are_one_object() -> None:
    assert ir.apply("+", X, ir.const(1)) is ir.apply("+", X, ir.const(1))
    assert ir.const(1) is not ir.const(True)


def test_leaves() -> None:
    close(run(ir.index(B)), np.arange(4.0))
    close(run(ir.size(B)), 4.0)
    close(run(ir.const(2.5)), 2.5)
    close(run(ir.table([1.5, 2.5, 3.5], A)), [1.5, 2.5, 3.5])


def ragged() -> Lengths:
    seen = np.array([[True, True, True], [True, False, False]])
    return Lengths({"batch": 2, "seq": 3}, {"seq": seen.sum(1)}, {"seq": seen})


T = ir.input_("t", (BATCH, SEQ), "real")


def test_lengths_condition_reductions_over_them_and_over_their_owner() -> None:
    t = np.array([[1.0, 2, 3], [4, np.nan, 99]])
    close(run(ir.reduce("sum", T, [SEQ]), ragged(), t=t), [6.0, 4])
    close(run(ir.reduce("mean", T, [SEQ]), ragged(), t=t), [2.0, 4])
    close(run(ir.reduce("sum", T, [BATCH]), ragged(), t=t), [5.0, 2, 3])
    close(run(ir.reduce("max", T, [BATCH, SEQ]), ragged(), t=t), 4.0)
    close(run(ir.contract(T, T, [SEQ]), ragged(), t=t), [14.0, 16])
    close(run(ir.contract(T, ir.index(SEQ), [SEQ]), ragged(), t=t), [8.0, 0])
    close(run(ir.size(SEQ), ragged()), [3.0, 1])


def test_reducing_a_table_of_places_leaves_the_owner() -> None:
    made = ir.reduce("sum", ir.index(SEQ), [SEQ])
    assert made.axes == (BATCH,)
    close(run(made, ragged()), [3.0, 0])


def test_a_place_beyond_an_examples_end_is_undefined() -> None:
    found = run(ir.pick(T, {SEQ: ir.const(2)}), ragged(), t=np.ones((2, 3)))
    assert np.isnan(found).tolist() == [False, True]


def test_floor_forgives_rounding() -> None:
    close(
        run(
            ir.apply("floor", ir.apply("/", ir.apply("log", X), ir.const(math.log(2)))),
            x=np.full((3, 4), 8.0),
        ),
        np.full((3, 4), 3.0),
    )


@pytest.mark.parametrize("target", [(A, B), (B, A), (C, A, B), (B, C, A)])
def test_align(target: tuple[Axis, ...]) -> None:
    x = rng(1).normal(size=(3, 4))
    found = align(x, (A, B), target)
    assert found.shape == tuple({A: 3, B: 4}.get(axis, 1) for axis in target)
    np.testing.assert_array_equal(found.squeeze(), x if target.index(A) < target.index(B) else x.T)


def test_a_long_chain_is_no_recursion() -> None:
    node: Node = ir.const(0)
    for _ in range(5000):
        node = ir.apply("+", node, X)
    close(run(node, x=np.ones((3, 4))), np.full((3, 4), 5000.0))


def test_a_kernel_is_expanded_once_however_many_steps_evaluate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text, entry, sizes = zoo.SHIPPED["bert"]
    seen: list[ir.Node] = []
    expanded = kernels.expanded

    def noted(one: Node) -> Node:
        seen.append(one)
        return expanded(one)

    monkeypatch.setattr(kernels, "expanded", noted)
    for layers in (2, 5):
        graph = compile_graph(text, entry=entry, settings={**sizes, "layers": layers}).graph
        seen.clear()
        zoo.reference_results(graph, zoo.inputs("bert"))
        assert any(one["name"] == "attention" for one in seen)
        assert len(seen) == len(set(seen))
