"""What a model holds and what it costs, block by block: data, which others print.

    block      an instance of the spec, in the blocks around it; a loop's blocks once, with how often they run
    weights    each once, where it is declared; a block that reads another one's tells so (`shared`)
    own        what the formulas of a block cost by themselves; the sum over the tree is what cost.py tells in all

At the formula stage and after the last pass. What passes fuse belongs to the block that its formula came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..grammar.diagnostics import did_you_mean, error
from . import cost, memory
from .differentiation.activity import Active
from .driver import Compiled
from .homes import Place, definition_of, home_of_weight, homes, in_order, runs
from .ir import Axis, Graph, Node, Weight
from .keeping import Cache, cache_of
from .layouts import axes_text, label
from .objectives import weight_rows
from .sizes import USUAL, Sizes
from .stored import brackets

DTYPES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""The bytes of a number of each kind."""


@dataclass(frozen=True)
class Amount:
    """Parameters, and one run: operations, those in products, bytes read and written; `load_flops` once, at load."""

    parameters: int = 0
    parameter_bytes: int = 0
    flops: int = 0
    products: int = 0
    read: int = 0
    written: int = 0
    load_flops: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read + self.written

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


def _values(one: Amount) -> tuple[int, ...]:
    return (
        one.parameters, one.parameter_bytes, one.flops, one.products, one.read, one.written, one.load_flops
    )  # fmt: skip


