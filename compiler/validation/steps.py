"""A derived step against the formula: a text in two pieces gives the logits that the whole text gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import pipeline
from ..decoding import Decoding, decoding_of, tokens_of
from ..decoding.session import Session
from ..evaluate import Array
from ..ir import Graph
from ..ledger import Ledger
from .rounding import allowed
from .trial import Gap, Trial, far, gap


def stepped(graph: Graph, only: Sequence[str]) -> Decoding | None:
    """The decoding of a small model after these passes; None where it has none."""
    return decoding_of(graph, Ledger(), lambda one: pipeline.run(one, only=only)[0][-1].graph)


def compared(graph: Graph, decoding: Decoding, trial: Trial, unit: float) -> Gap:
    """How far the logits after each piece are from those of the whole texts; examples without a token are left out."""
    name = tokens_of(graph)
    assert name is not None
    wanted, moved = (np.asarray(run(graph)["logits"], float) for run in (trial.values, trial.moved))
    tokens, counts, visible = trial.aligned(name, decoding.length)
    try:
        session = Session(decoding, trial.case.weights, trial.others(name, decoding.length))
        gaps, before = [], np.zeros_like(counts)
        for new in _pieces(counts):
            width = int(new.max(initial=0))
            at = np.minimum(before[:, None] + np.arange(width), tokens.shape[1] - 1)
            ids, shown = (np.take_along_axis(part, at, 1) for part in (tokens, visible))
            made = session.feed(ids, new, shown)["logits"]
            before = before + new
            rows = np.maximum(before - 1, 0)
            seen = (new > 0) & np.take_along_axis(visible, rows[:, None], 1)[:, 0]
            each = np.arange(len(rows)), rows
            limit = allowed(wanted[each], moved[each], unit)
            seen = np.broadcast_to(seen[:, None], made.shape) & np.isfinite(wanted[each])
            gaps.append(gap("logits", wanted[each], made, seen, limit))
    except Exception as fault:  # whatever an operation on wrong shapes raises
        return far("", f"it cannot be evaluated: {type(fault).__name__}: {fault}")
    return max(gaps, key=lambda one: one.excess)


def _pieces(counts: Array) -> list[Array]:
    """Half of each text, then one token, then the rest."""
    first = (counts + 1) // 2
    second = np.minimum(counts - first, 1)
    return [first, second, counts - first - second]
