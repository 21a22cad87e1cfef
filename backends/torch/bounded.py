"""Attention within bounds over a padded batch: which of them have a form that makes no table of queries and keys.

An example's places are one after the other, wherever its padding stands, so what a bound says of orders it says of
places: causality is SDPA's own form, a window is blocks of one shape. Other bounds are a relation again, which a padded
batch, as one graph for all lengths, can only take as a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler import masks
from ...compiler.ir import Axis, Graph, Node, Origin
from ...compiler.ledger import Ledger
from ..numpy.bounded import is_bounded, of_keys
from ..numpy.values import Value, aligned

if TYPE_CHECKING:
    from .writer import TorchWriter

LAW = "causality and windows need no table of queries and keys"


@dataclass(frozen=True)
class Form:
    """Keys from `before` to `after` places beside the query's own; all before it where `before` is None."""

    before: int | None
    after: int


def form(one: Node) -> Form | str:
    """The form of a bounded attention over a padded batch, or why it has none."""
    at, axis = kernel_table.parts(one), one["axis"]
    if "bias" in at:
        return "its bias is a table of queries and keys"
    if of_keys(at.get("see"), axis)[1] is not None:
        return "a part of the mask is no bound"
    if "drop" in at and at["drop"].op != "const":
        return "weights are dropped at a computed rate"
    for row in (a for a in at["query"].axes if a.ragged and a != axis.owner):
        first, stop = (masks.offset(at.get(role), row, axis) for role in ("first", "stop"))
        if stop is None or (first is None and "first" in at):
            continue
        if first is None and stop == 1 and one["scale"] > 0:
            return Form(None, 0)
        if first is not None and stop > first:
            return Form(-first, stop - 1)
    return "its bounds are no window of a fixed width around each query"


def with_forms(graph: Graph, ledger: Ledger) -> Graph:
    """The graph for a padded batch: bounds are the form that an attention has (`form`), or a relation again."""
    return graph.rewrite(partial(_settled, graph.origins, ledger))


def _settled(origins: Mapping[Node, Origin], ledger: Ledger, one: Node) -> Node:
    if one.op != "kernel" or one["name"] != "attention" or not is_bounded(kernel_table.parts(one)):
        return one
    found, span = form(one), origins.get(one, Origin()).span
    if isinstance(found, str):
        ledger.refused("fold_masks", "padded", LAW, found, span)
        return kernel_table.unbounded(one)
    ledger.fired("fold_masks", "padded", LAW, span)
    at = {role: part for role, part in kernel_table.parts(one).items() if role not in ("first", "stop")}
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    return kernel_table.make("attention", at, one.axes, **attrs, form=found)


def call(
    writer: TorchWriter, one: Node, texts: tuple[str, str, str], rate: Value | None, heads: tuple[Axis, ...]
) -> str:
    """The call of the run-time function for query, key and value [batch, …heads, place, width]."""
    found: Form = one["form"]
    sizes = ", ".join(writer.size(axis) for axis in heads)
    given = [f"{text}.flatten(1, 2)" if len(heads) > 1 else text if heads else f"{text}[:, None]" for text in texts]
    given.append(_keys(writer, one))
    given += [] if found.before is None else [str(found.before), str(found.after)]
    given.append(f"scale={float(one['scale'])!r}")
    given += [] if rate is None else [f"drop={rate.text} if self.training else 0.0"]
    name = "causal_attention" if found.before is None else "window_attention"
    writer.need(name)
    text = f"{name}({', '.join(given)})"
    return f"{text}.unflatten(1, ({sizes}))" if len(heads) > 1 else text if heads else f"{text}[:, 0]"


def _keys(writer: TorchWriter, one: Node) -> str:
    """The keys [batch, key] that may be seen; None where all may."""
    axis = one["axis"]
    own, _ = of_keys(kernel_table.parts(one).get("see"), axis)
    seen = writer.visible_text(axis)
    if not own:
        return f"{seen} if {writer.masked_text(axis)} else None"
    parts = [aligned(writer.value(part), "", (axis.owner, axis)) for part in own]
    return " & ".join([seen, *parts])
