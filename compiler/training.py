"""A model's objectives from its inputs on, with their gradients: what a training step evaluates.

    model formula ∘ objective → passes → differentiate

The passes run before, so that what is recognised (softmax, norms, cross-entropy) has its short and stable derivative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from . import ir, pipeline
from .cost import flops
from .differentiation import GRADIENT, differentiate, without_defaults
from .ir import Graph, Input, Node
from .ledger import Ledger
from .objectives import COUNT, batch_of, terms, whole
from .verify import verify

if TYPE_CHECKING:
    from .driver import Compiled

PASSES = ("simplify", "recognise", "push_picks", "chunk", "pack")
"""The passes that run before a loss is differentiated: the others speak of how weights are kept."""
AGAIN = ("simplify", "recognise")
"""Those that run behind it: what the rules of the differentiation made may have a shorter form, or a meaning."""
LAST = ("unpad", "schedule")
"""Those that run then."""
CHOSEN = ("pack", *LAST)
"""Those that run as they did for the model or objective itself: what was left out there is left out here."""
DIFFERENTIATE = "differentiate"
TOTALS = "loss_totals"
"""The input of a differentiated objective with the count of each term of its loss, over all parts of a batch."""
DOES = "the gradients of the loss by all weights: reverse mode, one rule for each operation"


def compile_gradients(made: Compiled) -> tuple[Compiled, ...]:
    """Each objective of a model as a function of inputs and labels, differentiated by all weights that it reads.

    Of an objective that was compiled by itself that one alone, in terms of `TOTALS`.
    """
    ran = {one.name for one in made.stages}
    left = [name for name in CHOSEN if name not in ran and len(ran) > 1]
    if made.kind == "objective":
        return (_differentiated(made, totalled(made.formula), left),)
    found = []
    for loss in made.losses:
        if made.formula.each:  # an example is a group of texts: the objective from their tokens on
            graph = whole(made.module, made.config, made.module.entries[loss.entry])
        else:
            graph = composed(made.formula, loss.formula)
        found.append(_differentiated(loss, replace(graph, selects=True), left))
    return tuple(found)


def _differentiated(loss: Compiled, graph: Graph, left: Sequence[str]) -> Compiled:
    """The objective with the stages up to its gradients, some passes left out."""
    stages, ledger = pipeline.run(without_defaults(graph), left, PASSES)
    forward = stages[-1].graph
    done = differentiate(forward)
    verify(done)
    _told(ledger, forward, done)
    again, later = pipeline.run(done, left, (*AGAIN, *LAST))
    ledger.lines += later.lines
    later_stages = (replace(one, name=f"{one.name} again") if one.name in AGAIN else one for one in again[1:])
    stages = (*stages, pipeline.Stage(DIFFERENTIATE, done), *later_stages)
    return replace(loss, stages=stages, ledger=ledger)


def totalled(graph: Graph) -> Graph:
    """The loss alone, as Σ sum / total: the totals are an input, by default the counts of the batch itself.

    A part of a batch that is given the totals of the whole has its share of the loss, and of the gradient. A loss that
    is no sum over examples stays what it is.
    """
    loss = graph.outputs[0]
    counts = next((out for out in graph.outputs if out.name == COUNT), None)
    found, reason = terms(loss.node, batch_of(graph)) if counts else ([], "no sum")
    if counts is None or reason:
        return replace(graph, outputs=(loss,))
    (axis,) = counts.axes
    given = ir.input_(TOTALS, (axis,), "real", counts.node)
    made = ir.const(0)
    for place, term in enumerate(found):
        total = ir.pick(given, {axis: ir.const(place)})
        divisor = ir.where(ir.apply("<", ir.const(0), total), total, ir.const(1))
        share = term.sum if term.count is None else ir.apply("/", term.sum, divisor)
        made = share if not place else ir.apply("+", made, share)
    row = Input(TOTALS, TOTALS, (axis,), "real", False)
    return replace(graph, outputs=(replace(loss, node=made),), inputs=(*graph.inputs, row))


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
