"""Kernels that overwrite their rows, and updates in place: allowed where nobody reads the old value any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Node
from ...compiler.kernels import SETTINGS
from . import slices
from .values import VIEWS, Unsupported, Value, transposed

if TYPE_CHECKING:
    from .packed import PackedWriter


WEIGHTS = {"layer_norm": ("gain", "shift"), "rms_norm": ("gain",)}
"""The weights that a kernel takes after its rows."""


def settings(one: Node) -> list[str]:
    """The numbers that a kernel takes after its weights."""
    return [repr(float(one[name])) for name in SETTINGS if one.get(name) is not None]


def in_place(writer: PackedWriter, one: Node, at: Mapping[str, Node], axes: tuple[Axis, ...]) -> Value:
    """A kernel that overwrites its rows; the norm's axis, or else the bias's, comes last."""
    value, bias = writer.value(at["x"]), at.get("bias")
    if not value.lead or value.wide:
        raise Unsupported(f"{one['name']} of a value without examples")
    if bias is not None and len(bias.axes) > 1:  # rows have one axis: it is added before
        text = f"{value.wrapped} + {writer.fit(writer.value(bias), value.lead, value.dims)}"
        value, bias = writer.assigned(at["x"], Value(text, value.lead, value.dims, owned=True), "t"), None
    last = axes or (bias.axes if bias is not None else ())
    dims = (*(axis for axis in value.dims if axis not in last), *last)
    if value.dims != dims:
        value = transposed(value, dims)
    residual = at.get("residual")
    rest = writer.value(residual) if residual is not None else None
    if rest is not None and (rest.text == value.text or (rest.buffer is not None and rest.buffer == value.buffer)):
        x = copied(writer, value)  # the kernel adds the residual after the bias
    else:
        x = writable(writer, one, at["x"], value)
    arguments = [x.text, *(parameter(writer, at.get(role), axes) for role in WEIGHTS.get(one["name"], ()))]
    arguments += settings(one)
    if bias is not None:
        arguments.append(f"bias={parameter(writer, bias, last)}")
    if rest is not None:
        arguments.append(f"residual={writer.fit(rest, value.lead, dims)}")
    writer.need(one["name"])
    origin = writer.origin(one).name
    name = writer.name_for(one, origin or "t", x.buffer) if origin or not x.text.isidentifier() else x.text
    writer.explain(one)
    writer.write(f"{name} = {one['name']}({', '.join(arguments)})")
    return Value(name, value.lead, dims, buffer=x.buffer)


def parameter(writer: PackedWriter, part: Node | None, axes: tuple[Axis, ...]) -> str:
    if part is None:
        return "None"
    assert writer.parameters is not None
    return writer.parameters.laid_out(part, (axes,), writer, axes).text


def updated(writer: PackedWriter, one: Node) -> Value | None:
    """`x += y` where x is scratch that nobody reads any more."""
    if one["fn"] not in ("+", "-", "*", "/") or one.kind != "real":
        return None
    left, right = (writer.value(arg) for arg in one.args)
    lead, dims = writer.shape(one)
    if (
        left.buffer is None
        or left.wide
        or not left.text.isidentifier()
        or left.lead != lead
        or set(left.dims) != set(dims)
    ):
        return None
    dies = writer.dies(one.args[0]) and writer.buffers.held.get(left.buffer, -1) <= writer.here
    if not dies or is_view(one.args[0]) or one.args[0].op == "loop" or (right.wide and not right.number):
        return None
    writer.explain(one)
    writer.write(f"{left.text} {one['fn']}= {writer.fit(right, lead, left.dims)}")
    writer.buffers.pass_on(left.buffer, writer.last.get(one, writer.here))
    return left


def writable(writer: PackedWriter, one: Node, arg: Node, value: Value) -> Value:
    """A value that may be overwritten: the argument itself if this is its last reader, else a copy."""
    own = value.buffer is not None and writer.dies(arg) and writer.buffers.held.get(value.buffer, -1) <= writer.here
    whole = value.text.isidentifier() and arg.op not in VIEWS
    if own and (whole or arg.op in ("state", "carry")) and value.buffer is not None:
        writer.buffers.pass_on(value.buffer, writer.last.get(one, writer.here))
        writer.overwrites += 1
        return value
    free = not value.text.isidentifier() or (writer.dies(arg) and not is_view(arg))
    if value.buffer is None and value.owned and free:
        return value
    return copied(writer, value)


def is_view(one: Node) -> bool:
    """Whether the value may be another one's memory: rows picked by computed numbers are memory of their own."""
    return one.op in VIEWS and (one.op != "pick" or one.args[1].op == "const" or slices.runs(one) is not None)


def copied(writer: PackedWriter, value: Value) -> Value:
    """Memory of its own."""
    return Value(f"np.array({value.text}, {writer.dtype})", value.lead, value.dims, owned=True)
