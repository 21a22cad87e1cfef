"""Inputs and weights that rewrites fail on: masks of every kind, numbers beyond exp, tiny rows, NaN in padding."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..ir import Axis, Graph, Input, Length, Node
from ..reference import allowed_inputs, length_names, mask_names

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kind:
    """A kind of case: the size of its numbers, how many entries a text has, what else is special.

    `masked` has an example for each kind of mask; `poison` puts NaN (ids: numbers that no table has) where a mask
    hides; `given` gives the inputs that may be left out; `training` draws.
    """

    name: str
    told: str
    scale: float = 1.0
    width: int = 5
    masked: bool = True
    poison: bool = False
    given: bool = False
    training: bool = False

    def __str__(self) -> str:
        return f"{self.told}; {POISON}" if self.poison and self.told != POISON else self.told


POISON = "NaN and wrong ids wherever a mask hides"
KINDS = (
    Kind("masks", "no padding, padding right and left, holes, one token, none"),
    Kind("padding", POISON, poison=True),
    Kind("equal", "as many entries as sizes have", width=4, poison=True),
    Kind("large", "weights of size 2, scores of hundreds", scale=4.0, poison=True),
    Kind("huge", "scores beyond exp", scale=60.0, poison=True),
    Kind("tiny", "rows of size 1e-6", scale=1e-6, poison=True),
    Kind("one", "a batch of one text of one token", width=1, masked=False),
    Kind("alone", "a batch of one text", masked=False),
    Kind("given", "inputs that may be left out are given", given=True),
    Kind("training", "dropout draws", training=True),
)
OWN = Kind("weights", f"a folder's own weights, short texts of random ids; {POISON}", width=9, poison=True)
"""What a model's folder is run on."""

BY_NAME = {one.name: one for one in (*KINDS, OWN)}


@dataclass(frozen=True)
class Case:
    """What a graph is called with; weights by name."""

    kind: Kind
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]


def case(graph: Graph, kind: Kind, seed: int = 0) -> Case:
    """The inputs and weights of a kind of case for a graph; each name has its own stream of random numbers."""
    maker = _Maker(replace(graph, each=""), kind, seed)
    return Case(kind, dict(maker.inputs()), {one.name: maker.weight(one.name, one.shape) for one in graph.weights})


def inputs(graph: Graph, kind: Kind, seed: int = 0) -> dict[str, Array]:
    """The inputs alone; an axis `each` of the caller's is left out."""
    return dict(_Maker(replace(graph, each=""), kind, seed).inputs())


def labels(
    graph: Graph, kind: Kind, examples: int, names: Collection[str], lengths: list[str]
) -> dict[str, Array]:
    """Inputs of an objective, for results of so many examples of a model with these lengths."""
    maker = _Maker(graph, kind, 0)
    maker.examples, maker.lengths = examples, lengths
    return {one.name: maker.values(one, maker.shape(one.axes)) for one in graph.inputs if one.name in names}


