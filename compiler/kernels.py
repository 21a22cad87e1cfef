"""Recognised meanings: each kernel's meaning is a core graph, so the evaluator needs to know nothing about kernels.

A kernel node has `name`, and `roles` naming its arguments; other attributes are listed with each kernel. Backends may
have a fast form; one that has none expands the kernel back into the core.

    softmax        x, see?                     axis, full    e^x / Σ e^x over the visible entries, 0 elsewhere
    log_softmax    x                           axis          x - log Σ e^x
    logsumexp      x, see?, less?              axis          log Σ e^x over the visible entries, minus `less`
    cross_entropy  x, label                    axis          -log softmax(x) at the label; smoothing: the share of the
                                                        label that is spread evenly; outside: what a label that is no
                                                        place of the axis gives (None: nothing, it is undefined)
    product_cross_entropy  x, table, bias?, label          axis, width, smoothing, outside: the same of the product of x
                                                        with a table over `width`, and a bias: its logits along `axis`
    layer_norm     x, gain?, shift?, bias?, residual?   axis, eps
    rms_norm       x, gain?, bias?, residual?           axis, eps
    l2_normalize   x                           axis, least   x / ‖x‖, the length taken as `least` if it is smaller
    gelu, gelu_tanh, quick_gelu, silu, sigmoid, relu, leaky_relu   x, bias?   (leaky_relu: slope)
    attention      query, key, value, see?, first?, stop?, bias?, drop?, at?   axis (the keys), width (dk), scale, full;
                                                        with a rate to drop weights by: site, steps, drawn (the axes of
                                                        the draw, in order); for some rows of the draw: their numbers
                                                        `at`, the axis picked
    attention      scores, value, see?, drop?              the same with scores as they are; no width, scale 1
    running_sum    x                           axis, loop    at each entry the sum up to it, hidden ones included
    gelu_slope, gelu_tanh_slope, silu_slope    x             the derivative of the meaning at x
    softmax_slope  g, y                        axis          y (g - Σ y g): what flows back through y = softmax(x)
    product_cross_entropy_slope   g, x, table, bias?, label   axis, width, smoothing, to: what flows back to the part
                                                        that `to` names
    layer_norm_slope, rms_norm_slope   g, x    axis, eps     what flows back through the norm of x, gain and shift aside
    attention_slope   g, query, key, value, see?, bias?, kept?    axis, width, scale, to: what flows back to the part
                                                        that `to` names, through shares that are made again; `kept`
                                                        is what dropout multiplies them with

`first` and `stop` are whole numbers of each row: it sees the keys first ≤ j < stop of which `see` holds (any of these
may be missing). `full` says that every row surely sees a key, False that one may be empty and gives 0; it is no part of
the meaning. Both are made by the pass fold_masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from . import ir, masks
from .ir import Axis, Node

if TYPE_CHECKING:
    from .evaluate import Array, Evaluator

Parts = Mapping[str, Node]


@dataclass(frozen=True)
class Kernel:
    """A meaning by name: `expand` gives the core graph for a node's parts and attributes."""

    name: str
    expand: Callable[[Parts, Node], Node]

    def evaluate(self, evaluator: Evaluator, one: Node, args: list[Array]) -> Array:
        """The value of a kernel node: that of its core graph."""
        from .evaluate import align

        core = evaluator.core(one)
        return align(evaluator(core), core.axes, one.axes)


def parts(one: Node) -> dict[str, Node]:
    """The arguments of a kernel node by role."""
    return dict(zip(one["roles"], one.args, strict=True))


def expanded(one: Node) -> Node:
    """The kernel node as core operations."""
    return KERNELS[one["name"]].expand(parts(one), one)


def make(name: str, roles: Mapping[str, Node | None], axes: Sequence[Axis], **attrs: Any) -> Node:
    """A kernel node; absent parts are left out."""
    present = {role: part for role, part in roles.items() if part is not None}
    return ir.kernel(name, present.values(), axes, roles=tuple(present), **attrs)


