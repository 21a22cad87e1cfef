"""Dropout under a gradient: the numbers that the reference draws for a site, its steps and a seed, drawn once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir import Node, drawing_order
from .losses import Dims
from .values import Value, aligned

if TYPE_CHECKING:
    from .gradient_writer import GradientWriter


def write(writer: GradientWriter, one: Node) -> Value:
    """What a dropout leaves of its value, in the memory of that if nobody else reads it."""
    numbers, dims = _drawn(writer, one)
    writer.need("drawn", "dropped")
    value, rate = writer.real(writer.value(one.args[0])), writer.value(one.args[1])
    if value.dims == dims and writer.overwritten(one.args[0], value):
        return Value(f"dropped({value.text}, {rate.text}, {numbers}, over=True)", "", dims, owned=True)
    return Value(f"dropped({writer.whole(value, dims)}, {rate.text}, {numbers})", "", dims)


def _drawn(writer: GradientWriter, one: Node) -> tuple[str, Dims]:
    """(the variable of the numbers of a draw, its axes): drawn once, for the dropout and for its mask backwards."""
    key: object = ("drawn", one["site"], one.free, one.args[2:], one.get("drawn") or one.axes)
    if key not in writer.memo:
        text, dims = _numbers(writer, one)
        name = writer.names.fresh("numbers")
        writer.write(f"{name} = {text}")
        writer.memo[key] = Value(name, "", dims)  # type: ignore[index]
    found = writer.memo[key]  # type: ignore[index]
    return found.text, found.dims


def _numbers(writer: GradientWriter, one: Node) -> tuple[str, Dims]:
    """The numbers of a draw at its steps, for all rows or those that are picked, and their axes."""
    picked, axes = one.get("picked"), one.get("drawn") or one.axes
    count = len(one.args) - one.get("counted", 0)
    given = [f"int({writer.value(arg).text})" for arg in one.args[count:]]
    steps = "".join(f"@{{{text}}}" for text in given or [writer.counters[loop] for loop in sorted(one.free)])
    site = repr(str(one["site"])) + (f' + f"{steps}"' if steps else "")
    known = drawing_order(axes)
    turned = "" if known == list(axes) else f", {tuple(known.index(axis) for axis in axes)}"
    numbers = f"drawn(seed, {site}, ({', '.join(writer.size(axis) for axis in known)},){turned})"
    if picked is None:
        return numbers, one.axes
    keys = picked if isinstance(picked, tuple) else (picked,)
    places = [writer.value(arg) for arg in one.args[2:count]]
    lead = tuple(dict.fromkeys(axis for place in places for axis in place.dims))
    shared = tuple(a for a in axes if a in lead and a not in keys)
    rest = tuple(a for a in axes if a not in lead and a not in keys)
    order = tuple(axes.index(axis) for axis in (*keys, *shared, *rest))
    index = [f"np.asarray({aligned(place, '', lead)})" for place in places]
    index += [aligned(Value(f"np.arange({writer.size(a)})", "", (a,)), "", lead) for a in shared]
    writer.need("drawn_rows")
    return f"drawn_rows({numbers}, {order}, {', '.join(index)})", (*lead, *rest)
