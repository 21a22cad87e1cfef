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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ...compiler import kernels as kernel_table
from ...compiler.ir import Graph, Node, node, ordered, walk_all
from . import slices
from .losses import Dims
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
        self._readers: dict[Node, set[Node]] = {}
        self._ordered: set[Node] = set()  # what is surely written
        self._perhaps: dict[Node, set[Node]] = {}  # parts of meanings, which are written if those have no fast form
        self._opened: set[Node] = set()
        self._written: set[Node] = set()
        self._solid: set[Node] = set()  # memory of their own, filled by a line of their own
        self._core: dict[Node, Node] = {}  # meanings in the memory that their core graph has filled
        self._names: dict[Node, list[str]] = {}  # the names of such memory
        self._owner: dict[str, Node] = {}
        self._also: dict[str, list[object]] = {}  # name -> what else is known of its value by another name
        self._depth: dict[str, int] = {}  # how deep in blocks a name is given
        self._loops: dict[int, Node] = {}
        self._gone: set[str] = set()  # histories of loops
        self._writing: Node | None = None
        self._scope: set[Node] = set()  # what is written at this depth: in the function, or in the body of a loop

    # ------------------------------------------------------------------------------------------------- readers

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        """Who reads what; a meaning may be written by its core graph, parts of which others may read, too."""
        if not self.schedules:
            return
        self._scope = set(order)
        self._ordered |= self._scope
        for one in order:
            self._note(one, slices.reads(one))
            for part in walk_all(one["body"]) if one.op == "loop" else ():
                if part.op == "kernel":
                    self._perhaps.setdefault(part, set()).add(one)
                    self._open(part)
            if one.op == "kernel":
                self._open(one)
        self._note(NEVER, roots)

    def _open(self, one: Node) -> None:
        """What the core graph of a meaning reads, should it be written so."""
        waiting = [one]
        while waiting:
            whole = waiting.pop()
            if whole in self._opened:
                continue
            self._opened.add(whole)
            core, outside = kernel_table.expanded(whole), set(whole.args)
            self._note(whole, (core,))
            for part in set(ordered((core,), partial(_below, outside))) - outside:
                self._perhaps.setdefault(part, set()).add(whole)
                self._note(part, slices.reads(part))
                waiting += (part,) if part.op == "kernel" else ()

    def _note(self, reader: Node, args: Iterable[Node]) -> None:
        for arg in args:
            self._readers.setdefault(arg, set()).add(reader)

    def body(self, roots: Iterable[Node]) -> None:
        outer = self._scope
        super().body(roots)
        self._scope = outer

    def beside(self, arg: Node, one: Node) -> list[Node]:
        """The readers of a value that are written where `one` is, whatever a loop's step chooses."""
        some = {part for sides in self.sides.values() for side in sides for part in side}
        found = [reader for reader in self._readers.get(arg, ()) if reader in self._scope - some]
        return found if self.schedules and one in found else []

    def _is_over(self, one: Node, by: Sequence[Node] = ()) -> bool:
        """Whether all that read a value have been written; `by` are being written."""
        seen, waiting = {one}, [one]
        while waiting:
            here = waiting.pop()
            for reader in self._readers.get(here, (NEVER,)):
                if reader in by or self._is_done(reader, here):
                    continue
                if reader not in self._written and not self._is_never(reader, by):
                    return False
                if reader in self._written and reader not in seen:  # it hands on
                    seen.add(reader)
                    waiting.append(reader)
        return True

    def _is_done(self, reader: Node, arg: Node) -> bool:
        """Whether a reader has read an argument, and does not hand it on."""
        if reader not in self._written:
            return False
        if reader.op == "loop" and arg not in reader.args[: reader["slots"]]:
            return True
        return reader in self._solid or self._core.get(reader, arg) is not arg

    def _is_never(self, part: Node, by: Sequence[Node]) -> bool:
        """Whether a part of meanings will not be written, as all of them have been without it."""
        wholes = () if part in self._ordered else self._perhaps.get(part, ())
        return bool(wholes) and all(one in self._written or one in by or self._is_never(one, by) for one in wholes)

    def _memory(self, one: Node) -> Iterable[Node]:
        """The nodes whose memory a value may lie in."""
        found, stack = set(), [one]
        while stack:
            here = stack.pop()
            if here not in found:
                found.add(here)
                below = (self._core[here],) if here in self._core else slices.reads(here)
                stack += () if here in self._solid else below
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
            elif one.op == "kernel" and one not in self._solid and found.text in self._owner:
                self._core[one] = self._owner[found.text]
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

    def given(self, one: Node, wish: str) -> str:
        """A name for a value that a line makes beside others."""
        name = self.names.fresh(self.origin(one).name or wish)
        self._depth[name] = self.indent
        return name

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

    def overwritten(self, arg: Node, value: Value, by: Sequence[Node] = ()) -> bool:
        """Whether what is being written may write over an argument, that nobody else reads; it takes its names.

        Of several nodes that are written by one line the last one does.
        """
        by = by or (() if self._writing is None else (self._writing,))
        owner = self._owner.get(value.text)
        if owner not in self._names or value.wide or owner.kind != "real" or not all(arg in one.args for one in by):
            return False
        others = [other for one in by for other in one.args if other is not arg]
        again = any(one.args.count(arg) > 1 for one in by) or any(owner in self._memory(other) for other in others)
        if again or not self._is_over(owner, by):
            return False
        names = self._names[by[-1]] = self._names.pop(owner)
        self._owner |= dict.fromkeys(names, by[-1])
        for name in names:
            self._forget(name)
        self.counted["values are written over one that is read no more"] += 1
        return True

    def copied_for(self, value: Value, dims: Dims) -> None:
        """Counts a copy that is made of a value, to be written over, by its reason."""
        kept = "read again" if value.text in self._owner else "kept by others"
        self.counted[f"copies are made of what {'is ' + kept if value.dims == dims else 'lies in another order'}"] += 1

    def is_own(self, one: Node, axes: Dims) -> bool:
        """Whether a result is memory that no other result lies in, with its axes in this order."""
        value = self.memo.get(one)
        if not self.schedules or value is None or value.dims != axes or self._owner.get(value.text) is not one:
            return False
        return all(reader is NEVER or self._is_done(reader, one) for reader in self._readers[one])

    def also_called(self, value: Value, key: object, name: str) -> None:
        """What is known by a key is made of the value, and perhaps that itself; it is let go with it."""
        self._also.setdefault(value.text, []).append(key)
        self._depth[name] = self.indent

    def _forget(self, name: str) -> list[str]:
        """What is known of a value by other names does not hold any longer; gives those names."""
        found = [self.memo.pop(key) for key in self._also.pop(name, ()) if key in self.memo]
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
        if one.op == "loop":
            self._loops[one["loop"]] = one
            self._depth |= {name: self.indent for (ident, _), name in self.histories.items() if ident == one["loop"]}
            names += self._histories_over()
        for base in sorted(self._memory_of_args(one), key=lambda base: self._names.get(base, [""])):
            if base in self._names and is_large(base) and self._is_over(base):
                for name in self._names.pop(base):
                    names += [name, *self._forget(name)]
        names = [name for name in names if self._depth.get(name, 0) <= self.indent]
        if names:
            self.counted["values are let go before the end"] += len(names)
            self.lines.append("    " * self.indent + f"del {', '.join(names)}")

    def _histories_over(self) -> list[str]:
        """The states of loops that nobody reads any more."""
        found = []
        for (ident, slot), name in self.histories.items():
            loop = self._loops.get(ident)
            if loop is not None and name not in self._gone and self._is_forgotten(loop, slot):
                self._gone.add(name)
                found.append(name)
        return found

    def _is_forgotten(self, loop: Node, slot: int) -> bool:
        """Whether no state of a loop but the last is read any more; gradients of layers are read in the end."""
        for reader in self._readers.get(loop, ()):
            if reader.get("slot", slot) != slot:
                continue
            if reader.op == "state" and NEVER in self._readers.get(reader, ()):
                return False
            handed = reader in self._written and self._is_over(reader)
            if reader.op != "state" and not handed and not self._is_done(reader, loop):
                return False
        return True

    def _memory_of_args(self, one: Node) -> set[Node]:
        return {base for arg in slices.reads(one) for base in self._memory(arg)}


def _below(outside: set[Node], one: Node) -> Sequence[Node]:
    return () if one in outside else one.args


def is_large(one: Node) -> bool:
    """Whether a value grows with its batch."""
    return any(axis.ragged for axis in one.axes)


def passes(one: Node) -> bool:
    """Whether a value may be its argument itself, or a part of it."""
    if one.op == "pick":
        return not any(place.axes for place in one.args[1:])
    return one.op == "map" and one["fn"] == "stop"
