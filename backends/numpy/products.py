"""Products with weights over packed rows: one matrix product each, its bias added by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Node, walk
from ...compiler.passes.fold_scales import is_product
from ...compiler.passes.parameters import is_parameter
from .values import Unsupported, Value, transposed

if TYPE_CHECKING:
    from .packed import PackedWriter


def with_bias(writer: PackedWriter, roots: tuple[Node, ...]) -> set[Node]:
    """Products that only a sum with a bias reads: the sum writes them."""
    readers: dict[Node, list[Node]] = {}
    for one in walk(roots):
        for arg in one.args:
            readers.setdefault(arg, []).append(one)
    found: set[Node] = set()
    for one in walk(roots):
        if one.op != "map" or one["fn"] != "+":
            continue
        for product, bias in (one.args, one.args[::-1]):
            alone = is_product(product) and is_parameter(bias) and len(readers[product]) == 1
            fit = layouts(writer, product) if alone and product not in roots else None
            if fit is not None and set(bias.axes) <= set(fit[1]):
                found.add(product)
    return found


def layouts(writer: PackedWriter, product: Node) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
    """(consumed, made) axes of a product with weights that is one matrix product, or None."""
    weights = product.args[1]
    outs = tuple(axis for axis in weights.axes if axis not in product["over"])
    if any(axis in product.args[0].axes for axis in outs) or not outs:
        return None
    for part in walk([weights]):
        if part.op == "concat" and part["into"] in outs:
            outs = (part["into"], *(axis for axis in outs if axis != part["into"]))
    return product["over"], outs


def linear(writer: PackedWriter, one: Node, product: Node, bias: Node | None) -> Value | None:
    """x @ W (+ b) as one matrix product into scratch memory; None where it is no such product."""
    found = layouts(writer, product)
    if found is None or writer.parameters is None or not writer.hoisted(product.args[1]):
        return None
    over, outs = found
    if bias is not None and not set(bias.axes) <= set(outs):
        return None
    value = writer.value(product.args[0])
    if not value.lead or value.wide:
        return None
    kept = tuple(axis for axis in value.dims if axis not in over)
    over = tuple(axis for axis in value.dims if axis in over)
    x = transposed(value, (*kept, *over))
    rows = x.wrapped if len(over) == 1 and not kept else f"{x.wrapped}.reshape(-1, {width_of(over)})"
    if not kept and len(over) > 1:
        rows = f"{x.wrapped}.reshape({writer.lead_sizes(value.lead)[0]}, {width_of(over)})"
    W = writer.parameters.laid_out(product.args[1], (over, outs), writer, outs).text
    b = bias_text(writer, bias, outs)
    writer.need("linear")
    width = width_of(outs)
    wish = writer.origin(one).name or "y"
    name = writer.names.fresh(wish)
    extra = f", {b}" if b else ""
    if kept:
        writer.explain(one)
        shape = ", ".join([*writer.lead_sizes(value.lead), *(writer.size(a) for a in (*kept, *outs))])
        writer.write(f"{name} = linear({rows}, {W}{extra}).reshape({shape})")
        return Value(name, value.lead, (*kept, *outs), owned=True)
    buffer, room = writer.room(one, f"{writer.lead_sizes(value.lead)[0]}, {width}")
    writer.explain(one)
    writer.write(f"{name} = linear({rows}, {W}{extra}, out={room})")
    if len(outs) > 1:
        sizes = ", ".join(writer.size(axis) for axis in outs)
        writer.write(f"{name} = {name}.reshape({writer.lead_sizes(value.lead)[0]}, {sizes})")
    return Value(name, value.lead, outs, buffer=buffer)


def bias_text(writer: PackedWriter, bias: Node | None, outs: tuple[Axis, ...]) -> str:
    if bias is None or writer.parameters is None:
        return ""
    if set(bias.axes) == set(outs):
        return writer.parameters.laid_out(bias, (outs,), writer, outs).text
    raise Unsupported("a bias along part of a product")


def width_of(axes: tuple[Axis, ...]) -> int:
    """How many entries these axes have together."""
    total = 1
    for axis in axes:
        if not isinstance(axis.size, int):
            raise Unsupported("a product over a length")
        total *= axis.size
    return total
