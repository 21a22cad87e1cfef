"""LALR reductions -> syntax tree: one method per rule (or alias) of transformula.lark, called bottom-up."""

from __future__ import annotations

from typing import Any

from . import syntax as s
from .build_expressions import Expressions
from .diagnostics import Span, error
from .lexing import Token


class Builder(Expressions):
    """Makes the nodes; every method gets the span of its text and the rule's values."""

    # ----------------------------------------------------------------------------------------------- the file

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
        return s.Option(span, self.to_name(name), index, self.optional_name(choice), value, *(keys or ((), None)))

    def keys(self, span: Span, *keys: Any) -> tuple[tuple[Any, ...], s.Expr | None]:
        return keys[:-1], keys[-1]

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

    def change(self, span: Span, name: Token, params: Any, value: s.Expr | None, body: s.Body | None) -> s.Change:
        return s.Change(span, self.to_name(name), value, body or s.Body(span), params or ())

    # -------------------------------------------------------------------------------------------- definitions

    def definition(
        self, span: Span, kind: Any, name: Token, of: Any, axes: Any, params: Any, outputs: Any, body: s.Body | None
    ) -> s.Definition:
        """A head with its outputs and body."""
        return s.Definition(
            span,
            kind or "formula",
            self.to_name(name),
            tuple(axes or ()),
            params,
            outputs,
            body or s.Body(span),
            *(of or (None, None)),
        )

    def of(self, span: Span, name: Token, each: Token | None) -> Any:
        return self.to_name(name), self.optional_name(each)

    def kind(self, span: Span, word: Token) -> str:
        return word.text

    def outputs(self, span: Span, *outputs: s.Output) -> tuple[s.Output, ...]:
        return outputs

    def output(self, span: Span, result: Any, value: s.Expr) -> s.Output:
        return s.Output(span, result[0], result[1], value)

    def result(self, span: Span, name: Token | None = None, axes: Any = None) -> Any:
        return name.text if name else None, axes

    def more(self, span: Span, name: Token, axes: Any, value: s.Expr) -> s.Output:
        return s.Output(span, name.text, axes, value)

    def declared(self, span: Span, names: list[s.Name] | None) -> tuple[s.Name, ...]:
        return tuple(names or ())

    def case_output(self, span: Span, result: Any, cases: s.Cases) -> tuple[s.Output, ...]:
        return (s.Output(span, result[0], result[1], cases),)

    def cases(self, span: Span, *cases: Any) -> s.Cases:
        """Printed cases: the last one, and no other, is `otherwise`."""
        for value, condition in cases[:-1]:
            if condition is None:
                raise error(
                    "P312", "`otherwise` is the last case", value.span, help="move this line to the end"
                )
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

    def body(self, span: Span, *sections: Any) -> s.Body:
        """The sections under a head, sorted by their kind."""
        parts: dict[str, list[Any]] = {"where": [], "weights": [], "uses": [], "removes": [], "shows": []}
        for section in sections:
            if isinstance(section, s.Remove):
                parts["removes"].extend(section.names)
                continue
            first = section[0]
            key = {s.UseDecl: "uses", s.WeightDecl: "weights", s.Output: "shows"}.get(type(first), "where")
            parts[key].extend(section)
        return s.Body(span, **{key: tuple(found) for key, found in parts.items()})

    def where(self, span: Span, *statements: s.Statement) -> list[s.Statement]:
        return list(statements)

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

    def weight(
        self, span: Span, names: list[s.Name], axes: s.Axes, init: Any, condition: Any
    ) -> s.WeightDecl:
        return s.WeightDecl(span, tuple(names), axes, init, condition)

    def uses(self, span: Span, *groups: list[s.UseDecl]) -> list[s.UseDecl]:
        return [use for group in groups for use in group]

    def use(
        self, span: Span, used: Any, block: Token, binds: Any, args: Any, condition: Any
    ) -> list[s.UseDecl]:
        """One `UseDecl` for each run of names with the same indices."""
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

    def shows(self, span: Span, *shown: s.Output) -> list[s.Output]:
        return list(shown)

    show = more

    # -------------------------------------------------------------------------------------------- checkpoints

    def checkpoint(
        self, span: Span, where: Token, model: Any, base: Any, types: Any, rows: Any
    ) -> s.Checkpoint:
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
