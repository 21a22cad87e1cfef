"""Kernels on values with all their axes, one example at a time: each works on a copy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Node
from .overwriting import WEIGHTS, settings
from .values import Value

if TYPE_CHECKING:
    from .writer import Writer

NORMS = ("layer_norm", "rms_norm", "l2_normalize")


def has_copy_form(one: Node) -> bool:
    """Whether the kernel is a scalar function, or a norm over an axis of known size."""
    return one["name"] in kernel_table.POINTWISE or (one["name"] in NORMS and not one["axis"].ragged)


def write(writer: Writer, one: Node, at: Mapping[str, Node]) -> Value:
    """The call of the run-time kernel; the norm's axis comes last, what is added stands in the copy."""
    axes = (one["axis"],) if one["name"] in NORMS else ()
    parts = [writer.value(at[role]) for role in ("x", "bias", "residual") if role in at]
    lead, dims = writer.order(one, parts)
    dims = (*(axis for axis in dims if axis not in axes), *axes)
    text = " + ".join(writer.fit(part, lead, dims) for part in parts)
    if not any(set(part.dims) == set(dims) for part in parts):
        sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims])
        text = f"np.broadcast_to({text}, ({sizes},))"
    arguments = [f"np.array({text}, {writer.dtype})"]
    for role in WEIGHTS.get(one["name"], ()):
        arguments.append(writer.fit(writer.value(at[role]), "", axes) if role in at else "None")
    arguments += settings(one)
    writer.need(one["name"])
    return Value(f"{one['name']}({', '.join(arguments)})", lead, dims, owned=True)
