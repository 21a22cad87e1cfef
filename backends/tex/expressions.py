"""Expressions → layout, by their meaning: what has which axes decides how it is written.

    x @ W                  x W               a map is applied
    Q @[dk] K              Q K^⊤             the axis is the last of K, another one stays
    A @[key] V             A V               the axis is the first of V
    u @[d] v               u · v             none stays
    γ * x                  γ ⊙ x             if both have axes, else side by side
    exp(x) / sum[j](…)     an index for j    because the axis is free on one side and bound on the other
    x[seq → key]           x                 the same entries; its index is that of key
"""

from __future__ import annotations

from fractions import Fraction

from ...grammar import syntax as s
from ...grammar.printer import decimal
from . import brackets, calls, products
from .facts import Facts
from .names import written
from .place import Place
from .signs import COMPARED
from .tree import (
    Cases,
    Digits,
    Fence,
    Layout,
    Over,
    Root,
    Row,
    Script,
    Sign,
    Word,
    Words,
    listed,
    parens,
    row,
    scripted,
)

# How tightly a form binds, loosest first.
CHOICE, OR, AND, NOT, COMPARE, SUM, REDUCE, PRODUCT, UNARY, POWER, POSTFIX = range(11)
Formed = tuple[Layout, int]


class Printer:
    """Writes the expressions of one definition."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def show(self, expr: s.Expr, place: Place, level: int = CHOICE) -> Layout:
        """The layout of an expression where forms at least as tight as `level` may stand; else in parentheses."""
        return fitted(*self.form(expr, place), level)

    def axes(self, expr: s.Expr, place: Place) -> tuple[str, ...]:
        """The axes of an expression that have no index where it stands."""
        return tuple(axis for axis in self.facts.axes(expr, place.home) if axis not in place.at)

    def form(self, expr: s.Expr, place: Place) -> Formed:
        """The layout of an expression, and how tightly it binds."""
        match expr:
            case s.Name():
                return self.name(expr, place), POSTFIX
            case s.Number():
                return number(expr)
            case s.Infinity():
                return Word("∞"), POSTFIX
            case s.Text(value=value):
                return Words(f"“{value}”"), POSTFIX
            case s.Unary():
                return self._unary(expr, place)
            case s.Power(base=base, exponent=exponent):
                return self._power(base, exponent, place), POWER
            case s.Select(base=base, items=items):
                return brackets.select(self, base, items, place)
            case s.Call():
                return calls.call(self, expr, place)
            case s.Member(base=base, name=name):
                return self._member(base, name, expr, place), POSTFIX
            case s.Concat(parts=parts):
                inner = listed([self.show(one, place) for one in parts], ";")
                return Fence("[", inner, "]"), POSTFIX
            case _:
                return self._chain(expr, place)

    def name(self, expr: s.Name, place: Place) -> Layout:
        """A name with the indices of its axes."""
        here = place.home
        if expr.name in here.bare or expr.name in place.bare:
            return written(expr.name)
        if expr.name in here.formal and expr.name not in here.names:
            return place.size(expr.name)
        axes = self.facts.axes(expr, here)
        return scripted(written(expr.name, self.facts.is_map(expr, here)), place.indices(axes))

    def _member(self, base: s.Expr, name: str, expr: s.Expr, place: Place) -> Layout:
        axes = self.facts.axes(expr, place.home)
        last = scripted(written(name, self.facts.is_map(expr, place.home)), place.indices(axes))
        return row(self.show(base, place.without(*place.at), POSTFIX), Sign(".", "mark"), last)

    def _chain(self, expr: s.Expr, place: Place) -> Formed:
        match expr:
            case s.Sum(terms=terms):
                return self._sum(terms, place), SUM
            case s.Product(factors=factors):
                return products.product(self, factors, place)
            case s.Contract():
                return products.contract(self, expr, place), PRODUCT
            case s.Compare(operands=operands, operators=operators):
                parts: list[Layout] = [self.show(operands[0], place, SUM)]
                for sign, one in zip(operators, operands[1:], strict=True):
                    parts += [Sign(COMPARED[sign], "relation"), self.show(one, place, SUM)]
                return row(*parts), COMPARE
            case s.Logic(op=op, operands=operands):
                level = OR if op == "or" else AND
                mark = Sign("∨" if op == "or" else "∧")
                shown = [self.show(one, place, level + 1) for one in operands]
                return row(shown[0], *(part for one in shown[1:] for part in (mark, one))), level
            case s.Cases(cases=cases):
                return self._cases(cases, place), CHOICE
        raise AssertionError(type(expr).__name__)

    def _sum(self, terms: tuple[tuple[str, s.Expr], ...], place: Place) -> Layout:
        parts: list[Layout] = [Sign("−", "before")] if terms[0][0] == "-" else []
        parts.append(self.show(terms[0][1], place, REDUCE))
        for sign, one in terms[1:]:
            parts += [Sign("−" if sign == "-" else "+"), self.show(one, place, REDUCE)]
        return row(*parts)

    def _cases(self, cases: tuple[tuple[s.Expr, s.Expr | None], ...], place: Place) -> Layout:
        """Printed cases; below a sign, where no brace has room, on one line."""
        if not place.small:
            return Cases(
                tuple(
                    (self.show(value, place, OR), None if when is None else self.show(when, place, OR))
                    for value, when in cases
                )
            )
        parts: list[Layout] = []
        for value, when in cases:
            parts += [Words(" else ")] if parts else []
            parts.append(self.show(value, place, OR))
            parts += [] if when is None else [Words(" if "), self.show(when, place, OR)]
        return row(*parts)

    def _unary(self, expr: s.Unary, place: Place) -> Formed:
        operand = expr.operand
        match expr.op:
            case "not":
                return row(Sign("¬", "before"), self.show(operand, place, POWER)), NOT
            case "neg":
                tight = POSTFIX if isinstance(operand, s.Unary) and operand.op == "neg" else REDUCE
                return row(Sign("−", "before"), self.show(operand, place, tight)), SUM
            case "sqrt":
                return Root(self.show(operand, place)), POSTFIX
            case "abs":
                return Fence("|", self.show(operand, place), "|"), POSTFIX
            case _:
                return transposed(self.show(operand, place, POSTFIX)), POWER

    def _power(self, base: s.Expr, exponent: s.Expr, place: Place) -> Layout:
        above = self.show(exponent, place.smaller())
        below = self.show(base, place, POSTFIX)
        if isinstance(below, Row) and isinstance(below.items[-1], Fence) and is_called(below):
            return row(*below.items[:-1], scripted(below.items[-1], [], above))
        if isinstance(below, Over | Row) or (isinstance(below, Script) and below.sup is not None):
            below = parens(below)
        return scripted(below, [], above)


def is_called(made: Row) -> bool:
    """Whether it is f(x): a name and parentheses."""
    return len(made.items) == 2 and isinstance(made.items[0], Word | Script)


def fitted(made: Layout, own: int, level: int) -> Layout:
    """A form where others at least as tight as `level` may stand; a fraction needs no parentheses as a factor."""
    return made if own >= level or (isinstance(made, Over) and level <= UNARY) else parens(made)


def number(expr: s.Number) -> Formed:
    """A literal as it was written; powers of ten as such, a fraction as one."""
    text = expr.text or decimal(expr.value)
    mantissa, e, exponent = text.lower().partition("e")
    if e and expr.value:
        power = scripted(Digits("10"), [], signed(exponent.lstrip("+")))
        return (power, POWER) if mantissa == "1" else (row(signed(mantissa), Sign("·"), power), PRODUCT)
    if "/" in text:
        return Over(signed(str(expr.value.numerator)), Digits(str(expr.value.denominator))), PRODUCT
    return signed(text), UNARY if text.startswith("-") else POSTFIX


def signed(text: str) -> Layout:
    """Digits, and a minus before them as a sign."""
    return row(Sign("−", "before"), Digits(text[1:])) if text.startswith("-") else Digits(text)


def transposed(made: Layout) -> Layout:
    """made^⊤"""
    if isinstance(made, Script) and made.sup is not None:
        made = parens(made)
    return scripted(made, [], Sign("⊤", "mark"))


def is_number(expr: s.Expr, value: int) -> bool:
    """Whether the expression is this number."""
    return isinstance(expr, s.Number) and expr.value == Fraction(value)
