"""Reverse mode on the core operations: one row each. What flows to an argument, from the adjoint g of the result.

An adjoint is only ever read through sums of entries that exist: what it holds beyond an example's end does not matter.
Sums over a length look at visible entries, and those alone get an adjoint (`visible`). To repeat along an axis, or to
align with a value that has it, is undone by a sum over all that exists, hidden entries too (`summed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import ir
from ..ir import Axis, Node
from . import loops, meanings
from .finite import not_negative, positive
from .scalars import DERIVATIVES, ONE, PARTIAL, ZERO, add, chosen, div, mul
from .sweep import Rule, Sweep, summed


def safe(g: Node, made: Node) -> Node:
    """`made`, which is 0 where g is: it may be no number there, of a branch that is not selected."""
    return ir.where(ir.apply("==", g, ZERO), ZERO, made)


def seen_along(over: Iterable[Axis], have: Iterable[Axis]) -> list[Node]:
    """Which entries a sum over these axes looks at: a relation for each length that takes part."""
    over = tuple(over)
    axes = dict.fromkeys((*over, *have))
    return [ir.visible(a) for a in axes if a.counted and (a in over or a.owner in over)]


def _map(sweep: Sweep, one: Node, g: Node) -> None:
    fn = one["fn"]
    guarded = _guarded(sweep, one)
    for arg, row in zip(one.args, DERIVATIVES[fn], strict=True):
        if row is not None and sweep.active(arg):
            made = row(g, one.args, one)
            sweep.flow(arg, safe(g, made) if guarded else made)


def _guarded(sweep: Sweep, one: Node) -> bool:
    """Whether the slope may be no number: then 0 stays 0."""
    fn = one["fn"]
    if fn in ("+", "-", "neg", "where", "max", "min"):
        return False
    numbers = all(map(sweep.finite, one.args))
    if fn == "/":
        return not (numbers and positive(one.args[1]))
    if fn == "sqrt":
        return not (numbers and not_negative(one.args[0]))
    if fn == "^":
        return not (numbers and sweep.finite(one))
    return fn in PARTIAL or not numbers


def _contract(sweep: Sweep, one: Node, g: Node) -> None:
    for arg, other in (one.args, one.args[::-1]):
        if not sweep.active(arg):
            continue
        other = _number(sweep, other)
        axes = ir.union((g, other))
        kept = []
        for relation in seen_along(one["over"], ir.union(one.args)):
            if set(relation.axes) <= set(other.axes) or not set(relation.axes) <= set(arg.axes):
                other = chosen(relation, other)
            else:
                kept.append(relation)
        axes = ir.union((g, other))
        made = summed((g, other), (a for a in axes if a not in arg.axes and a not in sweep.keep))
        for relation in kept:
            made = chosen(relation, made)
        sweep.flow(arg, made)


def _number(sweep: Sweep, one: Node) -> Node:
    """The value with 0 for what is no number, of a branch that is not selected."""
    if sweep.finite(one):
        return one
    return ir.where(ir.apply("==", ir.apply("-", one, one), ZERO), one, ZERO)


def _total(sweep: Sweep, one: Node, g: Node) -> None:
    for place, arg in enumerate(one.args):
        others = [_number(sweep, other) for at, other in enumerate(one.args) if at != place]
        g = ir.widen_to(g, one["over"])
        axes = ir.union((g, *others))
        if sweep.active(arg):
            sweep.flow(arg, summed((g, *others), (a for a in axes if a not in arg.axes and a not in sweep.keep)))


def _reduce(sweep: Sweep, one: Node, g: Node) -> None:
    kind, x, over = one["reduction"], one.args[0], one["over"]
    condition = one.args[1] if len(one.args) > 1 else None
    if kind not in SLOPES:
        return
    wide = ir.widen_to(g, over)
    made = SLOPES[kind](wide, x, one, condition)
    if kind in ("norm", "prod") and not sweep.finite(x):
        made = safe(wide, made)
    for relation in (*seen_along(over, ir.union(one.args)), *((condition,) if condition is not None else ())):
        made = chosen(relation, made)
    sweep.flow(x, made)


def _count(x: Node, one: Node, condition: Node | None) -> Node:
    """How many entries a reduction looks at."""
    over = one["over"]
    plain = all(isinstance(axis.size, int) for axis in over)
    if condition is None and plain and not seen_along(over, x.axes):
        return ir.const(math.prod(int(axis.size) for axis in over))
    there = ir.widen_to(ir.const(True), (a for a in ir.union(one.args) if a in over or a.counted or a.owner in over))
    return ir.reduce("count", there, over, condition)


def _mean(g: Node, x: Node, one: Node, condition: Node | None) -> Node:
    count = _count(x, one, condition)
    if count.op == "const":
        return div(g, count) if count["value"] else g
    return div(g, ir.apply("max", count, ONE))


def _extreme(g: Node, x: Node, one: Node, condition: Node | None) -> Node:
    """Those that are the largest share it evenly."""
    top = ir.apply("==", x, one)
    relation = top if condition is None else ir.apply("and", top, condition)
    count = ir.reduce("count", ir.widen_to(relation, one["over"]), one["over"])
    return chosen(top, div(g, ir.apply("max", count, ONE)))


def _prod(g: Node, x: Node, one: Node, condition: Node | None) -> Node:
    """The product of the others, which one zero leaves to itself."""
    over = one["over"]
    zero = ir.widen_to(ir.apply("==", x, ZERO), over)
    others = ir.where(zero, ONE, x)
    product, zeros = ir.reduce("prod", others, over, condition), ir.reduce("count", zero, over, condition)
    alone = chosen(ir.apply("==", zeros, ONE), product)
    rest = chosen(ir.apply("==", zeros, ZERO), div(product, others))
    return mul(g, ir.where(zero, alone, rest))


def _norm(g: Node, x: Node, one: Node, condition: Node | None) -> Node:
    length = ir.where(ir.apply("==", one, ZERO), ONE, one)
    return mul(g, div(x, length))  # of length 0: x is 0


SLOPES = {
    "sum": lambda g, x, one, condition: g,
    "mean": _mean,
    "max": _extreme,
    "min": _extreme,
    "prod": _prod,
    "norm": _norm,
}
"""What flows to the value of a reduction, conditions aside; argmax, count, any and all have no gradient."""


def _pick(sweep: Sweep, one: Node, g: Node) -> None:
    x, at = one.args[0], dict(zip(one["keys"], one.args[1:], strict=True))
    sweep.flow(x, ir.scatter(g, at, (*x.axes, *(a for a in sweep.keep if a in g.axes and a not in x.axes))))


def _scatter(sweep: Sweep, one: Node, g: Node) -> None:
    at = dict(zip(one["keys"], one.args[1:], strict=True))
    made = ir.pick(g, at)
    for key, number in at.items():
        if number.op == "selected":  # such a place exists
            continue
        size = ir.size(key)
        if key.owner in at:
            size = ir.pick(size, {key.owner: at[key.owner]})
        within = ir.apply("and", ir.apply("<=", ZERO, number), ir.apply("<", number, size))
        made = ir.where(within, made, ZERO)
    sweep.flow(one.args[0], made)


def _rename(sweep: Sweep, one: Node, g: Node) -> None:
    sweep.flow(one.args[0], ir.rename(g, {new: old for old, new in one["pairs"]}))


def _split(sweep: Sweep, one: Node, g: Node) -> None:
    sweep.flow(one.args[0], ir.merge(g, one["into"], one["axis"]))


def _merge(sweep: Sweep, one: Node, g: Node) -> None:
    sweep.flow(one.args[0], ir.split(g, one["into"], one["gone"]))


def _concat(sweep: Sweep, one: Node, g: Node) -> None:
    into, begun = one["into"], ZERO
    for part, axis in zip(one.args, one["along"], strict=True):
        place = begun if axis is None else add(ir.index(axis), begun)
        if sweep.active(part):
            sweep.flow(part, ir.pick(g, {into: place}))
        begun = add(begun, ONE if axis is None else ir.size(axis))


def _copy(sweep: Sweep, one: Node, g: Node) -> None:
    sweep.flow(one.args[0], g)


def _random(sweep: Sweep, one: Node, g: Node) -> None:
    """Dropout: the same mask as forwards, which is its value of 1."""
    if one["draw"] != "dropout":
        return
    ones = ir.widen_to(ir.const(1.0), one.axes)
    mask = ir.node("random", (ones, *one.args[1:]), one.axes, "real", **one.attrs)
    sweep.forward.add(mask)
    sweep.flow(one.args[0], mul(g, mask))


def _nothing(sweep: Sweep, one: Node, g: Node) -> None:
    """No gradient: whole numbers, truth values, and what nothing lies under."""


RULES: dict[str, Rule] = {
    "map": _map,
    "contract": _contract,
    "total": _total,
    "reduce": _reduce,
    "pick": _pick,
    "scatter": _scatter,
    "rename": _rename,
    "split": _split,
    "merge": _merge,
    "concat": _concat,
    "widen": _copy,
    "random": _random,
    "loop": loops.reverse,
    "state": loops.read_last,
    "history": loops.read_any,
    "kernel": meanings.reverse,
    "append": _nothing,
    "keep": _nothing,
    "stored": _nothing,
    "rank": _nothing,
    "selected": _nothing,
    "order": _nothing,
    "repeat": _nothing,
    "input": _nothing,
    "weight": _nothing,
    "const": _nothing,
    "table": _nothing,
    "index": _nothing,
    "position": _nothing,
    "size": _nothing,
    "visible": _nothing,
    "counter": _nothing,
    "carry": _nothing,  # what reaches a state is taken by its loop
    "past": _nothing,
}
"""The rule of each core operation."""
