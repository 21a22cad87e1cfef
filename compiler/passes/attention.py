"""Attention: a contraction of a softmax with values, whose scores are linear in one product of query and key.

The scale is whatever number the scores carry, wherever it was written (on the query, on the key, on the scores, as a
product or a division); what is added to the product is the bias, scaled as written. Rate and draw of a dropout of the
weights go along. Precondition: nobody else reads the weights, else they would be computed (or drawn) twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .. import ir, kernels
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map, number, settle
from ..rules.rule import Context
from .substitute import substitute

Scale = Fraction | float
LAW = "softmax(scores) @ V is one attention"


@dataclass(frozen=True)
class Scores:
    """scale * (query @[width] key) + the sum of the biases."""

    scale: Scale
    product: Node | None
    bias: tuple[tuple[Scale, Node], ...]


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with attention as kernel nodes."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        weights = _softmax_weights(one)
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        if weights is None:
            if _changed_weights(one):
                ledger.refused(
                    "recognise", "attention", LAW, "the softmax is changed before it weighs the values", span
                )
            continue
        reason, made = _attention(one, weights, context)
        if made is None:
            ledger.refused("recognise", "attention", LAW, reason, span)
            continue
        new[one] = made
        ledger.fired("recognise", "attention", LAW, span)
    return substitute(graph, new) if new else graph


def _softmax_weights(one: Node) -> Node | None:
    if one.op != "contract" or len(one["over"]) != 1:
        return None
    for arg in one.args:
        share = arg.args[0] if _is_dropout(arg) else arg
        if share.op == "kernel" and share["name"] == "softmax" and share["axis"] == one["over"][0]:
            return arg
    return None


def _is_dropout(one: Node) -> bool:
    return one.op == "random" and one["draw"] == "dropout"


def _narrow(one: Node) -> Node:
    """The value without axes along which it is the same."""
    while one.op == "widen":
        one = one.args[0]
    return one


def _changed_weights(one: Node) -> bool:
    """Whether a product over the axis of a softmax takes something made of the softmax."""
    if one.op != "contract" or len(one["over"]) != 1:
        return False
    inner = ir.walk([arg for arg in one.args if _changes(arg)], enter=_changes)
    return any(n.op == "kernel" and n["name"] == "softmax" and n["axis"] == one["over"][0] for n in inner)


def _changes(one: Node) -> bool:
    return one.op == "map" or _is_dropout(one)


def _attention(one: Node, weights: Node, context: Context) -> tuple[str, Node | None]:
    value = one.args[1] if one.args[0] is weights else one.args[0]
    draw = weights if _is_dropout(weights) else None
    share = weights if draw is None else draw.args[0]
    axis = share["axis"]
    if context.readers(weights) > 1 or context.readers(share) > 1:
        return "the attention weights are read elsewhere, too", None
    at = kernels.parts(share)
    scores = linear(at["x"], axis)
    if scores.product is None:
        return "the scores are not one product of query and key (plus a bias)", None
    sides = _sides(scores.product, axis, value)
    if sides is None:
        return "query and key are not told apart by the key axis", None
    query, key, width, more = sides
    bias = None
    see = at.get("see")
    for factor, given in scores.bias:
        term = given if see is None else settle(given, see, True, 6)  # what is added to hidden scores does not matter
        if number(_narrow(term)) == 0:
            continue
        scaled = term if factor == 1 else ir.apply("*", kernels.number(factor), term)
        bias = scaled if bias is None else ir.apply("+", bias, scaled)
    roles = {"query": query, "key": key, "value": value, "see": see, "bias": bias}
    wide = ir.union(part for part in roles.values() if part is not None)
    site: dict[str, Any] = {}
    if draw is not None:
        own = ir.union(part for role, part in roles.items() if part is not None and role != "value")
        if set(draw.axes) != {a for a in own if a != width}:
            return "weights are dropped along axes that query, key and bias do not have", None
        roles["drop"] = draw.args[1]
        site = {name: draw[name] for name in kernels.SITE if draw.get(name) is not None}
        site["drawn"] = draw.axes
    axes = tuple(a for a in wide if a in one.axes)
    made = kernels.make(
        "attention",
        roles,
        axes if len(axes) == len(one.axes) else one.axes,
        axis=axis,
        width=width,
        scale=scores.scale * more,
        **site,
    )
    return "", made


def linear(one: Node, axis: Axis, factor: Scale = Fraction(1)) -> Scores:
    """The scores as a number times a product, plus biases."""
    if one.op == "contract" and axis in one.axes and len(one["over"]) == 1:
        return Scores(factor, one, ())
    if is_map(one, "*", "/"):
        left, right = one.args
        known = number(right)
        if known is not None and (known != 0 or one["fn"] == "*"):
            return linear(left, axis, _times(factor, known, one["fn"]))
        known = number(left)
        if known is not None and one["fn"] == "*":
            return linear(right, axis, _times(factor, known, "*"))
    if is_map(one, "neg"):
        return linear(one.args[0], axis, -factor)
    if is_map(one, "+", "-"):
        first = linear(one.args[0], axis, factor)
        second = linear(one.args[1], axis, factor if one["fn"] == "+" else -factor)
        if first.product is second.product is not None:
            return Scores(first.scale + second.scale, first.product, (*first.bias, *second.bias))
        if first.product is None or second.product is None:
            main = first if first.product is not None else second
            return Scores(main.scale if main.product is not None else factor, main.product, (*first.bias, *second.bias))
        return Scores(factor, None, ((factor, one),))
    return Scores(factor, None, ((factor, one),))


def _times(factor: Scale, other: Scale, fn: str) -> Scale:
    if fn == "*":
        return factor * other
    if isinstance(factor, Fraction) and isinstance(other, Fraction):
        return factor / other
    return float(factor) / float(other)


def _sides(product: Node, axis: Axis, value: Node) -> tuple[Node, Node, Axis, Scale] | None:
    first, second = product.args
    query, key = (second, first) if axis in first.axes else (first, second)
    if axis in query.axes or axis not in key.axes:
        return None
    query, left = _scaled(query)
    key, right = _scaled(key)
    return query, key, product["over"][0], left * right


def _scaled(one: Node) -> tuple[Node, Scale]:
    """A side without a number that multiplies it."""
    if is_map(one, "*", "/"):
        left, right = one.args
        known = number(right)
        if known is not None and known != 0 and set(left.axes) == set(one.axes):
            return left, _times(Fraction(1), known, one["fn"])
        known = number(left)
        if known is not None and one["fn"] == "*":
            return right, known
    if one.op == "rename" and is_map(one.args[0], "*", "/"):
        inner, factor = _scaled(one.args[0])
        return ir.rename(inner, dict(one["pairs"])), factor
    return one, Fraction(1)
