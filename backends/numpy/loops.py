"""Loops over layers stay loops: a state is a variable that each step replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir import Node, walk, walk_all
from . import branching
from .values import Unsupported, Value

if TYPE_CHECKING:
    from .writer import Writer


def write(writer: Writer, one: Node) -> Value:
    """Writes a loop node: its first states, the `for`, and the next states at the end of each step."""
    ident, slots = one["loop"], one["slots"]
    first = [writer.value(arg) for arg in one.args[:slots]]
    stop = writer.value(one.args[slots])
    carries = carried(one)
    names = [state_name(writer, one, slot) for slot in range(slots)]
    states = [writer.start_state(one, slot, names[slot], first[slot]) for slot in range(slots)]
    names = [state.text for state in states]
    for slot, state in enumerate(states):
        if (ident, slot) in kept(writer, one):
            writer.histories[ident, slot] = writer.names.fresh(f"{names[slot]}_states")
            writer.write(f"{writer.histories[ident, slot]} = [{writer.copied(names[slot])}]")
        writer.memo[("like", ident, slot)] = state  # type: ignore[index]
        for carry in carries:
            if carry["slot"] == slot:
                writer.memo[carry] = state
    branching.announce(writer, one)
    variable = writer.counters[ident] = writer.names.fresh(one["name"] or "step")
    start = f"{one['start']}, " if one["start"] else ""
    writer.write(f"for {variable} in range({start}{writer.last_step(one, stop)}):")
    writer.indent += 1
    writer.step(one, names, states)
    writer.indent -= 1
    for slot, state in enumerate(states):
        writer.memo[one, slot] = state  # type: ignore[index]
    return Value(names[0], states[0].lead, states[0].dims)


def step(writer: Writer, one: Node, names: list[str], states: list[Value]) -> None:
    """The lines of one step; each next state has the shape of the first."""
    writer.body(one["body"])
    new = []
    for part, state in zip(one["body"], states, strict=True):
        value = writer.value(part)
        text = writer.fit(value, state.lead, state.dims)
        if len(value.dims) < len(state.dims) or value.lead != state.lead:
            text = writer.broadcast(value, state.lead, state.dims)
        if value.buffer is not None or branching.is_selected(writer, part):  # the state outlives the step's memory
            text = writer.copied(text)
        new.append(Value(text, state.lead, state.dims))
    end_step(writer, one, names, new)


def state(writer: Writer, made: Node, slot: int) -> Value:
    """The last state of a loop, which is written first if it is not there yet."""
    writer.value(made)
    return writer.memo[made, slot]  # type: ignore[index]


def past(writer: Writer, one: Node) -> Value:
    """An earlier state, inside the loop."""
    like = writer.memo[("like", one["loop"], one["slot"])]  # type: ignore[index]
    number = writer.value(one.args[0])
    return Value(f"{writer.histories[one['loop'], one['slot']]}[{number.text}]", like.lead, like.dims)


def state_name(writer: Writer, one: Node, slot: int) -> str:
    """The name that the spec gives the state."""
    return writer.origin(one["body"][slot]).name or writer.origin(one).name or "state"


def carried(one: Node) -> list[Node]:
    """The nodes of a body that stand for its states at the start of a step."""
    return [part for part in walk(one["body"]) if part.op == "carry" and part["loop"] == one["loop"]]


def kept(writer: Writer, one: Node) -> set[tuple[int, int]]:
    """The states whose whole history somebody reads."""
    found: set[tuple[int, int]] = set()
    for part in walk_all(writer.graph.roots):
        if part.op == "history" and part.args[0]["loop"] == one["loop"]:
            found.add((one["loop"], part["slot"]))
        if part.op == "past" and part["loop"] == one["loop"]:
            found.add((one["loop"], part["slot"]))
    return found


def end_step(writer: Writer, one: Node, names: list[str], new: list[Value]) -> None:
    """Puts the next states in their variables, all at once, and into the histories."""
    pairs = [(name, value.text) for name, value in zip(names, new, strict=True) if value.text != name]
    if pairs:
        writer.write(f"{', '.join(n for n, _ in pairs)} = {', '.join(t for _, t in pairs)}")
    for slot, name in enumerate(names):
        if (one["loop"], slot) in writer.histories:
            writer.write(f"{writer.histories[one['loop'], slot]}.append({writer.copied(name)})")


def recalled(writer: Writer, one: Node, like: Value) -> Value:
    """A state of any number of a finished loop; numbers along an axis choose one each."""
    made = one.args[0]
    number = writer.value(one.args[1])
    states, shift = writer.histories[made["loop"], one["slot"]], f" - {made['start']}" if made["start"] else ""
    if not number.dims and not number.lead:
        return Value(f"{states}[{number.text}{shift}]", like.lead, like.dims)
    if number.lead or set(number.dims) & set(like.dims):
        raise Unsupported("states chosen by numbers that differ from example to example")
    if like.lead:
        text = f"np.stack({states}, axis=1)[:, np.asarray({number.text}{shift}, np.intp)]"
        return Value(text, like.lead, (*number.dims, *like.dims), owned=True)
    text = f"np.stack({states})[np.asarray({number.text}{shift}, np.intp)]"
    return Value(text, "", (*number.dims, *like.dims), owned=True)


def running_sum(writer: Writer, one: Node, value: Value) -> Value:
    """At each entry of the length the sum up to it."""
    at = value.dims.index(one["axis"])
    return Value(f"np.cumsum({value.text}, axis={at})", value.lead, value.dims, owned=True, wide=value.wide)
