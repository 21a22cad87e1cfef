"""The objectives of a model as methods of its module: functions of padded results and labels, all examples at once.

Examples are moved to the left first, so that an entry's place is its index; `visible` says which of them count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from ..limits import mask_rows
from ..objectives import SEED, loss_rows, over_batch
from . import border_text, copying
from .border import LossRow
from .examples import bind_input
from .mangling import Names, comment, identifier
from .values import Unsupported, Value
from .writer import Writer

NEEDS = ("chosen_loss",)
LOCALS = (
    *("self", "given", "results", "count", "visible", "rows", "columns", "width"),
    *("weights", "loss", "gradients", "into", "groups", SEED),
)

Dims = tuple[Axis, ...]


class LossWriter(Writer):
    """Writes a function of a whole batch: every value has its batch as an axis like any other."""

    def __init__(self, graph: Graph, names: Names, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, None, None)
        self.length_texts = lengths

    def size(self, axis: Axis) -> str:
        if isinstance(axis.size, Length):
            return "count" if axis.owner is None else self.length_texts[axis.size.name]
        return super().size(axis)

    def visible(self, axes: Iterable[Axis], lead: str, dims: Dims) -> list[str]:
        axes = list(axes)
        return super().visible([a for a in dict.fromkeys((*axes, *dims)) if a in axes or a.owner in axes], lead, dims)

    def shown_along(self, axis: Axis) -> Value | None:
        if not isinstance(axis.size, Length) or axis.owner is None:
            return None
        return Value(f"visible_{self.length_texts[axis.size.name]}", "", (axis.owner, axis))

    def _size(self, one: Node) -> Value:
        axis = one["axis"]
        if axis.owner is None:
            return Value("count", "", (), wide=True, number=True)
        return Value(f"count_{self.length_texts[axis.size.name]}", "", one.axes, wide=True)

    def _weight(self, one: Node) -> Value:
        raise Unsupported("an objective with weights of its own")

    def begin_length(self, text: str) -> None:
        """Hook: more lines about a length, once its places are known."""

    def begin_rows(self) -> None:
        """Hook: lines about the rows of all tokens, once all lengths are known."""


def method(name: str) -> str:
    """The name of an objective's method; no parameter's name begins like this."""
    return f"_loss_{identifier(name)}"


W = TypeVar("W", bound=LossWriter)


def begun(compiled: Compiled, graph: Graph, kind: type[W], roots: Sequence[Node] = ()) -> W:
    """A writer with the lines of a function of `given`: the places of each length, the inputs, and all that is made.

    `roots` are what is made, by default the results of the graph.
    """
    names = Names((*copying.names(), *LOCALS))
    lengths: dict[str, str] = {}
    for one in graph.inputs:
        for length in border_text.lengths_of(graph, one):
            if length not in lengths:
                text = lengths[length] = names.fresh(length)
                for prefix in ("visible", "count", "places", "shape", "exists", "seen"):
                    names.fresh(f"{prefix}_{text}")
    writer = kind(graph, names, lengths)
    writer.indent = 2
    batch = over_batch(graph).batch
    first = next((one for one in graph.inputs if batch in one.axes and one.required), graph.inputs[0])
    writer.write(f'count = len(given["{first.name}"])')
    for length, text in lengths.items():
        length_lines(writer, compiled.formula, graph, length, text)
        writer.begin_length(text)
    begin_groups(writer)
    writer.begin_rows()
    _bind(writer, graph, lengths)
    writer.body(roots or graph.roots)
    return writer


def begin_groups(writer: LossWriter) -> None:
    """Where an example is several texts, they are a length of which all is there."""
    if writer.graph.groups is not None:
        each = writer.graph.groups[1]
        text = writer.length_texts[str(each.size)] = writer.names.fresh(str(each))
        writer.write(f"{text}, count_{text} = groups[1], np.full(groups[0], groups[1])")
        writer.write(f"visible_{text} = np.ones(groups, np.bool_)")
        writer.begin_length(text)


def write(compiled: Compiled, loss: Compiled) -> tuple[list[str], set[str]]:
    """The lines of the method of an objective, and the run-time functions that it calls."""
    graph = loss.graph
    writer = begun(compiled, graph, LossWriter)
    results = [f'"{out.name}": np.asarray({writer.value(out.node).text}, self.dtype)' for out in graph.outputs]
    writer.write(f"return {{{', '.join(results)}}}")
    head = border_text.header(method(loss.entry), ["self", "given: dict[str, NDArray[Any]]"], "dict[str, NDArray[Any]]")
    doc = f'        """The objective {comment(loss.entry, 60)} of a batch, from results and labels by their names."""'
    ignored = 'with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):'
    lines = ["    " + line if line else "" for line in writer.lines]
    return [*head, doc, f"        {ignored}", *lines], writer.used | set(NEEDS)


def _bind(writer: LossWriter, graph: Graph, lengths: dict[str, str]) -> None:
    """Each input as a variable, its examples moved to the left."""
    kinds = {one.name: one.kind for one in graph.inputs}
    spoken = {one.name: one.spec_name for one in graph.inputs}
    for node in walk_all(graph.roots):
        if node.op == "input":
            name = str(node["name"])
            text, moved = writer.names.name(name, spoken[name]), _moved(writer.graph, name, node, lengths)
            if node.args:  # its default stands in where it is not given
                writer.write(f'{text} = {moved} if "{name}" in given else None')
                bind_input(writer, node, text, ("", node.axes))
                continue
            writer.write(f"{text} = {moved}")
            writer.memo[node] = Value(text, "", node.axes, wide=kinds[name] in ("int", "bool"))


def length_lines(writer: Writer, formula: Graph, graph: Graph, length: str, text: str) -> None:
    """The places of a length's entries in the padded batch, and which may be seen."""
    fit = [i for i in graph.inputs if any(_is(axis, length) for axis in i.axes)]
    told = next((i for i in fit if i.required), fit[0])
    at = next(number for number, axis in enumerate(told.axes) if _is(axis, length))
    masks = {_length_of(formula, masked): mask for mask, masked in mask_rows(formula)}
    shape = f"shape_{text}"
    mask = f'given.get("{masks[length]}", np.ones({shape}))' if length in masks else f"np.ones({shape})"
    writer.need("align_left", "left_aligned")
    writer.write(f'{shape} = (count, given["{told.name}"].shape[{at}])')
    writer.write(f"places_{text}, count_{text}, visible_{text} = align_left({mask})")
    writer.write(f"{text} = visible_{text}.shape[1]")


