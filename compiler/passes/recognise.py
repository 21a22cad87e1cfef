"""recognise: softmax and its kin, norms, activations, cross-entropy and attention, by meaning.

No spelling is matched. A node is taken as a function of the one value through which all its inputs pass (and of
weights, and of one relation); the function is evaluated in float64 at random points and compared with each known
meaning. So every way to write a LayerNorm is one LayerNorm, and what differs by 1e-9 is none. The probe draws values
of several sizes, so that ε and the two GELUs are told apart.

Precondition: nothing inside but scalar functions, reductions over one axis, renames and picks by labels, and no
gradient that a `stop` cuts. Attention then is a contraction of a softmax (attention.py), its heads along an axis
(heads.py), its keys read once for a group of heads (grouped.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from .. import ir
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.rule import Context
from . import attention, grouped, heads, probe, running, selected
from .parameters import is_parameter
from .proposals import Found
from .regions import Region, is_labelled, regions
from .substitute import substitute

TELLING = ("exp", "erf", "tanh", "max", "min", "sqrt", "^", "log", "/", "where")
"""Functions whose presence makes a node worth a probe."""



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
        if root in covered or root in static or root.kind == "bool" or root.kind == "int":
            continue
        if root.op != "map" and not (root.op == "reduce" and len(root.args) > 1) and not is_labelled(root, static):
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
    for region in regions(root, order, static):
        if not _worth(region):
            continue
        found = probe.meaning(region)
        if found is not None and _takes_no_stop(region, found, order):
            best = region, found.kernel, found.node
    return best


def _takes_no_stop(region: Region, found: Found, order: Mapping[Node, int]) -> bool:
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
    inside = tuple(moved[one] for one in region.inside)
    again = probe.meaning(replace(region, root=moved[region.root], inside=inside))
    return again is not None and again.node is found.node


def _worth(region: Region) -> bool:
    names = {one["fn"] for one in region.inside if one.op == "map"}
    return bool(names.intersection(TELLING)) and region.x.kind in ("real", "unknown")
