"""Losses and gradients as methods of a module: `loss_and_gradients`, by the objective whose labels are given.

The weights are read as the checkpoint has them, so that an optimiser may change them in place, and gradients have the
names and layouts of the stored tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...compiler.differentiation import GRADIENT
from ...compiler.driver import Compiled
from ...compiler.ir import Graph, Node, Output, apply, const, index, state
from ...compiler.training import TOTALS
from ...grammar.diagnostics import error
from ..objectives import SEED
from . import attended, border_text, objective
from .gradient_writer import GradientWriter
from .losses import Dims, begun
from .mangling import comment, identifier
from .values import Unsupported

NEEDS = ("stored_zeros", "weight_views", "fill_weights", "add_gradient", "if_any_not", "AdamW")


def method(name: str) -> str:
    """The name of the method of an objective's gradients."""
    return f"_gradients_{identifier(name)}"


def write(compiled: Compiled, loss: Compiled) -> tuple[list[str], set[str]]:
    """The lines of the method of an objective's loss and gradients, and the run-time functions that it calls."""
    graph = loss.graph
    first, *rest = graph.outputs
    stacks = {one.name: one.stack for one in graph.weights}
    found = [Part(name, stacks[name], out.axes, one) for out in rest for name, one in _terms(out)]
    roots = [first.node, *(node for part in found for node in part.reads())]
    writer = begun(compiled, graph, GradientWriter, roots)
    writer.write(f"loss = float({writer.value(first.node).text})")
    writer.write(f"gradients = stored_zeros(CHECKPOINT, self.dtype{_whole(writer, found)})")
    writer.write("into = weight_views(gradients, CHECKPOINT)")
    for part in found:
        writer.write(part.line(writer))
    writer.write("return loss, gradients")
    attended.tell(writer, loss.ledger)
    for text, times in writer.counted.items():
        loss.ledger.fired("schedule", "memory", f"{times} {text}")
    result = "tuple[float, dict[str, NDArray[Any]]]"
    more = [*(["groups: tuple[int, int]"] if graph.groups else []), f"{SEED}: int | None"]
    head = border_text.header(method(loss.entry), ["self", "given: dict[str, NDArray[Any]]", *more], result)
    doc = f'        """The objective {comment(loss.entry, 60)} of a batch, and its gradients by stored names."""'
    ignored = 'with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):'
    lines = ["    " + line if line else "" for line in writer.lines]
    return [*head, doc, "        weights = self.weights", f"        {ignored}", *lines], writer.used | set(NEEDS)


def _whole(writer: GradientWriter, parts: Sequence[Part]) -> str:
    """The argument with tables that may become the tensors of their weights: each is memory that nobody else has."""
    count = Counter(part.one for part in parts)
    first = {part.name: part for part in reversed(parts) if not part.stack and part.one.op != "scatter"}
    tables = (part for part in first.values() if len(part.axes) > 1 and count[part.one] == 1)
    own = [part for part in tables if writer.is_own(part.one, part.axes)]
    texts = [f'"{part.name}": {writer.value(part.one).text}' for part in own]
    return f", {{{', '.join(texts)}}}" if texts else ""


def _terms(out: Output) -> list[tuple[str, Node]]:
    """The name of the weight that a result is the gradient of, with each term of the sum that it is; zeros are none."""
    if not out.name.startswith(GRADIENT):
        return []
    found, stack = [], [out.node]
    while stack:
        one = stack.pop()
        if one.op == "map" and one["fn"] == "+" and all(set(arg.axes) == set(out.axes) for arg in one.args):
            stack += reversed(one.args)
        elif _bare(one) is not const(0.0):
            found.append((out.name.removeprefix(GRADIENT), one))
    return found


def _bare(one: Node) -> Node:
    while one.op == "widen":
        one = one.args[0]
    return one


