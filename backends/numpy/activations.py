"""An activation and its derivative of one value, in one pass: the derivative is left in the memory of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Node
from .values import Value

if TYPE_CHECKING:
    from .gradient_writer import GradientWriter

SLOPES = {"gelu": "gelu_slope", "gelu_tanh": "gelu_tanh_slope", "silu": "silu_slope"}


def write(writer: GradientWriter, one: Node) -> Value | None:
    """The activation or the derivative, if the other is wanted, too; None where it is written alone."""
    if one in writer.pieces:
        return writer.pieces[one]
    arg = kernel_table.parts(one)["x"]
    others = writer.beside(arg, one)
    found = {other["name"]: other for other in others if other.op == "kernel" and other.args == (arg,)}
    known = (names for names in SLOPES.items() if one["name"] in names and set(names) <= set(found))
    pair = next(((found[result], found[slope]) for result, slope in known), None)
    if pair is None:
        return None
    value = writer.real(writer.value(arg))
    text = writer.fresh(arg, value, value.dims, pair)
    names = [writer.given(part, wish) for part, wish in zip(pair, ("t", "slope"), strict=True)]
    writer.need(pair[1]["name"], "with_slope")
    writer.explain(pair[0])
    writer.write(f"{', '.join(names)} = with_slope({pair[1]['name']}, self.threads, {text})")
    for part, name in zip(pair, names, strict=True):
        writer.pieces[part] = Value(name, "", value.dims)
    writer.counted["activations are computed with their derivative"] += 1
    return writer.pieces[one]