def is_draw(one: Node) -> bool:
    """Whether the node draws at random: by itself, or inside a recognised meaning."""
    return one.op == "random" or (one.op == "kernel" and one.get("site") is not None)


def number(value: float | Fraction | int) -> Node:
    """A constant."""
    return ir.const(value if isinstance(value, float) else Fraction(value))


def _softmax(at: Parts, one: Node) -> Node:
    x, see, axis = at["x"], at.get("see"), one["axis"]
    top = ir.reduce("max", x, (axis,), see)
    top = ir.where(ir.apply(">", top, number(-math.inf)), top, number(0))
    e = ir.apply("exp", ir.apply("-", x, top))
    share = ir.apply("/", e, ir.reduce("sum", e, (axis,), see))
    return share if see is None else ir.where(see, share, number(0))


def _log_softmax(at: Parts, one: Node) -> Node:
    x, axis = at["x"], one["axis"]
    moved = ir.apply("-", x, ir.reduce("max", x, (axis,)))
    return ir.apply("-", moved, ir.apply("log", ir.reduce("sum", ir.apply("exp", moved), (axis,))))


def _logsumexp(at: Parts, one: Node) -> Node:
    x, see, over = at["x"], at.get("see"), (one["axis"],)
    top = ir.reduce("max", x, over, see)
    top = ir.where(ir.apply(">", top, number(-math.inf)), top, number(0))
    moved = ir.apply("log", ir.reduce("sum", ir.apply("exp", ir.apply("-", x, top)), over, see))
    return ir.apply("+", moved, ir.apply("-", top, at["less"]) if "less" in at else top)  # little is left of little


def _cross_entropy(at: Parts, one: Node) -> Node:
    x, label, axis, spread = at["x"], at["label"], one["axis"], one["smoothing"]
    own = ir.pick(x, {axis: label})
    if spread:
        own = ir.apply("*", number(1 - spread), own)
        own = ir.apply("+", own, ir.apply("*", number(spread), ir.reduce("mean", x, (axis,))))
    kept = ir.union((ir.reduce("max", x, (axis,)), own))
    loss = make("logsumexp", {"x": x, "less": own}, kept, axis=axis)
    if one["outside"] is None:
        return loss
    known = ir.apply("and", ir.apply("<=", number(0), label), ir.apply("<", label, ir.size(axis)))
    return ir.where(known, loss, number(one["outside"]))


def _product_cross_entropy(at: Parts, one: Node) -> Node:
    logits = ir.contract(at["x"], at["table"], (one["width"],))
    logits = ir.apply("+", logits, at["bias"]) if "bias" in at else logits
    kept = {name: one[name] for name in ("axis", "smoothing", "outside")}
    return make("cross_entropy", {"x": logits, "label": at["label"]}, one.axes, **kept)


def _l2_normalize(at: Parts, one: Node) -> Node:
    length = ir.reduce("norm", at["x"], (one["axis"],))
    return ir.apply("/", at["x"], ir.apply("max", length, number(one["least"])) if one["least"] else length)


def _added(at: Parts) -> Node:
    x = at["x"]
    for role in ("bias", "residual"):
        if role in at:
            x = ir.apply("+", x, at[role])
    return x


def _layer_norm(at: Parts, one: Node) -> Node:
    x, axis = _added(at), one["axis"]
    centred = ir.apply("-", x, ir.reduce("mean", x, (axis,)))
    variance = ir.reduce("mean", ir.apply("*", centred, centred), (axis,))
    result = ir.apply("/", centred, ir.apply("sqrt", ir.apply("+", variance, number(one["eps"]))))
    result = ir.apply("*", result, at["gain"]) if "gain" in at else result
    return ir.apply("+", result, at["shift"]) if "shift" in at else result


def _rms_norm(at: Parts, one: Node) -> Node:
    x, axis = _added(at), one["axis"]
    square = ir.reduce("mean", ir.apply("*", x, x), (axis,))
    result = ir.apply("/", x, ir.apply("sqrt", ir.apply("+", square, number(one["eps"]))))
    return ir.apply("*", result, at["gain"]) if "gain" in at else result


