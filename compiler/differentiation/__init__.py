"""Differentiation on the graph: reverse mode, one rule for each core operation, a core graph out of a core graph."""

from __future__ import annotations

from .reverse import GRADIENT, differentiate, gradient_of, without_defaults

__all__ = ["GRADIENT", "differentiate", "gradient_of", "without_defaults"]
