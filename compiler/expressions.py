"""Expressions → values: exact numbers stay numbers, everything else becomes nodes, axes checked at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import InternalError, Note, Span, TransformulaError
from . import arithmetic, brackets, calls, choices, instances, ir, joining, loops, products, wording
from .ir import Axis
from .names import parts
from .values import (
    Builtin,
    Choice,
    Counter,
    Formula,
    Instance,
    MapAxes,
    Opaque,
    Poisoned,
    Record,
    States,
    Tensor,
    Value,
    describe,
    is_static,
)

if TYPE_CHECKING:
    from .scope import Scope


def lower(scope: Scope, expr: s.Expr) -> Value:
    """The value of an expression; an index formula by its bare name is evaluated."""
    found = lower_raw(scope, expr)
    if isinstance(found, Formula) and found.entry.definition.params is None:
        return calls.index_formula(scope, found, expr.span)
    return found


def lower_raw(scope: Scope, expr: s.Expr) -> Value:
    """The value of an expression; formulas stay formulas."""
    made = _lower(scope, expr)
    if isinstance(made, Tensor):
        if made.node.op not in ("const", "input", "weight", "index"):
            scope.origin(made.node, expr.span, "")
        scope.note_axes(made)
    if scope.session.trace is not None:
        scope.session.trace.append((expr, made, scope))
    return made


def _lower(scope: Scope, expr: s.Expr) -> Value:
    match expr:
        case s.Number():
            return expr.value if math.isfinite(_float(expr.value)) else math.inf
        case s.Infinity():
            return math.inf
        case s.Text():
            return Choice(expr.value)
        case s.Name():
            return name(scope, expr)
        case s.Unary():
            return _unary(scope, expr)
        case s.Sum():
            return _sum(scope, expr)
        case s.Product():
            return _product(scope, expr)
        case s.Power():
            base, exponent = lower(scope, expr.base), lower(scope, expr.exponent)
            return arithmetic.binary(scope, "^", base, exponent, expr, (expr.base, expr.exponent))
        case s.Contract():
            return products.contract(scope, expr)
        case s.Compare():
            return _compare(scope, expr)
        case s.Logic():
            return _logic(scope, expr)
        case s.Cases():
            return choices.cases(scope, expr)
        case s.Concat():
            return joining.concat(scope, expr)
        case s.Select():
            return brackets.select(scope, expr)
        case s.Call():
            return calls.call(scope, expr)
        case s.Member():
            return member(scope, expr)
    raise InternalError(f"no lowering for {type(expr).__name__}")


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def name(scope: Scope, expr: s.Name) -> Value:
    """The value of a name; one whose mistake has been told stays silent."""
    from .scope import Poison

    found = scope.need(expr)
    if found is Poison:
        raise Poisoned
    return found


def tensor(scope: Scope, value: Value, expr: s.Node) -> Tensor:
    """The value as a tensor, or an error that says what stands there instead."""
    match value:
        case Tensor():
            return value
        case Record():
            return tensor(scope, value.value, expr)
        case bool() | Fraction() | float():
            return Tensor(ir.const(value))
        case Counter():
            return Tensor(value.node)
        case Instance() if value.waiting:
            raise scope.fail(
                "U703",
                f"`{expr.span.text}` is one instance per {value.stack[0].name}: say which",
                expr.span,
                notes=(Note(value.decl.span, "declared here"),),
                help=f"Write {expr.span.text}[l] inside `for l in {value.stack[0].name}:`, "
                f"or {expr.span.text}[0] for the first.",
            )
        case Formula() if value.entry.definition.params is None:
            return tensor(scope, calls.index_formula(scope, value, expr.span), expr)
        case States():
            raise scope.fail(
                "N208",
                f"`{value.name}` is a recurrence: say which state",
                expr.span,
                help=loops.states_advice(value),
            )
    more = {}
    if isinstance(value, Formula | Builtin | Instance):
        more = {"help": f"Call it: {wording.text(expr)}(…)."}
    elif isinstance(value, Opaque):
        more = {"help": "This definition calls it, so it is a function here; a name is one or the other."}
    elif isinstance(value, Choice):
        more = {"help": "Texts and none only choose: compare them, or use a choice table."}
    raise scope.fail("N209", f"a value is needed here, not {describe(value)}", expr.span, **more)


def _left_over(scope: Scope, found: Tensor, extra: list[str], expr: s.Node, where: Span) -> TransformulaError | None:
    """A similarity that declares no axes, and |u| where the norm was meant."""
    entry = next((one for one in parts(expr) if isinstance(one, s.Unary) and one.op == "abs"), None)
    if entry is None or len(extra) != 1 or wording.names(scope, found) != extra:
        return None
    (axis,) = extra
    return scope.fail(
        "A108",
        f"axis `{axis}` is left over in a result that declares none",
        entry.span,
        notes=(Note(where, "declared here"),) if where.line != entry.span.line else (),
        because=(f"{entry.span.text} is entry by entry, so it still has `{axis}`",),
        help=f"The length of a vector is ‖{wording.text(entry.operand)}‖[{axis}].",
    )


def equation(scope: Scope, name_: str, written: s.Assign | s.Expr) -> Value:
    """The value of an equation of a `where` (or of a parameter's default), with its declared axes."""
    if not isinstance(written, s.Assign):
        return lower_raw(scope, written)
    indices = [one for one in written.brackets if isinstance(one, s.AxisParam)]
    found = _declared(scope, written, indices) if written.brackets else lower_raw(scope, written.value)
    first = found.value if isinstance(found, Record) else found
    if isinstance(first, Tensor):
        scope.origin(first.node, written.span, name_)
    return found


def _declared(scope: Scope, written: s.Assign, indices: Sequence[s.AxisParam]) -> Value:
    """t[seq, key] = e, or an index formula a[c: dk] = e: the axes are said, so a table is meant."""
    inner = scope.child(tables=True)
    wanted: list[s.Name] = []
    for one in written.brackets:
        axis = one.axis if isinstance(one, s.AxisParam) else one.value
        if not isinstance(axis, s.Name):
            raise scope.fail(
                "P320",
                "an axis name or a state's number is expected here",
                one.span,
                help=f"Axes are declared by name, {written.name.name}[seq, d] = …; "
                f"a state has one number alone, {written.name.name}[0] = ….",
            )
        wanted.append(axis)
    for one in indices:
        bound = scope.need_axis(one.axis)
        inner.axes[one.axis.name] = bound
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(bound))
    found = tensor(inner, lower(inner, written.value), written.value)
    have = {scope.label(axis) for axis in found.axes if scope.visible(axis)}
    missing = [axis for axis in wanted if axis.name not in have]
    if indices:
        for axis in missing:
            found = Tensor(ir.widen(found.node, scope.need_axis(axis)), found.bottom, found.zero)
        return found
    stated(scope, found, wanted, written.value, written.name.span, f"`{written.name.name}`")
    return found


