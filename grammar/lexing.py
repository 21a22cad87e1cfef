"""Characters -> tokens -> logical lines with _NL, _INDENT and _DEDENT between them.

Lines continue inside brackets, after a comma at their end, and after `=` at their end (unless printed cases
follow). A block that hangs on its word (`where a = …`) begins at the column of its first token. Words such as
`where` or `model` are keywords only at the start of a line and in front of another word; elsewhere they name.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .diagnostics import Source

MAX_BRACKETS = 200
MAX_BLOCKS = 50

RESERVED = {"if", "else", "and", "or", "not", "for", "in", "as"}
SECTIONS = ("where", "weights", "uses", "shows", "remove")
ITEMS = (
    "spec",
    "from",
    "config",
    "choice",
    "axes",
    "block",
    "model",
    "objective",
    "corruption",
    "change",
    "tie",
    "checkpoint",
)
OPEN_BLOCKS = {"where", "weights", "uses", "shows", "config"}  # they may hang: the block begins on their own line
LINE_WORDS = {*SECTIONS, *ITEMS, "skip"}
MIDDLE_WORDS = {"extends", "import", "of", "from", "otherwise"}

TWINS = str.maketrans("µϵϕϑϱϖϰ′", "μεφθρπκ'")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
OPEN = {"LPAR": ")", "LSQB": "]"}
CLOSE = {"RPAR", "RSQB"}


class Token:
    """A piece of text; `problem` names what is wrong with a BAD one."""

    __slots__ = ("end", "kind", "problem", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int, problem: str = "") -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end
        self.problem = problem

    def __repr__(self) -> str:
        return f"{self.kind}({self.text!r})"


@dataclass
class Line:
    """The tokens of one line of the file and the characters in front of the first."""

    start: int
    margin: str
    tokens: list[Token]

    @property
    def indent(self) -> int:
        """Column of the first token, counted from 0."""
        return len(self.margin)


@dataclass
class Level:
    """An open block: its column; `floor` is that of the word on which it hangs, until its second line."""

    column: int
    floor: int | None = None
    cases: bool = False


def scanner(terminals: Iterable[tuple[str, str, bool]]) -> re.Pattern[str]:
    """One pattern for all terminals that are not words (those are names until the context says otherwise)."""
    groups = [
        f"(?P<{name}>{pattern})"
        for name, pattern, _ in terminals
        if not re.fullmatch("[a-z]+", pattern) and name[:2] != "__"
    ]
    return re.compile(
        "|".join([*groups, r"(?P<SPACE>[ \t]+)", r"(?P<COMMENT>#[^\n]*)", r"(?P<NEWLINE>\r?\n)"])
    )


def scan(source: Source, pattern: re.Pattern[str]) -> Iterator[Token]:
    """All tokens, with spaces, comments and newlines; what fits nothing is BAD."""
    text, at = source.text, 1 if source.text.startswith("\ufeff") else 0
    match = pattern.match
    while at < len(text):
        found = match(text, at)
        if found is None:
            end = _bad_end(text, at)
            yield Token("BAD", text[at:end], at, end, "string" if text[at] == '"' else "character")
            at = end
            continue
        kind, end = found.lastgroup or "", found.end()
        word = found.group()
        if kind == "NAME":
            yield _word(word, at, end)
        else:
            yield Token(kind, word, at, end)
        at = end


def _word(text: str, start: int, end: int) -> Token:
    name = normal(text)
    if any(map(unicodedata.combining, name)):
        return Token("BAD", text, start, end, "combining")
    return Token(name.upper() if name in RESERVED else "NAME", name, start, end)


def normal(name: str) -> str:
    """The one spelling of a name: composed letters, upright mathematical ones, μ for µ, ε for ϵ, ' for ′."""
    if name.isascii():
        return name
    plain = "".join(
        unicodedata.normalize("NFKC", c) if "\U0001d400" <= c <= "\U0001d7ff" else c for c in name
    )
    return unicodedata.normalize("NFC", plain).translate(TWINS)


def _bad_end(text: str, at: int) -> int:
    """End of a piece that is no token: an open text to its line's end, a LaTeX command, or a character."""
    if text[at] == '"':
        return next((i for i in range(at, len(text)) if text[i] == "\n"), len(text))
    if text[at] == "\\":
        return at + len(re.match(r"\\[A-Za-z]*", text[at : at + 40]).group())  # type: ignore[union-attr]
    return at + 1


def physical_lines(tokens: Iterable[Token]) -> Iterator[Line]:
    """The lines that hold more than spaces and comments."""
    line = Line(0, "", [])
    for token in tokens:
        if token.kind == "NEWLINE":
            if line.tokens:
                yield line
            line = Line(token.end, "", [])
        elif token.kind == "SPACE":
            if not line.tokens:
                line.margin = token.text
        elif token.kind != "COMMENT":
            line.tokens.append(token)
    if line.tokens:
        yield line


def starts_with_word(tokens: list[Token]) -> bool:
    """Is the first token a keyword, as `model` in `model Bert`, and no name, as in `model = x`?"""
    first = tokens[0]
    if first.kind != "NAME" or first.text not in LINE_WORDS:
        return False
    if len(tokens) == 1:
        return True
    second = tokens[1]
    if first.text == "where" and second.kind == "IF":  # no value is meant
        return True
    if first.text == "skip":
        return second.kind in ("STRING", "BAD")
    return (second.kind == "NAME" and second.text != "otherwise") or (
        second.kind in {"FOR", "IN", "AS"}  # `where for l in layers:`, or a reserved word used as a name
    )


