"""Splitting, merging and joining axes, for values with all their axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Node
from .values import Value, transposed

if TYPE_CHECKING:
    from .writer import Writer


def split(writer: Writer, one: Node) -> Value:
    """One axis as several: a reshape."""
    value = writer.value(one.args[0])
    at = value.dims.index(one["axis"])
    dims = value.dims[:at] + one["into"] + value.dims[at + 1 :]
    return reshaped(writer, value, dims)


def merged(writer: Writer, one: Node) -> Value:
    """Several axes as one: brought side by side, then a reshape."""
    value = writer.value(one.args[0])
    kept = tuple(axis for axis in value.dims if axis not in one["gone"])
    value = transposed(value, (*kept, *one["gone"]))
    return reshaped(writer, value, (*kept, one["into"]))


def reshaped(writer: Writer, value: Value, dims: tuple[Axis, ...]) -> Value:
    """The value with other dimensions of the same entries in the same order."""
    sizes = [writer.size(axis) for axis in dims]
    lead = ["-1"] if value.lead else []
    text = f"{value.wrapped}.reshape({', '.join([*lead, *sizes])})"
    return Value(text, value.lead, dims, buffer=value.buffer, wide=value.wide)


def concatenated(writer: Writer, one: Node) -> Value:
    """Parts one after the other, stacked where each is one entry; the new axis comes last."""
    lead, _ = writer.shape(one)
    kept = tuple(axis for axis in one.axes[:-1] if axis in writer.shape(one)[1])
    values = [writer.value(arg) for arg in one.args]
    if all(a is None for a in one["along"]) and all(v.lead == lead and set(v.dims) == set(kept) for v in values):
        stacked = ", ".join(transposed(v, kept).text for v in values)
        wide = all(v.wide for v in values)
        return Value(f"np.stack([{stacked}], axis=-1)", lead, (*kept, one["into"]), owned=True, wide=wide)
    texts = []
    for arg, axis in zip(one.args, one["along"], strict=True):
        value = writer.value(arg)
        dims = (*kept, axis or one["into"])
        text = writer.fit(value, lead, dims) if axis else f"{boxed(writer.fit(value, lead, kept))}[..., None]"
        if len(value.dims) < len(kept) + (1 if axis else 0) or (value.lead != lead):
            sizes = writer.lead_sizes(lead) + [writer.size(a) for a in kept] + [writer.size(axis) if axis else "1"]
            text = f"np.broadcast_to({text}, ({', '.join(sizes)},))"
        texts.append(text)
    wide = all(writer.value(arg).wide for arg in one.args)
    return Value(f"np.concatenate([{', '.join(texts)}], axis=-1)", lead, (*kept, one["into"]), owned=True, wide=wide)


def boxed(text: str) -> str:
    """Text that brackets may follow."""
    return (
        text if text.replace("_", "a").replace(".", "a").isalnum() and not text[0].isdigit() else f"np.asarray({text})"
    )
