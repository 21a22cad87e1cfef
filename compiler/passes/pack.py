"""pack: what an objective computes token by token is computed on rows of all tokens that there are.

    f(x)[batch, seq] = put back(f(x[batch = b, seq = s]))    (b, s): the places of all tokens, one row each

What mixes tokens (attention, a sum over the length) reads the rows put back at their places, and 0 where no token is. A
loop whose next state is made token by token carries rows. All texts of a batch are one set of rows, those of siamese
towers too, and each length of a model has its own. What is differentiated behind it has gradients on rows.
Preconditions: the graph selects (an objective; a model's own module packs while it is written, by `unpad`); the value
is a real number for each token of one length, made token by token of a product with weights: for the sake of cheaper
work nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .. import ir, kernels
from ..ir import Axis, Graph, Length, Node
from ..ledger import Ledger
from . import demand
from .parameters import is_parameter

LAW = "f(x)[batch, seq] = f(x[batch = b, seq = s]) at the places (b, s) of all tokens, one row each"
TOKENWISE = ("map", "contract", "reduce", "pick", "rename", "split", "merge", "concat", "widen", "kernel", "random")
STATES = ("carry", "past", "state", "history")


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph of an objective on rows of tokens; that of a model as it is."""
    if not graph.selects:
        return graph
    packing = Packing(graph)
    if not packing.heavy:
        ledger.refused("pack", "rows", LAW, "no product with weights is made token by token")
        return graph
    for rows in packing.rows:
        works = sum(one.op in ("contract", "kernel") for one in packing.heavy if packing.of[one] == rows)
        if works:
            ledger.fired("pack", "rows", f"{LAW}: {works} operations on the tokens of {rows.length} that there are")
    return packing.packed()


@dataclass(frozen=True)
class Rows:
    """The tokens of all examples, one after the other: for each row of the axis `into` its example and its place."""

    owner: Axis
    length: Length
    into: Axis
    example: Node
    place: Node

    def at(self, one: Node) -> demand.Rows:
        """The numbers of the rows along the axes of a value."""
        found = ((axis, self._number(axis)) for axis in one.axes)
        return tuple((axis, number) for axis, number in found if number is not None)

    def _number(self, axis: Axis) -> Node | None:
        if axis == self.owner:
            return self.example
        return self.place if axis.size == self.length and axis.owner == self.owner else None

    def put_back(self, packed: Node, one: Node) -> Node:
        """The value with the rows at their places."""
        return ir.scatter(packed, dict(self.at(one)), one.axes)


Form = tuple[Node, Rows | None]
"""A node as it is, or at some rows."""


