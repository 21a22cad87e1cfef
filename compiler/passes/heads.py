"""Heads that are written one by one are lifted to an axis: [f(0); f(1); …] = f(h)[h dk → …], and Σ f(i) = Σ[h] f(h).

The parts must be one formula that differs only in what it reads of the same place: the entries 0, 1, … of one value
along an axis, its slices 0, 1, … (as from a chunk), or weights of their own, which are put together. So
Concat(head_1, …, head_n) and a loop over heads become the attention of all heads at once.

Preconditions: each part has an attention inside that nobody else reads, and no part draws at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .. import ir, kernels
from ..ir import Axis, Graph, Node
from ..ledger import Ledger
from ..rules.algebra import is_map, number
from ..rules.rule import Context
from .parameters import is_parameter
from .substitute import substitute

LAW = "f(x[h = 0]), f(x[h = 1]), … = f(x) over h"
OPEN = ("map", "contract", "reduce", "rename", "split", "merge", "widen", "pick", "kernel")
Row: TypeAlias = tuple[Node, ...]  # what stands at one place of all parts


class Different(Exception):
    """The parts are no entries of one formula; the text says why."""


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with attention heads along an axis."""
    context = Context(graph.roots)
    new: dict[Node, Node] = {}
    for one in graph.nodes():
        found = _joined(one) or _added(one)
        if found is None:
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        try:
            new[one] = _lifted(one, found, context)
        except Different as reason:
            ledger.refused("recognise", "heads", LAW, str(reason), span)
            continue
        ledger.fired("recognise", "heads", f"{len(found)} heads are one attention over an axis of heads", span)
    return substitute(graph, new) if new else graph


def _joined(one: Node) -> Row | None:
    """The parts of a concatenation along one axis, each with an attention."""
    if one.op != "concat" or len(one.args) < 2 or len(set(one["along"])) != 1:
        return None
    return one.args if all(map(_has_attention, one.args)) else None


def _added(one: Node) -> Row | None:
    """The terms of a sum that are an attention times weights each."""
    terms: list[Node] = []
    left = [one]
    while left:
        here = left.pop()
        if is_map(here, "+"):
            left.extend(reversed(here.args))
        else:
            terms.append(here)
    chosen = [term for term in terms if term.op == "contract" and _has_attention(term)]
    return tuple(chosen) if is_map(one, "+") and len(chosen) == len(terms) > 1 else None


def _has_attention(one: Node) -> bool:
    """Whether a value is attention, or a product of attention and weights."""
    while one.op in ("rename", "split", "merge") or (one.op == "contract" and is_parameter(one.args[1])):
        one = one.args[0]
    return one.op == "kernel" and one["name"] == "attention"


def _lifted(one: Node, parts: Row, context: Context) -> Node:
    if any(context.readers(part) > 1 for part in parts):
        raise Different("a head is read elsewhere, too")
    head = _head(parts)
    made = _over(parts, head)
    if one.op == "concat":
        (along,) = set(one["along"])
        return ir.rename(made, {head: one["into"]}) if along is None else ir.merge(made, (head, along), one["into"])
    if made.op == "contract" and all(head in arg.axes for arg in made.args):
        return ir.contract(made.args[0], made.args[1], (head, *made["over"]))
    return ir.reduce("sum", made, (head,))


# ------------------------------------------------------------------------------------------------------ lifting


def _head(parts: Row) -> Axis:
    """The axis of heads: that of the value whose entries the parts read, else a new one."""
    chosen = next((found for row in _rows(parts) if (found := _entries(row)) is not None), None)
    if chosen is None:
        return Axis("head", len(parts), None, 1 + max(axis.tag for one in ir.walk(parts) for axis in one.axes))
    return chosen[0]


def _rows(parts: Row) -> Iterator[Row]:
    """Every place of the parts at which they differ, from the results down."""
    seen: set[Row] = set()
    left: list[Row] = [parts]
    while left:
        row = left.pop()
        if row in seen or all(one is row[0] for one in row):
            continue
        seen.add(row)
        yield row
        if not _is_leaf(row):
            left.extend(reversed(_below(row)))


def _is_leaf(row: Row) -> bool:
    return _entries(row) is not None or _slices(row) is not None or all(map(is_parameter, row))