def _gelu(at: Parts, one: Node) -> Node:
    x = _added(at)
    inner = ir.apply("erf", ir.apply("/", x, number(math.sqrt(2))))
    return ir.apply("*", x, ir.apply("*", number(Fraction(1, 2)), ir.apply("+", number(1), inner)))


def _gelu_tanh(at: Parts, one: Node) -> Node:
    x = _added(at)
    cube = ir.apply("*", number(Fraction("0.044715")), ir.apply("*", x, ir.apply("*", x, x)))
    inner = ir.apply("tanh", ir.apply("*", number(math.sqrt(2 / math.pi)), ir.apply("+", x, cube)))
    return ir.apply("*", ir.apply("*", number(Fraction(1, 2)), x), ir.apply("+", number(1), inner))


def _quick_gelu(at: Parts, one: Node) -> Node:
    x = _added(at)
    inner = ir.apply("exp", ir.apply("*", number(Fraction("-1.702")), x))
    return ir.apply("/", x, ir.apply("+", number(1), inner))


def _sigmoid(at: Parts, one: Node) -> Node:
    x = _added(at)
    return ir.apply("/", number(1), ir.apply("+", number(1), ir.apply("exp", ir.apply("neg", x))))


def _silu(at: Parts, one: Node) -> Node:
    return ir.apply("*", _added(at), _sigmoid(at, one))


def _relu(at: Parts, one: Node) -> Node:
    return ir.apply("max", _added(at), number(0))


def _leaky_relu(at: Parts, one: Node) -> Node:
    x = _added(at)
    return ir.where(ir.apply("<", number(0), x), x, ir.apply("*", number(one["slope"]), x))


def _attention(at: Parts, one: Node) -> Node:
    scores = at["scores"] if "scores" in at else _scores(at, one)
    see = relation(at, one["axis"])
    weights = make("softmax", {"x": scores, "see": see}, _wide(scores, see), axis=one["axis"])
    if "drop" in at:
        at_site = {name: one[name] for name in SITE if one.get(name) is not None}
        axes, drawn = one["drawn"], [weights, at["drop"]]
        if "at" in at:  # some rows of what is drawn for all
            at_site |= {"picked": one["picked"], "drawn": axes}
            axes = tuple(dict.fromkeys((*(a for a in axes if a != one["picked"]), *at["at"].axes)))
            drawn.append(at["at"])
        weights = ir.node("random", drawn, axes, "real", draw="dropout", **at_site)
    return ir.contract(weights, at["value"], (one["axis"],))


def drop_mask(one: Node) -> Node:
    """What the dropout of an attention's weights multiplies them with: its value of 1. None is of some rows alone."""
    at_site = {name: one[name] for name in SITE if one.get(name) is not None}
    axes = one["drawn"]
    ones = ir.widen_to(ir.const(1.0), axes)
    return ir.node("random", (ones, parts(one)["drop"]), axes, "real", draw="dropout", **at_site)


def relation(at: Parts, axis: Axis) -> Node | None:
    """first ≤ j < stop and see: all that says which keys a row of attention sees; None for all of them."""
    return masks.bounded(axis, at.get("first"), at.get("stop"), at.get("see"))


def unbounded(one: Node) -> Node:
    """The attention with its bounds as a part of the relation again."""
    at = parts(one)
    if "first" not in at and "stop" not in at:
        return one
    roles = {role: part for role, part in at.items() if role not in ("first", "stop", "see")}
    kept = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    return make("attention", {**roles, "see": relation(at, one["axis"])}, one.axes, **kept)


def _scores(at: Parts, one: Node) -> Node:
    product = ir.apply("*", number(one["scale"]), ir.contract(at["query"], at["key"], (one["width"],)))
    return ir.apply("+", product, at["bias"]) if "bias" in at else product