@dataclass
class Layout:
    """Hands out the tokens of a file with the layout made explicit, and can start anew after a mistake."""

    lines: list[Line]
    end: int
    at: int = 0
    queue: deque[Token] = field(default_factory=deque)
    levels: list[Level] = field(default_factory=lambda: [Level(0)])
    cases: bool = False  # printed cases begin on the next line
    margin: str | None = None  # the first indentation, tabs or spaces

    def next(self) -> Token:
        """The next token; `$END` for ever after the last."""
        while not self.queue:
            if self.at < len(self.lines):
                self._logical_line()
            else:
                self._finish()
        return self.queue.popleft()

    def drop(self, wrong: Token, again: bool) -> None:
        """Leaves the rest of a wrong token's line and all that is deeper; `again`: reads that line anew."""
        for token in (wrong, *self.queue):
            if token.kind == "_INDENT":
                self.levels.pop()
        self.queue.clear()
        self.cases = False
        if again:
            self.at = bisect_right([line.start for line in self.lines], wrong.start) - 1
        while self.at < len(self.lines) and self.lines[self.at].indent > self.levels[-1].column:
            self.at += 1

    def _finish(self) -> None:
        place = self.end
        self.queue.extend(Token("_DEDENT", "", place, place) for _ in self.levels[1:])
        del self.levels[1:]
        self.queue.append(Token("$END", "", place, place))

    def _logical_line(self) -> None:
        line = self.lines[self.at]
        self.at += 1
        word = starts_with_word(line.tokens)
        self._indentation(line, word)
        self.cases = False
        tokens = line.tokens
        if word:
            first = tokens[0]
            self.queue.append(Token(first.text.upper(), first.text, first.start, first.end))
            tokens = tokens[1:]
            if first.text in OPEN_BLOCKS and self._open_block(line, tokens):
                return
        self._rest(line, tokens)

    def _open_block(self, line: Line, tokens: list[Token]) -> bool:
        """Opens the block of `where` and its like; True if it begins on the next line."""
        if tokens:
            first = tokens[0]
            self.levels.append(Level(first.start - line.start, floor=line.indent))
            self.queue.append(Token("_INDENT", "", first.start, first.start))
            return False
        return self.at < len(self.lines) and self.lines[self.at].indent > self.levels[-1].column

    def _indentation(self, line: Line, word: bool) -> None:
        first = line.tokens[0]
        top = self.levels[-1]
        if top.floor is not None:
            if top.floor < line.indent < top.column:
                top.column = line.indent
            top.floor = None
        before = len(self.levels)
        while line.indent < self.levels[-1].column or (word and self.levels[-1].cases):
            self.levels.pop()
            self.queue.append(Token("_DEDENT", "", first.start, first.start))
        if self._mixed(line):
            self.queue.append(Token("BAD", line.margin, line.start, first.start, "tabs"))
        elif line.indent > self.levels[-1].column:
            if len(self.levels) < before and not top.cases:
                self.queue.append(Token("BAD", "", first.start, first.end, "dedent"))
            elif len(self.levels) > MAX_BLOCKS:
                self.queue.append(Token("BAD", "", first.start, first.end, "blocks"))
            else:
                self.levels.append(Level(line.indent, cases=self.cases))
                self.queue.append(Token("_INDENT", "", first.start, first.start))

    def _mixed(self, line: Line) -> bool:
        """Tabs where the file began with spaces, or the other way round?"""
        if not line.margin:
            return False
        self.margin = self.margin or line.margin[0]
        return set(line.margin) != {self.margin}

    def _rest(self, line: Line, tokens: list[Token]) -> None:
        """Queues the tokens up to the end of the logical line."""
        opened: list[Token] = []
        while True:
            for token in tokens:
                if token.kind in OPEN:
                    opened.append(token)
                    if len(opened) > MAX_BRACKETS:
                        self.queue.append(Token("BAD", token.text, token.start, token.end, "brackets"))
                        opened.clear()
                elif token.kind in CLOSE and opened:
                    opened.pop()
                self.queue.append(token)
            if not self._continues(line, tokens, opened):
                break
            tokens = self.lines[self.at].tokens
            self.at += 1
        place = tokens[-1].end if tokens else line.tokens[-1].end
        if opened:
            self.queue.append(Token("BAD", opened[-1].text, opened[-1].start, opened[-1].end, "open"))
        self.queue.append(Token("_NL", "", place, place))

    def _continues(self, line: Line, tokens: list[Token], opened: list[Token]) -> bool:
        """Does the next line of the file belong to this logical line?"""
        if self.at == len(self.lines) or not tokens:
            return False
        following = self.lines[self.at]
        if opened:
            return following.indent > line.indent or following.tokens[0].kind in CLOSE
        if tokens[-1].kind == "COMMA":
            return following.indent > line.indent
        if tokens[-1].kind == "ASSIGN" and following.indent > self.levels[-1].column:
            self.cases = self._is_case(self.at)
            return not self.cases
        return False

    def _is_case(self, at: int) -> bool:
        """`value if condition` without `else`, or `value otherwise`."""
        depth = waiting = 0
        while True:
            for token in self.lines[at].tokens:
                depth += (token.kind in OPEN) - (token.kind in CLOSE)
                if depth == 0:
                    waiting += (token.kind == "IF") - (token.kind == "ELSE")
                last = token
            at += 1
            if depth <= 0 or at == len(self.lines):
                return waiting > 0 or last.text == "otherwise"
