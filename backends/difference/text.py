"""A comparison as lines for a terminal or a file: readable without colour, each piece with a style."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ...compiler.difference.change import Change, Differences
from .words import block_rows, left_out, lines, places, plain, quantity, sections, table, verdict

Piece = tuple[str, str]
"""A text and its style."""
STYLES = {"+": "green", "-": "red", "~": "yellow", "→": "cyan", "↷": "cyan", "⇄": "cyan", "=": "dim"}
WIDTH = 112
LONGEST_HEAD = 24


def write(found: Differences, every: bool = False, width: int = WIDTH) -> str:
    """The comparison as text."""
    rows = ("".join(text for text, _ in row).rstrip() for row in rendered(found, every, width))
    return "\n".join(rows) + "\n"


def rendered(found: Differences, every: bool = False, width: int = WIDTH) -> Iterator[list[Piece]]:
    """The lines of the comparison, each as pieces with their styles."""
    one, other = map(plain, found.labels)
    wide = max(len(one), len(other))
    yield [(f"{one} → {other}", "bold")]
    titles = found.titles if found.titles[0] != found.titles[1] else found.titles[:1]
    for label, title in zip((one, other), titles, strict=False):
        if title:
            yield from _wrapped([(f"  {label:<{wide}}  ", "")], plain(title), "dim", width, wide + 4)
    if verdict(found):
        yield []
        yield [(verdict(found), "green")]
    for section in sections(found, every):
        yield []
        yield [(section.title, "bold")]
        for change in section.changes:
            yield from _change(change, every, width)
    if found.figures:
        yield []
        yield from _cost(found, every)
    if left_out(found, every):
        yield []
        yield [(left_out(found, every), "dim")]


def _wrapped(start: list[Piece], text: str, style: str, width: int, indent: int) -> Iterator[list[Piece]]:
    rows = textwrap.wrap(text, max(30, width - indent), break_on_hyphens=False) or [""]
    yield [*start, (rows[0], style)]
    for row in rows[1:]:
        yield [(" " * indent, ""), (row, style)]


def _change(one: Change, every: bool, width: int) -> Iterator[list[Piece]]:
    where = plain(places(one))
    rows = list(_wrapped([("  ", ""), (f"{one.sign} ", STYLES[one.sign])], plain(one.say), "", width, 4))
    last = sum(len(text) for text, _ in rows[-1])
    if where and last + len(where) + 2 <= width:
        rows[-1].append((where.rjust(width - last), "dim"))
    elif where:
        rows.append([(where.rjust(width), "dim")])
    yield from rows
    if one.follows and every:
        yield [("      ", ""), (f"follows from {plain(one.follows)}", "dim")]
    for line in lines(one, every):
        for sign, text in (("-", line.before), ("+", line.after)):
            if text:
                start: list[Piece] = [("      ", ""), (f"{sign} ", STYLES[sign])]
                yield from _wrapped(start, plain(text), STYLES[sign], width, 8)
    for quote in one.quotes:
        yield from _wrapped([("      ", "")], f"“{plain(quote)}”", "dim", width, 6)


def _cost(found: Differences, every: bool) -> Iterator[list[Piece]]:
    """The table of costs, and the blocks whose numbers differ."""
    one, other = map(plain, found.labels)
    models = " and ".join(dict.fromkeys(map(plain, found.models)))
    yield [("Cost", "bold"), (f" of {models}, for {plain(found.sizes)}", "dim")]
    heads = (one, other) if max(len(one), len(other)) <= LONGEST_HEAD else ("before", "after")
    rows = [("", *heads, ""), *table(found.figures)]
    yield from _columns(rows)
    blocks = block_rows(found, every)
    if blocks:
        yield []
        head = ["by block", *(f"{figure.name} {sign}" for figure in blocks[0].figures for sign in ("before", "after"))]
        cells = [[quantity(f.unit, value) for f in block.figures for value in (f.before, f.after)] for block in blocks]
        names = ["  " * block.level + plain(block.name) for block in blocks]
        yield from _columns([head, *([name, *row] for name, row in zip(names, cells, strict=True))])


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[list[Piece]]:
    """Rows under a head: names to the left, numbers to the right."""
    wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [f"{row[0]:<{wide[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], wide[1:], strict=True))]
        yield [("  " + "  ".join(cells), "dim" if not number else "")]
