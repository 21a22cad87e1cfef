"""Texts of a spec in Markdown: nothing of them can become markup, a link or HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

MARKUP = frozenset("\\`*_[](#|~$!<>&")


def plain(text: str) -> str:
    """Running text on one line."""
    return "".join(_escaped(char) for char in one_line(text))


def _escaped(char: str) -> str:
    if char in "<>&":
        return f"&#{ord(char)};"
    return f"\\{char}" if char in MARKUP else char


def one_line(text: str) -> str:
    """The text without line ends and characters that steer."""
    return "".join(char for char in re.sub(r"\s+", " ", text) if unicodedata.category(char)[0] != "C").strip()


def code(text: str, cell: bool = False) -> str:
    """The text as code, with a fence that it does not hold; in a table its bars do not end the cell."""
    inner = one_line(text)
    if not inner:
        return ""
    ticks = "`" * (longest(inner) + 1)
    gap = " " if inner.startswith("`") or inner.endswith("`") else ""
    made = f"{ticks}{gap}{inner}{gap}{ticks}"
    return made.replace("|", "\\|") if cell else made


def longest(text: str) -> int:
    """How many backticks follow each other at most."""
    return max((len(run) for run in re.findall("`+", text)), default=0)


def fenced(text: str, kind: str) -> str:
    """A block of code, of math or of a picture."""
    ticks = "`" * max(3, longest(text) + 1)
    lines = [
        "".join(char for char in line if unicodedata.category(char)[0] != "C").rstrip()
        for line in text.strip("\n").split("\n")
    ]
    return "\n".join([f"{ticks}{kind}", *lines, ticks])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
