"""One query of an example needs no projected keys and values: its projections go to the other side of the products.

    q · (x @ W_K) = (W_K @ q) · x        A @ (x @ W_V) = (A @ x) @ W_V

For every token the left sides cost d · head · dk operations, the right sides head · d. It is the last block of a model
that reads one token (push_picks). Preconditions: the query has one row for each example; keys and values are products
of weights alone (their biases are gone: deadness) that nobody else reads; no bias differs from head to head.
"""

from __future__ import annotations

from .. import ir, kernels
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.rule import Context
from .fold_scales import is_product
from .substitute import substitute

LAW = "q · (x @ W) = (W @ q) · x, A @ (x @ W) = (A @ x) @ W for the one query of an example"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph in which attention of one query reads the tokens themselves."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] != "attention" or not _asks_once(one, graph):
            continue
        at = kernels.parts(one)
        key, value = (_projected(at[role], one["axis"], context) for role in ("key", "value"))
        reason = _against(one, at, key, value)
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        if reason or not isinstance(key, tuple) or not isinstance(value, tuple):
            ledger.refused("reassociate", "one_query", LAW, reason, span)
            continue
        ledger.fired("reassociate", "one_query", LAW, span)
        new[one] = _turned(one, at, key, value)
    return substitute(graph, new) if new else graph


def _asks_once(one: Node, graph: Graph) -> bool:
    """Whether each example has one query (and more keys than that)."""
    at = kernels.parts(one)
    if "query" not in at or "key" not in at:
        return False
    rows = [axis for axis in at["query"].axes if axis.ragged and axis != graph.batch]
    return graph.batch in at["query"].axes and not rows and one["axis"].ragged


Projection = tuple[Node, Node, Axis]
"""x with the axis of keys, W and the axis that they are multiplied over."""


def _projected(one: Node, axis: Axis, context: Context) -> Projection | str:
    """x, W and d of (x @ W), under renames, or why it is none."""
    inner, pairs = one, {}
    if one.op == "rename" and context.readers(one) == 1:
        inner, pairs = one.args[0], dict(one["pairs"])
        if any(new not in (axis, axis.owner) for new in pairs.values()):
            return "its projection is renamed"
    if not is_product(inner) or len(inner["over"]) != 1:
        return "keys or values are not products with weights alone"
    if context.readers(inner) > 1:
        return "keys or values are read elsewhere, too"
    x, weights = inner.args
    return ir.rename(x, {old: new for old, new in pairs.items() if old in x.axes}), weights, inner["over"][0]


def _against(one: Node, at: dict[str, Node], key: Projection | str, value: Projection | str) -> str:
    if isinstance(key, str) or isinstance(value, str):
        return key if isinstance(key, str) else str(value)
    (x, W, d), (y, V, e) = key, value
    heads = {axis for axis in W.axes if axis not in (d, one["width"])}
    asked = set(at["query"].axes)
    if d != e or x is not y or len(heads) > 1 or not heads <= set(V.axes) or not heads <= asked or d in asked:
        return "keys and values are not products of one value with the same heads"
    if any(heads & set(at[role].axes) for role in ("bias", "see", "first", "stop") if role in at):
        return "its bias or mask differs from head to head"
    if not isinstance(d.size, int) or not isinstance(one["width"].size, int) or one["width"].size < 2:
        return "a head is so narrow that nothing is saved"
    return ""


def _turned(one: Node, at: dict[str, Node], key: Projection, value: Projection) -> Node:
    (x, W, d), (_, V, _) = key, value
    roles = {**at, "query": ir.contract(at["query"], W, (one["width"],)), "key": x, "value": x}
    heads = [axis for axis in W.axes if axis not in (d, one["width"])]
    own = [axis for axis in V.axes if axis not in (d, *heads)]
    axes = (*(axis for axis in one.axes if axis not in own), d)
    attrs = {name: given for name, given in one.attrs.items() if name not in ("name", "roles")}
    return ir.contract(kernels.make("attention", roles, axes, **{**attrs, "width": d}), V, (d,))
