"""What a loop runs over: an axis, or the numbers up to a whole one."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import expressions, ir
from .ir import Axis, Node
from .values import Value, describe

if TYPE_CHECKING:
    from .scope import Scope


def found(scope: Scope, written: s.Loop) -> tuple[int, Node, Axis]:
    """The first number, where it stops, and the axis of its steps."""
    start = Fraction(0)
    if written.start is not None:
        first = expressions.lower(scope, written.start)
        if not isinstance(first, Fraction) or first.denominator != 1 or first < 0:
            raise scope.fail(
                "I803", "a loop starts at a whole number", written.start.span, help="Counting starts at 0."
            )
        start = first
    if isinstance(written.stop, s.Name):
        axis = scope.axis(written.stop.name)
        if axis is not None:
            return int(start), ir.size(axis), axis
    last = expressions.lower(scope, written.stop)
    if isinstance(last, Fraction) and last.denominator == 1 and last >= 0:
        return int(start), ir.const(int(last)), Axis(f"steps{int(last)}", int(last))
    told = f"`{written.stop.span.text}` is {_kind(last)}"
    raise scope.fail(
        "I803",
        "a loop runs over an axis or up to a whole number",
        written.stop.span,
        because=(told,),
        help=f"Write `for {written.variable.name} in layers:`, with layers from config.",
    )


def _kind(value: Value) -> str:
    number = isinstance(value, Fraction | float) and not isinstance(value, bool)
    return f"{float(value):g}" if number else describe(value)  # type: ignore[arg-type]
