"""An objective from the inputs of its model to one number, and that number as sums and counts that add up.

    of a model     o(M(inputs), labels), where heads.py has not written it so already: a model of several texts for each
                   example (`for choice`) runs once on the texts of all examples, and each example reads its own
    (sum, count)   Σ c · mean[batch, …](x) = Σ c · sum(x) / count: parts of a batch add up, sums and counts alike

A term whose count is 0 is its sum: 0 where nothing was counted, and a sum that nobody divides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..grammar.diagnostics import error
from . import defaults, ir
from .checkpoint import CheckpointMap, checkpoint_rows, own_names
from .config import Config
from .ir import Axis, Graph, Input, Length, Node, Output
from .lower import lower_entry
from .modules import Entry, Module

SUM, COUNT = "loss_sum", "loss_count"
TEXT = Axis("texts", Length("all texts"))
"""The batch of a model that an objective applies to several texts of each example."""


@dataclass(frozen=True)
class Term:
    """sum / count of a loss; the sum alone where the count is None."""

    sum: Node
    count: Node | None


def weight_rows(module: Module, config: Config, entry: str, graph: Graph) -> CheckpointMap:
    """The checkpoint map of a model; of an objective that of its model, and the spec's own names for what it adds."""
    written = module.written.get(entry)
    if written is None or written.of is None or written.kind != "objective":
        return checkpoint_rows(module, entry, graph, config)
    model = written.of.name
    known = {one.name for one in lower_entry(module.entries[model], config).weights}
    shared = tuple(one for one in graph.weights if one.name in known)
    own = tuple(one for one in graph.weights if one.name not in known)
    found = checkpoint_rows(module, model, replace(graph, weights=shared), config)
    return replace(found, rows=(*found.rows, *own_names(replace(graph, weights=own), config).rows))


def is_of_results(module: Module, entry: Entry) -> bool:
    """Whether an objective is written as a function of its model's results, which are then its inputs."""
    return entry.definition.kind == "objective" and entry.name in module.written and entry.definition.of is None


def whole(module: Module, config: Config, entry: Entry) -> Graph:
    """The objective of a model's inputs and its own. Raises all mistakes found on the way."""
    of = module.written[entry.name].of
    assert of is not None
    under = module.entries[of.name]
    outer = lower_entry(entry, config)
    batch = next(axis for one in outer.inputs for axis in one.axes if axis.ragged and axis.owner is None)
    each = under.definition.each.name if under.definition.each else ""
    inner = lower_entry(under, config, batch=TEXT if each else batch)
    results = {out.name: out for out in inner.outputs}
    groups = _groups(outer.inputs, batch, each, results)
    made = _with_defaults(module, config, entry, inner)
    results = {out.name: out for out in made.outputs}

    def change(one: Node) -> Node:
        if one.op != "input" or one["name"] not in results:
            return one
        return _grouped(results[str(one["name"])].node, groups)

    origins = {**made.origins, **outer.origins}
    joined = outer.rewrite(change, origins)
    known = {one.name for one in made.inputs}
    own = tuple(one for one in outer.inputs if one.name not in results and one.name not in known)
    weights = {one.name: one for one in (*made.weights, *outer.weights)}
    used = {one["name"] for one in ir.walk_all(joined.roots) if one.op == "weight"}
    read = {one["name"] for one in ir.walk_all(joined.roots) if one.op == "input"}
    inputs = tuple(one for one in (*made.inputs, *own) if one.required or one.name in read)
    kept = tuple(one for name, one in weights.items() if name in used)
    return replace(joined, inputs=inputs, weights=kept, each=each, groups=groups)


def _groups(
    inputs: Iterable[Input], batch: Axis, each: str, results: dict[str, Output]
) -> tuple[Axis, Axis] | None:
    """The axes of examples and of the texts of one; None where an example is one text."""
    if not each:
        return None
    inputs = tuple(inputs)
    found = next((axis for one in inputs for axis in one.axes if axis.name == each), None)
    for one in inputs:
        if one.name not in results and any(axis.counted and axis != found for axis in one.axes):
            raise error(
                "X992",
                f"`{one.name}` has a length of its own beside the texts of each {each}",
                help="Labels of such an objective are one for each example, or for each of its texts.",
            )
    return batch, found or Axis(each, Length(each), batch)


def _grouped(value: Node, groups: tuple[Axis, Axis] | None) -> Node:
    """value[text, …] as [batch, each, …]: text number batch · each + number."""
    if groups is None:
        return value
    batch, each = groups
    first = ir.apply("*", ir.index(batch), ir.size(each))
    return ir.pick(value, {TEXT: ir.apply("+", first, ir.index(each))})


