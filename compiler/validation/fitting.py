"""Cases that a small model has a meaning for: texts that the tables are too small for get a model with larger ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...grammar.diagnostics import TransformulaError
from ..ir import Graph
from .cases import BY_NAME, Kind, case
from .sizes import Shrinker, Small
from .trial import Trial

GROWTHS = 3
"""How often tables are made larger for texts that do not fit."""


def fitting(shrinker: Shrinker, profile: str, names: Sequence[str]) -> Iterator[tuple[Small, tuple[Kind, ...]]]:
    """Small models with their cases: texts that the tables are too small for get a model with larger ones."""
    width = 4 if profile == "equal" else 5
    kinds = tuple(replace(one, width=min(one.width, width)) for one in map(BY_NAME.__getitem__, names))
    small = grown = shrinker.small(profile)
    if small is None:
        return
    for _ in range(GROWTHS):
        if grown is None or defined(grown, replace(BY_NAME["masks"], width=width)):
            break
        grown = shrinker.grown(grown)
    if grown is None or grown is small:
        yield small, kinds
        return
    short = tuple(kind for kind in kinds if kind.width == 1 and defined(small, kind))
    if short:
        yield small, short
    yield grown, tuple(kind for kind in kinds if kind not in short)


def defined(small: Small, kind: Kind) -> bool:
    """Whether every number of every result exists."""
    trial = trial_of(small.graph, kind)
    return trial is not None and trial.whole(small.graph)


def trial_of(graph: Graph, kind: Kind) -> Trial | None:
    """The case, evaluated on the formula; None where the formula cannot be called so."""
    try:
        trial = Trial(graph, case(graph, kind))
        trial.values(graph)
    except (TransformulaError, ArithmeticError, ValueError, IndexError):
        return None
    return trial
