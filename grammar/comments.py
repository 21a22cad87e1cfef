"""What comments say: those at the head of a spec, and those right above a definition."""

from __future__ import annotations

from .diagnostics import Source, Span


def head(source: Source) -> tuple[str, ...]:
    """The lines of the comment that a file begins with, without their signs."""
    found = []
    for line in source.text.split("\n"):
        if not line.startswith("#"):
            break
        found.append(_said(line))
    return tuple(found)


def above(span: Span) -> tuple[str, ...]:
    """The lines of the comment that stands right above, without their signs; a rule `# -- title --` is none."""
    found: list[str] = []
    for number in range(span.line - 1, 0, -1):
        text = span.source.line(number).strip()
        if not text.startswith("#") or text.startswith("# --"):
            break
        found.insert(0, _said(text))
    return tuple(found)


def _said(line: str) -> str:
    return line.lstrip("#").strip()
