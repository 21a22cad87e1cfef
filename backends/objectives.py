"""What the objectives of a model ask of a call, as the plain literals that backends/numpy/border.py chooses one by."""

from __future__ import annotations

from ..compiler.driver import Compiled
from ..compiler.ir import Graph, Node, walk_all
from .limits import input_rows
from .numpy.border import LabelRow, LossRow


def loss_rows(compiled: Compiled) -> tuple[LossRow, ...]:
    """(name, its own inputs, the results that it reads, the largest label of each input) of each objective."""
    known = {one.name for one in compiled.formula.inputs} | {one.name for one in compiled.formula.outputs}
    return tuple(_row(one, known) for one in compiled.losses)


def _row(loss: Compiled, known: set[str]) -> LossRow:
    graph = loss.formula
    own = tuple(row for row in input_rows(graph) if row[0] not in known)
    read = tuple(one.name for one in graph.inputs if one.name in known)
    names = {row[0] for row in own}
    return loss.entry, own, read, tuple(row for row in _labels(graph) if row[0] in names)


def _labels(graph: Graph) -> list[LabelRow]:
    """(input, limit, marker): the entries of an input that is a place along an axis of known size.

    The marker is the number that a condition leaves out, if there is one.
    """
    nodes = list(walk_all(graph.roots))
    markers = {name: number for one in nodes if (pair := _unequal(one)) is not None for name, number in [pair]}
    found: dict[LabelRow, None] = {}
    for one in nodes:
        if one.op != "pick":
            continue
        for axis, place in zip(one["keys"], one.args[1:], strict=True):
            source = _bare(place)
            if isinstance(axis.size, int) and source.op == "input":
                found[str(source["name"]), axis.size, markers.get(str(source["name"]))] = None
    return list(found)


def _unequal(one: Node) -> tuple[str, int] | None:
    """labels ≠ -100 → (labels, -100)"""
    if one.op != "map" or one["fn"] != "!=":
        return None
    left, right = (_bare(arg) for arg in one.args)
    if left.op != "input" or right.op != "const" or right["value"] != int(right["value"]):
        return None
    return str(left["name"]), int(right["value"])


def _bare(one: Node) -> Node:
    while one.op in ("rename", "widen"):
        one = one.args[0]
    return one
