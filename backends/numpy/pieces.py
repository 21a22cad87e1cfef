"""Cross-entropy of products under a gradient: loss and slopes of some rows at a time, all from the same logits.

How much the loss of each row counts is mostly known before the loss is (one over how many there are): then forward and
backward are one call, and no logit is made twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Node, walk, walk_all
from .values import Value, transposed

if TYPE_CHECKING:
    from .gradient_writer import GradientWriter

FORWARD = "product_cross_entropy"
BACKWARD = f"{FORWARD}_slope"
NAMES = (FORWARD, BACKWARD)


def write(writer: GradientWriter, one: Node) -> Value | None:
    """The value of a loss of rows, or of a slope of it; None for what has no such form."""
    if one in writer.pieces:
        return writer.pieces[one]
    at = kernel_table.parts(one)
    rows = tuple(axis for axis in at["x"].axes if axis != one["width"])
    if one.get("outside") is not None or one.free or not set(at["label"].axes) <= set(rows):
        return None
    slopes = _slopes(writer, one)
    if one["name"] == FORWARD:
        slopes = [other for other in slopes if one not in set(walk([other.args[0]]))]
    else:
        slopes = [other for other in slopes if other.args[0] is one.args[0]]
    slopes = [other for other in slopes if set(other.args[0].axes) <= set(rows) and other.args[0] is slopes[0].args[0]]
    if one["name"] == BACKWARD and not slopes:
        return None
    _call(writer, one, slopes, rows)
    return writer.pieces[one]


def _slopes(writer: GradientWriter, one: Node) -> list[Node]:
    """What flows back through a loss to its parts; the first argument of each is what flows to the loss."""

    def told(other: Node) -> tuple[object, ...]:
        at = kernel_table.parts(other)
        return (*(at.get(role) for role in ("x", "table", "bias", "label")), other["axis"], other["smoothing"])

    every = walk_all(writer.graph.roots)
    return [other for other in every if other.op == "kernel" and other["name"] == BACKWARD and told(other) == told(one)]


def _call(writer: GradientWriter, one: Node, slopes: list[Node], rows: tuple[Axis, ...]) -> None:
    """The line with the loss, and the slopes if there are any; `pieces` gets their values."""
    at, axis, width = kernel_table.parts(one), one["axis"], one["width"]
    x, table = writer.real(writer.value(at["x"])), transposed(writer.value(at["table"]), (axis, width))
    texts = [_flat(writer, x, rows, width), table.text, writer.value(at["bias"]).text if "bias" in at else "None"]
    texts.append(_flat(writer, writer.value(at["label"]), rows))
    if slopes:
        g = writer.real(writer.value(slopes[0].args[0]))
        for length in rows:
            if length.counted and length.owner in rows:
                g = writer.within(g, length, "exists")
        texts.append(_flat(writer, g, rows))
    texts += [f"smoothing={float(one['smoothing'])!r}"] if one["smoothing"] else []
    names = [writer.names.fresh(name) for name in ("nll", *(("d_x", "d_table", "d_bias") if slopes else ()))]
    texts += ["threads=self.threads"] if slopes else []
    call = BACKWARD if slopes else FORWARD
    writer.need(call)
    writer.explain(one)
    writer.write(f"{', '.join(names)} = {call}({', '.join(texts)})")
    sizes = ", ".join(writer.size(part) for part in rows)
    apart = [f".reshape({sizes})", f".reshape({sizes}, {writer.size(width)})"] if len(rows) > 1 else ["", ""]
    if one["name"] == FORWARD:
        writer.pieces[one] = Value(names[0] + apart[0], "", rows)
    dims_of = {"x": (*rows, width), "table": (axis, width), "bias": (axis,)}
    for slope in slopes:
        text, dims = names[1 + list(dims_of).index(slope["to"])], dims_of[slope["to"]]
        text += apart[1] if slope["to"] == "x" else ""
        writer.pieces[slope] = Value(text, "", dims)


def _flat(writer: GradientWriter, value: Value, rows: tuple[Axis, ...], width: Axis | None = None) -> str:
    """The value with one dimension for all rows, and that of the width."""
    dims = rows if width is None else (*rows, width)
    text = transposed(value, dims).text if set(value.dims) == set(dims) else writer.broadcast(value, "", dims)
    if len(rows) == 1:
        return text
    last = "" if width is None else f", {writer.size(width)}"
    return f"({text}).reshape(-1{last})"
