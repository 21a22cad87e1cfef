"""push_picks: rows that nobody reads are not computed.

    (f(x))[seq = 0] = f(x[seq = 0])    for f row-wise along seq; keys and values of attention stay whole

A CLS or last-token pooled encoder computes one query row in its last block; a head that is read at some places computes
those rows only. A loop whose last state is read at some rows makes its last step by itself, on those rows.
Preconditions: every reader of a value asks for rows of it, for a few selections in all; no mixing of rows in between.
A sum over a condition asks for the rows where it holds (restricted.py), so the head of a masked-LM loss has few rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import ir, steps
from ..ir import Graph, Node, Origin, Rewrite
from ..ledger import Ledger
from ..rules.rule import inherit
from . import means, restricted
from .demand import Demand, Rows, picked_rows
from .parameters import is_parameter
from .substitute import substitute

ROWS = "f(x)[seq = i] = f(x[seq = i])"
LAST = "the last step of a loop runs on the rows that are read"
WORK = ("contract", "kernel", "reduce")
"""Operations that are worth it: what only copies or adds is as cheap on all rows."""


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with selections of rows as near to the inputs as they come."""
    graph = _last_steps(restricted.run(means.run(graph, ledger), ledger), ledger)
    demand = Demand(graph.roots)
    new: dict[Node, Node] = {}
    for one in demand.order:
        rows = picked_rows(one)
        if not rows or is_parameter(one.args[0]):
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        base = one.args[0]
        if demand.partial(base):
            before = len(demand.built)
            made = demand.at(base, rows)
            if made is not one:
                new[one] = made
                built = list(demand.built)[before:]
                works = sum(old.op in WORK and demand.partial(old) for old, at in built if at)
                _told(graph, ledger, one, works, rows)
        elif demand.whole.get(base) and _works(base):
            ledger.refused("push_picks", "rows", ROWS, demand.whole[base], span)
    return _replaced(graph, demand, new) if new else graph


def _works(one: Node) -> bool:
    """Whether there is work below that fewer rows would save."""
    return any(part.op in ("contract", "kernel", "state") for part in ir.walk([one], enter=_is_copy))


def _is_copy(one: Node) -> bool:
    return one.op in ("map", "random", "rename", "widen")


def _told(graph: Graph, ledger: Ledger, one: Node, works: int, rows: Rows) -> None:
    origin = graph.origins.get(one)
    axes = ", ".join(str(axis) for axis, _ in rows)
    what = f"{ROWS}: {works} operation{'s' * (works != 1)} on the rows of {axes} that are read"
    ledger.fired("push_picks", "rows", what, origin.span if origin else None)


def _replaced(graph: Graph, demand: Demand, new: dict[Node, Node]) -> Graph:
    origins = dict(graph.origins)
    for (old, rows), made in demand.built.items():
        if rows and made is not old:
            ir.take_origin(origins, old, made)
    return substitute(replace(graph, origins=origins), new)


# ------------------------------------------------------------------------------------------------ the last step


@dataclass(frozen=True)
class Peeled:
    """A loop with one step less, and its last states made of a step by itself."""

    loop: Node
    states: tuple[Node, ...]
    origins: dict[Node, Origin]


def _last_steps(graph: Graph, ledger: Ledger) -> Graph:
    """The graph in which loops whose last states are read at some rows only make their last step apart."""
    for one in [node for node in ir.walk(graph.roots) if node.op == "loop"]:
        states = [node for node in graph.nodes() if node.op == "state" and node.args[0] is one]
        if not any(Demand(graph.roots).partial(node) for node in states):
            continue
        origin = next((graph.origins[node] for node in states if node in graph.origins), None)
        made, reason = _without_last(graph, one)
        if made is None:
            ledger.refused("push_picks", "last_step", LAST, reason, origin.span if origin else None)
            continue
        ledger.fired("push_picks", "last_step", LAST, origin.span if origin else None)
        graph = made
    return graph


