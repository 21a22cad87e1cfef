"""Products: of numbers side by side, of entries with ⊙, of rows and columns with or without ⊤, and fractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...grammar import syntax as s
from . import expressions as e
from .place import Place
from .signs import FUNCTION
from .tree import Accent, Digits, Fence, Layout, Over, Row, Script, Sign, Space, Word, row

if TYPE_CHECKING:
    from .expressions import Formed, Printer


def product(printer: Printer, factors: tuple[tuple[str, s.Expr], ...], place: Place) -> Formed:
    """a b / c ⊙ d: what a division divides is a fraction, the last factor's where entries are multiplied."""
    if place.small:
        return _lying(printer, factors, place), e.POSTFIX if len(factors) == 2 and factors[1][0] == "//" else e.PRODUCT
    last = len(factors) - 1
    done: list[Layout] = []  # entries of a product, with ⊙ between them
    axes: set[str] = set()
    current: list[Layout] = []  # factors side by side
    level = e.PRODUCT
    for number, (op, factor) in enumerate(factors):
        own = set(printer.axes(factor, place))
        if op == "/":
            top = row(*current)
            current = [Over(_opened(top), printer.show(factor, place))]
        elif op == "*":
            if own and axes and current:
                done += [row(*current), Sign("⊙")]
                current = []
            shown, own_level = printer.form(factor, place)
            if number == last and own_level == e.REDUCE:
                level = e.REDUCE
            else:
                shown = e.fitted(shown, own_level, e.UNARY if isinstance(factor, s.Product) else e.PRODUCT)
            current = _beside(current, shown, factor)
        else:
            current = [_whole(op, row(*current), printer, factor, place)]
        axes |= own
    made = row(*done, *current)
    return made, e.POSTFIX if isinstance(made, Fence) and made.left == "⌊" else level


def _opened(top: Layout) -> Layout:
    """The numerator without parentheses around all of it."""
    return top.body if isinstance(top, Fence) and top.left == "(" else top


def _whole(op: str, left: Layout, printer: Printer, factor: s.Expr, place: Place) -> Layout:
    """⌊a / b⌋ and a mod b."""
    if op == "//":
        body = (
            row(left, Sign("/"), printer.show(factor, place, e.POWER))
            if place.small
            else Over(left, printer.show(factor, place))
        )
        return Fence("⌊", body, "⌋")
    return row(left, Sign("mod"), printer.show(factor, place, e.POWER))


def _lying(printer: Printer, factors: tuple[tuple[str, s.Expr], ...], place: Place) -> Layout:
    """The product on one line, for exponents."""
    made: list[Layout] = []
    for op, factor in factors:
        shown = printer.show(factor, place, e.UNARY)
        if op == "/":
            made += [Sign("/"), shown]
        elif op == "*":
            made = _beside(made, shown, factor)
        else:
            made = [_whole(op, row(*made), printer, factor, place)]
    return row(*made)


def _beside(current: list[Layout], shown: Layout, factor: s.Expr) -> list[Layout]:
    """One more factor: side by side where nobody can misread it, else with a dot."""
    if not current:
        return [shown]
    if _ends_in(current[-1], Digits) and len(current) == 1 and not _begins_in(shown, Digits):
        return [*current, Space(), shown] if _begins_in_word(shown) else [*current, shown]
    if _begins_in(shown, Digits) or _looks_called(current, shown) or _is_call(factor):
        return [*current, Sign("·"), shown]
    if _is_word(current[-1]) or _begins_in_word(shown):
        return [*current, Space(), shown]
    return [*current, shown]


def _is_call(factor: s.Expr) -> bool:
    """Whether it is a function of the spec, whose name could be read as one more factor."""
    function = factor.function if isinstance(factor, s.Call) else None
    if isinstance(function, s.Select):
        function = function.base
    return isinstance(function, s.Name) and function.name not in FUNCTION


def _looks_called(current: list[Layout], shown: Layout) -> bool:
    """x(1 + y): a name alone before parentheses looks like a function."""
    alone = not any(isinstance(one, Digits) for one in current)
    return alone and isinstance(shown, Fence) and isinstance(current[-1], Word | Script | Accent)


def _ends_in(one: Layout, kind: type) -> bool:
    return isinstance(one.items[-1] if isinstance(one, Row) else one, kind)


def _begins_in(one: Layout, kind: type) -> bool:
    while isinstance(one, Row | Script):
        one = one.items[0] if isinstance(one, Row) else one.base
    return isinstance(one, kind)


def _begins_in_word(one: Layout) -> bool:
    return _is_word(one.items[0] if isinstance(one, Row) else one)


def _is_word(one: Layout) -> bool:
    while isinstance(one, Script):
        one = one.base
    return isinstance(one, Word) and one.upright


# ------------------------------------------------------------------------------------------------ contractions


def contract(printer: Printer, expr: s.Contract, place: Place) -> Layout:
    """A contraction as a product of matrices: which axes stay decides whether a side is turned round."""
    left = printer.show(expr.left, place, e.PRODUCT)
    right = printer.show(expr.right, place, e.UNARY)
    if expr.axes is None or printer.facts.is_map(expr.right, place.home):
        return _product_of(left, right)
    gone = {axis.name for axis in expr.axes}
    a, b = _order(printer, expr.left, place), _order(printer, expr.right, place)
    stays_left = [axis for axis in a if axis not in gone and axis not in b]
    stays_right = [axis for axis in b if axis not in gone and axis not in a]
    rows = gone & place.home.rows  # along these stand vectors, not numbers
    if not stays_left and not stays_right and not rows and not (set(a) | set(b)) - gone:
        return row(left, Sign("·"), right)
    if stays_left and _first(a, gone) < a.index(stays_left[0]):
        left = e.transposed(_closed(left))
    if _turned(printer, expr.right, place, b, gone):
        right = e.transposed(_closed(right))
    return _product_of(left, right)


def _order(printer: Printer, expr: s.Expr, place: Place) -> list[str]:
    """The axes of a side, also those with an index: K_j is a row of K."""
    return list(printer.facts.axes(expr, place.home))


def _turned(printer: Printer, expr: s.Expr, place: Place, axes: list[str], gone: set[str]) -> bool:
    """Whether an axis that stays stands before the one that is summed over: the sum is then over columns."""
    first = _first(axes, gone)
    return any(axis not in gone for axis in axes[:first])


def _first(axes: list[str], gone: set[str]) -> int:
    return min((axes.index(axis) for axis in gone if axis in axes), default=len(axes))


def _closed(one: Layout) -> Layout:
    """In parentheses, unless it is a name."""
    return one if isinstance(one, Word | Script | Accent | Fence) else Fence("(", one, ")")


def _product_of(left: Layout, right: Layout) -> Layout:
    gap = _is_word(left) or _is_word(right)
    return row(left, Space(), right) if gap else row(left, right)
