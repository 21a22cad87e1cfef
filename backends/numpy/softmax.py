"""Softmax, log-softmax and log Σ e^x of values with all their axes, along the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...compiler.ir import Node
from .values import Value

if TYPE_CHECKING:
    from .writer import Writer


def write(writer: Writer, one: Node, at: Mapping[str, Node]) -> Value:
    """The call of the run-time kernel, with what may be seen."""
    name = one["name"]
    if name == "logsumexp":
        return _summed(writer, one, at)
    value = writer.value(at["x"])
    lead, dims = writer.order(one, [value])
    dims = (*(axis for axis in dims if axis != one["axis"]), one["axis"])
    visible = writer.visible([one["axis"]], lead, dims)
    see = [writer.fit(writer.value(at["see"]), lead, dims)] if "see" in at else []
    sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims])
    fresh = f"np.array(np.broadcast_to({writer.fit(value, lead, dims)}, ({sizes},)), {writer.dtype})"
    if not (visible or see):
        writer.need(name)
        return Value(f"{name}({fresh})", lead, dims, owned=True)
    kernel = f"length_{name}" if visible else "masked_softmax"
    writer.need(kernel)
    return Value(f"{kernel}({', '.join([fresh, *visible, *see])})", lead, dims, owned=True)


def _summed(writer: Writer, one: Node, at: Mapping[str, Node]) -> Value:
    """log Σ e^x along an axis, minus what is given: the call of the run-time kernel, with what may be seen."""
    value = writer.value(at["x"])
    lead, left = writer.shape(one)
    dims = tuple(dict.fromkeys((*value.dims, *left)))
    dims = (*(axis for axis in dims if axis != one["axis"]), one["axis"])
    visible = writer.visible([one["axis"]], lead, dims)
    see = [writer.fit(writer.value(at["see"]), lead, dims)] if "see" in at else []
    sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims])
    x = f"np.asarray({writer.fit(value, lead, dims)}, {writer.dtype})"
    if "less" in at or see or len(value.dims) < len(dims) or (lead and not value.lead):
        x = f"np.broadcast_to({x}, ({sizes},))"
    writer.need("log_sum_exp")
    condition = " & ".join(f"({one})" for one in (*visible, *see))
    arguments = [x, *([condition] if condition else [])]
    if "less" in at:
        sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims[:-1]])
        less = writer.fit(writer.value(at["less"]), lead, dims[:-1])
        arguments.append(f"less=np.broadcast_to({less}, ({sizes}{',' if sizes else ''}))")
    return Value(f"log_sum_exp({', '.join(arguments)})", lead, dims[:-1], owned=True)
