"""Finite differences: a graph's gradients against central differences of its own loss, by the naive evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np

from tests.compiler.spec_tools import Array, rng, weight_values
from transformula.compiler import ir, reference
from transformula.compiler.differentiation import differentiate, gradient_of
from transformula.compiler.evaluate import Evaluator
from transformula.compiler.ir import Axis, Graph, Node, Output

STEP = 1e-5


def with_loss(graph: Graph) -> Graph:
    """The graph with one number made of every entry of every result (real ones), hidden entries too."""
    parts = [_weighted(out.node, graph) for out in graph.outputs if out.node.kind == "real"]
    total = parts[0]
    for one in parts[1:]:
        total = ir.apply("+", total, one)
    return replace(graph, outputs=(Output("loss", total, ()),))


def without_stops(graph: Graph) -> Graph:
    """The graph with no gradient cut: differences of values know nothing of cuts."""

    def change(one: Node) -> Node:
        return one.args[0] if one.op == "map" and one["fn"] == "stop" else one

    return graph.rewrite(change)


def _weighted(node: Node, graph: Graph) -> Node:
    place: Node = ir.const(0.3)
    for number, axis in enumerate(node.axes):
        place = ir.apply("+", place, ir.apply("*", ir.const(0.7 + number), ir.index(axis)))
    wide = ir.apply("*", node, ir.apply("cos", place))
    for axis in _lengths(graph):
        if axis.owner in node.axes:
            wide = ir.where(ir.apply("<", ir.const(0), ir.size(axis)), wide, ir.const(0.0))
    for axis in node.axes:  # what lies beyond an example's end is nothing
        if axis.counted:
            wide = ir.where(ir.apply("<", ir.index(axis), ir.size(axis)), wide, ir.const(0.0))
    return ir.total([wide], node.axes) if node.axes else wide


def _lengths(graph: Graph) -> Iterable[Axis]:
    return dict.fromkeys(axis for one in graph.inputs for axis in one.axes if axis.counted)


def evaluated(
    graph: Graph, weights: Mapping[str, Array], given: Mapping[str, Array], training: bool = False
) -> dict[str, Array]:
    """The results as they stand, by name."""
    aligned, lengths, _ = reference.arranged(graph, {name: np.asarray(value) for name, value in given.items()})
    lookup = reference._lookup(weights)
    run = Evaluator(aligned, lookup, lengths, 0, training)
    return {out.name: run(out.node).transpose([out.node.axes.index(a) for a in out.axes]) for out in graph.outputs}


def gap(graph: Graph, given: Mapping[str, Array], training: bool = False, seed: int = 0, scale: float = 1.0) -> float:
    """How far the gradients are from central differences, along a random direction of all weights, relatively."""
    made = differentiate(graph)
    values = {name: value * scale for name, value in weight_values(graph, seed).items()}
    found = evaluated(made, values, given, training)
    assert all(np.isfinite(value).all() for value in found.values()), "a gradient is no number"
    wide = evaluated(graph, values, given, training)
    assert np.array_equal(found[graph.outputs[0].name], wide[graph.outputs[0].name])
    directions = {name: rng(crc32(name.encode()) + seed).normal(size=value.shape) for name, value in values.items()}
    moved = {}
    for steps in (-1, 1, -2, 2):
        near = {name: value + steps * STEP * directions[name] for name, value in values.items()}
        moved[steps] = float(next(iter(evaluated(graph, near, given, training).values())))
    right = (8 * (moved[1] - moved[-1]) - (moved[2] - moved[-2])) / (12 * STEP)
    mine = sum(float((found[gradient_of(name)] * way).sum()) for name, way in directions.items())
    return abs(mine - right) / max(1.0, abs(right))
