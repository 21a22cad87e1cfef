"""Where an expression stands: which axes have an index there, and which letters are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .facts import Home
from .names import written
from .signs import COUNTERS
from .tree import Layout, Script, Word


@dataclass(frozen=True)
class Place:
    """The indices of axes around an expression; `used` collects those that something took."""

    home: Home
    at: Mapping[str, Layout] = field(default_factory=dict)
    small: bool = False  # in an exponent or below a sign: fractions lie down
    bare: frozenset[str] = frozenset()  # names that signs around give to places: the r of sum[r: key if r ≤ i](…)
    taken: frozenset[str] = frozenset()  # letters of signs around that bind the same axis
    used: set[str] = field(default_factory=set)

    def letter(self) -> Word:
        """A letter for one more index: none that has a meaning here."""
        around = {one.text for one in self.at.values() if isinstance(one, Word)}
        taken = around | self.taken | self.home.names | self.bare
        return Word(next((one for one in COUNTERS if one not in taken), "n"))

    def bound(self, axis: str, letter: Layout) -> Place:
        """The place behind a sign that binds the axis to the letter."""
        old = {one.text for one in self.at.values() if isinstance(one, Word)}
        return replace(self, at={**self.at, axis: letter}, taken=self.taken | old, used=set())

    def named(self, name: str) -> Place:
        """The place behind a sign that gives a name to the places of an axis, whose own index stays."""
        return replace(self, bare=self.bare | {name}, used=set())

    def without(self, *axes: str) -> Place:
        """The same place, where some axes have no index."""
        return replace(self, at={axis: one for axis, one in self.at.items() if axis not in axes})

    def renamed(self, old: str, new: str) -> Place:
        """The place of what is renamed: the index of the new axis is that of the old one."""
        return replace(self, at={(old if axis == new else axis): one for axis, one in self.at.items() if axis != old})

    def smaller(self) -> Place:
        """The place of an exponent, or below a sign."""
        return replace(self, small=True)

    def indices(self, axes: tuple[str, ...]) -> list[Layout]:
        """The indices of some axes, in the order of their letters; they are then used."""
        self.used.update(axis for axis in axes if axis in self.at)
        return [letter for axis, letter in self.at.items() if axis in axes]

    def size(self, axis: str) -> Layout:
        """An axis as its size: that of one which counts itself is n, or n_i and n_j of two."""
        if len(axis) != 1 or axis not in COUNTERS:
            return written(axis)
        several = sum(len(one) == 1 and one in COUNTERS for one in self.home.formal) > 1
        return Script(Word("n"), Word(axis)) if several else Word("n")
