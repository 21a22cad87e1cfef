"""Arithmetic on values: exact on numbers, affine on loop counters, with the facts of masks on tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import expressions, ir, ops
from .ir import Node
from .values import Choice, Counter, Formula, Static, Tensor, Value, as_static, describe, is_static

if TYPE_CHECKING:
    from .scope import Scope

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
MASK_LIKE = Fraction(-10_000)
MAX_BITS = 4096


def binary(scope: Scope, fn: str, left: Value, right: Value, expr: s.Node, part: s.Node | None = None) -> Value:
    """left fn right. `part` is the place of the right operand."""
    if isinstance(left, Choice) and isinstance(right, Choice) and fn in ("==", "!="):
        return (left.text == right.text) == (fn == "==")
    if isinstance(left, Choice | Formula) and isinstance(right, Choice | Formula) and fn in ("==", "!="):
        same = isinstance(left, Formula) and isinstance(right, Formula) and left.entry == right.entry
        return same == (fn == "==")
    if isinstance(left, Choice) and left.text is None and fn in ("==", "!="):
        return fn == "!="
    if isinstance(right, Choice) and right.text is None and fn in ("==", "!="):
        return fn == "!="
    if is_static(left) and is_static(right):
        return static(scope, fn, left, right, expr)  # type: ignore[arg-type]
    affine = _affine(fn, left, right)
    if affine is not None:
        return affine
    return _tensors(scope, fn, left, right, expr, part)


def static(scope: Scope, fn: str, left: Static, right: Static, expr: s.Node) -> Static:
    """Exact arithmetic on compile-time numbers."""
    if (isinstance(left, bool) or isinstance(right, bool)) and fn not in ("==", "!="):
        raise _truth(scope, expr)
    if fn in ("/", "//", "%") and right == 0:
        raise scope.fail("C610", "division by zero", expr.span)
    try:
        return _static(fn, left, right)
    except (OverflowError, ValueError, ZeroDivisionError):
        raise scope.fail("C611", f"this number has no value: {left} {fn} {right}", expr.span) from None


def _static(fn: str, left: Static, right: Static) -> Static:
    if fn in COMPARISONS:
        return bool(_COMPARE[fn](left, right))
    if fn == "^":
        return _static_power(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return as_static(float(ops.FUNCTIONS[fn].meaning(float(left), float(right))))
    return _EXACT[fn](left, right)  # type: ignore[no-any-return]


def _static_power(base: Static, exponent: Static) -> Static:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        if abs(exponent) * max(base.numerator.bit_length(), base.denominator.bit_length()) < MAX_BITS:
            return Fraction(base**exponent)
    return as_static(math.pow(float(base), float(exponent)))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a) / Fraction(b),
    "//": lambda a, b: Fraction(a // b),
    "%": lambda a, b: Fraction(a % b),
    "max": max,
    "min": min,
}


def _affine(fn: str, left: Value, right: Value) -> Value | None:
    """A loop counter plus, minus or times a number stays one."""
    if isinstance(left, Counter) and isinstance(right, Fraction):
        if fn in ("+", "-"):
            return Counter(left.loop, left.scale, left.offset + (right if fn == "+" else -right))
        if fn == "*":
            return Counter(left.loop, left.scale * right, left.offset * right)
    if isinstance(left, Fraction) and isinstance(right, Counter):
        if fn in ("+", "*"):
            return _affine(fn, right, left)
        if fn == "-":
            return Counter(right.loop, -right.scale, left - right.offset)
    return None


def unary(scope: Scope, op: str, value: Value, expr: s.Node) -> Value:
    """neg, not, sqrt, abs or any scalar function of one argument."""
    if isinstance(value, bool):
        if op == "not":
            return not value
        raise _truth(scope, expr)
    if isinstance(value, Fraction | float):
        return _static_unary(scope, op, value, expr)
    if isinstance(value, Counter) and op == "neg":
        return Counter(value.loop, -value.scale, -value.offset)
    made = expressions.tensor(scope, value, expr)
    return apply(scope, op, [made], [expr], expr)


def _static_unary(scope: Scope, op: str, value: Fraction | float, expr: s.Node) -> Static:
    if op == "not":
        raise scope.fail("M504", "`not` needs a truth value, not a number", expr.span)
    if op == "neg":
        return -value
    if op == "abs":
        return abs(value)
    if op == "sqrt" and value < 0 or op == "log" and value < 0:
        raise scope.fail("C611", f"{op} of {float(value):g} has no value", expr.span)
    if op in ("floor", "ceil"):
        return Fraction(math.floor(value) if op == "floor" else math.ceil(value))
    if op == "sign":
        return Fraction((value > 0) - (value < 0))
    if op == "log" and value == 0:
        return -math.inf
    if op == "sqrt" and isinstance(value, Fraction):
        roots = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if roots[0] ** 2 == value.numerator and roots[1] ** 2 == value.denominator:
            return Fraction(*roots)
    try:
        return as_static(float(ops.FUNCTIONS[op].meaning(float(value))))
    except OverflowError:
        return math.inf


def _truth(scope: Scope, expr: s.Node) -> TransformulaError:
    return scope.fail(
        "M503",
        "a truth value is no number",
        expr.span,
        help="Write 1 if … else 0, or count[axis](…) to count the entries where it holds.",
    )


# ----------------------------------------------------------------------------------------------------- tensors


def _tensors(scope: Scope, fn: str, left: Value, right: Value, expr: s.Node, part: s.Node | None) -> Tensor:
    _no_mask_number(scope, fn, left, right, expr, part)
    both = [expressions.tensor(scope, one, part or expr) for one in (left, right)]
    if fn not in ("==", "!=") and any(one.node.kind == "bool" for one in both):
        raise _truth(scope, part or expr)
    return apply(scope, fn, both, [expr, part or expr], expr)


def _no_mask_number(scope: Scope, fn: str, left: Value, right: Value, expr: s.Node, part: s.Node | None) -> None:
    """A large negative number that is added or selected stands for a mask: say so."""
    for value in (left, right):
        if fn in ("+", "*", "-") and isinstance(value, Fraction | float) and value <= MASK_LIKE and value != -math.inf:
            raise mask_number(scope, value, part or expr)


def mask_number(scope: Scope, value: Static, expr: s.Node) -> TransformulaError:
    """The error for -1e9 and its like."""
    return scope.fail(
        "M501",
        "a mask is a relation, not a large number",
        expr.span,
        because=(f"{float(value):g} is finite: a row with nothing to see would attend evenly to everything.",),
        help="Write the relation where the softmax is: softmax[key if see](scores), with  see[i: seq, j: key] = j ≤ i.",
    )


def apply(scope: Scope, fn: str, values: list[Tensor], exprs: list[s.Node], expr: s.Node) -> Tensor:
    """A scalar function entry by entry, with the facts that survive it."""
    _no_table(scope, values, exprs, expr)
    check_extents(scope, values, expr)
    for one, where in zip(values, exprs, strict=True):
        if ops.FUNCTIONS[fn].takes == "truth" and one.node.kind not in ("bool", "unknown"):
            raise scope.fail("M504", f"`{fn}` needs a truth value, not a number", where.span, help="Compare it with something.")
        if ops.FUNCTIONS[fn].takes == "number" and one.node.kind == "bool":
            raise _truth(scope, where)
    bottom = both(one.bottom for one in values)
    if bottom is not None and not _keeps_bottom(fn, values):
        raise scope.fail(
            "M505",
            f"a value that is -∞ outside a relation reaches `{fn}`",
            expr.span,
            help="Such a value may be added to, scaled, compared by max, or go into exp and softmax.",
        )
    return _with_facts(fn, values, bottom)


def _keeps_bottom(fn: str, values: list[Tensor]) -> bool:
    if fn in ("+", "exp", "max"):
        return True
    if fn == "-":
        return values[1].bottom is None
    if fn in ("*", "/"):  # only a positive number keeps -∞ where it is
        other = values[1] if values[0].bottom is not None else values[0]
        return other.bottom is None and not (fn == "/" and other is values[0]) and _positive(other.node)
    return False


def _positive(one: Node) -> bool:
    if one.op == "const":
        return not isinstance(one["value"], bool) and one["value"] > 0
    if one.op in ("size", "count"):
        return True
    return one.op == "map" and one["fn"] in ("sqrt", "exp", "/", "*") and all(map(_positive, one.args))


def _with_facts(fn: str, values: list[Tensor], bottom: Node | None) -> Tensor:
    made = ir.apply(fn, *(one.node for one in values))
    nothing = ir.const(Fraction(0))
    if fn == "exp":
        if bottom is None:
            return Tensor(made)
        return Tensor(ir.where(bottom, made, nothing), zero=bottom)
    if fn == "log" and values[0].zero is not None:
        return Tensor(made, bottom=values[0].zero)
    zero = None
    if fn == "*":
        zero = both(one.zero for one in values)
    elif fn in ("/", "neg", "abs", "sqrt"):
        zero = values[0].zero
    if zero is not None:
        return Tensor(ir.where(zero, made, nothing), zero=zero)
    return Tensor(made, bottom=bottom)


def both(relations: Iterable[Node | None]) -> Node | None:
    """The conjunction of those relations that there are."""
    result: Node | None = None
    for one in relations:
        if one is not None:
            result = one if result is None or result is one else ir.apply("and", result, one)
    return result


def logic(scope: Scope, op: str, left: Value, right: Value, expr: s.Node) -> Value:
    """left and right, left or right."""
    if isinstance(left, bool) or isinstance(right, bool):
        known, other = (left, right) if isinstance(left, bool) else (right, left)
        if known == (op == "or"):
            return known
        return other
    values = [expressions.tensor(scope, one, expr) for one in (left, right)]
    return apply(scope, op, values, [expr, expr], expr)


# ---------------------------------------------------------------------------------------------- tables, extents


def _no_table(scope: Scope, values: list[Tensor], exprs: list[s.Node], expr: s.Node) -> None:
    """Each side has an axis that the other lacks: a forgotten rename, unless the axes are declared."""
    if len(values) != 2 or scope.tables or all(index_only(one.node) for one in values):
        return
    sides = [[a for a in one.axes if scope.visible(a)] for one in values]
    only = [[a for a in own if a not in other] for own, other in (sides, sides[::-1])]
    if not (only[0] and only[1]):
        return
    names = [[scope.label(a) for a in own] for own in only]
    axes = ", ".join(dict.fromkeys(scope.label(a) for own in sides for a in own))
    advice = f"If you want the table, declare it: t[{axes}] = {expr.span.text}."
    first, second = only[0][0], only[1][0]
    if first.size == second.size and first.ragged:
        told = exprs[1].span.text
        advice = (
            f"Mostly a forgotten rename. If both are the same tokens: {told}[{names[1][0]} → {names[0][0]}]. " + advice
        )
    raise scope.fail(
        "A105",
        f"this would make a table of every {names[0][0]} with every {names[1][0]}",
        expr.span,
        because=(f"one side : {scope.show(values[0].axes)}", f"the other : {scope.show(values[1].axes)}"),
        help=advice,
    )


def index_only(one: Node) -> bool:
    """Whether a value is made of places and numbers only (no data of any example)."""
    leaves = (n for n in ir.walk([one]) if not n.args)
    return all(leaf.op in ("index", "position", "size", "const", "table", "counter") for leaf in leaves)


def check_extents(scope: Scope, values: list[Tensor], expr: s.Node) -> None:
    """Equal names must be the same axis."""
    seen: dict[str, ir.Axis] = {}
    for one in values:
        for axis in one.axes:
            if not scope.visible(axis):
                continue
            label = scope.label(axis)
            if seen.setdefault(label, axis) != axis:
                raise expressions.extents(scope, label, seen[label], axis, expr)


# ------------------------------------------------------------------------------------------------------- cases


def cases(scope: Scope, expr: s.Cases) -> Value:
    """a if c else b, and printed cases: conditions of config choose at compile time, others make a selection."""
    if expr.cases[-1][1] is not None:
        last = expr.cases[-1][0]
        raise scope.fail("P321", "these cases do not say what holds otherwise", last.span, help="End them with `… otherwise`.")
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
    if isinstance(value, Fraction | float):
        raise scope.fail("M504", "a condition is needed here, not a number", expr.span)
    made = expressions.tensor(scope, value, expr)
    if made.node.kind not in ("bool", "unknown"):
        raise scope.fail(
            "M504", "a condition is needed here, not a number", expr.span, help="Compare it with something: … ≠ 0."
        )
    return made


def selected(scope: Scope, test: Tensor, value: Value, other: Value, expr: s.Node) -> Tensor:
    """value where the test holds, else other; `-∞` on a side makes a relation of the test."""
    for one in (value, other):
        if isinstance(one, Fraction | float) and one <= MASK_LIKE and one != -math.inf:
            raise mask_number(scope, one, expr)
        if not is_static(one) and not isinstance(one, Tensor | Counter) and describe(one).startswith("the "):
            expressions.tensor(scope, one, expr)
    left, right = (expressions.tensor(scope, one, expr) for one in (value, other))
    kinds = {one.node.kind for one in (left, right)}
    if "bool" in kinds and len(kinds - {"unknown"}) > 1:
        raise _truth(scope, expr)
    if other == -math.inf:
        return _bottomed(left, test.node)
    if value == -math.inf:
        return _bottomed(right, ir.apply("not", test.node))
    check_extents(scope, [test, left, right], expr)
    made = ir.where(test.node, left.node, right.node)
    bottom = _branches(test.node, left.bottom, right.bottom)
    zero = _branches(test.node, left.zero, right.zero)
    if right.node.op == "const" and right.node["value"] == 0 and right.node.kind != "bool":
        zero = both((test.node, left.zero))
    return Tensor(made, bottom=bottom, zero=zero)


def _bottomed(value: Tensor, relation: Node) -> Tensor:
    wide = value.node
    for axis in relation.axes:
        wide = ir.widen(wide, axis) if axis not in wide.axes else wide
    return Tensor(wide, bottom=both((relation, value.bottom)))


def _branches(test: Node, left: Node | None, right: Node | None) -> Node | None:
    if left is None and right is None:
        return None
    yes = ir.const(True)
    return ir.where(test, left or yes, right or yes)
