"""The proof of a corruption: each backend's module gives, number for number, what the formulas make of each text alone.

Texts stand in batches with padding on either side, of many lengths, none at all among them; rates are 0, 1 and between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler.corruptions import Border, border, corrupted
from ..compiler.driver import Compiled
from ..compiler.ir import Graph
from ..compiler.numeric import EXACT
from ..compiler.validation.trial import Gap, Measure, far
from .corrupt import corrupter
from .program import Program

Array = npt.NDArray[Any]
COUNTS = (7, 0, 1, 24, 2, 3, 12, 1)
SIDES = {"padded right": (0, 1), "padded left": (1, 0), "on both sides": (2, 3)}
RATES = {"": None, "rate 0": 0.0, "rate 1": 1.0, "rate 0.5": 0.5}


@dataclass(frozen=True)
class Batch:
    """Texts as a caller gives them, and each alone: its tokens and numbers."""

    given: Mapping[str, Any]
    alone: Sequence[Mapping[str, Any]]


def batch(graph: Graph, edge: Border, seed: int, side: str = "padded right", rate: float | None = None) -> Batch:
    """Random texts of all kinds of lengths; ids in padding are others."""
    rng = np.random.default_rng(seed)
    kinds = {one.name: one.kind for one in graph.inputs}
    before, after = SIDES[side]
    given: dict[str, Any] = {}
    alone: list[dict[str, Any]] = [{} for _ in COUNTS]
    for mask, at in edge.masks:
        counts = rng.permutation(COUNTS)
        width = max(COUNTS) + before + after
        first = np.where(before > 0, width - after - counts, 0) if after < 2 else np.full(len(counts), before)
        real = (np.arange(width) >= first[:, None]) & (np.arange(width) < (first + counts)[:, None])
        given[mask] = real.astype(np.int64)
        for name in (name for name, length, _ in edge.inputs if length == at):
            ids = rng.integers(5, 90, real.shape) if kinds[name] != "bool" else rng.integers(0, 3, real.shape) // 2
            given[name] = np.sort(ids // 12, axis=1) if name == "word_ids" else ids
            for row, one in enumerate(alone):
                one[name] = given[name][row, real[row]]
    for name, at, needed in edge.inputs:
        value = rate if name in edge.shares and rate is not None else 3 if needed and not at else None
        if value is not None:
            given[name] = value
            for one in alone:
                one[name] = value
    return Batch(given, alone)


def prove_corruption(made: Compiled, backends: Sequence[str]) -> Iterator[Measure]:
    """Each backend against the formulas, on every kind of padding and rate."""
    edge = border(made.formula, made.config)
    calls = {name: corrupter(Program(made, name)) for name in dict.fromkeys(backends)}
    for seed, (told, rate) in enumerate(RATES.items()):
        if rate is not None and not edge.shares:
            continue
        for side in SIDES:
            one = batch(made.formula, edge, seed, side, rate)
            wanted = [corrupted(made.formula, text, seed, row) for row, text in enumerate(one.alone)]
            for name, call in calls.items():
                try:
                    gap = compared(edge, one.given, wanted, call(**one.given, seed=seed))
                except Exception as fault:  # whatever a module raises
                    gap = far("", f"it cannot be called: {type(fault).__name__}: {fault}")
                case = f"{side}, {told}" if told else side
                yield Measure(made.entry, name, EXACT, case, f"{len(COUNTS)} texts", gap)


def compared(
    edge: Border, given: Mapping[str, Any], wanted: Sequence[Mapping[str, Array]], found: Mapping[str, Any]
) -> Gap:
    """The first result that is not what the texts give alone, at its place in the batch."""
    masks = {at: np.asarray(given[mask]) != 0 for mask, at in edge.masks}
    entries = 0
    for name, at, new, fill in edge.outputs:
        value = np.asarray(found[name])
        for row, one in enumerate(wanted):
            here, rest = value[row], np.zeros(0, np.int64)
            if at:
                count = len(one[name])
                shown = np.arange(len(here)) < count if new else masks[at][row]
                here, rest = here[shown], here[~shown]
            if not np.array_equal(here, one[name]):
                return far(name, f"`{name}` of text {row} is {np.asarray(here).tolist()}, not {one[name].tolist()}")
            if at and fill is not None and (rest != fill).any():
                return far(name, f"`{name}` of text {row} is not {fill} at padding")
            entries += np.size(here)
    return Gap("", entries=entries)
