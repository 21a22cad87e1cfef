"""Reverse mode on recognised meanings: from results where that is shorter, else through their core graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .. import ir
from ..ir import Node, walk
from ..kernels import Parts, drop_mask, expanded, make, parts, relation
from .scalars import ONE, ZERO, add, chosen, div, mul, neg, sub
from .sweep import Sweep, summed

Slope = Callable[[Sweep, Node, Parts, Node], Iterator[tuple[str, Node]]]
"""(sweep, node, parts, g) → (role, what flows to it)"""


def _within(axis: ir.Axis, value: Node) -> Node:
    """The value at entries that a sum over the axis looks at."""
    return chosen(ir.visible(axis), value) if axis.counted else value


def _softmax(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """y (g - Σ y g)"""
    yield "x", make("softmax_slope", {"g": g, "y": one}, g.axes, axis=one["axis"])


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


def _product_cross_entropy(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """The same of logits that are a product: all three slopes are made of the same pieces of it."""
    if one["outside"] is not None:
        label = at["label"]
        g = chosen(ir.apply("and", ir.apply("<=", ZERO, label), ir.apply("<", label, ir.size(one["axis"]))), g)
    kept = {name: one[name] for name in ("axis", "width", "smoothing")}
    for role in ("x", "table", "bias"):
        if role in at:
            yield role, make("product_cross_entropy_slope", {"g": g, **at}, at[role].axes, to=role, **kept)


def _norm(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """Through y = (x - μ) / σ, for g times the gain; the gain gets g y, the shift g."""
    axis, eps, name = one["axis"], one["eps"], one["name"]
    x = at["x"]
    for role in ("bias", "residual"):
        x = add(x, at[role]) if role in at else x
    y = make(name, {"x": x}, x.axes, axis=axis, eps=eps)
    sweep.forward.add(x)
    yield "shift", g
    yield "gain", mul(g, y)
    h = mul(g, at["gain"]) if "gain" in at else g
    made = make(f"{name}_slope", {"g": h, "x": x}, ir.union((h, x)), axis=axis, eps=eps)
    for role in ("x", "bias", "residual"):
        yield role, made


def _sigmoid(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g y (1 - y)"""
    for role in ("x", "bias"):
        yield role, mul(g, mul(one, sub(ONE, one)))


def _activation(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """g f'(x); a loop keeps f'(x), which is half done with f(x), and no x for it"""
    x = add(at["x"], at["bias"]) if "bias" in at else at["x"]
    slope = make(f"{one['name']}_slope", {"x": x}, x.axes)
    sweep.forward.add(slope)
    for role in ("x", "bias"):
        yield role, mul(g, slope)


def _attention(sweep: Sweep, one: Node, at: Parts, g: Node) -> Iterator[tuple[str, Node]]:
    """Through shares that are made again: nothing of the size of all pairs is kept, but what a dropout draws."""
    given: dict[str, Node | None] = {"g": g, **{role: at[role] for role in ("query", "key", "value")}}
    given |= {"see": relation(at, one["axis"]), "bias": at.get("bias")}
    if "drop" in at:
        given["kept"] = drop_mask(one)
        sweep.forward.add(drop_mask(one))
    kept = {name: one[name] for name in ("axis", "width", "scale")}
    for role in ("query", "key", "value"):
        yield role, make("attention_slope", given, at[role].axes, to=role, **kept)


def _plain_attention(sweep: Sweep, one: Node, at: Parts, g: Node) -> bool:
    """Whether all that flows back through an attention flows to query, key and value."""
    if "scores" in at or "at" in at or set(g.axes) != set(one.axes):
        return False
    return not any(sweep.active(part) for role, part in at.items() if role not in ("query", "key", "value"))


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
    "product_cross_entropy": _product_cross_entropy,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "gelu": _activation,
    "gelu_tanh": _activation,
    "silu": _activation,
    "sigmoid": _sigmoid,
    "running_sum": _running_sum,
    "attention": _attention,
}
"""What flows to each part of a meaning; all others go through their core graphs."""

MEANS = ("layer_norm", "rms_norm")
"""Meanings that take means along their axis: along a length they go through their core graphs."""


def reverse(sweep: Sweep, one: Node, g: Node) -> None:
    """Lets flow to the parts of a recognised meaning."""
    at = parts(one)
    numbers = all(map(sweep.finite, one.args))  # else each step inside keeps an adjoint of 0
    along = "axis" in one.attrs and one["axis"].ragged and (one["name"] in MEANS or one.get("smoothing"))
    core_only = along or (one["name"] == "attention" and not _plain_attention(sweep, one, at, g))
    if one["name"] in SLOPES and numbers and not core_only:
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
