"""States of a loop over packed rows: a state keeps its buffer, and the next state is written into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Node
from ...compiler.passes.fold_scales import is_product
from . import loops
from .values import Value
from .writer import Writer

if TYPE_CHECKING:
    from .packed import PackedWriter


def start_state(writer: PackedWriter, one: Node, slot: int, name: str, first: Value) -> Value:
    """The variable of a state: its first value's own memory where nobody else reads that."""
    arg = one.args[slot]
    own = first.buffer is not None and first.text.isidentifier() and writer.dies(arg)
    if own and one["slots"] == 1 and len(first.dims) == 1 and not is_kept(writer, one, slot):
        assert first.buffer is not None
        writer.buffers.pass_on(first.buffer, 10**9)
        return Value(first.text, first.lead, first.dims, buffer=first.buffer)
    name = writer.names.fresh(name)
    if (
        "schedule" not in writer.graph.plan
        or one["slots"] > 1
        or first.lead == ""
        or len(first.dims) != 1
        or is_kept(writer, one, slot)
    ):
        writer.write(f"{name} = np.array({first.text}, {writer.dtype})")
        return Value(name, first.lead, first.dims)
    buffer = writer.buffers.take(10**9)
    writer.need("scratch")
    shape = ", ".join(writer.lead_sizes(first.lead) + [writer.size(axis) for axis in first.dims])
    writer.write(f'{name} = scratch("{buffer}", ({shape}), {writer.dtype})')
    writer.write(f"{name}[...] = {first.text}")
    return Value(name, first.lead, first.dims, buffer=buffer)


def is_kept(writer: PackedWriter, one: Node, slot: int) -> bool:
    return (one["loop"], slot) in loops.kept(writer, one)


def step(writer: PackedWriter, one: Node, names: list[str], states: list[Value]) -> None:
    """One step: the body, its last product written into the buffer of the state that it replaces."""
    buffer = states[0].buffer
    if buffer is None:
        outer = keep_outer(writer)
        Writer.step(writer, one, names, states)
        release_inner(writer, outer)
        return
    prefer(writer, one["body"][0], buffer)
    before, writer.wanted = writer.wanted, (*writer.wanted, buffer)
    outer = keep_outer(writer)
    del writer.buffers.held[buffer]
    watch_state(writer, one, buffer)
    writer.final[one["body"][0]] = names[0], loops.carried(one), buffer
    writer.body(one["body"])
    finish(writer, one, names, states, buffer)
    writer.wanted = before
    release_inner(writer, outer)
    if buffer in writer.buffers.free:
        writer.buffers.free.remove(buffer)
    writer.buffers.held[buffer] = writer.last.get(one, writer.here)
    users = [n for n in writer.place if n.op in ("state", "history") and n.args[0] is one]
    for user in users:
        writer.buffers.hold(buffer, writer.last.get(user, writer.place[user]))


def keep_outer(writer: PackedWriter) -> dict[str, int]:
    """What lies outside a loop stays while it runs; returns how long each buffer was held before."""
    outer = dict(writer.buffers.held)
    for other in outer:
        writer.buffers.hold(other, 10**9)
    return outer


def release_inner(writer: PackedWriter, outer: dict[str, int]) -> None:
    """After the loop: its own buffers are free, the others are held as long as before."""
    for other in list(writer.buffers.held):
        if other in outer:
            writer.buffers.held[other] = outer[other]
        else:
            del writer.buffers.held[other]
            writer.buffers.free.append(other)


def watch_state(writer: PackedWriter, one: Node, buffer: str) -> None:
    writer.state_buffer = buffer
    writer.state_carries = set(loops.carried(one))


def prefer(writer: PackedWriter, result: Node, buffer: str) -> None:
    """The chain of overwriting kernels that ends in the next state should start in the state's own buffer."""
    here = result
    while here.op == "kernel" and here["name"] != "attention":
        writer.preferred[here] = buffer
        here = kernel_table.parts(here)["x"]
    writer.preferred[here] = buffer
    for arg in here.args:
        if here.op == "map" and is_product(arg):
            writer.preferred[arg] = buffer


def finish(writer: PackedWriter, one: Node, names: list[str], states: list[Value], buffer: str) -> None:
    """The next state is in the state's variable, by name if it lies in its buffer, else copied."""
    value = writer.value(one["body"][0])
    state = states[0]
    if value.buffer == buffer and value.text.isidentifier() and value.dims == state.dims:
        if value.text != names[0]:
            writer.write(f"{names[0]} = {value.text}")
        return
    if value.text != names[0]:
        writer.write(f"{names[0]}[...] = {writer.fit(value, state.lead, state.dims)}")
    elif value.dims != state.dims:  # an array of its own, turned
        writer.write(f"{names[0]} = {writer.fit(value, state.lead, state.dims)}")
