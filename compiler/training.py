"""A model's objectives from its inputs on, with their gradients: what a training step evaluates.

    model formula ∘ objective → passes → differentiate

The passes run before, so that what is recognised (softmax, norms, cross-entropy) has its short and stable derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from . import ir, pipeline
from .cost import flops
from .differentiation import GRADIENT, differentiate
from .ir import Graph, Input, Node
from .ledger import Ledger
from .verify import verify

if TYPE_CHECKING:
    from .driver import Compiled

PASSES = ("simplify", "recognise", "push_picks")
"""The passes that run before a loss is differentiated: the others speak of how weights are kept."""
DIFFERENTIATE = "differentiate"
DOES = "the gradients of the loss by all weights: reverse mode, one rule for each operation"


def compile_gradients(made: Compiled) -> tuple[Compiled, ...]:
    """Each objective of a model as a function of inputs and labels, differentiated by all weights that it reads."""
    found = []
    for loss in made.losses:
        if made.formula.each:
            told = "an example is a group of texts"
            made.ledger.refused(DIFFERENTIATE, "reverse_mode", f"the gradients of {loss.entry}", told)
            continue
        graph = composed(made.formula, loss.formula)
        stages, ledger = pipeline.run(graph, only=PASSES)
        forward = stages[-1].graph
        done = differentiate(forward)
        verify(done)
        _told(ledger, forward, done)
        found.append(replace(loss, stages=(*stages, pipeline.Stage(DIFFERENTIATE, done)), ledger=ledger))
    return tuple(found)


def composed(model: Graph, loss: Graph) -> Graph:
    """The objective of a model's inputs and labels: each result that it reads is what the model makes of its inputs."""
    results = {out.name: out for out in model.outputs}
    known = {one.name: one for one in model.inputs}

    def change(one: Node) -> Node:
        name = one.get("name")
        if one.op == "input" and name in results and name not in known:
            out = results[name]
            return ir.rename(_of_texts(model, out.node), dict(zip(out.axes, one.axes, strict=True)))
        return one

    made = loss.rewrite(change, {**model.origins, **loss.origins})
    inputs: dict[str, Input] = dict(known)
    inputs |= {one.name: one for one in loss.inputs if one.name not in results and one.name not in known}
    used = {one["name"] for one in made.nodes() if one.op == "weight"}
    weights = tuple(one for one in model.weights if one.name in used)
    return replace(made, inputs=tuple(inputs.values()), weights=weights, name=loss.name)


def _of_texts(model: Graph, node: Node) -> Node:
    """A result of each example, which is 0 where it has not a single token; one of tokens has none there."""
    lengths = dict.fromkeys(axis for one in model.inputs for axis in one.axes if axis.counted)
    if not lengths or any(axis.counted for axis in node.axes):
        return node
    some = [ir.apply("<", ir.const(0), ir.size(axis)) for axis in lengths if axis.owner in node.axes]
    there = reduce(lambda a, b: ir.apply("or", a, b), some)
    return ir.where(there, node, ir.const(0.0))


def _told(ledger: Ledger, forward: Graph, done: Graph) -> None:
    """A line for what the differentiation made: nodes and operations, forwards and backwards."""
    found = work(done)
    nodes = len(done.nodes()) - len(forward.nodes())
    ratio = found["backward"] / max(1, found["forward"])
    text = f"{nodes} nodes for {len(forward.nodes())}, {ratio:.2f} times the operations of the forward"
    ledger.fired(DIFFERENTIATE, "reverse_mode", text)


def work(graph: Graph) -> Mapping[str, int]:
    """The operations of the forward and of the backward of a differentiated graph, for the usual sizes."""
    outputs = tuple(out for out in graph.outputs if not out.name.startswith(GRADIENT))
    forward = replace(graph, outputs=outputs)
    return {"forward": flops(forward), "backward": flops(graph) - flops(forward)}
