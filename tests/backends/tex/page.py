"""The page of formulas, row by row: where each stands in our specs, which names are called otherwise, what differs.

Whether a row is equal is computed: the page's LaTeX and ours, in the normal form of normal.py, after the names of the
row. A row of which only some sides of an equation compare says so. Reasons stand at rows that differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.backends.tex import normal
from transformula.backends.tex import definitions, inline, latex
from transformula.backends.tex.facts import Facts
from transformula.backends.tex.parts import facts_of
from transformula.backends.tex.tree import Line
from transformula.grammar import syntax as s
from transformula.grammar.parser import parse

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXAMPLE = "examples/attention.formula"
REMARK = r"\quad \text{where"  # what follows says what a name is


@dataclass(frozen=True)
class Row:
    """A formula of the page and ours: `part` names an equation under the definition, "" its head.

    `put`: parts and defaults that are written in place, `at`: rates, and weights that config leaves out, as numbers.
    `same`: ours → the page's, in LaTeX. `only`: which sides of the page's equation are compared, from 0; ours are
    as many, or its last ones.
    """

    spec: str
    name: str
    part: str = ""
    same: tuple[tuple[str, str], ...] = ()
    put: tuple[str, ...] = ()
    at: tuple[tuple[str, str], ...] = ()
    only: tuple[int, ...] = ()
    reason: str = ""
    note: str = ""
    settings: dict[str, object] = field(default_factory=dict, hash=False)


@cache
def formulas() -> tuple[str, ...]:
    """The page's formulas in their order: displayed ones, several on a line apart, and the named corruptions."""
    text = (HERE / "formula_page.txt").read_text("utf-8")
    found: list[str] = []
    for match in re.finditer(r"\\\[(.*?)\\\]|- [\w ]+: \\\((.*?)\\\)", text, re.DOTALL):
        inner = (match[1] or match[2]).strip()
        if inner.startswith(r"\displaylines"):
            lines = inner[len(r"\displaylines{") : -1].split(r"\\")
            found += [line.strip() for line in lines if line.strip()]
        else:
            found += [one.strip() for one in re.split(r", \\quad ", inner)]
    return tuple(found)


@cache
def facts(spec: str) -> Facts:
    return facts_of(ROOT / spec if "/" in spec and not spec.startswith("lib/") else spec)


def line(row: Row) -> Line:
    """The line of our spec that the row is about."""
    known = facts(row.spec)
    entry = known.module.entries[row.name]
    written = known.module.written.get(row.name, entry.definition)
    meanings = inline.meanings(written)
    values = {name: meanings[name] for name in row.put} | {name: _number(value) for name, value in row.at}
    shown = inline.put(written, values) if values else written
    made = definitions.lines(shown, known)
    if not row.part:
        return made[0]
    wanted = normal.tokens(row.part)
    return next(one for one in made if one.left is not None and normal.tokens(latex.write(one.left)) == wanted)


def _number(text: str) -> s.Expr:
    (made,) = parse(f"f(x) = {text}", "number").items
    assert isinstance(made, s.Definition)
    return made.outputs[0].value


def ours(row: Row) -> str:
    """Our LaTeX of a row."""
    return latex.line(line(row))


def is_equal(page: str, row: Row) -> bool:
    """Whether the page's formula and ours are the same, but for the names of the row."""
    found = normal.tokens(ours(row))
    for old, new in row.same:
        found = normal.replaced(found, normal.tokens(old), normal.tokens(new))
    wanted = normal.tokens(page.split(REMARK)[0])
    if not row.only:
        return found == wanted
    both, all_of = normal.sides(found), normal.sides(wanted)
    chosen = [all_of[number] for number in row.only]
    return both[-len(chosen) :] == chosen


def names(*pairs: str) -> tuple[tuple[str, str], ...]:
    """`ours → page` pairs."""
    made = [tuple(one.split(" → ")) for one in pairs]
    return tuple((old, new) for old, new in made)
