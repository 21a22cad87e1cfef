"""Which block each node belongs to, and how often each block runs.

    home of a node      the instance whose formula made it; of one without an origin that of its first reader
    home of a weight    the instance that declares it, which its name begins with
    runs of a block     the steps of the loops around it; in the steps of a loop that choose it alone, so many

A block is a path of instances, outermost first: ("bert", "layer[layers]", "attn"); the model itself is ().
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

from ..grammar import syntax as s
from .cost import Pricer
from .ir import Graph, Node, Origin
from .modules import Entry, Module

Place: TypeAlias = tuple[str, ...]

PART = re.compile(r"(?:[^.\[]|\[[^\]]*\])+")


def parts_of(path: str) -> Place:
    """The instances of a path: "layer[layers].attn" → ("layer[layers]", "attn")."""
    return tuple(PART.findall(path))


def home_of_weight(name: str) -> Place:
    """The block that declares a weight."""
    return parts_of(name)[:-1]


def homes(graph: Graph) -> dict[Node, Place]:
    """The block of every node; a weight's is the one that declares it."""
    order = graph.nodes()
    reader: dict[Node, Node] = {}
    for one in reversed(order):  # the first reader comes last, and stays
        reader.update(dict.fromkeys((*one.args, *one["body"]) if one.op == "loop" else one.args, one))
    found: dict[Node, Place] = {}
    for one in reversed(order):
        origin = graph.origins.get(one)
        if one.op == "weight":
            found[one] = home_of_weight(one["name"])
        elif origin is not None:
            found[one] = parts_of(origin.home)
        else:
            found[one] = found[reader[one]] if one in reader else ()
    return found


def levels(graph: Graph) -> dict[Node, int]:
    """How long the longest chain of operations up to each node is; a step of a loop begins behind its first states."""
    order = graph.nodes()
    loops = {one["loop"]: one for one in order if one.op == "loop"}
    found: dict[Node, int] = {}
    for one in order:
        below = (*one.args, *one["body"]) if one.op == "loop" else one.args
        if one.op in ("carry", "past") and one["loop"] in loops:
            below = (*below, loops[one["loop"]].args[one["slot"]])
        found[one] = 1 + max((found.get(arg, 0) for arg in below), default=0)
    return found


def in_order(graph: Graph, home: Mapping[Node, Place], static: Collection[Node]) -> list[Place]:
    """The blocks in the order in which they are done, then those that hold only weights and what is made of these."""
    level = levels(graph)
    done: dict[Place, int] = {}
    for one, place in home.items():
        mine = 0 if one in static else level[one]
        for size in range(len(place) + 1):
            done[place[:size]] = max(done.get(place[:size], 0), mine)
    places = list(dict.fromkeys(home[one] for one in graph.nodes()))

    def key(place: Place) -> list[tuple[bool, int]]:
        return [(not done[place[:size]], done[place[:size]]) for size in range(1, len(place) + 1)]

    return sorted(places, key=key)


def definition_of(module: Module, entry: str, place: Place) -> s.Definition | None:
    """The definition that a block is an instance of; None where the spec has none of this name."""
    here: Entry | None = module.entries.get(entry)
    for depth, part in enumerate(place):
        name = part.partition("[")[0]
        own = () if here is None else here.definition.body.uses
        uses = {one.name: use for use in own for one in use.names}
        use = uses.get(name, module.uses.get(name) if depth == 0 else None)
        scope = here.module if here is not None and name in uses else module
        here = None if use is None else scope.entries.get(use.block.name)
    return None if here is None else here.definition


def runs(graph: Graph, pricer: Pricer, home: Mapping[Node, Place]) -> dict[Place, int]:
    """How often each block runs for one run of the graph; blocks in no loop are left out."""
    around: dict[Place, dict[int, Fraction]] = {}
    loops = {one["loop"]: parts_of(graph.origins.get(one, Origin()).path) for one in pricer.order if one.op == "loop"}
    for one, place in home.items():
        for loop in one.free & loops.keys():
            outer = loops[loop]
            for depth in range(len(outer) + 1, len(place) + 1):  # the loop's own block is around it
                if place[: len(outer)] == outer:
                    block, share = around.setdefault(place[:depth], {}), pricer.shares.get(one, Fraction(1))
                    block[loop] = max(block.get(loop, Fraction(0)), share)
    return {
        place: int(reduce(lambda count, loop: count * pricer.steps[loop] * inside[loop], inside, Fraction(1)))
        for place, inside in around.items()
    }
