"""Losses and gradients as methods of a module: `loss_and_gradients`, by the objective whose labels are given.

The weights are read as the checkpoint has them, so that an optimiser may change them in place, and gradients have the
names and layouts of the stored tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...compiler.differentiation import GRADIENT
from ...compiler.driver import Compiled
from ...compiler.ir import Graph, Node, apply, const, index, state
from ...compiler.training import TOTALS
from ...grammar.diagnostics import error
from . import border_text, objective
from .gradient_writer import GradientWriter
from .losses import Dims, begun
from .mangling import comment, identifier
from .values import Unsupported, transposed

NEEDS = ("stored_zeros", "weight_views", "fill_weights", "add_gradient", "if_any_not", "AdamW")


def method(name: str) -> str:
    """The name of the method of an objective's gradients."""
    return f"_gradients_{identifier(name)}"


def write(compiled: Compiled, loss: Compiled) -> tuple[list[str], set[str]]:
    """The lines of the method of an objective's loss and gradients, and the run-time functions that it calls."""
    graph = loss.graph
    roots = [_last(out.node) if _of_layers(out.node, out.axes) else out.node for out in graph.outputs]
    writer = begun(compiled, graph, GradientWriter, roots)
    first, *rest = graph.outputs
    writer.write(f"loss = float({writer.value(first.node).text})")
    writer.write("gradients = stored_zeros(CHECKPOINT, self.dtype)")
    writer.write("into = weight_views(gradients, CHECKPOINT)")
    for out in rest:
        if out.name.startswith(GRADIENT) and out.node is not _nothing(graph, out.node):
            text = _gradient(writer, out.node, out.axes)
            writer.write(f'add_gradient(into["{out.name.removeprefix(GRADIENT)}"], {text})')
    writer.write("return loss, gradients")
    result = "tuple[float, dict[str, NDArray[Any]]]"
    more = objective.typed(graph) if compiled.kind == "objective" else ["seed: int | None"]
    head = border_text.header(method(loss.entry), ["self", "given: dict[str, NDArray[Any]]", *more], result)
    doc = f'        """The objective {comment(loss.entry, 60)} of a batch, and its gradients by stored names."""'
    ignored = 'with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):'
    lines = ["    " + line if line else "" for line in writer.lines]
    return [*head, doc, "        weights = self.weights", f"        {ignored}", *lines], writer.used | set(NEEDS)


def _nothing(graph: Graph, one: Node) -> Node | None:
    """The node itself where it is 0 everywhere."""
    bare = one
    while bare.op == "widen":
        bare = bare.args[0]
    return one if bare is const(0.0) else None


def _gradient(writer: GradientWriter, one: Node, axes: Dims) -> str:
    """The gradient with the axes of its weight; one of a stack as the list of what each layer's step has made."""
    if _of_layers(one, axes):  # from the last step, which is the first layer's
        like = writer.value(_last(one))
        order = [like.dims.index(axis) for axis in axes[1:]]
        states = f"{writer.histories[one.args[0]['loop'], one['slot']]}[:0:-1]"
        turned = f"[one.transpose({', '.join(map(str, order))}) for one in {states}]"
        return states if order == sorted(order) else turned
    value = writer.value(one)
    return transposed(value, axes).text if set(value.dims) == set(axes) else writer.broadcast(value, "", axes)


def _of_layers(one: Node, axes: Dims) -> bool:
    """Whether a gradient is made of the states of a backward loop, one for each entry of the weight's first axis."""
    if one.op != "history" or not axes or one.axes[0] != axes[0]:
        return False
    loop, number = one.args
    stop = loop.args[loop["slots"]]
    return not loop["start"] and stop.op == "const" and number is apply("-", stop, index(axes[0]))


def _last(one: Node) -> Node:
    """The state after the last step, of a state of any number."""
    return state(one.args[0], one["slot"])


@dataclass
class Gradients:
    """The losses that a module can differentiate: their methods, and what these call."""

    methods: list[list[str]]
    needs: set[str]
    names: tuple[str, ...]
    alone: Graph | None = None  # the formulas of an objective that is the module
    terms: int = 0  # of its loss

    @property
    def doc(self) -> list[str]:
        """What `loss_and_gradients` says of itself."""
        if self.alone is None:
            told = "With a seed dropout acts, by draws of this seed."
            return [f"{told} ValueError where the labels of no objective are given."]
        cut = "`totals`: the loss_count of all parts of a batch, where this is one of them; loss and gradients add up."
        return ["Nothing is dropped out.", *([cut] if self.terms else [])]

    def call(self) -> list[str]:
        """The last lines of `loss_and_gradients`: the method of the objective, that whose labels are given."""
        if self.alone is not None:
            given = ", ".join(["given", *objective.further(self.alone)])
            totals = f"given |= checked_totals(totals, {self.terms}, self.dtype)"
            return [*objective.checked(self.alone), totals, f"return self.{method(self.names[0])}({given})"]
        table = ", ".join(f'"{name}": self.{method(name)}' for name in self.names)
        return [f"objectives = {{{table}}}", "return objectives[loss[0]](given, seed)"]


def parts(compiled: Compiled) -> Gradients:
    """Those gradients that can be written; there is a ledger line for each other one."""
    methods: list[list[str]] = []
    needs: set[str] = set()
    names = []
    for loss in compiled.gradients or ():
        if any(one.name == "seed" for one in loss.graph.inputs):
            told = "no input can be called `seed`: loss_and_gradients takes that of dropout by it"
            raise error("X992", told, help="Say `as` another name.")
        try:
            lines, used = write(compiled, loss)
        except Unsupported as reason:
            compiled.ledger.refused("differentiate", "write", f"the gradients of {loss.entry}", str(reason))
            continue
        methods.append(lines)
        needs |= used
        names.append(loss.entry)
    if compiled.gradients is not None and not names:
        refused = [line.reason for line in compiled.ledger.lines if line.pass_name == "differentiate"]
        told = refused[0] if refused else "the spec has no objective of it, or rows of its results were chosen"
        raise error("X992", f"`{compiled.entry}` has no loss with gradients: {told}")
    if compiled.gradients and compiled.kind == "objective":
        graph = compiled.gradients[0].graph
        terms = next((int(str(one.axes[0].size)) for one in graph.inputs if one.name == TOTALS), 0)
        read = any(one.op == "input" and one["name"] == TOTALS for one in graph.nodes())
        return Gradients(methods, {*needs, "checked_totals"}, tuple(names), compiled.formula, terms if read else 0)
    return Gradients(methods, needs | {"chosen_loss"} if methods else needs, tuple(names))
