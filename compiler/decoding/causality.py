"""The proof that row i depends on rows ≤ i alone.

Of a value with axes that count one length, the entry at (i, j, …) may depend on the tokens up to the largest of i, j, …
That holds of inputs, and each operation keeps it but for three, which have to show more:

    a sum over j         adds nothing where j > i: its condition, or a relation outside which its terms are 0, says so
    a pick at place p    p ≤ i for every row i, or the first place of all
    the length itself    is nobody's place: whatever depends on it changes with each token

The first operation that looks ahead is told with its reason; nothing else about the graph matters then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import ir
from ..affine import DEEP, constant, form, greatest
from ..ir import Axis, Graph, Length, Node
from ..masks import OPPOSITE, Reading, always, conjuncts

SUMS = ("sum", "norm", "any", "count")
"""Reductions that entries of 0 (or of no truth) do not change."""

AT_ZERO = ("neg", "abs", "sqrt", "erf", "tanh", "sin", "sign", "floor", "ceil", "stop")
"""Functions that are 0 at 0."""


@dataclass(frozen=True)
class Ahead:
    """An operation that sees later rows, and what it does."""

    node: Node
    reason: str


@dataclass(frozen=True)
class Seen:
    """A sum that sees no later rows: over `axis`, for the rows of `row`, by the relation or condition `by`."""

    node: Node
    axis: Axis
    row: Axis
    by: Node


class Causality:
    """Whether the graph is causal along a length: `ahead` is None then, and `seen` holds the sums that show it."""

    def __init__(self, graph: Graph, length: Length) -> None:
        self.length = length
        self.order = graph.nodes()
        self.seen: list[Seen] = []
        self._zero: dict[Node, tuple[Node, ...]] = {}
        self._bottom: dict[Node, tuple[Node, ...]] = {}
        found = [ahead for one in self.order if (ahead := self._looks_ahead(one))]
        found.sort(key=lambda ahead: ahead.node.op == "size")  # a length is told last: most often it serves the others
        self.ahead = found[0] if found else None

    def along(self, axes: Iterable[Axis]) -> tuple[Axis, ...]:
        """Those of the axes that count the length."""
        return tuple(axis for axis in axes if axis.size == self.length)

    def _looks_ahead(self, one: Node) -> Ahead | None:
        if _counts(one, self.length):
            return Ahead(one, f"it depends on how long `{self.length}` is, which the next token changes")
        if one.op in ("reduce", "contract"):
            return self._summed(one)
        if one.op == "pick":
            return self._picked(one)
        if one.op == "loop" and self._counts(one.args[one["slots"]]):
            return Ahead(one, f"it is a loop along `{self.length}`")
        mixed = _mixed(one)
        if any(axis.size == self.length for axis in mixed):
            return Ahead(one, f"it puts all rows along `{self.along(mixed)[0]}` in one order")
        return None

    def _counts(self, steps: Node) -> bool:
        return any(_counts(one, self.length) for one in ir.walk([steps]))

    # ------------------------------------------------------------------------------------------------------ sums

    def _summed(self, one: Node) -> Ahead | None:
        for axis in self.along(one["over"]):
            found = self._restricted(one, axis)
            if found is None:
                told = one["reduction"] if one.op == "reduce" else "sum"
                rows = self.along(one.axes)
                why = "a row sees those after it" if rows else "of all rows at once"
                return Ahead(one, f"the {told} over `{axis}`: {why}")
            self.seen.append(found)
        return None

    def _restricted(self, one: Node, axis: Axis) -> Seen | None:
        """The relation that leaves the entries after the row out of a sum."""
        for relation in self._relations(one):
            for row in self.along(one.axes):
                if self.not_after(relation, axis, row):
                    return Seen(one, axis, row, relation)
        return None

    def _relations(self, one: Node) -> list[Node]:
        """Relations outside which the entries of a sum do not count."""
        if one.op == "contract":
            return [part for arg in one.args for part in self.zero(arg)]
        value, *condition = one.args
        found = [part for one_ in condition for part in conjuncts(one_)]
        if one["reduction"] in SUMS:
            found += conjuncts(value) if value.kind == "bool" else self.zero(value)
        if one["reduction"] == "max":
            found += self.bottom(value)
        return found

    @staticmethod
    def not_after(relation: Node, axis: Axis, row: Axis) -> bool:
        """Whether the relation holds for no place of `axis` after the row's own."""
        if axis not in relation.axes or row not in relation.axes:
            return False
        reading = Reading(axis, (a for a in (*relation.axes, row.owner, axis.owner) if a is not None and a != axis))
        own = form(ir.index(row))
        assert own is not None
        return any(greatest(stop - own + constant(-1)) <= 0 for stop in reading.facts(relation).stop)

    def zero(self, one: Node) -> tuple[Node, ...]:
        """Relations outside which the value is 0."""
        return self._known(one, self._zero, self._zero_of)

    def bottom(self, one: Node) -> tuple[Node, ...]:
        """Relations outside which the value is -∞."""
        return self._known(one, self._bottom, self._bottom_of)

    @staticmethod
    def _known(one: Node, table: dict[Node, tuple[Node, ...]], made: object) -> tuple[Node, ...]:
        """Filled from below, so that no depth is too deep."""
        if one not in table:
            for part in ir.walk([one], enter=lambda n: n not in table):
                if part not in table:
                    table[part] = tuple(dict.fromkeys(made(part)))  # type: ignore[operator]
        return table[one]

    def _zero_of(self, one: Node) -> Sequence[Node]:
        known = self._zero
        if one.op == "map":
            return self._zero_of_map(one)
        if one.op == "rename":
            return [moved for part in known[one.args[0]] if (moved := _renamed(part, one)) is not None]
        if one.op == "widen":
            return known[one.args[0]]
        if one.op == "contract":
            parts = (*known[one.args[0]], *known[one.args[1]])
            return [part for part in parts if not set(one["over"]) & set(part.axes)]
        return ()

    def _zero_of_map(self, one: Node) -> Sequence[Node]:
        known, fn = self._zero, one["fn"]
        if fn == "where":
            return _chosen(one, known, 0)
        if fn == "*":
            return (*known[one.args[0]], *known[one.args[1]])
        if fn == "/" or fn in AT_ZERO:
            return known[one.args[0]]
        return self.bottom(one.args[0]) if fn == "exp" else ()

    def _bottom_of(self, one: Node) -> Sequence[Node]:
        known = self._bottom
        if one.op == "rename":
            return [moved for part in known[one.args[0]] if (moved := _renamed(part, one)) is not None]
        if one.op == "widen":
            return known[one.args[0]]
        if one.op != "map":
            return ()
        if one["fn"] == "where":
            return _chosen(one, known, float("-inf"))
        if one["fn"] in ("+", "min"):
            return (*known[one.args[0]], *known[one.args[1]])
        if one["fn"] == "-" or (one["fn"] in ("*", "/") and _positive(one.args[1])):
            return known[one.args[0]]
        return known[one.args[1]] if one["fn"] == "*" and _positive(one.args[0]) else ()

    # ----------------------------------------------------------------------------------------------------- picks

    def _picked(self, one: Node) -> Ahead | None:
        for key, place in zip(one["keys"], one.args[1:], strict=True):
            if key.size != self.length:
                continue
            rows = [None, *self.along(place.axes)]
            if not any(_at_most(place, row) for row in rows):
                return Ahead(one, f"the place along `{key}` may lie after the row")
        return None


