"""The ledger: what every pass did or refused, where in the spec, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..grammar.diagnostics import Span


@dataclass(frozen=True)
class Line:
    """One rewrite that fired, or was refused for `reason`; `count` equal ones at one place are one line."""

    pass_name: str
    rule: str
    fired: bool
    what: str
    reason: str = ""
    span: Span | None = field(default=None, compare=False)
    count: int = 1

    @property
    def place(self) -> str:
        """`file:line` of the formula concerned."""
        return f"{self.span.source.name}:{self.span.line}" if self.span else ""


@dataclass
class Ledger:
    """All lines of a compilation, in order."""

    lines: list[Line] = field(default_factory=list)

    def __str__(self) -> str:
        """A line for each: pass, rule, what was done (+) or refused (-) and why, place."""
        told = []
        for one in self.lines:
            what = one.what if one.fired else f"{one.what}: not done, {one.reason}"
            times = f" ×{one.count}" if one.count > 1 else ""
            told.append(f"{'+' if one.fired else '-'} {one.pass_name} {one.rule}: {what}{times}  {one.place}".rstrip())
        return "\n".join(told)

    def fired(self, pass_name: str, rule: str, what: str, span: Span | None = None) -> None:
        """A rewrite that was made."""
        self._add(Line(pass_name, rule, True, what, "", span))

    def refused(self, pass_name: str, rule: str, what: str, reason: str, span: Span | None = None) -> None:
        """A rewrite that looked possible, and the fact that was missing."""
        self._add(Line(pass_name, rule, False, what, reason, span))

    def _add(self, line: Line) -> None:
        for number, old in enumerate(self.lines):
            if (
                old == Line(line.pass_name, line.rule, line.fired, line.what, line.reason, None, old.count)
                and old.place == line.place
            ):
                self.lines[number] = Line(*_parts(old), count=old.count + 1)
                return
        self.lines.append(line)


def _parts(line: Line) -> tuple[str, str, bool, str, str, Span | None]:
    return line.pass_name, line.rule, line.fired, line.what, line.reason, line.span
