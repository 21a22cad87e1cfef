"""LaTeX → the tokens that carry meaning, so that two spellings of one formula compare equal and nothing else does.

Put away are: space, sizes of delimiters, fonts (bold, upright, script), the dot of a product, `\\top` for T, and braces
around one thing. A word in \\text or \\mathrm is one token. The order of what stands above and below is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|[^\s]")
NOTHING = {r"\,", r"\;", r"\quad", r"\qquad", r"\!", r"\ ", r"\limits", r"\displaystyle", r"\cdot", r"\mathop"}
SIZES = {r"\left", r"\right"}
WORDS = {r"\text", r"\mathrm"}
FONTS = {r"\mathbf", r"\mathcal", r"\mathbb"}
TWINS = {r"\top": "T", r"\vert": "|", r"\colon": ":"}


def tokens(latex: str) -> list[str]:
    """The normal form of a formula."""
    return _Reader(_grouping(TOKEN.findall(_words(latex)))).all()


def _words(latex: str) -> str:
    """Words in one piece: what \\text and \\mathrm hold, with the spaces and escapes in it put away."""

    def word(match: re.Match[str]) -> str:
        inner = match[1].replace(r"\_", "_").replace(" ", "")
        return f" {WORD}{inner.encode().hex()}{END} "

    return re.sub(r"\\(?:text|mathrm)\{((?:[^{}\\]|\\_)*)\}", word, latex)


WORD, END = "\u27e8", "\u27e9"


def _grouping(found: Iterable[str]) -> list[str]:
    """\\left[ and \\right] only group, as parentheses do; all other brackets are kept."""
    made: list[str] = []
    sized = ""
    for one in found:
        if one in SIZES:
            sized = one
            continue
        made.append({"[": "(", "]": ")"}.get(one, one) if sized else one)
        sized = ""
    return made


class _Reader:
    """Reads tokens one by one; a group is a list."""

    def __init__(self, found: Sequence[str]) -> None:
        self.found = list(found)
        self.place = 0

    def all(self) -> list[str]:
        """Everything up to the end, or the brace that closes this group."""
        made: list[str] = []
        while self.place < len(self.found) and self.found[self.place] != "}":
            made += self.atom()
        return made

    def atom(self) -> list[str]:
        """One thing with its scripts, those below first."""
        base = self.bare()
        scripts: dict[str, list[str]] = {}
        while self.place < len(self.found) and self.found[self.place] in "_^":
            sign = self.found[self.place]
            self.place += 1
            scripts[sign] = [*scripts.get(sign, []), *self.bare()]
        for sign in "_^":
            if sign in scripts:
                base += [sign, "{", *scripts[sign], "}"]
        return base

    def bare(self) -> list[str]:
        """One thing without scripts."""
        one = self.found[self.place]
        self.place += 1
        if one == "{":
            inner = self.all()
            self.place += 1
            return inner
        if one == WORD:
            end = self.found.index(END, self.place)
            text = bytes.fromhex("".join(self.found[self.place : end])).decode()
            self.place = end + 1
            return [text] if text else []
        if one in FONTS | WORDS:
            return self.bare()
        if one in (r"\frac", r"\sqrt", r"\hat", r"\bar"):
            groups = [self.bare() for _ in range(2 if one == r"\frac" else 1)]
            return [one, *(token for group in groups for token in ("{", *group, "}"))]
        return [] if one in NOTHING else [TWINS.get(one, one)]


def replaced(found: list[str], old: list[str], new: list[str]) -> list[str]:
    """The tokens with every run of `old` replaced by `new`."""
    made: list[str] = []
    place = 0
    while place < len(found):
        if old and found[place : place + len(old)] == old:
            made += new
            place += len(old)
        else:
            made.append(found[place])
            place += 1
    return made


def sides(found: list[str], signs: Sequence[str] = ("=", r"\approx")) -> list[list[str]]:
    """What stands between the signs of equality that are in no group."""
    made: list[list[str]] = [[]]
    deep = 0
    for one in found:
        deep += (one in ("{", "(", r"\begin")) - (one in ("}", ")", r"\end"))
        if one in signs and deep == 0:
            made.append([])
        else:
            made[-1].append(one)
    return made
