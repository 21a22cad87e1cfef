"""Where the parser stopped, as the rules of mistakes.py look at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .diagnostics import Span
from .lexing import CLOSE, OPEN, Token

if TYPE_CHECKING:
    from .parser import Parser


@dataclass
class Place:
    """Where the parser stopped."""

    parser: Parser
    token: Token
    line: list[Token] = field(init=False)
    rest: list[Token] = field(init=False)
    opened: list[Token] = field(init=False)

    def __post_init__(self) -> None:
        self.line = self.parser.line
        self.rest = list(self.parser.layout.queue)
        self.opened = []
        for token in self.line:
            if token.kind in OPEN:
                self.opened.append(token)
            elif token.kind in CLOSE and self.opened:
                self.opened.pop()

    @property
    def previous(self) -> Token:
        """The token before, on this logical line; an empty one at its start."""
        return self.line[-1] if self.line else Token("", "", self.token.start, self.token.start)

    @property
    def following(self) -> Token:
        """The token after."""
        return self.rest[0] if self.rest else Token("$END", "", self.token.end, self.token.end)

    @property
    def first(self) -> Token:
        """The first token of the logical line."""
        return self.line[0] if self.line else self.token

    @property
    def adjacent(self) -> bool:
        """No space between the token before and this one?"""
        return bool(self.line) and self.previous.end == self.token.start

    @property
    def shown(self) -> str:
        """The token, quoted as it stands in the text."""
        if self.token.kind in ("_NL", "$END"):
            return "the end of the line"
        return f"`{self.text(self.token)}`"

    def text(self, *tokens: Token) -> str:
        """The text from the first to the last of some tokens."""
        return self.parser.source.text[tokens[0].start : tokens[-1].end]

    def accepts(self, *kinds: str) -> bool:
        """Would any of these be taken here?"""
        return any(map(self.parser.accepts, kinds))

    def span(self, *tokens: Token) -> Span:
        """From the first to the last of some tokens; the one where the parser stopped if there are none."""
        first, last = (tokens[0], tokens[-1]) if tokens else (self.token, self.token)
        start, end = first.start, last.end
        if start == end and first.kind in ("_NL", "$END"):
            end += 1
        return Span(self.parser.source, start, end)

    def begins_line(self, token: Token) -> bool:
        """Is it the first of a line of the file?"""
        text = self.parser.source.text
        return not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip()
