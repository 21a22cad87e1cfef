"""Attention over a batch, and what flows back through it, as calls that go from example to example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Length, Node, walk_all
from ...compiler.ledger import Ledger
from .literals import number
from .losses import Dims
from .values import Value, transposed

if TYPE_CHECKING:
    from .selecting import Selecting

FORWARD, BACKWARD = "attention", "attention_slope"
TO = ("query", "key", "value")
LAW = "attention, and what flows back through it, goes from example to example"
OTHERS = "its keys are no tokens, or what it sees or adds has axes of its own"


@dataclass(frozen=True)
class Form:
    """The axes of an attention: batch, rows of the query (None: one), heads of the keys, groups, keys, widths."""

    batch: Axis
    row: Axis | None
    heads: Dims
    groups: Dims
    key: Axis
    width: Axis
    made: Axis

    @property
    def rows(self) -> Dims:
        """Batch and rows."""
        return (self.batch,) if self.row is None else (self.batch, self.row)

    @property
    def plain(self) -> bool:
        """Whether queries have the dimensions of the call as they are."""
        return len(self.heads) == len(self.groups) == 1 and self.row is not None

    @property
    def pairs(self) -> tuple[Axis | None, ...]:
        """What a relation may have, a dimension each: several heads or groups are none that it could have."""
        one = [axes[0] if len(axes) == 1 else None for axes in (self.heads, self.groups)]
        return (self.batch, *one, self.row, self.key)


def write(writer: Selecting, one: Node) -> Value | None:
    """The value of an attention, or of what flows back to a part of it; None for one that has no such form."""
    if one in writer.pieces:
        return writer.pieces[one]
    if "unpad" not in writer.graph.plan:
        return None
    at = kernel_table.parts(one)
    form = form_of(one, at)
    relations = None if form is None else _relations(writer, one, at, form)
    writer.attentions[relations is not None] += 1
    if form is None or relations is None:
        return None
    texts = [_of_queries(writer, at["query"], form, form.width)]
    texts += [_of_keys(writer, at["key"], form, form.width), _of_keys(writer, at["value"], form, form.made)]
    texts += [_count(writer, form.row), _count(writer, form.key), f"scale={number(one['scale'])}", *relations]
    texts.append("threads=self.threads")
    if one["name"] == FORWARD:
        writer.need("attended")
        text = _apart(writer, f"attended({', '.join(texts)})", form, form.made)
        return Value(text, "", (*form.rows, *form.heads, *form.groups, form.made), owned=True)
    return _slopes(writer, one, form, [_of_queries(writer, at["g"], form, form.made), *texts])


def tell(writer: Selecting, ledger: Ledger) -> None:
    """Lines for the attentions that go from example to example, and for those that do not."""
    for fired, count in writer.attentions.items():
        if fired:
            ledger.fired("unpad", "attention", f"{LAW}, {count} times")
        else:
            ledger.refused("unpad", "attention", LAW, OTHERS)


def form_of(one: Node, at: dict[str, Node]) -> Form | None:
    """The axes of an attention over the tokens of each example; None if it is another one."""
    key, width = one["axis"], one.get("width")
    batch = key.owner
    if width is None or not key.counted or "at" in at or any(batch not in at[role].axes for role in TO):
        return None
    heads = tuple(axis for axis in at["key"].axes if axis not in (batch, key, width))
    made = [axis for axis in at["value"].axes if axis not in (batch, key, *heads)]
    more = [axis for axis in at["query"].axes if axis not in (batch, width, *heads)]
    rows = [axis for axis in more if axis.counted]
    groups = tuple(axis for axis in more if axis not in rows)
    whole = {*heads} <= {*at["query"].axes} & {*at["value"].axes}
    if not whole or len(made) != 1 or len(rows) > 1 or any(axis.ragged for axis in (*heads, *groups)):
        return None
    form = Form(batch, next(iter(rows), None), heads, groups, key, width, made[0])
    if any(axis.owner != batch for axis in rows) or made[0] in more:
        return None
    wanted = (*form.rows, *heads, *groups, form.made) if one["name"] == FORWARD else at[one["to"]].axes
    return form if set(one.axes) == set(wanted) else None


def _relations(writer: Selecting, one: Node, at: dict[str, Node], form: Form) -> list[str] | None:
    """Arguments for what is seen, added and kept; None where one has dimensions that the call does not know."""
    see = kernel_table.relation(at, one["axis"])
    kept = at.get("kept") or (kernel_table.drop_mask(one) if "drop" in at else None)
    found = []
    seen = writer.seen_text(form.key)
    found += [f"seen={seen}"] if seen else []
    for name, part in (("see", see), ("bias", at.get("bias")), ("kept", kept)):
        if part is None:
            continue
        value = writer.value(part)
        if value.number or not set(value.dims) <= {axis for axis in form.pairs if axis is not None}:
            return None
        found.append(f"{name}={_lifted(value if name == 'see' else writer.real(value), form.pairs)}")
    return found


def _lifted(value: Value, dims: Sequence[Axis | None]) -> str:
    """The value with all of these dimensions, of one entry where it has none."""
    value = transposed(value, tuple(axis for axis in dims if axis in value.dims))
    marks = [":" if axis in value.dims else "None" for axis in dims]
    return f"{value.wrapped}[{', '.join(marks)}]" if "None" in marks else value.text


def _of_queries(writer: Selecting, one: Node, form: Form, width: Axis) -> str:
    """x[batch, seq, kv, group, width]"""
    value = writer.real(writer.value(one))
    text = writer.whole(value, (*form.rows, *form.heads, *form.groups, width))
    if form.plain:
        return text
    if len(form.heads) == 1 and not form.groups:
        return f"{_named(text)}[:, {':' if form.row else 'None'}, :, None]"
    sizes = [writer.size(form.batch), "1" if form.row is None else writer.size(form.row)]
    sizes += [_product(form.heads), _product(form.groups), writer.size(width)]
    return f"{_named(text)}.reshape({', '.join(sizes)})"


def _of_keys(writer: Selecting, one: Node, form: Form, width: Axis) -> str:
    """x[batch, key, kv, width]"""
    text = writer.whole(writer.real(writer.value(one)), (form.batch, form.key, *form.heads, width))
    if len(form.heads) == 1:
        return text
    sizes = [writer.size(form.batch), writer.size(form.key), _product(form.heads), writer.size(width)]
    return f"{_named(text)}.reshape({', '.join(sizes)})"


def _apart(writer: Selecting, text: str, form: Form, width: Axis) -> str:
    """The result with a dimension for each of its axes."""
    if form.plain:
        return text
    sizes = (*form.rows, *form.heads, *form.groups, width)
    return f"{text}.reshape({', '.join(writer.size(axis) for axis in sizes)})"


def _named(text: str) -> str:
    return text if text.isidentifier() or text.endswith(")") else f"({text})"


def _product(axes: Dims) -> str:
    return str(math.prod(int(str(axis.size)) for axis in axes))


def _count(writer: Selecting, axis: Axis | None) -> str:
    """How many entries of a length each example has."""
    if axis is None:
        return "None"
    assert isinstance(axis.size, Length)
    return f"count_{writer.length_texts[axis.size.name]}"


def _slopes(writer: Selecting, one: Node, form: Form, texts: list[str]) -> Value:
    """The line with what flows to query, key and value; `pieces` gets all that somebody wants."""
    every = walk_all(writer.graph.roots)
    mine = [other for other in every if other.op == "kernel" and other["name"] == BACKWARD and other.args == one.args]
    names = {to: writer.names.fresh(f"d_{wish}") for to, wish in zip(TO, "QKV", strict=True)}
    writer.need("attended_slopes")
    writer.explain(one)
    writer.write(f"{', '.join(names.values())} = attended_slopes({', '.join(texts)})")
    queries = (*form.rows, *form.heads, *form.groups, form.width)
    dims = {"query": queries}
    dims |= {to: (form.batch, form.key, *form.heads, w) for to, w in (("key", form.width), ("value", form.made))}
    for other in mine:
        to = other["to"]
        sizes = ", ".join(writer.size(axis) for axis in dims[to])
        plain = form.plain if to == "query" else len(form.heads) == 1
        writer.pieces[other] = Value(names[to] if plain else f"{names[to]}.reshape({sizes})", "", dims[to])
    return writer.pieces[one]
