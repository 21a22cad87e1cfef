"""a if c else b: chosen at compile time, or entry by entry, with the facts of masks."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import arithmetic, expressions, ir
from .ir import Node
from .values import Counter, Tensor, Value, describe, is_static

if TYPE_CHECKING:
    from .scope import Scope


def cases(scope: Scope, expr: s.Cases) -> Value:
    """a if c else b, and printed cases: conditions of config choose at compile time, others make a selection."""
    rows: list[tuple[s.Expr, Tensor | None]] = []
    for value, condition in expr.cases:
        known = True if condition is None else expressions.lower(scope, condition)
        if known is False:
            continue
        if known is True:
            rows.append((value, None))
            break
        assert condition is not None
        rows.append((value, truth(scope, known, condition)))
    if len(rows) == 1:
        return expressions.lower_raw(scope, rows[0][0])
    inner = scope.child(guarded=True)
    result = expressions.lower(inner, rows[-1][0])
    for value, test in reversed(rows[:-1]):
        assert test is not None
        result = selected(scope, test, expressions.lower(inner, value), result, expr)
    return result


def truth(scope: Scope, value: Value, expr: s.Node) -> Tensor:
    """A condition: a truth value per entry."""
    made = None if isinstance(value, Fraction | float) else expressions.tensor(scope, value, expr)
    if made is None or arithmetic.is_number(made.node):
        raise scope.fail(
            "M504",
            "a condition is needed here, not a number",
            expr.span,
            help=f"Compare it with something: {arithmetic.text(expr)} ≠ 0.",
        )
    return made


def selected(scope: Scope, test: Tensor, value: Value, other: Value, expr: s.Node) -> Tensor:
    """value where the test holds, else other; `-∞` on a side makes a relation of the test."""
    for one, place in zip((value, other), _branch_places(expr), strict=True):
        if arithmetic.like_mask(one):
            raise arithmetic.mask_number(scope, one, place)  # type: ignore[arg-type]
        if not is_static(one) and not isinstance(one, Tensor | Counter) and describe(one).startswith("the "):
            expressions.tensor(scope, one, expr)
    left, right = (expressions.tensor(scope, one, expr) for one in (value, other))
    both = left.node, right.node
    if any(one.kind == "bool" for one in both) and any(arithmetic.is_number(one) for one in both):
        raise arithmetic.truth_as_number(scope, _branch_places(expr)[0 if left.node.kind == "bool" else 1])
    if other == -math.inf:
        return _bottomed(left, test.node)
    if value == -math.inf:
        return _bottomed(right, ir.apply("not", test.node))
    asked = expr.cases[0][1] if isinstance(expr, s.Cases) else None
    sides = list(zip((test, left, right), (asked or expr, *_branch_places(expr)), strict=True))
    everything = {axis for one, _ in sides for axis in one.axes if scope.visible(axis)}
    pairs = () if any(everything <= set(side.axes) for side, _ in sides) else combinations(sides, 2)
    for (first, here), (second, there) in pairs:
        arithmetic.no_table(scope, [first, second], [here, there], expr)
    arithmetic.check_extents(scope, [test, left, right], expr)
    made = ir.where(test.node, left.node, right.node)
    bottom = _branches(test.node, left.bottom, right.bottom)
    zero = _branches(test.node, left.zero, right.zero)
    if right.node.op == "const" and right.node["value"] == 0 and right.node.kind != "bool":
        zero = arithmetic.both((test.node, left.zero))
    return Tensor(made, bottom=bottom, zero=zero)


def _branch_places(expr: s.Node) -> tuple[s.Node, s.Node]:
    if isinstance(expr, s.Cases):
        return expr.cases[0][0], expr.cases[-1][0]
    return expr, expr


def _bottomed(value: Tensor, relation: Node) -> Tensor:
    wide = value.node
    for axis in relation.axes:
        wide = ir.widen(wide, axis) if axis not in wide.axes else wide
    return Tensor(wide, bottom=arithmetic.both((relation, value.bottom)))


def _branches(test: Node, left: Node | None, right: Node | None) -> Node | None:
    if left is None and right is None:
        return None
    yes = ir.const(True)
    return ir.where(test, left or yes, right or yes)
