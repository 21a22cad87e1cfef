"""Weights and their stored names: added, removed, of other axes, begun otherwise, tied or not, stored elsewhere.

Sizes that config gives are told there; here a weight differs by its axes. What happens to all weights of a block is one
change, and what follows from a block that is new or gone says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Weight
from ..stored import plain, plain_name
from .change import ADDED, CHANGED, MOVED, REMOVED, RENAMED, Change, Line, place
from .matching import paired
from .sides import Side


@dataclass(frozen=True)
class Held:
    """A weight of a side: its path in the tree of the compared model, what it is, and under which names it is stored."""

    path: str
    weight: Weight
    stored: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its own name, without the blocks around it."""
        return plain(self.path)[-1]

    @property
    def block(self) -> str:
        """The blocks around it, without stacks."""
        return ".".join(plain(self.path)[:-1])

    @property
    def axes(self) -> str:
        """Its own axes as text, those of the stack aside."""
        own = [axis for axis in self.weight.axes if axis not in self.weight.stack]
        if self.weight.outs is None:
            return f"[{', '.join(axis.name for axis in own)}]"
        ins, outs = (" ".join(axis.name for axis in group) for group in (self.weight.ins, self.weight.outs))
        return f"[{ins} → {outs}]"


def held(side: Side, models: Sequence[str], inside: str) -> dict[str, Held]:
    """The weights of some models of a side by their path; `inside` is the instance that others have the compared one in."""
    found: dict[str, Held] = {}
    for name in models:
        graph, rows = side.graph(name), side.rows(name)
        if graph is None:
            continue
        stored: dict[str, list[str]] = {}
        for row in rows.rows if rows else ():
            for weight in row.weights:
                stored.setdefault(weight.name, []).append(row.stored)
        for weight in graph.weights:
            path = weight.name.removeprefix(f"{inside}.") if inside and name != side.entry else weight.name
            if path not in found:
                found[path] = Held(path, weight, tuple(stored.get(weight.name, ())))
    return found


def instance_of(side: Side) -> str:
    """The instance under which other models of the spec have the compared one: `bert`."""
    for name, use in side.module.uses.items():
        if use.block.name == side.entry:
            return name
    return ""


def compared(one: Side, other: Side, models: Sequence[tuple[str, str]], blocks: Mapping[str, str]) -> Iterator[Change]:
    """The changes of weights; `blocks` are matched blocks by their path, `models` those that stand for each other."""
    mine = held(one, [pair[0] for pair in models], instance_of(one))
    theirs = held(other, [pair[1] for pair in models], instance_of(other))
    moved = {path: _moved(path, blocks) for path in mine}
    pairs = [(mine[path], theirs[there]) for path, there in moved.items() if there in theirs]
    gone = [mine[path] for path, there in moved.items() if there not in theirs]
    taken = {there.path for _, there in pairs}
    new = [held_ for path, held_ in theirs.items() if path not in taken]
    keys = ((lambda h: (h.block, h.axes, h.weight.init)), (lambda h: (h.name, h.axes)))
    same_block, gone, new = paired(gone, new, keys[:1], None)
    elsewhere, gone, new = paired(gone, new, keys[1:], None)
    yield from _renamed(same_block, RENAMED)
    yield from _renamed(elsewhere, MOVED)
    for kind, left in ((REMOVED, gone), (ADDED, new)):
        yield from _lost(left, kind, {*blocks.keys(), *blocks.values()})
    for old, fresh in (*pairs, *same_block, *elsewhere):
        yield from _inner(old, fresh)
    yield from _names([*pairs, *same_block, *elsewhere])


def _moved(path: str, blocks: Mapping[str, str]) -> str:
    """The path of a weight in the other model, where its block has another name there."""
    block, dot, name = path.rpartition(".")
    while block and block not in blocks:
        block, dot, more = block.rpartition(".")
        name = f"{more}.{name}"
    return f"{blocks[block]}.{name}" if block and blocks.get(block) else path


