"""Which results a user wants, and which rows of them: what nobody wants is not computed.

    results = ("sentence_embedding",)   the other results are left out
    rows = {"logits": "last"}           logits[vocab]: of the last token (`first`: of the first)
    rows = {"logits": "positions"}      logits[positions, vocab]: at the places at_positions[batch, positions], a new
                                        input; 0 where the place is -1

The graph only says what is wanted; the pass push_picks then finds out what need not be computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..grammar.diagnostics import did_you_mean, error
from . import ir
from .ir import Axis, Graph, Input, Length, Node, Output

WAYS = ("first", "last", "positions")
"""What `rows` may say."""

PLACES = "at_positions"
"""The input that says which rows are wanted: as many places for each example, -1 where there is none."""


def wanted(graph: Graph, results: Sequence[str] = (), rows: Mapping[str, str] | None = None) -> Graph:
    """The graph with these results only (all if none is named), and of some of them these rows.

    Raises `TransformulaError` for names and ways that are not known, and for a result without tokens.
    """
    rows = rows or {}
    for name in (*results, *rows):
        _check_name(graph, name, results)
    outputs = [out for out in graph.outputs if not results or out.name in results]
    made = tuple(_rows_of(graph, out, rows[out.name]) if out.name in rows else out for out in outputs)
    if "positions" not in rows.values():
        return replace(graph, outputs=made)
    return replace(graph, outputs=made, inputs=(*graph.inputs, _positions(graph)))


def _check_name(graph: Graph, name: str, results: Sequence[str]) -> None:
    known = [out.name for out in graph.outputs]
    if name not in known or (results and name not in results):
        left = f"`{name}` is not among the wanted results" if name in known else f"{graph.name} has no result `{name}`"
        known = [one for one in known if not results or one in results] if name in known else known
        raise error("C639", left, help=did_you_mean(name, known) or f"There are {', '.join(known)}.")


def _positions(graph: Graph) -> Input:
    assert graph.batch is not None
    if any(one.name == PLACES for one in graph.inputs):
        raise error("C641", f"{graph.name} has an input `{PLACES}` of its own", help="Pick the rows in the spec.")
    return Input(PLACES, PLACES, (graph.batch, Axis("positions", Length("positions"))), "int", True)


def _rows_of(graph: Graph, out: Output, way: str) -> Output:
    if way not in WAYS:
        raise error("C640", f"rows = {way!r} is none of {', '.join(WAYS)}", help=did_you_mean(way, WAYS))
    tokens = [axis for axis in out.axes if axis.ragged and axis.owner is not None]
    if len(tokens) != 1 or graph.batch is None or out.listed or graph.each:
        told = ", ".join(str(axis) for axis in out.axes)
        raise error("C641", f"{out.name}[{told}] has no rows to choose from", help="Rows are entries along one length.")
    (axis,) = tokens
    if way != "positions":
        place = ir.const(0) if way == "first" else ir.apply("-", ir.size(axis), ir.const(1))
        return replace(out, node=ir.pick(out.node, {axis: place}), axes=tuple(a for a in out.axes if a != axis))
    given = _positions(graph)
    axes = tuple(given.axes[1] if a == axis else a for a in out.axes)
    return replace(out, node=_at(out.node, axis, given), axes=axes)


def _at(value: Node, axis: Axis, given: Input) -> Node:
    """The value at the given places, 0 where the place is -1."""
    place = ir.input_(given.name, given.axes, given.kind)
    chosen = ir.pick(value, {axis: ir.apply("max", place, ir.const(0))})
    return ir.where(ir.apply("==", place, ir.const(-1)), ir.const(0), chosen)
