"""Rewrite rules, one idea a file; each is a row of its file's RULES."""

from __future__ import annotations

from .algebra import RULES as ALGEBRA
from .inference import RULES as INFERENCE
from .renames import RULES as RENAMES
from .rule import Context, Match, Rule, rewrite

SIMPLIFY: tuple[Rule, ...] = (*ALGEBRA, *RENAMES)

__all__ = ["INFERENCE", "SIMPLIFY", "Context", "Match", "Rule", "rewrite"]
