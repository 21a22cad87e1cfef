"""Gradients on the spot: what the differentiation makes of an objective at small sizes, against the objective itself.

    loss      the graph with gradients has the loss of the formula
    slope     along a random direction of all weights, the gradients say what differences of the formula's loss do
    again     a pass that runs behind the differentiation changes no gradient

A difference is measured with two steps, and what they differ by, in slope or in bend, is the room that it gets: near a
corner, or where a draw tips over, nothing is said. A graph with `stop` has other gradients than its slopes, and only
its loss and later passes are compared. Hidden entries are numbers here: a gradient sums over them with zeros, and a
backend takes NaN out of them where they come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np

from .. import training
from ..differentiation import gradient_of
from ..driver import Compiled, compile_losses
from ..ir import Graph
from ..ledger import Ledger
from ..numeric import REASSOCIATING, ULPS, UNIT
from ..passes.probe import TOLERANCE
from ..pipeline import Stage
from .cases import Array, Case, Kind
from .fitting import fitting, trial_of
from .sizes import Shrinker, Small, Subject
from .trial import Gap, Measure, Trial, far

STEP = 1e-3
"""Of a direction that is as long as the weights are: far above rounding, and the error of a difference is STEP^4."""

BLUNT = 1e-8
"""The relative error that a difference has beside that of its step."""

ROUNDINGS = 16
"""Of a loss, which its differences are told apart from by no more."""

LOOSE = max(ULPS[REASSOCIATING] * UNIT, TOLERANCE)
"""By how much one operation may err: passes may find meanings, which are probed."""


@dataclass(frozen=True)
class Slopes:
    """The gradients of a small objective in all stages, with the cases that are for it."""

    small: Small
    made: Compiled
    kinds: tuple[Kind, ...]
    trials: dict[Kind, Trial | None] = field(default_factory=dict)

    @property
    def ledger(self) -> Ledger:
        """What its passes did."""
        return self.made.ledger

    def every(self, kind: Kind) -> Iterator[Measure]:
        """The loss, the slope, and each later pass."""
        trial = self.trial(kind)
        if trial is None or not np.isfinite(trial.values(self.made.formula)[self.loss]).all():
            return
        done = next(place for place, one in enumerate(self.made.stages) if one.name == training.DIFFERENTIATE)
        first, graph = self.made.formula, self.made.stages[done].graph
        names = [out.name for out in first.outputs]
        alone = replace(graph, outputs=tuple(out for out in graph.outputs if out.name in names))
        yield self._measure(training.DIFFERENTIATE, kind, trial.compare(first, alone, LOOSE))
        yield self._measure(training.DIFFERENTIATE, kind, slope(trial, graph, self.loss))
        for before, after in zip(self.made.stages[done:], self.made.stages[done + 1 :], strict=False):
            if after.graph.outputs != before.graph.outputs:
                yield self._measure(after.name, kind, trial.compare(before.graph, after.graph, LOOSE))

    def worst(self, kind: Kind) -> Measure | None:
        """The first measure that is more than rounding, if any."""
        return next((one for one in self.every(kind) if one.gap.wrong), None)

    @property
    def loss(self) -> str:
        """The name of the result that is differentiated."""
        return self.made.formula.outputs[0].name

    def trial(self, kind: Kind) -> Trial | None:
        """The case on the formula; None where it has no meaning there."""
        if kind not in self.trials:
            self.trials[kind] = trial_of(self.made.formula, kind)
        return self.trials[kind]

    def _measure(self, stage: str, kind: Kind, gap: Gap) -> Measure:
        return Measure(f"the gradients of {self.made.entry}", stage, REASSOCIATING, kind.name, str(self.small), gap)


def runs(made: Compiled, wanted: Mapping[str, Sequence[str]]) -> Iterator[Slopes]:
    """The objectives of a compilation that were differentiated, at each choice of small sizes."""
    if not made.gradients:
        return
    shrinker = Shrinker(Subject(made.module.entries[made.entry], made.config, made.formula, made.rows))
    for profile, names in wanted.items():
        for small, kinds in fitting(shrinker, profile, names):
            plain = tuple(replace(kind, poison=False) for kind in kinds if not kind.training and not kind.given)
            for one in training.compile_gradients(_compiled(made, small)) if plain else ():
                yield Slopes(small, one, plain)


def _compiled(made: Compiled, small: Small) -> Compiled:
    """The model or objective at small sizes, before any pass."""
    stages = (Stage("formula", small.graph),)
    losses = compile_losses(small.config.module, small.config, small.graph, only=()) if made.losses else ()
    return Compiled(made.module, small.config, made.entry, stages, Ledger(), losses)


def slope(trial: Trial, graph: Graph, loss: str) -> Gap:
    """How far the gradients are from central differences of the loss, along a random direction of all weights."""
    formula = trial.graph
    if any(one.op == "map" and one["fn"] == "stop" for one in formula.nodes()):
        return Gap(loss)
    found = trial.values(graph)
    ways = {name: _direction(name, value) for name, value in trial.case.weights.items()}
    grads = {name: found[gradient_of(name)] for name in ways if gradient_of(name) in found}
    losses = {by: _moved(trial, ways, by * STEP, loss) for by in (-4, -2, -1, 0, 1, 2, 4)}
    if not np.isfinite(list(losses.values())).all():
        return Gap(loss)
    if any(not np.isfinite(value).all() for value in grads.values()):
        felt = len(set(losses.values())) > 1  # what no loss feels may be no number on its way
        return far(loss, "a gradient has no number where there should be one") if felt else Gap(loss)
    terms = np.concatenate([np.zeros(1), *((value * ways[name]).reshape(-1) for name, value in grads.items())])
    right, coarse = (_central(losses, by) / (by * STEP) for by in (1, 2))
    rounding = ROUNDINGS * np.finfo(float).eps * max(map(abs, losses.values())) / STEP
    bends = [(losses[by] + losses[-by] - 2 * losses[0]) / STEP for by in (1, 2)]  # of a smooth function 1 : 4
    blunt = BLUNT * (abs(right) + float(np.abs(terms).sum()))
    room = abs(right - coarse) + abs(bends[1] - 4 * bends[0]) + blunt + rounding
    apart = abs(float(terms.sum()) - right)
    entries = sum(value.size for value in grads.values())
    return Gap(loss, apart, apart / max(abs(right), np.finfo(float).tiny), apart / room if apart else 0.0, "", entries)


def _direction(name: str, value: Array) -> Array:
    size = float(np.sqrt(np.mean(np.square(value)))) if value.size else 0.0
    made: Array = np.random.default_rng(crc32(name.encode()) + 1).normal(size=value.shape) * size
    return made


def _moved(trial: Trial, ways: Mapping[str, Array], step: float, loss: str) -> float:
    """The loss of the formula with all weights moved along their directions."""
    case = trial.case
    weights = {name: value + step * ways[name] for name, value in case.weights.items()}
    moved = Trial(trial.graph, Case(case.kind, case.inputs, weights))
    return float(moved.values(trial.graph)[loss])


def _central(losses: Mapping[int, float], by: int) -> float:
    """The derivative by the step, of fourth order."""
    return (8 * (losses[by] - losses[-by]) - (losses[2 * by] - losses[-2 * by])) / 12
