"""Heads that are written one by one are lifted to an axis: [f(0); f(1); …] = f(h)[h dk → …], and Σ f(i) = Σ[h] f(h).

The parts must be one formula that differs only in what it reads of the same place: the entries 0, 1, … of one value
along an axis, its slices 0, 1, … (as from a chunk), or weights of their own, which are put together. So
Concat(head_1, …, head_n) and a loop over heads become the attention of all heads at once.

Preconditions: each part has an attention inside that nobody else reads, and no part draws at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    stacked = frozenset(axis for weight in graph.weights for axis in weight.stack)
    new: dict[Node, Node] = {}
    for one in _places(graph, context):
        parts, rest = _joined(one) or _added(one)
        if len(parts) < 2:
            continue
        origin = graph.origins.get(one)
        span = origin.span if origin else None
        try:
            made = _lifted(one, parts, context, stacked)
        except Different as reason:
            ledger.refused("recognise", "heads", LAW, str(reason), span)
            continue
        for term in rest:
            made = ir.apply("+", term, made)
        new[one] = made
        ledger.fired("recognise", "heads", f"{len(parts)} heads are one attention over an axis of heads", span)
    return substitute(graph, new) if new else graph


def _places(graph: Graph, context: Context) -> Iterator[Node]:
    """Concatenations and whole sums."""
    nodes = graph.nodes()
    inner = {arg for one in nodes if is_map(one, "+") for arg in one.args if context.readers(arg) == 1}
    return (one for one in nodes if one.op == "concat" or (is_map(one, "+") and one not in inner))


def _joined(one: Node) -> tuple[Row, Row] | None:
    """The parts of a concatenation along one axis, each with an attention."""
    if one.op != "concat" or len(set(one["along"])) != 1:
        return None
    return one.args if all(map(_has_attention, one.args)) else (), ()


def _added(one: Node) -> tuple[Row, Row]:
    """The terms of a sum that are an attention times weights each, and the other terms."""
    terms: list[Node] = []
    left = [one] if is_map(one, "+") else []
    while left:
        here = left.pop()
        if is_map(here, "+"):
            left.extend(reversed(here.args))
        else:
            terms.append(here)
    chosen = tuple(term for term in terms if term.op == "contract" and _has_attention(term))
    return chosen, tuple(term for term in terms if term not in chosen)


def _has_attention(one: Node) -> bool:
    """Whether a value is attention, or a product of attention and weights."""
    last = _chain(one)[-1]
    return last.op == "kernel" and last["name"] == "attention"


def _chain(one: Node) -> list[Node]:
    """A value, what it is the product of with weights, and so on."""
    found = [one]
    while True:
        here = found[-1]
        if here.op in ("rename", "split", "merge"):
            found.append(here.args[0])
        elif here.op == "contract" and any(map(is_parameter, here.args)):
            found.append(here.args[is_parameter(here.args[0])])
        else:
            return found


def _lifted(one: Node, parts: Row, context: Context, stacked: frozenset[Axis]) -> Node:
    if any(context.readers(node) > 1 for part in parts for node in _chain(part)):
        raise Different("a head is read elsewhere, too")
    head, made = _Lift(parts, stacked).made()
    if one.op == "concat":
        (along,) = set(one["along"])
        return ir.rename(made, {head: one["into"]}) if along is None else ir.merge(made, (head, along), one["into"])
    if made.op == "contract" and all(head in arg.axes for arg in made.args):
        return ir.contract(made.args[0], made.args[1], (head, *made["over"]))
    return ir.reduce("sum", made, (head,))


# ------------------------------------------------------------------------------------------------------ lifting


@dataclass(frozen=True)
class _Lift:
    """The parts as entries of one value; axes in `stacked` number instances, whose weights are never one array."""

    parts: Row
    stacked: frozenset[Axis]

    def made(self) -> tuple[Axis, Node]:
        """The axis of heads, and the value along it."""
        rows = self._rows()
        head = next((found[0] for row in rows if (found := self._entries(row)) is not None), None)
        if head is None:
            tags = (axis.tag for one in ir.walk(self.parts) for axis in one.axes)
            head = Axis("head", len(self.parts), None, 1 + max(tags))
        made: dict[Row, Node] = {}
        for row in rows:
            made[row] = self._one(row, head, made)
        return head, made[self.parts]

    def _rows(self) -> list[Row]:
        """Every place of the parts, arguments first."""
        done: dict[Row, None] = {}
        left: list[tuple[Row, bool]] = [(self.parts, False)]
        while left:
            row, ready = left.pop()
            if ready:
                done[row] = None
            elif row not in done:
                left.append((row, True))
                if not (_alike(row) or self._is_leaf(row)):
                    left.extend((below, False) for below in reversed(_below(row)))
        return list(done)

    def _one(self, row: Row, head: Axis, made: dict[Row, Node]) -> Node:
        first = row[0]
        if _alike(row):
            return first
        if self._is_leaf(row):
            return self._leaf(row, head)
        if any(head in one.axes for one in row) or head in first.get("over", ()):
            raise Different("the axis of heads is in use inside a head")
        args = tuple(made[below] for below in _below(row))
        if first.op != "kernel":
            return ir.rebuild(first, args)
        return ir.node("kernel", args, (*first.axes, head), first.kind, **first.attrs)

    def _is_leaf(self, row: Row) -> bool:
        return self._entries(row) is not None or _slices(row) is not None or all(map(is_parameter, row))

    def _leaf(self, row: Row, head: Axis) -> Node:
        """What the parts read of one value, as that value along the axis of heads."""
        entries, slices = self._entries(row), _slices(row)
        if entries is not None:
            axis, base = entries
            return ir.rename(base, {axis: head})
        if slices is not None:
            axis, into, base = slices
            return ir.split(base, axis, (head, into))
        return ir.concat(row, [None] * len(row), head)

    def _entries(self, row: Row) -> tuple[Axis, Node] | None:
        """x[h = 0], x[h = 1], … of all entries of x along h: (h, x)."""
        first = row[0]
        if any(one.op != "pick" or one.args[0] is not first.args[0] or one["keys"] != first["keys"] for one in row):
            return None
        varying = [n for n in range(1, len(first.args)) if any(one.args[n] is not first.args[n] for one in row)]
        if len(varying) != 1:
            return None
        axis = first["keys"][varying[0] - 1]
        if axis in self.stacked and first.args[0].op == "weight":
            return None
        if axis.size != len(row) or any(number(one.args[varying[0]]) != place for place, one in enumerate(row)):
            return None
        rest = {key: arg for key, arg in zip(first["keys"], first.args[1:], strict=True) if key != axis}
        return axis, ir.pick(first.args[0], rest) if rest else first.args[0]


def _alike(row: Row) -> bool:
    return all(one is row[0] for one in row)


def _below(row: Row) -> list[Row]:
    """The arguments of one operation that stands at a place of all parts."""
    first = row[0]
    if any(one.op != first.op or one.attrs != first.attrs or len(one.args) != len(first.args) for one in row):
        raise Different("the heads are not one formula")
    if first.op not in OPEN or any(map(kernels.is_draw, row)):
        raise Different("the heads draw at random" if any(map(kernels.is_draw, row)) else "the heads read other values")
    return [tuple(one.args[place] for one in row) for place in range(len(first.args))]


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
