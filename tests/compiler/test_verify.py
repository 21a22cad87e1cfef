"""The verifier: a graph that is not in order is a fault of transformula, and told as one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import lowered
from transformula.compiler import ir, kernels, pipeline
from transformula.compiler.ir import Axis, Graph, Node, Output, Weight
from transformula.compiler.verify import verify
from transformula.grammar.diagnostics import InternalError, TransformulaError

A, B = Axis("a", 3), Axis("b", 2)
X = ir.input_("x", (A, B), "real")
W = ir.weight("w", (A,))
Y = ir.input_("y", (A,), "real")


def graph(one: Node, axes: tuple[Axis, ...] | None = None, weights: tuple[Weight, ...] = ()) -> Graph:
    return Graph("g", (Output("o", one, one.axes if axes is None else axes),), (), weights, {})


def weight(name: str, *axes: Axis) -> Weight:
    return Weight(name, axes, (), (), None, "")


def looped(body: Callable[[Node], list[Node]], first: Node = X) -> Node:
    """A loop of two steps over one state."""
    carry = ir.carry(77, 0, first)
    made = ir.node(
        "loop",
        (first, ir.const(2)),
        first.axes,
        loop=77,
        axis=A,
        start=0,
        slots=1,
        body=tuple(body(carry)),
        name="l",
    )
    return ir.node("state", (made,), first.axes, slot=0)


BROKEN = {
    "an operation that does not exist": (graph(ir.node("conjure", (X,), X.axes)), "conjure"),
    "an axis twice": (graph(ir.node("map", (X, X), (A, A), fn="+")), "twice"),
    "a function without its second argument": (graph(ir.node("map", (X,), X.axes, fn="+")), "1 argument"),
    "a product over an axis that one side lacks": (
        graph(ir.node("contract", (X, Y), (A,), over=(B,))),
        "lacks",
    ),
    "a pick along an axis that is not there": (
        graph(ir.node("pick", (Y, ir.const(0)), (A,), keys=(B,))),
        "lacks",
    ),
    "a kernel without a meaning": (graph(ir.kernel("conjure", (X,), X.axes, roles=("x",))), "conjure"),
    "a kernel with a part too many": (graph(ir.kernel("gelu", (X, Y), X.axes, roles=("x",))), "parts"),
    "a weight that the table lacks": (graph(W), "w"),
    "a weight with other axes": (graph(W, None, (weight("w", B),)), "w"),
    "a result with other axes": (graph(X, (A,)), "o"),
    "a result with an axis too many": (graph(W, (A, B), (weight("w", A),)), "o"),
    "a result inside a loop": (graph(ir.apply("*", ir.counter(77), X)), "step"),
    "a loop with a state too many": (graph(looped(lambda s: [s, s])), "states"),
    "a loop that changes the axes of its state": (
        graph(looped(lambda s: [ir.reduce("sum", s, (A,))])),
        "axes",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graph_is_an_internal_error(name: str) -> None:
    broken, told = BROKEN[name]
    with pytest.raises(InternalError, match=told) as caught:
        verify(broken)
    assert not isinstance(caught.value, TransformulaError), "it is not the author's mistake"


def test_sound_graphs_pass() -> None:
    verify(graph(X))
    verify(graph(W, None, (weight("w", A),)))
    verify(graph(looped(lambda s: [ir.apply("*", s, ir.counter(77))])))
    verify(graph(kernels.make("gelu", {"x": X, "bias": W}, X.axes), None, (weight("w", A),)))
    verify(graph(X, (B, A)))  # a result may order its axes


def test_every_stage_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that breaks the graph is caught at once, not by a later one."""
    formula = lowered(zoo.ZOO["gpt"])
    seen: list[int] = []
    monkeypatch.setattr(pipeline, "verify", lambda one: seen.append(len(one.outputs)))
    stages, _ = pipeline.run(formula)
    assert len(seen) == len(stages)


def test_deep_graph_needs_no_recursion() -> None:
    deep = X
    for number in range(20_000):
        deep = ir.apply("+", deep, ir.const(number + 1))
    verify(graph(deep))
