"""Parts → a document: LaTeX that compiles with amsmath and amssymb, a page of MathML, MathML alone, or text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ..pages import page_template
from . import latex, mathml, text
from .parts import Part

NARROWEST, WIDEST = 210, 2000  # millimetres of a page; it is as wide as its longest formula
MARGIN, PER_SIGN = 60, 1.9


def write_latex(title: str, parts: Sequence[Part]) -> str:
    """A whole document for pdflatex."""
    longest = max((len(text.line(line)) for part in parts for line in part.all_lines), default=0)
    width = min(max(NARROWEST, int(MARGIN + PER_SIGN * longest)), WIDEST)
    shown = [
        {
            "title": latex.escaped(part.title),
            "comment": latex.escaped(" ".join(part.comment)),
            "rows": latex.rows(part.all_lines),
        }
        for part in parts
    ]
    return page_template("tex", "document.tex.j2").render(title=latex.escaped(title), width=width, parts=shown)


def write_snippet(_: str, parts: Sequence[Part]) -> str:
    """The formulas alone, to be put into a paper."""
    return "".join(f"\\[\n{latex.aligned(part.all_lines)}\n\\]\n" for part in parts)


def write_html(title: str, parts: Sequence[Part]) -> str:
    """One page that needs no other file, with the formulas as MathML."""
    shown = [
        {
            "ident": f"part-{number}",
            "before": f"change of {part.kind}" if part.changes else part.kind,
            "name": part.name,
            "after": f"of {part.of}" if part.of else "",
            "comment": " ".join(part.comment),
            "math": Markup(mathml.formula(part.all_lines)),  # made of elements, see mathml.py
        }
        for number, part in enumerate(parts)
    ]
    return page_template("tex", "page.html.j2").render(title=title, parts=shown)


def write_mathml(_: str, parts: Sequence[Part]) -> str:
    """A <math> element for each definition."""
    return "".join(f"{mathml.formula(part.all_lines)}\n" for part in parts)


def write_unicode(title: str, parts: Sequence[Part]) -> str:
    """Text, with a heading and comment for each definition."""
    blocks = [text.shown(title)]
    for part in parts:
        comment = [f"# {text.shown(one)}" for one in part.comment]
        blocks.append("\n".join([*comment, text.lines(part.all_lines)]))
    return "\n\n".join(blocks) + "\n"


FORMATS: dict[str, Callable[[str, Sequence[Part]], str]] = {
    "latex": write_latex,
    "snippet": write_snippet,
    "unicode": write_unicode,
    "mathml": write_mathml,
    "html": write_html,
}
