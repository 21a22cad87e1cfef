"""Arithmetic on values: exact on numbers, affine on loop counters, with the facts of masks on tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import expressions, ir, ops, products, wording
from .ir import Node
from .values import Choice, Counter, Formula, Static, Tensor, Value, as_static, is_static

if TYPE_CHECKING:
    from .scope import Scope

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
MASK_LIKE = Fraction(-10_000)
MAX_BITS = 4096


def binary(
    scope: Scope, fn: str, left: Value, right: Value, expr: s.Node, sides: tuple[s.Node, s.Node] | None = None
) -> Value:
    """left fn right; `sides` are the places of the operands."""
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
        return static(scope, fn, left, right, expr, sides)  # type: ignore[arg-type]
    affine = _affine(fn, left, right)
    if affine is not None:
        return affine
    return _tensors(scope, fn, left, right, expr, sides or (expr, expr))


def static(
    scope: Scope, fn: str, left: Static, right: Static, expr: s.Node, sides: tuple[s.Node, s.Node] | None = None
) -> Static:
    """Exact arithmetic on compile-time numbers."""
    places = sides or (expr, expr)
    for one, place in zip((left, right), places, strict=True):
        if isinstance(one, bool) and fn not in ("==", "!="):
            raise truth_as_number(scope, place)
    if fn in ("/", "//", "%") and right == 0:
        raise scope.fail(
            "C610", "division by zero", places[1].span, because=_zero(places[1]), help=_nonzero(places[1])
        )
    try:
        return _static(fn, left, right)
    except (OverflowError, ValueError, ZeroDivisionError):
        raise scope.fail(
            "C611",
            f"`{text(expr)}` has no value",
            expr.span,
            because=(f"it is {_number(left)} {fn} {_number(right)}",),
        ) from None


def _zero(expr: s.Node) -> tuple[str, ...]:
    return () if isinstance(expr, s.Number) else (f"`{text(expr)}` is 0",)


def _nonzero(expr: s.Node) -> str:
    return "Divide by another number." if isinstance(expr, s.Number) else f"Set {text(expr)} to another number."


def _number(value: Static) -> str:
    try:
        return f"{float(value):g}"
    except OverflowError:
        return "a number of hundreds of digits"


text = wording.text


def _static(fn: str, left: Static, right: Static) -> Static:
    if fn in COMPARISONS:
        return bool(_COMPARE[fn](left, right))
    if fn == "^":
        return _static_power(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return as_static(float(_FLOAT[fn](float(left), float(right))))
    return _EXACT[fn](left, right)  # type: ignore[no-any-return]


def _bits(base: Fraction, exponent: Fraction) -> Fraction:
    return abs(exponent) * max(base.numerator.bit_length(), base.denominator.bit_length())


def _static_power(base: Static, exponent: Static) -> Static:
    whole = isinstance(exponent, Fraction) and exponent.denominator == 1
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and whole and _bits(base, exponent) < MAX_BITS:
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
_FLOAT = {**_EXACT, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod}


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
        raise truth_as_number(scope, expr)
    if isinstance(value, Fraction | float):
        return _static_unary(scope, op, value, expr)
    if isinstance(value, Counter) and op == "neg":
        return Counter(value.loop, -value.scale, -value.offset)
    made = expressions.tensor(scope, value, expr)
    return apply(scope, op, [made], [expr], expr)


def _static_unary(scope: Scope, op: str, value: Fraction | float, expr: s.Node) -> Static:
    if op == "not":
        raise scope.fail(
            "M504",
            "`not` needs a truth value, not a number",
            expr.span,
            help=f"Compare it with something: {text(expr)} ≠ 0.",
        )
    if op == "neg":
        return -value
    if op == "abs":
        return -value if value < 0 else value
    if (op == "sqrt" and value < 0) or (op == "log" and value < 0):
        raise _no_value(scope, op, value, expr)
    if op == "stop":
        return value
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
        return as_static(float(getattr(math, op)(float(value))))
    except OverflowError:
        return math.inf
    except ValueError:  # the sine of infinity
        raise _no_value(scope, op, value, expr) from None


def _no_value(scope: Scope, op: str, value: Fraction | float, expr: s.Node) -> TransformulaError:
    whole = text(expr) if isinstance(expr, s.Unary) else f"{op}({text(expr)})"
    return scope.fail("C611", f"`{whole}` has no value", expr.span, because=(f"it is {op} of {_number(value)}",))


def truth_as_number(scope: Scope, expr: s.Node) -> TransformulaError:
    """The error for a truth value where a number is needed."""
    return scope.fail(
        "M503",
        "a truth value is no number",
        expr.span,
        help="Write (1 if … else 0), or count[axis](…) to count the entries where it holds.",
    )


# ----------------------------------------------------------------------------------------------------- tensors


def _tensors(
    scope: Scope, fn: str, left: Value, right: Value, expr: s.Node, sides: tuple[s.Node, s.Node]
) -> Tensor:
    for value, side in zip((left, right), sides, strict=True):
        if fn in ("+", "*", "-") and like_mask(value):
            raise mask_number(scope, value, side)  # type: ignore[arg-type]
    both = [expressions.tensor(scope, one, side) for one, side in zip((left, right), sides, strict=True)]
    for one, side in zip(both, sides, strict=True):
        if fn not in ("==", "!=") and one.node.kind == "bool":
            raise truth_as_number(scope, side)
    return apply(scope, fn, both, list(sides), expr)


def like_mask(value: Value) -> bool:
    """A large negative number that is added or selected stands for a mask."""
    return isinstance(value, Fraction | float) and value <= MASK_LIKE and value != -math.inf


def subtracted_mask(scope: Scope, term: s.Expr) -> None:
    """scores - 10000 * (1 - mask): the same habit with the sign in front."""
    factors = [one for sign, one in term.factors if sign == "*"] if isinstance(term, s.Product) else []
    large = [one for one in factors if isinstance(one, s.Number) and one.value >= -MASK_LIKE]
    turned = [one for one in factors if isinstance(one, s.Sum) and len(one.terms) == 2 and one.terms[1][0] == "-"]
    if large and any(isinstance(one.terms[0][1], s.Number) and one.terms[0][1].value == 1 for one in turned):
        raise mask_number(scope, large[0].value, large[0])


def mask_number(scope: Scope, value: Static, expr: s.Node) -> TransformulaError:
    """The error for -1e9 and its like."""
    return scope.fail(
        "M501",
        "a mask is a relation, not a large number",
        expr.span,
        because=(f"{text(expr)} is finite: a row with nothing to see would attend evenly to everything.",),
        help="Write the relation where the softmax is: softmax[key if see](scores), "
        "with  see[i: seq, j: key] = j ≤ i.",
    )


def apply(scope: Scope, fn: str, values: list[Tensor], exprs: list[s.Node], expr: s.Node) -> Tensor:
    """A scalar function entry by entry, with the facts that survive it."""
    no_table(scope, values, exprs, expr)
    check_extents(scope, values, expr)
    for one, where in zip(values, exprs, strict=True):
        if ops.FUNCTIONS[fn].takes == "truth" and is_number(one.node):
            raise scope.fail(
                "M504",
                f"`{fn}` needs a truth value, not a number",
                where.span,
                help=f"Compare it with something: {text(where)} ≠ 0.",
            )
        if ops.FUNCTIONS[fn].takes == "number" and one.node.kind == "bool":
            raise truth_as_number(scope, where)
    bottom = both(one.bottom for one in values)
    if bottom is not None and not _keeps_bottom(fn, values):
        place = next(w for one, w in zip(values, exprs, strict=True) if one.bottom is not None)
        raise scope.fail(
            "M505",
            f"a value that is -∞ outside a relation reaches `{fn}`",
            place.span,
            because=("such a value may be added to, scaled, compared by max, or go into exp and softmax",),
            help="Say the relation where it is needed: softmax[key if see](scores).",
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


def is_number(one: Node) -> bool:
    """Whether the value is surely no truth value."""
    if one.kind != "unknown":
        return one.kind != "bool"
    if one.op == "map" and ops.FUNCTIONS[one["fn"]].takes == "number":
        return one["fn"] not in ("==", "!=", "where")
    return one.op == "contract"


def _positive(one: Node) -> bool:
    if one.op == "const":
        return not isinstance(one["value"], bool) and one["value"] > 0
    if one.op in ("size", "count"):
        return True
    if one.op in ("pick", "rename", "widen"):
        return _positive(one.args[0])
    if one.op != "map":
        return False
    return one["fn"] == "exp" or (one["fn"] in ("sqrt", "/", "*", "+") and all(map(_positive, one.args)))


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


def no_table(scope: Scope, values: list[Tensor], exprs: list[s.Node], expr: s.Node) -> None:
    """Each side has an axis that the other lacks: a forgotten rename, unless the axes are declared."""
    if len(values) != 2 or scope.tables:
        return
    sides = [[a for a in one.axes if scope.visible(a)] for one in values]
    only = [[a for a in own if a not in other] for own, other in (sides, sides[::-1])]
    if not (only[0] and only[1]) or all(index_only(one.node) for one in values):
        return
    names = [[scope.label(a) for a in own] for own in only]
    if set(names[0]) & set(names[1]):
        check_extents(scope, values, expr)
    axes = ", ".join(dict.fromkeys(scope.label(a) for own in sides for a in own))
    advice = f"If you want the table, declare it in a `where`: t[{axes}] = {text(expr)}."
    first, second = only[0][0], only[1][0]
    if first.ragged and second.ragged:
        told = wording.renamed(text(exprs[1]), names[1][0], names[0][0])
        if first.size == second.size and first.owner == second.owner:
            advice = f"If both are the same tokens, rename one: {told}. {advice}"
        else:
            advice = f"If both are the same tokens, declare them with the same axis, {names[0][0]}. {advice}"
    raise scope.fail(
        "A105",
        f"this would make a table of every {names[0][0]} with every {names[1][0]}",
        expr.span,
        because=(*wording.sides(scope, values, exprs), "each side has an axis that the other lacks"),
        notes=wording.come_from(scope, values, expr),
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
                raise products.extents(scope, label, seen[label], axis, expr)
