"""An objective as a module of its own: from the inputs of its model and its labels to the loss, all examples at once.

Every value has the examples as an axis like any other, each example moved to the left. What the formulas draw is
decided by `seed`, with the numbers that the reference has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...compiler import kernels as kernel_table
from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from ..objectives import SEED, draws, label_rows, over_batch
from . import attended, border_text, copying, examples
from .losses import begin_groups, length_lines
from .mangling import Names
from .parameters import Parameters
from .selecting import Selecting
from .values import Unsupported, Value, transposed

NEEDS = ("check_labels", "put_back")
LOCALS = ("self", "given", "wanted", "results", "count", "groups", "positions", SEED)


class ObjectiveWriter(Selecting):
    """Writes a function of a whole batch with parameters of its own."""

    def __init__(self, graph: Graph, names: Names, lengths: dict[str, str], parameters: Parameters) -> None:
        super().__init__(graph, names, lengths)
        self.parameters = parameters

    def _kernel(self, one: Node) -> Value:
        """The cross-entropy of products of rows is made in pieces."""
        if one["name"] != "product_cross_entropy" or one["outside"] is not None:
            return super()._kernel(one)
        at, axis, width = kernel_table.parts(one), one["axis"], one["width"]
        x, label = self.value(at["x"]), self.value(at["label"])
        rows = tuple(dict.fromkeys((*(a for a in x.dims if a != width), *label.dims)))
        whole = set(x.dims) == {*rows, width}
        wide = self.fit(x, "", (*rows, width)) if whole else self.broadcast(x, "", (*rows, width))
        table = transposed(self.value(at["table"]), (axis, width))
        bias = self.value(at["bias"]).text if "bias" in at else "None"
        smoothing = f", {float(one['smoothing'])!r}" if one["smoothing"] else ""
        self.need("product_cross_entropy")
        if rows == label.dims and len(rows) == 1:
            text = f"product_cross_entropy({wide}, {table.text}, {bias}, {label.text}{smoothing})"
            return Value(text, "", rows, owned=True)
        sizes = ", ".join(self.size(a) for a in rows)
        place = f"np.broadcast_to({self.fit(label, '', rows)}, ({sizes},)).reshape(-1)"
        flat = f"{wide}.reshape(-1, {self.size(width)})"
        text = f"product_cross_entropy({flat}, {table.text}, {bias}, {place}{smoothing}).reshape({sizes})"
        return Value(text, "", rows, owned=True)

    def _position(self, one: Node) -> Value:
        return Value("positions", "", one.axes, wide=True)


@dataclass
class Objective:
    """The lines of a call, the method that it calls, and the run-time functions that both need."""

    call: list[str]
    body: list[str]
    needs: set[str]


def write(compiled: Compiled, names: Names, parameters: Parameters) -> Objective:
    """The parts of a module that computes an objective. Raises `Unsupported` for what has no NumPy form."""
    graph = over_batch(compiled.graph)
    lengths: dict[str, str] = {}
    for one in graph.inputs:
        for length in border_text.lengths_of(graph, one):
            if length not in lengths:
                text = lengths[length] = names.fresh(length)
                for prefix in ("visible", "count", "places", "shape"):
                    names.fresh(f"{prefix}_{text}")
    writer = ObjectiveWriter(graph, names, lengths, parameters)
    writer.indent = 2
    first = next(one for one in graph.inputs if graph.batch in one.axes and one.required)
    writer.write(f'count = len(given["{first.name}"])')
    for length, text in lengths.items():
        length_lines(writer, compiled.graph, graph, length, text)
    _positions(writer, graph, lengths)
    begin_groups(writer)
    writer.begin_rows()
    _bind(writer, graph, lengths)
    writer.body(graph.roots)
    attended.tell(writer, compiled.ledger)
    for out in graph.outputs:
        writer.write(f'if "{out.name}" in wanted:')
        writer.write(f'    results["{out.name}"] = {_result(writer, graph, out.node, out.axes)}')
    shown = ["self", "given: dict[str, NDArray[Any]]", "wanted: list[str]", *typed(graph)]
    head = [
        *border_text.header("objective", shown, "dict[str, NDArray[Any]]"),
        '        """The formulas, over all examples of a batch."""',
        "        results: dict[str, NDArray[Any]] = {}",
        '        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):',
    ]
    body = [*head, *("    " + line if line else "" for line in writer.lines), "        return results"]
    return Objective(_call(graph, compiled.formula), body, writer.used | set(NEEDS))


def _call(graph: Graph, formula: Graph) -> list[str]:
    checks = [f"        {line}" for line in checked(formula)]
    return [*checks, f"        return self.objective({', '.join(['given', 'wanted', *further(graph)])})"]


def checked(formula: Graph) -> list[str]:
    """The lines of a call that look at its labels."""
    rows = tuple(label_rows(formula))
    return [f"check_labels(given, INPUTS, MASKS, {rows!r})"] if rows else []


def further(graph: Graph) -> list[str]:
    """What the method of an objective takes besides."""
    return [*(["groups"] if graph.groups else []), *([SEED] if draws(graph) else [])]


def typed(graph: Graph) -> list[str]:
    """The same with types."""
    types = {"groups": "tuple[int, int]", SEED: "int"}
    return [f"{name}: {types[name]}" for name in further(graph)]


def _positions(writer: ObjectiveWriter, graph: Graph, lengths: dict[str, str]) -> None:
    """The position ids of the first length: the order, unless they are given."""
    if not any(one.op == "position" for one in walk_all(graph.roots)):
        return
    text = next(iter(lengths.values()))
    writer.need("left_aligned")
    writer.write('positions = given.get("position_ids")')
    writer.write("if positions is None:")
    writer.write(f"    positions = np.broadcast_to(np.arange({text}), (count, {text}))")
    writer.write("else:")
    writer.write(f"    positions = np.broadcast_to(positions, shape_{text})")
    writer.write(f"    positions = left_aligned(positions, places_{text}, {text})")


def _bind(writer: ObjectiveWriter, graph: Graph, lengths: dict[str, str]) -> None:
    """Each input as a variable, its examples moved to the left; one that may be left out has its default."""
    names = {one.name: writer.names.fresh(one.spec_name) for one in graph.inputs}
    required = {one.name for one in graph.inputs if one.required}
    bound: Iterable[Node] = [one for one in walk_all(graph.roots) if one.op == "input"]
    for one in bound:
        name = str(one["name"])
        text, found = names[name], f'given["{name}"]' if name in required else f'given.get("{name}")'
        writer.write(f"{text} = {found}")
        moved = _moved(writer, one, text, lengths)
        if moved and name not in required:
            writer.write(f"if {text} is not None:")
            moved = "    " + moved
        if moved:
            writer.write(moved)
        examples.bind_input(writer, one, text, writer.shape(one))


def _moved(writer: ObjectiveWriter, one: Node, text: str, lengths: dict[str, str]) -> str:
    """The line that moves each example of an input to the left along its length."""
    groups = writer.graph.groups or ()
    along = [(at, axis) for at, axis in enumerate(one.axes) if axis.counted and axis not in groups]
    if not along:
        return ""
    (at, axis), *more = along
    assert isinstance(axis.size, Length)
    if at != 1 or more:
        raise Unsupported("an objective over two lengths of one input")
    writer.need("left_aligned")
    length = lengths[axis.size.name]
    return f"{text} = left_aligned({text}, places_{length}, {length})"


def _result(writer: ObjectiveWriter, graph: Graph, node: Node, axes: tuple[Axis, ...]) -> str:
    """A result with its axes in order, at the caller's places."""
    value = writer.value(node)
    text = writer.fit(value, "", axes) if set(value.dims) == set(axes) else writer.broadcast(value, "", axes)
    kind = "" if value.wide and node.kind != "real" else ", self.dtype"
    along = [(at, axis) for at, axis in enumerate(axes) if axis.counted and axis not in (graph.groups or ())]
    if not along:
        return f"np.asarray({text}{kind})"
    (at, axis), *more = along
    if at != 1 or more or not isinstance(axis.size, Length):
        raise Unsupported("a result with two lengths")
    length = writer.length_texts[axis.size.name]
    return f"put_back(np.asarray({text}{kind}), places_{length}, shape_{length})"


def reserved() -> tuple[str, ...]:
    """Names that no variable may have."""
    return (*copying.names(), *LOCALS)
