"""What a compilation did, as data: per pass what fired, what was refused and why, and what it saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import cost, memory, pipeline
from .decoding import DERIVED, Decoding, Kept
from .driver import Compiled
from .ir import Graph
from .ledger import Line
from .sizes import USUAL, Sizes
from .training import DIFFERENTIATE, DOES

DIFFERENTIATION = pipeline.Pass(DIFFERENTIATE, DOES, "", lambda graph, ledger: graph)
"""The chapter of what is no pass, for it makes more results."""


@dataclass(frozen=True)
class Event:
    """A rewrite that was made, or refused for want of the fact in `reason`."""

    rule: str
    what: str
    place: str
    count: int
    reason: str = ""


@dataclass(frozen=True)
class Figures:
    """What a graph costs: operations of one run (in all, in products), bytes it moves and holds at most, parameters.

    `load_` tells what is done once, when weights are loaded, and the memory of the weights as a run reads them; `rows`
    how many rows go through products with weights, each as often as it does.
    """

    flops: int
    product_flops: int
    bytes: int
    peak_bytes: int
    parameters: int
    parameter_bytes: int
    load_flops: int
    load_bytes: int
    rows: int


@dataclass(frozen=True)
class Chapter:
    """One pass: its purpose, how many nodes it found and left, what they cost, its rewrites, and how exact they are."""

    name: str
    does: str
    before: int
    after: int
    fired: tuple[Event, ...]
    refused: tuple[Event, ...]
    cost_before: Figures
    cost_after: Figures
    numeric: str = ""


@dataclass(frozen=True)
class KeptRows:
    """Rows that a step keeps for the next: their value, its axes, how many steps of loops have rows of their own.

    `bytes` are those of one token of one example in all of these steps (`once`: of all it holds, computed before the
    first token, and then it is for an example of the report's length).
    """

    name: str
    axes: tuple[str, ...]
    steps: tuple[int, ...]
    bytes: int
    once: bool


@dataclass(frozen=True)
class Steps:
    """How a model decodes: the proof that it can, or the operation that looks ahead; and what a step costs.

    `step` is one new token for each example behind a text of the report's length, `first` the whole text at once.
    """

    fired: tuple[Event, ...]
    refused: tuple[Event, ...]
    kept: tuple[KeptRows, ...] = ()
    step: Figures | None = None
    first: Figures | None = None


@dataclass(frozen=True)
class Report:
    """The story of a compilation: the model, the nodes of its formula graph, a chapter per pass that ran.

    `cost` is that of the formula graph for the sizes told, `kinds` the operations of the last graph by kind; `losses`
    are the stories of the model's objectives, which are graphs of their own over its results; `decoding` is that of a
    model over tokens, None for another; `gradients` are those of the objectives from the inputs on, if asked for.
    """

    entry: str
    nodes: int
    chapters: tuple[Chapter, ...]
    sizes: Sizes
    cost: Figures
    kinds: Mapping[str, int]
    losses: tuple[Report, ...] = ()
    decoding: Steps | None = None
    gradients: tuple[Report, ...] = ()

    @property
    def cost_at_last(self) -> Figures:
        """What the graph costs after the last pass."""
        return self.chapters[-1].cost_after if self.chapters else self.cost

    def data(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)


def explained(compiled: Compiled, sizes: Sizes = USUAL) -> Report:
    """The report of a compilation, from its stages and its ledger; costs are those for the given sizes."""
    counts = [len(stage.graph.nodes()) for stage in compiled.stages]
    costs = [figures(stage.graph, sizes) for stage in compiled.stages]
    rows = {row.name: row for row in pipeline.table()}
    chapters = []
    for number, stage in enumerate(compiled.stages[1:], 1):
        lines = [line for line in compiled.ledger.lines if line.pass_name == stage.name]
        row, fired = rows.get(stage.name, DIFFERENTIATION), tuple(_event(line) for line in lines if line.fired)
        chapters.append(
            Chapter(
                stage.name,
                row.does,
                counts[number - 1],
                counts[number],
                fired,
                tuple(_event(line) for line in lines if not line.fired),
                costs[number - 1],
                costs[number],
                pipeline.numeric_class(row, compiled.ledger) if fired else "",
            )
        )
    kinds = {kind: one.flops for kind, one in cost.costs(compiled.graph, sizes).kinds.items()}
    losses = tuple(explained(one, sizes) for one in compiled.losses)
    decoding = _decoding(compiled, sizes)
    gradients = tuple(explained(one, sizes) for one in compiled.gradients or ())
    return Report(compiled.entry, counts[0], tuple(chapters), sizes, costs[0], kinds, losses, decoding, gradients)


def _decoding(compiled: Compiled, sizes: Sizes) -> Steps | None:
    lines = [line for line in compiled.ledger.lines if line.pass_name == DERIVED]
    if not lines:
        return None
    fired, refused = (tuple(_event(line) for line in lines if line.fired == good) for good in (True, False))
    made = compiled.decoding
    if made is None:
        return Steps(fired, refused)
    one, every = ({made.new.name: number} for number in (1, sizes.length))
    step, first = (figures(made.step, replace(sizes, lengths={**sizes.lengths, **new})) for new in (one, every))
    return Steps(fired, refused, tuple(kept_rows(row, made, sizes) for row in made.kept), step, first)


def kept_rows(row: Kept, made: Decoding, sizes: Sizes, word: int = cost.WORD) -> KeptRows:
    """What a step keeps of a value, numbers of `word` bytes."""
    once = row.along is None
    axes = tuple(axis for axis in row.axes if axis != made.step.batch and axis != row.along)
    steps = math.prod(row.steps)
    size = replace(sizes, batch=1).entries(axes, False) * steps * cost.bytes_of(row.kind, word)
    return KeptRows(row.name, tuple(map(str, row.axes)), row.steps, size, once)


def figures(graph: Graph, sizes: Sizes = USUAL) -> Figures:
    """The costs of a graph in nine numbers."""
    found = cost.costs(graph, sizes)
    run = found.total
    return Figures(
        run.flops,
        run.products,
        run.bytes,
        memory.peak_bytes(graph, sizes),
        found.parameters,
        found.parameter_bytes,
        found.prepared.flops,
        found.prepared_bytes,
        cost.rows(graph, sizes),
    )


def _event(line: Line) -> Event:
    return Event(line.rule, line.what, line.place, line.count, line.reason)
