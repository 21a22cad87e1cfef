"""fuse: what is added just before a norm or an activation is added inside it, while the rows are in the cache.

layer_norm(y + b + r) with y a fresh product takes b as its bias and r as its residual; gelu(y + b) takes b as its bias.
Precondition: nobody else reads the sum, and the bias is a parameter along the norm's axis (the last of the product).
"""

from __future__ import annotations

from .. import ir, kernels
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map
from ..rules.rule import Context
from .parameters import is_parameter
from .substitute import substitute

NORMS = ("layer_norm", "rms_norm")


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with sums moved into the kernels that read them."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] not in (*NORMS, *kernels.POINTWISE):
            continue
        at = kernels.parts(one)
        if set(at) & {"bias", "residual"} or not is_map(at["x"], "+"):
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        taken, reason = _take(one, at["x"], context)
        if taken is None:
            ledger.refused("fuse", one["name"], f"{one['name']}(y + …) adds inside", reason, span)
            continue
        new[one] = _fused(one, at, taken)
        ledger.fired(
            "fuse", one["name"], f"{one['name']} adds {' and '.join(r for r in taken if r != 'x')} itself", span
        )
    return substitute(graph, new) if new else graph


def _fused(one: Node, at: dict[str, Node], taken: dict[str, Node]) -> Node:
    roles = {**at, **taken}
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    return kernels.make(one["name"], roles, one.axes, **attrs)


def _take(one: Node, total: Node, context: Context) -> tuple[dict[str, Node] | None, str]:
    """x, bias and residual of the sum, or why it stays outside."""
    if context.readers(total) > 1:
        return None, "the sum is read elsewhere, too"
    terms = _terms(total, context)
    biases = [term for term in terms if is_parameter(term) and _fits(one, term)]
    values = [term for term in terms if term not in biases]
    if any(is_parameter(term) for term in values):
        return None, "a parameter does not lie along the axis of the kernel"
    if len(biases) > 1 or not values or any(set(term.axes) != set(total.axes) for term in values):
        return None, "the sum has other parts than one bias and one residual"
    if one["name"] in kernels.POINTWISE:
        return (
            ({"x": values[0], "bias": biases[0]}, "")
            if len(values) == 1 and biases
            else (None, "there is no bias alone")
        )
    taken = {"bias": biases[0]} if biases else {}
    values.sort(key=lambda term: (term.op != "contract", context.readers(term) > 1))
    if len(values) == 1:
        return {**taken, "x": values[0]}, ""
    rest = values[0]
    for term in values[1:-1]:
        rest = ir.apply("+", rest, term)
    return {**taken, "x": rest, "residual": values[-1]}, ""


def _terms(total: Node, context: Context) -> list[Node]:
    found: list[Node] = []
    stack = [total]
    while stack:
        here = stack.pop()
        if (
            is_map(here, "+")
            and (here is total or context.readers(here) == 1)
            and not is_parameter(here)  # a sum of weights is one bias
            and len(found) + len(stack) < 6
        ):
            stack.extend(reversed(here.args))
        else:
            found.append(here)
    return found


def _fits(one: Node, term: Node) -> bool:
    if one["name"] in NORMS:
        return term.axes == (one["axis"],)
    return len(term.axes) > 0
