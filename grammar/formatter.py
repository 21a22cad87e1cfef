"""The formatter: the same tokens in the usual spelling, spacing and alignment, comments where they were.

It works on the logical lines that the parser reads, so nothing but layout and spelling can change; the result
is parsed again and compared. Line breaks inside brackets stay where the author put them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .diagnostics import InternalError, Source, width
from .lexing import CLOSE, OPEN, SUPERSCRIPTS, Layout, Token, physical_lines, scan

SPELLING = {
    "_ARROW": "→",
    "LESS_EQUAL": "≤",
    "MORE_EQUAL": "≥",
    "UNEQUAL": "≠",
    "MINUS": "-",
    "INFINITY": "∞",
}
STARS = str.maketrans("×∗⋅∙", "****")
BINARY = {"PLUS", "MINUS", "STAR", "SLASH", "DOUBLE_SLASH", "PERCENT"}
ENDS_VALUE = {
    "NAME",
    "NUMBER",
    "RPAR",
    "RSQB",
    "SUPERSCRIPT",
    "TRANSPOSED",
    "INFINITY",
    "SUM_SIGN",
    "PRODUCT_SIGN",
}
POSTFIX = {"LSQB", "LPAR", "DOT", "TRANSPOSED", "CARET", "SUPERSCRIPT"}
ALIGNED = {
    "CONFIG": ("ASSIGN", "AS"),
    "WEIGHTS": ("COLON", "TILDE"),
    "CHECKPOINT": ("COLON",),
    "CHOICE": ("ASSIGN",),
    "SHOWS": ("ASSIGN",),
}
SECTIONS = {"WHERE", "WEIGHTS", "USES", "SHOWS", "CONFIG"}
SMALL = {"2": "²", "3": "³"}
WIDEST = 44  # no column is aligned further right than this
STEP = 4


@dataclass
class Row:
    """A logical line: its tokens, the block that holds it, and what is hung in front of it."""

    tokens: list[Token]
    column: int
    block: int
    kind: str
    prefix: str = ""
    before: list[str] = field(default_factory=list)  # blank lines and comments above
    lines: list[str] = field(default_factory=list)


def format_source(text: str, name: str = "<text>") -> str:
    """The file in the usual layout; a `TransformulaError` if it does not parse."""
    from .parser import parse

    tree = parse(text, name)
    result = _Formatter(Source(name, text)).run()
    if parse(result, name) != tree:
        raise InternalError("formatting changed the meaning of a file; please report it")
    return result


class _Formatter:
    def __init__(self, source: Source) -> None:
        from .parser import tables

        self.source = source
        tokens = list(scan(source, tables().scanner))
        self.comments = {self._line(t.start): t for t in tokens if t.kind == "COMMENT"}
        self.used: set[int] = set()
        self.layout = Layout(list(physical_lines(tokens)), len(source.text))
        self.rows: list[Row] = []

    def run(self) -> str:
        self._collect()
        for row in self.rows:
            self._render(row)
        _align(self.rows)
        lines = [line for row in self.rows for line in (*row.before, *row.lines)]
        lines += self._comments_between(self._line(self.rows[-1].tokens[-1].end) + 1, None, 0)
        return "\n".join(lines).strip("\n") + "\n"

    def _line(self, at: int) -> int:
        return self.source.text.count("\n", 0, at)

    # --------------------------------------------------------------------------------------------------- rows

    def _collect(self) -> None:
        """Logical lines with the column at which each will stand."""
        columns, kinds, blocks = [0], [""], [0]
        tokens: list[Token] = []
        prefix = opener = ""
        count = 0
        done = 0  # first line of the file not looked at
        while True:
            token = self.layout.next()
            if token.kind == "_INDENT":
                if tokens:  # a block that hangs, or the lines under a bare word
                    word = tokens.pop()
                    opener = word.kind
                    if self._line(word.start) == self._line(token.start):
                        prefix = f"{word.text} "
                    else:
                        self._add([word], columns[-1], blocks[-1], "", "", done)
                        done = self._line(word.end) + 1
                count += 1
                columns.append(columns[-1] + (len(prefix) or STEP))
                kinds.append(opener or (kinds[-1] if kinds[-1] == "CHECKPOINT" else ""))
                blocks.append(count)
            elif token.kind == "_DEDENT":
                columns.pop()
                kinds.pop()
                blocks.pop()
            elif token.kind == "_NL":
                self._add(tokens, columns[-1], blocks[-1], kinds[-1], prefix, done)
                done = self._line(tokens[-1].end) + 1
                opener = tokens[0].kind if tokens[0].kind in ALIGNED else ""
                tokens, prefix = [], ""
            elif token.kind == "$END":
                return
            else:
                tokens.append(token)

    def _add(self, tokens: list[Token], column: int, block: int, kind: str, prefix: str, done: int) -> None:
        first = self._line(tokens[0].start)
        outer = column - len(prefix)
        row = Row(tokens, column, block, kind, prefix, self._comments_between(done, first, outer))
        self.rows.append(row)

    def _comments_between(self, start: int, stop: int | None, column: int) -> list[str]:
        """Blank lines (one at most) and comments on lines of their own."""
        lines = self.source.text.split("\n")
        found: list[str] = []
        for number in range(start, len(lines) if stop is None else stop):
            comment = self.comments.get(number)
            if comment is not None and number not in self.used:
                self.used.add(number)
                found.append(" " * column + comment.text.rstrip())
            elif not lines[number].strip() and (not found or found[-1]):
                found.append("")
        return found

    # -------------------------------------------------------------------------------------------------- lines

    def _render(self, row: Row) -> None:
        """The text of a row: one line, or several inside brackets."""
        tokens = _spell(row.tokens)
        text = " " * (row.column - len(row.prefix)) + row.prefix
        opened: list[int] = []  # columns where the lines inside each open bracket go on
        line = self._line(tokens[0].start)
        previous: Token | None = None
        spacing = _Spacing(tokens)
        for position, token in enumerate(tokens):
            here = self._line(token.start)
            if here > line:
                row.lines.append(self._comment(line, text))
                column = opened[-1] if opened else row.column + 2 * STEP
                row.lines += [one for one in self._comments_between(line + 1, here, column) if one]
                line, text = here, " " * column
            elif previous is not None and spacing.gap(position):
                text += " "
            text += spacing.text(position)
            if token.kind in OPEN:
                more = position + 1 < len(tokens) and self._line(tokens[position + 1].start) == here
                opened.append(width(text) if more else row.column + 2 * STEP)
            elif token.kind in CLOSE and opened:
                opened.pop()
            previous = token
        row.lines.append(self._comment(line, text))

    def _comment(self, number: int, text: str) -> str:
        """The line with the comment that stood at its end."""
        comment = self.comments.get(number)
        if comment is None or number in self.used:
            return text
        self.used.add(number)
        return f"{text}  {comment.text.rstrip()}"


def _spell(tokens: list[Token]) -> list[Token]:
    """The tokens in their usual spelling: √x for sqrt(x), |x| for abs(x), x² for x^2."""
    result: list[Token] = []
    closing: dict[int, str] = {}  # tokens that close a call spelt otherwise, and what they become
    for position, token in enumerate(tokens):
        after = tokens[position + 1 : position + 2]
        if position in closing:
            if closing[position]:
                result.append(Token(closing[position], "|", token.start, token.end))
            continue
        new = _called(tokens, position, closing) if token.kind == "NAME" else None
        if new is not None:
            if new.kind != "":
                result.append(new)
            continue
        small = SMALL.get(token.text) if result and result[-1].kind == "CARET" else None
        if small and not (after and after[0].kind in POSTFIX):
            token = Token("SUPERSCRIPT", small, result.pop().start, token.end)
        result.append(token)
    return result


def _called(tokens: list[Token], at: int, closing: dict[int, str]) -> Token | None:
    """√ or | for the name in front of sqrt(…) or abs(…) with one argument; `closing` gets the other end."""
    token = tokens[at]
    if token.text not in ("sqrt", "abs") or at + 1 >= len(tokens) or tokens[at + 1].kind != "LPAR":
        return None
    if at and tokens[at - 1].kind == "DOT":
        return None
    depth, end = 0, at + 1
    for end in range(at + 1, len(tokens)):
        depth += (tokens[end].kind in OPEN) - (tokens[end].kind in CLOSE)
        if depth == 0:
            break
        if depth == 1 and tokens[end].kind in ("COMMA", "ASSIGN"):
            return None
    if end == at + 2:
        return None
    follows = tokens[end + 1].kind if end + 1 < len(tokens) else ""
    if token.text == "abs":
        closing[at + 1], closing[end] = "", "BAR"
        return Token("BAR", "|", token.start, token.end)
    if follows in POSTFIX:
        return None
    if end == at + 3:
        closing[at + 1] = closing[end] = ""
    return Token("ROOT", "√", token.start, token.end)


class _Spacing:
    """Where spaces stand between the tokens of a logical line."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.ends: list[bool] = []  # does a value end with this token?
        self.depths: list[int] = []
        self.axes: set[int] = set()  # brackets of `@[k]`
        self.closers: set[int] = set()  # | and ‖ that close
        depth, opened = 0, []
        for position, token in enumerate(tokens):
            ended = bool(self.ends) and self.ends[-1]
            end = token.kind in ENDS_VALUE
            if token.kind in ("BAR", "DOUBLE_BAR") and ended:
                self.closers.add(position)
                end = True
            if token.kind in OPEN:
                if position and tokens[position - 1].kind == "AT" and not _is_concat(tokens, position):
                    self.axes.add(position)
                opened.append(position)
                depth += 1
            elif token.kind in CLOSE and opened:
                depth -= 1
                end = opened.pop() not in self.axes
            self.ends.append(end and token.kind != "COLON")
            self.depths.append(depth)
        first = tokens[0].kind
        self.path = first == "FROM"

    def text(self, at: int) -> str:
        """The token's usual spelling."""
        token = self.tokens[at]
        if token.kind in ("SUM_SIGN", "PRODUCT_SIGN"):
            return "sum" if token.kind == "SUM_SIGN" else "prod"
        if token.kind == "SUPERSCRIPT" and token.text not in ("²", "³"):
            return "^" + token.text.translate(SUPERSCRIPTS)
        if token.kind == "STAR":
            return token.text.translate(STARS)
        return SPELLING.get(token.kind, token.text)

    def gap(self, at: int) -> bool:
        """A space between the token before and this one?"""
        before, this = self.tokens[at - 1].kind, self.tokens[at].kind
        if (
            before in OPEN
            or this in CLOSE
            or this in ("COMMA", "SEMICOLON", "SUPERSCRIPT", "TRANSPOSED", "RPAR")
        ):
            return False
        if (
            {before, this} & {"DOT", "RANGE", "CARET"}
            or before == "ROOT"
            or (self.path and "SLASH" in (before, this))
        ):
            return False
        if this in ("BAR", "DOUBLE_BAR") and at in self.closers:
            return False
        if before in ("BAR", "DOUBLE_BAR") and at - 1 not in self.closers:
            return False
        if this in OPEN:
            return not (self.ends[at - 1] or at in self.axes)
        if before == "MINUS" and not (at > 1 and self.ends[at - 2]):
            return False
        if this == "COLON":
            return self.depths[at] == 0 and self.tokens[0].kind != "FOR"
        return True


