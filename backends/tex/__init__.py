"""Spec → the mathematics of a page: LaTeX, Unicode text, MathML.

facts        the axes of every expression, from a check            facts.py
layout       rows, fractions, scripts, signs with limits           tree.py, by expressions.py and definitions.py
text         latex.py, text.py, mathml.py; documents               document.py

Only the layout knows the language, and only the writers know a format.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...compiler.checking import deep
from ...compiler.modules import Module
from ...grammar.diagnostics import did_you_mean, error
from .document import FORMATS
from .parts import Part, facts_of, parts_of

__all__ = ["FORMATS", "Part", "facts_of", "parts_of", "typeset"]


def typeset(
    spec: str | Path | Module,
    form: str = "latex",
    names: Iterable[str] = (),
    entry: str | None = None,
    inline: bool = False,
    config: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> str:
    """The mathematics of a spec as text in one of `FORMATS`: of some definitions, or of one with all it uses.

    Raises `TransformulaError` for mistakes of the spec, an unknown name or an unknown format.
    """
    if form not in FORMATS:
        advice = did_you_mean(form, FORMATS) or f"There are {', '.join(FORMATS)}."
        raise error("C653", f"there is no format `{form}`", help=advice)
    facts = facts_of(spec, config, settings)
    with deep():
        return FORMATS[form](facts.module.name, parts_of(facts, names, entry, inline))