def masks(width: int) -> Array:
    """An example for each kind: whole, padding right, padding left, a hole, one token, none, padding on both sides."""
    whole, none = np.ones(width, bool), np.zeros(width, bool)
    place = np.arange(width)
    half = max(1, width // 2)
    hole = (place % 2 == 0) | (place >= width - 2)
    right, left, both = place < half, place >= width - half, (place > 0) & (place < width - 1)
    return np.array([whole, right, left, hole, place == width - 1, none, both]).astype(int)


class _Maker:
    def __init__(self, graph: Graph, kind: Kind, seed: int) -> None:
        self.graph, self.kind, self.seed = graph, kind, seed
        self.lengths = length_names(graph)
        self.bounds = bounds(graph, 1 if kind.masked else kind.width)
        self.examples = len(self.masks(kind.width)) if kind.masked else 1

    def weight(self, name: str, shape: tuple[Any, ...]) -> Array:
        return self.rng(name).normal(size=shape) * (0.5 * self.kind.scale)

    def rng(self, name: str) -> np.random.Generator:
        return np.random.default_rng(crc32(name.encode()) + self.seed)

    def inputs(self) -> Iterator[tuple[str, Array]]:
        given = {one.instead for one in self.graph.inputs if one.instead} if self.kind.given else set()
        for one in self.graph.inputs:
            if one.instead in given:
                yield one.name, np.full(self.shape(one.axes), -1)
            elif one.required or self.kind.given:
                yield one.name, self.values(one, self.shape(one.axes))
        known = allowed_inputs(self.graph)
        names = [one.name for one in self.graph.inputs]
        if "position_ids" in known and "position_ids" not in names and self.kind.given:
            shape = (self.examples, self.width(self.lengths[0]))
            yield "position_ids", self.rng("position_ids").integers(0, self.bounds.get("position", shape[1]), shape)
        for number, (length, mask) in enumerate(mask_names(self.graph).items()):
            if self.kind.masked:
                yield mask, np.roll(self.masks(self.width(length)), number, axis=0)

    def masks(self, width: int) -> Array:
        """The masks; without the empty text where all texts make one number, which it would undo."""
        every = masks(width)
        return every if self.graph.batch is not None else every[every.any(axis=1)]

    def width(self, length: str) -> int:
        """The second length is shorter, so that the two are told apart, unless all is to be equal."""
        far = self.lengths.index(length) if length in self.lengths else 0
        return self.kind.width if self.kind.name == "equal" else max(1, self.kind.width - far)

    def shape(self, axes: tuple[Axis, ...]) -> tuple[int, ...]:
        return tuple(self.extent(axis) for axis in axes)

    def extent(self, axis: Axis) -> int:
        if not isinstance(axis.size, Length):
            return axis.size
        if self.graph.groups is not None and axis in self.graph.groups:  # one example of all texts
            return 1 if axis == self.graph.groups[0] else self.examples
        return self.examples if axis.owner is None else self.width(axis.size.name)

    def values(self, one: Input, shape: tuple[int, ...]) -> Array:
        draw = self.rng(one.name)
        if one.kind == "bool":
            return draw.random(shape) < 0.6
        if one.kind != "int":
            return draw.normal(size=shape) * self.kind.scale
        bound = self.bounds.get(one.name, 6)
        made = draw.integers(0, max(bound, 1), shape)
        special = _compared(self.graph, one.name)
        if self.graph.batch is not None:  # labels may be marked as none by a number that no table has
            special = [number for number in special if 0 <= number < bound]
        for place, number in enumerate(special):
            made = np.where(draw.random(shape) < 0.2 / (place + 1), number, made)
        return made


# -------------------------------------------------------------------------------------- what an integer may be


def bounds(graph: Graph, shortest: int) -> dict[str, int]:
    """Input (or "position") → the number of rows of the smallest table that it chooses from; of a text, `shortest`."""
    found: dict[str, int] = {}
    for one in graph.nodes():
        if one.op != "pick":
            continue
        for axis, place in zip(one["keys"], one.args[1:], strict=True):
            for name, shift in _sources(place):
                rows = axis.size if isinstance(axis.size, int) else shortest
                found[name] = min(found.get(name, rows), rows - shift)
    return found


def _sources(place: Node) -> Iterator[tuple[str, int]]:
    """The inputs that a place is a copy of, and what is added to them."""
    stack = [(place, 0)]
    while stack:
        here, shift = stack.pop()
        if here.op == "input":
            yield str(here["name"]), shift
        elif here.op == "position":
            yield "position", shift
        elif here.op in ("rename", "widen", "pick"):
            stack.append((here.args[0], shift))
        elif here.op == "map" and here["fn"] == "where":
            stack += [(arg, shift) for arg in here.args[1:]]
        elif here.op == "map" and here["fn"] in ("max", "min"):
            stack += [(arg, shift) for arg in here.args]
        elif here.op == "map" and here["fn"] == "+" and here.args[1].op == "const":
            stack.append((here.args[0], shift + int(here.args[1]["value"])))


def _compared(graph: Graph, name: str) -> list[int]:
    """The numbers that an input is compared with."""
    found: dict[int, None] = {}
    for one in graph.nodes():
        if one.op == "map" and one["fn"] in ("==", "!="):
            for left, right in (one.args, one.args[::-1]):
                names = [source for source, _ in _sources(left)]
                if name in names and right.op == "const" and right["value"] == int(right["value"]):
                    found[int(right["value"])] = None
    return list(found)
