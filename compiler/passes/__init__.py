"""Passes over the formula graph; the table of pipeline.py is here."""

from __future__ import annotations

from ..numeric import EXACT
from ..pipeline import Pass
from . import (
    chunk,
    deadness,
    fold_masks,
    fold_scales,
    fuse,
    inference,
    merge_projections,
    pack,
    probe,
    push_picks,
    reassociate,
    recognise,
    simplify,
)
from .planned import planned

PASSES: tuple[Pass, ...] = (
    Pass(
        "inference",
        "what acts in training alone is taken out: dropout and stop",
        "first: nothing else need look at what goes",
        inference.run,
    ),
    Pass(
        "simplify",
        "scalar algebra, decided selections, renames sunk",
        "before the rest: all others look at the normal form",
        simplify.run,
    ),
    Pass(
        "recognise",
        "softmax and its kin, norms, activations, cross-entropy and attention by their meaning",
        "before anything that moves parts of them about",
        recognise.run,
        bound=probe.TOLERANCE,
    ),
    Pass(
        "push_picks",
        "rows that nobody reads are not computed: selections move towards the inputs",
        "after attention is known, whose keys stay whole; before weights are merged, which a row would not need",
        push_picks.run,
    ),
    Pass(
        "deadness",
        "what no result feels goes: biases of keys, softmax under argmax, divisors under unit length",
        "after attention is known; before weights are merged, which would hide the biases",
        deadness.run,
    ),
    Pass(
        "fold_masks",
        "masks of places become bounds on the keys of each row; those that always hold go",
        "after picks, whose rows may see all keys; before a pass looks at what attention reads",
        fold_masks.run,
    ),
    Pass(
        "reassociate",
        "chains of products in the order that costs least; no weight becomes a bigger one",
        "after rows that nobody reads are gone, which decide what is cheaper; before weights are scaled and merged",
        reassociate.run,
    ),
    Pass(
        "fold_scales",
        "the scale of attention goes into the weights of the query",
        "before projections are merged, while each still has its own weights",
        fold_scales.run,
    ),
    Pass(
        "merge_projections",
        "products of one value (Q, K, V) become one product",
        "after scales are folded, so that all three have one shape",
        merge_projections.run,
    ),
    Pass(
        "chunk",
        "the logits of a long axis are made for some rows at a time where a loss alone reads them",
        "after products have their last order; before sums are hidden in what reads them",
        chunk.run,
        EXACT,
    ),
    Pass(
        "pack",
        "what an objective computes token by token runs on rows of the real tokens of many examples",
        "after picks and pieces, which decide what is computed at all; before sums are hidden in what reads them",
        pack.run,
        EXACT,
    ),
    Pass(
        "fuse",
        "bias and residual are added inside the norm or activation that reads them",
        "last: it hides sums from passes that look for them",
        fuse.run,
    ),
    Pass(
        "unpad",
        "token-wise work on the packed real tokens of many examples, attention per example",
        "carried out by the backend, on the graph as all others leave it",
        planned("unpad"),
        EXACT,
    ),
    Pass(
        "schedule",
        "order of the lines, memory used again, in-place where the argument is dead",
        "carried out by the backend, last of all",
        planned("schedule"),
        EXACT,
    ),
)
