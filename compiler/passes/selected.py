"""A selection after a dropout is made before it, so that a masked softmax is seen as one.

c ? dropout(x, p) : 0 = dropout(c ? x : 0, p), for each entry is drawn by itself, and 0 stays 0 whatever is drawn.
Preconditions: nobody else reads the draw, which would be made twice, and the condition has no axis that the draw lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import ir
from ..ir import Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map, number
from ..rules.rule import Context
from .substitute import substitute

LAW = "c ? dropout(x, p) : 0 = dropout(c ? x : 0, p)"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with selections inside the dropouts that they read."""
    new = dict(_found(graph))
    for one in new:
        origin = graph.origins.get(one)
        ledger.fired("recognise", "selected", LAW, origin.span if origin else None)
    return substitute(graph, new) if new else graph


def _found(graph: Graph) -> Iterator[tuple[Node, Node]]:
    context = Context(graph.roots)
    for one in graph.nodes():
        if not is_map(one, "where"):
            continue
        condition, *branches = one.args
        for place, draw in enumerate(branches):
            if draw.op != "random" or draw["draw"] != "dropout" or number(branches[1 - place]) != 0:
                continue
            if context.readers(draw) == 1 and set(condition.axes) <= set(draw.axes):
                x, *others = draw.args  # the rate, and numbers of rows or steps
                chosen = (x, ir.const(0)) if place == 0 else (ir.const(0), x)
                made = (ir.where(condition, *chosen), *others)
                yield one, ir.node("random", made, draw.axes, draw.kind, **draw.attrs)
