"""Weights and their stored names: added, removed, of other axes, begun otherwise, tied or not, stored elsewhere.

Sizes that config gives are told there; here a weight differs by its axes. What happens to all weights of a block is one
change, and what follows from a block that is new or gone says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Weight
from ..layouts import axes_text
from ..stored import plain, plain_name
from .change import ADDED, CHANGED, MOVED, REMOVED, RENAMED, Change, Line, place
from .matching import paired
from .sides import Side

LONG = re.compile(r"[0-9]*[.][0-9]{6,}(?:e-?[0-9]+)?")
"""A number with more digits than a reader wants."""


@dataclass(frozen=True)
class Held:
    """A weight of a side: its path in the tree of the compared model, what it is, the names it is stored under."""

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
        return axes_text(self.weight)


def held(side: Side, models: Sequence[str]) -> dict[str, Held]:
    """The weights of some models of a side by their path in the first of them, which the others have inside."""
    inside = instance_of(side, models[0]) if models else ""
    found: dict[str, Held] = {}
    for name in models:
        graph, rows = side.graph(name), side.rows(name)
        if graph is None:
            continue
        stored = rows.names() if rows else {}
        for weight in graph.weights:
            path = weight.name.removeprefix(f"{inside}.") if inside and name != models[0] else weight.name
            if path not in found:
                found[path] = Held(path, weight, stored.get(weight.name, ()))
    return found


def instance_of(side: Side, model: str) -> str:
    """The instance under which other models of the spec have a model: `bert`."""
    for name, use in side.module.uses.items():
        if use.block.name == model:
            return name
    return ""


def compared(one: Side, other: Side, models: Sequence[tuple[str, str]], blocks: Mapping[str, str]) -> Iterator[Change]:
    """The changes of weights; `blocks` are matched blocks by their path, `models` those that stand for each other."""
    mine = held(one, [pair[0] for pair in models])
    theirs = held(other, [pair[1] for pair in models])
    moved = {path: _moved(path, blocks) for path in mine}
    pairs = [(mine[path], theirs[there]) for path, there in moved.items() if there in theirs]
    gone = [(there, mine[path]) for path, there in moved.items() if there not in theirs]
    taken = {there.path for _, there in pairs}
    new = [(path, found) for path, found in theirs.items() if path not in taken]
    same_block, gone, new = paired(gone, new, (_in_block,), None)
    elsewhere = _whole_blocks([one for _, one in gone], [one for _, one in new])
    others = [[(old, fresh) for (_, old), (_, fresh) in same_block], elsewhere]
    moved_ones = {one.path for pair in elsewhere for one in pair}
    gone, new = ([(path, one) for path, one in some if one.path not in moved_ones] for some in (gone, new))
    yield from _renamed(others[0])
    yield from _stands_elsewhere(others[1])
    every = [*pairs, *others[0], *others[1]]
    there = {one.path.rpartition(".")[0] for pair in every for one in pair} | {*blocks.keys(), *blocks.values()}
    for kind, left in ((REMOVED, gone), (ADDED, new)):
        yield from _lost([one for _, one in left], kind, there)
    yield from _inner(every)
    yield from _names(every)


def _moved(path: str, blocks: Mapping[str, str]) -> str:
    """The path of a weight in the other model, where its block has another name there."""
    block, _, name = path.rpartition(".")
    while block and block not in blocks:  # of another model: a head's
        block, _, more = block.rpartition(".")
        name = f"{more}.{name}"
    home = blocks.get(block, block)
    return f"{home}.{name}" if home else name


def _in_block(one: tuple[str, Held]) -> tuple[str, str, str]:
    """What a weight that only has another name has in common with itself: its block, its axes, how it begins."""
    return one[0].rpartition(".")[0], one[1].axes, one[1].weight.init


def _whole_blocks(gone: Sequence[Held], new: Sequence[Held]) -> list[tuple[Held, Held]]:
    """Weights that stand in another block: all that a block has, the same ones, and no other block has these."""
    sides: list[dict[tuple[tuple[str, str], ...], list[list[Held]]]] = []
    for left in (gone, new):
        blocks: dict[str, list[Held]] = {}
        for one in left:
            blocks.setdefault(one.block, []).append(one)
        known: dict[tuple[tuple[str, str], ...], list[list[Held]]] = {}
        for members in blocks.values():
            members.sort(key=lambda one: one.name)
            known.setdefault(tuple((one.name, one.axes) for one in members), []).append(members)
        sides.append(known)
    mine, theirs = sides
    both = [(mine[key], theirs[key]) for key in mine if key in theirs]
    return [pair for a, b in both if len(a) == len(b) == 1 for pair in zip(a[0], b[0], strict=True)]


def _renamed(pairs: Sequence[tuple[Held, Held]]) -> Iterator[Change]:
    """Weights that have another name in the same block, those of several blocks together."""
    groups: dict[tuple[str, str], list[tuple[Held, Held]]] = {}
    for old, new in pairs:
        groups.setdefault((old.name, new.name), []).append((old, new))
    for (before, after), members in groups.items():
        homes = ", ".join(new.block for _, new in members if new.block)
        say = f"the weight {before} is named {after}" + (f" in {homes}" if homes else "")
        lines = tuple(Line(plain_name(b.path), plain_name(a.path), plain_name(b.path)) for a, b in members)
        old, new = members[0]
        made = Change("weights", RENAMED, f"{homes}.{after}", say, before, after, lines, rank=4)
        yield made.at(old.weight.span, new.weight.span)


def _stands_elsewhere(pairs: Sequence[tuple[Held, Held]]) -> Iterator[Change]:
    """Weights of the same name and axes in another block, those of one block together."""
    groups: dict[tuple[str, str], list[tuple[Held, Held]]] = {}
    for old, new in pairs:
        groups.setdefault((old.block, new.block), []).append((old, new))
    for (before, after), members in groups.items():
        names = ", ".join(new.name for _, new in members)
        many = len(members) > 1
        homes = [block or "the model" for block in (before, after)]
        say = f"the weight{'s' * many} {names} stand{'s' * (not many)} in {homes[1]}, not in {homes[0]}"
        old, new = members[0]
        made = Change("weights", MOVED, f"{after}.{names}", say, before, after, rank=4)
        yield made.at(old.weight.span, new.weight.span)


def _lost(left: Sequence[Held], kind: str, matched: set[str]) -> Iterator[Change]:
    """Weights that one side has; blocks that have the same ones together. Those of a lost block follow from it."""
    inside: dict[str, list[Held]] = {}
    for one in left:
        inside.setdefault(one.path.rpartition(".")[0], []).append(one)
    groups: dict[tuple[str, bool], list[str]] = {}
    for block, members in inside.items():
        names = ", ".join(f"{one.name} : {one.axes}" for one in members)
        groups.setdefault((names, block in matched or not block), []).append(block)
    for (names, there), blocks in groups.items():
        members = [one for block in blocks for one in inside[block]]
        homes = ", ".join(plain_name(block) for block in blocks if block)
        home = f" of {homes}" if homes else ""
        say = f"{'further' if kind == ADDED else 'no'} weight{'s' * (len(members) > 1)}{home}: {names}"
        follows = "" if there else f"the block {homes}"
        lines = tuple(_line(one, kind) for one in members)
        yield Change("weights", kind, homes, say, lines=lines, rank=2, follows=follows)


def _line(one: Held, kind: str) -> Line:
    text = f"{plain_name(one.path)} : {one.axes} ~ {_init(one)}"
    return Line.of(kind, one.name, text, place(one.weight.span))


def _inner(pairs: Sequence[tuple[Held, Held]]) -> Iterator[Change]:
    """What differs in weights: their axes, their initial numbers; those that differ alike together."""
    for what, verbs, rank, of in (("axes", ("is", "are"), 1, _axes), ("init", ("begins as", "begin as"), 3, _init)):
        groups: dict[tuple[str, str], list[tuple[Held, Held]]] = {}
        for old, new in pairs:
            if of(old) != of(new):
                groups.setdefault((of(old), of(new)), []).append((old, new))
        for (before, after), members in groups.items():
            where = _together([new for _, new in members])
            old, new = members[0]
            say = f"{where} {verbs[len(members) > 1]} {after} instead of {before}"
            lines = tuple(Line(plain_name(b.path), before, after) for _, b in members) if len(members) > 1 else ()
            made = Change("weights", CHANGED, f"{where} {what}", say, before, after, lines, rank=rank)
            yield made.at(old.weight.span, new.weight.span)


def _together(members: Sequence[Held]) -> str:
    """Weights as a list, those of a block together: layer.attn.W_Q, W_K, layer.FFN.W_1."""
    blocks: dict[str, list[str]] = {}
    for one in members:
        blocks.setdefault(one.block, []).append(one.name)
    return ", ".join(f"{block}.{', '.join(names)}" if block else ", ".join(names) for block, names in blocks.items())


def _axes(one: Held) -> str:
    return one.axes


def _init(one: Held) -> str:
    return LONG.sub(lambda found: f"{float(found.group()):.4g}", one.weight.init) or "nothing said"


# ------------------------------------------------------------------------------------------------ stored names


def _names(pairs: Sequence[tuple[Held, Held]]) -> Iterator[Change]:
    """Stored names that differ, those of an outermost block together, and what they begin with."""
    groups: dict[str, list[tuple[Held, Held]]] = {}
    for old, new in pairs:
        if old.stored != new.stored:
            groups.setdefault(_block(new), []).append((old, new))
    for block, members in groups.items():
        lines = tuple(Line(plain_name(b.path), ", ".join(a.stored), ", ".join(b.stored)) for a, b in members)
        before, after = (_beginnings([pair[side].stored for pair in members]) for side in (0, 1))
        one = len(members) == 1
        several = f"{len(members)} weights of {block or 'the model'} are"
        told = f"{plain_name(members[0][1].path)} is" if one else several
        how = f"stored as {after} instead of {before}" if before != after else f"stored under other names in {after}"
        yield Change("names", CHANGED, block, f"{told} {how}", before, after, lines=lines, rank=-len(members))


def _beginnings(stored: Sequence[tuple[str, ...]]) -> str:
    """The words that stored names begin with in common; if there are none, the first words that there are."""
    names = [name.split(".") for some in stored for name in some]
    if not names:
        return "no tensor"
    if len(names) == 1:
        return ".".join(names[0])
    common = [words[0] for words in zip(*names, strict=False) if len(set(words)) == 1]
    same = common[: next((i for i, words in enumerate(zip(*names, strict=False)) if len(set(words)) > 1), len(common))]
    if same:
        return ".".join(same) + ".…"
    first = list(dict.fromkeys(name[0] for name in names))
    return ", ".join(f"{word}.…" for word in first[:4]) + (", …" if len(first) > 4 else "")


def _block(one: Held) -> str:
    """The outermost block that a weight stands in."""
    return plain(one.path)[0] if len(plain(one.path)) > 1 else ""