@dataclass(frozen=True)
class Part:
    """A term of the gradient of a weight, and how it is added: to all, to one of a stack, to some rows of a table."""

    name: str
    stack: Dims
    axes: Dims
    one: Node

    def _is_entry(self) -> bool:
        """Whether the term is of one entry of a stack."""
        if self.one.op != "scatter" or set(self.one["keys"]) != set(self.stack):
            return False
        return all(place.op == "const" for place in self.one.args[1:])

    def _steps(self) -> tuple[Node, int] | None:
        """(states of a backward loop, where they begin) if the term is of entries of a stack, one after another."""
        one = self.one
        if one.op != "scatter" or one["keys"] != self.stack or len(one.args) != 2:
            return None
        number, begin = one.args[1], 0
        if number.op == "map" and number["fn"] == "+" and number.args[1].op == "const":
            number, begin = number.args[0], int(number.args[1]["value"])
        made, axis = one.args[0], number.get("axis")
        fits = number.op == "index" and _of_layers(made, (axis, *(a for a in self.axes if a not in self.stack)))
        return (made, begin) if fits else None

    def reads(self) -> tuple[Node, ...]:
        """What must be written before."""
        steps = self._steps()
        if steps is not None or _of_layers(self.one, self.axes):
            return (_last(steps[0] if steps else self.one),)
        return self.one.args if self.one.op == "scatter" else (self.one,)

    def line(self, writer: GradientWriter) -> str:
        """The line that adds it."""
        into, rest, steps = f'into["{self.name}"]', tuple(a for a in self.axes if a not in self.stack), self._steps()
        if _of_layers(self.one, self.axes):  # from the last step, which is the first layer's
            return f"add_gradient({into}, {_states(writer, self.one, self.axes[1:])})"
        if steps is not None:
            text = _states(writer, steps[0], rest)
            return f"add_gradient({into}[{steps[1]} : {steps[1] + int(str(steps[0].axes[0].size))}], {text})"
        if self._is_entry():
            at = dict(zip(self.one["keys"], self.one.args[1:], strict=True))
            places = "".join(f"[{int(at[axis]['value'])}]" for axis in self.stack)
            return f"add_gradient({into}{places}, {_laid_out(writer, self.one.args[0], rest)})"
        if self.one.op == "scatter" and not self.stack:
            text, dims = writer.scattered(self.one)
            if dims == self.axes:
                writer.need("scatter_into")
                return f"scatter_into({into}, {text})"
        return f"add_gradient({into}, {_laid_out(writer, self.one, self.axes)})"


def _states(writer: GradientWriter, one: Node, axes: Dims) -> str:
    """The list of what each layer's step has made, the first layer's first."""
    like = writer.value(_last(one))
    order = [like.dims.index(axis) for axis in axes]
    states = f"{writer.histories[one.args[0]['loop'], one['slot']]}[:0:-1]"
    turned = f"[one.transpose({', '.join(map(str, order))}) for one in {states}]"
    return states if order == sorted(order) else turned


def _laid_out(writer: GradientWriter, one: Node, axes: Dims) -> str:
    return writer.whole(writer.value(one), axes)


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
    grouped: bool = False  # whether an example is several texts

    @property
    def doc(self) -> list[str]:
        """What `loss_and_gradients` says of itself."""
        told = "With a seed dropout acts, by draws of this seed."
        if self.alone is None:
            return [f"{told} ValueError where the labels of no objective are given."]
        cut = "`totals`: the loss_count of all parts of a batch, where this is one of them; loss and gradients add up."
        return [told, *([cut] if self.terms else [])]

    def call(self) -> list[str]:
        """The last lines of `loss_and_gradients`: the method of the objective, that whose labels are given."""
        if self.alone is not None:
            given = ", ".join(["given", *(["groups"] if self.alone.groups else []), SEED])
            totals = f"given |= checked_totals(totals, {self.terms}, self.dtype)"
            return [*objective.checked(self.alone), totals, f"return self.{method(self.names[0])}({given})"]
        table = ", ".join(f'"{name}": self.{method(name)}' for name in self.names)
        given = ", ".join(["given", *(["groups"] if self.grouped else []), SEED])
        return [f"objectives = {{{table}}}", f"return objectives[loss[0]]({given})"]


def parts(compiled: Compiled) -> Gradients:
    """Those gradients that can be written; there is a ledger line for each other one."""
    methods: list[list[str]] = []
    needs: set[str] = set()
    names = []
    for loss in compiled.gradients or ():
        if any(one.name == SEED for one in loss.graph.inputs):
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
    grouped = bool(compiled.formula.each)
    return Gradients(methods, needs | {"chosen_loss"} if methods else needs, tuple(names), grouped=grouped)
