"""A definition as one formula: its parts in place of their names, and parameters as they are by default.

    attention(Q, K, V) = A @[key] V                  softmax[key](Q @[dk] K / √dk) @[key] V
        where A = dropout(softmax[key](scores), 0)
              scores = 1 / √dk * (Q @[dk] K) + 0

What a default leaves is put away: a sum's 0, a product's 1, a dropout of nothing. Numbers that divide go behind those
that multiply. A part with parameters, of a recurrence, or with indices of its own keeps its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any

from ...compiler.names import parts as syntax_parts
from ...grammar import syntax as s
from ...grammar.diagnostics import error

MOST = 200  # how deep parts may lean on each other
LONGEST = 3000  # nodes of a formula that somebody could still read


def inlined(definition: s.Definition) -> s.Definition:
    """The definition without the parts that could be written in place; those that nobody mentions any more go."""
    values = meanings(definition)
    made = put(definition, values)
    kept = tuple(one for one in made.body.where if not isinstance(one, s.Assign) or one.name.name not in values)
    params = definition.params and tuple(one for one in definition.params if one.name not in values)
    return replace(made, params=params, body=replace(made.body, where=kept))


def put(definition: s.Definition, values: Mapping[str, s.Expr]) -> s.Definition:
    """The definition with some names replaced by what they stand for: parts, parameters or entries of config."""
    outputs = tuple(replace(one, value=whole(one.value, values)) for one in definition.outputs)
    where = tuple(_put(one, values) for one in definition.body.where)
    return replace(definition, outputs=outputs, body=replace(definition.body, where=where))


def _put(one: s.Statement, values: Mapping[str, s.Expr]) -> s.Statement:
    if isinstance(one, s.Loop):
        return replace(one, body=tuple(_put(inner, values) for inner in one.body))
    return replace(one, value=whole(one.value, values))


def meanings(definition: s.Definition) -> dict[str, s.Expr]:
    """What the names of a definition stand for: its parts without brackets, and parameters by default."""
    parts = {
        one.name.name: one.value
        for one in definition.body.where
        if isinstance(one, s.Assign) and not one.brackets and one.params is None
    }
    defaults = {one.name: one.default for one in definition.params or () if one.default is not None}
    return {name: one for name, one in (parts | defaults).items() if not _is_none(one)}


def _is_none(value: s.Expr) -> bool:
    return isinstance(value, s.Name) and value.name == "none"


def whole(expr: s.Expr, values: Mapping[str, s.Expr]) -> s.Expr:
    """The expression with all names replaced that have a value, as deep as they lean on each other."""

    def changed(one: Any) -> Any:
        return values.get(one.name, one) if isinstance(one, s.Name) else tidied(one)

    for _ in range(MOST):
        made: s.Expr = _everywhere(expr, changed)
        if made is expr:
            return expr
        if sum(1 for _ in islice(syntax_parts(made), LONGEST)) == LONGEST:
            break
        expr = made
    raise error(
        "C652",
        "this formula is too long for one line",
        expr.span,
        help="Write it with its parts: without --inline.",
    )


def _everywhere(root: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with `change` applied to each expression, inner ones first; what stays is the same object."""
    if isinstance(root, tuple):
        made = tuple(_everywhere(one, change) for one in root)
        return made if any(a is not b for a, b in zip(made, root, strict=True)) else root
    if not is_dataclass(root) or not isinstance(root, s.Node):
        return root
    inner: dict[str, Any] = {}
    for field in fields(root):
        if field.name in _names(root):
            continue
        old = getattr(root, field.name)
        new = _everywhere(old, change)
        if new is not old:
            inner[field.name] = new
    return change(replace(root, **inner) if inner else root)


def _names(node: s.Node) -> tuple[str, ...]:
    """The fields of a node that hold no expression: places, and the names of axes."""
    match node:
        case s.EqualItem() | s.RestrictItem():
            return "span", "axis", "as_index", "new"
        case s.RenameItem():
            return "span", "old", "new"
        case s.PlainItem(value=s.Name()):
            return "span", "value"
        case s.Contract():
            return "span", "sign", "axes"
        case _:
            return ("span",)


def tidied(expr: Any) -> Any:
    """The expression without what adds or multiplies nothing."""
    match expr:
        case s.Sum(terms=terms) if any(_is(one, 0) for _, one in terms):
            left = tuple(pair for pair in terms if not _is(pair[1], 0))
            if not left:
                return terms[0][1]
            return left[0][1] if len(left) == 1 and left[0][0] == "+" else replace(expr, terms=left)
        case s.Product(factors=factors):
            return _product(expr, factors)
        case s.Call(function=s.Name(name="dropout"), args=(value, rate)) if _is(rate.value, 0):
            return value.value
    return expr


def _is(expr: s.Expr, value: int) -> bool:
    return isinstance(expr, s.Number) and expr.value == value


def _product(expr: s.Product, factors: tuple[tuple[str, s.Expr], ...]) -> s.Expr:
    """a / b * c as a * c / b, where a is a fraction of numbers that a default brought; without ones."""
    first = factors[0][1]
    flat = (*first.factors, *factors[1:]) if isinstance(first, s.Product) else factors
    if flat is not factors and _is(flat[0][1], 1) and all(op in "*/" for op, _ in flat):
        ordered = (*(one for one in flat if one[0] == "*"), *(one for one in flat if one[0] == "/"))
        expr = replace(expr, factors=ordered)
        factors = ordered
    more = any(op == "*" for op, _ in factors[1:])  # another factor can be the first one
    kept = tuple(one for number, one in enumerate(factors) if not _is(one[1], 1) or (number == 0 and not more))
    if len(kept) == len(factors):
        return expr
    return kept[0][1] if len(kept) == 1 and kept[0][0] == "*" else replace(expr, factors=kept)
