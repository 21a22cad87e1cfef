"""Brackets after something: picks, renames, splits, merges, new axes, bound axes, conditions, states, instances."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, TransformulaError
from . import calls, choices, expressions, ir, joining, lengths, loops, reshape, vectors, wording
from .ir import Axis
from .names import MAKERS
from .values import (
    Builtin,
    Choice,
    Counter,
    Formula,
    Instance,
    Record,
    States,
    Tensor,
    Value,
    describe,
)

if TYPE_CHECKING:
    from .scope import Scope


def select(scope: Scope, expr: s.Select) -> Value:
    """base[items], by what the base is."""
    if isinstance(expr.base, s.Concat):
        return joining.joined(scope, expr.base, expr)
    by_name = isinstance(expr.base, s.Name)
    base = expressions.name(scope, expr.base) if by_name else expressions.lower_raw(scope, expr.base)  # type: ignore[arg-type]
    match base:
        case Builtin():
            return bind_builtin(scope, base, expr)
        case Formula():
            bound = bind(scope, base, expr)
            if base.entry.definition.params is None:
                return calls.index_formula(scope, bound, expr.span)
            return bound
        case Instance() if base.waiting:
            return _member_of_stack(scope, base, expr)
        case Instance():
            return bind_instance(scope, base, expr)
        case States():
            return loops.state(scope, base, expr)
        case Record():
            base = base.value
    if not isinstance(base, Tensor):
        raise scope.fail(
            "A117",
            f"`{wording.text(expr.base)}` is {describe(base)} and has no axes",
            expr.items[0].span,
            help="This config needs it: give it in the call."
            if base == Choice(None)
            else "Leave the brackets away: it is the same everywhere.",
        )
    return vectors.settled(reshape.on_tensor(scope, base, expr))


# -------------------------------------------------------------------------------------------------- functions


def bind(scope: Scope, base: Formula, expr: s.Select) -> Formula:
    """f[key = src], f[seq] (by place), f[key if see]."""
    binds, restrict = dict(base.binds), list(base.restrict)
    free = [p.axis.name for p in base.entry.definition.axes if p.axis.name not in binds]
    indices = {p.index.name: p.axis.name for p in base.entry.definition.axes if p.index is not None}
    for item in expr.items:
        if isinstance(item, s.EqualItem):
            formal = indices.get(item.axis.name, item.axis.name)
            binds[formal] = axis_name(scope, item.value, f"{base.entry.name}[{formal} = seq]").name
            continue
        formal, axis, condition = _positional(scope, base, item, free)
        binds[formal] = axis.name
        if condition is not None:
            restrict.append((formal, condition))
    return replace(base, binds=binds, restrict=tuple(restrict))


def _positional(
    scope: Scope, base: Formula, item: s.Item, free: list[str]
) -> tuple[str, s.Name, Tensor | None]:
    """An item `axis` or `axis if condition`: it fills the formal axis of the same name, or the next free one."""
    if isinstance(item, s.PlainItem):
        axis, condition = axis_name(scope, item.value, f"{base.entry.name}[seq]"), None
    elif isinstance(item, s.RestrictItem) and item.new is None and item.as_index is None:
        axis = item.axis
        condition = None if item.condition is None else _condition(scope, item.condition)
    else:
        raise lengths.no_filter(scope, item)
    if not free:
        definition = base.entry.definition
        heads = [one.axis.name for one in definition.axes]
        many = f"It goes over {'one axis' if len(heads) == 1 else f'{len(heads)} axes'}"
        raise scope.fail(
            "A118",
            f"`{base.entry.name}` has no axis left to bind `{axis.name}` to",
            item.span,
            notes=(Note(definition.name.span, "defined here"),),
            help=f"{many}: {base.entry.name}[{', '.join(heads)}]." if heads else f"Write {base.entry.name}(…).",
        )
    formal = axis.name if axis.name in free else free[0]
    free.remove(formal)
    return formal, axis, condition


def _condition(scope: Scope, expr: s.Expr) -> Tensor | None:
    """A restriction; one that config decides is no condition (true) or an empty one (false)."""
    found = expressions.lower(scope, expr)
    if found is True:
        return None
    if found is False:
        return Tensor(ir.const(False))
    return choices.truth(scope, found, expr)


def axis_name(scope: Scope, expr: s.Expr, example: str) -> s.Name:
    """The expression as the name of an axis, or an error; `example` shows how one is written here."""
    if isinstance(expr, s.Name):
        return expr
    raise scope.fail("A107", "axes have names here, not numbers", expr.span, help=f"Write the name of one: {example}.")


def bind_builtin(scope: Scope, base: Builtin, expr: s.Select) -> Builtin:
    """sum[key](…), mean[seq if c](…), sum[r: key if r ≤ i](…)."""
    axes, names, restrict, index = list(base.axes), list(base.written), list(base.restrict), list(base.index)
    new = base.new
    for item in expr.items:
        if isinstance(item, s.PlainItem):
            name, axis = axis_name(scope, item.value, f"{base.name}[seq](x)"), None
        elif isinstance(item, s.RestrictItem) and item.new is None:
            name = item.axis
            axis = _bound_index(scope, item, index)
        elif isinstance(item, s.RenameItem) and base.name in MAKERS and len(item.old) == len(item.new) == 1:
            name, axis, new = item.old[0], None, item.new[0]
        else:
            raise lengths.no_filter(scope, item)
        axis = axis or scope.axis(name.name)
        if axis is None:
            axis = _seen_axis(scope, name)
        axes.append(axis)
        names.append(name)
        if isinstance(item, s.RestrictItem) and item.condition is not None:
            inner = scope.child(guarded=True, tables=bool(index) or None)
            for label, bound in index:
                inner.values[label] = Tensor(ir.index(bound))
            condition = _condition(inner, item.condition)
            if condition is not None:
                restrict.append((axis, condition))
    return Builtin(base.name, tuple(axes), tuple(restrict), tuple(index), tuple(names), new)


def _bound_index(scope: Scope, item: s.RestrictItem, index: list[tuple[str, Axis]]) -> Axis | None:
    """r of sum[r: key …]: an axis of its own, as long as key, whose places r runs over."""
    if item.as_index is None:
        return None
    like = scope.need_axis(item.axis)
    axis = Axis(item.as_index.name, like.size, like.owner)
    index.append((item.as_index.name, axis))
    return axis


def _seen_axis(scope: Scope, name: s.Name) -> Axis:
    """An axis that so far only a value carries (a call or weight made it): found when the argument is known."""
    return Axis(name.name, ir.Length(f"?{name.name}"), None, -9)


def bind_instance(scope: Scope, base: Instance, expr: s.Select) -> Instance:
    """attn[key = src]: binds axes of an instance's block for this call."""
    binds = dict(base.binds)
    for item in expr.items:
        if isinstance(item, s.EqualItem):
            example = f"{wording.text(expr.base)}[{item.axis.name} = src](…)"
            binds[item.axis.name] = axis_name(scope, item.value, example).name
        elif isinstance(item, s.PlainItem) and _is_number(scope, item.value):
            raise _not_a_stack(scope, base, expr)
        else:
            raise scope.fail(
                "A119",
                "an instance has its axes by name",
                item.span,
                help=f"Bind one to another: {wording.text(expr.base)}[key = src](…).",
            )
    return replace(base, binds=binds)


