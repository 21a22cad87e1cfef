"""A mean of products with weights is the product of the mean: one row instead of all.

    mean[seq](x @ W + b) = mean[seq](x) @ W + b        sum[seq](c * (x @ W)) = c * (sum[seq](x) @ W)

The bias counts where something is averaged at all (a mean over nothing is 0). Preconditions: nobody else reads the
product, and neither W nor b has the axes that are summed over.
"""

from __future__ import annotations

from .. import ir
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map, number
from ..rules.rule import Context
from .fold_scales import is_product
from .parameters import is_parameter
from .substitute import substitute

LAW = "mean(x @ W + b) = mean(x) @ W + b"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with sums over rows taken before products with weights."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "reduce" or one["reduction"] not in ("sum", "mean"):
            continue
        reason = _against(one, one.args[0], context)
        if reason is None:
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        if reason:
            ledger.refused("push_picks", "mean", LAW, reason, span)
            continue
        new[one] = _outside(one, one.args[0])
        ledger.fired("push_picks", "mean", LAW, span)
    return substitute(graph, new) if new else graph


def _against(one: Node, inner: Node, context: Context) -> str | None:
    """'' if there is a product to take outside, why not, or None where there is none."""
    over = set(one["over"])
    owners = {axis.owner for axis in over}
    found: str | None = None
    while True:
        if is_product(inner) and over <= set(inner.args[0].axes):
            if over & set(inner["over"]) or over & set(inner.args[1].axes) or owners & set(inner["over"]):
                return "the weights have the axis that is summed over"
            return "the product is read elsewhere, too" if context.readers(inner) > 1 else ""
        rest = _factor(inner, over) or _term(inner, over)
        if rest is None:
            return found
        if context.readers(inner) > 1:
            found = "the product is read elsewhere, too" if _leads(rest, over) else None
            return found
        inner = rest


def _leads(inner: Node, over: set[Axis]) -> bool:
    while not is_product(inner):
        rest = _factor(inner, over) or _term(inner, over)
        if rest is None:
            return False
        inner = rest
    return True


def _factor(one: Node, over: set[Axis]) -> Node | None:
    """The other side of a multiplication by (or division by) a number or parameter without the axes."""
    if is_map(one, "*", "/"):
        left, right = one.args
        if _constant(right, over) and set(left.axes) == set(one.axes):
            return left
        if one["fn"] == "*" and _constant(left, over) and set(right.axes) == set(one.axes):
            return right
    return None


def _term(one: Node, over: set[Axis]) -> Node | None:
    """The other side of a sum with a parameter without the axes."""
    if is_map(one, "+", "-"):
        left, right = one.args
        if _constant(right, over) and set(left.axes) == set(one.axes):
            return left
        if one["fn"] == "+" and _constant(left, over) and set(right.axes) == set(one.axes):
            return right
    return None


def _constant(one: Node, over: set[Axis]) -> bool:
    return (is_parameter(one) or number(one) is not None) and not over & set(one.axes)


def _outside(one: Node, inner: Node) -> Node:
    """The reduction of the value inside, and outside what was done to it."""
    over, condition = one["over"], one.args[1] if len(one.args) > 1 else None
    if is_product(inner):
        x = ir.reduce(one["reduction"], inner.args[0], over, condition)
        return ir.contract(x, inner.args[1], inner["over"])
    rest = _factor(inner, set(over))
    if rest is not None:
        made = _outside(one, rest)
        args = tuple(made if arg is rest else arg for arg in inner.args)
        return ir.apply(inner["fn"], *args)
    rest = _term(inner, set(over))
    assert rest is not None
    bias = inner.args[1] if inner.args[0] is rest else inner.args[0]
    made, more = _outside(one, rest), _reduced(one["reduction"], bias, over, condition)
    return ir.apply(inner["fn"], *((made, more) if inner.args[0] is rest else (more, made)))


def _reduced(kind: str, bias: Node, over: tuple[Axis, ...], condition: Node | None) -> Node:
    """The sum or mean of what is the same everywhere: a multiple, or itself where there is something to average."""
    if kind == "mean" and condition is None:  # an example without a token has no results
        return bias
    count = ir.reduce("count", ir.widen_to(ir.const(True), over) if condition is None else condition, over)
    if kind == "sum":
        return ir.apply("*", bias, count)
    return ir.where(ir.apply(">", count, ir.const(0)), bias, ir.const(0))
