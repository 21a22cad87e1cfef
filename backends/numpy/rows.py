"""Packed rows, whatever writes them: the tokens of all examples one after the other, attention per example.

A value has one of three leads: `rows` (it has the length), `examples` (it has the batch but no length), or none (it is
the same for all). What needs two lengths of one example at once is attention's business, or `Unsupported` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...compiler import kernels as kernel_table
from ...compiler.arithmetic import index_only
from ...compiler.ir import Axis, Graph, Node, walk
from . import attention, lengths
from .values import Unsupported, Value
from .writer import Writer


class RowWriter(Writer):
    """What packed rows mean. A target's own writer comes after it among the bases, and writes all the rest."""

    packs = True
    deferred: set[Node]  # relations that attention asks for by the lengths of each example

    # -------------------------------------------------------------------------------------------------- shapes

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        """The lead (rows, examples or none) and the other axes; two lengths of one example are `Unsupported`."""
        lengths = [axis for axis in one.axes if axis.counted]
        if len(lengths) > 1 or any(axis.owner != self.batch for axis in lengths):
            raise Unsupported("a value has two lengths of one example outside attention")
        dims = tuple(axis for axis in one.axes if axis != self.batch and axis not in lengths)
        lead = "rows" if lengths else "examples" if self.batch in one.axes else ""
        return lead, dims

    def fit(self, value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
        text = super().fit(value, value.lead or lead, dims)
        return self.repeated(text) if value.lead == "examples" and lead == "rows" else text

    def repeated(self, text: str) -> str:
        """Each example's entry once for each of its rows."""
        return f"np.repeat({text}, lengths, axis=0)"

    def lead_sizes(self, lead: str) -> list[str]:
        return {"rows": ["n"], "examples": ["len(lengths)"], "": []}[lead]

    def visible(self, axes: Iterable[Axis], lead: str, dims: tuple[Axis, ...]) -> list[str]:
        if any(axis.ragged for axis in axes):
            raise Unsupported("a kernel along a length")
        return []

    def is_ready(self, one: Node) -> bool:
        return super().is_ready(one) or one in self.deferred

    # -------------------------------------------------------------------------------------------------- leaves

    def _index(self, one: Node) -> Value:
        return Value("index", "rows", (), wide=True) if one["axis"].ragged else super()._index(one)

    def _position(self, one: Node) -> Value:
        return Value("positions", "rows", (), wide=True)

    def _size(self, one: Node) -> Value:
        return Value("lengths", "examples", (), wide=True)

    def _widen(self, one: Node) -> Value:
        """Along the batch or a length: the same entry for each example, or for each of its rows."""
        if not one["axis"].ragged:
            return super()._widen(one)
        value, (lead, _) = self.value(one.args[0]), self.shape(one)
        if value.lead == lead:
            return value
        text = self.fit(value, lead, value.dims) if value.lead else self.broadcast(value, lead, value.dims)
        return Value(text, lead, value.dims, buffer=value.buffer, wide=value.wide)

    # --------------------------------------------------------------------------------------- along the lengths

    def _reduce(self, one: Node) -> Value:
        along = any(axis.ragged for axis in one["over"])
        return lengths.reduced(self, one) if along else super()._reduce(one)

    def _contract(self, one: Node) -> Value:
        along = any(axis.ragged for axis in one["over"])
        return lengths.product_over_length(self, one) if along else super()._contract(one)

    def einsum(self, one: Node, values: list[Value], lead: str, dims: tuple[Axis, ...]) -> Value:
        fitted = [
            Value(self.fit(v, lead, v.dims), lead, v.dims, wide=v.wide) if v.lead and v.lead != lead else v
            for v in values
        ]
        return super().einsum(one, fitted, lead, dims)

    def _pick(self, one: Node) -> Value:
        along = any(key.ragged for key in one["keys"])
        return lengths.row_of_example(self, one) if along else super()._pick(one)

    def _loop(self, one: Node) -> Value:
        if one.args[one["slots"]].axes:
            raise Unsupported("a loop over a length")
        return super()._loop(one)

    def _rank(self, one: Node) -> Value:
        if one["axis"].ragged:
            raise Unsupported("a rank along a length")
        return super()._rank(one)

    def segments(self, kind: str, x: str, condition: str) -> str:
        """The text of a reduction over each example's rows; a condition is one entry a row."""
        return lengths.segments(self, kind, x, condition)

    def softmax_of_rows(self, x: str, condition: str) -> str:
        """The text of a softmax over each example's rows."""
        if condition:
            raise Unsupported("softmax along a length")
        self.need("segment_softmax")
        return f"segment_softmax({x}, lengths{self.seen()})"

    def sums_of_rows(self, x: str) -> str:
        """The text of the sums of each example's rows up to each."""
        self.need("segment_cumsum")
        return f"segment_cumsum({x}, lengths)"

    @staticmethod
    def seen(condition: str = "") -> str:
        """The argument that leaves hidden rows out of a sum over an example."""
        if condition:
            return f", ({condition}) if hidden is None else ({condition}) & ~hidden"
        return ", None if hidden is None else ~hidden"

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        name, at = one["name"], kernel_table.parts(one)
        if name == "attention" and not self._has_queries(at):
            return self.value(kernel_table.expanded(one))
        if name == "attention":
            return self.attend(one, attention.read(self, one, at))
        if name in kernel_table.POINTWISE or not one["axis"].ragged:
            return super()._kernel(one)
        if name == "running_sum":
            return lengths.running_sum(self, at)
        if name == "softmax":
            return lengths.softmax_of_length(self, at)
        raise Unsupported(f"{name} along a length")

    def keys(self, axis: Axis, key: Value, value: Value) -> attention.Keys:
        """The rows that attention over `axis` looks at."""
        if key.lead != "rows" or value.lead != "rows":
            raise Unsupported("attention whose query or keys are not tokens")
        return attention.Keys()

    def _has_queries(self, at: Mapping[str, Node]) -> bool:
        """Whether each example asks; pooling has one query for all, and scores that are no product have none."""
        return "query" in at and self.batch in at["query"].axes

    def attend(self, one: Node, call: attention.Call) -> Value:
        """The lines that call the run-time kernel."""
        return attention.write(self, one, call)

    def places(self) -> Writer:
        """A writer for a function of the numbers of queries and keys, in the present scope."""
        return Writer(self.graph, self.names, self.parameters, self.batch)

    def room(self, one: Node, shape: str) -> tuple[str | None, str]:
        """Memory for a value: the name of a scratch buffer, if it lies in one, and the text that gives it."""
        return None, f"np.empty(({shape}), {self.dtype})"


def relations(graph: Graph) -> set[Node]:
    """Masks and biases of places alone: attention asks for them by the lengths of each example."""
    found: set[Node] = set()
    for one in graph.nodes():
        if one.op == "kernel" and one["name"] == "attention":
            at = kernel_table.parts(one)
            found.update(at[role] for role in ("see", "bias") if role in at and index_relation(at[role]))
    return found


def index_relation(one: Node) -> bool:
    """Whether a relation or bias is made of places (and parameters) only."""
    return index_only(one) or all(
        leaf.op in ("index", "size", "const", "table", "counter", "weight") for leaf in walk([one]) if not leaf.args
    )


def only_length(graph: Graph) -> None:
    """Rows are packed along the one length that the inputs have, or not at all."""
    found: set[Any] = {a.size for i in graph.inputs for a in i.axes if a.counted}
    if len(found) != 1:
        raise Unsupported("the inputs have no length, or several")
