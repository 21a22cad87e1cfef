"""Packed rows: the tokens of all examples of a chunk one after the other, attention per example.

A value has one of three leads: `rows` (it has the length), `examples` (it has the batch but no length), or none (it is
the same for all). What needs two lengths of one example at once is attention's business, or `Unsupported` here.
"""

from __future__ import annotations

from typing import Any

from ...compiler import kernels as kernel_table
from ...compiler.arithmetic import index_only
from ...compiler.ir import Axis, Graph, Node, walk
from ...compiler.passes.fold_scales import is_product
from ...compiler.passes.parameters import is_parameter
from ..limits import checked_picks
from . import attention, lengths, overwriting, products, states
from .buffers import Buffers, last_reads
from .mangling import Names
from .parameters import Parameters
from .values import VIEWS, Unsupported, Value, aligned
from .writer import Writer

TEXTS = ("map", "reduce", "contract", "kernel", "concat", "rank")
"""Operations whose text reads memory when it is evaluated: such text stands on a line of its own, at its place."""


class PackedWriter(Writer):
    """Writes a function over packed rows: `lengths`, `hidden`, `index` and `positions` describe them."""

    packs = True

    def __init__(self, graph: Graph, names: Names, parameters: Parameters, batch: Axis) -> None:
        super().__init__(graph, names, parameters, batch)
        self.buffers = Buffers()
        self.absorbed: set[Node] = set()  # products that the sum with their bias writes
        self.wanted: tuple[str, ...] = ()  # buffers that a loop's next state should start in
        self.state_buffer: str | None = None
        self.state_carries: set[Node] = set()
        self.deferred = _relations(graph)
        self.checked = checked_picks(graph)
        self.rooms = self.overwrites = 0
        self.final: dict[Node, tuple[str, list[Node], str]] = {}
        self.last: dict[Node, int] = {}
        self.place: dict[Node, int] = {}
        self.preferred: dict[Node, str] = {}
        self.here = 0

    # -------------------------------------------------------------------------------------------------- shapes

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        """The lead (rows, examples or none) and the other axes; two lengths of one example are `Unsupported`."""
        lengths = [axis for axis in one.axes if axis.ragged and axis != self.batch]
        if len(lengths) > 1 or any(axis.owner != self.batch for axis in lengths):
            raise Unsupported("a value has two lengths of one example outside attention")
        dims = tuple(axis for axis in one.axes if axis != self.batch and axis not in lengths)
        lead = "rows" if lengths else "examples" if self.batch in one.axes else ""
        return lead, dims

    def fit(self, value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
        if value.lead == "examples" and lead == "rows":
            inner = aligned(value, "examples", dims)
            return f"np.repeat({inner}, lengths, axis=0)"
        return aligned(value, lead, dims)

    def lead_sizes(self, lead: str) -> list[str]:
        return {"rows": ["n"], "examples": ["len(lengths)"], "": []}[lead]

    def visible(self, axes: Any, lead: str, dims: tuple[Axis, ...]) -> list[str]:
        if any(axis.ragged for axis in axes):
            raise Unsupported("a kernel along a length")
        return []

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        """Which value is read last where: it decides what may be overwritten."""
        flows = {one for one in order if one.op in VIEWS or one in self.absorbed or self._flows(one)}
        flows |= set(self.defaults)  # an input that is left out lies in its default's memory
        self.last = last_reads(order, roots, flows)
        self.place = {one: number for number, one in enumerate(order)}
        if self.state_buffer is not None:  # a state's buffer is free once the step has read it for the last time
            self.buffers.held[self.state_buffer] = max((self.last.get(c, -1) for c in self.state_carries), default=-1)
            self.state_buffer = None

    def settled(self, one: Node, found: Value) -> Value:
        made = super().settled(one, found)
        if one.op in TEXTS and not made.text.isidentifier() and not made.number and not self._flows(one):
            return self.assigned(one, made)  # its operands' memory may be used again after this line
        return made

    def _flows(self, one: Node) -> bool:
        """Whether a value is text that its only reader evaluates (an update in place is a line of its own)."""
        if one.op != "map" or self.readers.get(one, 0) > 1:
            return False
        first = one.args[0]
        fresh = first.op in ("contract", "pick") or (first.op == "kernel" and first["name"] == "attention")
        return not (one["fn"] in ("+", "-", "*", "/") and fresh and self.readers.get(first, 0) <= 1)

    def made(self, one: Node) -> Value:
        """Writes the node, then frees the memory that it read for the last time."""
        self.here = self.place.get(one, self.here)
        found = super().made(one)
        if found.buffer is not None:
            self.buffers.hold(found.buffer, self.last.get(one, self.here))
        if one in self.place:
            self.buffers.release(self.here)
        return found

    # -------------------------------------------------------------------------------------------------- leaves

    def _index(self, one: Node) -> Value:
        if one["axis"].ragged:
            return Value("index", "rows", (), wide=True)
        return super()._index(one)

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
        text = self.fit(value, lead, value.dims)
        if not value.lead:
            text = (
                f"np.broadcast_to({text}, ({', '.join(self.lead_sizes(lead) + [self.size(a) for a in value.dims])},))"
            )
        return Value(text, lead, value.dims, buffer=value.buffer, wide=value.wide)

    # ------------------------------------------------------------------------------------------------- scratch

    def room(self, one: Node, shape: str) -> tuple[str | None, str]:
        """A scratch buffer for a value, and the text that gives it."""
        if "schedule" not in self.graph.plan:
            return None, f"np.empty(({shape}), {self.dtype})"
        self.rooms += 1
        preferred = self.preferred.get(one)
        name = self.buffers.take(self.last.get(one, self.here), preferred, self.wanted)
        self.need("scratch")
        return name, f'scratch("{name}", ({shape}), {self.dtype})'

    def memory(self) -> dict[str, int]:
        """What the schedule saved, for the ledger."""
        told = {
            f"large values lie in {len(self.buffers.known)} buffers": self.rooms,
            "kernels write over their argument": self.overwrites,
        }
        return {text: count for text, count in told.items() if count}

    def dies(self, arg: Node) -> bool:
        """Whether the line being written is the last that reads it; what comes from outside a loop is read again."""
        inside = arg in self.place or arg in self.state_carries
        return inside and self.last.get(arg, self.here) <= self.here

    # ----------------------------------------------------------------------------------------- entry by entry

    def _map(self, one: Node) -> Value:
        if one["fn"] == "+":
            for product, bias in (one.args, one.args[::-1]):
                if product in self.memo or not is_product(product) or not is_parameter(bias):
                    continue
                found = products.linear(self, one, product, bias)
                if found is not None:
                    return found
        return overwriting.updated(self, one) or super()._map(one)

    def is_ready(self, one: Node) -> bool:
        return super().is_ready(one) or one in self.absorbed or one in self.deferred

    def _enter(self, one: Node) -> bool:
        return super()._enter(one) or (one in self.absorbed and one not in self.memo)  # it reads, though it has no line

    def name_for(self, one: Node, wish: str, buffer: str | None) -> str:
        """A fresh name; the next state of a loop may take the state's own once that is read no more.

        Not if it lies in another value's buffer, which would then be written over while the state is still read.
        """
        if one in self.final:
            name, carries, home = self.final[one]
            if buffer in (None, home) and all(self.last.get(carry, -1) <= self.here for carry in carries):
                return name
        return self.names.fresh(wish)

    def assigned(self, one: Node, found: Value, wish: str = "") -> Value:
        name = self.name_for(one, wish or self.origin(one).name or "t", found.buffer)
        self.explain(one)
        self.write(f"{name} = {found.text}")
        return found.named(name)

    def body(self, roots: Any) -> None:
        roots = tuple(roots)
        before = self.last, self.place, self.here
        self.absorbed = self.absorbed | products.with_bias(self, roots)
        super().body(roots)
        self.last, self.place, self.here = before

    @staticmethod
    def seen(condition: str = "") -> str:
        """The argument that leaves hidden rows out of a sum over an example."""
        if condition:
            return f", ({condition}) if hidden is None else ({condition}) & ~hidden"
        return ", None if hidden is None else ~hidden"

    # ------------------------------------------------------------------------------- in files of their own

    def _contract(self, one: Node) -> Value:
        return products.contracted(self, one)

    def _reduce(self, one: Node) -> Value:
        return lengths.reduced(self, one)

    def _pick(self, one: Node) -> Value:
        return lengths.picked(self, one)

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        return states.start_state(self, one, slot, name, first)

    def step(self, one: Node, names: list[str], before: list[Value]) -> None:
        states.step(self, one, names, before)

    def _rank(self, one: Node) -> Value:
        if one["axis"].ragged:
            raise Unsupported("a rank along a length")
        return super()._rank(one)

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        at = kernel_table.parts(one)
        name = one["name"]
        if name == "attention":
            return attention.write(self, one, at)
        if name in kernel_table.POINTWISE:
            return overwriting.in_place(self, one, at, ())
        if name in ("layer_norm", "rms_norm"):
            if one["axis"].ragged:
                raise Unsupported(f"{name} along a length")
            return overwriting.in_place(self, one, at, (one["axis"],))
        if name == "running_sum":
            return lengths.running_sum(self, at)
        if one["axis"].ragged:
            return lengths.softmax_of_length(self, one, at)
        return super()._kernel(one)


def _relations(graph: Graph) -> set[Node]:
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