def stated(
    scope: Scope, found: Tensor, wanted: Sequence[s.Name], expr: s.Node, where: Span, what: str = "the result"
) -> None:
    """An error unless the visible axes are exactly the declared ones."""
    have = [scope.label(axis) for axis in found.axes if scope.visible(axis)]
    names = [axis.name for axis in wanted]
    if sorted(have) == sorted(names):
        return
    extra = [axis for axis in have if axis not in names]
    lacking = [axis for axis in names if axis not in have]
    special = _left_over(scope, found, extra, expr, where) if extra and not names else None
    if special is not None:
        raise special
    because = tuple(origin for axis in extra for origin in _entered(scope, found, axis))
    told = [f"{', '.join(extra)} is left over" if extra else "", f"{', '.join(lacking)} is missing" if lacking else ""]
    raise scope.fail(
        "A106",
        f"{what} has axes [{', '.join(have)}], but [{', '.join(names)}] is declared",
        expr.span,
        label=" and ".join(t for t in told if t),
        notes=scope.where_from(found, expr.span),
        because=because,
        help=_result_advice(extra, lacking, wording.text(expr)),
    )


def _result_advice(extra: list[str], lacking: list[str], written: str) -> str:
    many = "them" if len(extra) > 1 else "it"
    if extra and not lacking:
        return (
            f"Sum over {' and '.join(extra)}, consume {many} with a map [{' '.join(extra)} … → …], "
            f"or declare {many} in the result."
        )
    if lacking and not extra:
        return (
            f"Take {' and '.join(lacking)} out of the declaration, or repeat the value along it: "
            f"{wording.postfix(written)}[→ {' '.join(lacking)}]."
        )
    if len(extra) == len(lacking) == 1:
        other = wording.renamed(written, extra[0], lacking[0])
        return f"If it is the same axis under another name, rename it: {other}."
    return ""


