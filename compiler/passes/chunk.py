"""chunk: the logits of a long axis are never all there where a loss alone reads them.

    cross_entropy[vocab](h @ E + b, label) = one kernel, which makes the logits of some rows at a time

Forward and backward of a masked-LM loss then take the memory of a piece, whatever the batch. Preconditions: the graph
selects (an objective that is a module of its own); nobody else reads the logits; they are a product with a parameter
along an axis that is longer than what is summed over, so that they are the larger value.
"""

from __future__ import annotations

from .. import kernels
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.rule import Context
from .parameters import is_parameter
from .substitute import substitute

LAW = "cross-entropy of products makes the logits of some rows at a time"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with cross-entropies of products as one kernel each."""
    if not graph.selects:
        return graph
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] != "cross_entropy":
            continue
        made, reason = _of_product(one, context)
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        if made is None:
            ledger.refused("chunk", "chunk", LAW, reason, span)
            continue
        new[one] = made
        ledger.fired("chunk", "chunk", LAW, span)
    return substitute(graph, new) if new else graph


def _of_product(one: Node, context: Context) -> tuple[Node | None, str]:
    """The kernel of the product that the logits are, or why there is none."""
    at, axis = kernels.parts(one), one["axis"]
    logits, bias = at["x"], None
    if context.readers(logits) > 1:
        return None, "the logits are read elsewhere, too"
    product = logits
    if logits.op == "map" and logits["fn"] == "+":
        product, bias = logits.args if logits.args[0].op == "contract" else logits.args[::-1]
        if not is_parameter(bias) or bias.axes != (axis,) or context.readers(product) > 1:
            return None, "the logits are no product with a parameter, and a bias"
    sides = _sides(product, axis)
    if sides is None:
        return None, "the logits are no product with a parameter"
    x, table, width = sides
    if not isinstance(axis.size, int) or not isinstance(width.size, int) or axis.size <= width.size:
        return None, "the logits are no larger than what they are made of"
    roles = {"x": x, "table": table, "bias": bias, "label": at["label"]}
    kept = {name: one[name] for name in ("axis", "smoothing", "outside")}
    return kernels.make("product_cross_entropy", roles, one.axes, width=width, **kept), ""


def _sides(product: Node, axis: Axis) -> tuple[Node, Node, Axis] | None:
    """(value, parameter, the axis summed over) of a product along `axis`."""
    if product.op != "contract" or len(product["over"]) != 1:
        return None
    (width,) = product["over"]
    for table, x in (product.args, product.args[::-1]):
        if is_parameter(table) and set(table.axes) == {axis, width} and axis not in x.axes and width in x.axes:
            return x, table, width
    return None
