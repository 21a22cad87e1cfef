"""Decoding: from a causal spec to the step that computes new tokens alone, over rows that earlier calls kept.

    causality    the proof that row i depends on rows ≤ i alone, operation by operation
    demand       which rows of which value a step needs: the new ones, or all
    derive       the step as a graph, and what is computed once before the first token
    session      both run by the naive evaluator: the meaning that backends are tested against

No spec mentions a cache, and nothing here knows attention: only axes, relations of places, sums and renames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir import Graph
from ..ledger import Ledger
from ..pipeline import DERIVED
from ..wanted import wanted
from .choose import RESULT, tokens_of
from .derive import Decoding, Kept, derived
from .windows import windows

__all__ = ["DERIVED", "Decoding", "Kept", "decoding_of", "derived", "tokens_of"]


def decoding_of(graph: Graph, ledger: Ledger, optimised: Callable[[Graph], Graph]) -> Decoding | None:
    """The decoding of a model's formula, its graphs optimised; None for a model that does not decode.

    A step computes the logits after each example's last new token alone. The ledger tells the proof, or what is
    missing.
    """
    tokens = tokens_of(graph)
    found = None if tokens is None else derived(graph, tokens, RESULT, ledger)
    if found is None:
        return None
    step = optimised(wanted(found.step, (RESULT,), {RESULT: "last"}))
    seen = windows(step, {row.name: row.steps for row in found.kept})
    kept = tuple(replace(row, window=seen.get(row.name, ())) for row in found.kept)
    for row in kept:
        if row.window:
            ledger.fired(DERIVED, "window", f"of {row.name}, {_told(row.window)}: no later row sees those before")
    return replace(found, begin=found.begin and optimised(found.begin), step=step, kept=kept)


def _told(window: tuple[int | None, ...]) -> str:
    """How many old rows are needed, in words."""
    sizes = {"all old rows" if far is None else f"{far} old rows": None for far in window}
    return f"{' or '.join(sizes)} are needed"
