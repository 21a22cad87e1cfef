"""Run-time sizes that a cost is told for: how many examples there are, and how long each is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from .ir import Axis, Graph, Length

Lengths: TypeAlias = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True)
class Sizes:
    """`batch` examples, the longest of `length` entries, all together `fill` of the padded batch.

    `lengths` gives a length by its name: the longest, or one number for each example (then there are as many
    examples). With a fill below 1 the lengths rise from short to the longest. Places that a caller chooses in every
    example are `chosen` of the longest, if `lengths` does not say how many; labels choose so many of all.
    """

    batch: int = 8
    length: int = 128
    fill: float = 1.0
    lengths: Lengths = field(default_factory=dict)
    chosen: float = 0.15

    def __post_init__(self) -> None:
        counts = {len(given) for given in self.lengths.values() if not isinstance(given, int)}
        if len(counts) > 1:
            raise ValueError(f"lengths of {' and '.join(map(str, sorted(counts)))} examples at once")
        object.__setattr__(self, "batch", counts.pop() if counts else self.batch)

    def __str__(self) -> str:
        """In words: 8 examples of 128 tokens, 46 % of them real."""
        one = self.batch == 1
        told = f"{self.batch} example{'' if one else 's'} of {self.length} tokens"
        return told if self.fill >= 1 else f"{told}, {self.fill:.0%} of them real"

    def each(self, length: Length) -> tuple[int, ...]:
        """The length of each example."""
        given = self.lengths.get(length.name, self.length)
        return spread(given, self.fill, self.batch) if isinstance(given, int) else tuple(given)

    def of(self, graph: Graph) -> Sizes:
        """The same sizes, with a number for the places that the graph's caller chooses: a length that nobody owns."""
        axes = [axis for one in graph.inputs if graph.batch in one.axes for axis in one.axes]
        places = {axis.size.name for axis in axes if isinstance(axis.size, Length) and axis.owner is None}
        places -= {str(graph.batch.size)} if graph.batch else set()
        number = max(1, round(self.chosen * self.length))
        found: dict[str, int | Sequence[int]] = dict.fromkeys(places, number)
        for one in graph.nodes():
            if one.op == "selected":
                share = 1.0 if one.get("hidden") else self.chosen
                found[str(one["into"].size)] = max(1, round(share * self.entries(one["among"], True)))
        return replace(self, lengths={**found, **self.lengths}) if found else self

    def extent(self, axis: Axis) -> int:
        """The number of entries along an axis by itself: the size, the number of examples, or the longest."""
        if isinstance(axis.size, int):
            return axis.size
        if axis.owner is not None:
            return max(self.each(axis.size), default=0)
        given = self.lengths.get(axis.size.name, self.batch)
        return given if isinstance(given, int) else len(given)

    def entries(self, axes: Iterable[Axis], packed: bool) -> int:
        """The number of entries of a value with these axes: the product of their sizes, hence of rows too.

        Packed, an example has as many entries as it is long (two lengths of one example: their product); else as many
        as the longest one.
        """
        axes = tuple(dict.fromkeys(axes))
        owned: dict[Axis, list[Axis]] = {}
        for axis in axes:
            if packed and axis.ragged and axis.owner in axes and axis.owner.owner is None:
                owned.setdefault(axis.owner, []).append(axis)
        inside = {axis for owner, members in owned.items() for axis in (owner, *members)}
        plain = math.prod(self.extent(axis) for axis in axes if axis not in inside)
        return plain * math.prod(self._together(owner, members) for owner, members in owned.items())

    def _together(self, owner: Axis, members: Sequence[Axis]) -> int:
        columns = [self.each(axis.size) for axis in members if isinstance(axis.size, Length)]
        return sum(math.prod(row) for row in zip(*columns, strict=True))


@cache
def spread(longest: int, fill: float, batch: int) -> tuple[int, ...]:
    """`batch` lengths from short to the longest whose mean is about fill * longest: longest * (i / batch)^k."""
    if fill >= 1 or batch < 2:
        return (longest,) * batch
    shares = [(i + 1) / batch for i in range(batch)]
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(share**middle for share in shares) > fill * batch else (low, middle)
    return tuple(max(1, round(longest * share**low)) for share in shares)


USUAL = Sizes()
"""What figures are told for unless somebody says otherwise."""
