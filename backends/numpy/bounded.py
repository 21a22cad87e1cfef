"""Attention within bounds: the kernel node with `first` and `stop` as a call of the run-time `attention_within`.

Bounds are one number a row, whatever made them. Of what is left of the relation, the parts that speak of the keys alone
are hidden keys; the rest, and a bias, are written as functions of the places of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler import masks
from ...compiler.ir import Axis, Node
from .values import Unsupported, Value

if TYPE_CHECKING:
    from .examples import ExampleWriter
    from .rows import RowWriter


@dataclass(frozen=True)
class Seen:
    """Which keys a row sees, beside its bounds: the text of the hidden keys, and what is left of the relation."""

    hidden: str
    see: Node | None


def is_bounded(at: Mapping[str, Node]) -> bool:
    """Whether a row of the attention sees keys between bounds."""
    return "first" in at or "stop" in at


def of_keys(see: Node | None, axis: Axis) -> tuple[list[Node], Node | None]:
    """The parts of a relation that speak of the keys alone and depend on the tokens, and the rest."""
    parts = masks.conjuncts(see)
    own = [one for one in parts if axis in one.axes and set(one.axes) == {axis, axis.owner}]
    return own, masks.conjunction(one for one in parts if one not in own)


def seen_rows(writer: RowWriter, at: Mapping[str, Node], axis: Axis, hidden: str) -> Seen:
    """The relation of packed rows; `hidden` is the text of the keys that nobody may see."""
    own, rest = of_keys(at.get("see"), axis)
    together = masks.conjunction(own)
    if together is None:
        return Seen(hidden, rest)
    writer.need("unseen")
    seen = writer.value(together)
    return Seen(f"unseen({hidden}, {writer.fit(seen, seen.lead if seen.lead != 'examples' else 'rows', ())})", rest)


def row_bounds(
    writer: RowWriter, at: Mapping[str, Node], asked: tuple[Axis, ...] | None, shift: str = ""
) -> list[str]:
    """`first=…, stop=…`: a number for each query; `asked` are the axes of an example's rows that ask, if not all do.

    `shift` is the text of how many keys before the first there were.
    """
    less = f" - {shift}" if shift else ""
    return [f"{role}={_per_row(writer, at[role], asked)}{less}" for role in ("first", "stop") if role in at]


def _per_row(writer: RowWriter, bound: Node, asked: tuple[Axis, ...] | None) -> str:
    value, lead, dims = writer.value(bound), "rows" if asked is None else "examples", asked or ()
    if (value.lead == "rows" and lead == "examples") or not set(value.dims) <= set(dims):
        raise Unsupported("a mask whose bounds lie along other axes than its queries")
    whole = value.lead == lead and value.dims == dims
    text = value.wrapped if whole else writer.broadcast(value, lead, dims)
    return f"{text}.reshape(-1)" if dims else text if not whole else value.text


# ---------------------------------------------------------------------------------------- one example, all its axes


@dataclass(frozen=True)
class Sides:
    """The axes of attention over one example: rows, head axes of the keys and of the query, width of the values."""

    row: Axis
    groups: tuple[Axis, ...]
    heads: tuple[Axis, ...]
    own: Axis


def sides(one: Node, at: Mapping[str, Node], batch: Axis | None) -> Sides | None:
    """The axes of a bounded attention that `attention_within` can take; None where it must be written out."""
    if "query" not in at:
        return None
    axis, width = one["axis"], one["width"]
    groups = tuple(a for a in at["key"].axes if a not in (axis, width, batch))
    mine = tuple(a for a in at["query"].axes if a not in (*groups, width, batch))
    own = tuple(a for a in at["value"].axes if a not in (*groups, axis, batch))
    rows = [a for a in mine if any(role in at and a in at[role].axes for role in ("first", "stop"))] or [
        a for a in mine if a.ragged
    ]
    if not is_bounded(at) or len(rows) != 1 or len(groups) > 1 or len(own) != 1 or axis not in at["value"].axes:
        return None
    more = tuple(a for a in mine if a not in rows)
    if len(more) > 1 or (more and not groups) or not set(groups) <= set(at["query"].axes):
        return None
    return Sides(rows[0], groups, (*groups, *more), own[0])


def of_example(writer: ExampleWriter, one: Node, at: Mapping[str, Node], found: Sides) -> Value:
    """The call for one example: its queries are the rows of one text, its keys those of another."""
    axis, row = one["axis"], found.row
    rows, keys = writer.size(row), writer.size(axis)
    arguments = [
        _laid_out(writer, at["query"], (row, *found.heads, one["width"]), not found.heads),
        _laid_out(writer, at["key"], (axis, *found.groups, one["width"]), not found.groups),
        _laid_out(writer, at["value"], (axis, *found.groups, found.own), not found.groups),
        f"[{rows}]",
    ]
    arguments += [f"scale={float(one['scale'])!r}"] if one["scale"] != 1 else []
    arguments += [f"{role}={_whole(writer, at[role], (row,))}" for role in ("first", "stop") if role in at]
    if axis.ragged:
        arguments.append(f"hidden=~{writer.visible_text(axis)}")
    if "see" in at:
        arguments.append(f"see={_whole(writer, at['see'], (row, axis))}")
    if "bias" in at:
        bias = _whole(writer, at["bias"], (*found.heads, row, axis))
        arguments.append(f"bias={bias}" + (f".reshape(-1, {rows}, {keys})" if len(found.heads) > 1 else ""))
    arguments.append(f"key_lengths=[{keys}]")
    writer.need("attention_within")
    text = f"attention_within({', '.join(arguments)})"
    return Value(text if found.heads else f"{text}[:, 0]", "", (row, *found.heads, found.own), owned=True)


def _laid_out(writer: ExampleWriter, one: Node, dims: tuple[Axis, ...], alone: bool) -> str:
    """Rows with the heads before the width, in the module's type; one head where there is none."""
    value = writer.value(one)
    text = writer.fit(value, "", dims) if set(value.dims) == set(dims) else writer.broadcast(value, "", dims)
    text = f"np.asarray({text}, {writer.dtype})" if value.wide or value.number else text
    return f"{text}[:, None]" if alone else text


def _whole(writer: ExampleWriter, one: Node, dims: tuple[Axis, ...]) -> str:
    value = writer.value(one)
    return writer.fit(value, "", dims) if set(value.dims) == set(dims) else writer.broadcast(value, "", dims)
