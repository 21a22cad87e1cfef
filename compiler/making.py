"""Making nodes: a function for each core operation, which finds out the axes and the kind of its result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from ..grammar.diagnostics import InternalError
from . import ops
from .nodes import Axis, Node, invariants, node


def union(nodes: Iterable[Node]) -> tuple[Axis, ...]:
    """All axes of the nodes, each once, in the order of first sight."""
    return tuple(dict.fromkeys(axis for one in nodes for axis in one.axes))


def drawing_order(axes: Iterable[Axis]) -> list[Axis]:
    """The order in which the places of a draw's entries decide it: the examples, then axes by their names."""
    return sorted(axes, key=lambda a: (a.owner is not None or isinstance(a.size, int), a.name, a.tag))


def const(value: bool | int | float | Fraction) -> Node:
    """A number or truth value without axes; fractions stay exact."""
    if isinstance(value, bool):
        return node("const", kind="bool", value=value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
        return node("const", kind="real", value=Fraction(int(value)))
    exact = Fraction(value) if isinstance(value, int) else value
    kind = "int" if isinstance(value, int) or (isinstance(value, Fraction) and value.denominator == 1) else "real"
    return node("const", kind=kind, value=exact)


def table(values: Iterable[bool | Fraction | float], axis: Axis) -> Node:
    """The given numbers (or truth values) along an axis."""
    values = tuple(values)
    whole = all(isinstance(v, Fraction) and v.denominator == 1 for v in values)
    kind = "bool" if all(isinstance(v, bool) for v in values) else "int" if whole else "real"
    return node("table", (), (axis,), kind, values=values, axis=axis)


def input_(name: str, axes: Iterable[Axis], kind: str, default: Node | None = None) -> Node:
    """What the caller gives under `name`."""
    return node("input", () if default is None else (default,), axes, kind, name=name)


def weight(name: str, axes: Iterable[Axis]) -> Node:
    """A parameter, by the path of its instance."""
    return node("weight", (), axes, name=name)


def index(axis: Axis) -> Node:
    """0, 1, … along the axis."""
    return node("index", (), (axis,), "int", axis=axis)


def position(axis: Axis) -> Node:
    """The position ids along a length."""
    return node("position", (), _owned(axis), "int", axis=axis)


def size(axis: Axis) -> Node:
    """The number of entries along the axis: a constant, or one number per owner."""
    if isinstance(axis.size, int):
        return const(axis.size)
    return node("size", (), (axis.owner,) if axis.owner else (), "int", axis=axis)


def _owned(axis: Axis) -> tuple[Axis, ...]:
    return (axis.owner, axis) if axis.owner else (axis,)


def apply(fn: str, *args: Node) -> Node:
    """The scalar function `fn` of ops.FUNCTIONS, entry by entry."""
    row = ops.FUNCTIONS[fn]
    return node("map", args, union(args), row.kind(tuple(one.kind for one in args)), fn=fn)


def where(condition: Node, value: Node, otherwise: Node) -> Node:
    """value where the condition holds, otherwise elsewhere; the other side is never looked at."""
    if condition.op == "const":
        return widen_to(value if condition["value"] else otherwise, union((value, otherwise)))
    return apply("where", condition, value, otherwise)


def _owners(over: Iterable[Axis], have: Iterable[Axis]) -> tuple[Axis, ...]:
    """Reducing a length leaves one result per owner, even where the operand does not know the owner."""
    over, have = tuple(over), tuple(have)
    return tuple(a.owner for a in over if a.owner and a.owner not in over and a.owner not in have)


def contract(left: Node, right: Node, over: Iterable[Axis]) -> Node:
    """Σ over `over` of left * right, all other common axes aligned."""
    over = tuple(over)
    both = union((left, right))
    kept = tuple(axis for axis in both if axis not in over)
    kind = "real" if "real" in (left.kind, right.kind) else "int"
    return node("contract", (left, right), _owners(over, kept) + kept, kind, over=over)


def reduce(kind: str, value: Node, over: Iterable[Axis], condition: Node | None = None) -> Node:
    """`kind` over the axes of value (and of the condition), only where the condition holds."""
    over = tuple(over)
    args = (value,) if condition is None else (value, condition)
    kept = tuple(axis for axis in union(args) if axis not in over)
    result = ops.REDUCTIONS[kind].kind(value.kind)
    return node("reduce", args, _owners(over, kept) + kept, result, reduction=kind, over=over)


def pick(value: Node, at: Mapping[Axis, Node]) -> Node:
    """value at the numbers `at`, which align with each other and with the axes that stay."""
    kept = tuple(axis for axis in value.axes if axis not in at)
    axes = tuple(dict.fromkeys((*kept, *union(at.values()))))
    return node("pick", (value, *at.values()), axes, value.kind, keys=tuple(at))


def rename(value: Node, pairs: Mapping[Axis, Axis]) -> Node:
    """The same entries under other axes; axes owned by a renamed axis change owner with it."""
    full = {old: renamed(old, pairs) for old in value.axes}
    full = {old: new for old, new in full.items() if old != new}
    if not full:
        return value
    if value.op == "index":
        return index(full[value["axis"]])
    if value.op == "rename":
        inner: dict[Axis, Axis] = dict(value["pairs"])
        base = value.args[0]
        middle = {old: inner.get(old, old) for old in base.axes}
        return rename(base, {old: full.get(axis, axis) for old, axis in middle.items()})
    axes = tuple(full.get(axis, axis) for axis in value.axes)
    if len(set(axes)) != len(axes):
        raise InternalError(f"rename makes one axis of two: {axes}")
    return node("rename", (value,), axes, value.kind, pairs=tuple(full.items()))


def renamed(axis: Axis, pairs: Mapping[Axis, Axis]) -> Axis:
    """The axis after renaming: by itself, or because its owner was."""
    if axis in pairs:
        return pairs[axis]
    if axis.owner is not None and axis.owner in pairs:
        return Axis(axis.name, axis.size, pairs[axis.owner], axis.tag)
    return axis


def split(value: Node, axis: Axis, into: Iterable[Axis]) -> Node:
    """One axis as several, the last running fastest."""
    into = tuple(into)
    axes = tuple(b for a in value.axes for b in (into if a == axis else (a,)))
    return node("split", (value,), axes, value.kind, axis=axis, into=into)


def merge(value: Node, axes: Iterable[Axis], into: Axis) -> Node:
    """Several axes as one, the last running fastest."""
    gone = tuple(axes)
    kept = tuple(a for a in value.axes if a not in gone)
    return node("merge", (value,), (*kept, into), value.kind, gone=gone, into=into)


def concat(parts: Iterable[Node], axes: Iterable[Axis | None], into: Axis) -> Node:
    """Parts one after the other along their axis (None: the part is one entry), as the axis `into`."""
    parts, axes = tuple(parts), tuple(axes)
    kept = tuple(a for a in union(parts) if a not in axes)
    kind = "real" if any(one.kind == "real" for one in parts) else parts[0].kind
    return node("concat", parts, (*kept, into), kind, along=axes, into=into)


def widen(value: Node, axis: Axis) -> Node:
    """The value repeated along a new axis."""
    return value if axis in value.axes else node("widen", (value,), (*value.axes, axis), value.kind, axis=axis)


def owned(value: Node, axis: Axis) -> Node:
    """The value for each owner of the axis: how many entries there are differs among them."""
    return value if axis.owner is None else widen(value, axis.owner)


def widen_to(value: Node, axes: Iterable[Axis]) -> Node:
    """The value with all of these axes."""
    for axis in axes:
        value = widen(value, axis)
    return value


def scatter(value: Node, at: Mapping[Axis, Node], axes: Iterable[Axis]) -> Node:
    """The value added up at the numbers `at`, as an array of `axes`; all other axes of value and numbers are summed."""
    return node("scatter", (value, *at.values()), axes, "real", keys=tuple(at))


def total(values: Iterable[Node], over: Iterable[Axis]) -> Node:
    """Σ over `over` of the product of one or two values, of all entries that exist, hidden or not."""
    values, over = tuple(values), tuple(over)
    return node("total", values, tuple(a for a in union(values) if a not in over), "real", over=over)


def visible(axis: Axis) -> Node:
    """Whether each entry along a length may be seen, for each owner."""
    return node("visible", (), _owned(axis), "bool", axis=axis)


def rank(value: Node, axis: Axis) -> Node:
    """How many entries along the axis are larger, ties by order."""
    return node("rank", (value,), value.axes, "int", axis=axis)


def selected(condition: Node, among: Iterable[Axis], axis: Axis | None, into: Axis) -> Node:
    """The places along `axis` at which the condition holds, one after the other; of no axis: that a place counts."""
    kind = "bool" if axis is None else "int"
    return node("selected", (condition,), (into,), kind, among=tuple(among), axis=axis, into=into)


def existing(among: Iterable[Axis], axis: Axis, into: Axis) -> Node:
    """The places along `axis` of all entries that exist, hidden ones too, one after the other."""
    return node("selected", (const(True),), (into,), "int", among=tuple(among), axis=axis, into=into, hidden=True)


def order(key: Node, axis: Axis) -> Node:
    """The place of the i-th smallest key along the axis, equal ones by their order."""
    return node("order", (key,), key.axes, "int", axis=axis)


def repeat(times: Node, axis: Axis, into: Axis) -> Node:
    """For each entry of `into` its place along the axis, where entry i stands times[i] times."""
    axes = tuple(into if one == axis else one for one in times.axes)
    return node("repeat", (times,), axes, "int", axis=axis, into=into)


def counter(loop: int) -> Node:
    """The number of the step inside a loop."""
    return node("counter", kind="int", loop=loop)


def carry(loop: int, slot: int, like: Node) -> Node:
    """State `slot` at the start of a step; it has the axes and kind of its first value."""
    return node("carry", (), like.axes, like.kind, loop=loop, slot=slot)


def past(loop: int, slot: int, like: Node, number: Node) -> Node:
    """The state of another number, inside the loop."""
    return node("past", (number,), tuple(dict.fromkeys((*number.axes, *like.axes))), like.kind, loop=loop, slot=slot)


def loop(
    ident: int, axis: Axis, start: int, steps: Node, first: Iterable[Node], body: Iterable[Node], name: str = ""
) -> Node:
    """Runs `body` (the next states, over carry, counter and past nodes of this loop) `steps` times.

    All nodes of the body that do not depend on the step are arguments, and so are computed once, outside.
    """
    first, body = tuple(first), tuple(body)
    outside = tuple(one for one in invariants(body, ident) if one not in (*first, steps))
    return node(
        "loop",
        (*first, steps, *outside),
        union(first),
        loop=ident,
        axis=axis,
        start=start,
        slots=len(first),
        body=body,
        name=name,
    )


def state(made: Node, slot: int) -> Node:
    """The last state of a loop."""
    like = made.args[slot]
    return node("state", (made,), like.axes, like.kind, slot=slot)


def history(made: Node, slot: int, number: Node) -> Node:
    """The state of any number of a finished loop."""
    like = made.args[slot]
    return node("history", (made, number), tuple(dict.fromkeys((*number.axes, *like.axes))), like.kind, slot=slot)


def draw(kind: str, args: Iterable[Node], axes: Iterable[Axis], result: str, site: str, **attrs: Any) -> Node:
    """A random draw: `site` names its own stream; a map of the arguments' axes and `axes`."""
    args = tuple(args)
    full = tuple(dict.fromkeys((*union(args), *axes)))
    full = tuple(a for a in full if a != attrs.get("axis"))
    return node("random", args, full, result, draw=kind, site=site, **attrs)


def kernel(name: str, args: Iterable[Node], axes: Iterable[Axis], kind: str = "real", **attrs: Any) -> Node:
    """A recognised meaning (see compiler/kernels.py), which backends may have a fast form for."""
    return node("kernel", args, axes, kind, name=name, **attrs)


def append(name: str, value: Node, along: Axis, into: Axis, numbers: Iterable[Node] = ()) -> Node:
    """The rows that earlier calls kept under `name` (and the steps' numbers), then the value's; kept for the next."""
    args = (value, *numbers)
    axes = tuple(into if axis == along else axis for axis in value.axes)
    return node("append", args, axes, value.kind, name=name, along=along, into=into)


def keep(name: str, value: Node, numbers: Iterable[Node] = ()) -> Node:
    """The value, which later calls read as `stored`."""
    return node("keep", (value, *numbers), value.axes, value.kind, name=name)
