"""A loop over a length that only adds up, read at every step, is one running sum.

    n[0] = 0
    for t in seq:
        n[t + 1] = n[t] + f(x[seq = t])          n[index(seq) + 1] is the running sum of f(x)

Precondition: the first state is 0, and the step enters what is added only as the place of a pick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import ir, kernels
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from .substitute import substitute


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with running sums as kernel nodes."""
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        x = added(one)
        if x is None:
            continue
        loop = one.args[0]
        parts = {"x": ir.widen_to(x, one.axes)}
        new[one] = kernels.make("running_sum", parts, one.axes, kind=one.kind, axis=loop["axis"], loop=loop["loop"])
        origin = graph.origins.get(loop)
        told = "a loop that adds up is one running sum"
        ledger.fired("recognise", "running_sum", told, origin.span if origin else None)
    return substitute(replace(graph, origins=dict(graph.origins)), new) if new else graph


def added(one: Node) -> Node | None:
    """What a running sum adds at each entry of its length, None if the node is no running sum."""
    if one.op != "history" or one.args[0]["slots"] != 1:
        return None
    loop, number = one.args
    axis, first = loop["axis"], loop.args[0]
    while first.op == "widen":
        first = first.args[0]
    if not axis.ragged or loop["start"] or loop.args[1] is not ir.size(axis) or first is not ir.const(0):
        return None
    place = (ir.index(axis), ir.const(1))
    if number not in (ir.apply("+", *place), ir.apply("+", *place[::-1])):
        return None
    (body,) = loop["body"]
    if body.op != "map" or body["fn"] != "+":
        return None
    for state, more in (body.args, body.args[::-1]):
        if state.op == "carry" and state["loop"] == loop["loop"]:
            return _everywhere(more, axis, loop["loop"])
    return None


def _everywhere(one: Node, axis: Axis, loop: int) -> Node | None:
    """The value of a step as a value along the length: x[seq = t] is x."""
    if loop not in one.free:
        return one
    if one.op == "pick" and one["keys"] == (axis,) and one.args[1].op == "counter" and axis in one.args[0].axes:
        return one.args[0] if loop not in one.args[0].free else None
    if one.op != "map":
        return None
    args = list(_all(one.args, axis, loop))
    return ir.apply(one["fn"], *args) if len(args) == len(one.args) else None


def _all(args: tuple[Node, ...], axis: Axis, loop: int) -> Iterator[Node]:
    for arg in args:
        found = _everywhere(arg, axis, loop)
        if found is None:
            return
        yield found