@dataclass(frozen=True)
class WeightRow:
    """A weight: its name in the spec, its axes (and as declared), sizes, how many numbers, how it begins, if trained.

    The first `stacked` axes are those of the blocks that have one each; `declared` is all of them as a spec writes it.
    `stored` are its names in the checkpoint, a letter for each such axis; the first is its home.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    count: int
    stacked: int
    declared: str
    init: str
    trainable: bool
    stored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A block: its path, the definition it is an instance of, how often it runs, its weights and the blocks in it.

    `own_formula` and `own_final` are of its own formulas and weights alone, `formula` and `final` with all in it.
    `shared` are weights of other blocks that it reads, which are counted there; `calls` how many times one run, or one
    step of the loops around it, goes through it; `sets` how many sets of weights all its runs have.
    """

    name: str
    path: Place
    definition: str
    runs: int
    own_formula: Amount
    own_final: Amount
    weights: tuple[WeightRow, ...] = ()
    shared: tuple[str, ...] = ()
    calls: int = 1
    sets: int = 1
    parts: tuple[Block, ...] = ()

    @property
    def formula(self) -> Amount:
        """The block with all in it, as the spec says it."""
        return sum((part.formula for part in self.parts), self.own_formula)

    @property
    def final(self) -> Amount:
        """The block with all in it, after the last pass."""
        return sum((part.final for part in self.parts), self.own_final)

    def walk(self) -> Iterator[Block]:
        """This block and all in it, outer ones first."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Whole:
    """A stage in all: its amounts, the most bytes of values at once, the bytes of weights as a run reads them."""

    amount: Amount
    peak_bytes: int
    load_bytes: int
    intensity: float
    flops_per_token: float


@dataclass(frozen=True)
class Summary:
    """The summary of a model for given sizes, numbers of `dtype`."""

    spec: str
    entry: str
    kind: str
    sizes: Sizes
    dtype: str
    tokens: int
    parameters: int
    trainable: int
    dtype_bytes: Mapping[str, int]
    top: Block = field(repr=False)
    formula: Whole
    final: Whole
    cache: Cache | None = None

    @property
    def weights(self) -> tuple[WeightRow, ...]:
        """All weights, block by block."""
        return tuple(one for block in self.top.walk() for one in block.weights)

    def data(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        return {**asdict(self), "top": _data(self.top)}


def _data(block: Block) -> dict[str, Any]:
    """A block as plain values: its own amounts, and those with all in it."""
    mine = asdict(replace(block, parts=()))
    return {
        **mine,
        "formula": asdict(block.formula),
        "final": asdict(block.final),
        "parts": [_data(one) for one in block.parts],
    }


def summarise(compiled: Compiled, sizes: Sizes = USUAL, dtype: str = "float32") -> Summary:
    """The tree of a compilation's blocks with what each holds and costs, and the numbers of the whole.

    Raises `TransformulaError` for an unknown dtype.
    """
    if dtype not in DTYPES:
        advice = did_you_mean(dtype, DTYPES) or f"There are {', '.join(DTYPES)}."
        raise error("C670", f"there is no dtype `{dtype}`", help=advice)
    word = DTYPES[dtype]
    formula, final = (_Stage(graph, sizes, word) for graph in (compiled.formula, compiled.graph))
    tree = _Tree(compiled, formula, final)
    weights = tree.weights.values()
    count = sum(one.count for one in weights)
    tokens = tokens_of(compiled.formula, sizes)
    return Summary(
        compiled.module.name,
        compiled.entry,
        compiled.kind,
        sizes,
        dtype,
        tokens,
        count,
        sum(one.count for one in weights if one.trainable),
        {name: count * size for name, size in DTYPES.items()},
        tree.block(()),
        formula.whole(tokens),
        final.whole(tokens),
        cache_of(compiled, sizes, word),
    )


def tokens_of(graph: Graph, sizes: Sizes) -> int:
    """The tokens that a run is given, in all lengths that its inputs have; of a model without lengths its examples."""
    sizes = sizes.of(graph)
    lengths = {axis.size: axis for one in graph.inputs for axis in one.axes if axis.counted}
    batch = graph.batch
    rows: list[list[Axis]] = [[axis] if axis.owner is None else [axis.owner, axis] for axis in lengths.values()]
    return sum(sizes.entries(row, packed=True) for row in rows) or sizes.entries([batch] if batch else [], False)


class _Stage:
    """A graph with the price and the block of every node."""

    def __init__(self, graph: Graph, sizes: Sizes, word: int) -> None:
        self.graph, self.sizes, self.word = graph, sizes, word
        self.pricer = cost.Pricer(graph, sizes, word)
        self.costs = self.pricer.costs()
        self.homes = homes(graph)

    def own(self) -> dict[Place, Amount]:
        """What each block costs by itself."""
        found: dict[Place, Amount] = {}
        for one, place in self.homes.items():
            found[place] = found.get(place, Amount()) + self._amount(one)
        return found

    def _amount(self, one: Node) -> Amount:
        if one.op == "weight":
            count = self.pricer.entries(one.axes)
            return Amount(count, count * self.word)
        if one in self.costs.once:
            return Amount(load_flops=self.costs.once[one].flops)
        found = self.costs.nodes[one]
        return Amount(0, 0, found.flops, found.products, found.read, found.written)

    def whole(self, tokens: int) -> Whole:
        """The numbers of all blocks together."""
        found = self.costs
        run = found.total
        held, load = (found.parameters, found.parameter_bytes), found.prepared.flops
        amount = Amount(*held, run.flops, run.products, run.read, run.written, load)
        peak = memory.peak_bytes(self.graph, self.sizes, self.word)
        return Whole(amount, peak, found.prepared_bytes, run.flops / max(1, run.bytes), run.flops / max(1, tokens))


class _Tree:
    """Makes the blocks of a compilation."""

    def __init__(self, compiled: Compiled, formula: _Stage, final: _Stage) -> None:
        self.compiled, self.formula = compiled, formula
        self.own_formula, self.own_final = formula.own(), final.own()
        self.runs = runs(formula.graph, formula.pricer, formula.homes)
        rows = weight_rows(compiled.module, compiled.config, compiled.entry, formula.graph)
        stored = rows.names()
        nodes = {one["name"]: one for one in formula.pricer.order if one.op == "weight"}
        weights = formula.graph.weights
        self.weights = {w.name: _row(w, formula.graph, nodes[w.name], stored.get(w.name, ())) for w in weights}
        self.readers = _readers(formula)
        self.inside: dict[Place, dict[Place, None]] = {}
        for place in (*in_order(formula.graph, formula.homes, formula.pricer.static), *self.own_final):
            for depth in range(len(place)):
                self.inside.setdefault(place[:depth], {})[place[: depth + 1]] = None

    def block(self, place: Place) -> Block:
        """A block with all in it."""
        definition = definition_of(self.compiled.module, self.compiled.entry, place)
        own = [one for name, one in self.weights.items() if home_of_weight(name) == place]
        return Block(
            place[-1] if place else self.compiled.entry,
            place,
            definition.name.name if definition else "",
            self._runs(place),
            self.own_formula.get(place, Amount()),
            self.own_final.get(place, Amount()),
            tuple(own),
            tuple(self._shared(place)),
            self._calls(place),
            self._sets(place),
            tuple(self.block(inner) for inner in self.inside.get(place, ())),
        )

    def _runs(self, place: Place) -> int:
        return next((self.runs[place[:size]] for size in range(len(place), 0, -1) if place[:size] in self.runs), 1)

    def _shared(self, place: Place) -> Iterator[str]:
        """Weights of other blocks that a formula of this one reads, and that others read, too."""
        for name, readers in self.readers.items():
            if home_of_weight(name) != place and len(readers) > 1 and place in readers:
                yield name

    def _calls(self, place: Place) -> int:
        """How many times each weight in a block is read where it is declared: once for each call of the block."""
        inside = [name for name in self.weights if home_of_weight(name)[: len(place)] == place != ()]
        return min((len(self.readers[name].get(home_of_weight(name), ())) or 1 for name in inside), default=1)

    def _sets(self, place: Place) -> int:
        """The product of the stacks that the block's path goes through."""
        stacks = sum(len(axes) for axes in brackets(".".join(place)))
        inside = (one for name, one in self.weights.items() if home_of_weight(name)[: len(place)] == place)
        return math.prod(next(inside).shape[:stacks]) if stacks else 1


def _readers(stage: _Stage) -> dict[str, dict[Place, set[Node]]]:
    """For each weight the blocks that read it, each with the nodes that do."""
    static = stage.pricer.static
    below: dict[Node, frozenset[str]] = {}
    found: dict[str, dict[Place, set[Node]]] = {one.name: {} for one in stage.graph.weights}
    for one in stage.pricer.order:
        if one in static:
            below[one] = frozenset().union(*(below[arg] for arg in one.args))
            below[one] |= {one["name"]} if one.op == "weight" else frozenset()
            continue
        for arg in one.args[: one["slots"]] if one.op == "loop" else one.args:  # a loop's body reads the rest itself
            for name in below.get(arg, ()):
                found[name].setdefault(stage.homes[one], set()).add(one)
    return found


def _row(one: Weight, graph: Graph, node: Node, stored: tuple[str, ...]) -> WeightRow:
    shape = tuple(size for size in one.shape if isinstance(size, int))
    active = Active(graph.roots, [node])
    return WeightRow(
        one.name,
        tuple(label(axis) for axis in one.axes),
        shape,
        math.prod(shape),
        len(one.stack),
        axes_text(one, stacked=True),
        one.init,
        any(active(root) for root in graph.roots),
        stored,
    )
