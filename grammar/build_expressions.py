"""LALR reductions of expressions -> syntax tree; the rest of the file is in build.py.

No step recurses: chains arrive as growing lists and become one flat node. The depth of each expression is
known when it is made: one nested beyond reason is refused here, so that every later walk may recurse.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

from . import syntax as s
from .diagnostics import Source, Span, error
from .lexing import SUPERSCRIPTS, Token

MAX_DEPTH = 200
MAX_DIGITS = 400
MAX_EXPONENT = 400

E = TypeVar("E", bound=s.Node)

COMPARE = {"LESS": "<", "LESS_EQUAL": "<=", "MORE": ">", "MORE_EQUAL": ">=", "EQUAL": "==", "UNEQUAL": "!="}
MULTIPLY = {"STAR": "*", "SLASH": "/", "DOUBLE_SLASH": "//", "PERCENT": "%"}
FOLDED = {"sqrt": "sqrt", "abs": "abs", "transpose": "transpose"}  # ASCII spellings of √x, |x|, xᵀ


class Expressions:
    """One method per rule or alias of an expression; each gets the span of its text and the rule's values."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.depths: dict[int, int] = {}

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def to_name(self, token: Token) -> s.Name:
        return s.Name(self.span(token), token.text)

    def optional_name(self, token: Token | None) -> s.Name | None:
        return None if token is None else self.to_name(token)

    def deep(self, node: E, *children: Any) -> E:
        """`node`, with its depth noted; an error if it is too deep."""
        depths = self.depths
        depth = 1 + max([depths.get(id(child), 1) for child in children], default=0)
        if depth > MAX_DEPTH:
            raise error(
                "P316",
                f"this formula nests more than {MAX_DEPTH} levels deep",
                node.span,
                help="give its inner parts names in a `where`",
            )
        depths[id(node)] = depth
        return node

    def alternatives(self, span: Span, *parts: Any) -> list[Any]:
        if isinstance(parts[0], list):
            parts[0].append((parts[1], parts[2]))
            return parts[0]
        return [parts]

    def choose(self, span: Span, cases: list[Any], last: s.Expr) -> s.Expr:
        return self.deep(
            s.Cases(span, (*cases, (last, None))), last, *(one for pair in cases for one in pair)
        )

    def chain(self, span: Span, first: Any, *rest: Any) -> list[Any]:
        """A growing list: operand, operator, operand, …"""
        if isinstance(first, list):
            first.extend(rest)
            return first
        return [first, *rest]

    or_chain = and_chain = cmp_chain = add_chain = mul_chain = chain

    def or_(self, span: Span, chain: list[Any]) -> s.Expr:
        return self.deep(s.Logic(span, "or", tuple(chain)), *chain)

    def and_(self, span: Span, chain: list[Any]) -> s.Expr:
        return self.deep(s.Logic(span, "and", tuple(chain)), *chain)

    def not_(self, span: Span, operand: s.Expr) -> s.Expr:
        return self.deep(s.Unary(span, "not", operand), operand)

    def compare(self, span: Span, chain: list[Any]) -> s.Expr:
        operators = tuple(COMPARE[token.kind] for token in chain[1::2])
        return self.deep(s.Compare(span, tuple(chain[::2]), operators), *chain[::2])

    def sum(self, span: Span, chain: list[Any]) -> s.Expr:
        signs = ["+", *("+" if token.kind == "PLUS" else "-" for token in chain[1::2])]
        return self.deep(s.Sum(span, tuple(zip(signs, chain[::2], strict=True))), *chain[::2])

    def product(self, span: Span, chain: list[Any]) -> s.Expr:
        signs = ["*", *(MULTIPLY[token.kind] for token in chain[1::2])]
        return self.deep(s.Product(span, tuple(zip(signs, chain[::2], strict=True))), *chain[::2])

    def contract(self, span: Span, left: s.Expr, sign: Token, axes: Any, right: s.Expr) -> s.Expr:
        names = None if axes is None else tuple(axes)
        return self.deep(s.Contract(span, left, right, names, self.span(sign)), left, right)

    def negative(self, span: Span, sign: Token, operand: s.Expr) -> s.Expr:
        return self.deep(s.Unary(span, "neg", operand), operand)

    def root(self, span: Span, operand: s.Expr) -> s.Expr:
        return self.deep(s.Unary(span, "sqrt", operand), operand)

    def power(self, span: Span, base: s.Expr, exponent: s.Expr) -> s.Expr:
        return self.deep(s.Power(span, base, exponent), base, exponent)

    def superscript(self, span: Span, base: s.Expr, sign: Token) -> s.Expr:
        text = sign.text.translate(SUPERSCRIPTS)
        exponent: s.Expr = self.whole(self.span(sign), text.lstrip("-"))
        if text.startswith("-"):
            exponent = s.Unary(self.span(sign), "neg", exponent)
        return self.power(span, base, exponent)

    def select(self, span: Span, base: s.Expr, items: list[Any]) -> s.Expr:
        return self.deep(s.Select(span, base, tuple(items)), base, *items)

    def call(self, span: Span, function: s.Expr, args: list[s.Arg]) -> s.Expr:
        """A call; sqrt(x), abs(x) and transpose(x) are the ASCII spellings of √x, |x| and xᵀ."""
        if (
            isinstance(function, s.Name)
            and function.name in FOLDED
            and len(args) == 1
            and args[0].name is None
        ):
            return self.deep(s.Unary(span, FOLDED[function.name], args[0].value), args[0].value)
        return self.deep(s.Call(span, function, tuple(args)), function, *args)

    def member(self, span: Span, base: s.Expr, name: Token) -> s.Expr:
        if name.text == "T":
            raise error("P310", "a transpose is written xᵀ", span, help="write xᵀ, or transpose(x)")
        return self.deep(s.Member(span, base, name.text), base)

    def transpose(self, span: Span, base: s.Expr) -> s.Expr:
        return self.deep(s.Unary(span, "transpose", base), base)

    def name(self, span: Span, token: Token) -> s.Expr:
        return s.Name(span, token.text)

    def sum_sign(self, span: Span, token: Token) -> s.Expr:
        return s.Name(span, "sum")

    def product_sign(self, span: Span, token: Token) -> s.Expr:
        return s.Name(span, "prod")

    def number(self, span: Span, token: Token) -> s.Expr:
        return self.whole(span, token.text)

    def whole(self, span: Span, text: str) -> s.Number:
        """An exact number, if floating point could hold it."""
        mantissa, _, exponent = text.lower().partition("e")
        if (
            len(mantissa) > MAX_DIGITS
            or (exponent and len(exponent) > 5)
            or abs(int(exponent or 0)) > MAX_EXPONENT
        ):
            raise error(
                "P309",
                f"this number is beyond 10^{MAX_EXPONENT}",
                span,
                help="write ∞ for infinity, or a number that floating point can hold",
            )
        return s.Number(span, Fraction(text), text)

    def text(self, span: Span, token: Token) -> s.Expr:
        return s.Text(span, token.text[1:-1])

    def infinity(self, span: Span, token: Token) -> s.Expr:
        return s.Infinity(span)

    def absolute(self, span: Span, operand: s.Expr) -> s.Expr:
        return self.deep(s.Unary(span, "abs", operand), operand)

    def norm(self, span: Span, operand: s.Expr, items: list[Any]) -> s.Expr:
        function = self.select(span, s.Name(span, "norm"), items)
        return self.call(span, function, [self.arg(operand.span, operand)])

    def concat(self, span: Span, *parts: s.Expr) -> s.Expr:
        return self.deep(s.Concat(span, parts), *parts)

    def call_args(self, span: Span, *args: s.Arg) -> list[s.Arg]:
        for before, after in pairwise(args):
            if before.name is not None and after.name is None:
                message = "an argument without a name follows one with a name"
                raise error("P310", message, after.span, help="give it its name, or move it to the front")
        return list(args)

    def arg(self, span: Span, value: s.Expr) -> s.Arg:
        return self.deep(s.Arg(span, None, value), value)

    def named_arg(self, span: Span, name: Token, value: s.Expr) -> s.Arg:
        return self.deep(s.Arg(span, name.text, value), value)

    def items(self, span: Span, *items: Any) -> list[Any]:
        return list(items)

    def pick(self, span: Span, axis: Token, value: s.Expr, otherwise: s.Expr | None = None) -> s.EqualItem:
        return self.deep(s.EqualItem(span, self.to_name(axis), value, otherwise), value, otherwise)

    def rename(self, span: Span, old: list[s.Name], new: list[s.Name]) -> s.RenameItem:
        return s.RenameItem(span, tuple(old), tuple(new))

    def new_axis(self, span: Span, new: list[s.Name]) -> s.RenameItem:
        return s.RenameItem(span, (), tuple(new))

    def restrict(self, span: Span, axis: Token, condition: s.Expr, new: Token | None) -> s.RestrictItem:
        return self.deep(
            s.RestrictItem(span, self.to_name(axis), condition, new=self.optional_name(new)), condition
        )

    def indexed(
        self, span: Span, index: Token, axis: Token, condition: Any, new: Token | None
    ) -> s.RestrictItem:
        """r: key if condition → out."""
        item = s.RestrictItem(
            span, self.to_name(axis), condition, self.to_name(index), self.optional_name(new)
        )
        return self.deep(item, condition)

    def names(self, span: Span, *names: Token) -> list[s.Name]:
        return list(map(self.to_name, names))

    words = names

    def strings(self, span: Span, *texts: Token) -> list[str]:
        return [text.text[1:-1] for text in texts]
