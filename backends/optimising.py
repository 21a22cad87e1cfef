"""What the optimiser of a training is, whatever computes it: AdamW with the usual set of weights that do not decay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiler.ir import Graph, walk_all


@dataclass(frozen=True)
class AdamW:
    """w ← w − η (m̂ / (√v̂ + ε) + λ w), gradients scaled down to a norm of `clip` (Loshchilov and Hutter, 2019)."""

    first: float = 0.9
    second: float = 0.999
    eps: float = 1e-8
    decay: float = 0.01
    clip: float = 1.0


def seed_of(seed: int, step: int, part: int) -> int:
    """What a part of a step's batch draws by: dropout, and what the formulas draw."""
    return int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint64)[0] >> 1)


def decaying(graph: Graph) -> set[str]:
    """The weights that decay: maps and tables; not what is added or multiplied entry by entry (biases, norms)."""
    stacked = {axis for weight in graph.weights for axis in weight.stack}
    found = {one.name for one in graph.weights if one.outs is not None}
    for one in walk_all(graph.roots):
        if one.op not in ("pick", "contract") or (one.op == "pick" and set(one["keys"]) <= stacked):
            continue
        for arg in one.args[: 1 if one.op == "pick" else 2]:
            while arg.op in ("rename", "split", "merge"):
                arg = arg.args[0]
            if arg.op == "pick" and set(arg["keys"]) <= stacked:
                arg = arg.args[0]
            if arg.op == "weight":
                found.add(arg["name"])
    return found
