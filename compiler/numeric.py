"""How far a rewrite may move a number: the numeric class of every rule and pass.

    exact           the same operations on the same numbers: nothing but the order of independent work changes, so
                    whole numbers come out equal to the last bit
    reassociating   another order of sums, products or roundings, or another formula of the same function: in exact
                    arithmetic nothing changes, in float64 a few units in the last place
    approximating   another function: never used unless somebody asks for it by name

What a class allows is a number of units of rounding, for one operation; how much of it reaches a result is the
result's own condition (validation/rounding.py).
"""

from __future__ import annotations

from collections.abc import Iterable

EXACT, REASSOCIATING, APPROXIMATING = "exact", "reassociating", "approximating"
CLASSES = (EXACT, REASSOCIATING, APPROXIMATING)
"""From the strictest to the loosest."""

UNIT = 2.0**-53
"""The largest relative error of one rounding in float64."""

ULPS = {EXACT: 4, REASSOCIATING: 16}
"""Roundings that one operation may differ by. Exact ones still change the shapes of products, which BLAS sums in
another order then."""


def worst(classes: Iterable[str]) -> str:
    """The loosest of some classes; exact if there is none."""
    return max(classes, key=CLASSES.index, default=EXACT)
