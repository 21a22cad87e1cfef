"""Which rows of which value are needed: demand, from the results towards the inputs.

A pick of rows asks its value for those rows only. An operation that is row-wise along the picked axis asks its own
arguments for the same rows, and so on, until a value is needed whole: because another reader takes all of it, or
because the operation mixes rows (keys and values of attention, a sum over the axis).

    u[seq = 0], u = layer_norm(x + a @ W)        asks x and a for row 0 only

`Demand` finds out who is asked for what; `Demand.at(node, rows)` builds the value at those rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from .. import ir, kernels
from ..ir import Axis, Node
from .parameters import is_parameter

Rows: TypeAlias = tuple[tuple[Axis, Node], ...]
"""Numbers along axes, simultaneous, as in x[seq = 0]."""

FEW = 4
"""Different selections of one value that are computed each by itself; with more, the value is computed whole."""

LEAVES = ("input", "position", "index", "weight", "table", "size", "carry", "past", "state", "history", "loop")


class Demand:
    """What is asked of each node below the roots: all of it, or some rows."""

    def __init__(self, roots: Iterable[Node]) -> None:
        roots = tuple(roots)
        self.order = list(ir.walk(roots))
        self.rows: dict[Node, dict[Rows, None]] = {}
        self.whole: dict[Node, str] = dict.fromkeys(roots, "it is a result")
        self.built: dict[tuple[Node, Rows], Node] = {}
        self._places = _of_places(self.order)
        for one in reversed(self.order):
            self._spread(one)

    def partial(self, one: Node) -> bool:
        """Whether only some rows of the node are needed."""
        return one in self.rows and one not in self.whole

    def _spread(self, one: Node) -> None:
        """What the node asks of its arguments, once all that read it have asked."""
        asked = self.rows.get(one)
        if asked is None and one not in self.whole:
            self.whole[one] = ""
        if one not in self.whole and asked is not None and one.op not in LEAVES:
            reason = against(one, asked)
            if not reason:
                for rows in asked:
                    for arg in one.args:
                        self._ask(arg, inner_rows(one, arg, rows), one)
                return
            self.whole[one] = reason
        rows = picked_rows(one)
        if rows and not is_parameter(one.args[0]):
            self._ask(one.args[0], rows, one)
            for place in one.args[1:]:
                self.whole.setdefault(place, "it tells which rows")
            return
        for arg in one.args:
            self.whole.setdefault(arg, "another reader takes all of it")

    def _ask(self, arg: Node, rows: Rows, reader: Node) -> None:
        if rows:
            self.rows.setdefault(arg, {})[rows] = None
        else:
            self.whole.setdefault(arg, f"a {reader.op} reads all of it")

    # ------------------------------------------------------------------------------------------------ building

    def at(self, one: Node, rows: Rows) -> Node:
        """The node's value at these rows; what is needed whole anyway is picked from."""
        stack = [(one, rows)]
        while stack:
            here = stack[-1]
            if here in self.built:
                stack.pop()
                continue
            below = self._below(*here)
            missing = [pair for pair in below if pair not in self.built]
            if missing:
                stack.extend(missing)
                continue
            self.built[here] = self._made(*here)
            stack.pop()
        return self.built[one, rows]

    def _below(self, one: Node, rows: Rows) -> list[tuple[Node, Rows]]:
        if not self._opens(one, rows):
            return []
        found = ((arg, inner_rows(one, arg, rows)) for arg in one.args)
        return [(arg, inner) for arg, inner in found if inner]

    def _made(self, one: Node, rows: Rows) -> Node:
        if not rows:
            return one
        if not self._opens(one, rows):
            return _picked(one, rows)
        args = tuple(self.built[arg, inner] if inner else arg for arg, inner in self._inner(one, rows))
        return rebuilt(one, args, rows)

    def _opens(self, one: Node, rows: Rows) -> bool:
        if not rows or one.op in LEAVES:
            return False
        return self.partial(one) or (one in self._places and not _against(one, rows))

    @staticmethod
    def _inner(one: Node, rows: Rows) -> list[tuple[Node, Rows]]:
        return [(arg, inner_rows(one, arg, rows)) for arg in one.args]


