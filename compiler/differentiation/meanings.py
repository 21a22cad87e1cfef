"""Reverse mode on recognised meanings: from results where that is shorter, else through their core graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from .. import ir
from ..ir import Node, walk
from ..kernels import Parts, expanded, make, parts
from .scalars import ONE, ZERO, add, chosen, div, mul, neg, sub
from .sweep import Sweep, summed

Slope = Callable[[Sweep, Node, Parts, Node], Iterator[tuple[str, Node]]]
"""(sweep, node, parts, g) → (role, what flows to it)"""


def _within(axis: ir.Axis, value: Node) -> Node:
    """The value at entries that a sum over the axis looks at."""
    return chosen(ir.visible(axis), value) if axis.counted else value


def _softmax(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """y (g - Σ y g)"""
    axis = one["axis"]
    yield "x", mul(one, sub(g, _within(axis, summed((one, g), (axis,)))))


def _log_softmax(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g - e^y Σ g"""
    axis = one["axis"]
    yield "x", sub(g, _within(axis, mul(ir.apply("exp", one), summed((g,), (axis,)))))


def _logsumexp(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g e^(x - log Σ e^x), and -g to `less`"""
    whole = add(one, at["less"]) if "less" in at else one
    share = mul(g, ir.apply("exp", sub(at["x"], whole)))
    share = _within(one["axis"], share)
    yield "x", chosen(at["see"], share) if "see" in at else share
    yield "less", neg(g)


def _cross_entropy(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g (softmax(x) - what the label says)"""
    x, label, axis, spread = at["x"], at["label"], one["axis"], one["smoothing"]
    if one["outside"] is not None:
        known = ir.apply("and", ir.apply("<=", ZERO, label), ir.apply("<", label, ir.size(axis)))
        g = chosen(known, g)
    share = make("softmax", {"x": x}, x.axes, axis=axis)
    sweep.forward.add(share)
    made = mul(share, g)
    if spread:
        made = sub(made, div(mul(ir.const(spread), g), ir.apply("max", ir.size(axis), ONE)))
    made = _within(axis, made)
    own = g if not spread else mul(ir.const(1 - spread), g)
    own = ir.widen_to(own, (a for a in one.axes if a in x.axes))
    yield "x", sub(made, ir.scatter(own, {axis: label}, ir.union((x, own))))


def _normalized(sweep: Sweep, one: Node) -> tuple[Node, Node]:
    """(the value of length 1, the root that it was divided by) of a norm, as its core graph has them."""
    core = expanded(one)
    for role in ("shift", "gain"):
        if role in parts(one):
            core = core.args[0]
    sweep.forward.update((core, core.args[1]))
    return core, core.args[1]


def _layer_norm(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """(h - mean h - y mean(h y)) / σ, for h = g · gain"""
    axis = one["axis"]
    y, root = _normalized(sweep, one)
    yield "shift", g
    yield "gain", mul(g, y)
    h = mul(g, at["gain"]) if "gain" in at else g
    inner = sub(sub(h, ir.reduce("mean", h, (axis,))), mul(y, ir.reduce("mean", mul(h, y), (axis,))))
    for role in ("x", "bias", "residual"):
        yield role, div(inner, root)


def _rms_norm(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """(h - y mean(h y)) / σ, for h = g · gain"""
    axis = one["axis"]
    y, root = _normalized(sweep, one)
    yield "gain", mul(g, y)
    h = mul(g, at["gain"]) if "gain" in at else g
    inner = sub(h, mul(y, ir.reduce("mean", mul(h, y), (axis,))))
    for role in ("x", "bias", "residual"):
        yield role, div(inner, root)


def _sigmoid(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g y (1 - y)"""
    for role in ("x", "bias"):
        yield role, mul(g, mul(one, sub(ONE, one)))


def _silu(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g s (1 + x (1 - s)), for s = 1 / (1 + e^-x)"""
    s = make("sigmoid", at, one.axes)
    x = add(at["x"], at["bias"]) if "bias" in at else at["x"]
    sweep.forward.update((s, x))
    for role in ("x", "bias"):
        yield role, mul(g, mul(s, add(ONE, mul(x, sub(ONE, s)))))


def _gelu(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g (Φ(x) + x φ(x))"""
    x, below = expanded(one).args
    sweep.forward.update((x, below))
    bell = ir.apply("exp", mul(ir.const(Fraction(-1, 2)), mul(x, x)))
    made = mul(g, add(below, mul(mul(ir.const(1 / math.sqrt(2 * math.pi)), x), bell)))
    for role in ("x", "bias"):
        yield role, made


def _running_sum(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """At each entry the sum from it on: all of them, less those before it."""
    axis = one["axis"]
    there = chosen(ir.apply("<", ir.index(axis), ir.size(axis)), g)
    before = make("running_sum", {"x": there}, there.axes, axis=axis, loop=sweep.fresh())
    yield "x", add(sub(summed((there,), (axis,)), before), there)


SLOPES: dict[str, Slope] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "cross_entropy": _cross_entropy,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gelu": _gelu,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "running_sum": _running_sum,
}
"""What flows to each part of a meaning; all others go through their core graphs."""

MEANS = ("layer_norm", "rms_norm")
"""Meanings that take means along their axis: along a length they go through their core graphs."""


def reverse(sweep: Sweep, one: Node, g: Node) -> None:
    """Lets flow to the parts of a recognised meaning."""
    at = parts(one)
    numbers = all(map(sweep.finite, one.args))  # else each step inside keeps an adjoint of 0
    along = "axis" in one.attrs and one["axis"].ragged and (one["name"] in MEANS or one.get("smoothing"))
    if one["name"] in SLOPES and numbers and not along:
        for role, made in SLOPES[one["name"]](sweep, one, at, g):
            if role in at:
                sweep.flow(at[role], made)
        return
    core, outer = expanded(one), set(one.args)
    order = [part for part in walk([core], enter=lambda n: n not in outer) if part not in outer]
    sweep.forward.update(part for part in order if part.axes)
    inside = sweep.inner()
    inside.adjoints[core] = g
    inside.run(order)
    for arg in dict.fromkeys(one.args):
        if arg in inside.adjoints:
            sweep.flow(arg, inside.adjoints[arg])