def _below(row: Row) -> list[Row]:
    """The arguments of one operation that stands at a place of all parts."""
    first = row[0]
    if any(one.op != first.op or one.attrs != first.attrs or len(one.args) != len(first.args) for one in row):
        raise Different("the heads are not one formula")
    if first.op not in OPEN or any(map(kernels.is_draw, row)):
        raise Different("the heads draw at random" if any(map(kernels.is_draw, row)) else "the heads read other values")
    return [tuple(one.args[place] for one in row) for place in range(len(first.args))]


def _over(parts: Row, head: Axis) -> Node:
    """The parts as one value along the axis of heads."""
    made: dict[Row, Node] = {}
    for row in reversed(list(_in_order(parts))):
        if row in made:
            continue
        first = row[0]
        if all(one is first for one in row):
            made[row] = first
        elif _is_leaf(row):
            made[row] = _leaf(row, head)
        else:
            if any(head in one.axes for one in row) or head in first.get("over", ()):
                raise Different("the axis of heads is in use inside a head")
            made[row] = _rebuilt(first, tuple(made[below] for below in _below(row)), head)
    return made[parts]


def _in_order(parts: Row) -> Sequence[Row]:
    """All places, readers first."""
    done: dict[Row, None] = {}
    left: list[tuple[Row, bool]] = [(parts, False)]
    while left:
        row, ready = left.pop()
        if ready:
            done[row] = None
        elif row not in done:
            left.append((row, True))
            if not (all(one is row[0] for one in row) or _is_leaf(row)):
                left.extend((below, False) for below in _below(row))
    return tuple(reversed(done))


def _rebuilt(first: Node, args: Row, head: Axis) -> Node:
    if first.op != "kernel":
        return ir.rebuild(first, args)
    return ir.node("kernel", args, (*first.axes, head), first.kind, **first.attrs)


def _leaf(row: Row, head: Axis) -> Node:
    """What the parts read of one value, as that value along the axis of heads."""
    entries, slices = _entries(row), _slices(row)
    if entries is not None:
        axis, base = entries
        return ir.rename(base, {axis: head})
    if slices is not None:
        axis, into, base = slices
        return ir.split(base, axis, (head, into))
    return ir.concat(row, [None] * len(row), head)


def _entries(row: Row) -> tuple[Axis, Node] | None:
    """x[h = 0], x[h = 1], … of all entries of x along h: (h, x)."""
    first = row[0]
    if any(one.op != "pick" or one.args[0] is not first.args[0] or one["keys"] != first["keys"] for one in row):
        return None
    varying = [n for n in range(1, len(first.args)) if any(one.args[n] is not first.args[n] for one in row)]
    if len(varying) != 1:
        return None
    axis = first["keys"][varying[0] - 1]
    if axis.size != len(row) or any(number(one.args[varying[0]]) != place for place, one in enumerate(row)):
        return None
    rest = {key: arg for key, arg in zip(first["keys"], first.args[1:], strict=True) if key != axis}
    return axis, ir.pick(first.args[0], rest) if rest else first.args[0]


def _slices(row: Row) -> tuple[Axis, Axis, Node] | None:
    """x[d = index(k)], x[d = index(k) + k], … of all of x along d: (d, k, x)."""
    first = row[0]
    if any(one.op != "pick" or one.args[0] is not first.args[0] or len(one.args) != 2 for one in row):
        return None
    axis = first["keys"][0]
    for place, one in enumerate(row):
        found = _shifted(one.args[1])
        if found is None or found[0] != one.args[1].axes[0] or one["keys"] != (axis,):
            return None
        into, shift = found
        if not isinstance(into.size, int) or axis.size != len(row) * into.size or shift != place * into.size:
            return None
    return axis, first.args[1].axes[0], first.args[0]


def _shifted(one: Node) -> tuple[Axis, int] | None:
    """index(k) + c → (k, c)"""
    if one.op == "index" and not one["axis"].ragged:
        return one["axis"], 0
    if is_map(one, "+"):
        for place, more in (one.args, one.args[::-1]):
            shift = number(more)
            if place.op == "index" and not place["axis"].ragged and shift is not None and shift == int(shift):
                return place["axis"], int(shift)
    return None
