"""Vectors of config: one number or truth value for each layer, by a formula or from config.json."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import expressions, ir, reshape, wording
from .ir import Axis
from .values import Counter, Static, Tensor, Value

if TYPE_CHECKING:
    from .scope import Scope

MOST_ENTRIES = 1 << 10
"""Longer vectors stay formulas."""


def by_formula(scope: Scope, option: s.Option) -> Tensor:
    """local[l: layers] = l % 2 == 0: a vector over an axis of config; its entries where they are known here."""
    assert option.index is not None
    axis = scope.need_axis(option.index.axis)
    if option.index.index is not None:
        entries = _entries(scope, option, option.index.index.name, axis)
        if entries is not None:
            return Tensor(ir.table(entries, axis))
        scope.values[option.index.index.name] = Tensor(ir.index(axis))
    made = expressions.tensor(scope, expressions.lower(scope, option.value), option.value)
    return Tensor(ir.widen(made.node, axis))


def _entries(scope: Scope, option: s.Option, name: str, axis: Axis) -> list[Static] | None:
    """What the formula gives for each number, if all of that is numbers or all truth values of config."""
    if not isinstance(axis.size, int) or not 0 < axis.size <= MOST_ENTRIES:
        return None
    found: list[Static] = []
    for place in range(axis.size):
        inner = scope.child()
        inner.values[name] = Fraction(place)
        value = expressions.lower(inner, option.value)
        if not isinstance(value, bool | Fraction | float):
            return None
        found.append(value)
    return found if len({isinstance(value, bool) for value in found}) == 1 else None


def given(scope: Scope, option: s.Option, parts: Sequence[Value], key: str) -> Tensor:
    """A vector of config.json, of the right length and of numbers or truth values."""
    assert option.index is not None
    axis = scope.need_axis(option.index.axis)
    if len(parts) != axis.size:
        raise scope.fail(
            "C609",
            f"config: {key} has {wording.count(len(parts), 'value')}, but {axis.name} is {axis.size}",
            option.name.span,
            help=f"Give one value per entry of {axis.name}.",
        )
    numbers = [one for one in parts if isinstance(one, bool | Fraction | float)]
    if len(numbers) != len(parts):
        raise scope.fail(
            "C605",
            f"config: {key} should hold numbers or truth values",
            option.name.span,
            help="A list of texts needs a choice table: name : table, with a row for each text.",
        )
    return Tensor(ir.table(numbers, axis))


def entry(scope: Scope, base: Tensor, expr: s.Select) -> Tensor | None:
    """local[l]: an entry of a vector, which has one axis only, so that its name need not be said."""
    option = scope.config.module.options.get(expr.base.name) if isinstance(expr.base, s.Name) else None
    item = expr.items[0]
    if option is None or option.index is None or len(expr.items) != 1 or not isinstance(item, s.PlainItem):
        return None
    if isinstance(item.value, s.Name) and not isinstance(scope.lookup(item.value.name), Counter | Tensor):
        return None
    return reshape.pick(scope, base, [s.EqualItem(item.span, option.index.axis, item.value)], expr)


def settled(made: Tensor) -> Value:
    """An entry that a number of config chooses is a number or truth value of config itself."""
    one = made.node
    if one.op == "pick" and one.args[0].op == "table" and one.args[1].op == "const":
        chosen: Static = one.args[0]["values"][int(one.args[1]["value"])]
        return chosen
    return made
