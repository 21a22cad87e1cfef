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
            line = Line(pattern[0], after=text) if kind == ADDED else Line(pattern[0], before=text)
            say = f"{'further' if kind == ADDED else 'no'} tensor{'s' * (len(members) > 1)} {pattern[0]}{_times(members)}"
            yield Change("tensors", kind, pattern[0], f"{say}: {pattern[1]}", lines=(line,), rank=2)
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
    names = {re.sub(rf"^(?:{'|'.join(map(re.escape, rows.prefixes))})", "", n) if rows.prefixes else n: n for n in side.tensors}
    known = {**names, **{n: n for n in side.tensors}}
    wanted = [re.compile(_regex(row.stored)) for row in rows.rows]
    skipped = [re.compile(_regex(text)) for text in rows.skips]
    strange = [n for short, n in names.items() if not any(w.fullmatch(short) or w.fullmatch(n) for w in (*wanted, *skipped))]
    missed = [
        row.stored
        for row, one in zip(rows.rows, wanted, strict=True)
        if not row.also and row.absent is None and not any(one.fullmatch(n) for n in known)
    ]
    if strange:
        patterns = list(_together(strange, side.tensors))
        lines = tuple(_line(f"{name} {what}", extra) for name, what in patterns)
        say = f"{side.label} holds {len(strange)} tensor{'s' * (len(strange) > 1)} that its spec does not read: {_some(p[0] for p in patterns)}"
        yield Change("tensors", extra, f"{side.label} holds", say, lines=lines, rank=3)
    if missed:
        say = f"{side.label} lacks {len(missed)} tensor{'s' * (len(missed) > 1)} that its spec reads: {_some(missed)}"
        yield Change("tensors", lacking, f"{side.label} lacks", say, lines=tuple(_line(n, lacking) for n in missed), rank=3)


def _line(text: str, kind: str) -> Line:
    return Line("", after=text) if kind == ADDED else Line("", before=text)


def _some(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:4]) + (f" and {len(every) - 4} more" if len(every) > 4 else "")


def _regex(stored: str) -> str:
    return r"\d+".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", stored))


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
