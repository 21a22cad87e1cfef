"""A mean of some entries is computed of these entries alone: the first step of push_picks.

    mean[batch, seq if c](f(x)) = mean[row](f(x)[batch = b, seq = s])    (b, s): the places where c holds

The places are found when a batch comes. What asks for rows then moves towards the inputs (demand.py), as far as rows
are computed by themselves: a masked-LM loss has the logits of masked tokens only, whatever the head is called.
Preconditions: the graph selects (an objective that is a module of its own); the condition is over a length and its
owner, which are all that is summed over.
"""

from __future__ import annotations

from .. import ir
from ..ir import Axis, Graph, Length, Node
from ..ledger import Ledger
from .substitute import substitute

LAW = "mean[batch, seq if c](f(x)) = mean[row](f(x)[batch = b, seq = s]), (b, s) where c holds"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with sums over a condition as sums over the places where it holds."""
    if not graph.selects:
        return graph
    rows: dict[tuple[Node, tuple[Axis, ...]], Axis] = {}
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        if not _restricted(one):
            continue
        x, condition = one.args
        over = tuple(sorted(one["over"], key=lambda axis: axis.counted))  # the owner first
        into = rows.setdefault((condition, over), Axis("row", Length(f"rows {len(rows) + 1}")))
        places = {axis: ir.selected(condition, over, axis, into) for axis in over}
        counts = ir.selected(condition, over, None, into)
        at = {axis: place for axis, place in places.items() if axis in x.axes}
        new[one] = ir.reduce(one["reduction"], ir.pick(x, at), (into,), counts)
        origin = graph.origins.get(one)
        ledger.fired("push_picks", "restricted", LAW, origin.span if origin else None)
    return substitute(graph, new) if new else graph


def _restricted(one: Node) -> bool:
    """Whether a node sums or averages over a length and its owner, where a condition on these holds."""
    if one.op != "reduce" or one["reduction"] not in ("sum", "mean") or len(one.args) < 2 or one.free:
        return False
    over = set(one["over"])
    lengths = [axis for axis in over if axis.counted]
    if len(lengths) != 1 or over != {lengths[0], lengths[0].owner}:
        return False
    return lengths[0] in one.args[0].axes and lengths[0] in one.args[1].axes and set(one.args[1].axes) <= over
