"""What messages say about values: their axes, where they come from, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, Span
from ..grammar.printer import expression as printed
from .ir import Axis
from .values import Tensor

if TYPE_CHECKING:
    from .scope import Scope


def text(expr: s.Node, longest: int = 40) -> str:
    """The text of an expression on one line, cut if it is long."""
    found = " ".join((printed(expr) if isinstance(expr, s.Expr) else expr.span.text).split())
    return found if len(found) <= longest else found[: longest - 1] + "…"


def listed(names: Sequence[str], last: str = "and") -> str:
    """`a`, `b` and `c`"""
    quoted = [f"`{name}`" for name in names]
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def count(number: int, what: str) -> str:
    """1 argument, 2 arguments"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def postfix(written: str) -> str:
    """The text with parentheses, if brackets after it would not mean the whole of it."""
    return written if re.fullmatch(r"[\w.']+(\[[^][]*\]|\([^()]*\))*|\([^()]*\)", written) else f"({written})"


def renamed(written: str, old: str, new: str) -> str:
    """x[old → new]"""
    return f"{postfix(written)}[{old} → {new}]"


def over(function: str, axes: Sequence[str]) -> str:
    """Which axis a function may go over."""
    if not axes:
        return "Its argument has no axes: there is nothing to go over."
    *rest, last = axes
    each = f", for each {' and '.join(rest)} by itself" if rest else ""
    return f"Write {function}[{last}](…): it goes over {last}{each}."


def brackets_of(expr: s.Call) -> Span:
    """The parentheses of a call with what is in them."""
    return Span(expr.span.source, expr.function.span.end, expr.span.end)


def sides(scope: Scope, values: Sequence[Tensor], exprs: Sequence[s.Node]) -> tuple[str, ...]:
    """The operands with their axes."""
    return tuple(scope.told(value, expr) for value, expr in zip(values, exprs, strict=True))


def come_from(scope: Scope, values: Sequence[Tensor], expr: s.Node) -> tuple[Note, ...]:
    """Where operands were defined, if on other lines."""
    return tuple(dict.fromkeys(note for value in values for note in scope.where_from(value, expr.span)))


def names(scope: Scope, tensor: Tensor) -> list[str]:
    """The visible axes by name."""
    return [scope.label(axis) for axis in tensor.axes if scope.visible(axis)]


def seen_twice(tensor: Tensor, scope: Scope, wanted: str) -> str:
    """What to write when an axis is wanted that may be a length of the value under a second name."""
    lengths = [scope.label(axis) for axis in tensor.axes if scope.visible(axis) and axis.ragged]
    if not lengths or scope.axis(wanted) is not None:
        return ""
    return f"If {wanted} is {lengths[0]} seen a second time, rename it where it enters: x[{lengths[0]} → {wanted}]."


def size(axis: Axis) -> str:
    """`4`, or `a length` that each example has for itself."""
    return str(axis.size) if isinstance(axis.size, int) else "a length of its own per example"