def _running_sum(at: Parts, one: Node) -> Node:
    x, axis, loop = at["x"], one["axis"], one["loop"]
    first = ir.widen_to(ir.const(0), [a for a in x.axes if a != axis])
    step = ir.apply("+", ir.carry(loop, 0, first), ir.pick(x, {axis: ir.counter(loop)}))
    made = ir.loop(loop, axis, 0, ir.size(axis), [first], [step], "t")
    return ir.history(made, 0, ir.apply("+", ir.index(axis), ir.const(1)))


def _gelu_slope(at: Parts, one: Node) -> Node:
    """Φ(x) + x φ(x)"""
    x = at["x"]
    bell = ir.apply("exp", ir.apply("*", number(Fraction(-1, 2)), ir.apply("*", x, x)))
    tail = ir.apply("*", ir.apply("*", number(1 / math.sqrt(2 * math.pi)), x), bell)
    return ir.apply("+", _gelu(at, one).args[1], tail)


def _gelu_tanh_slope(at: Parts, one: Node) -> Node:
    """p + 2 x p (1 - p) w', for p = (1 + tanh w) / 2"""
    x = at["x"]
    share = ir.apply("*", number(Fraction(1, 2)), _gelu_tanh(at, one).args[1])
    inner = ir.apply("+", number(1), ir.apply("*", number(Fraction("0.134145")), ir.apply("*", x, x)))
    inner = ir.apply("*", number(2 * math.sqrt(2 / math.pi)), inner)
    rest = ir.apply("*", share, ir.apply("-", number(1), share))
    return ir.apply("+", share, ir.apply("*", ir.apply("*", x, inner), rest))


def _silu_slope(at: Parts, one: Node) -> Node:
    """s (1 + x (1 - s)), for s = 1 / (1 + e^-x)"""
    s = _sigmoid(at, one)
    inner = ir.apply("*", at["x"], ir.apply("-", number(1), s))
    return ir.apply("*", s, ir.apply("+", number(1), inner))


def _softmax_slope(at: Parts, one: Node) -> Node:
    """An entry along a length that nobody may see adds to no sum; its share, perhaps ∞, loses nothing to others."""
    g, y, axis = at["g"], at["y"], one["axis"]
    if not axis.counted:
        return ir.apply("*", y, ir.apply("-", g, ir.contract(y, g, (axis,))))
    seen = ir.visible(axis)
    y = ir.where(ir.apply("or", seen, ir.apply("!=", g, number(0))), y, number(0))
    return ir.apply("*", y, ir.apply("-", g, ir.where(seen, ir.total((y, g), (axis,)), number(0))))


def _product_cross_entropy_slope(at: Parts, one: Node) -> Node:
    """h = g (softmax(z) - what the label says), z = x · table + bias; then h · table, x · h, and the sum of h."""
    x, label, g, axis, width, spread = at["x"], at["label"], at["g"], one["axis"], one["width"], one["smoothing"]
    logits = ir.contract(x, at["table"], (width,))
    logits = ir.apply("+", logits, at["bias"]) if "bias" in at else logits
    h = ir.apply("*", make("softmax", {"x": logits}, logits.axes, axis=axis), g)
    own = ir.apply("*", number(1 - spread), g) if spread else g
    own = ir.widen_to(own, (a for a in (*x.axes, *label.axes) if a != width))
    h = ir.apply("-", h, ir.scatter(own, {axis: label}, (axis, *own.axes)))
    if spread:
        h = ir.apply("-", h, ir.apply("*", ir.apply("/", number(spread), ir.size(axis)), g))
    others = {"x": (h, at["table"]), "table": (h, x), "bias": (h,)}[one["to"]]
    gone = [a for a in ir.union(others) if a not in at[one["to"]].axes]
    return ir.total(others, gone) if gone else h