def _of_places(order: Iterable[Node]) -> set[Node]:
    """What is made of places, numbers and tables by place: as well made again for some rows as picked from."""
    found: set[Node] = set()
    for one in order:
        table = one.op == "pick" and is_parameter(one.args[0]) and found.issuperset(one.args[1:])
        made = one.op in ("map", "rename") and all(arg in found or is_parameter(arg) for arg in one.args)
        if table or made or one.op in ("index", "size", "const"):
            found.add(one)
    return found


def picked_rows(one: Node) -> Rows:
    """The rows that a pick asks for, if they are fewer than there are: () for other nodes, and for reorderings.

    One number, or one for each entry of axes that the value has, is fewer; so are numbers along an axis of its own
    that is no length of the example (a few places of a text), or is smaller.
    """
    if one.op != "pick":
        return ()
    keys, places = one["keys"], one.args[1:]
    brought = {axis for place in places for axis in place.axes if axis not in one.args[0].axes or axis in keys}
    if any(axis in keys or (axis.ragged and axis.owner is not None) for axis in brought):
        return ()
    sizes = [axis.size for axis in brought if isinstance(axis.size, int)]
    there = [axis.size for axis in keys if isinstance(axis.size, int)]
    if brought and len(there) == len(keys) and math.prod(sizes) >= math.prod(there):
        return ()
    return tuple(zip(keys, places, strict=True))


def inner_rows(one: Node, arg: Node, rows: Rows) -> Rows:
    """The rows that a row-wise operation needs of an argument; none of their axes: all of it."""
    if one.op == "rename":
        back = {ir.renamed(old, dict(one["pairs"])): old for old in arg.axes}
        return tuple((back[axis], place) for axis, place in rows)
    if one.op == "pick" and arg is one.args[0]:  # x[seq = i(seq)] has rows of i, not of x, along seq
        return tuple((axis, place) for axis, place in rows if axis in arg.axes and axis not in one["keys"])
    return tuple((axis, place) for axis, place in rows if axis in arg.axes)


def against(one: Node, asked: Iterable[Rows]) -> str:
    """Why the rows cannot be asked of the arguments, '' if they can."""
    asked = tuple(asked)
    if len(asked) > FEW:
        return f"more than {FEW} selections of it are read"
    several = len(asked) > 1 or (len(asked[0]) > 1 and one.op == "kernel")
    if kernels.is_draw(one) and (several or one.get("picked")):
        return "several selections of one draw would be drawn apart"
    if _all_read(asked):
        return "the selections are together all of it"
    return next((reason for rows in asked if (reason := _against(one, rows))), "")


def _all_read(asked: tuple[Rows, ...]) -> bool:
    """Whether the selections along one axis of known size have as many rows as there are."""
    counts: dict[Axis, int] = {}
    for rows in asked:
        axis, place = rows[0]
        brought = [a.size for a in place.axes if isinstance(a.size, int)]
        if len(rows) == 1 and isinstance(axis.size, int):
            counts[axis] = counts.get(axis, 0) + math.prod(brought)
    return any(isinstance(axis.size, int) and count >= axis.size for axis, count in counts.items())