def _renamed(pairs: Sequence[tuple[Held, Held]], kind: str) -> Iterator[Change]:
    word = "is named" if kind == RENAMED else "stands at"
    for old, new in pairs:
        say = f"the weight {plain_name(old.path)} {word} {plain_name(new.path)}"
        places = {"a": place(old.weight.span), "b": place(new.weight.span)}
        yield Change("weights", kind, new.path, say, plain_name(old.path), plain_name(new.path), rank=4, **places)


def _lost(left: Sequence[Held], kind: str, matched: set[str]) -> Iterator[Change]:
    """Weights that one side has, block by block; those of a block that is new or gone follow from it."""
    groups: dict[str, list[Held]] = {}
    for one in left:
        groups.setdefault(one.path.rpartition(".")[0], []).append(one)
    for block, members in groups.items():
        names = ", ".join(f"{one.name} : {one.axes}" for one in members)
        home = f" of {plain_name(block)}" if block else ""
        say = f"{'further' if kind == ADDED else 'no'} weight{'s' * (len(members) > 1)}{home}: {names}"
        follows = "" if block in matched or not block else f"the block {plain_name(block)}"
        lines = tuple(_line(one, kind) for one in members)
        yield Change("weights", kind, plain_name(block), say, lines=lines, rank=2, follows=follows)


def _line(one: Held, kind: str) -> Line:
    text, here = f"{one.name} : {one.axes} ~ {one.weight.init}", place(one.weight.span)
    return Line(one.name, after=text, b=here) if kind == ADDED else Line(one.name, before=text, a=here)


def _inner(old: Held, new: Held) -> Iterator[Change]:
    """What differs in one weight: its axes, its initial numbers."""
    where = plain_name(new.path)
    places = {"a": place(old.weight.span), "b": place(new.weight.span)}
    if old.axes != new.axes and len(old.weight.axes) - len(old.weight.stack) + len(new.weight.axes) - len(new.weight.stack):
        say = f"{where} is {new.axes} instead of {old.axes}"
        yield Change("weights", CHANGED, where, say, old.axes, new.axes, rank=1, **places)
    if old.weight.init != new.weight.init:
        say = f"{where} begins as {new.weight.init or 'nothing said'} instead of {old.weight.init or 'nothing said'}"
        yield Change("weights", CHANGED, f"{where} ~", say, old.weight.init, new.weight.init, rank=3, **places)


# ------------------------------------------------------------------------------------------------ stored names


def _names(pairs: Sequence[tuple[Held, Held]]) -> Iterator[Change]:
    """Stored names that differ, those that differ in the same way together: one prefix, one part of the name."""
    groups: dict[tuple[str, str, str], list[tuple[Held, Held]]] = {}
    for old, new in pairs:
        if old.stored and new.stored and old.stored != new.stored:
            change = _apart(old.stored[0], new.stored[0])
            groups.setdefault((_block(new), *change), []).append((old, new))
        elif bool(old.stored) != bool(new.stored):
            groups.setdefault((_block(new), *(one.stored[0] if one.stored else "" for one in (old, new))), []).append((old, new))
    for (block, before, after), members in groups.items():
        lines = tuple(Line(plain_name(b.path), ", ".join(a.stored), ", ".join(b.stored)) for a, b in members)
        told = f"{plain_name(members[0][1].path)}" if len(members) == 1 else f"{len(members)} weights of {block or 'the model'}"
        say = f"{told}: stored under {after or 'no name'} instead of {before or 'no name'}"
        yield Change("names", CHANGED, block, say, before, after, lines=lines, rank=5 - min(len(members), 40) / 40)


def _block(one: Held) -> str:
    """The outermost block that a weight stands in."""
    return plain(one.path)[0] if len(plain(one.path)) > 1 else ""


def _apart(before: str, after: str) -> tuple[str, str]:
    """The parts in which two names differ, what both begin and end with left out; whole words of a name."""
    left, right = before.split("."), after.split(".")
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    while len(left) > 1 and len(right) > 1 and left[0] == right[0]:
        left, right = left[1:], right[1:]
    return ".".join(left), ".".join(right)
