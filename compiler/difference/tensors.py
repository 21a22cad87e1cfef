"""Stored tensors of two folders: which one holds that the other lacks, of another shape or kind of numbers.

Of a folder beside a spec alone: which tensors the spec does not expect, and which it misses. Names that differ by the
numbers of layers only are one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .change import ADDED, CHANGED, REMOVED, Change, Line
from .sides import Side

NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def compared(one: Side, other: Side) -> Iterator[Change]:
    """The changes between the tensors of two folders, and what each holds beside its spec."""
    if one.tensors is not None and other.tensors is not None:
        yield from between(one.tensors, other.tensors)
    for side, extra, lacking in ((one, REMOVED, ADDED), (other, ADDED, REMOVED)):
        if side.tensors is not None:
            yield from _beside(side, extra, lacking)


def between(one: Tensors, other: Tensors) -> Iterator[Change]:
    """Tensors by name: of one folder alone, and those that both hold and that differ."""
    for names, kind, of in (
        ([n for n in one if n not in other], REMOVED, one),
        ([n for n in other if n not in one], ADDED, other),
    ):
        for pattern, members in _together(names, of).items():
            text = f"{pattern[0]} {pattern[1]}"
            line = Line.of(kind, pattern[0], text)
            word = f"{'further' if kind == ADDED else 'no'} tensor{'s' * (len(members) > 1)}"
            say = f"{word} {pattern[0]}{_times(members)}: {pattern[1]}"
            yield Change("tensors", kind, pattern[0], say, lines=(line,), rank=2)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in one:
        if name in other and one[name] != other[name]:
            groups.setdefault((_pattern(name), tensor_text(one[name]), tensor_text(other[name])), []).append(name)
    for (pattern_, before, after), members in groups.items():
        say = f"{pattern_}{_times(members)} is {after} instead of {before}"
        yield Change("tensors", CHANGED, pattern_, say, before, after, rank=1)


def _beside(side: Side, extra: str, lacking: str) -> Iterator[Change]:
    """Tensors that nothing in the spec's checkpoint map reads, and rows of the map that no tensor is for."""
    rows = side.rows(side.entry)
    if rows is None or side.tensors is None:
        return
    names = {name: {name, *(name.removeprefix(prefix) for prefix in rows.prefixes)} for name in side.tensors}
    wanted = {row.stored: _regex(row.stored) for row in rows.rows}
    patterns = [*wanted.values(), *map(_regex, rows.skips)]
    strange = [name for name, short in names.items() if not any(p.fullmatch(n) for p in patterns for n in short)]
    every = {name for short in names.values() for name in short}
    needed = dict.fromkeys(row.stored for row in rows.rows if not row.also and row.absent is None)
    missed = [stored for stored in needed if not any(wanted[stored].fullmatch(name) for name in every)]
    told = [f"{name} {what}" for name, what in _together(strange, side.tensors)]
    for word, many, names_, kind, why in (
        ("holds", len(strange), told, extra, "does not read"),
        ("lacks", len(missed), missed, lacking, "reads"),
    ):
        if names_:
            say = f"{side.label} {word} {many} tensor{'s' * (many > 1)} that its spec {why}: {_some(names_)}"
            lines = tuple(Line.of(kind, "", name) for name in names_)
            yield Change("tensors", kind, f"{side.label} {word}", say, lines=lines, rank=3)


def _some(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:4]) + (f" and {len(every) - 4} more" if len(every) > 4 else "")


def _regex(stored: str) -> re.Pattern[str]:
    """The names that a stored name with places in braces stands for."""
    return re.compile(r"\d+".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", stored)))


def _pattern(name: str) -> str:
    return NUMBER.sub("{…}", name)


def _together(names: Iterable[str], of: Tensors) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        found.setdefault((_pattern(name), tensor_text(of[name])), []).append(name)
    return found


def _times(members: list[str]) -> str:
    return f" (×{len(members)})" if len(members) > 1 else ""


def tensor_text(one: tuple[str, tuple[int, ...]]) -> str:
    """A tensor's kind of numbers and shape: F32 [768, 3072]"""
    return f"{one[0]} [{', '.join(map(str, one[1]))}]"