def _is_number(scope: Scope, expr: s.Expr) -> bool:
    return not isinstance(expr, s.Name) or isinstance(scope.lookup(expr.name), Counter)


def _not_a_stack(scope: Scope, base: Instance, expr: s.Select) -> TransformulaError:
    name = expr.base.span.text
    return scope.fail(
        "U701",
        f"`{name}` is one shared instance, not one per layer",
        expr.items[0].span,
        notes=(Note(base.decl.span, "declared here"),),
        help=f"Own weights per layer: {name}[layers] : {base.entry.name}. "
        f"Shared weights, as in ALBERT: {name}(…) without brackets.",
    )


def _member_of_stack(scope: Scope, base: Instance, expr: s.Select) -> Instance:
    """layer[l]: the numbers of a stack; each must be whole and inside."""
    if len(expr.items) != len(base.stack) or not all(isinstance(i, s.PlainItem) for i in expr.items):
        axes = " and ".join(a.name for a in base.stack)
        raise scope.fail(
            "U704",
            f"`{wording.text(expr.base)}` has one instance per {axes}: give {wording.count(len(base.stack), 'number')}",
            expr.items[0].span.to(expr.items[-1].span),
            notes=(Note(base.decl.span, "declared here"),),
            help=f"Write {wording.text(expr.base)}[{', '.join('lkij'[: len(base.stack)])}].",
        )
    at = []
    for item, axis in zip(expr.items, base.stack, strict=True):
        assert isinstance(item, s.PlainItem)
        found = expressions.lower(scope, item.value)
        if isinstance(found, Record):
            found = found.value
        if not isinstance(found, Fraction | float | Counter | Tensor) or isinstance(found, bool):
            raise scope.fail(
                "U704",
                f"an instance is chosen by a number, not {describe(found)}",
                item.span,
                help=f"Inside `for l in {axis.name}:` write {wording.text(expr.base)}[l].",
            )
        if isinstance(found, Fraction | float):
            whole_inside(scope, found, axis, item.value)
        at.append(found)
    return replace(base, at=tuple(at))


def whole_inside(scope: Scope, value: Fraction | float, axis: Axis, expr: s.Node) -> int:
    """The number as a place along an axis of known size."""
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise scope.fail(
            "I802",
            f"{float(value):g} is no whole number, and a place along `{axis.name}` is one",
            expr.span,
            help="Round it: divide with //, or use floor(…).",
        )
    if value < 0 or (isinstance(axis.size, int) and value >= axis.size):
        raise scope.fail(
            "I801",
            f"`{scope.label(axis)}` has no place {value}",
            expr.span,
            because=(f"its places are 0 … {axis.size - 1}",) if isinstance(axis.size, int) else (),
            help="Counting starts at 0, and negative numbers do not count from the end.",
        )
    return int(value)
