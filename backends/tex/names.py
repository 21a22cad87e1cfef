"""Names of a spec → letters and words, by one rule.

    x, α, alpha      a letter; Greek letters by their names, too
    tokens           several letters are a word, upright
    x_i, p_attn      a letter before the underscore: what follows stands below it, further underscores are commas
    W_Q of a map     the letter of a map stands above it, as in papers: W^Q; digits stay below, W_1
    LN_1             a word with one letter or digit behind its underscore has it below
    layer_norm       any other word keeps its underscores
    W1, x₀           digits behind a single letter stand below it
    d'               primes stay
    x̂               marks stay above their letter

A few names of axes have a row of their own in signs.WRITTEN: dk is d_k.
"""

from __future__ import annotations

import re
import unicodedata

from .signs import BY_NAME, MARK, WRITTEN
from .tree import Accent, Digits, Layout, Script, Sign, Word, listed, row, scripted

LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def written(name: str, is_map: bool = False) -> Layout:
    """The layout of a name; `is_map`: it is a weight with an arrow."""
    name = WRITTEN.get(name, name)
    bare = name.rstrip("'′")
    made = _parts(bare, is_map) if bare else Word(name)
    primes = len(name) - len(bare) if bare else 0
    return scripted(made, [], row(*(Sign("′", "mark"),) * primes)) if primes else made


def _parts(name: str, is_map: bool) -> Layout:
    first, *rest = name.split("_")
    if not first or not all(rest):
        return Word(name)
    base = _symbol(first)
    if base is None:
        short = all(len(one) == 1 or one.isdigit() for one in rest)
        return Script(Word(first), _below(rest)) if rest and short else Word(name)
    if not rest:
        return base
    if is_map and len(rest) == 1 and rest[0].isalpha() and not isinstance(base, Script):
        return Script(base, None, _below(rest))
    return scripted(base, [_below(rest)])


def _below(parts: list[str]) -> Layout:
    return listed([Digits(one) if one.isdigit() else _symbol(one) or Word(one) for one in parts])


def _symbol(text: str) -> Layout | None:
    """A single letter, with what its digits and marks say; None for a word."""
    if text in BY_NAME:
        return Word(BY_NAME[text])
    plain = unicodedata.normalize("NFD", text)
    marks = [char for char in plain[1:] if char in MARK]
    digits = re.fullmatch(r"([^\W\d])([0-9₀-₉]+)", text)
    if digits:
        return Script(Word(digits[1]), Digits(digits[2].translate(LOWERED)))
    if marks and len(plain) == len(marks) + 1:
        made: Layout = Word(plain[0])
        for mark in marks:
            made = Accent(made, mark)
        return made
    return Word(text) if len(text) == 1 else None
