"""Calls: signs with limits for reductions, signs around a value, and f(x) for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...grammar import syntax as s
from . import brackets
from . import expressions as e
from .facts import reduced
from .names import written
from .place import Place
from .signs import AROUND, REDUCTION
from .tree import (
    Accent,
    Big,
    Digits,
    Fence,
    Layout,
    Over,
    Root,
    Script,
    Sign,
    Word,
    listed,
    parens,
    row,
    scripted,
    spaced,
)

if TYPE_CHECKING:
    from .expressions import Formed, Printer


def call(printer: Printer, expr: s.Call, place: Place) -> Formed:
    """The layout of a call."""
    function, args = expr.function, expr.args
    name = function.name if isinstance(function, s.Name) else ""
    if isinstance(function, s.Select) and isinstance(function.base, s.Name):
        kind = function.base.name
        if kind in REDUCTION and len(args) == 1:
            return reduction(printer, kind, function.items, args[0].value, place)
    if name in AROUND and len(args) == 1:
        left, right = AROUND[name]
        return Fence(left, printer.show(args[0].value, place), right), e.POSTFIX
    if name == "sqrt" and len(args) == 1:
        return Root(printer.show(args[0].value, place)), e.POSTFIX
    if name == "exp" and len(args) == 1:
        shown = printer.show(args[0].value, place)
        if not _is_short(shown):
            return row(Word(name), parens(shown)), e.POSTFIX
        return scripted(Word("e"), [], shown), e.POWER
    if name in ("index", "position") and len(args) == 1 and isinstance(args[0].value, s.Name):
        return _index(name, args[0].value.name, place), e.POSTFIX
    return _plain(printer, expr, place), e.POSTFIX


def _is_short(one: Layout) -> bool:
    """A letter with what stands around it: e^{x_j}; longer ones are exp(…)."""
    while isinstance(one, Script | Accent):
        if isinstance(one, Script) and not isinstance(one.sup, Digits | Sign | None):
            return False
        one = one.base
    return isinstance(one, Digits) or (isinstance(one, Word) and not one.upright)


def _index(kind: str, axis: str, place: Place) -> Layout:
    """The place along an axis: its index, where it has one."""
    if kind == "index" and axis in place.at:
        return place.indices((axis,))[0]
    return row(Word(kind), parens(written(axis)))


# ------------------------------------------------------------------------------------------------- reductions


def reduction(printer: Printer, kind: str, items: tuple[s.Item, ...], arg: s.Expr, place: Place) -> Formed:
    """∑_{i=1}^{n} x_i, max_{i=1,…,n} x_i, a mean as a sum with a factor; restricted ones say for which i."""
    inner, letters = place, []
    for item in items:
        axis = reduced(item)
        if axis is None:
            continue
        if isinstance(item, s.RestrictItem) and item.as_index is not None:
            inner = inner.named(item.as_index.name)
            letters.append((axis, written(item.as_index.name)))
            continue
        letters.append((axis, inner.letter()))
        inner = inner.bound(*letters[-1])
    if kind == "norm":
        return _norm(printer, arg, items, place), e.POSTFIX
    body = printer.show(arg, inner, e.POSTFIX if kind == "count" else e.PRODUCT)
    conditions = [
        printer.show(item.condition, inner.smaller(), e.AND)
        for item in items
        if isinstance(item, s.RestrictItem) and item.condition is not None
    ]
    if not {axis for axis, _ in letters} & inner.used and not inner.bare:  # nothing shows the index
        letters = [(axis, Word("")) for axis, _ in letters]
    place.used.update(inner.used)
    return row(*_signs(kind, letters, conditions, place), _counted(body) if kind == "count" else body), e.REDUCE


def _counted(body: Layout) -> Layout:
    return Fence("[", body.body if isinstance(body, Fence) and body.left == "(" else body, "]")


def _signs(kind: str, letters: list[tuple[str, Layout]], conditions: list[Layout], place: Place) -> list[Layout]:
    """The signs with their limits, outermost first."""
    sign = REDUCTION[kind] or ("mean" if kind == "mean" else "∑")
    if conditions:
        below = listed([*(_named(axis, one) for axis, one in letters)])
        return [Big(sign, row(below, Sign(":", "mark"), listed(conditions)))]
    if kind == "mean":
        scale = Over(Digits("1"), spaced([place.size(axis) for axis, _ in letters]))
        return [scale, *(_ranged("∑", axis, one, place) for axis, one in letters)]
    return [_ranged(sign, axis, one, place) for axis, one in letters]


def _named(axis: str, letter: Layout) -> Layout:
    return written(axis) if letter == Word("") else letter


def _ranged(sign: str, axis: str, letter: Layout, place: Place) -> Layout:
    if letter == Word(""):
        return Big(sign, written(axis))
    first = row(letter, Sign("=", "relation"), Digits("1"))
    if sign in ("max", "min", "arg max"):
        return Big(sign, listed([first, Sign("…", "mark"), place.size(axis)]))
    return Big(sign, first, place.size(axis))


def _norm(printer: Printer, arg: s.Expr, items: tuple[s.Item, ...], place: Place) -> Layout:
    """‖x‖; its axis is written where x has others, too."""
    names = [axis for axis in map(reduced, items) if axis is not None]
    made = Fence("‖", printer.show(arg, place.without(*names)), "‖")
    return made if set(printer.axes(arg, place)) <= set(names) else scripted(made, [written(one) for one in names])


# ---------------------------------------------------------------------------------------------- other functions


def _plain(printer: Printer, expr: s.Call, place: Place) -> Layout:
    """f_{axes}(x, y, name = z): axes are written where the first argument has others, too."""
    function: s.Expr = expr.function
    items: tuple[s.Item, ...] = ()
    if isinstance(function, s.Select) and not _is_numbered(printer, function, place):
        items, function = function.items, function.base
    own = [axis for axis in map(reduced, items) if axis is not None]
    behind = [axis for axis in own if axis in place.at]  # the function goes over them: its result has the index
    inside = place.without(*own)
    head = printer.show(function, inside.without(*inside.at), e.POSTFIX)
    below = _below(printer, expr, items, own, inside)
    shown = [argument(printer, one, inside) for one in expr.args]
    place.used.update(inside.used)
    return row(scripted(head, below), scripted(parens(listed(shown)), place.indices(tuple(behind))))


def _below(
    printer: Printer, expr: s.Call, items: tuple[s.Item, ...], own: list[str], place: Place
) -> list[Layout]:
    conditions = [one for one in items if isinstance(one, s.RestrictItem) and (one.condition or one.new)]
    if conditions:
        return [brackets.restricted(printer, one, place) for one in conditions]
    axes = set(printer.axes(expr.args[0].value, place)) if expr.args else set()
    return [] if axes <= set(own) else [written(axis) for axis in own if axis in axes]


def _is_numbered(printer: Printer, function: s.Select, place: Place) -> bool:
    """layer[l], layer[l // 2]: the number of an instance, not an axis."""
    if isinstance(function.base, s.Name) and printer.facts.is_stack(function.base.name, place.home):
        return True
    plain = [one.value for one in function.items if isinstance(one, s.PlainItem)]
    return any(not isinstance(one, s.Name) or one.name in place.home.counters for one in plain)


def argument(printer: Printer, arg: s.Arg, place: Place) -> Layout:
    """x, or name = x"""
    shown = printer.show(arg.value, place)
    return shown if arg.name is None else row(written(arg.name), Sign("=", "relation"), shown)
