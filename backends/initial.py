"""What a weight begins with, as its spec says behind `~`."""

from __future__ import annotations

import re

from ..compiler.graphs import Weight

USUAL = 0.02
"""The standard deviation of a weight that says nothing."""

_NORMAL = re.compile(r"normal\(([0-9.e+-]+)\)")
_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")


def first_values(weight: Weight) -> tuple[float, float] | None:
    """(m, σ) of the N(m, σ²) that a weight is drawn from, σ = 0 for one number; None for what is neither.

    `normal(σ)` has m = 0; a weight without an initialiser has N(0, 0.02²).
    """
    found = _NORMAL.fullmatch(weight.init)
    if found or not weight.init:
        return 0.0, float(found.group(1)) if found else USUAL
    return (float(weight.init), 0.0) if _NUMBER.fullmatch(weight.init) else None
