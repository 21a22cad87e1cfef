"""`parse`: the text of a spec -> syntax.File, by an LALR(1) table and some lines of driver.

transformula.lark -> (tabulate.py) table.py -> `Tables`; lexing.py hands out tokens, build.py makes the nodes,
and mistakes.py words the errors. After a mistake the rest of its line and whatever is deeper is left out, and
reading goes on, so that one run tells them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from . import lexing
from .build import Builder
from .diagnostics import Diagnostic, Diagnostics, InternalError, Source, Span, TransformulaError, error
from .lexing import Layout, Token
from .syntax import File
from .table import load

MAX_SIZE = 400_000
MAX_MISTAKES = 20
LAYOUT = {"_NL", "_INDENT", "_DEDENT"}
Stacks: TypeAlias = tuple[list[int], list[tuple[Any, int, int]]]


@dataclass(frozen=True)
class Rule:
    """One production: pops `size` symbols and hands those at `kept` to the builder's `method` (none: a list).

    A place -n - 1 is a list to be spliced in, None an absent `[…]`; `through`: an only child is the whole.
    """

    origin: str
    method: str
    size: int
    kept: tuple[int | None, ...]
    through: bool


@dataclass(frozen=True)
class Tables:
    """What Lark computed: for each state the actions by terminal and the gotos by rule (tabulate._row)."""

    scanner: re.Pattern[str]
    rules: list[Rule]
    states: list[dict[str, int]]
    end: int


@cache
def tables() -> Tables:
    """Read once."""
    data = load()
    rules = [
        Rule(name, method, size, tuple(kept), through) for name, method, size, kept, through in data["rules"]
    ]
    rows = data["rows"]
    return Tables(lexing.scanner(data["terminals"]), rules, [rows[n] for n in data["states"]], data["end"])


def parse(text: str, name: str = "<text>") -> File:
    """The syntax tree of a file; a `TransformulaError` holds all mistakes found in it."""
    source = Source(name, text)
    _check_text(source)
    return Parser(source).run()


def _check_text(source: Source) -> None:
    text = source.text
    if len(text) > MAX_SIZE:
        raise error("P315", f"{source.name} has {len(text):,} characters; a spec has at most {MAX_SIZE:,}")
    at = text.find("\0")
    if at >= 0:
        raise error(
            "P315",
            f"{source.name} is not a text: character {at + 1:,} is NUL",
            help="a spec is a UTF-8 text; is this a checkpoint, or saved as UTF-16?",
        )


class Parser:
    """Driver: stacks of states and of values with their places, and the lines where reading can resume."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tables = tables()
        lines = list(lexing.physical_lines(lexing.scan(source, self.tables.scanner)))
        self.layout = Layout(lines, len(source.text.rstrip()))
        self.builder = Builder(source)
        self.states = [0]
        self.values: list[tuple[Any, int, int]] = []
        self.line: list[Token] = []  # what has been read of the current logical line
        self.last: Token | None = None  # the last token that is no layout
        self.fresh = True  # does a line begin here?
        self.depth = 0
        self.head = ""  # the kind of the first token of the last line
        self.heads: list[str] = []  # the same of the lines that opened the blocks around
        self.before: Stacks = ([0], [])  # in front of the current line
        self.resume: list[Stacks] = []  # the same for the lines around it, by depth
        self.found = Diagnostics()

    def run(self) -> File:
        """Reads all tokens; raises what is wrong with them."""
        if not self.layout.lines:
            at = Span(self.source, 0, 0)
            raise error("P315", "no definitions: the file is empty or holds only comments", at)
        while True:
            token = self.layout.next()
            if self.fresh:
                self._remember(token)
            try:
                if self._feed(token):
                    break
            except TransformulaError as problem:
                self._recover(token, problem.diagnostics[0])
        self.found.check()
        file = self.values[-1][0]
        assert isinstance(file, File)
        return file

    def _remember(self, token: Token) -> None:
        """The stacks in front of a line, to which reading returns if the line is wrong."""
        if self._awaits_block():  # the line belongs to its head, which goes with it
            self.before = self.resume[self.depth]
            return
        self.before = (self.states[:], self.values[:])
        if token.kind not in LAYOUT:
            self.resume[self.depth :] = [self.before]

    def _awaits_block(self) -> bool:
        """Must indented lines come now?"""
        return self.tables.states[self.states[-1]].keys() == {"_INDENT"}

    def _feed(self, token: Token) -> bool:
        """Reduces as long as `token` asks for it, then takes it; True at the end of the file."""
        kind = self._kind(token)
        states, rows = self.states, self.tables.states
        while True:
            action = rows[states[-1]].get(kind)
            if action is None:
                raise self._mistake(token)
            if action >= 0:
                break
            self._reduce(self.tables.rules[-action - 1])
            if kind == "$END" and states[-1] == self.tables.end:
                return True
        states.append(action)
        self.values.append((token, token.start, token.end))
        self.fresh = kind in LAYOUT
        if kind == "_INDENT":
            self._enter_block()
        elif kind == "_DEDENT":
            self._leave_block()
        if self.fresh:
            self.line.clear()
        else:
            self.head = kind if not self.line else self.head
            self.line.append(token)
            self.last = token
        return False

    def _enter_block(self) -> None:
        self.depth += 1
        rows = self.heads[-1:] == ["CHECKPOINT"]
        self.heads.append("CHECKPOINT" if rows else self.head)

    def _leave_block(self) -> None:
        self.depth -= 1
        self.heads.pop()

    def _kind(self, token: Token) -> str:
        """`of`, `import`, `extends`, … are words only where no name can stand."""
        if token.kind == "NAME" and token.text in lexing.MIDDLE_WORDS:
            row, word = self.tables.states[self.states[-1]], token.text.upper()
            if word in row and "NAME" not in row:
                return word
        return token.kind

    def _reduce(self, rule: Rule) -> None:
        size, states, values = rule.size, self.states, self.values
        if rule.through and len(rule.kept) == 1:
            first, kept, last = values[-size], values[-size + (rule.kept[0] or 0)], values[-1]
            entry = kept if size == 1 else (kept[0], first[1], last[2])
        else:
            taken = values[len(values) - size :]
            entry = self._make(rule, taken)
        if size:
            del states[-size:], values[-size:]
        values.append(entry)
        states.append(self.tables.states[states[-1]][rule.origin])

    def _make(self, rule: Rule, taken: list[tuple[Any, int, int]]) -> tuple[Any, int, int]:
        start = taken[0][1] if taken else 0
        end = next((one[2] for one in reversed(taken) if one[2] > one[1]), start)
        if not rule.method and rule.kept and rule.kept[0] == -1:  # a list that grows
            children = taken[0][0]
            places = rule.kept[1:]
        else:
            children = []
            places = rule.kept
        for place in places:
            if place is None:
                children.append(None)
            elif place < 0:
                children.extend(taken[-place - 1][0])
            else:
                children.append(taken[place][0])
        if not rule.method:
            return children, start, end
        method = getattr(self.builder, rule.method)
        return method(Span(self.source, start, end), *children), start, end

    # ----------------------------------------------------------------------------------------------- mistakes

    def accepts(self, kind: str) -> bool:
        """Would a token of this kind be taken here? Follows the reductions on a copy of the states."""
        states = self.states[:]
        while True:
            action = self.tables.states[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                return True
            rule = self.tables.rules[-action - 1]
            if rule.size:
                del states[-rule.size :]
            states.append(self.tables.states[states[-1]][rule.origin])
            if kind == "$END" and states[-1] == self.tables.end:
                return True

    def kinds(self) -> set[str]:
        """The terminals that this state knows; some may only be reached through it, see `accepts`."""
        return {kind for kind in self.tables.states[self.states[-1]] if kind.lstrip("_$").isupper()}

    def _mistake(self, token: Token) -> TransformulaError:
        from .mistakes import explain

        return TransformulaError(explain(self, token))

    def _recover(self, token: Token, diagnostic: Diagnostic) -> None:
        """Goes back to the start of the wrong line, and on with the line after it that is not deeper."""
        headless = self.fresh and self._awaits_block()
        if (
            token.kind == "_DEDENT" and not headless
        ):  # an earlier mistake left nothing of a block: its head goes too
            if not self.found.found:
                raise InternalError(f"no way on after {self.source.name}: {diagnostic}")
            self._leave_block()
            self.before = self.resume[self.depth]
        else:
            self.found.add(diagnostic)
            if len(self.found.found) >= MAX_MISTAKES or token.kind == "$END":
                self.found.check()
            if token.kind == "_DEDENT":
                self.layout.queue.appendleft(token)
            else:
                self.layout.drop(token, headless or self._was_open(token, diagnostic))
            if not self.fresh:
                self.before = self.resume[self.depth]
        self.states, self.values = self.before[0][:], self.before[1][:]
        self.fresh = True
        self.line.clear()

    def _was_open(self, token: Token, diagnostic: Diagnostic) -> bool:
        """Is the mistake a bracket on an earlier line, so that the line of `token` is to be read anew?"""
        start = diagnostic.span.start if diagnostic.span else token.start
        return diagnostic.code == "P303" and start < token.start and token.kind != "BAD"
