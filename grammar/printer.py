"""Syntax -> text: `expression` prints one formula on one line, `format_source` lays out a whole file.

`expression` writes Unicode and the fewest parentheses; reading its text gives the same tree again.
"""

from __future__ import annotations

from fractions import Fraction

from . import syntax as s
from .formatter import format_source

__all__ = ["expression", "format_source"]

# How tightly a form binds, loosest first.
CHOICE, OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY, POWER, POSTFIX = range(10)

COMPARED = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "==": "==", "!=": "≠"}
SUPERSCRIPT = {2: "²", 3: "³"}


def expression(expr: s.Expr) -> str:
    """The formula as one line of text."""
    return _print(expr, CHOICE)


def _print(expr: s.Expr, level: int) -> str:
    """The text of `expr` where forms at least as tight as `level` may stand; in parentheses if looser."""
    text, own = _form(expr)
    return text if own >= level else f"({text})"


def _form(expr: s.Expr) -> tuple[str, int]:
    match expr:
        case s.Name(name=name):
            return name, POSTFIX
        case s.Number():
            return _number(expr)
        case s.Infinity():
            return "∞", POSTFIX
        case s.Text(value=value):
            return f'"{value}"', POSTFIX
        case s.Unary():
            return _unary(expr)
        case s.Power(base=base, exponent=exponent):
            return _power(base, exponent), POWER
        case s.Select(base=base, items=items):
            return _print(base, POSTFIX) + _items(items), POSTFIX
        case s.Call():
            return _call(expr), POSTFIX
        case s.Member(base=base, name=name):
            return f"{_print(base, POSTFIX)}.{name}", POSTFIX
        case s.Concat(parts=parts):
            return f"[{'; '.join(_print(part, CHOICE) for part in parts)}]", POSTFIX
        case _:
            return _chain(expr)


def _chain(expr: s.Sum | s.Product | s.Contract | s.Compare | s.Logic | s.Cases) -> tuple[str, int]:
    match expr:
        case s.Sum(terms=terms):
            return _pairs(terms, PRODUCT, PRODUCT), SUM
        case s.Product(factors=factors):
            first = PRODUCT if isinstance(factors[0][1], s.Contract) else UNARY
            return _pairs(factors, first, UNARY), PRODUCT
        case s.Contract(left=left, right=right, axes=axes):
            sign = "@" if axes is None else f"@[{', '.join(axis.name for axis in axes)}]"
            return f"{_print(left, PRODUCT)} {sign} {_print(right, UNARY)}", PRODUCT
        case s.Compare(operands=operands, operators=operators):
            signs = ["", *(f" {COMPARED[sign]} " for sign in operators)]
            return "".join(
                sign + _print(one, SUM) for sign, one in zip(signs, operands, strict=True)
            ), COMPARE
        case s.Logic(op=op, operands=operands):
            level = OR if op == "or" else AND
            return f" {op} ".join(_print(one, level + 1) for one in operands), level
        case s.Cases(cases=cases):
            return _cases(cases), CHOICE


def _pairs(pairs: tuple[tuple[str, s.Expr], ...], first: int, others: int) -> str:
    head = ("-" if pairs[0][0] == "-" else "") + _print(pairs[0][1], first)
    return "".join([head, *(f" {sign} {_print(one, others)}" for sign, one in pairs[1:])])


def _cases(cases: tuple[tuple[s.Expr, s.Expr | None], ...]) -> str:
    parts = [
        f"{_print(value, OR)} if {_print(condition, OR)}" if condition is not None else _print(value, OR)
        for value, condition in cases
    ]
    return " else ".join(parts)


def _unary(expr: s.Unary) -> tuple[str, int]:
    operand = expr.operand
    match expr.op:
        case "not":
            return f"not {_print(operand, NOT)}", NOT
        case "neg":
            double = isinstance(operand, s.Unary) and operand.op == "neg"
            return f"-{_print(operand, POSTFIX if double else UNARY)}", UNARY
        case "sqrt":
            return f"√{_print(operand, POSTFIX)}", UNARY
        case "abs":
            return f"|{_print(operand, CHOICE)}|", POSTFIX
        case _:
            return f"{_print(operand, POSTFIX)}ᵀ", POSTFIX


def _power(base: s.Expr, exponent: s.Expr) -> str:
    left = _print(base, POSTFIX)
    small = SUPERSCRIPT.get(int(exponent.value)) if isinstance(exponent, s.Number) else None
    if isinstance(exponent, s.Number) and small and exponent.value.denominator == 1:
        return left + small
    return f"{left}^{_print(exponent, UNARY)}"


def _call(expr: s.Call) -> str:
    function, args = expr.function, expr.args
    if _is_norm(function) and len(args) == 1 and args[0].name is None:
        assert isinstance(function, s.Select)
        return f"‖{_print(args[0].value, CHOICE)}‖{_items(function.items)}"
    parts = [f"{arg.name} = " if arg.name is not None else "" for arg in args]
    inner = ", ".join(name + _print(arg.value, CHOICE) for name, arg in zip(parts, args, strict=True))
    return f"{_print(function, POSTFIX)}({inner})"


def _is_norm(function: s.Expr) -> bool:
    return (
        isinstance(function, s.Select) and isinstance(function.base, s.Name) and function.base.name == "norm"
    )


def _items(items: tuple[s.Item, ...]) -> str:
    return f"[{', '.join(map(item, items))}]"


def item(one: s.Item) -> str:
    """What stands between the commas of x[…]."""
    match one:
        case s.PlainItem(value=value):
            return _print(value, SUM)
        case s.EqualItem(axis=axis, value=value, otherwise=None):
            return f"{axis.name} = {_print(value, CHOICE)}"
        case s.EqualItem(axis=axis, value=value, otherwise=otherwise):
            assert otherwise is not None
            return f"{axis.name} = {_print(value, OR)} else {_print(otherwise, CHOICE)}"
        case s.RenameItem(old=old, new=new):
            return " ".join([*(name.name for name in old), "→", *(name.name for name in new)])
        case s.RestrictItem(axis=axis, condition=condition, as_index=index, new=out):
            text = axis.name if index is None else f"{index.name}: {axis.name}"
            text += "" if condition is None else f" if {_print(condition, OR)}"
            return text + ("" if out is None else f" → {out.name}")


def _number(expr: s.Number) -> tuple[str, int]:
    if expr.text:
        return expr.text, POSTFIX
    text = decimal(expr.value)
    return text, PRODUCT if "/" in text else UNARY if text.startswith("-") else POSTFIX


def decimal(value: Fraction) -> str:
    """An exact number as a decimal (`0.1`, `1e-12`), or as a fraction if it has no end."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
        if places > 400:
            return f"{value.numerator} / {value.denominator}"
    digits = str(abs(value * 10**places))
    sign = "-" if value < 0 else ""
    zeros = len(digits) - len(digits.rstrip("0"))
    if places > 6 or (zeros > 6 and not places):
        exponent = zeros - places
        return f"{sign}{digits[: len(digits) - zeros]}e{exponent}"
    if not places:
        return sign + digits
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"