def _against(one: Node, rows: Rows) -> str:
    axes = {axis for axis, _ in rows}
    brought = {axis for _, place in rows for axis in place.axes}
    if _left_behind(one, rows) or any(_left_behind(arg, inner_rows(one, arg, rows)) for arg in one.args):
        return "another length belongs to the picked axis"
    if one.op in ("append", "keep"):
        return "it is kept whole for later steps"
    if one.op == "random" and one["draw"] != "dropout":
        return "a draw is made for all rows at once"
    if one.op == "pick" and one.args[0] in one.args[1:] and axes & set(one["keys"]):
        return "the value tells its own rows"
    hidden = {axis for arg in one.args for axis in arg.axes} - set(one.axes)
    if one.op == "rename":
        changed = {a for old in one.args[0].axes for a in (old, ir.renamed(old, dict(one["pairs"]))) if a not in axes}
        moved = {a for a in changed if a not in one.axes or a not in one.args[0].axes}
        return "the numbers lie along a renamed axis" if brought & moved else ""
    if brought & hidden:
        return "the numbers lie along an axis that it sums over"
    if one.op == "kernel" and one["name"] == "attention" and _seen_apart(one, rows):
        return "what a row of attention sees, or its bias, would depend on numbers that the caller gives"
    if axes & _mixed(one):
        return f"{_told(one)} mixes the rows"
    over = one.get("over", ())
    if any(axis.owner in over for axis in axes):
        return "the sum over all examples leaves out rows that are not there"
    return ""


def _left_behind(one: Node, rows: Rows) -> bool:
    """Whether rows of an axis are picked that owns a length of the value, and none along the length."""
    axes = {axis for axis, _ in rows}
    return any(axis.owner in axes and axis not in axes for axis in one.axes)


def _seen_apart(one: Node, rows: Rows) -> bool:
    """Whether mask or bias differ from row to row and the rows are given by an input: no function of places then."""
    given = {axis for axis, place in rows if any(leaf.op == "input" for leaf in ir.walk([place]))}
    at = kernels.parts(one)
    return any(given & set(at[role].axes) for role in ("scores", "see", "first", "stop", "bias") if role in at)


def _mixed(one: Node) -> set[Axis]:
    """The axes along which an operation is not row-wise."""
    if one.op == "kernel":
        return {value for name, value in one.attrs.items() if isinstance(value, Axis)}
    match one.op:
        case "rank":
            return {one["axis"]}
        case "split":
            return set(one["into"])
        case "merge" | "concat":
            return {one["into"]}
    return set()


def _told(one: Node) -> str:
    return str(one["name"]) if one.op == "kernel" else one.op


def _picked(one: Node, rows: Rows) -> Node:
    """The leaf (or a value that is needed whole anyway) at the rows."""
    if one.op == "index":
        return rows[0][1]
    return ir.pick(one, dict(rows))


def rebuilt(one: Node, args: tuple[Node, ...], rows: Rows) -> Node:
    """The operation on its arguments at the rows."""
    at = dict(rows)
    if one.op == "widen" and one["axis"] in at:
        return ir.widen_to(args[0], ir.union(at.values()))
    if one.op == "rename":
        pairs = {old: new for old, new in one["pairs"] if new not in at}
        return ir.rename(args[0], {old: new for old, new in pairs.items() if old in args[0].axes})
    if one.op not in ("random", "kernel"):
        return ir.rebuild(one, args)
    axes = tuple(axis for axis in one.axes if axis not in at)
    axes = tuple(dict.fromkeys((*axes, *ir.union(args[:1]), *ir.union(at.values()))))
    axes = tuple(axis for axis in axes if axis in one.axes or axis in ir.union(at.values()))
    if not kernels.is_draw(one):
        return ir.node(one.op, args, axes, one.kind, **one.attrs)
    return _drawn(one, args, axes, rows)


def _drawn(one: Node, args: tuple[Node, ...], axes: tuple[Axis, ...], rows: Rows) -> Node:
    """A draw at some rows: the numbers of those rows out of what is drawn for all."""
    picked, places = zip(*rows, strict=True)
    attrs = {**one.attrs, "picked": picked if len(picked) > 1 else picked[0], "drawn": one.get("drawn", one.axes)}
    if one.op == "kernel":
        attrs["roles"] = (*one["roles"], "at")
    return ir.node(one.op, (*args, *places), axes, one.kind, **attrs)
