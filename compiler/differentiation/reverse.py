"""differentiate: the graph of a loss → the graph of the loss and of its gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count

from ...grammar.diagnostics import error
from .. import ir
from ..ir import Graph, Node, Output, take_origin, walk, walk_all
from .activity import Active
from .finite import Finite
from .recalling import settled
from .rules import RULES
from .sweep import Sweep

GRADIENT = "gradient of "
"""What the name of a gradient among the results of a graph begins with."""


def gradient_of(weight: str) -> str:
    """The name of the result that is the gradient towards a weight."""
    return GRADIENT + weight


def differentiate(graph: Graph, loss: str | None = None, wanted: Collection[str] | None = None) -> Graph:
    """∂ loss / ∂ w for each wanted weight w, as further results of the graph, after those that it has.

    `loss` is a result without axes (the first one by default); `wanted` are names of weights, or of inputs that are
    real numbers (all weights by default). A gradient has the axes of its weight; one that the loss does not depend on
    is 0. Draws are those of the forward, `stop` cuts, whole numbers have no gradient. An input that stands in for
    looked-up weights counts as not given.
    Raises `TransformulaError` where the loss has axes, or does not exist.
    Reverse mode as in Griewank and Walther, "Evaluating Derivatives", 2nd edition, 2008, chapter 3.
    """
    chosen = next((out for out in graph.outputs if loss in (None, out.name)), None)
    if chosen is None or chosen.node.axes:
        told = f"has axes [{', '.join(map(str, chosen.axes))}]" if chosen else "does not exist"
        raise error("X994", f"the result `{loss or ''}` of {graph.name} cannot be differentiated: it {told}",
                    help="A loss is one number: average over all its axes.")  # fmt: skip
    graph = without_defaults(graph)
    leaves = _leaves(graph, wanted)
    root = next(out.node for out in graph.outputs if out.name == chosen.name)
    sweep = _swept(graph, root, list(leaves.values()))
    gradients = [sweep.adjoints.get(one, ir.const(0.0)) for one in leaves.values()]
    gradients = [ir.widen_to(g, one.axes) for g, one in zip(gradients, leaves.values(), strict=True)]
    origins = dict(graph.origins)

    def moved(old: Node, new: Node) -> None:
        take_origin(origins, old, new)
        if old in sweep.stands_for:
            sweep.stands_for.setdefault(new, sweep.stands_for[old])

    found = settled([*graph.roots, *gradients], sweep, moved)
    for g, one in sweep.stands_for.items():
        if one in graph.origins and graph.origins[one].name:
            origins.setdefault(g, replace(graph.origins[one], name=f"d_{graph.origins[one].name}"))
    outputs = [replace(out, node=node) for out, node in zip(graph.outputs, found, strict=False)]
    for (name, leaf), node in zip(leaves.items(), found[len(outputs) :], strict=True):
        outputs.append(Output(gradient_of(name), node, leaf.axes))
    return replace(graph, outputs=tuple(outputs), origins=origins)


def _swept(graph: Graph, root: Node, leaves: Sequence[Node]) -> Sweep:
    idents = count(1 + max((one["loop"] for one in graph.nodes() if one.op == "loop"), default=0))
    active = Active(graph.roots, leaves)
    sweep = Sweep(active, lambda one: RULES[one.op], Finite(), lambda: next(idents))
    if active(root):
        sweep.adjoints[root] = ir.const(1.0)
    sweep.run(list(walk([root])))
    return sweep


def _leaves(graph: Graph, wanted: Collection[str] | None) -> dict[str, Node]:
    """The nodes of what is wanted, by name."""
    names = [one.name for one in graph.weights] if wanted is None else list(wanted)
    found = {str(one["name"]): one for one in graph.nodes() if one.op in ("input", "weight")}
    known = {one.name: ir.weight(one.name, one.axes) for one in graph.weights} | found
    for name in names:
        if name not in known:
            raise error("X994", f"{graph.name} has no weight and no input `{name}` to differentiate by")
    return {name: known[name] for name in names}


def without_defaults(graph: Graph) -> Graph:
    """The graph in which inputs that stand in for what is looked up among weights are that: they count as not given."""

    def change(one: Node) -> Node:
        if one.op == "input" and one.args and any(part.op == "weight" for part in walk(one.args)):
            return one.args[0]
        return one

    made = graph.rewrite(change)
    read = {one["name"] for one in walk_all(made.roots) if one.op == "input"}
    gone = {one["name"] for one in graph.nodes() if one.op == "input"} - read
    inputs = tuple(
        replace(one, instead="" if one.instead in gone else one.instead) for one in made.inputs if one.name not in gone
    )
    return replace(made, inputs=inputs)
