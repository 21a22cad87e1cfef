"""Sums of products: x @ W through a map, Q @[dk] K over named axes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import arithmetic, expressions, ir, wording
from .ir import Axis, Length, Node
from .values import (
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from .scope import Scope


def contract(scope: Scope, expr: s.Contract) -> Value:
    """left @[axes] right, or a bare @ that a map or the only common axis settles."""
    left = expressions.tensor(scope, expressions.lower(scope, expr.left), expr.left)
    right = expressions.tensor(scope, expressions.lower(scope, expr.right), expr.right)
    for one, side in ((left, expr.left), (right, expr.right)):
        if one.bottom is not None:
            raise scope.fail(
                "M502",
                "a sum of products over -∞ has no value",
                side.span,
                because=(f"`{wording.text(side)}` is -∞ outside a relation",),
                help="Take the softmax first: softmax[key](…) @[key] V.",
            )
        if one.node.kind == "bool":
            raise arithmetic.truth_as_number(scope, side)
    if expr.axes is not None:
        return _named_contract(scope, expr, left, right)
    maps = [one for one in (right, left) if one.map is not None]
    if maps:
        other = left if maps[0] is right else right
        return Tensor(_apply_map(scope, expr, other, maps[0]))
    return _bare_contract(scope, expr, left, right)


def _named_contract(scope: Scope, expr: s.Contract, left: Tensor, right: Tensor) -> Tensor:
    over, missing = [], []
    for axis in expr.axes or ():
        found = scope.find(left, axis.name), scope.find(right, axis.name)
        lacking = [side for side, hit in zip((expr.left, expr.right), found, strict=True) if hit is None]
        if lacking:
            missing.append((axis, lacking))
        elif found[0] != found[1]:
            raise extents(scope, axis.name, found[0], found[1], expr)
        elif found[0] is not None:
            over.append(found[0])
    if missing:
        raise _lacks(scope, expr, left, right, missing)
    return _sum_over(scope, left, right, over)


def _sum_over(scope: Scope, left: Tensor, right: Tensor, over: Sequence[Axis]) -> Tensor:
    first = left.node
    for axis in over:
        condition = scope.condition(axis)
        if condition is not None:
            first = ir.where(condition, first, ir.const(Fraction(0)))
    return Tensor(ir.contract(first, right.node, over))


def _lacks(
    scope: Scope,
    expr: s.Contract,
    left: Tensor,
    right: Tensor,
    missing: Sequence[tuple[s.Name, Sequence[s.Expr]]],
) -> TransformulaError:
    axis, sides = missing[0]
    both = {scope.label(a) for a in (*left.axes, *right.axes) if scope.visible(a)}
    told = " and ".join(f"`{wording.text(side)}`" for side in sides)
    more = [scope.told(left, expr.left), scope.told(right, expr.right)]
    advice = scope.suggest(axis.name, both)
    if not advice and len(sides) == 1:
        value = left if sides[0] is expr.left else right
        advice = rename_advice(scope, value, axis.name, sides[0])
    return scope.fail(
        "A104" if len(sides) == 2 else "A101",
        f"{told} {'have' if len(sides) == 2 else 'has'} no axis `{axis.name}`",
        axis.span,
        because=tuple(more),
        notes=tuple(n for v in (left, right) for n in scope.where_from(v, expr.span)),
        help=advice,
    )


def rename_advice(scope: Scope, value: Tensor, wanted: str, expr: s.Node) -> str:
    """What to write when a value carries the same length under another name."""
    target = scope.axis(wanted)
    for axis in value.axes:
        fits = target is None or (axis.size == target.size and axis.owner == target.owner)
        if scope.visible(axis) and fits and axis.ragged:
            label = scope.label(axis)
            other = wording.renamed(wording.text(expr), label, wanted)
            return f"It still carries `{label}`. Seen as {wanted} it is written {other}."
    return ""


def _apply_map(scope: Scope, expr: s.Contract, value: Tensor, weight: Tensor) -> Node:
    """x @ W: consumes the axes before the arrow, aligns those before the comma, brings those after the arrow."""
    assert weight.map is not None
    turn: dict[Axis, Axis] = {}
    for axis in weight.map.ins:
        found = axis if axis in value.axes else scope.find(value, scope.label(axis))
        if found is None or found != axis:
            raise _map_lacks(scope, expr, value, weight, axis, found)
    for axis in weight.map.outs:
        plain = weight.map.plain(axis)
        if plain in value.axes and plain not in weight.map.ins:
            raise scope.fail(
                "A112",
                f"`{scope.label(plain)}` would stand twice in the result",
                expr.span,
                because=(scope.told(value, expr.left), f"the map brings `{scope.label(plain)}` in, too"),
                help=f"Rename one of them first: …[{scope.label(plain)} → {scope.label(plain)}'].",
            )
        if plain != axis:
            turn[axis] = plain
    made = _sum_over(scope, value, Tensor(weight.node), weight.map.ins).node
    return ir.rename(made, turn)


def _map_lacks(
    scope: Scope, expr: s.Contract, value: Tensor, weight: Tensor, axis: Axis, found: Axis | None
) -> TransformulaError:
    assert weight.map is not None
    side = expr.left if lower_is(weight, expr) else expr.right
    name_ = scope.label(axis)
    if found is not None:
        return extents(scope, name_, found, axis, expr)
    told = f"[{' '.join(map(scope.label, weight.map.ins))} → {' '.join(map(scope.label, weight.map.outs))}]"
    have = [scope.label(a) for a in value.axes if scope.visible(a)]
    return scope.fail(
        "A101",
        f"`{wording.text(side)}` has no axis `{name_}`",
        side.span,
        because=(scope.told(value, side), f"the map {told} consumes {' and '.join(map(scope.label, weight.map.ins))}"),
        notes=scope.where_from(value, expr.span),
        help=scope.suggest(name_, have)
        or _turned(scope, expr, value, weight)
        or rename_advice(scope, value, name_, side),
    )


def _turned(scope: Scope, expr: s.Contract, value: Tensor, weight: Tensor) -> str:
    """The map fits the other way round."""
    assert weight.map is not None
    if not weight.map.outs or not all(scope.find(value, scope.label(axis)) for axis in weight.map.outs):
        return ""
    left, right = (wording.postfix(wording.text(side)) for side in (expr.left, expr.right))
    turned = f"{left} @ {right}ᵀ" if lower_is(weight, expr) else f"{left}ᵀ @ {right}"
    return f"Turned round it fits: {turned}."


def lower_is(weight: Tensor, expr: s.Contract) -> bool:
    """Whether the map stands on the right (so the left side is the value)."""
    plain = isinstance(expr.right, s.Name | s.Select | s.Unary)
    return weight.map is None or not isinstance(expr.left, s.Name) or plain


def _bare_contract(scope: Scope, expr: s.Contract, left: Tensor, right: Tensor) -> Tensor:
    common = [a for a in left.axes if a in right.axes and scope.visible(a)]
    if len(common) == 1:
        return _sum_over(scope, left, right, common)
    names = [scope.label(a) for a in common]
    told = (scope.told(left, expr.left), scope.told(right, expr.right))
    if not common:
        raise scope.fail(
            "A113",
            "`@` finds no axis that both sides have",
            expr.sign,
            because=told,
            notes=wording.come_from(scope, (left, right), expr),
            help="A weight that consumes an axis is declared as a map, like W : [d → ffn].",
        )
    left_text, right_text = wording.text(expr.left), wording.text(expr.right)
    raise scope.fail(
        "A103",
        f"`@` could sum over {', or over '.join([*(f'`{n}`' for n in names), 'all of them'])}",
        expr.sign,
        because=told,
        notes=wording.come_from(scope, (left, right), expr),
        help="Only a map W : [a → b] says by itself what it consumes. Name the axes here: "
        f"{left_text} @[{names[0]}] {right_text} keeps each {' and '.join(names[1:])} apart.",
    )


def extents(scope: Scope, name_: str, left: Axis | None, right: Axis | None, expr: s.Node) -> TransformulaError:
    """Two axes of one expressions.name that are not the same axis."""

    def told(axis: Axis | None) -> str:
        if axis is None:
            return "unknown"
        return f"{axis.size}" if isinstance(axis.size, int) else "a length of its own per example"

    if left is not None and right is not None and told(left) == told(right):
        made = isinstance(left.size, Length) and isinstance(right.size, Length) and left.size.made and right.size.made
        why = "they are made in two ways" if made else "one came from another input, call or instance"
        return scope.fail(
            "A114",
            f"`{name_}` means two different axes here",
            expr.span,
            because=(f"{why}, so nothing says that they are equally long",),
            help=f"Give one of them another name: …[{name_} → {name_}'].",
        )
    return scope.fail(
        "A114",
        f"`{name_}` is {told(left)} on one side and {told(right)} on the other",
        expr.span,
        help=f"Equal names align, so they must be equally long. Rename one of them: …[{name_} → {name_}'].",
    )
