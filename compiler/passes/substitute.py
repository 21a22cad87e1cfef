"""Replacing nodes of a graph by others, wherever they stand, loops included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import ir
from ..ir import Graph, Node
from ..rules.rule import inherit


def substitute(graph: Graph, new: Mapping[Node, Node]) -> Graph:
    """Replaces nodes by others over the same arguments, from the results down, so that inner parts are replaced too."""
    origins = dict(graph.origins)
    done: dict[Node, Node] = {}

    def rebuilt(one: Node) -> Node:
        made = new.get(one, one)
        if made is not one:
            inherit(origins, one, made)
        return made

    order = list(_reachable(graph.roots, new))
    for one in order:
        target = rebuilt(one)
        args = tuple(done.get(arg, arg) for arg in target.args)
        if target.op == "loop":
            args = args[: target["slots"] + 1]
            body = tuple(done[part] for part in target["body"])
            same = all(a is b for a, b in zip(args, target.args, strict=False)) and body == target["body"]
            made = target if same else ir.rebuild(target, args, body)
        else:
            made = ir.rebuild(target, args)
        done[one] = made
        if made is not one:
            ir.take_origin(origins, one, made)
    outputs = tuple(replace(o, node=done[o.node]) for o in graph.outputs)
    return replace(graph, outputs=outputs, origins=origins)


def _reachable(roots: tuple[Node, ...], new: Mapping[Node, Node]) -> Iterator[Node]:
    """Nodes below the roots, arguments first, through the replacements' own arguments."""

    def below(one: Node) -> tuple[Node, ...]:
        target = new.get(one, one)
        return (*target.args[: target["slots"] + 1], *target["body"]) if target.op == "loop" else target.args

    return ir.ordered(roots, below)
