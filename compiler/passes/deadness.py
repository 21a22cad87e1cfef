"""deadness: what cannot change a result is not computed.

    softmax[j](q · (k + b)) = softmax[j](q · k)           b has no axis j: a query adds one number to all its scores
    A @[j] (v + b) = A @[j] v + b                         Σ[j] A = 1: the bias of values goes into the next bias
    (h + b) @ W + c = h @ W + (b @ W + c)                 for parameters b, c and W: computed once, at loading
    argmax[j](softmax[j](x)) = argmax[j](x)               and of what else grows with x
    x / ‖x‖ of x = mean(y) is y' / ‖y'‖ of y' = sum(y)    a factor that no result feels (homogeneous.py)

Preconditions: of the first, the keys are read by this attention alone; of the second, no dropout of the weights and no
query without a key; of the third, nobody else reads the sum. Weights themselves stay as they are, tied ones too.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import ir, kernels, masks
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map
from ..rules.rule import Context
from . import homogeneous
from .parameters import has_weight, is_parameter
from .substitute import substitute

GROWING = ("exp", "tanh", "erf")
Step = Callable[[Graph, Ledger], Graph]


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph without what no result feels."""
    for step in (_decided, _divisors, _key_biases, _value_biases, _moved_biases):
        graph = step(graph, ledger)
    return graph


def _tell(ledger: Ledger, graph: Graph, one: Node, rule: str, law: str, reason: str = "") -> None:
    origin = graph.origins.get(one)
    span = origin.span if origin else None
    if reason:
        ledger.refused("deadness", rule, law, reason, span)
    else:
        ledger.fired("deadness", rule, law, span)


# ------------------------------------------------------------------------------------------------------ argmax


def _decided(graph: Graph, ledger: Ledger) -> Graph:
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if one.op != "reduce" or one["reduction"] != "argmax" or len(one["over"]) != 1:
            continue
        x = _grown(one.args[0], one)
        if x is not one.args[0]:
            new[one] = ir.reduce("argmax", x, one["over"], *one.args[1:])
            _tell(ledger, graph, one, "argmax", "argmax[j](softmax[j](x)) = argmax[j](x)")
    return substitute(graph, new) if new else graph


def _grown(x: Node, one: Node) -> Node:
    """What has its largest entry where x has it."""
    (axis,) = one["over"]
    while True:
        known = x.op == "kernel" and x["name"] in ("softmax", "log_softmax", "sigmoid")
        if is_map(x, *GROWING) or (known and x["roles"] == ("x",) and x.get("axis", axis) == axis):
            x = x.args[0]
        elif is_map(x, "+") and any(axis not in arg.axes for arg in x.args):
            x = x.args[0] if axis in x.args[0].axes else x.args[1]
        else:
            return x


# ---------------------------------------------------------------------------------------------------- divisors


def _divisors(graph: Graph, ledger: Ledger) -> Graph:
    new: dict[Node, Node] = {}
    law = "x / ‖x‖ does not feel a positive factor of x"
    for one in ir.walk(graph.roots):
        found = homogeneous.divisor(one)
        if found is None or one in graph.roots:
            continue
        reason = homogeneous.felt(graph, one, found[1])
        if not reason:
            new[one] = found[0]
        if not reason or "ε" in reason:
            _tell(ledger, graph, one, "divisor", law, reason)
    return substitute(graph, new) if new else graph


# --------------------------------------------------------------------------------------------- biases of K and V


def _key_biases(graph: Graph, ledger: Ledger) -> Graph:
    law = "softmax(q · (k + b)) = softmax(q · k)"
    return _without_bias(graph, ledger, "key", law, lambda graph, one: "", lambda made, bias: made)


def _value_biases(graph: Graph, ledger: Ledger) -> Graph:
    law = "A @ (v + b) = A @ v + b"
    return _without_bias(graph, ledger, "value", law, _sums_to_one, lambda made, bias: ir.apply("+", made, bias))


