"""merge_projections: several products of one value with weights of one shape become one product.

Q = x @ W_Q + b_Q, K = x @ W_K + b_K, V = x @ W_V + b_V  →  y = x @ [W_Q; W_K; W_V] + [b_Q; b_K; b_V], Q = y[0], …
The weights are put together once, when they are loaded. Preconditions: the same value and the same axes consumed,
out-axes of one shape, weights that no input changes. Where only some of the products have a bias it is added behind the
product: zeros for the others would be added to every row (measured at 1024 rows: no gain, and up to 3 % lost).

By cost: the operations are the same, the value is read once. Measured on a CPU (benchmarks/passes.py, encoder layers
of 384 and 768, time without : with) that is 1.03 to 1.09 at one row and nothing (0.98 to 1.02, as much as two equal
modules differ) at 32 and 1024, so it is done wherever weights are prepared anyhow. A PyTorch module leaves the pass out
(SKIP of its emit.py): its weights are parameters, and to put them together at each call costs more (0.3 to 1.05) than
one product saves (0.92 to 1.04).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from .. import ir
from ..ir import Axis, Graph, Node, Origin
from ..ledger import Ledger
from ..rules.algebra import is_map
from ..rules.rule import Context
from .fold_scales import is_product
from .parameters import is_parameter, stack_picks
from .substitute import substitute

LAW = "x @ W_1, x @ W_2, … = x @ [W_1; W_2; …]"


@dataclass(frozen=True)
class Projection:
    """A product x @ W, and the sum x @ W + b if that is all that reads it."""

    product: Node
    result: Node
    bias: Node | None


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with parallel products merged."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    named: dict[Node, Origin] = {}
    for group in _groups(graph, context):
        origin = graph.origins.get(group[0].result)
        span = origin.span if origin else None
        reason = _against(group)
        if reason:
            ledger.refused("merge_projections", "merge", LAW, reason, span)
            continue
        ledger.fired("merge_projections", "merge", _told(group), span)
        merged = _merged(group)
        new.update(merged)
        named[next(iter(merged.values())).args[0]] = _together(graph, group)
    return substitute(replace(graph, origins={**graph.origins, **named}), new) if new else graph


def _together(graph: Graph, group: list[Projection]) -> Origin:
    """The origin of a merged product: named after all its parts (QKV)."""
    origins = [graph.origins.get(one.result, Origin()) for one in group]
    names = [origin.name for origin in origins]
    joined = "".join(names) if all(len(name) == 1 for name in names) else "_".join(filter(None, names))
    return replace(origins[0], name=joined)


def _groups(graph: Graph, context: Context) -> Iterable[list[Projection]]:
    stacks = {weight.name: weight.stack for weight in graph.weights}
    found: dict[tuple[Any, ...], list[Projection]] = {}
    nodes = graph.nodes()
    readers: dict[Node, list[Node]] = {}
    for one in nodes:
        for arg in one.args:
            readers.setdefault(arg, []).append(one)
    for one in nodes:
        if is_product(one):
            picks = stack_picks(one.args[1], stacks)
            chosen = one if picks is None else frozenset(picks.items())  # weights of one layer only
            key = (one.args[0], frozenset(one["over"]), chosen)
            found.setdefault(key, []).append(_projection(one, readers.get(one, []), context))
    return [group for group in found.values() if len(group) > 1]


def _projection(product: Node, readers: list[Node], context: Context) -> Projection:
    if len(readers) == 1 and context.readers(product) == 1 and is_map(readers[0], "+"):
        left, right = readers[0].args
        bias = right if left is product else left
        if bias is not product and is_parameter(bias):
            return Projection(product, readers[0], bias)
    return Projection(product, product, None)


def _outs(one: Projection) -> tuple[Axis, ...]:
    return tuple(axis for axis in one.product.args[1].axes if axis not in one.product["over"])


def _against(group: list[Projection]) -> str:
    first = group[0]
    if any(set(_outs(one)) != set(_outs(first)) for one in group):
        shapes = " and ".join("[" + ", ".join(map(str, _outs(one))) + "]" for one in group)
        return f"the products have different axes: {shapes}"
    if any(axis in first.product.args[0].axes for axis in _outs(first)):
        return "the weights align with an axis of the value instead of bringing a new one"
    return ""


def _consumed(one: Projection) -> int:
    """How many numbers of a row a product reads."""
    return math.prod(axis.size for axis in one.product["over"] if isinstance(axis.size, int))


def _told(group: list[Projection]) -> str:
    told = f"{len(group)} products of one value are one, which reads each row's {_consumed(group[0])} numbers once"
    behind = any(one.bias is not None for one in group) and not _alike(group)
    return f"{told}; a bias that not all of them have is added behind it" if behind else told


def _alike(group: list[Projection]) -> bool:
    """Whether all of the products have a bias, of the same axes: then the biases are put together, too."""
    return all(one.bias is not None for one in group) and len({one.bias.axes for one in group if one.bias}) == 1


def _merged(group: list[Projection]) -> dict[Node, Node]:
    axis = Axis("projection", len(group))
    first = group[0].product
    weights = ir.concat([one.product.args[1] for one in group], [None] * len(group), axis)
    made = ir.contract(first.args[0], weights, first["over"])
    if _alike(group):
        biases = [one.bias for one in group if one.bias is not None]
        made = ir.apply("+", made, ir.concat(biases, [None] * len(group), axis))
    else:
        group = [replace(one, result=one.product) for one in group]
    return {one.result: ir.pick(made, {axis: ir.const(place)}) for place, one in enumerate(group)}
