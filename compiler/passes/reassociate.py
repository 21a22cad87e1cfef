"""reassociate: a chain of products is computed in the order that costs least, and no weight is made bigger.

    x @ (A @ B) = (x @ A) @ B                    where that takes fewer operations
    (A @ B)[i = t] = A[i = t] @ B                where A @ B of weights alone would be a bigger weight than A and B

A product of weights alone is made once, when they are loaded, so it costs a run nothing but the memory it lies in. It
is worth that where it has no more numbers than its factors; a factor that somebody else reads (tied weights) stays in
memory anyway, and is never changed. With E : [vocab, e] and M : [e → d], e < d, h @ (E @ M) over d takes d * vocab
products a row, (h @ M) @ E takes d * e + e * vocab. Rows that are picked cost their share of the product at each run,
so there are to be fewer of them than the table has.

Preconditions: whatever reads the inner product is such a chain or pick (not a result, a draw or a stop, which need all
of it), one factor alone has the axes that are summed or picked, the other value has none of the axes over which the
factors are multiplied, and no sum runs over a length. Numeric class: reassociating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import cost, ir
from ..ir import Axis, Graph, Node, ordered
from ..ledger import Ledger
from ..sizes import Sizes
from . import one_query
from .parameters import has_weight, is_parameter
from .substitute import substitute

LAW = "x @ (A @ B) = (x @ A) @ B"
PICK = "(A @ B)[i = t] = A[i = t] @ B"
PROBES = (Sizes(1, 16), Sizes(8, 128), Sizes(8, 1024))
"""Run-time sizes at all of which the new order must cost less."""


@dataclass(frozen=True)
class Chain:
    """A reader of the product inner = A @ B, and what it becomes."""

    reader: Node
    first: Node  # x @ A, or A[i = t]
    made: Node


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with its chains of products in the cheapest order."""
    graph = one_query.run(graph, ledger)
    while True:  # a longer chain is turned link by link; each makes a run cheaper or leaves a weight out
        chains, refused = _turned(graph)
        for chain in chains:
            _tell(graph, ledger, chain.reader, PICK if chain.reader.op == "pick" else LAW, "")
        if not chains:
            break
        graph = substitute(graph, {chain.reader: chain.made for chain in chains})
    for inner, reason in refused.items():
        _tell(graph, ledger, inner, LAW, reason)
    return graph


def _turned(graph: Graph) -> tuple[list[Chain], dict[Node, str]]:
    """What becomes of the readers of the first product that is better taken apart, and why other products stay."""
    readers = readers_of(graph)
    found = [one for one in graph.nodes() if one.op == "contract" and _in_chain(one, readers.get(one, ()))]
    prices = [cost.Pricer(graph, sizes) for sizes in PROBES] if found else []
    static = prices[0].static if prices else set()
    refused: dict[Node, str] = {}
    for inner in found:
        if any(one is not inner and one.op in ("contract", "pick") and one in static for one in readers[inner]):
            continue  # part of a larger product that is made at load
        chains, reason = _chains(inner, readers[inner])
        if not reason and _cheaper(inner, chains, readers, prices):
            return chains, refused
        if reason and _bigger(inner, readers, prices[1]):
            refused[inner] = reason
    return [], refused


def readers_of(graph: Graph) -> dict[Node, list[Node]]:
    """Who reads each node; a result stands for itself."""
    found: dict[Node, list[Node]] = {root: [root] for root in graph.roots}
    for one in graph.nodes():
        for arg in dict.fromkeys((*one.args, *one["body"]) if one.op == "loop" else one.args):
            found.setdefault(arg, []).append(one)
    return found


def _in_chain(inner: Node, readers: Sequence[Node]) -> bool:
    """Whether a product is read by another one, or picked from; maybe through what then stands between."""
    return is_parameter(inner) or any(reader.op in ("contract", "pick") for reader in readers)


def _tell(graph: Graph, ledger: Ledger, one: Node, law: str, reason: str) -> None:
    origin = graph.origins.get(one)
    span = origin.span if origin else None
    if reason:
        ledger.refused("reassociate", "chain", law, reason, span)
    else:
        ledger.fired("reassociate", "pick" if law is PICK else "chain", law, span)


# ----------------------------------------------------------------------------------------------------- the shape


def _chains(inner: Node, readers: Sequence[Node]) -> tuple[list[Chain], str]:
    """What becomes of every reader of the product, or why one of them needs the product itself."""
    found = []
    for reader in readers:
        chain = _chain(inner, reader)
        if isinstance(chain, str):
            return [], chain
        found.append(chain)
    return found, ""


