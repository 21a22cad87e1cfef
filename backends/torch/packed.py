"""Packed rows in PyTorch: a method `rows` over the real tokens of a batch, and a `forward` that packs and pads.

The same parameters and results as over padded batches. Which tokens are there is seen when a batch comes, so a packed
module is for eager use: the padded one compiles and exports as one graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Node, Output
from ..numpy import attention
from ..numpy.border_text import header, leading, lengths_of
from ..numpy.mangling import Names
from ..numpy.rows import RowWriter, only_length, relations
from ..numpy.values import Unsupported, Value
from . import bounded
from .border import Border, bind_inputs, steps_of, stood_in, type_of_numbers
from .weights import WeightNames
from .writer import Dims, TorchWriter

LAW = "token-wise work runs on packed rows, attention per run of equal lengths"


class PackedTorchWriter(RowWriter, TorchWriter):
    """Writes the body of `rows`."""

    def __init__(self, graph: Graph, names: Names, weights: WeightNames) -> None:
        TorchWriter.__init__(self, graph, names, weights, {})
        self.deferred = relations(graph)

    def size(self, axis: Axis) -> str:
        if axis.ragged and axis.owner is not None:
            raise Unsupported("a value has a length outside its rows")
        return super().size(axis)

    def repeated(self, text: str) -> str:
        return f"{text}.repeat_interleave(lengths, dim=0)"

    def segments(self, kind: str, x: str, condition: str) -> str:
        self.need("reduce_examples")
        return f'reduce_examples("{kind}", {x}, runs{self.seen(condition)})'

    def softmax_of_rows(self, x: str, condition: str) -> str:
        self.need("softmax_of_examples")
        return f"softmax_of_examples({x}, runs, hidden{', ' + condition if condition else ''})"

    def sums_of_rows(self, x: str) -> str:
        self.need("sums_of_examples")
        return f"sums_of_examples({x}, runs)"

    def attend(self, one: Node, call: attention.Call) -> Value:
        """The call of the run-time function, with the rate at which weights are dropped."""
        options = list(call.options)
        at = kernel_table.parts(one)
        if "drop" in at:
            rate = self.value(at["drop"])
            if not rate.number:
                raise Unsupported("attention whose weights are dropped at rates that differ")
            options.append(f"drop={rate.text} if self.training else 0.0")
        if call.queries:
            options.append(f"queries={call.queries}")
        elif call.name == "attention_within" and "see" not in at and bounded.form(one) == bounded.Form(None, 0):
            options.append("causal=True")
        text = f"{call.name}({', '.join([*call.tensors, 'runs', *options])})"
        text = text if call.heads else f"{text}[:, 0]"
        if call.rows:
            text = f"{text}.unflatten(0, (-1, {', '.join(self.size(axis) for axis in call.rows)}))"
        return Value(text, "examples" if call.queries else "rows", (*call.rows, *call.heads, call.width))

    def places(self) -> TorchWriter:
        return PlaceWriter(self.graph, self.names, self.weights, {})


class PlaceWriter(TorchWriter):
    """Writes a function of the numbers of queries and keys of one example."""

    def shape(self, one: Node) -> tuple[str, Dims]:
        return "", tuple(axis for axis in one.axes if axis != self.batch)

    def size(self, axis: Axis) -> str:
        same = (text for other, text in self.by_axis.items() if axis.ragged and other.size == axis.size)
        return self.by_axis.get(axis) or next(same, "") or super().size(axis)

    def _size(self, one: Node) -> Value:
        return Value(self.size(one["axis"]), "", (), wide=True, number=True)

    def _place(self, key: Axis, value: Value) -> Value:
        return value  # examples begin at 0 here

    def _index(self, one: Node) -> Value:
        return Value(f"torch.arange({self.size(one['axis'])}, device=device)", "", (one["axis"],), wide=True)

    def visible(self, axes: Iterable[Axis], lead: str, dims: Dims) -> list[str]:
        if any(axis.ragged for axis in axes):
            raise Unsupported("a relation that looks along a length")
        return []


def write(graph: Graph, at: Border, names: Names, weights: WeightNames, source: str | None) -> PackedTorchWriter:
    """The method `rows` in the writer's lines. Raises `Unsupported` for what has no packed form."""
    only_length(graph)
    writer = PackedTorchWriter(graph, names, weights)
    writer.indent = 2
    bind_inputs(writer, graph, at)
    writer.body(graph.roots)
    results = [f'"{out.name}": {_result(writer, out)},' for out in graph.outputs]
    first = at.arguments[leading(graph).name]
    inputs = [f"{at.arguments[i.name]}: Tensor{'' if i.required else ' | None'}" for i in graph.inputs]
    arguments = ["self", "part: Part", *(["positions: Tensor"] if at.position_ids else []), *inputs]
    head = [
        *header("rows", arguments, "dict[str, Tensor]"),
        '        """The formulas, on n packed rows: the tokens of whole examples one after the other."""',
        f"        device, dtype = {first}.device, {type_of_numbers(graph, at, source)}",
        "        n, runs, lengths, hidden, index = part.n, part.runs, part.lengths, part.hidden, part.index",
    ]
    tail = ["        return {", *(f"            {line}" for line in results), "        }"]
    writer.lines = [*head, *writer.lines, *tail]
    return writer


