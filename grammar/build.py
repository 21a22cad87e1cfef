"""LALR reductions -> syntax tree: one method per rule (or alias) of transformula.lark, called bottom-up.

No step recurses: chains arrive as growing lists and become one flat node. The depth of each expression is known when it
is made, so that one nested beyond reason is refused here and every later walk may recurse.
"""

from __future__ import annotations

from fractions import Fraction
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


class Builder:
    """Makes the nodes; every method gets the span of its text and the rule's values."""

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

    # ------------------------------------------------------------------------------------------------ the file

    def start(self, span: Span, spec: Any, *items: Any) -> s.File:
        flat = [one for item in items for one in (item if isinstance(item, list) else [item])]
        name, extends, types = spec or (None, None, ())
        return s.File(span, name, extends, types, tuple(flat))

    def spec(self, span: Span, name: Token, extends: Token | None, types: list[str] | None) -> Any:
        return self.to_name(name), self.optional_name(extends), tuple(types or ())

    def import_(self, span: Span, module: s.Name, names: list[s.Name]) -> s.Import:
        return s.Import(span, module, tuple(names))

    def module(self, span: Span, *parts: Token) -> s.Name:
        return s.Name(span, "/".join(part.text for part in parts))

    def config(self, span: Span, *options: s.Option) -> list[s.Option]:
        return list(options)

    def option(self, span: Span, name: Token, index: Any, choice: Any, value: s.Expr, keys: Any) -> s.Option:
        return s.Option(span, self.to_name(name), index, self.optional_name(choice), value, tuple(keys or ()))

    def keys(self, span: Span, *keys: Any) -> list[Any]:
        return list(keys)

    def key(self, span: Span, *parts: Token) -> tuple[str, ...]:
        return tuple(part.text for part in parts)

    def choice(self, span: Span, name: Token, *rows: Any) -> s.Choice:
        return s.Choice(span, self.to_name(name), rows)

    def choice_row(self, span: Span, texts: list[str], value: s.Expr) -> Any:
        return tuple(texts), value

    def axes(self, span: Span, *axes: s.AxisDecl) -> list[s.AxisDecl]:
        return list(axes)

    def axis_decl(self, span: Span, name: Token, value: s.Expr) -> s.AxisDecl:
        return s.AxisDecl(span, self.to_name(name), value)

    def tie(self, span: Span, left: s.Expr, right: s.Expr) -> s.Tie:
        return s.Tie(span, left, right)

    def remove(self, span: Span, names: list[s.Name]) -> s.Remove:
        return s.Remove(span, tuple(names))

    def change(self, span: Span, name: Token, value: s.Expr | None, body: s.Body | None) -> s.Change:
        return s.Change(span, self.to_name(name), value, body or s.Body(span))

    # --------------------------------------------------------------------------------------------- definitions

    def definition(
        self, span: Span, kind: Any, name: Token, axes: Any, params: Any, outputs: Any, body: s.Body | None
    ) -> s.Definition:
        return s.Definition(
            span, kind or "formula", self.to_name(name), tuple(axes or ()), params, outputs, body or s.Body(span)
        )

    def kind(self, span: Span, word: Token) -> str:
        return word.text

    def outputs(self, span: Span, *outputs: s.Output) -> tuple[s.Output, ...]:
        return outputs

    def output(self, span: Span, result: Any, value: s.Expr) -> s.Output:
        return s.Output(span, *result, value)

    def result(self, span: Span, name: Token | None = None, axes: Any = None) -> Any:
        return name.text if name else None, axes

    def more(self, span: Span, name: Token, axes: Any, value: s.Expr) -> s.Output:
        return s.Output(span, name.text, axes, value)

    def declared(self, span: Span, names: list[s.Name] | None) -> tuple[s.Name, ...]:
        return tuple(names or ())

    def case_output(self, span: Span, result: Any, cases: s.Cases) -> tuple[s.Output, ...]:
        return (s.Output(span, *result, cases),)

    def cases(self, span: Span, *cases: Any) -> s.Cases:
        for value, condition in cases[:-1]:
            if condition is None:
                raise error("P312", "`otherwise` is the last case", value.span, help="move this line to the end")
        if cases[-1][1] is not None:
            raise error(
                "P312",
                "the last case has no `otherwise`",
                cases[-1][1].span,
                label="what if this does not hold?",
                help="end the last line with `otherwise`: it holds where no line above does",
            )
        return self.deep(s.Cases(span, cases), *(one for pair in cases for one in pair))

    def case(self, span: Span, value: s.Expr, condition: s.Expr | None = None) -> Any:
        return value, condition

    def params(self, span: Span, *params: s.Param) -> tuple[s.Param, ...]:
        return params

    def param(self, span: Span, name: Token, axes: Any, alias: Token | None, default: Any) -> s.Param:
        return s.Param(span, name.text, axes, alias.text if alias else None, default)

    def axis_params(self, span: Span, *params: s.AxisParam) -> list[s.AxisParam]:
        return list(params)

    def axis_param(self, span: Span, first: Token, axis: Token | None) -> s.AxisParam:
        if axis is None:
            return s.AxisParam(span, self.to_name(first))
        return s.AxisParam(span, self.to_name(axis), self.to_name(first))

    index_pair = axis_param

    def shape(self, span: Span, *names: Token) -> s.Axes:
        return s.Axes(span, tuple(map(self.to_name, names)))

    def map(self, span: Span, *parts: Any) -> s.Axes:
        *carried, ins, outs = parts
        return s.Axes(span, tuple(self.to_name(one) for one in carried if one), tuple(ins), tuple(outs or ()))

    def body(self, span: Span, *sections: tuple[str, list[Any]] | s.Remove) -> s.Body:
        parts: dict[str, list[Any]] = {"where": [], "weights": [], "uses": [], "removes": []}
        for section in sections:
            if isinstance(section, s.Remove):
                parts["removes"].extend(section.names)
            elif isinstance(section, list):
                parts["uses" if isinstance(section[0], s.UseDecl) else "weights"].extend(section)
            else:
                parts["where"].extend(section[1])
        return s.Body(span, *(tuple(parts[key]) for key in ("where", "weights", "uses", "removes")))

    def where(self, span: Span, *statements: s.Statement) -> tuple[str, list[s.Statement]]:
        return "where", list(statements)

    def assign(self, span: Span, target: Any, value: s.Expr) -> s.Assign:
        name, brackets, params = target
        return s.Assign(span, self.to_name(name), tuple(brackets or ()), params, value)

    def target(self, span: Span, name: Token, brackets: Any, params: Any) -> Any:
        return name, brackets, params

    def brackets(self, span: Span, *items: Any) -> list[Any]:
        return list(items)

    def plain(self, span: Span, value: s.Expr) -> s.PlainItem:
        return self.deep(s.PlainItem(span, value), value)

    def loop(self, span: Span, variable: Token, first: s.Expr, last: Any, *body: s.Statement) -> s.Loop:
        start, stop = (None, first) if last is None else (first, last)
        return s.Loop(span, self.to_name(variable), start, stop, body)

    def weights(self, span: Span, *weights: s.WeightDecl) -> list[s.WeightDecl]:
        return list(weights)

    def weight(self, span: Span, names: list[s.Name], axes: s.Axes, init: Any, condition: Any) -> s.WeightDecl:
        return s.WeightDecl(span, tuple(names), axes, init, condition)

    def uses(self, span: Span, *groups: list[s.UseDecl]) -> list[s.UseDecl]:
        return [use for group in groups for use in group]

    def use(self, span: Span, used: Any, block: Token, binds: Any, args: Any, condition: Any) -> list[s.UseDecl]:
        groups: list[tuple[list[s.Name], tuple[s.Name, ...]]] = []
        for name, indices in used:
            if groups and groups[-1][1] == indices:
                groups[-1][0].append(name)
            else:
                groups.append(([name], indices))
        rest = (self.to_name(block), tuple(binds or ()), tuple(args or ()), condition)
        return [s.UseDecl(span, tuple(names), indices, *rest) for names, indices in groups]

    def used_list(self, span: Span, *used: Any) -> list[Any]:
        return list(used)

    def used(self, span: Span, name: Token, indices: list[s.Name] | None) -> Any:
        return self.to_name(name), tuple(indices or ())

    def binds(self, span: Span, *binds: s.EqualItem) -> list[s.EqualItem]:
        return list(binds)

    def bind(self, span: Span, axis: Token, value: s.Expr) -> s.EqualItem:
        return s.EqualItem(span, self.to_name(axis), value)

    # --------------------------------------------------------------------------------------------- checkpoints

    def checkpoint(self, span: Span, where: Token, model: Any, base: Any, types: Any, rows: Any) -> s.Checkpoint:
        model, base = self.optional_name(model), self.optional_name(base)
        return s.Checkpoint(span, self.to_name(where), model, base, tuple(types or ()), tuple(rows or ()))

    def rows(self, span: Span, *rows: Any) -> list[Any]:
        return list(rows)

    def skip(self, span: Span, text: Token) -> s.Skip:
        return s.Skip(span, text.text[1:-1])

    def mapping(
        self, span: Span, paths: Any, include: Any, stored: Token, layout: Any, condition: Any, nested: Any
    ) -> s.Mapping:
        include = self.optional_name(include)
        return s.Mapping(span, paths, include, stored.text[1:-1], layout, tuple(nested or ()), condition)

    def paths(self, span: Span, *paths: s.Path) -> tuple[s.Path, ...]:
        return paths

    def path(self, span: Span, *parts: Any) -> s.Path:
        return s.Path(span, parts)

    def path_part(self, span: Span, name: Token, *indices: str | None) -> Any:
        return name.text, tuple(index for index in indices if index is not None)

    def path_index(self, span: Span, index: Token) -> str:
        return index.text

    def layout(self, span: Span, *groups: Any) -> tuple[tuple[str, ...], ...]:
        return tuple(group for group in groups if group is not None)

    def group(self, span: Span, name: Token) -> tuple[str, ...]:
        return (name.text,)

    def merged(self, span: Span, names: list[s.Name]) -> tuple[str, ...]:
        return tuple(name.name for name in names)

    def one(self, span: Span, number: Token) -> tuple[str, ...]:
        if number.text != "1":
            help = "a stored dimension is an axis, several in parentheses, or a literal 1"
            raise error("P313", "a stored dimension has a name, not a size", self.span(number), help=help)
        return ()

    # --------------------------------------------------------------------------------------------- expressions

    def alternatives(self, span: Span, *parts: Any) -> list[Any]:
        if isinstance(parts[0], list):
            parts[0].append((parts[1], parts[2]))
            return parts[0]
        return [parts]

    def choose(self, span: Span, cases: list[Any], last: s.Expr) -> s.Expr:
        return self.deep(s.Cases(span, (*cases, (last, None))), last, *(one for pair in cases for one in pair))

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
        if isinstance(function, s.Name) and function.name in FOLDED and len(args) == 1 and args[0].name is None:
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
        mantissa, _, exponent = text.lower().partition("e")
        if len(mantissa) > MAX_DIGITS or (exponent and len(exponent) > 5) or abs(int(exponent or 0)) > MAX_EXPONENT:
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
        for before, after in zip(args, args[1:], strict=False):
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

    def indexed(self, span: Span, index: Token, axis: Token, condition: Any, new: Token | None) -> s.RestrictItem:
        item = s.RestrictItem(
            span, self.to_name(axis), condition, self.to_name(index), self.optional_name(new)
        )
        return self.deep(item, condition)

    def names(self, span: Span, *names: Token) -> list[s.Name]:
        return list(map(self.to_name, names))

    words = names

    def strings(self, span: Span, *texts: Token) -> list[str]:
        return [text.text[1:-1] for text in texts]
