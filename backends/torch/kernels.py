"""Kernel nodes as calls of torch.nn.functional: a function for each name that has a fused form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Length, Node
from ..numpy.values import Value, aligned, transposed
from . import bounded

if TYPE_CHECKING:
    from .writer import TorchWriter

Parts = Mapping[str, Node]


def _pointwise(writer: TorchWriter, at: Parts, text: str) -> Value:
    value = writer.value(at["x"])
    return Value(text.format(value.text), value.lead, value.dims)


def gelu(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x Φ(x)"""
    return _pointwise(writer, at, "F.gelu({})")


def gelu_tanh(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """The tanh approximation of x Φ(x)."""
    return _pointwise(writer, at, 'F.gelu({}, approximate="tanh")')


def quick_gelu(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x σ(1.702 x)"""
    writer.need("quick_gelu")
    return _pointwise(writer, at, "quick_gelu({})")


def leaky_relu(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x where x > 0, slope * x elsewhere."""
    return _pointwise(writer, at, f"F.leaky_relu({{}}, {float(one['slope'])!r})")


def silu(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x σ(x)"""
    return _pointwise(writer, at, "F.silu({})")


def sigmoid(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """σ(x)"""
    return _pointwise(writer, at, "torch.sigmoid({})")


def relu(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """max(0, x)"""
    return _pointwise(writer, at, "F.relu({})")


def _last(value: Value, axis: Axis) -> Value:
    return transposed(value, (*(a for a in value.dims if a != axis), axis))


def layer_norm(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """γ (x - μ) / σ + β over the last axis."""
    value = _last(writer.real(writer.value(at["x"])), one["axis"])
    gain, shift = (writer.value(at[role]).text if role in at else "None" for role in ("gain", "shift"))
    size = writer.size(one["axis"])
    text = f"F.layer_norm({value.text}, ({size},), {gain}, {shift}, {float(one['eps'])!r})"
    return Value(text, value.lead, value.dims)


def rms_norm(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """g x / rms over the last axis."""
    value = _last(writer.real(writer.value(at["x"])), one["axis"])
    gain = writer.value(at["gain"]).text if "gain" in at else "None"
    size = writer.size(one["axis"])
    return Value(f"F.rms_norm({value.text}, ({size},), {gain}, {float(one['eps'])!r})", value.lead, value.dims)


def l2_normalize(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x / max(‖x‖, least) over the last axis."""
    if one["axis"].ragged:
        return writer.value(kernel_table.expanded(one))
    value = _last(writer.value(at["x"]), one["axis"])
    return Value(f"F.normalize({value.text}, dim=-1, eps={float(one['least'])!r})", value.lead, value.dims)


def _conditions(writer: TorchWriter, at: Parts, axis: Axis, dims: tuple[Axis, ...]) -> list[str]:
    found = writer.visible([axis], "", dims)
    if "see" in at:
        found.append(aligned(writer.value(at["see"]), "", dims))
    return found


def softmax(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """e^x / Σ e^x over the last axis, of the entries that may be seen."""
    value, (lead, made) = writer.real(writer.value(at["x"])), writer.shape(one)
    dims = (*(a for a in dict.fromkeys((*value.dims, *made)) if a != one["axis"]), one["axis"])
    x = writer.fit(value, lead, dims)
    visible = writer.visible([one["axis"]], lead, dims)
    see = [writer.fit(writer.value(at["see"]), lead, dims)] if "see" in at else []
    if not visible and not see:
        return Value(f"{x}.softmax(dim=-1)", lead, dims)
    sizes = ", ".join([*writer.lead_sizes(lead), *(writer.size(axis) for axis in dims)])
    if len(value.dims) < len(dims):
        x = f"{x}.expand({sizes})"
    if visible:
        writer.need("length_softmax")
        return Value(f"length_softmax({', '.join([x, *visible, *see])})", lead, dims)
    writer.need("masked_softmax")
    return Value(f"masked_softmax({x}, ({see[0]}).expand({sizes}))", lead, dims)


def log_softmax(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """x - log Σ e^x over the last axis."""
    value = _last(writer.real(writer.value(at["x"])), one["axis"])
    visible = writer.visible([one["axis"]], value.lead, value.dims)
    if visible:
        writer.need("length_log_softmax")
        return Value(f"length_log_softmax({value.text}, {visible[0]})", value.lead, value.dims)
    return Value(f"{value.wrapped}.log_softmax(dim=-1)", value.lead, value.dims)


def logsumexp(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """log Σ e^x over the last axis, of the entries that may be seen, minus what is given."""
    value, (lead, made) = writer.value(at["x"]), writer.shape(one)
    dims = (*(a for a in dict.fromkeys((*value.dims, *made)) if a != one["axis"]), one["axis"])
    x = writer.fit(value, lead, dims)
    see = writer.visible([one["axis"]], lead, dims)
    see += [writer.fit(writer.value(at["see"]), lead, dims)] if "see" in at else []
    less = [f"less={writer.fit(writer.value(at['less']), lead, dims[:-1])}"] if "less" in at else []
    condition = [" & ".join(f"({one})" for one in see)] if see else []
    if see:
        sizes = ", ".join([*writer.lead_sizes(lead), *(writer.size(axis) for axis in dims)])
        x = f"({x}).expand({sizes})"
    elif not less:
        return Value(f"({x}).logsumexp(dim=-1)", lead, dims[:-1])
    writer.need("log_sum_exp")
    return Value(f"log_sum_exp({', '.join([x, *condition, *less])})", lead, dims[:-1])


def product_cross_entropy(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """log Σ e^z - z[label] of z = x @ table + bias, some rows at a time."""
    if one["outside"] is not None:
        return writer.value(kernel_table.expanded(one))
    axis, width = one["axis"], one["width"]
    x = _last(writer.real(writer.value(at["x"])), width)
    table = transposed(writer.value(at["table"]), (axis, width))
    rows = tuple(dict.fromkeys((*x.dims[:-1], *writer.value(at["label"]).dims)))
    x_text = x.text
    if rows != x.dims[:-1]:
        x_text = writer.broadcast(x, x.lead, (*rows, width))
    label = writer.fit(writer.value(at["label"]), x.lead, rows)
    bias = writer.value(at["bias"]).text if "bias" in at else "None"
    smoothing = f", {float(one['smoothing'])!r}" if one["smoothing"] else ""
    writer.need("product_cross_entropy")
    text = f"product_cross_entropy({x_text}, {table.text}, {bias}, {label}{smoothing})"
    return Value(text, x.lead, rows)


def running_sum(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """The sum up to each entry, hidden entries of an example included."""
    axis = one["axis"]
    value = _last(writer.value(at["x"]), axis)
    if not (isinstance(axis.size, Length) and axis.owner is not None):
        return Value(f"{value.wrapped}.cumsum(dim=-1)", "", value.dims, wide=value.wide)
    dims = tuple(dict.fromkeys((axis.owner, *value.dims)))
    real = Value(f"real_{writer.length_texts[axis.size.name]}", "", (axis.owner, axis), reorder="permute")
    text = f"torch.where({aligned(real, '', dims)}, {aligned(value, '', dims)}, 0)"
    return Value(f"{text}.cumsum(dim=-1)", "", dims, wide=value.wide)


def attention(writer: TorchWriter, one: Node, at: Parts) -> Value:
    """scaled_dot_product_attention over [batch, heads, queries, width]."""
    rate = writer.value(at["drop"]) if "drop" in at else None
    if "scores" in at or (rate is not None and not rate.number):  # it takes one rate for all entries
        return writer.value(kernel_table.expanded(one))

    def call(sides: Sides, q: str, k: str, v: str) -> str:
        if one.get("form") is not None:
            return bounded.call(writer, one, (q, k, v), rate, sides.heads)
        arguments = [q, k, v, f"attn_mask={_mask(writer, at, one['axis'], (*sides.lead, sides.row, one['axis']))}"]
        arguments += [] if rate is None else [f"dropout_p={rate.text} if self.training else 0.0"]
        return f"F.scaled_dot_product_attention({', '.join(arguments)}, scale={float(one['scale'])!r})"

    return call_of(writer, one, at, call) or writer.value(kernel_table.expanded(one))


@dataclass(frozen=True)
class Sides:
    """The axes of attention: batch and heads, and that of the queries."""

    lead: tuple[Axis, ...]
    heads: tuple[Axis, ...]
    row: Axis


def call_of(
    writer: TorchWriter, one: Node, at: Parts, call: Callable[[Sides, str, str, str], str]
) -> Value | None:
    """What `call` makes of query, key and value as [batch, heads, place, width]; None where they have no such form."""
    query, key, value = (writer.real(writer.value(at[role])) for role in ("query", "key", "value"))
    axis, width = one["axis"], one["width"]
    own = tuple(a for a in value.dims if a not in key.dims)
    depth = own[0] if own else width
    rows = [a for a in query.dims if a.ragged and a != writer.batch] or [Axis("row", 1)]  # one query, of no axis
    heads = tuple(a for a in query.dims if a not in (writer.batch, width, *rows))
    if len(rows) != 1 or writer.batch not in query.dims or (len(own) > 1) or (width in value.dims and own):
        return None  # as in pooling by one query for all examples
    assert writer.batch is not None
    lead = (writer.batch, *heads)
    q = aligned(query, "", (*lead, rows[0], width))
    one_row = rows[0] not in query.dims
    k = aligned(key, "", (*lead, axis, width))
    v = aligned(value, "", (*lead, axis, depth))
    sizes = [writer.size(a) for a in lead]
    if any(not set(heads) <= set(part.dims) for part in (key, value)):  # grouped queries: a key serves a group
        sizes += ["-1"]  # as many keys as there are: those kept for a window are fewer
        k = f"{k}.expand({', '.join([*sizes, writer.size(width)])})"
        v = f"{v}.expand({', '.join([*sizes, writer.size(depth)])})"
    made = Value(call(Sides(lead, heads, rows[0]), q, k, v), "", (*lead, rows[0], depth), reorder="permute")
    if one_row:
        made = Value(f"{made.wrapped}[..., 0, :]", "", (*lead, depth), reorder="permute")
    back = tuple(a for a in query.dims if a != width)
    return transposed(made, (*back, depth))


def _mask(writer: TorchWriter, at: Parts, axis: Axis, dims: tuple[Axis, ...]) -> str:
    """The relation, or the bias with -∞ outside the relation; None where nothing is masked."""
    seen = " & ".join(_conditions(writer, at, axis, dims))
    if "bias" not in at:
        return seen if "see" in at else f"{seen} if {writer.masked_text(axis)} else None" if seen else "None"
    bias = aligned(writer.value(at["bias"]), "", dims)
    writer.need("biased")
    return f"biased({bias}, {seen}, dtype)"
