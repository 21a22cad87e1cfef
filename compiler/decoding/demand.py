"""Which rows of which value a step needs.

A result is needed for the new rows. A demand goes on to the arguments: along an axis that an operation sums over or
picks from it is for all rows, along the others it is the operation's own. Values of which all rows are needed are kept
from call to call (`is_kept`): the step makes their new rows. What no token goes into is made anew where it is cheap,
and read back (`is_stored`) where it came from another input: that is computed once, before the first token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from .. import ir
from ..ir import Axis, Graph, Length, Node

Whole: TypeAlias = frozenset[Axis]
Key: TypeAlias = tuple[Node, Whole]
"""A node, and the axes along the length of which all rows are needed (of the others the new ones)."""

NEW: Whole = frozenset()
THROUGH = ("widen",)
"""What is made anew of all rows of its argument, rather than kept itself."""


class Demand:
    """The demands of a step over a graph that decodes along a length."""

    def __init__(self, graph: Graph, length: Length) -> None:
        self.length = length
        self.order = graph.nodes()
        self.tokens = self._below(lambda one: one.op == "input" and bool(self.along(one)))
        self.given = self._below(lambda one: one.op == "input")
        self.moving = self._below(lambda one: bool(self.along(one)) or _counts(one, length))

    def along(self, one: Node) -> tuple[Axis, ...]:
        """The axes of a value that count the length."""
        return tuple(axis for axis in one.axes if axis.size == self.length)

    def _below(self, starts: object) -> set[Node]:
        """The nodes that such a node goes into; the states of a loop are one, as soon as one of them is."""
        loops: set[int] = set()
        while True:
            found: set[Node] = set()
            for one in self.order:
                inside = one.op in ("carry", "past") and one["loop"] in loops
                parts = (*one.args, *one["body"]) if one.op == "loop" else one.args
                if inside or starts(one) or not found.isdisjoint(parts):  # type: ignore[operator]
                    found.add(one)
            more = {one["loop"] for one in found if one.op == "loop"} - loops
            if not more:
                return found
            loops |= more

    def is_kept(self, key: Key) -> bool:
        """Whether the rows of earlier calls are kept: all rows of a value that tokens go into, and of nothing else."""
        one, whole = key
        return bool(whole) and set(self.along(one)) == whole and one in self.tokens and one.op not in THROUGH

    def is_stored(self, one: Node) -> bool:
        """Whether the value is computed before the first token, from other inputs."""
        return one in self.given and one not in self.moving

    def below(self, key: Key) -> Iterator[Key]:
        """The demands that a demand makes of others."""
        one, whole = key
        if one not in self.moving:
            return
        if self.is_kept(key):
            yield one, NEW
        elif one.op == "loop":
            yield from ((part, NEW) for part in (*one.args[: one["slots"] + 1], *one["body"]))
        else:
            for arg in one.args:
                yield arg, self._of(one, arg, whole)

    def _of(self, one: Node, arg: Node, whole: Whole) -> Whole:
        """Along which axes all rows of an argument are needed."""
        if one.op == "rename":
            back = {ir.renamed(old, dict(one["pairs"])): old for old in arg.axes}
            return frozenset(back[axis] for axis in whole)
        asked = set(self.along(arg))
        if one.op == "pick" and arg is one.args[0]:
            own = asked - set(one["keys"])
            return frozenset((own & whole) | (asked & set(one["keys"])))
        return frozenset(axis for axis in asked if axis in whole or axis not in one.axes)


def _counts(one: Node, length: Length) -> bool:
    return one.op in ("size", "position") and one["axis"].size == length
