"""Constants as Python literals that read back as exactly the same number."""

from __future__ import annotations

import math
from fractions import Fraction

from ...compiler.ir import Node
from .values import Value


def literal(one: Node) -> Value:
    """A constant as Python text."""
    return Value(number(one["value"]), atom=not number(one["value"]).startswith("-"), number=True)


def number(value: bool | Fraction | float) -> str:
    """A number as a Python literal that reads back as exactly the same double (whole numbers as such)."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Fraction) and value.denominator == 1 and abs(value) < 2**63:
        return str(int(value))
    try:
        exact = float(value)
    except OverflowError:
        exact = math.inf if value > 0 else -math.inf
    if math.isinf(exact):
        return "np.inf" if exact > 0 else "-np.inf"
    return "np.nan" if math.isnan(exact) else repr(exact)
