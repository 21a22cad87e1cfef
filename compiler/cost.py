"""What a graph costs: operations, bytes and parameters of each node and in all, for given run-time sizes.

    product over k of x[…, k] and W[k, …]    2 operations an entry of all its axes
    scalar function, draw, reduction         1 operation an entry of all its axes
    view (rename, split, slice, state)       nothing
    recognised meaning                       what its core graph computes; it reads its arguments and writes its result
    attention with bounds (first, stop)      the pairs of rows and keys that lie within them
    rows put behind kept ones                the new rows, read and written
    inside a loop                            times the number of steps; what does not depend on the step: once
    one side of a selection by the step      times the steps that choose it

Values are float32 unless said otherwise, relations a byte an entry. What only weights go into is prepared once, when a
model is loaded, and told apart. Where the plan has `unpad`, an example counts with its own length, else with the
longest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from . import kernels, ops, steps
from .ir import Axis, Graph, Node, at_selected, ordered, union
from .passes.parameters import has_weight, of_any_number, parameters_among, stack_picks
from .rules.algebra import number
from .sizes import USUAL, Sizes

LEAVES = ("input", "weight", "const", "table", "counter", "carry", "size", "visible", "stored")
VIEWS = ("rename", "split", "merge", "widen", "state", "loop")
WORD = 4
"""Bytes of a number, unless said otherwise; of a whole one always."""


@dataclass(frozen=True)
class Cost:
    """Scalar operations, those of them in products, bytes read and written."""

    flops: int = 0
    products: int = 0
    read: int = 0
    written: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read + self.written

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.products + other.products,
            self.read + other.read,
            self.written + other.written,
        )

    def __mul__(self, times: int | Fraction) -> Cost:
        return Cost(*(int(number * times) for number in (self.flops, self.products, self.read, self.written)))


NOTHING = Cost()


def _made_beside(one: Node, part: Node) -> bool:
    """Whether a slope needs it, but has it from what is made with it.

    Logits are made once, with the loss of products; the shares of attention once more, for what flows to the query.
    """
    if one["name"] == "attention_slope" and one["to"] != "query":
        made = kernels.expanded(one)
        return part not in (made, *(made.args if made.op == "map" else ()))
    return bool(one["name"] == "product_cross_entropy_slope" and part.op == "contract")


@dataclass(frozen=True)
class Costs:
    """The costs of a graph: by node (loops counted out), in all, and by kind of operation.

    `once` are the nodes that are computed when weights are loaded, `word` the bytes of a number.
    """

    nodes: Mapping[Node, Cost] = field(repr=False)
    once: Mapping[Node, Cost] = field(repr=False)
    prepared_bytes: int
    parameters: int
    word: int = WORD

    @property
    def prepared(self) -> Cost:
        """What is computed once, when weights are loaded."""
        return sum(self.once.values(), NOTHING)

    @property
    def total(self) -> Cost:
        """One run."""
        return sum(self.nodes.values(), NOTHING)

    @property
    def kinds(self) -> dict[str, Cost]:
        """One run by kind: scalar functions and reductions by `map` and `reduce`, meanings by their name."""
        found: dict[str, Cost] = {}
        for one, cost in self.nodes.items():
            if cost != NOTHING:
                kind = one["name"] if one.op == "kernel" else one.op
                found[kind] = found.get(kind, NOTHING) + cost
        return found

    @property
    def parameter_bytes(self) -> int:
        """The weights that the graph reads, each once."""
        return self.parameters * self.word


class Pricer:
    """Prices the nodes of one graph for given sizes, numbers of `word` bytes."""

    def __init__(self, graph: Graph, sizes: Sizes = USUAL, word: int = WORD) -> None:
        self.graph, self.sizes, self.word = graph, sizes.of(graph), word
        self.packed = "unpad" in graph.plan
        self.known: dict[tuple[Axis, ...], int] = {}
        self.order = graph.nodes()
        self.static = parameters_among(self.order)
        self.steps: dict[int, int] = {}
        for one in self.order:
            self._count_steps(one)
        self.shares = self._shares()

    def _shares(self) -> dict[Node, Fraction]:
        """Of the steps of its loop the share in which a node is computed, where selections by the step leave it out."""
        selections = steps.selections(self.order)
        shares: dict[Node, Fraction] = {}
        for one, path in steps.paths(self.order, self.graph.roots, selections).items() if selections else ():
            for selection, side in path:
                loop, truths = selections[selection]
                made = truths[loop["start"] :]
                if loop["loop"] in one.free and made:
                    part = Fraction(sum(truth == (side == 1) for truth in made), len(made))
                    shares[one] = shares.get(one, Fraction(1)) * part
        return shares

    def _count_steps(self, one: Node) -> None:
        if one.op == "loop":
            last = self._number(one.args[one["slots"]])
            self.steps[one["loop"]] = max(0, last - one["start"])

    def _number(self, one: Node) -> int:
        """How many steps a loop has: for a length, those of the longest."""
        if one.op == "const":
            return int(one["value"])
        if one.op == "size":
            return self.sizes.extent(one["axis"])
        if one.op == "map" and one.args:
            return int(ops.FUNCTIONS[one["fn"]].meaning(*(self._number(arg) for arg in one.args)))
        return self.sizes.length

    def entries(self, axes: Iterable[Axis]) -> int:
        """How many entries a value with these axes has."""
        axes = tuple(axes)
        if axes not in self.known:
            self.known[axes] = self.sizes.entries(axes, self.packed)
        return self.known[axes]

    def times(self, one: Node) -> int:
        """How often a node is computed: once for each step of the loops that it depends on."""
        return math.prod(self.steps.get(loop, 1) for loop in one.free)

    def bytes(self, one: Node) -> int:
        """The memory of a value."""
        return self.entries(one.axes) * bytes_of(one.kind, self.word)

    def once(self, one: Node) -> Cost:
        """The cost of computing a node once, its arguments being there."""
        if one.op in LEAVES or is_view(one):
            return NOTHING
        if one.op in ("append", "keep"):  # the new rows alone are moved
            return Cost(0, 0, self.bytes(one.args[0]), self.bytes(one.args[0]))
        flops, products = self._operations(one)
        return Cost(flops, products, self._read(one), self.bytes(one))

    def _operations(self, one: Node) -> tuple[int, int]:
        """(all operations, those in products) of a node."""
        every = self.entries(dict.fromkeys((*union(one.args), *one.axes)))
        if one.op == "contract" or (one.op == "total" and len(one.args) > 1):
            return 2 * every, 2 * every
        if one.op == "scatter" and at_selected(one):
            return 0, 0  # rows put back at their places, nothing is added
        if one.op in ("total", "scatter"):
            return self.entries(union(one.args)), 0
        if one.op == "kernel":
            return self._inside(one)
        if one.op in ("rank", "order"):
            return every * max(1, math.ceil(math.log2(max(2, self.sizes.extent(one["axis"]))))), 0
        if one.op == "reduce":
            return every * (2 if one["reduction"] == "norm" else 1), 0
        if one.op == "map" and one["fn"] == "*" and any(number(arg) == 1 for arg in one.args):
            return 0, 0  # the scale of attention, once it is in the weights
        return (every if one.op in ("map", "random") else 0), 0

    def _read(self, one: Node) -> int:
        """Bytes that a node reads: its arguments, of a picked value only what is picked."""
        if one.op in ("pick", "history"):
            return self.bytes(one) + sum(self.bytes(arg) for arg in one.args[1:])
        return sum(self.bytes(arg) for arg in dict.fromkeys(one.args) if arg.op != "const")

    def _inside(self, one: Node) -> tuple[int, int]:
        """The operations of a recognised meaning: those of its core graph, of attention only where it looks."""
        outer = set(one.args)

        def below(part: Node) -> tuple[Node, ...]:
            return () if part in outer else (*part.args, *part["body"]) if part.op == "loop" else part.args

        core = [part for part in ordered([kernels.expanded(one)], below) if part not in outer]
        for part in core:
            self._count_steps(part)
        flops = products = 0
        for part in core:
            if part.op in LEAVES or is_view(part) or _made_beside(one, part):
                continue
            mine, own = self._inside(part) if part.op == "kernel" else self._operations(part)
            often = math.prod(self.steps[loop] for loop in part.free - one.free)
            seen = self._seen(one, part)
            flops, products = flops + int(mine * often * seen), products + int(own * often * seen)
        return flops, products

    def _seen(self, one: Node, part: Node) -> Fraction:
        """The share of queries and keys that attention with bounds looks at, for what it computes of each pair."""
        if one["name"] != "attention" or one["axis"] not in union((part, *part.args)):
            return Fraction(1)
        from .bounds import visible_share  # it computes with arrays, and to compile a model takes none

        return visible_share(one, self.sizes, self.packed)

    def costs(self) -> Costs:
        """The costs of every node and what the graph needs once, when it is loaded."""
        nodes: dict[Node, Cost] = {}
        once: dict[Node, Cost] = {}
        for one in self.order:
            mine = once if one in self.static else nodes
            mine[one] = self.once(one) * self.times(one) * self.shares.get(one, 1)
        parameters = sum(self.entries(one.axes) for one in self.order if one.op == "weight")
        return Costs(nodes, once, self._prepared_bytes(), parameters, self.word)

    def _prepared_bytes(self) -> int:
        """The memory of weights as a run reads them: scaled, merged, multiplied out."""
        read: dict[Node, None] = {}
        for one in self.order:
            if one not in self.static:
                args = one.args[: one["slots"]] if one.op == "loop" else one.args  # its body reads the rest
                read.update((arg, None) for arg in args if arg in self.static and has_weight(arg))
        read.update((root, None) for root in self.graph.roots if root in self.static and has_weight(root))
        return sum(self.held(*members) for members in self._lists(read))

    def _lists(self, read: Iterable[Node]) -> Iterable[Sequence[Node]]:
        """The parameters, those together that choose from one stack by several numbers."""
        stacks = {weight.name: weight.stack for weight in self.graph.weights}
        found: dict[Node, list[Node]] = {}
        for one in read:
            found.setdefault(of_any_number(one, stack_picks(one, stacks) or {}, stacks), []).append(one)
        return found.values()

    def held(self, *members: Node) -> int:
        """The memory of a parameter as it is prepared: for every entry of the stacks that it is chosen from.

        Several members are one parameter, chosen by several numbers; only numbers that are known make fewer entries.
        """
        stacks = {weight.name: weight.stack for weight in self.graph.weights}
        picks = [stack_picks(one, stacks) for one in members]
        every = [
            self.times(one) if chosen is None else math.prod(self.sizes.extent(axis) for axis in chosen)
            for one, chosen in zip(members, picks, strict=True)
            if chosen is None or any(number.op != "const" for number in chosen.values())
        ]
        return self.bytes(members[0]) * (max(every) if every else len(members))


def bytes_of(kind: str, word: int = WORD) -> int:
    """The bytes of an entry: a relation's one, a whole number's as always, else those of a number."""
    return {"bool": 1, "int": WORD}.get(kind, word)


def is_view(one: Node) -> bool:
    """Whether a value lies in the memory of its argument: renamed, split, repeated, or a slice at a fixed place."""
    return one.op in VIEWS or (
        one.op in ("pick", "history", "past") and not any(arg.axes for arg in _numbers(one))
    )


def _numbers(one: Node) -> tuple[Node, ...]:
    """The places at which a node picks."""
    return one.args if one.op == "past" else one.args[1:]


def costs(graph: Graph, sizes: Sizes = USUAL) -> Costs:
    """What the graph costs for these run-time sizes, by node and in all."""
    return Pricer(graph, sizes).costs()


def flops(graph: Graph, sizes: Sizes = USUAL) -> int:
    """The scalar operations of one run."""
    return costs(graph, sizes).total.flops


def rows(graph: Graph, sizes: Sizes = USUAL) -> int:
    """The rows that go through products with weights in one run, each as often as it does."""
    price = Pricer(graph, sizes)
    found = [one for one in price.order if one.op == "contract" and one not in price.static]
    with_weights = [one for one in found if price.static.intersection(one.args)]
    return sum(rows_of(one, price.sizes, price.packed) * price.times(one) for one in with_weights)


def rows_of(one: Node, sizes: Sizes = USUAL, packed: bool = False) -> int:
    """How many rows a value has: tokens, examples (it has no length), or 1 (it is the same for all)."""
    return sizes.entries([axis for axis in one.axes if axis.ragged], packed)
