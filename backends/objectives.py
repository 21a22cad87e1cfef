"""What the objectives of a model ask of a call, as the plain literals that backends/numpy/border.py chooses one by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..compiler.driver import Compiled
from ..compiler.ir import Graph, Node, walk_all
from ..compiler.objectives import TEXT
from ..compiler.passes.parameters import is_parameter
from .limits import input_rows
from .numpy.border import LabelRow, LossRow

SEED = "seed"
"""What a call of an objective that draws takes, and 0 if it says nothing."""


def over_batch(graph: Graph) -> Graph:
    """The graph of an objective with the axis that its model runs over as its batch: examples, or all their texts."""
    if graph.groups is not None:
        return replace(graph, batch=TEXT)
    return replace(graph, batch=next(a for one in graph.inputs for a in one.axes if a.ragged and a.owner is None))


def own_inputs(graph: Graph) -> tuple[str, ...]:
    """The inputs that are an example's own, where an example has several texts."""
    return tuple(one.name for one in graph.inputs if graph.groups is not None and graph.groups[0] in one.axes)


def draws(graph: Graph) -> bool:
    """Whether the formulas themselves draw."""
    return any(one.op == "random" and one["draw"] != "dropout" for one in walk_all(graph.roots))


def loss_rows(compiled: Compiled) -> tuple[LossRow, ...]:
    """(name, its own inputs, the results that it reads, the largest label of each input) of each objective."""
    known = {one.name for one in compiled.formula.inputs} | {one.name for one in compiled.formula.outputs}
    return tuple(_row(one, known) for one in compiled.losses)


def _row(loss: Compiled, known: set[str]) -> LossRow:
    graph = loss.formula
    own = tuple(row for row in input_rows(graph) if row[0] not in known)
    read = tuple(one.name for one in graph.inputs if one.name in known)
    names = {row[0] for row in own}
    return loss.entry, own, read, tuple(row for row in label_rows(graph) if row[0] in names)


def label_rows(graph: Graph) -> list[LabelRow]:
    """(input, limit, marker): the entries of an input that is a place along an axis of known size.

    The marker is the number that a condition leaves out, if there is one.
    """
    nodes = list(walk_all(graph.roots))
    markers = {name: number for one in nodes for name, number in _unequal(one)}
    found: dict[LabelRow, None] = {}
    for one in nodes:
        if one.op != "pick" or is_parameter(one.args[0]):  # a place of a table is no label
            continue
        for axis, place in zip(one["keys"], one.args[1:], strict=True):
            if isinstance(axis.size, int):
                for name in _sources(place):
                    found[name, axis.size, markers.get(name)] = None
    return list(found)


def _unequal(one: Node) -> Iterator[tuple[str, int]]:
    """labels ≠ -100 → (labels, -100)"""
    if one.op == "map" and one["fn"] == "!=" and _bare(one.args[1]).op == "const":
        number = _bare(one.args[1])["value"]
        if number == int(number):
            yield from ((name, int(number)) for name in _sources(one.args[0]))


def _sources(place: Node) -> Iterator[str]:
    """The inputs whose entries a value is: the input itself, entries of it elsewhere, one of two under a condition."""
    place = _bare(place)
    if place.op == "input":
        yield str(place["name"])
    elif place.op == "pick":
        yield from _sources(place.args[0])
    elif place.op == "map" and place["fn"] == "where":
        yield from (name for one in place.args[1:] for name in _sources(one))


def _bare(one: Node) -> Node:
    while one.op in ("rename", "widen"):
        one = one.args[0]
    return one
