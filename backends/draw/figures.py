"""What each shown node costs, with all that is folded into it: parameters, operations and bytes moved.

Every node of the graph is accounted for once, at one shown node, so the figures of a picture add up to those of
compiler/cost.py. What is prepared once, when a model is loaded, costs nothing here. A weight that several places read
counts at the first of them; the entries of a stack count where they are chosen, if each is chosen once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...compiler.cost import NOTHING, Pricer
from ...compiler.homes import parts_of
from ...compiler.ir import Node
from ...compiler.sizes import USUAL, Sizes
from .folding import Folded
from .sharing import reads


@dataclass(frozen=True)
class Figures:
    """Numbers of weights, scalar operations, and bytes read and written in one run."""

    parameters: int = 0
    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.parameters + other.parameters, self.flops + other.flops, self.bytes + other.bytes
        )


ZERO = Figures()


def total(found: Iterable[Figures]) -> Figures:
    """The sum of figures."""
    return sum(found, ZERO)


def figures(folded: Folded, sizes: Sizes = USUAL) -> Mapping[Node, Figures]:
    """For each shown node what it and the unshown nodes that are folded into it cost; a loop counts its steps.

    The sum over all shown nodes is what `compiler.cost.costs` says of the graph: its parameters, the operations and
    the bytes of one run.
    """
    price = Pricer(folded.graph, sizes)
    flops: Counter[Node] = Counter()
    moved: Counter[Node] = Counter()
    owner = owners(folded, price.order)
    for one, cost in price.costs().nodes.items():
        if cost != NOTHING and one in owner:
            flops[owner[one]] += cost.flops
            moved[owner[one]] += cost.bytes
    parameters = _parameters(folded, price)
    return {one: Figures(parameters[one], flops[one], moved[one]) for one in folded.places}


def owners(folded: Folded, order: Iterable[Node]) -> Mapping[Node, Node]:
    """The shown node that each node belongs to: itself, or that of a reader in the same instance."""
    order = list(order)
    readers: dict[Node, list[Node]] = {one: [] for one in order}
    for one in order:
        for below in (*one.args, *one["body"]) if one.op == "loop" else one.args:
            readers[below].append(one)
    found: dict[Node, Node] = {}
    for one in reversed(order):  # readers come before what they read
        if one in folded.places:
            found[one] = one
            continue
        above = [found[reader] for reader in readers[one] if reader in found]
        home = parts_of(folded.origin(one).path)
        same = (reader for reader in above if folded.homes[reader] == home)
        if above:
            found[one] = next(same, above[0])
    return found


def _parameters(folded: Folded, price: Pricer) -> Counter[Node]:
    """The numbers of each weight where they are read first, entry by entry of its stack."""
    found: Counter[Node] = Counter()
    left: dict[Node, int] = {}
    seen: dict[Node, set[tuple[int, ...]]] = {}
    first: dict[Node, Node] = {}
    stacks = {one.name: one.stack for one in folded.graph.weights}
    for read in reads(folded):
        weight = read.weight
        left.setdefault(weight, price.entries(weight.axes))
        first.setdefault(weight, read.reader)
        entry = price.entries(axis for axis in weight.axes if axis not in stacks.get(str(weight["name"]), ()))
        new = (read.entries or frozenset()) - seen.setdefault(weight, set())
        seen[weight] |= new
        found[read.reader] += len(new) * entry
        left[weight] -= len(new) * entry
    for weight, rest in left.items():
        found[first[weight]] += rest
    return found