def _without_last(graph: Graph, one: Node) -> tuple[Graph | None, str]:
    """The graph with the loop's last step apart, and that of a loop at its end; None, and why, if it saves nothing."""
    demand = Demand(graph.roots)
    readers = [node for node in graph.nodes() if one in node.args]
    reason = _against(one, readers, demand)
    if reason:
        return None, reason
    peeled = _peeled(one, graph)
    made = _apart(graph, peeled, readers)
    demand = Demand(made.roots)
    step = list(ir.walk(peeled.states, enter=lambda node: node.op not in ("state", "history")))
    if any(node.op in ("contract", "kernel") and demand.partial(node) for node in step):
        return made, ""
    for node in step:
        if node.op == "state" and node.args[0] is not peeled.loop and demand.partial(node):
            return _without_last(made, node.args[0])
    return None, "the step mixes all rows before it does any work"


def _against(one: Node, readers: list[Node], demand: Demand) -> str:
    count = one.args[one["slots"]]
    if count.op != "const" or int(count["value"]) <= one["start"]:
        return "the number of steps is not known"
    last = int(count["value"])
    if any(node.op == "state" and not demand.partial(node) for node in readers):
        return "the last state is read whole, too"
    numbers = [node.args[1] for node in readers if node.op == "history"]
    if any(node.op not in ("state", "history") for node in readers):
        return "another loop runs through all its steps"
    if any(number.op != "const" or number["value"] >= last for number in numbers):
        return "states of computed numbers are read"
    if numbers and last - 1 == one["start"]:
        return "there is one step only, and its states are read by number"
    return ""


def _peeled(one: Node, graph: Graph) -> Peeled:
    """The loop without its last step, and that step."""
    ident, slots, last = one["loop"], one["slots"], int(one.args[one["slots"]]["value"]) - 1
    first = one.args[:slots]
    shorter = ir.loop(ident, one["axis"], one["start"], ir.const(last), first, one["body"], one["name"])
    before = [ir.state(shorter, slot) if last > one["start"] else first[slot] for slot in range(slots)]
    origins = dict(graph.origins)
    again = _other_numbers(one, graph)

    def change(node: Node) -> Node:
        node = again(node)
        if node.op == "carry" and node["loop"] == ident:
            slot: int = node["slot"]
            return before[slot]
        if node.op == "counter" and node["loop"] == ident:
            return ir.const(last)
        if node.op == "past" and node["loop"] == ident:
            return ir.history(shorter, node["slot"], node.args[0])
        if ident in node.get("steps", ()):
            others = tuple(step for step in node["steps"] if step != ident)
            attrs = {**node.attrs, "steps": others, "site": f"{node['site']}@{last}"}
            return ir.node(node.op, node.args, node.axes, node.kind, **attrs)
        return steps.computed(node)  # what the number of the step decides is known here

    def moved(old: Node, new: Node) -> None:
        ir.take_origin(origins, old, new)

    return Peeled(shorter, tuple(ir.transform(one["body"], change, moved)), origins)


def _other_numbers(one: Node, graph: Graph) -> Rewrite:
    """Loops inside the step that is made apart get numbers of their own: a counter belongs to one loop.

    A loop that no step changes, such as an encoder's that each layer of a decoder reads, stays the one it is.
    """
    changed = ir.ordered(one["body"], lambda node: (*node.args, *node.get("body", ())) if node.free else ())
    inner = {node["loop"] for node in changed if node.op == "loop" and node.free}
    shift = 1 + max((node["loop"] for node in graph.nodes() if node.op == "loop"), default=0)

    def change(node: Node) -> Node:
        attrs = dict(node.attrs)
        if attrs.get("loop") in inner:
            attrs["loop"] += shift
        if inner.intersection(attrs.get("steps", ())):
            attrs["steps"] = tuple(step + shift * (step in inner) for step in attrs["steps"])
        if attrs == dict(node.attrs):
            return node
        if node.op == "loop":
            slots = node["slots"]
            first, steps = node.args[:slots], node.args[slots]
            return ir.loop(attrs["loop"], node["axis"], node["start"], steps, first, node["body"], node["name"])
        return ir.node(node.op, node.args, node.axes, node.kind, **attrs)

    return change


def _apart(graph: Graph, peeled: Peeled, readers: list[Node]) -> Graph:
    new: dict[Node, Node] = {}
    for node in readers:
        if node.op == "state":
            new[node] = peeled.states[node["slot"]]
            inherit(peeled.origins, node, new[node])
        else:
            new[node] = ir.history(peeled.loop, node["slot"], node.args[1])
    return substitute(replace(graph, origins=peeled.origins), new)
