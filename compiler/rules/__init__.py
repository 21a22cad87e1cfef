"""Rewrite rules, one idea a file; each is a row of its file's RULES."""

from __future__ import annotations

from .algebra import RULES as ALGEBRA
from .inference import RULES as INFERENCE
from .products import RULES as PRODUCTS
from .renames import RULES as RENAMES
from .rule import Context, Match, Rule, rewrite

SIMPLIFY: tuple[Rule, ...] = (*ALGEBRA, *PRODUCTS, *RENAMES)

NUMERIC = {rule.name: rule.numeric for rule in (*INFERENCE, *SIMPLIFY)}
"""The numeric class of each rule."""

__all__ = ["INFERENCE", "NUMERIC", "SIMPLIFY", "Context", "Match", "Rule", "rewrite"]
