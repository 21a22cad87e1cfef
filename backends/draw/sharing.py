"""Which weights are shared: by the steps of a loop, by calls of one instance, by places that read the same weight.

    one instance in a loop (ALBERT)           the steps choose fewer sets of weights than there are steps
    one instance called twice (two towers)    its calls read the same weights
    a tied weight (E of embeddings and head)  several equations read it, in whatever instances
    an example that is several texts (SBERT)  each of them goes through the same weights

What is read of a stack is told by the entries that its picks choose; a choice that data make is any entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from ...compiler.homes import Place
from ...compiler.ir import Node, walk
from ...compiler.objectives import TEXT
from ...compiler.ops import FUNCTIONS
from .folding import Folded, Loop, home

Entries: TypeAlias = "frozenset[tuple[int, ...]] | None"
"""The entries of a stack by number; None: any of them."""

MOST = 4096
"""Choices that are looked at one by one."""


@dataclass(frozen=True)
class Read:
    """A shown node reads a weight: which entries of its stack, and in how many steps of the loops around."""

    weight: Node
    reader: Node
    entries: Entries
    steps: int


@dataclass(frozen=True)
class Also:
    """A weight, by the name that its reader has for it, is read elsewhere, too: by name, and the place in the graph."""

    weight: str
    where: str
    place: Place


@dataclass
class Sharing:
    """What to say of each place, and of each reader (with the other place, so that a closed block says less)."""

    places: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    readers: dict[Node, list[Also]] = field(default_factory=dict)


def sharing(folded: Folded) -> Sharing:
    """All that is shared in a folded graph."""
    found = reads(folded)
    made = Sharing()
    for place, text in (*_by_steps(folded, found), *_by_calls(folded), *_by_texts(folded)):
        made.places[place] = (*made.places.get(place, ()), text)
    for read, other in _elsewhere(folded, found):
        also = Also(
            _short(read.weight, folded, read.reader), _named(folded, other), folded.places[other.reader]
        )
        known = made.readers.setdefault(read.reader, [])
        known.extend([also] if also not in known else [])
    return made


def told(found: Iterable[Also]) -> tuple[str, ...]:
    """E also in words, lm_head: a text for each weight."""
    others: dict[str, dict[str, None]] = {}
    for also in found:
        others.setdefault(also.weight, {})[also.where] = None
    return tuple(f"{weight} also in {', '.join(where)}" for weight, where in others.items())


def reads(folded: Folded) -> list[Read]:
    """Every weight that a shown node reads, in the order of the picture."""
    around = Around(folded)
    return [
        Read(weight, one, _together(around.entries(weight, value) for value in values), around.steps(one))
        for one in folded.places
        for weight, values in folded.chosen[one].items()
    ]


class Around:
    """The loops around places, and what the numbers of their steps choose."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.stacks = {one.name: one.stack for one in folded.graph.weights}
        self.ranges = {loop.ident: loop.steps for loop in folded.loops}
        self.at: dict[Place, list[Loop]] = {}
        for loop in folded.loops:
            self.at.setdefault(loop.place, []).append(loop)

    def steps(self, one: Node) -> int:
        """How often a shown node runs."""
        place = self.folded.places[one]
        loops = [loop for size in range(len(place) + 1) for loop in self.at.get(place[:size], ())]
        return math.prod(len(loop.steps) for loop in loops if loop.steps)

    def entries(self, weight: Node, value: Node) -> Entries:
        """The entries of a weight's stack that a value is, over all steps."""
        stack = self.stacks.get(str(weight["name"]), ())
        if value is weight or not set(value["keys"]) <= set(stack):
            return None if stack else frozenset({()})
        loops = sorted(value.free)
        ranges = [self.ranges.get(loop) for loop in loops]
        if any(one is None for one in ranges) or math.prod(len(one or ()) for one in ranges) > MOST:
            return None
        found = set()
        for numbers in product(*(one or () for one in ranges)):
            at = dict(zip(loops, numbers, strict=True))
            entry = tuple(_number(number, at) for number in value.args[1:])
            if None in entry:
                return None
            found.add(entry)
        return frozenset(found)  # type: ignore[arg-type]


def _number(one: Node, at: Mapping[int, int]) -> int | None:
    """The value of a whole number that constants and the steps of loops decide; None of another one."""
    known: dict[Node, int] = {}
    for part in walk([one]):
        if part.op == "const":
            known[part] = int(part["value"])
        elif part.op == "counter" and part["loop"] in at:
            known[part] = at[part["loop"]]
        elif part.op == "map" and all(arg in known for arg in part.args):
            known[part] = int(FUNCTIONS[part["fn"]].meaning(*(known[arg] for arg in part.args)))
        else:
            return None
    return known[one]


