"""Pictures of large graphs: what is too much to draw, or to look at, is closed, and a note says so.

    a picture of more than 800 boxes      is drawn less deep, until it has no more
    a place in it of more than 300 things becomes up to 20 parts, in the order of the graph
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...compiler.homes import Place
from ...compiler.ir import Node
from .folding import Folded

CROWDED, PARTS, BOXES = 300, 20, 800
PART = "part "


def condensed(folded: Folded) -> Folded:
    """The same graph, crowded places divided into parts if it is too much to draw at once."""
    if len(folded.places) <= BOXES:
        return folded
    things: dict[Place, dict[Place | Node, None]] = {}
    for one, place in folded.places.items():
        for size in range(len(place)):
            things.setdefault(place[:size], {})[place[: size + 1]] = None
        things.setdefault(place, {})[one] = None
    crowded = {place: _parts(inside) for place, inside in things.items() if len(inside) > CROWDED}
    moved = _Mover(crowded)
    return replace(
        folded,
        places={one: moved.place(place, one) for one, place in folded.places.items()},
        loops=[replace(loop, place=moved.place(loop.place)) for loop in folded.loops],
        blocks={moved.place(place): block for place, block in folded.blocks.items()},
        aliases={moved.place(place): name for place, name in folded.aliases.items()},
    )


def _parts(inside: Mapping[Place | Node, None]) -> dict[Place | Node, str]:
    """For each thing of a crowded place the part that it is in."""
    each = -(-len(inside) // PARTS)
    return {thing: f"{PART}{number // each + 1}" for number, thing in enumerate(inside)}


class _Mover:
    """The new places of old ones; each is worked out once."""

    def __init__(self, crowded: Mapping[Place, Mapping[Place | Node, str]]) -> None:
        self.crowded = crowded
        self.known: dict[Place, Place] = {(): ()}

    def place(self, old: Place, one: Node | None = None) -> Place:
        """Where a place is now, and where a node of it is."""
        for size in range(1, len(old) + 1):
            if old[:size] not in self.known:
                part = self.crowded.get(old[: size - 1], {}).get(old[:size])
                above = self.known[old[: size - 1]]
                self.known[old[:size]] = (*above, *([part] if part else []), old[size - 1])
        found = self.known[old]
        part = self.crowded.get(old, {}).get(one) if one is not None else None
        return (*found, part) if part else found


def fitting(folded: Folded, depth: int | None, most: int = BOXES) -> int | None:
    """The wanted depth, or the largest one with at most so many boxes."""
    members: dict[Place, int] = {}
    for place in folded.places.values():
        members[place] = members.get(place, 0) + 1
    deepest = max((len(place) for place in members), default=0)
    wanted = deepest if depth is None else min(depth, deepest)
    if len(folded.places) <= most:
        return depth
    for found in range(wanted, 0, -1):
        if _boxes(members, found) <= most:
            return depth if found == wanted else found
    return 0


def _boxes(members: Mapping[Place, int], depth: int) -> int:
    """How many boxes a picture of a depth has at most."""
    closed = {place[: depth + 1] for place in members if len(place) > depth}
    return len(closed) + sum(count for place, count in members.items() if len(place) <= depth)
