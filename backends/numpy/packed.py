"""Packed rows in NumPy: matrix products into scratch memory, kernels and sums that overwrite what nobody reads more."""

from __future__ import annotations

from typing import Any

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Node
from ...compiler.passes.fold_scales import is_product
from ...compiler.passes.parameters import is_parameter
from ..limits import checked_picks
from . import copies, lengths, overwriting, products, states
from .buffers import Buffers, last_reads
from .mangling import Names
from .parameters import Parameters
from .rows import RowWriter, relations
from .values import VIEWS, Value

TEXTS = ("map", "reduce", "contract", "kernel", "concat", "rank")
"""Operations whose text reads memory when it is evaluated: such text stands on a line of its own, at its place."""


class PackedWriter(RowWriter):
    """Writes a function over packed rows: `lengths`, `hidden`, `index` and `positions` describe them."""

    def __init__(self, graph: Graph, names: Names, parameters: Parameters, batch: Axis) -> None:
        super().__init__(graph, names, parameters, batch)
        self.buffers = Buffers()
        self.absorbed: set[Node] = set()  # products that the sum with their bias writes
        self.wanted: tuple[str, ...] = ()  # buffers that a loop's next state should start in
        self.state_buffer: str | None = None
        self.state_carries: set[Node] = set()
        self.deferred = relations(graph)
        self.checked = checked_picks(graph)
        self.rooms = self.overwrites = 0
        self.final: dict[Node, tuple[str, list[Node], str]] = {}
        self.last: dict[Node, int] = {}
        self.place: dict[Node, int] = {}
        self.preferred: dict[Node, str] = {}
        self.here = 0

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        """Which value is read last where: it decides what may be overwritten."""
        flows = {one for one in order if one.op in VIEWS or one in self.absorbed or self._flows(one)}
        flows |= set(self.defaults)  # an input that is left out lies in its default's memory
        flows |= set(self.sides)  # a selection lies in that of the side that is chosen
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
        here = self.here = self.place.get(one, self.here)
        found = super().made(one)
        self.here = here
        if found.buffer is not None:
            self.buffers.hold(found.buffer, self.last.get(one, self.here))
        if one in self.place:
            self.buffers.release(self.here)
        return found

    # ------------------------------------------------------------------------------------------------- scratch

    def room(self, one: Node, shape: str) -> tuple[str | None, str]:
        """A scratch buffer for a value, and the text that gives it."""
        if "schedule" not in self.graph.plan:
            return super().room(one, shape)
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
        return super().is_ready(one) or one in self.absorbed

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

    # ------------------------------------------------------------------------------- in files of their own

    def _contract(self, one: Node) -> Value:
        found = products.linear(self, one, one, None) if is_product(one) else None
        return found or super()._contract(one)

    def _pick(self, one: Node) -> Value:
        along = any(key.ragged for key in one["keys"])
        return super()._pick(one) if along else lengths.picked(self, one)

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        return states.start_state(self, one, slot, name, first)

    def step(self, one: Node, names: list[str], before: list[Value]) -> None:
        states.step(self, one, names, before)

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        name, at = one["name"], kernel_table.parts(one)
        if name in kernel_table.POINTWISE:
            return overwriting.in_place(self, one, at, ())
        if name in copies.NORMS and not one["axis"].ragged:
            return overwriting.in_place(self, one, at, (one["axis"],))
        return super()._kernel(one)