def _with_defaults(module: Module, config: Config, entry: Entry, graph: Graph) -> Graph:
    """The model's graph with inputs that the objective makes of its labels, where a call leaves them out."""
    found = {one.name: one for one in defaults.of_loss(module, config, entry.name) if not one.reason}
    nodes = {name: lower_entry(one.entry, config).outputs[0].node for name, one in found.items()}

    def change(one: Node) -> Node:
        if one.op != "input" or one["name"] not in nodes or one.args:
            return one
        return ir.input_(one["name"], one.axes, one.kind, nodes[str(one["name"])])

    inputs = tuple(replace(one, required=False) if one.name in nodes else one for one in graph.inputs)
    return replace(graph.rewrite(change), inputs=inputs)


# ----------------------------------------------------------------------------------------------------- (sum, count)


def with_counts(graph: Graph) -> tuple[Graph, str]:
    """The graph with `loss_sum` and `loss_count`, one entry for each mean of the loss; and why not, if it has none."""
    if graph.batch is not None or any(out.name in (SUM, COUNT) for out in graph.outputs):
        return graph, ""
    loss = graph.outputs[0]
    if loss.axes:
        return graph, "it is no single number"
    batch = batch_of(graph)
    found, reason = terms(loss.node, batch)
    if reason:
        return graph, reason
    axis = Axis("term", len(found))
    none = (None,) * len(found)
    total = ir.concat([one.sum for one in found], none, axis)
    count = ir.concat([one.count or ir.const(0) for one in found], none, axis)
    return replace(graph, outputs=(*graph.outputs, Output(SUM, total, (axis,)), Output(COUNT, count, (axis,)))), ""


def batch_of(graph: Graph) -> Axis:
    """The examples of an objective."""
    if graph.groups is not None:
        return graph.groups[0]
    return next(axis for one in graph.inputs for axis in one.axes if axis.ragged and axis.owner is None)


def terms(loss: Node, batch: Axis) -> tuple[list[Term], str]:
    """The loss as a sum of quotients of sums over the batch; or why it is none."""
    found: list[Term] = []
    stack: list[tuple[Node, Node]] = [(loss, ir.const(1))]
    while stack:
        one, factor = stack.pop()
        term, reason = _quotient(one, batch)
        if reason:
            return [], reason
        if term is not None:
            found.append(Term(_times(factor, term.sum), term.count))
            continue
        below = _linear(one, factor)
        if below is None:
            return [], "it is no sum of means over the batch"
        stack += reversed(below)
    return found, ""


def _times(factor: Node, value: Node) -> Node:
    return value if factor is ir.const(1) else ir.apply("*", factor, value)


def _linear(one: Node, factor: Node) -> list[tuple[Node, Node]] | None:
    """The terms of a sum, each with its factor, a number of the spec; None for what is no sum."""
    if one.op != "map":
        return None
    match one["fn"]:
        case "+":
            return [(arg, factor) for arg in one.args]
        case "-":
            return [(one.args[0], factor), (one.args[1], ir.apply("neg", factor))]
        case "neg":
            return [(one.args[0], ir.apply("neg", factor))]
        case "*":
            for number, other in (one.args, one.args[::-1]):
                if _is_number(number):
                    return [(other, _times(factor, number))]
        case "/":
            if _is_number(one.args[1]):
                return [(one.args[0], ir.apply("/", factor, one.args[1]))]
    return None


def _is_number(one: Node) -> bool:
    return all(part.op in ("const", "map") for part in ir.walk([one]))


def _quotient(one: Node, batch: Axis) -> tuple[Term | None, str]:
    """sum / count of a mean, a sum, or a sum over a sum, all over the batch; and what is against it."""
    if one.op == "reduce" and batch in one["over"] and one["reduction"] in ("mean", "sum"):
        reason = _against(one, batch)
        if reason or one["reduction"] == "sum":
            return (None if reason else Term(one, None)), reason
        x, condition = one.args[0], one.args[1] if len(one.args) > 1 else None
        every = ir.widen_to(ir.const(True), one["over"]) if condition is None else condition
        return Term(ir.reduce("sum", x, one["over"], condition), ir.reduce("count", every, one["over"])), ""
    if one.op == "map" and one["fn"] == "where":  # Σ y / Σ w if Σ w > 0 else 0
        test, chosen, other = one.args
        if chosen.op == "map" and chosen["fn"] == "/" and chosen.args[1] in test.args and other is ir.const(0):
            return _quotient(chosen, batch)
    if one.op == "map" and one["fn"] == "/":
        above, below = (_quotient(arg, batch) for arg in one.args)
        if above[0] is not None and below[0] is not None and above[0].count is None and below[0].count is None:
            return Term(above[0].sum, below[0].sum), ""
        return None, above[1] or below[1]
    return None, ""


def _against(one: Node, batch: Axis) -> str:
    """What makes an entry of one example depend on others; '' if nothing does."""
    for part in ir.walk_all(one.args):
        over = (*part.get("over", ()), *(part.get("keys", ()) if part.op == "pick" else ()))
        if any(axis.size == batch.size and axis != batch for axis in part.axes) or batch in over:
            return "it compares the examples of a batch with each other"
    return ""