def _chain(inner: Node, reader: Node) -> Chain | str:
    if reader is inner:
        return "the product is a result"
    if reader.op == "pick" and reader.args[0] is inner:
        return _picked(inner, reader)
    if reader.op == "contract" and reader.args.count(inner) == 1:
        return _summed(inner, reader)
    what = reader.get("fn") or reader.get("draw") or reader.get("reduction") or reader.get("name")
    return f"`{what}` stands between the products" if what else "the product is read as a whole"


def _factors(inner: Node, axes: Sequence[Axis]) -> tuple[Node, Node] | None:
    """(the factor that has all these axes, the other one, which has none)."""
    for one, other in (inner.args, inner.args[::-1]):
        if set(axes) <= set(one.axes) and not set(axes) & set(other.axes):
            return one, other
    return None


def _summed(inner: Node, reader: Node) -> Chain | str:
    x = reader.args[1] if reader.args[0] is inner else reader.args[0]
    if any(axis.ragged for axis in (*inner["over"], *reader["over"])):
        return "a sum over a length sees the entries of its own example only"
    if set(x.axes) & set(inner["over"]):
        return "the other value has the axis over which the factors are multiplied"
    factors = _factors(inner, reader["over"])
    if factors is None:
        return "both factors have an axis that is summed"
    first = ir.contract(x, factors[0], reader["over"])
    if is_parameter(first) and not is_parameter(inner):
        return "it would be one more weight, made of others"
    return Chain(reader, first, ir.contract(first, factors[1], inner["over"]))


def _picked(inner: Node, reader: Node) -> Chain | str:
    keys, numbers = reader["keys"], reader.args[1:]
    if any(axis.ragged for axis in (*inner["over"], *keys)):
        return "a sum over a length sees the entries of its own example only"
    if any(set(number.axes) & set(inner["over"]) for number in numbers):
        return "the places have the axis over which the factors are multiplied"
    factors = _factors(inner, keys)
    if factors is None:
        return "both factors have an axis that is picked"
    first = ir.pick(factors[0], dict(zip(keys, numbers, strict=True)))
    return Chain(reader, first, ir.contract(first, factors[1], inner["over"]))


# ------------------------------------------------------------------------------------------------------ the cost


def _cheaper(
    inner: Node, chains: Sequence[Chain], readers: Mapping[Node, Sequence[Node]], prices: Sequence[cost.Pricer]
) -> bool:
    """Whether all readers together cost less without the product."""
    sums = [chain for chain in chains if chain.reader.op == "contract"]
    picks = [chain for chain in chains if chain.reader.op == "pick"]
    usual = prices[1]
    if picks and inner in usual.static and not _bigger(inner, readers, usual):
        return False
    whole = usual.once(inner).flops * usual.times(inner)
    if inner in usual.static and sum(_flops(usual, chain) for chain in picks) > whole:
        return False
    if inner in usual.static and not sums:
        return True
    return all(_saves(inner, sums if inner in usual.static else chains, price) for price in prices)


def _saves(inner: Node, chains: Sequence[Chain], price: cost.Pricer) -> bool:
    """Whether a run takes fewer operations in the new order; a product of weights costs it nothing."""
    before = sum(price.once(chain.reader).flops * price.times(chain.reader) for chain in chains)
    if inner not in price.static:
        before += price.once(inner).flops * price.times(inner)
    return sum(_flops(price, chain) for chain in chains) < before


def _flops(price: cost.Pricer, chain: Chain) -> int:
    return sum(price.once(one).flops * price.times(one) for one in (chain.first, chain.made))


def _bigger(inner: Node, readers: Mapping[Node, Sequence[Node]], price: cost.Pricer) -> bool:
    """Whether a product of weights has more numbers than the factors that nobody else reads."""
    if inner not in price.static or not all(has_weight(arg) for arg in inner.args):
        return False
    own = [arg for arg in dict.fromkeys(inner.args) if not _read_elsewhere(arg, inner, readers)]
    return price.held(inner) > sum(price.held(arg) for arg in own)


def _read_elsewhere(factor: Node, inner: Node, readers: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether a weight of the factor goes into anything that does not end in the product."""
    inside = set(ordered([inner], lambda one: one.args))
    parts = ordered([factor], lambda one: one.args)
    return any(
        reader not in inside and reader.op != "loop" for part in parts if has_weight(part) for reader in readers[part]
    )