def _is(axis: Axis, length: str) -> bool:
    return isinstance(axis.size, Length) and axis.size.name == length


def _length_of(graph: Graph, name: str) -> str:
    one = next(i for i in graph.inputs if i.name == name)
    return border_text.lengths_of(graph, one)[0]


def _moved(graph: Graph, name: str, node: Node, lengths: dict[str, str]) -> str:
    """An input with each example moved to the left along its length."""
    apart = graph.groups or ()
    ragged = [(at, axis) for at, axis in enumerate(node.axes) if axis.counted and axis not in apart]
    if not ragged:
        return f'given["{name}"]'
    (at, axis), *more = ragged
    assert isinstance(axis.size, Length)
    if at != 1 or more:
        raise Unsupported("an objective over two lengths at once")
    text = lengths[axis.size.name]
    return f'left_aligned(given["{name}"], places_{text}, {text})'


@dataclass
class Losses:
    """The objectives that a module can compute: their methods, what these call, and what a call may look like."""

    methods: list[list[str]]
    needs: set[str]
    rows: tuple[LossRow, ...]

    @property
    def inputs(self) -> list[str]:
        """The names of labels."""
        return list(dict.fromkeys(one[0] for row in self.rows for one in row[1]))

    def wrapped(self, call: list[str]) -> list[str]:
        """The lines of a call, with the objective's results in front where its labels are given."""
        if not self.rows:
            return call
        *lines, last = call
        methods = ", ".join(f'"{row[0]}": self.{method(row[0])}' for row in self.rows)
        return [
            "        asked = wanted",
            "        if loss is not None:",
            "            wanted = [row[0] for row in OUTPUTS if row[0] in asked or row[0] in loss[2]]",
            *lines,
            last.replace("return ", "found = ", 1),
            "        if loss is None:",
            "            return found",
            f"        objectives = {{{methods}}}",
            "        made = objectives[loss[0]]({**given, **found})",
            "        return {**made, **{name: found[name] for name in asked}}",
        ]


def parts(compiled: Compiled) -> Losses:
    """Those objectives that can be written; there is a ledger line for each other one."""
    methods: list[list[str]] = []
    needs: set[str] = set()
    written = []
    for loss in compiled.losses:
        try:
            lines, used = write(compiled, loss)
        except Unsupported as reason:
            compiled.ledger.refused("schedule", "loss", f"{loss.entry} is computed from results", str(reason))
            continue
        methods.append(lines)
        needs |= used
        written.append(loss)
    return Losses(methods, needs, loss_rows(replace(compiled, losses=tuple(written))))
