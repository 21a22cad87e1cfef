"""Keys that are repeated for the heads of a group are read once.

attention(Q, K[kv = h // g]) = attention(Q[h → kv g], K): repeating each key head g times (repeat_interleave) and giving
the heads an axis of groups are one meaning; in the second form no key stands in memory twice. Precondition: key and
value are repeated alike, along the heads of the query.
"""

from __future__ import annotations

from fractions import Fraction

from .. import ir
from ..ir import Axis, Graph, Node
from ..kernels import is_draw, make, parts
from ..ledger import Ledger
from ..rules.algebra import is_map, number
from .substitute import substitute

LAW = "attention(Q, K[kv = h // g], V[kv = h // g]) = attention(Q[h → kv g], K, V)"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with grouped queries instead of repeated keys and values."""
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] != "attention" or "key" not in one["roles"]:
            continue
        at = parts(one)
        found = _repeated(at["key"])
        if found is None:
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        reason = _against(one, at, found)
        if reason:
            ledger.refused("recognise", "grouped", LAW, reason, span)
            continue
        ledger.fired("recognise", "grouped", LAW, span)
        new[one] = _grouped(one, at, found)
    return substitute(graph, new) if new else graph


def _repeated(one: Node) -> tuple[Node, Axis, Axis] | None:
    """K[kv = index(h) // g] → (K, kv, h), if that is each entry g times, one after the other."""
    if one.op == "rename":
        inner, pairs = _repeated(one.args[0]), dict(one["pairs"])
        if inner is None or set(inner[1:]) & {*pairs, *pairs.values()}:
            return None
        return ir.rename(inner[0], {a: b for a, b in pairs.items() if a in inner[0].axes}), *inner[1:]
    if one.op != "pick" or len(one["keys"]) != 1 or not is_map(one.args[1], "//"):
        return None
    (axis,), (place, count) = one["keys"], one.args[1].args
    if place.op != "index" or not isinstance(axis.size, int) or not isinstance(place["axis"].size, int):
        return None
    heads = place["axis"]
    return (one.args[0], axis, heads) if number(count) == Fraction(heads.size, axis.size) else None


def _against(one: Node, at: dict[str, Node], found: tuple[Node, Axis, Axis]) -> str:
    base, axis, heads = found
    value = _repeated(at["value"])
    if value is None or value[1:] != (axis, heads):
        return "the values are not repeated like the keys"
    if is_draw(one):
        return "weights are dropped by heads as they are written"
    if heads not in at["query"].axes or axis in at["query"].axes or heads in base.axes or heads in value[0].axes:
        return "the query does not have the heads that the keys are repeated for"
    return ""


def _grouped(one: Node, at: dict[str, Node], found: tuple[Node, Axis, Axis]) -> Node:
    base, axis, heads = found
    assert isinstance(axis.size, int)
    assert isinstance(heads.size, int)
    group = Axis("group", heads.size // axis.size, None, 1 + max(a.tag for a in one.axes))
    roles = {role: ir.split(part, heads, (axis, group)) if heads in part.axes else part for role, part in at.items()}
    value = _repeated(at["value"])
    assert value is not None
    roles |= {"key": base, "value": value[0]}
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    axes = [new for old in one.axes for new in ((axis, group) if old == heads else (old,))]
    return ir.merge(make("attention", roles, axes, **attrs), (axis, group), heads)