class Packing:
    """Which values of a graph are computed on rows, and the graph in which they are."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rows = tuple(_lengths(graph))
        self.order = graph.nodes()
        self.of = {one: rows for one in self.order if (rows := self._of_tokens(one)) is not None}
        self.read_by_number = [one for one in self.order if one.op in ("past", "history") and one.args[-1].axes]
        self.opened: dict[Form, bool] = {}
        self.slots: set[tuple[int, int]] = set()  # states that are carried as rows
        self.heavy = self._heavy()
        self.origins = dict(graph.origins)
        self.done: dict[Form, Node] = {}

    # ------------------------------------------------------------------------------------------------- what is packed

    def _of_tokens(self, one: Node) -> Rows | None:
        """The rows that a value has one entry for: one real number or more for each token of one length."""
        lengths = [axis for axis in one.axes if axis.counted]
        if len(lengths) != 1 or one.kind in ("int", "bool"):
            return None
        length, owner = lengths[0].size, lengths[0].owner
        fits = (rows for rows in self.rows if (rows.length, rows.owner) == (length, owner) and owner in one.axes)
        return next(fits, None)

    def _heavy(self) -> set[Node]:
        """What is worth its rows: all that a product with weights is part of, token by token."""
        found: set[Node] = set()
        before = (-1, -1)
        while before != (len(found), len(self.slots)):  # a state is read before it is known how its loop carries it
            before = (len(found), len(self.slots))
            for one in self.order:
                if one.op == "loop":
                    self._choose_slots(one, found)
                elif one in self.of and (self._has_slot(one) or self._works(one, found)):
                    found.add(one)
        return found

    def _works(self, one: Node, found: set[Node]) -> bool:
        if not self._opens(one, self.of[one]):
            return False
        product = one.op == "contract" and any(map(is_parameter, one.args))
        return product or kernels.is_draw(one) or any(arg in found for arg in one.args)

    def _has_slot(self, one: Node) -> bool:
        if one.op not in STATES:
            return False
        ident = one.args[0]["loop"] if one.op in ("state", "history") else one["loop"]
        return (ident, one["slot"]) in self.slots

    def _choose_slots(self, one: Node, found: set[Node]) -> None:
        """States whose next value is made token by token are carried as rows, where all examples make all steps."""
        if one.args[one["slots"]].axes:
            return
        for slot, (first, part) in enumerate(zip(one.args, one["body"], strict=False)):
            same = set(first.axes) == set(part.axes) and self.of.get(first) == self.of.get(part)
            if part in found and same and not self._numbered(one, slot):
                self.slots.add((one["loop"], slot))

    def _numbered(self, one: Node, slot: int) -> bool:
        """Whether states are read by numbers that differ from token to token."""
        for part in self.read_by_number:
            loop = part if part.op == "past" else part.args[0]
            if (loop["loop"], part["slot"]) == (one["loop"], slot) and any(axis.ragged for axis in part.args[-1].axes):
                return True
        return False

    def _opens(self, one: Node, rows: Rows) -> bool:
        """Whether the rows of the value are made of the rows of its arguments."""
        key = one, rows
        if key not in self.opened:
            self.opened[key] = one.op in TOKENWISE and not demand.against(one, [rows.at(one)])
        return self.opened[key]

    # --------------------------------------------------------------------------------------------------- the graph

    def packed(self) -> Graph:
        """The graph in which all that is worth it is computed on rows."""
        roots: list[Form] = [(one, None) for one in self.graph.roots]
        for form in ir.ordered(roots, self._below):
            made = self.done[form] = self._made(*form)
            if made is not form[0] and (form[1] is not None or form[0] not in self.heavy):
                ir.take_origin(self.origins, form[0], made)
        outputs = tuple(replace(out, node=self.done[out.node, None]) for out in self.graph.outputs)
        return replace(self.graph, outputs=outputs, origins=self.origins)

    def _below(self, form: Form) -> list[Form]:
        one, rows = form
        if rows is None:
            if one in self.heavy:
                return [(one, self.of[one])]
            if one.op == "loop":
                return [*self._first(one), (one.args[one["slots"]], None), *self._next(one)]
            return [(arg, None) for arg in one.args]
        if self._is_state(one, rows):
            return [(arg, None) for arg in one.args]
        return self._inner(one, rows) if self._is_made(one, rows) else [(one, None)]

    def _is_state(self, one: Node, rows: Rows) -> bool:
        """Whether the rows of a value are those that a loop carries."""
        return self.of.get(one) == rows and self._has_slot(one)

    def _is_made(self, one: Node, rows: Rows) -> bool:
        """Whether they are made of the rows of its arguments; else they are picked, if it has any."""
        return self.of.get(one) == rows and self._opens(one, rows)

    @staticmethod
    def _inner(one: Node, rows: Rows) -> list[Form]:
        """The arguments, at the rows where a row of the value is made of a row of theirs."""
        at = rows.at(one)
        return [(arg, rows if demand.inner_rows(one, arg, at) else None) for arg in one.args]

    def _first(self, loop: Node) -> list[Form]:
        return [(one, self._rows_of(loop, slot)) for slot, one in enumerate(loop.args[: loop["slots"]])]

    def _next(self, loop: Node) -> list[Form]:
        return [(one, self._rows_of(loop, slot)) for slot, one in enumerate(loop["body"])]

    def _rows_of(self, loop: Node, slot: int) -> Rows | None:
        return self.of[loop.args[slot]] if (loop["loop"], slot) in self.slots else None

    def _made(self, one: Node, rows: Rows | None) -> Node:
        if rows is None:
            return self._whole(one)
        at = rows.at(one)
        if self._is_state(one, rows):
            return self._state(one, rows)
        if self._is_made(one, rows):
            return demand.rebuilt(one, tuple(self.done[form] for form in self._inner(one, rows)), at)
        if not at:
            return self.done[one, None]
        return at[0][1] if one.op == "index" else ir.pick(self.done[one, None], dict(at))

    def _whole(self, one: Node) -> Node:
        if one in self.heavy:
            rows = self.of[one]
            return rows.put_back(self.done[one, rows], one)
        if one.op != "loop":
            return ir.rebuild(one, tuple(self.done[arg, None] for arg in one.args))
        first = [self.done[form] for form in self._first(one)]
        body = [self.done[form] for form in self._next(one)]
        stop = self.done[one.args[one["slots"]], None]
        return ir.loop(one["loop"], one["axis"], one["start"], stop, first, body, one["name"])

    def _state(self, one: Node, rows: Rows) -> Node:
        """A state that is carried as rows."""
        args = tuple(self.done[arg, None] for arg in one.args)
        if one.op == "state":
            return ir.state(args[0], one["slot"])
        if one.op == "history":
            return ir.history(args[0], one["slot"], args[1])
        axes = (*(axis for axis in one.axes if axis not in dict(rows.at(one))), rows.into)
        return ir.node(one.op, args, axes, one.kind, **one.attrs)


def _lengths(graph: Graph) -> Iterator[Rows]:
    """The rows of each length that the inputs have."""
    groups = graph.groups or ()
    known: dict[tuple[Length, Axis], Axis] = {}
    for one in graph.inputs:
        for axis in one.axes:
            if axis.counted and axis not in groups and axis.size.made is None:  # type: ignore[union-attr]
                known.setdefault((axis.size, axis.owner), axis)  # type: ignore[arg-type]
    for (length, owner), axis in known.items():
        into = Axis("token", Length(f"tokens of {length}"))
        numbers = [ir.existing((owner, axis), along, into) for along in (owner, axis)]
        yield Rows(owner, length, into, *numbers)
