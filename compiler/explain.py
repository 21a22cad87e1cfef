"""What a compilation did, as data: per pass what fired, what was refused and why, and what it saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from . import pipeline
from .driver import Compiled
from .ledger import Line


@dataclass(frozen=True)
class Event:
    """A rewrite that was made, or refused for want of the fact in `reason`."""

    rule: str
    what: str
    place: str
    count: int
    reason: str = ""


@dataclass(frozen=True)
class Chapter:
    """One pass: its purpose, how many nodes it found and left, its rewrites, and how far they may move a number."""

    name: str
    does: str
    before: int
    after: int
    fired: tuple[Event, ...]
    refused: tuple[Event, ...]
    numeric: str = ""


@dataclass(frozen=True)
class Report:
    """The story of a compilation: the model, the nodes of its formula graph, a chapter per pass that ran."""

    entry: str
    nodes: int
    chapters: tuple[Chapter, ...]

    def data(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)


def explained(compiled: Compiled) -> Report:
    """The report of a compilation, from its stages and its ledger."""
    counts = [len(stage.graph.nodes()) for stage in compiled.stages]
    rows = {row.name: row for row in pipeline.table()}
    chapters = []
    for number, stage in enumerate(compiled.stages[1:], 1):
        lines = [line for line in compiled.ledger.lines if line.pass_name == stage.name]
        fired = tuple(_event(line) for line in lines if line.fired)
        refused = tuple(_event(line) for line in lines if not line.fired)
        row = rows[stage.name]
        numeric = pipeline.numeric_class(row, compiled.ledger) if fired else ""
        chapters.append(Chapter(stage.name, row.does, counts[number - 1], counts[number], fired, refused, numeric))
    return Report(compiled.entry, counts[0], tuple(chapters))


def _event(line: Line) -> Event:
    return Event(line.rule, line.what, line.place, line.count, line.reason)