def _entered(scope: Scope, found: Tensor, axis: str) -> list[str]:
    """Through which weight an axis came in."""
    for one in ir.walk([found.node]):
        if one.op == "weight" and any(a.name == axis for a in one.axes):
            declared = scope.session.weights.get(one["name"])
            line = f" (line {declared.span.line})" if declared and declared.span else ""
            return [f"`{axis}` entered with the weight {one['name']}{line}, and nothing sums over it"]
    return []


def _unary(scope: Scope, expr: s.Unary) -> Value:
    value = lower(scope, expr.operand)
    if expr.op == "transpose":
        made = tensor(scope, value, expr.operand)
        if made.map is None:
            raise scope.fail(
                "A111",
                "only a weight that is a map can be turned round",
                expr.span,
                because=(scope.told(made, expr.operand),),
                help="Axes have names, so there is nothing to transpose: the page's QKᵀ is Q @[dk] K.",
            )
        return _turned_map(made, made.map)
    return arithmetic.unary(scope, expr.op, value, expr)


def _turned_map(made: Tensor, map_: MapAxes) -> Tensor:
    """Wᵀ; where an axis goes to itself, the two sides change places."""
    swap: dict[Axis, Axis] = {}
    for axis in map_.outs:
        plain = map_.plain(axis)
        if plain != axis and plain in map_.ins:
            swap[axis], swap[plain] = plain, axis
    return Tensor(ir.rename(made.node, swap), map=map_.renamed(swap).turned())


def _sum(scope: Scope, expr: s.Sum) -> Value:
    total: Value | None = None
    before: s.Node | None = None
    for sign, term in expr.terms:
        if sign == "-":
            arithmetic.subtracted_mask(scope, term)
        value = lower(scope, term)
        if total is None or before is None:
            total, before = arithmetic.unary(scope, "neg", value, term) if sign == "-" else value, term
            continue
        here = s.Node(before.span.to(term.span))
        total, before = arithmetic.binary(scope, sign, total, value, here, (before, term)), here
    assert total is not None
    return total


def _product(scope: Scope, expr: s.Product) -> Value:
    total: Value | None = None
    before: s.Node | None = None
    for sign, factor in expr.factors:
        value = lower(scope, factor)
        if total is None or before is None:
            total, before = value, factor
            continue
        here = s.Node(before.span.to(factor.span))
        total, before = arithmetic.binary(scope, sign, total, value, here, (before, factor)), here
    assert total is not None
    return total


def _compare(scope: Scope, expr: s.Compare) -> Value:
    values = [lower(scope, one) for one in expr.operands]
    result: Value | None = None
    for place, sign in enumerate(expr.operators):
        sides = expr.operands[place], expr.operands[place + 1]
        one = arithmetic.binary(scope, sign, values[place], values[place + 1], expr, sides)
        result = one if result is None else arithmetic.logic(scope, "and", result, one, expr)
    assert result is not None
    return result


def _logic(scope: Scope, expr: s.Logic) -> Value:
    result = lower(scope, expr.operands[0])
    for one in expr.operands[1:]:
        if isinstance(result, bool):  # decided at compile time: the other side is not looked at
            if result == (expr.op == "or"):
                return result
            result = lower(scope, one)
        else:
            result = arithmetic.logic(scope, expr.op, result, lower(scope, one), expr)
    return result


# ---------------------------------------------------------------------------------------------------- products


def member(scope: Scope, expr: s.Member) -> Value:
    """instance.weight, call.part, or an output of a record."""
    base = lower_raw(scope, expr.base)
    if isinstance(base, Record):
        if expr.name in base.outputs:
            return base.outputs[expr.name]
        return base.part(expr.name, expr.span)
    if isinstance(base, Instance):
        return instances.member(scope, base, expr)
    raise scope.fail(
        "N212",
        f"`{wording.text(expr.base)}` is {describe(base)} and has no part `{expr.name}`",
        expr.span,
        help="Instances have weights and parts, and results of calls have the names of their `where`.",
    )


__all__ = ["MapAxes", "equation", "is_static", "lower", "lower_raw", "member", "tensor"]
