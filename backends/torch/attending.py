"""Attention of an objective whose query, key and value are rows of tokens: a call on the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Node, at_selected, walk_all
from ..numpy.values import Value, transposed

if TYPE_CHECKING:
    from .objective import ObjectiveWriter

SIDES = ("query", "key", "value")


def rows_of(one: Node) -> Axis | None:
    """The axis of rows of tokens that a value is made of, put back at their places; None if it is not."""
    if one.op != "scatter" or not at_selected(one, hidden=True):
        return None
    into: Axis = one.args[1]["into"]
    return into


def of_tokens(graph: Graph) -> dict[Node, Axis]:
    """The attentions that each token asks of the tokens of its own example, with the axis of their rows."""
    found: dict[Node, Axis] = {}
    for one in walk_all(graph.roots):
        if one.op == "kernel" and one["name"] == "attention" and (rows := _rows(one)) is not None:
            found[one] = rows
    return found


def _rows(one: Node) -> Axis | None:
    at = kernel_table.parts(one)
    if not set(at) <= {*SIDES, "drop"} or ("drop" in at and at["drop"].op != "const"):
        return None
    if one.get("form") is not None and one["form"].before is None and one["form"].after != 0:
        return None
    if not _known(one, at):
        return None
    rows = {rows_of(at[role]) for role in SIDES}
    return rows.pop() if len(rows) == 1 else None


def _known(one: Node, at: Mapping[str, Node]) -> bool:
    """Whether there is one axis of heads, which query, key and value share, and at most one of queries of a group."""
    apart = {one["axis"], one["axis"].owner, one["width"]}
    heads = [axis for axis in at["key"].axes if axis not in apart]
    groups = [axis for axis in at["query"].axes if axis not in (*apart, *heads) and not axis.counted]
    made = [axis for axis in at["value"].axes if axis not in (one["axis"], one["axis"].owner, *heads)]
    shared = all(set(heads) <= set(at[role].axes) for role in ("query", "value"))
    return shared and len(heads) == 1 and len(groups) <= 1 and len(made) == 1


def absorbed(graph: Graph, found: dict[Node, Axis]) -> set[Node]:
    """Rows put back at their places that only these attentions read: they are not put back."""
    others = {arg for one in walk_all(graph.roots) if one not in found for arg in one.args}
    sides = (kernel_table.parts(one)[role] for one in found for role in SIDES)
    return {one for one in sides if one not in others and one not in graph.roots}


def write(writer: ObjectiveWriter, one: Node, into: Axis) -> Value:
    """The line with the rows of the heads."""
    at = kernel_table.parts(one)
    scatters = [at[role] for role in SIDES]
    query, key, value = (writer.real(writer.value(scatter.args[0])) for scatter in scatters)
    width = one["width"]
    heads = tuple(axis for axis in key.dims if axis not in (into, width))
    groups = tuple(axis for axis in query.dims if axis not in (into, width, *heads))
    (made,) = (axis for axis in value.dims if axis not in (into, *heads))
    texts = [transposed(query, (into, *heads, *groups, width)).text, transposed(key, (into, *heads, width)).text]
    texts.append(transposed(value, (into, *heads, made)).text)
    texts += writer.runs[into]
    texts.append(f"scale={float(one['scale'])!r}")
    form = one.get("form")
    texts += [] if form is None or form.before is None else [f"before={form.before}"]
    texts += [] if form is None else [f"after={form.after}"]
    texts += [f"drop={writer.value(at['drop']).text} if self.training else 0.0"] if "drop" in at else []
    writer.need("attention_of_tokens")
    found = Value(f"attention_of_tokens({', '.join(texts)})", "", (into, *heads, *groups, made), reorder="permute")
    return writer.assigned(one, found)