def _result(writer: PackedTorchWriter, out: Output) -> str:
    """A result with its rows (or examples) first."""
    lead = "rows" if _length(writer.graph, out) is not None else "examples"
    dims = tuple(axis for axis in out.axes if not axis.counted and axis != writer.batch)
    value = writer.value(out.node)
    whole = value.lead == lead and set(value.dims) == set(dims)
    return writer.fit(value, lead, dims) if whole else writer.broadcast(value, lead, dims)


def _length(graph: Graph, out: Output) -> int | None:
    """The place of the length among a result's axes."""
    return next((place for place, a in enumerate(out.axes) if a.counted), None)


def entering(graph: Graph, at: Border, source: str | None) -> list[str]:
    """Lines that find the places of the padded batch, for what is computed from padded results."""
    (text,) = at.lengths.values()
    mask = at.masks.get(leading(graph).name)
    everything = f"torch.ones((batch, {text}), dtype=torch.bool, device=device)"
    names = ", ".join(f"{name}_{text}" for name in ("index", "real", "count", "first", "source"))
    return [
        f"device, dtype, batch = packing.index.device, {type_of_numbers(graph, at, source)}, packing.batch",
        f"{text} = packing.seq",
        f"visible_{text} = " + (f"{mask} != 0 if {mask} is not None else {everything}" if mask else everything),
        f"{names} = places(visible_{text})",
    ]


def forward(graph: Graph, at: Border) -> tuple[list[str], dict[str, str]]:
    """(lines of `forward` before its results, the results): a batch packed, computed part by part, padded again."""
    first = leading(graph)
    mask = at.masks.get(first.name, "None")
    lines = [*stood_in(graph, at), f"packing = Packing({at.arguments[first.name]}, {mask})"]
    given = ["part"]
    if at.position_ids:
        ids = f"{at.position_ids}.expand({at.arguments[first.name]}.shape[:2])"
        lines.append(f"positions = packing.index if {at.position_ids} is None else packing.rows({ids})")
        given.append("positions[part.at]")
    for one in graph.inputs:
        name, per_row = at.arguments[one.name], bool(lengths_of(graph, one))
        packed = f"packing.{'rows' if per_row else 'each'}({name})"
        chosen = f"{name}[part.{'at' if per_row else 'chosen'}]"
        lines.append(f"{name} = {packed if one.required else f'None if {name} is None else {packed}'}")
        given.append(chosen if one.required else f"None if {name} is None else {chosen}")
    lines += ["parts = [", "    self.rows(", *(f"        {text}," for text in given), "    )"]
    lines += ["    for part in packing.parts()", "]"]
    results = {}
    for out in graph.outputs:
        place = _length(graph, out)
        text = f'packing.{"batched" if place is None else "padded"}([part["{out.name}"] for part in parts])'
        text += f".movedim(1, {place})" if place not in (None, 1) else ""
        results[out.name] = steps_of(text, out.listed)
    return lines, results
