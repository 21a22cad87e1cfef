"""Layout → Unicode text on one line: what a terminal or a reader's voice can show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from .tree import (
    Accent,
    Big,
    Cases,
    Digits,
    Fence,
    Layout,
    Line,
    Over,
    Root,
    Row,
    Script,
    Sign,
    Space,
    Word,
    Words,
)

BELOW = str.maketrans("0123456789+-−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ")
ABOVE = str.maketrans("0123456789+-−=()⊤n′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵀⁿ′")


def write(one: Layout) -> str:
    """The text of a layout."""
    match one:
        case Row(items=items):
            return "".join(_part(items, number) for number in range(len(items)))
        case Word(text=text) | Digits(text=text):
            return shown(text)
        case Words(text=text):
            return shown(text)
        case Sign(text=text, kind=kind):
            return _sign(text, kind)
        case Space():
            return " "
        case _:
            return _form(one)


def _part(items: tuple[Layout, ...], number: int) -> str:
    """One of several: a fraction beside a factor is in parentheses."""
    one = items[number]
    near = (*items[max(number - 1, 0) : number], *items[number + 1 : number + 2])
    factor = isinstance(one, Over) and any(map(_is_factor, near))
    return f"({write(one)})" if factor else write(one)


def _is_factor(one: Layout) -> bool:
    return not isinstance(one, Sign) or one.text in "·⊙×/"


def _sign(text: str, kind: str) -> str:
    if kind == "before":
        return text
    if kind == "mark":
        return f"{text} " if text in ",;:" else text
    return text if text == "/" else f" {text} "


def _form(one: Over | Root | Script | Accent | Fence | Big | Cases) -> str:
    match one:
        case Over(top=top, bottom=bottom):
            return f"{_one(top)} / {_one(bottom)}"
        case Root(body=body):
            return f"√{_one(body)}"
        case Script(base=base, sub=sub, sup=sup):
            below = "" if sub is None else _small(write(sub), BELOW, "_")
            above = "" if sup is None else _small(write(sup), ABOVE, "^")
            return _one(base) + below + above
        case Accent(base=base, mark=mark):
            return unicodedata.normalize("NFC", write(base) + mark)
        case Fence(left=left, body=body, right=right):
            return f"{left}{write(body)}{right}"
        case Big(sign=sign, below=below_, above=above_):
            low = "" if below_ is None else f"_{{{write(below_)}}}"
            return f"{sign}{low}{'' if above_ is None else f'^{{{write(above_)}}}'} "
        case Cases(rows=rows):
            parts = [f"{write(value)} {'otherwise' if when is None else f'if {write(when)}'}" for value, when in rows]
            return "{ " + "; ".join(parts) + " }"


def _one(one: Layout) -> str:
    """In parentheses, unless it is one thing."""
    made = write(one)
    single = isinstance(one, Word | Digits | Fence | Script | Accent | Root | Sign | Cases)
    called = isinstance(one, Row) and len(one.items) == 2 and isinstance(one.items[1], Fence)
    return made if single or called or not made else f"({made})"


def _small(text: str, table: dict[int, int], mark: str) -> str:
    """The text below or above the line, where every character has such a form; else behind a mark."""
    plain = text.replace(" ", "")
    made = plain.translate(table)
    words = any(a.isalpha() and b.isalpha() for a, b in pairwise(plain))
    if all(old != new for old, new in zip(plain, made, strict=True)) and plain and not words:
        return made
    if plain == "′":
        return plain
    return f"{mark}{text}" if len(plain) == 1 else f"{mark}{{{text}}}"


def shown(text: str) -> str:
    """A text of a spec without characters that steer a terminal."""
    return "".join(char for char in text if unicodedata.category(char)[0] != "C")


def line(one: Line) -> str:
    """left = right, behind"""
    left = f"{write(one.left)} {one.sign} " if one.left is not None else ""
    behind = f"    ({write(one.behind).strip()})" if one.behind is not None else ""
    return re.sub(" +", " ", f"{left}{write(one.right)}").strip() + behind


def lines(made: Iterable[Line]) -> str:
    """Lines below each other; parts are indented."""
    return "\n".join("    " * one.level + line(one) for one in made)
