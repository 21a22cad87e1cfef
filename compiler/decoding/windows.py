"""How many of the kept rows a later step can still see: a window of w keys needs the w − 1 before the new one.

Rows that only attention within bounds reads may go once they lie before its first key, for every later row. How far
back a row looks is read off its bounds, step by step of the loop where layers differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import ir, kernels
from .. import steps as by_step
from ..affine import Form, constant, form
from ..ir import Graph, Node

Windows = Mapping[str, tuple[int | None, ...]]


def windows(step: Graph, steps: Mapping[str, tuple[int, ...]]) -> Windows:
    """For each kept value (by name), how many old rows each step of its loop needs; None for all of them.

    It is exactly how far back every row looks. `steps` are the numbers of steps that the values have rows of their own
    in. Values that need all rows everywhere are left out, and so are those that anything but attention reads.
    """
    back: dict[str, dict[int, int | None]] = {}
    readers: dict[Node, list[Node]] = {}
    nodes = step.nodes()
    selections = by_step.selections(nodes)
    paths = by_step.paths(nodes, step.roots, selections)
    for one in nodes:
        for arg in one.args:
            readers.setdefault(arg, []).append(one)
    for one in nodes:
        if one.op != "append" or len(steps.get(one["name"], ())) > 1:
            continue
        found = back.setdefault(one["name"], {})
        count = (*steps[one["name"]], 1)[0]
        number = one.args[1] if len(one.args) > 1 else None
        places = [int(number["value"])] if number is not None and number.op == "const" else range(count)
        for place in places:
            reach = [
                _back(reader, one, number, place)
                for reader in readers.get(one, [])
                if number is None
                or number.op != "counter"
                or all(selections[made][1][place : place + 1] == (side == 1,) for made, side in paths.get(reader, ()))
            ]
            mine = None if None in reach else max((far for far in reach if far is not None), default=0)
            found[place] = mine if place not in found else _wider(found[place], mine)
    made = {name: tuple(found.get(place) for place in range((*steps[name], 1)[0])) for name, found in back.items()}
    return {name: each for name, each in made.items() if any(far is not None for far in each)}


def _wider(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _back(reader: Node, kept: Node, number: Node | None, place: int) -> int | None:
    """How many rows before its own a row of attention looks at; None where that has no bound, or is another reader."""
    if reader.op != "kernel" or reader["name"] != "attention":
        return None
    at = kernels.parts(reader)
    if "first" not in at or "see" in at or "bias" in at or kept not in (at.get("key"), at.get("value")):
        return None
    if any(part is kept for role, part in at.items() if role not in ("key", "value")):
        return None
    first, axis = _settled(at["first"], number, place), reader["axis"]
    made, own = form(first), _own(at["query"], kept)
    if made is None or own is None:
        return None
    far = own - made
    return far.constant if not far.terms and far.constant >= 0 and axis == kept["into"] else None


def _own(query: Node, kept: Node) -> Form | None:
    """The place of a row among all: of a new row, or the last of all where each example has one query."""
    into, along = kept["into"], kept["along"]
    rows = [axis for axis in query.axes if axis.counted and axis.size == along.size]
    every, new = form(ir.size(into)), form(ir.size(along))
    if every is None or new is None:
        return None
    if not rows:
        return every + constant(-1)
    place = form(ir.index(rows[0]))
    return None if place is None else place + every - new


def _settled(bound: Node, number: Node | None, place: int) -> Node:
    """The bound at one step of the loop, what is known of it computed."""

    def change(one: Node) -> Node:
        return ir.const(place) if one is number else by_step.computed(one)

    return ir.transform([bound], change)[0]