def _at_most(place: Node, row: Axis | None, depth: int = DEEP) -> bool:
    """Whether a place is surely no later than the row's own (the first of all, if there is no row)."""
    made, own = form(place), constant(0) if row is None else form(ir.index(row))
    if made is not None and own is not None and greatest(made - own) <= 0:
        return True
    if place.op == "widen":
        return _at_most(place.args[0], row, depth)
    if place.op != "map" or place["fn"] not in ("max", "min", "where") or not depth:
        return False
    parts = place.args[1:] if place["fn"] == "where" else place.args
    quantifier = any if place["fn"] == "min" else all
    return quantifier(_at_most(part, row, depth - 1) for part in parts)


def decided(graph: Graph, length: Length) -> Graph:
    """The graph without comparisons with the length that surely hold, or surely do not (a place back: no end)."""

    def change(one: Node) -> Node:
        if one.op == "map" and one["fn"] in OPPOSITE and any(_counts(part, length) for part in ir.walk(one.args)):
            for holds in (True, False):
                if always(one, holds):
                    return ir.const(holds)
        return one

    return graph.rewrite(change)


def _counts(one: Node, length: Length) -> bool:
    return one.op == "size" and one["axis"].size == length


def _chosen(one: Node, known: dict[Node, tuple[Node, ...]], empty: float) -> list[Node]:
    """Of `value if condition else other`: the condition where the other side is empty, and what is known besides."""
    condition, value, other = one.args
    found: list[Node] = []
    if _is(other, empty):
        found += [*conjuncts(condition), *known[value]]
    if _is(value, empty):
        found += [ir.apply("not", condition), *known[other]]
    return found or [part for part in known[value] if part in known[other]]


def _is(one: Node, value: float) -> bool:
    return one.op == "const" and not isinstance(one["value"], bool) and float(one["value"]) == value


def _positive(one: Node) -> bool:
    return one.op == "const" and not isinstance(one["value"], bool) and 0 < float(one["value"]) < float("inf")


def _renamed(part: Node, one: Node) -> Node | None:
    """A relation under the axes that a rename gives."""
    pairs = {old: new for old, new in one["pairs"] if old in part.axes}
    if any(new in part.axes and new not in pairs for new in pairs.values()):
        return None
    return ir.rename(part, pairs)


def _mixed(one: Node) -> tuple[Axis, ...]:
    """The axes along which an operation takes all entries together."""
    match one.op:
        case "rank":
            return (one["axis"],)
        case "split":
            return (one["axis"], *one["into"])
        case "merge":
            return (*one["gone"], one["into"])
        case "concat":
            return (*(axis for axis in one["along"] if axis is not None), one["into"])
        case "random":
            return one.axes
        case "kernel":
            return tuple(value for value in one.attrs.values() if isinstance(value, Axis))
    return ()
