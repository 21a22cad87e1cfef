"""A checkpoint map is total: each weight has one home, each stored tensor one use; ties share a storage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Note
from ..grammar.printer import expression as printed
from .ir import Graph, Weight
from .stored import Row, number, plain_name

TOLD = 6
"""Weights that one message names."""


def tied_rows(rows: Sequence[Row], ties: Iterable[s.Tie], graph: Graph) -> Iterator[Row]:
    """Rows of weights that have none and are tied to a weight that has: one storage."""
    have = {weight.name for row in rows for weight in row.weights}
    for tie in ties:
        for mine, other in ((tie.left, tie.right), (tie.right, tie.left)):
            for weight in _below(graph, mine):
                twin = f"{printed(other)}{plain_name(weight.name)[len(printed(mine)) :]}"
                source = [row for row in rows if [plain_name(w.name) for w in row.weights] == [twin]]
                if weight.name not in have and source and len(source[0].weights[0].axes) == len(weight.axes):
                    have.add(weight.name)
                    yield from (_moved(row, weight) for row in source)


def _below(graph: Graph, path: s.Expr) -> list[Weight]:
    """The weights at or under a path."""
    told = printed(path)
    return [one for one in graph.weights if f"{plain_name(one.name)}.".startswith(f"{told}.")]


def _moved(row: Row, weight: Weight) -> Row:
    """The same stored tensor as the home of a tied weight, whose axes stand in the same order."""
    twin = dict(zip(row.weights[0].axes, weight.axes, strict=True))
    found = tuple(tuple(tuple(twin[axis] for axis in group) for group in one) for one in row.layouts)
    return replace(row, weights=(weight,), layouts=found)


def untotal(
    rows: Sequence[Row], graph: Graph, block: s.Checkpoint, ties: Iterable[s.Tie]
) -> Iterator[Diagnostic]:
    """What keeps a map from being total."""
    yield from _shared(
        rows, {w.name for tie in ties for end in (tie.left, tie.right) for w in _below(graph, end)}
    )
    homes: dict[str, list[Row]] = {}
    for row in rows:
        for weight in row.weights:
            if not row.also:
                homes.setdefault(weight.name, []).append(row)
    homeless = [weight for weight in graph.weights if weight.name not in homes]
    if homeless:
        yield _homeless(homeless, block)
    for weight in graph.weights:
        found = homes.get(weight.name, [])
        if not found:
            continue
        numbers = [tuple(int(p) if p.isdigit() else -1 for p in row.places) for row in found]
        for place, row in enumerate(found[1:], 1):
            if any(_overlap(numbers[place], other) for other in numbers[:place]):
                yield _twice("K003", f"the weight `{weight.name}` has two rows", row, found[0])
        yield from _uncovered(weight, numbers, block)


def _shared(rows: Sequence[Row], tied: set[str]) -> Iterator[Diagnostic]:
    """A stored tensor that two rows name, unless they are tied."""
    stored: dict[str, Row] = {}
    for row in rows:
        key = " ".join((row.stored, *(place for place in row.places if place.isdigit())))
        if key in stored and not {weight.name for weight in row.weights} & tied:
            yield _twice("K009", f'"{row.stored}" is the home of two weights', row, stored[key])
        stored.setdefault(key, row)


def _uncovered(
    weight: Weight, numbers: Sequence[tuple[int, ...]], block: s.Checkpoint
) -> Iterator[Diagnostic]:
    """Rows of single numbers cover the whole stack."""
    sizes = [number(axis) for axis in weight.stack]
    count = sum(
        math.prod(1 if n >= 0 else size for n, size in zip(one, sizes, strict=True)) for one in numbers
    )
    if count < math.prod(sizes):
        message = f"{count} of {math.prod(sizes)} entries of the weight `{weight.name}` have a row"
        yield Diagnostic("K002", message, block.span)


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or a < 0 or b < 0 for a, b in zip(one, other, strict=True))


def _twice(code: str, message: str, row: Row, first: Row) -> Diagnostic:
    notes = (Note(first.span, "the first one"),) if first.span else ()
    advice = 'A second name of the same numbers is written  path : also "name".' if code == "K003" else ""
    return Diagnostic(code, message, row.span, notes=notes, help=advice)


def _homeless(weights: Sequence[Weight], block: s.Checkpoint) -> Diagnostic:
    first = weights[0]
    notes = (Note(first.span, "declared here"),) if first.span else ()
    advice = f'Add a row:  {first.name} : "its name in the file"'
    where = block.model.span if block.model else block.ecosystem.span
    message = f"the weight `{first.name}` has no row in this checkpoint map"
    if len(weights) > 1:
        others = ", ".join(f"`{one.name}`" for one in weights[:TOLD])
        more = f" and {len(weights) - TOLD} more" if len(weights) > TOLD else ""
        message = f"the weights {others}{more} have no row in this checkpoint map"
    return Diagnostic("K002", message, where, notes=notes, help=advice)