def _is_concat(tokens: list[Token], at: int) -> bool:
    depth = 0
    for token in tokens[at:]:
        depth += (token.kind in OPEN) - (token.kind in CLOSE)
        if depth == 1 and token.kind == "SEMICOLON":
            return True
        if depth == 0:
            return False
    return False


# ---------------------------------------------------------------------------------------------------- columns


def _align(rows: list[Row]) -> None:
    """Aligns `=`, `as`, `:` and `~` of the rows of one block, between blank lines."""
    group: list[Row] = []
    for row in [*rows, None]:
        if group and (row is None or row.block != group[-1].block or "" in row.before):
            for mark in ALIGNED.get(group[0].kind, ()):
                _align_mark(group, mark)
            group = []
        if row is not None and row.kind in ALIGNED:
            group.append(row)


def _align_mark(group: list[Row], mark: str) -> None:
    places = {id(row): at for row in group if (at := _find(row, mark)) is not None}
    if len(places) < 2:
        return
    offsets = {
        key: width(row.lines[0][: places[key]]) - row.column for row in group if (key := id(row)) in places
    }
    target = max((offset for offset in offsets.values() if offset <= WIDEST), default=0)
    for row in group:
        if id(row) in places and offsets[id(row)] <= target:
            at = places[id(row)]
            row.lines[0] = row.lines[0][:at] + " " * (target - offsets[id(row)]) + row.lines[0][at:]


def _find(row: Row, mark: str) -> int | None:
    """Place of ` = `, ` as `, … outside brackets and texts in a row of one line."""
    if len(row.lines) != 1:
        return None
    sign = {"ASSIGN": "=", "AS": "as", "COLON": ":", "TILDE": "~"}[mark]
    text, depth, quoted = row.lines[0], 0, False
    for at, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == "#" and not quoted:
            return None
        elif not quoted:
            depth += (character in "([") - (character in ")]")
            if depth == 0 and text[at : at + len(sign) + 2] == f" {sign} ":
                return at + 1
    return None