def _without_bias(
    graph: Graph,
    ledger: Ledger,
    role: str,
    law: str,
    against: Callable[[Graph, Node], str],
    after: Callable[[Node, Node], Node],
) -> Graph:
    new: dict[Node, Node] = {}
    context = Context(graph.roots)
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] != "attention" or role not in one["roles"]:
            continue
        at = kernels.parts(one)
        found = _biased(at[role])
        if found is None:
            continue
        plain, bias = found
        reason = f"the {role}s are read elsewhere, too" if _shared(at[role], context) else against(graph, one)
        if one["axis"] in bias.axes:
            reason = f"the bias differs from {role} to {role}"
        _tell(ledger, graph, one, f"{role}_bias", law, reason)
        if not reason:
            attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
            new[one] = after(kernels.make("attention", {**at, role: plain}, one.axes, **attrs), bias)
    return substitute(graph, new) if new else graph


def _shared(one: Node, context: Context) -> bool:
    """Whether others read the sum, under whatever name of its axes."""
    while one.op == "rename" and context.readers(one) == 1:
        one = one.args[0]
    return context.readers(one) > 1


def _biased(one: Node) -> tuple[Node, Node] | None:
    """(x @ W, b) of x @ W + b, under renames."""
    if one.op == "rename":
        found = _biased(one.args[0])
        pairs = dict(one["pairs"])
        if found is None:
            return None
        plain, bias = found
        kept = {old: new for old, new in pairs.items() if old in bias.axes}
        return ir.rename(plain, pairs), ir.rename(bias, kept)
    if not is_map(one, "+"):
        return None
    for plain, bias in (one.args, one.args[::-1]):
        if is_parameter(bias) and has_weight(bias) and plain.op == "contract" and set(plain.axes) == set(one.axes):
            return plain, bias
    return None


def _sums_to_one(graph: Graph, one: Node) -> str:
    """'' if the weights of each query sum to 1."""
    if kernels.is_draw(one):
        return "weights are dropped, so they do not sum to 1"
    see = kernels.relation(kernels.parts(one), one["axis"])
    return masks.never_empty(see, one["axis"], masks.inhabited(graph, one.axes))


def _moved_biases(graph: Graph, ledger: Ledger) -> Graph:
    """(h + b) @ W = h @ W + b @ W where b and W are parameters."""
    new: dict[Node, Node] = {}
    context = Context(graph.roots)
    law = "(h + b) @ W = h @ W + b @ W"
    for one in graph.nodes():
        if one.op != "contract" or not is_map(one.args[0], "+") or not is_parameter(one.args[1]):
            continue
        total, weights = one.args
        for plain, bias in (total.args, total.args[::-1]):
            attended = plain.op == "kernel" and plain["name"] == "attention"
            if not attended or not is_parameter(bias) or not set(one["over"]) <= set(bias.axes):
                continue
            reason = "the sum is read elsewhere, too" if context.readers(total) > 1 else ""
            _tell(ledger, graph, one, "moved_bias", law, reason)
            if not reason:
                new[one] = ir.apply("+", *(ir.contract(part, weights, one["over"]) for part in (plain, bias)))
    return _gathered(substitute(graph, new)) if new else graph


def _gathered(graph: Graph) -> Graph:
    """(y + b) + c = y + (b + c) for parameters b and c, so that a product has one bias."""

    def change(one: Node) -> Node:
        if not is_map(one, "+"):
            return one
        for inner, more in (one.args, one.args[::-1]):
            if is_map(inner, "+") and is_parameter(more) and has_weight(more):
                for plain, bias in (inner.args, inner.args[::-1]):
                    if is_parameter(bias) and not is_parameter(plain) and set(plain.axes) == set(one.axes):
                        return ir.apply("+", plain, ir.apply("+", bias, more))
        return one

    return graph.rewrite(change)
