"""Attention: a contraction of a softmax with values.

Scores that are linear in one product of query and key (scores.py) give the scale, the query, the key and the bias; any
others (a score function that is no product) are taken as they are. Rate and draw of a dropout of the weights go along.
Precondition: nobody else reads the weights, else they would be computed (or drawn) twice.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .. import ir, kernels
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map, number, settle
from ..rules.rule import Context
from . import scores
from .substitute import substitute

LAW = "softmax(scores) @ V is one attention"


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


def _factors(one: Node) -> tuple[Node, ...]:
    """The two sides of a sum of products along one axis; Σ (α ⊙ V) is one where each share weighs a whole row of V."""
    if one.op == "contract" and len(one["over"]) == 1:
        return one.args
    if one.op != "reduce" or one["reduction"] != "sum" or len(one["over"]) > 1 or len(one.args) > 1:
        return ()
    (total,) = one.args
    if not is_map(total, "*") or set(total.args[0].axes) == set(total.args[1].axes):
        return ()
    return total.args if all(one["over"][0] in arg.axes for arg in total.args) else ()


def _softmax_weights(one: Node) -> Node | None:
    for arg in _factors(one):
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
    inner = ir.walk([arg for arg in _factors(one) if _changes(arg)], enter=_changes)
    return any(n.op == "kernel" and n["name"] == "softmax" and n["axis"] == one["over"][0] for n in inner)


def _changes(one: Node) -> bool:
    return one.op == "map" or _is_dropout(one)


def _attention(one: Node, weights: Node, context: Context) -> tuple[str, Node | None]:
    value = next((arg for arg in _factors(one) if arg is not weights), weights)
    draw = weights if _is_dropout(weights) else None
    share = weights if draw is None else draw.args[0]
    axis = share["axis"]
    if context.readers(weights) > 1 or context.readers(share) > 1:
        return "the attention weights are read elsewhere, too", None
    at = kernels.parts(share)
    found = scores.read(at["x"], axis)
    roles: dict[str, Node | None] = {"scores": at["x"], "value": value, "see": at.get("see")}
    attrs: dict[str, Any] = {"axis": axis, "scale": Fraction(1)}
    if found is not None:
        query = found.factor.by_values(found.query)
        bias = _bias(found, at.get("see"))
        roles = {"query": query, "key": found.key, "value": value, "see": at.get("see"), "bias": bias}
        attrs |= {"width": found.width, "scale": found.factor.number}
    if draw is not None and draw.get("counted"):
        return "the draw of the weights is told the numbers of its steps", None
    if draw is not None:
        own = ir.union(part for role, part in roles.items() if part is not None and role != "value")
        if set(draw.axes) != {a for a in own if a != attrs.get("width")}:
            return "weights are dropped along axes that query, key and bias do not have", None
        roles["drop"] = draw.args[1]
        attrs |= {name: draw[name] for name in kernels.SITE if draw.get(name) is not None}
        attrs["drawn"] = draw.axes
    wide = ir.union(part for part in roles.values() if part is not None)
    axes = tuple(a for a in wide if a in one.axes)
    return "", kernels.make("attention", roles, axes if len(axes) == len(one.axes) else one.axes, **attrs)


def _bias(found: scores.Scores, see: Node | None) -> Node | None:
    """The sum of what is added to the product of visible scores, each term with its factor."""
    bias = None
    for one in found.rest:
        term = one.node if see is None else settle(one.node, see, True, 6)  # what hidden scores are does not matter
        if number(_narrow(term)) == 0:
            continue
        scaled = one.factor.on(term)
        bias = scaled if bias is None else ir.apply("+", bias, scaled)
    return bias
