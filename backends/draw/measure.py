"""How much room texts take, without any font at hand: widths that hold for the usual monospaced faces."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .picture import Box

WIDE = 46  # characters of a formula's line
NAME, FORMULA, SMALL = 14.0, 12.5, 11.0
ADVANCE = 0.61  # of the size, per character
PAD = 12.0


@dataclass(frozen=True)
class Line:
    """A line of a box: what kind of text it is, the text, and a dimmer text after it."""

    kind: str
    text: str
    after: str = ""

    @property
    def size(self) -> float:
        """The size of the letters."""
        return {"name": NAME, "formula": FORMULA}.get(self.kind, SMALL)

    @property
    def width(self) -> float:
        """How wide the line is drawn at most."""
        return columns(self.text) * self.size * ADVANCE + (
            columns(self.after) + 1.5
        ) * SMALL * ADVANCE * bool(self.after)

    @property
    def height(self) -> float:
        """From one line to the next."""
        return self.size * 1.4


def columns(text: str) -> int:
    """Columns of a monospaced face; rare signs may come from a wider one, so they count double."""
    return sum(
        0
        if unicodedata.combining(c)
        else 2
        if ord(c) > 0x2FFF or unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def lines(box: Box) -> list[Line]:
    """What is written in a box."""
    axes = f"[{', '.join(box.axes)}]" if box.axes else ""
    found = [Line("name", _cut(box.name, WIDE), axes)] if box.name else []
    found += [Line("formula", text) for text in wrap(box.formula)]
    if axes and not box.name:
        found.append(Line("axes", axes))
    found += [Line("weight", _cut(text, WIDE)) for text in box.weights[:6]]
    if len(box.weights) > 6:
        found.append(Line("weight", f"and {len(box.weights) - 6} weights more"))
    return found


def size(box: Box) -> tuple[float, float]:
    """Width and height of a box."""
    written = lines(box)
    wide = max((line.width for line in written), default=0.0)
    return max(56.0, wide + 2 * PAD), sum(line.height for line in written) + PAD + 2


def wrap(text: str, most: int = 3) -> list[str]:
    """The text in lines, broken at spaces (a long word after brackets), with an ellipsis if too long."""
    rows: list[str] = []
    for word in text.split():
        pieces = [word] if columns(word) <= WIDE else re.findall(r"[^(\[]+[(\[]?|[(\[]", word)
        for number, piece in enumerate(pieces):
            part = _cut(piece, WIDE) + (" " if number + 1 == len(pieces) else "")
            if rows and columns(rows[-1]) + columns(part.rstrip()) <= WIDE:
                rows[-1] += part
            else:
                rows.append(part)
    rows = [row.rstrip() for row in rows]
    return rows if len(rows) <= most else [*rows[: most - 1], _cut(rows[most - 1], WIDE - 2) + " …"]


def _cut(text: str, most: int) -> str:
    return text if columns(text) <= most else text[: most - 1] + "…"
