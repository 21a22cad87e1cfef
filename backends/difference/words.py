"""What all forms of a comparison have in common: sections and their changes, numbers in words, what is left out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from ...compiler.difference.change import BlockFigures, Change, Differences, Figure, Line
from ...compiler.units import flops, size

TITLES = {
    "facts": "In short",
    "structure": "Structure",
    "config": "Config",
    "formulas": "Formulas",
    "objectives": "Objectives and corruptions",
    "weights": "Weights",
    "names": "Stored names",
    "tensors": "Stored tensors",
}
DETAILED = ("formulas", "objectives")
"""Parts whose formulas stand below the sentence; those of others are told with everything only."""
WORDS = {"flops": flops, "bytes": size}


@dataclass(frozen=True)
class Section:
    """A title, and the changes below it."""

    title: str
    changes: tuple[Change, ...]


def sections(found: Differences, every: bool) -> Iterator[Section]:
    """The parts that have something to tell."""
    told = found.told(every)
    for part, title in TITLES.items():
        changes = tuple(one for one in told if one.part == part)
        if changes:
            yield Section(title, changes)


def lines(one: Change, every: bool) -> tuple[Line, ...]:
    """The rows below a change: of formulas all; of what is new or gone the first, unless everything is wanted."""
    if every:
        return one.lines
    if one.part not in DETAILED:
        return ()
    return one.lines if one.kind not in ("added", "removed") else one.lines[:1]


def places(one: Change) -> str:
    """Where it stands in both specs."""
    return " · ".join(str(found) for found in (one.a, one.b) if found is not None)


def quantity(unit: str, count: int | None) -> str:
    """A number with its unit, and one that has none: –"""
    if count is None:
        return "–"
    if unit not in WORDS:
        return f"{count:,}"
    return WORDS[unit](count)


def delta(one: Figure) -> str:
    """The difference and the ratio: +15.2 M (×1.14); = where both are equal."""
    if one.before is None or one.after is None:
        return ""
    if one.before == one.after:
        return "="
    sign = "+" if one.after > one.before else "−"
    told = f"{sign}{quantity(one.unit, abs(one.after - one.before))}"
    times = ratio(one.after / one.before) if one.before else "1"
    return told if times == "1" else f"{told} (×{times})"


def ratio(value: float) -> str:
    """A ratio with three digits that count."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def table(figures: tuple[Figure, ...]) -> list[tuple[str, str, str, str]]:
    """Rows of name, both numbers and their difference."""
    both = [(quantity(one.unit, one.before), quantity(one.unit, one.after)) for one in figures]
    return [(plain(one.name), *pair, delta(one)) for one, pair in zip(figures, both, strict=True)]


def block_rows(found: Differences, every: bool) -> list[BlockFigures]:
    """The blocks whose numbers differ, those around them included; down to two levels unless all are wanted."""
    shown = [one for one in found.blocks if every or (not one.equal and one.level < 3)]
    return shown if len(shown) > 1 or every else []


def left_out(found: Differences, every: bool) -> str:
    """What is not told, in a sentence."""
    follow, spelled = (0, 0) if every else found.hidden
    parts = []
    if follow:
        parts.append(f"{follow} change{'s' * (follow > 1)} that follow{'s' * (follow == 1)} from these")
    if spelled:
        many = spelled > 1
        parts.append(f"{spelled} formula{'s' * many} written differently that mean{'s' * (not many)} the same")
    return f"Not told: {' and '.join(parts)} (--all)." if parts else ""


def verdict(found: Differences) -> str:
    """What is said where nothing differs."""
    return "" if bool(found) else "They are the same."


def plain(text: str) -> str:
    """A text with no signs that steer a terminal."""
    return "".join(sign if unicodedata.category(sign)[0] != "C" else "�" for sign in text)
