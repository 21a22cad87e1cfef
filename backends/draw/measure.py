"""How much room texts take, without any font at hand: widths that hold for the usual monospaced faces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from ...compiler.units import flops, number
from .figures import Figures
from .picture import Box, Cluster, Edge

WIDE = 46  # characters of a formula's line
NAME, FORMULA, SMALL = 14.0, 12.5, 11.0
ADVANCE = 0.61  # of the size, per character
PAD = 12.0
LABEL = 40  # characters of an edge's label
SHARED = "≡"
"""The mark of weights that others read, too."""


@dataclass(frozen=True)
class Line:
    """A line of a box: what kind of text it is, and the text."""

    kind: str
    text: str

    @property
    def size(self) -> float:
        """The size of the letters."""
        return {"name": NAME, "formula": FORMULA}.get(self.kind, SMALL)

    @property
    def width(self) -> float:
        """How wide the line is drawn at most."""
        return width(self.text, self.size)

    @property
    def height(self) -> float:
        """From one line to the next."""
        return self.size * 1.4


def width(text: str, size: float) -> float:
    """How wide a text of a size is drawn at most."""
    return columns(text) * size * ADVANCE


def columns(text: str) -> int:
    """Columns of a monospaced face; rare signs may come from a wider one, so they count double."""
    return sum(_column(c) for c in text)


def _column(c: str) -> int:
    if c < "\u0300":
        return 1
    if unicodedata.combining(c):
        return 0
    return 2 if ord(c) > 0x2FFF or unicodedata.east_asian_width(c) in "WF" else 1


def lines(box: Box) -> list[Line]:
    """What is written in a box."""
    found = [Line("name", cut(box.name, WIDE))] if box.name else []
    found += [Line("formula", text) for text in wrap(box.formula)]
    found += [Line("weight", cut(text, WIDE)) for text in box.weights[:6]]
    if len(box.weights) > 6:
        found.append(Line("weight", f"and {len(box.weights) - 6} weights more"))
    found += [Line("shared", cut(f"{SHARED} {text}", WIDE)) for text in box.shared[:3]]
    if told := figures(box.figures):
        found.append(Line("figures", told))
    return found


def figures(found: Figures | None) -> str:
    """7.1 M parameters, 2.4 GFLOP; nothing of what costs nothing."""
    if found is None:
        return ""
    parts = [f"{number(found.parameters)} parameters"] if found.parameters else []
    parts += [flops(found.flops)] if found.flops else []
    return ", ".join(parts)


def label(edge: Edge) -> str:
    """What stands on an edge: the name that its value has, and the value's axes with their sizes."""
    axes = ", ".join(edge.axes)
    return cut(f"{edge.name} : {axes}" if edge.name and axes else edge.name or axes, LABEL)


def title(cluster: Cluster) -> str:
    """What stands in a cluster's head."""
    return cut(cluster.name + (f" : {cluster.block}" if cluster.block else ""), WIDE)


def subtitle(cluster: Cluster) -> list[Line]:
    """The second line of a cluster's head: its figures, and whether its weights are shared."""
    told = figures(cluster.figures)
    found = [Line("figures", told)] if told else []
    return found + [Line("shared", cut(f"{SHARED} {text}", WIDE)) for text in cluster.shared[:2]]


def size(box: Box) -> tuple[float, float]:
    """Width and height of a box."""
    written = lines(box)
    wide = max((line.width for line in written), default=0.0)
    return max(56.0, wide + 2 * PAD), sum(line.height for line in written) + PAD + 2


def wrap(text: str, most: int = 3) -> list[str]:
    """The text in lines, broken at spaces (a long word after brackets), with an ellipsis if too long."""
    rows: list[str] = []
    for word in _words(text, most):
        pieces = [word] if columns(word) <= WIDE else re.findall(r"[^(\[]+[(\[]?|[(\[]", word)
        for place, piece in enumerate(pieces):
            part = cut(piece, WIDE) + (" " if place + 1 == len(pieces) else "")
            if rows and columns(rows[-1]) + columns(part.rstrip()) <= WIDE:
                rows[-1] += part
            else:
                rows.append(part)
    rows = [row.rstrip() for row in rows]
    return rows if len(rows) <= most else [*rows[: most - 1], cut(rows[most - 1], WIDE - 2) + " …"]


def _words(text: str, most: int) -> Iterable[str]:
    """The words of a text as far as anybody can read them in so many lines: a spec may be of any length."""
    return text[: 4 * WIDE * (most + 1)].split()


def cut(text: str, most: int) -> str:
    """The text, or as many columns of it as there is room for, with an ellipsis."""
    if columns(text[: most + 1]) <= most and len(text) <= most:
        return text
    kept, room = [], most - 1
    for c in text:
        room -= _column(c)
        if room < 0:
            break
        kept.append(c)
    return "".join(kept) + "…"
