"""Mathematical layout: the few forms that a formula on paper is made of. Writers turn them into LaTeX, Unicode, MathML.

    Word(text)         a name or symbol; upright if it is a word, slanted if it is a letter
    Digits(text)       a number as written
    Sign(text, kind)   an operator: a sign between two things, before one, or a mark such as a comma
    Words(text)        running text: if, otherwise, a string of the spec
    Row(items)         one after the other
    Over(top, bottom)  a fraction
    Root(body)         a square root
    Script(base, …)    with something below or above its right end
    Accent(base, mark) a hat, a bar, a dot
    Fence(…)           something between two delimiters as tall as it is
    Big(sign, …)       an operator with limits: a sum, a product, a maximum
    Cases(rows)        values with their conditions, behind one brace
    Space(wide)        a thin or wide gap

A tree holds no markup: a text of a spec is only ever in `text`, and each writer escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ...grammar.diagnostics import Span


@dataclass(frozen=True)
class Word:
    """A name: one letter, or several that stand upright."""

    text: str

    @property
    def upright(self) -> bool:
        """Whether it is a word, not a letter."""
        return len(self.text) != 1


@dataclass(frozen=True)
class Digits:
    """A number, as it was written."""

    text: str


@dataclass(frozen=True)
class Sign:
    """An operator or mark; `kind` is binary, relation, before or mark."""

    text: str
    kind: str = "binary"


@dataclass(frozen=True)
class Words:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Space:
    """A gap, thin between factors, wide before a condition."""

    wide: bool = False


@dataclass(frozen=True)
class Row:
    """One after the other."""

    items: tuple[Layout, ...]


@dataclass(frozen=True)
class Over:
    """A fraction."""

    top: Layout
    bottom: Layout


@dataclass(frozen=True)
class Root:
    """A square root."""

    body: Layout


@dataclass(frozen=True)
class Script:
    """base_sub^sup; one of the two may be missing."""

    base: Layout
    sub: Layout | None = None
    sup: Layout | None = None


@dataclass(frozen=True)
class Accent:
    """A letter with a mark above it; `mark` is the combining character."""

    base: Layout
    mark: str


@dataclass(frozen=True)
class Fence:
    """left body right, as tall as the body."""

    left: str
    body: Layout
    right: str


@dataclass(frozen=True)
class Big:
    """An operator with limits; a text of several letters is a word: max, mean."""

    sign: str
    below: Layout | None = None
    above: Layout | None = None


@dataclass(frozen=True)
class Cases:
    """Values and conditions; the last condition may be None (otherwise)."""

    rows: tuple[tuple[Layout, Layout | None], ...]


Layout: TypeAlias = (
    Word | Digits | Sign | Words | Space | Row | Over | Root | Script | Accent | Fence | Big | Cases
)
TALL = (Over, Big, Cases, Root)


@dataclass(frozen=True)
class Line:
    """left = right, with what is said behind it: a condition, the steps of a loop. Without left it goes on.

    `spans` are the places in the spec that it writes: the statement, and its value.
    """

    left: Layout | None
    sign: str
    right: Layout
    behind: Layout | None = None
    level: int = 0  # 0: the head of a definition, 1: a part of it
    spans: tuple[Span, ...] = field(default=(), compare=False)


def row(*items: Layout) -> Layout:
    """The items one after the other, rows within opened."""
    flat: list[Layout] = []
    for one in items:
        flat += one.items if isinstance(one, Row) else (one,)
    return flat[0] if len(flat) == 1 else Row(tuple(flat))


def listed(items: list[Layout], mark: str = ",") -> Layout:
    """The items with a mark between them."""
    out: list[Layout] = []
    for one in items:
        out += [Sign(mark, "mark"), one] if out else [one]
    return row(*out)


def spaced(items: list[Layout]) -> Layout:
    """The items side by side, with thin gaps."""
    out: list[Layout] = []
    for one in items:
        out += [Space(), one] if out else [one]
    return row(*out)


def parens(body: Layout) -> Layout:
    """(body)"""
    return Fence("(", body, ")")


def is_tall(one: Layout) -> bool:
    """Whether something in it is higher than a line of text."""
    match one:
        case Row(items=items):
            return any(map(is_tall, items))
        case Fence(body=body) | Accent(base=body):
            return is_tall(body)
        case Script(base=base):
            return is_tall(base)
        case _:
            return isinstance(one, TALL)


def scripted(base: Layout, sub: list[Layout], sup: Layout | None = None) -> Layout:
    """The base with more below it, behind what is there."""
    if isinstance(base, Script) and (sup is None or base.sup is None):
        below = ([base.sub] if base.sub is not None else []) + sub
        return Script(base.base, listed(below) if below else None, sup if sup is not None else base.sup)
    return Script(base, listed(sub) if sub else None, sup) if sub or sup is not None else base