def _together(found: Iterable[Entries]) -> Entries:
    every: set[tuple[int, ...]] = set()
    for one in found:
        if one is None:
            return None
        every |= one
    return frozenset(every)


# ------------------------------------------------------------------------------------------------------ places


def _by_steps(folded: Folded, found: list[Read]) -> Iterator[tuple[Place, str]]:
    """Loops whose steps all read fewer sets of weights than they are."""
    inside: dict[Place, list[Read]] = {loop.place: [] for loop in folded.loops}
    for read in found:
        place = folded.places[read.reader]
        for size in range(len(place) + 1):
            if place[:size] in inside:
                inside[place[:size]].append(read)
    for place, all_ in inside.items():
        sets = {len(read.entries) if read.entries is not None else -1 for read in all_}
        steps = {read.steps for read in all_}
        if len(sets) == len(steps) == 1 and 0 < min(sets) < min(steps):
            (many,) = sets
            yield place, "one set of weights" if many == 1 else f"{many} sets of weights"


def _by_calls(folded: Folded) -> Iterator[tuple[Place, str]]:
    """The calls of one instance, where they are told apart."""
    calls: dict[Place, dict[Place, None]] = {}
    inner = {place[:size] for place in folded.places.values() for size in range(1, len(place) + 1)}
    numbered = {home(place) for place in inner if "~" in place[-1]}
    for place in sorted(inner):
        if home(place) in numbered and not place[-1].startswith("for "):
            calls.setdefault(home(place), {})[place] = None
    outer = {home(place[:-1]) for group in calls.values() for place in group}
    for own, group in calls.items():
        within = any(own[:size] in calls for size in range(1, len(own)))
        if len(group) > 1 and not (within and own[:-1] in outer):
            for number, place in enumerate(group, 1):
                yield place, f"call {number} of {len(group)}"


def _by_texts(folded: Folded) -> Iterator[tuple[Place, str]]:
    """Blocks with weights through which each text of an example goes."""
    graph = folded.graph
    if not graph.each:
        return
    texts = graph.batch or TEXT  # of an objective, whose labels have another batch
    outermost = dict.fromkeys(
        folded.places[one][:1]
        for one in folded.places
        if folded.chosen[one] and texts in one.axes and folded.places[one]
    )
    for place in outermost:
        yield place, f"the same for each {graph.each}"


# ----------------------------------------------------------------------------------------------------- readers


def _elsewhere(folded: Folded, found: list[Read]) -> Iterator[tuple[Read, Read]]:
    """Pairs of reads of the same entries in different equations; a call's twin in another call is none."""
    groups: dict[Node, list[Read]] = {}
    for read in found:
        groups.setdefault(read.weight, []).append(read)
    for group in groups.values():
        spots = {_spot(folded, read): read for read in reversed(group)}
        if len(spots) < 2 or len(spots) > MOST:
            continue
        for read in group:
            for spot, other in list(reversed(spots.items()))[:8]:
                both = read.entries is None or other.entries is None or read.entries & other.entries
                inside = spot[0] and spot[0] == folded.homes[read.reader]
                if spot != _spot(folded, read) and both and not inside:
                    yield read, other


def _spot(folded: Folded, read: Read) -> tuple[Place, str]:
    """An equation of an instance, all calls alike."""
    origin = folded.origin(read.reader)
    name = str(read.reader["name"]) if read.reader.op == "input" else origin.name
    return folded.homes[read.reader], name or (origin.span.text if origin.span else "")


def _named(folded: Folded, read: Read) -> str:
    """A reader by its block, or by its own name where it is the model's."""
    own, name = folded.homes[read.reader], folded.origin(read.reader).name
    if read.reader.op == "input":
        known = (one.spec_name for one in folded.graph.inputs if one.name == read.reader["name"])
        return next(known, str(read.reader["name"]))
    return ".".join([*own, name] if name else own) or folded.graph.name


def _short(weight: Node, folded: Folded, reader: Node) -> str:
    """A weight's name as the reader's block has it."""
    path = str(weight["name"])
    own = ".".join(folded.homes[reader])
    return path.removeprefix(f"{own}.") if own else path.rpartition(".")[2]
