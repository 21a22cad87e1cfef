"""When memory is read for the last time: it is then written over, or let go.

    Q = product_of(y, W_Q, …)
    Q += b_Q                      the product is read by its sum alone
    …
    del Q, scores                 nobody reads them any more

A value is known by its node, and its readers are those that the graph says. One that is a view, or text that its own
reader evaluates, hands on: what it reads is read until its own readers have been. What a loop keeps, weights, inputs
and results have a reader that never comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ...compiler import kernels as kernel_table
from ...compiler.ir import Graph, Node, node, walk, walk_all
from . import slices
from .mangling import Names
from .selecting import Selecting
from .values import Value

UPDATES = {"+": True, "-": False, "*": True, "/": False}
"""Sums and products that may be written over an operand: over either of them, or the first alone."""

NEVER = node("never")
"""The reader of what is read after the last line."""


class Scheduled(Selecting):
    """Writes over what is read no more, and lets go of it, where the plan of the graph has `schedule`."""

    def __init__(self, graph: Graph, names: Names, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, lengths)
        self.schedules = "schedule" in graph.plan
        self.counted: Counter[str] = Counter()
        self.pieces: dict[Node, Value] = {}  # losses of products and their slopes, which are made together
        self._readers: dict[Node, set[Node]] = {}
        self._written: set[Node] = set()
        self._solid: set[Node] = set()  # memory of their own, filled by a line of their own
        self._names: dict[Node, list[str]] = {}  # the names of such memory
        self._owner: dict[str, Node] = {}
        self._also: dict[str, list[object]] = {}  # name -> what else is known of its value by another name
        self._depth: dict[str, int] = {}  # how deep in blocks a name is given
        self._writing: Node | None = None

    # ------------------------------------------------------------------------------------------------- readers

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        """Who reads what; a meaning may be written by its core graph, parts of which others may read, too."""
        for one in order:
            for arg in (*slices.reads(one), *_inside(one)):
                self._readers.setdefault(arg, set()).add(one)
        for root in roots:
            self._readers.setdefault(root, set()).add(NEVER)

    def _is_over(self, one: Node, by: Node | None = None) -> bool:
        """Whether all that read a value have been written; `by` is being written."""
        return all(reader is by or self._is_done(reader, one, by) for reader in self._readers.get(one, (NEVER,)))

    def _is_done(self, reader: Node, arg: Node, by: Node | None) -> bool:
        if reader not in self._written:
            return False
        if reader.op == "loop" and arg not in reader.args[: reader["slots"]]:
            return True
        return reader in self._solid or self._is_over(reader, by)

    def _memory(self, one: Node) -> Iterable[Node]:
        """The nodes whose memory a value may lie in."""
        found, stack = set(), [one]
        while stack:
            here = stack.pop()
            if here not in found:
                found.add(here)
                stack += () if here in self._solid else slices.reads(here)
        return found & self._solid

    # ------------------------------------------------------------------------------------------------- writing

    def made(self, one: Node) -> Value:
        """Writes the node, then lets go of what it read for the last time."""
        outer, self._writing = self._writing, one
        found = super().made(one)
        self._writing = outer
        self._written.add(one)
        if self.schedules:
            if one in self.pieces:
                self._settle(one, found)
            self._let_go(one)
        return found

    def settled(self, one: Node, found: Value) -> Value:
        """What may be written over later has a line of its own."""
        fresh = found.owned and not found.number and not found.text.isidentifier()
        if self.schedules and fresh and is_large(one) and one.op != "scatter":  # its sum adds it at its places
            return self.assigned(one, found)
        return super().settled(one, found)

    def assigned(self, one: Node, found: Value, wish: str = "") -> Value:
        made = replace(super().assigned(one, found, wish or self._wish(one)), owned=False)
        self._depth[made.text] = self.indent
        if self.schedules and found.owned and not passes(one):
            self._settle(one, made)
        return made

    def _settle(self, one: Node, made: Value) -> None:
        """The value has memory of its own, under its name."""
        self._solid.add(one)
        if made.text.isidentifier() and self._owner.get(made.text) is not one:
            self._owner[made.text] = one
            self._names.setdefault(one, []).append(made.text)

    def _wish(self, one: Node) -> str:
        """The name of a sum that is written over the value, if the value has none."""
        while not self.origin(one).name:
            readers = self._readers.get(one, set())
            (reader,) = readers if len(readers) == 1 else (NEVER,)
            if not self.schedules or reader.op != "map" or reader["fn"] not in UPDATES or reader.axes != one.axes:
                return ""
            one = reader
        return self.origin(one).name or ""

    # -------------------------------------------------------------------------------------------- written over

    def overwritten(self, arg: Node, value: Value) -> bool:
        """Whether the node being written may write over an argument, that nobody else reads; it takes its names."""
        by, owner = self._writing, self._owner.get(value.text)
        if by is None or owner is None or arg not in by.args or value.wide or owner.kind != "real":
            return False
        others = (other for other in by.args if other is not arg)
        again = by.args.count(arg) > 1 or any(owner in self._memory(other) for other in others)
        if again or not self._is_over(owner, by):
            self.counted["copies are made, for their argument is read again"] += 1
            return False
        self._names[by] = self._names.pop(owner)
        self._owner |= dict.fromkeys(self._names[by], by)
        for name in self._names[by]:
            self._forget(name)
        self.counted["values are written over one that is read no more"] += 1
        return True

    def also_called(self, value: Value, key: object, name: str) -> None:
        """What is known by a key is made of the value, and perhaps that itself; it is let go with it."""
        self._also.setdefault(value.text, []).append(key)
        self._depth[name] = self.indent

    def _forget(self, name: str) -> list[str]:
        """What is known of a value by other names does not hold any longer; gives those names."""
        found = [self.memo.pop(key) for key in self._also.pop(name, ()) if key in self.memo]  # type: ignore[call-overload]
        return [value.text for value in found]

    def _map(self, one: Node) -> Value:
        return self._updated(one) or super()._map(one)

    def _updated(self, one: Node) -> Value | None:
        """`x += y` where x is read no more."""
        if not self.schedules or one.kind != "real" or one["fn"] not in UPDATES or not is_large(one):
            return None
        values = [self.value(arg) for arg in one.args]
        for left, right in ((0, 1), (1, 0)) if UPDATES[one["fn"]] else ((0, 1),):
            into, other = values[left], values[right]
            whole = set(into.dims) == set(one.axes) >= set(other.dims) and one.args[left].kind == "real"
            if whole and not (other.wide and other.dims) and self.overwritten(one.args[left], into):
                self.explain(one)
                self.write(f"{into.text} {one['fn']}= {self.fit(other, '', into.dims)}")
                self._solid.add(one)
                return replace(into, owned=False)
        return None

    # -------------------------------------------------------------------------------------------------- let go

    def _let_go(self, one: Node) -> None:
        """Deletes the names of what was read for the last time."""
        names: list[str] = []
        for base in sorted(self._memory_of_args(one), key=lambda base: self._names.get(base, [""])):
            if base in self._names and is_large(base) and self._is_over(base):
                for name in self._names.pop(base):
                    names += [name, *self._forget(name)]
        names = [name for name in names if self._depth.get(name, 0) <= self.indent]
        if names:
            self.counted["values are let go before the end"] += len(names)
            self.lines.append("    " * self.indent + f"del {', '.join(names)}")

    def _memory_of_args(self, one: Node) -> set[Node]:
        return {base for arg in slices.reads(one) for base in self._memory(arg)}


def _inside(one: Node) -> set[Node]:
    """What the core graphs of a meaning are made of, or of those in the body of a loop."""
    found: set[Node] = set()
    stack = list(walk_all(one["body"])) if one.op == "loop" else [one]
    while stack:
        here = stack.pop()
        if here.op == "kernel":
            own = set(here.args)
            parts = set(walk([kernel_table.expanded(here)], lambda part, own=own: part not in own)) - own - found
            found |= parts
            stack += parts
    return found


def is_large(one: Node) -> bool:
    """Whether a value grows with its batch."""
    return any(axis.ragged for axis in one.axes)


def passes(one: Node) -> bool:
    """Whether a value may be its argument itself, or a part of it."""
    if one.op == "pick":
        return not any(place.axes for place in one.args[1:])
    return one.op == "map" and (one["fn"] == "stop" or (one["fn"] == "where" and one.args[0].op == "visible"))
