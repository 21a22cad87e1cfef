"""Along a length of packed rows: sums over each example, rows picked from tables and from examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...compiler.affine import form, greatest, least
from ...compiler.ir import Axis, Node
from . import slices
from .values import Unsupported, Value

if TYPE_CHECKING:
    from .packed import PackedWriter
    from .rows import RowWriter


def reduced(writer: RowWriter, one: Node) -> Value:
    """A reduction over a length: over each example's rows."""
    kind = one["reduction"]
    if len(one["over"]) != 1 or kind not in ("sum", "mean", "max", "min", "count", "norm"):
        raise Unsupported(f"{kind} over a length together with other axes")
    value = writer.value(one.args[0])
    if kind in ("mean", "max", "min", "norm"):
        value = writer.real(value, wide=True)
    dims = value.dims
    condition = ""
    if len(one.args) > 1:
        test = writer.value(one.args[1])
        if test.dims or test.lead != "rows":
            raise Unsupported(f"{kind} over a length with a condition along other axes")
        condition = test.text
    x = writer.fit(value, "rows", dims) if value.lead == "rows" else writer.broadcast(value, "rows", dims)
    text = writer.segments(kind, x, condition)
    return Value(text, "examples", dims, owned=True, wide=value.wide or kind == "count")


def segments(writer: RowWriter, kind: str, x: str, condition: str) -> str:
    """The text of a reduction over each example's rows."""
    seen = writer.seen(condition)
    if kind == "count":
        writer.need("segment_sum")
        return f"segment_sum(np.asarray({x}, np.intp), lengths{seen})"
    if kind == "min":
        writer.need("segment_max")
        return f"-segment_max(-({x}), lengths{seen}{', -np.inf' if condition else ''})"
    if kind == "norm":
        writer.need("segment_sum")
        return f"np.sqrt(segment_sum(np.square({x}), lengths{seen}))"
    writer.need(f"segment_{kind}")
    empty = ", -np.inf" if kind == "max" and condition else ""
    return f"segment_{kind}({x}, lengths{seen}{empty})"


def picked(writer: PackedWriter, one: Node) -> Value:
    """A pick: rows of tables for tokens, or slices."""
    base, keys = one.args[0], one["keys"]
    found = slices.runs(one)
    if found is not None:
        return slices.sliced(writer.value(base), found)
    if not writer.hoisted(base) or len(keys) != 1:
        return general_pick(writer, one)
    index = writer.value(one.args[1])
    if index.dims or writer.parameters is None:
        return general_pick(writer, one)
    return looked_up(writer, one, base, index)


def looked_up(writer: PackedWriter, one: Node, base: Node, index: Value) -> Value:
    """A row of a table for each token; where nobody has checked the numbers, NaN for a row that does not exist."""
    assert writer.parameters is not None
    key = one["keys"][0]
    dims = tuple(axis for axis in base.axes if axis != key)
    table = writer.parameters.laid_out(base, ((key,), *((axis,) for axis in dims)), writer, (key, *dims))
    if one not in writer.checked:
        writer.need("gather")
        return Value(f"gather({table.text}, {index.text})", index.lead, dims, owned=True, wide=table.wide)
    if index.lead == "rows" and writer.readers.get(one, 0) <= 1 and len(dims) == 1 and index.text not in writer.scalars:
        writer.explain(one)
        wish = writer.origin(one).name or "x"
        name = writer.names.fresh(wish)
        buffer, room = writer.room(one, f"n, {writer.size(dims[0])}")
        writer.write(f"{name} = np.take({table.text}, {index.text}, axis=0, out={room}, mode=\"clip\")")
        return Value(name, "rows", dims, buffer=buffer)
    return Value(f"{table.text}[{index.text}]", index.lead, dims, owned=True)


def general_pick(writer: PackedWriter, one: Node) -> Value:
    """One axis picked by numbers along one new axis, the same for all rows: np.take."""
    base = writer.value(one.args[0])
    if len(one["keys"]) == 1:
        index = writer.value(one.args[1])
        key = one["keys"][0]
        others = [axis for axis in base.dims if axis != key]
        if not index.lead and len(index.dims) == 1 and index.dims[0] not in others:
            at = base.dims.index(key)
            dims = (*base.dims[:at], index.dims[0], *base.dims[at + 1 :])
            place = at + (1 if base.lead else 0)
            text = f"np.take({base.text}, {index.text}.astype(np.intp), axis={place})"
            if not _surely_there(one.args[1], key):
                writer.need("gather")
                text = f"np.moveaxis(gather(np.moveaxis({base.text}, {place}, 0), {index.text}), 0, {place})"
            return Value(text, base.lead, dims, owned=True, wide=base.wide)
    raise Unsupported("a pick by numbers that differ along other axes")


def _surely_there(place: Node, key: Axis) -> bool:
    """Whether a number is surely a place along an axis."""
    known = form(place)
    return known is not None and least(known) >= 0 and isinstance(key.size, int) and greatest(known) < key.size


def row_of_example(writer: RowWriter, one: Node) -> Value:
    """x[seq = 0], x[seq = seq - 1], x[seq = i] with numbers i of each example: some rows of each example."""
    value, number = writer.value(one.args[0]), writer.value(one.args[1])
    if len(one["keys"]) != 1 or number.lead == "rows" or (number.dims and not number.lead):
        raise Unsupported("a pick along a length by numbers of tokens")
    if value.lead != "rows" or set(number.dims) & set(value.dims):
        raise Unsupported("a pick along a length of what has none")
    writer.need("row_of_example")
    text = f"row_of_example({value.text}, lengths, {number.text})"
    return Value(text, "examples", (*number.dims, *value.dims), owned=True, wide=value.wide)


def product_over_length(writer: RowWriter, one: Node) -> Value:
    """Σ over the length of a product: a sum over each example's rows."""
    if len(one["over"]) != 1:
        raise Unsupported("a product over a length and another axis")
    values = [writer.value(arg) for arg in one.args]
    dims = tuple(dict.fromkeys(axis for value in values for axis in value.dims))
    texts = [writer.fit(value, "rows", dims) for value in values]
    return Value(writer.segments("sum", f"{texts[0]} * {texts[1]}", ""), "examples", dims, owned=True)


def softmax_of_length(writer: RowWriter, at: Mapping[str, Node]) -> Value:
    """e^x / Σ e^x over each example's rows."""
    value, condition = writer.real(writer.value(at["x"])), ""
    if "see" in at:
        see = writer.value(at["see"])
        if see.lead != "rows" or see.dims:
            raise Unsupported("a softmax along a length with a condition along other axes")
        condition = see.text
    return Value(writer.softmax_of_rows(value.text, condition), "rows", value.dims, owned=True)


def running_sum(writer: RowWriter, at: Mapping[str, Node]) -> Value:
    """At each row the sum of its example's rows up to it."""
    value = writer.value(at["x"])
    text = writer.sums_of_rows(writer.fit(value, "rows", value.dims))
    return Value(text, "rows", value.dims, owned=True, wide=value.wide)