def _attention_slope(at: Parts, one: Node) -> Node:
    """For shares p = softmax(s) and h = what flows to s: h key and h query by the scale; of p and g to the value."""
    axis, to, g = one["axis"], one["to"], at["g"]
    scores, see = _scores(at, one), at.get("see")
    shares = make("softmax", {"x": scores, "see": see}, _wide(scores, see), axis=axis)
    kept = ir.apply("*", shares, at["kept"]) if "kept" in at else shares
    value = ir.where(ir.visible(axis), at["value"], number(0)) if axis.counted else at["value"]
    if to == "value":
        made = _summed((kept, g), at[to])
        return ir.where(ir.visible(axis), made, number(0)) if axis.counted else made
    flow = ir.total((g, value), [a for a in ir.union((g, value)) if a not in shares.axes])
    flow = ir.apply("*", flow, at["kept"]) if "kept" in at else flow
    flow = make("softmax_slope", {"g": flow, "y": shares}, ir.union((flow, shares)), axis=axis)
    flow = ir.apply("*", number(one["scale"]), flow)
    return _summed((flow, at["key" if to == "query" else "query"]), at[to])


def _summed(values: tuple[Node, Node], like: Node) -> Node:
    """Σ of a product over all axes that a value has not, of all entries that exist."""
    gone = [a for a in ir.union(values) if a not in like.axes]
    return ir.total(values, gone) if gone else ir.apply("*", *values)


def _norm_slope(at: Parts, one: Node) -> Node:
    """(g - mean g - y mean(g y)) / σ for y = (x - μ) / σ; of rms_norm without the means of x and g."""
    g, axis = at["g"], one["axis"]
    y = (_layer_norm if one["name"] == "layer_norm_slope" else _rms_norm)({"x": at["x"]}, one)
    left = g if one["name"] == "rms_norm_slope" else ir.apply("-", g, ir.reduce("mean", g, (axis,)))
    along = ir.reduce("mean", ir.apply("*", g, y), (axis,))
    return ir.apply("/", ir.apply("-", left, ir.apply("*", y, along)), y.args[1])


def _wide(x: Node, see: Node | None) -> tuple[Axis, ...]:
    return x.axes if see is None else ir.union((x, see))


KERNELS: dict[str, Kernel] = {
    row.name: row
    for row in (
        Kernel("softmax", _softmax),
        Kernel("log_softmax", _log_softmax),
        Kernel("logsumexp", _logsumexp),
        Kernel("cross_entropy", _cross_entropy),
        Kernel("product_cross_entropy", _product_cross_entropy),
        Kernel("layer_norm", _layer_norm),
        Kernel("rms_norm", _rms_norm),
        Kernel("l2_normalize", _l2_normalize),
        Kernel("gelu", _gelu),
        Kernel("gelu_tanh", _gelu_tanh),
        Kernel("quick_gelu", _quick_gelu),
        Kernel("sigmoid", _sigmoid),
        Kernel("silu", _silu),
        Kernel("relu", _relu),
        Kernel("leaky_relu", _leaky_relu),
        Kernel("attention", _attention),
        Kernel("running_sum", _running_sum),
        Kernel("gelu_slope", _gelu_slope),
        Kernel("gelu_tanh_slope", _gelu_tanh_slope),
        Kernel("silu_slope", _silu_slope),
        Kernel("softmax_slope", _softmax_slope),
        Kernel("product_cross_entropy_slope", _product_cross_entropy_slope),
        Kernel("layer_norm_slope", _norm_slope),
        Kernel("rms_norm_slope", _norm_slope),
        Kernel("attention_slope", _attention_slope),
    )
}
"""Every kernel by name."""

SITE = ("site", "steps")
"""Attributes of a draw that tell it from every other one."""

POINTWISE = ("gelu", "gelu_tanh", "quick_gelu", "silu", "sigmoid", "relu", "leaky_relu")
"""The kernels that are scalar functions."""

BACKWARD = tuple(name for name in KERNELS if name.endswith("_slope"))
"""The kernels that only a differentiation makes."""

SETTINGS = ("eps", "least", "slope")
"""Numbers that are attributes of kernels, in the order in which the functions of a backend take them."""
