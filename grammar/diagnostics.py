"""Errors for people: one object with code, places, cause and advice, drawn with file, line and caret.

Users' mistakes are `Diagnostic`s, collected and raised together as one `TransformulaError`. A fault of
transformula itself is an `InternalError` and never shown as if the user had made it.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """A text with the name under which people know it (a path, or `<text>`)."""

    name: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """Line `number`, counted from 1, without its end."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """The characters start … end - 1 of a source; lines and columns are counted from 1."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character."""
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Column of the first character."""
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> str:
        """`file:line:column`, as editors and terminals understand it."""
        return f"{self.source.name}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other` (same source)."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True)
class Note:
    """A second place that belongs to an error, and what it has to do with it."""

    span: Span
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """One mistake: what was found where, why it is one, and what to write instead.

    `code` names the kind (A axes, N names, P grammar, C config, K checkpoint, S structure, U instances, X overrides,
    I indices, M masks, D draws, R run time); `label` stands under the caret; `notes` are further places; `because`
    are facts, one a line; `help` is the advice. `via` are the calls through which a mistake inside a definition is
    reached, innermost first: the argument at fault and the definition that it is given to.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    because: tuple[str, ...] = ()
    help: str = ""
    severity: str = "error"
    via: tuple[Note, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return "\n".join(_draw(self))


@dataclass
class Diagnostics:
    """Collects the mistakes of one run, so that all of them are told at once."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keeps the mistake; the same one at the same place is told once."""
        if diagnostic not in self.found:
            self.found.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        """Those that stop the work."""
        return [one for one in self.found if one.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        """Those that do not."""
        return [one for one in self.found if one.severity != "error"]

    def check(self) -> None:
        """Raises all errors found so far as one `TransformulaError`."""
        if self.errors:
            raise TransformulaError(sorted(self.errors, key=_order))


class TransformulaError(Exception):
    """A user's mistake or several: `str()` draws all of them, `.diagnostics` holds them."""

    def __init__(self, diagnostics: Iterable[Diagnostic] | Diagnostic) -> None:
        self.diagnostics = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.diagnostics))


class InternalError(Exception):
    """transformula itself is wrong: please report it."""


def error(code: str, message: str, span: Span | None = None, **parts: object) -> TransformulaError:
    """A `TransformulaError` with one diagnostic; `parts` are the other fields of `Diagnostic`."""
    return TransformulaError(Diagnostic(code, message, span, **parts))  # type: ignore[arg-type]


def similar(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The known names nearest to `name`: other case, missing underscores, suffixes, small slips of the finger."""
    known = sorted(set(known))
    folded = _fold(name)
    same = [other for other in known if _fold(other) == folded]
    close = difflib.get_close_matches(name, known, n=count, cutoff=0.7)
    slips = [other for other in known if len(name) == len(other) > 2 and sum(map(str.__ne__, name, other)) == 1]
    starts = [other for other in known if len(folded) > 2 and _fold(other).startswith(folded)]
    return list(dict.fromkeys([*same, *close, *slips, *starts]))[:count]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean X?`, or nothing."""
    near = similar(name, known)
    return f"Did you mean {near[0]}?" if near else ""


def _fold(name: str) -> str:
    return name.replace("_", "").replace("'", "").casefold()


def _order(diagnostic: Diagnostic) -> tuple[str, int]:
    return (diagnostic.span.source.name, diagnostic.span.start) if diagnostic.span else ("", -1)


def width(text: str) -> int:
    """Columns that `text` takes in a terminal: wide East Asian characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _draw(diagnostic: Diagnostic) -> Iterator[str]:
    yield f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    if diagnostic.span is not None:
        yield f"  --> {diagnostic.span.place}"
        yield from _snippet(diagnostic.span, diagnostic.label, "^")
    for note in diagnostic.notes:
        yield f"  --- {note.span.place}"
        yield from _snippet(note.span, note.text, "-")
    for fact in diagnostic.because:
        yield f"   = because: {fact}"
    if diagnostic.help:
        yield f"   = help: {diagnostic.help}"


def _snippet(span: Span, label: str, mark: str) -> Iterator[str]:
    number = str(span.line)
    text = span.source.line(span.line)
    before = text[: span.column - 1]
    under = text[span.column - 1 : span.column - 1 + max(1, span.end - span.start)]
    indent = "".join("\t" if c == "\t" else " " * width(c) for c in before)
    if len(text) > 200:  # a hostile or generated line: show the part that matters
        text = text[max(0, span.column - 100) : span.column + 100]
        indent = " " * min(span.column - 1, 99)
    yield f"{' ' * len(number)} |"
    yield f"{number} | {text}"
    yield f"{' ' * len(number)} | {indent}{mark * max(1, min(width(under), 120))}" + (f" {label}" if label else "")
