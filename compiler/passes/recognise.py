"""recognise: softmax, log-softmax, LayerNorm, RMSNorm, GELU (both), SiLU, sigmoid, ReLU and attention, by meaning.

No spelling is matched. A node is taken as a function of the one value through which all its inputs pass (and of
weights, and of one relation); the function is evaluated in float64 at random points and compared with each known
meaning. So every way to write a LayerNorm is one LayerNorm, and what differs by 1e-9 is none. The probe draws values
of several sizes, so that ε and the two GELUs are told apart.

Precondition: nothing inside but scalar functions and reductions over one axis, and no gradient that a `stop` cuts.
Attention then is a contraction of a softmax, with scores linear in one product of query and key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from .. import ir
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.rule import Context
from . import attention, grouped, heads, probe, running, selected
from .parameters import is_parameter
from .substitute import substitute

MOST = 40
"""Nodes that a meaning may be made of."""

TELLING = ("exp", "erf", "tanh", "max", "min", "sqrt", "^", "log", "/", "where")
"""Functions whose presence makes a node worth a probe."""


@dataclass(frozen=True)
class Region:
    """A node as a function of x (and a relation, and weights)."""

    root: Node
    x: Node
    see: Node | None
    weights: tuple[Node, ...]
    inside: tuple[Node, ...]


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with recognised meanings as kernel nodes."""
    graph = selected.run(running.run(graph, ledger), ledger)
    graph = _functions(graph, ledger)
    return grouped.run(heads.run(attention.run(graph, ledger), ledger), ledger)


def _functions(graph: Graph, ledger: Ledger) -> Graph:
    found = dict(_search(graph))
    origins = dict(graph.origins)
    new: dict[Node, Node] = {}
    for root, (region, name, made) in found.items():
        origin = origins.get(root)
        ledger.fired("recognise", name, _told(name, region), origin.span if origin else None)
        new[root] = made
    if not new:
        return graph
    return substitute(replace(graph, origins=origins), new)


def _told(name: str, region: Region) -> str:
    count = len(region.inside)
    return f"{count} operation{'s' * (count != 1)} are one {name}"


# ----------------------------------------------------------------------------------------------------- searching


def _search(graph: Graph) -> Iterator[tuple[Node, tuple[Region, str, Node]]]:
    """From the results towards the inputs, the largest meaning first; what lies inside a found one is passed over."""
    nodes = graph.nodes()
    order = {one: place for place, one in enumerate(nodes)}
    context = Context(graph.roots)
    static = frozenset(one for one in nodes if is_parameter(one))
    covered: set[Node] = set()
    for root in reversed(nodes):
        if root in covered or root in static or root.op != "map" or root.kind == "bool" or root.kind == "int":
            continue
        found = _best(root, order, static)
        if found is not None:
            region, name, made = found
            covered.update(_swallowed(region, context))
            yield root, (region, name, made)


def _swallowed(region: Region, context: Context) -> set[Node]:
    """The nodes inside that nobody needs any more: all that reads them goes, too."""
    gone = {region.root}
    for one in region.inside[1:]:  # readers come first
        if context.readers(one) <= sum(reader.args.count(one) for reader in gone):
            gone.add(one)
    return gone - {region.root}


def _best(root: Node, order: Mapping[Node, int], static: frozenset[Node]) -> tuple[Region, str, Node] | None:
    """The largest part that has a meaning: (x - μ) / σ is the LayerNorm of x rather than the RMSNorm of x - μ."""
    best = None
    for region in _regions(root, order, static):
        if not _worth(region):
            continue
        found = probe.meaning(region.root, region.x, region.see, region.weights)
        if found is not None and _takes_no_stop(region, found, order):
            best = region, found.kernel, found.node
    return best


def _takes_no_stop(region: Region, found: probe.Found, order: Mapping[Node, int]) -> bool:
    """Whether the meaning has the part's gradient too: what `stop` holds fixed may be any value, so none is cut.

    exp(x - stop(max)) / Σ is a softmax whatever stands for the maximum; the softmax of stop(x) is none of x.
    """
    moved: dict[Node, Node] = {}
    for one in sorted(region.inside, key=order.__getitem__):
        made = ir.rebuild(one, tuple(moved.get(arg, arg) for arg in one.args))
        if one.op == "map" and one["fn"] == "stop":
            made = ir.apply("+", made, ir.apply("+", ir.apply("tanh", made), ir.const(Fraction(1, 3))))
        moved[one] = made
    if moved[region.root] is region.root:
        return True
    again = probe.meaning(moved[region.root], region.x, region.see, region.weights)
    return again is not None and again.node is found.node


def _worth(region: Region) -> bool:
    names = {one["fn"] for one in region.inside if one.op == "map"}
    return bool(names.intersection(TELLING)) and region.x.kind in ("real", "unknown")


def _regions(root: Node, order: Mapping[Node, int], static: frozenset[Node]) -> Iterator[Region]:
    """The ways to see the node as a function of one value: its frontier is opened, latest node first."""
    frontier: set[Node] = set()
    inside: list[Node] = [root]
    axes: set[Axis] = set()
    frontier.update(root.args)
    while len(inside) < MOST:
        data = [one for one in frontier if one.op != "const" and one not in static]
        values = [one for one in data if one.kind != "bool"]
        relations = [one for one in data if one.kind == "bool"]
        if len(values) == 1 and len(relations) <= 1:
            weights = tuple(
                sorted((one for one in frontier if one in static and one.op != "const"), key=order.__getitem__)
            )
            yield Region(root, values[0], relations[0] if relations else None, weights, tuple(inside))
        opened = max((one for one in values if _opens(one, axes)), key=order.__getitem__, default=None)
        if opened is None:  # a condition on x itself, as in x if x > 0 else 0
            opened = max((one for one in relations if one.op == "map"), key=order.__getitem__, default=None)
        if opened is None:
            return
        frontier.remove(opened)
        inside.append(opened)
        if opened.op == "reduce":
            axes.update(opened["over"])
        frontier.update(opened.args)


def _opens(one: Node, axes: set[Axis]) -> bool:
    if one.op == "map":
        return True
    return one.op == "reduce" and len(one["over"]) == 1 and (not axes or one["over"][0] in axes)
