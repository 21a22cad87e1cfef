"""fold_scales: the number that attention multiplies its scores with goes into the weights that make the query.

scale * ((x @ W + b) @[dk] K) = (x @ (scale * W) + scale * b) @[dk] K: the weights are scaled once, when they are
loaded. Precondition: the query is a product with weights (plus a bias of weights) that nobody else reads.
"""

from __future__ import annotations

from fractions import Fraction

from .. import ir, kernels
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map
from ..rules.rule import Context
from .parameters import has_weight, is_parameter
from .substitute import substitute

LAW = "scale * (x @ W + b) = x @ (scale * W) + scale * b"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with attention scales inside weights where that is possible."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] != "attention" or one["scale"] == 1:
            continue
        at = kernels.parts(one)
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        reason = _against(at["query"], context)
        if reason:
            ledger.refused("fold_scales", "scale_into_weights", LAW, reason, span)
            continue
        query = _scaled(at["query"], one["scale"])
        ledger.fired("fold_scales", "scale_into_weights", LAW, span)
        attrs = {**one.attrs, "scale": Fraction(1)}
        new[one] = ir.node("kernel", one.args, one.axes, one.kind, **attrs)
        new[at["query"]] = query
    return substitute(graph, new) if new else graph


def _against(query: Node, context: Context) -> str:
    product, _ = _parts(query)
    if product is None:
        return "the query is not a product with weights"
    if context.readers(query) > 1 or (product is not query and context.readers(product) > 1):
        return "somebody else reads the query, which would be scaled for them, too"
    return ""


def _parts(query: Node) -> tuple[Node | None, Node | None]:
    """The product and the bias of x @ W (+ b)."""
    if is_map(query, "+"):
        for product, bias in (query.args, query.args[::-1]):
            if is_product(product) and is_parameter(bias):
                return product, bias
    return (query, None) if is_product(query) else (None, None)


def is_product(one: Node) -> bool:
    """Whether the node is a contraction of a value with weights."""
    return (
        one.op == "contract" and is_parameter(one.args[1]) and has_weight(one.args[1]) and not is_parameter(one.args[0])
    )


def _scaled(query: Node, scale: Fraction | float) -> Node:
    product, bias = _parts(query)
    assert product is not None
    factor = kernels.number(scale)
    made = ir.contract(product.args[0], ir.apply("*", product.args[1], factor), product["over"])
    return made if bias is None else ir.apply("+", made, ir.apply("*", bias, factor))
