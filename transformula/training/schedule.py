"""The learning rate of a step: up along a line, then down as a line or a cosine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda done: 1 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "constant": lambda done: 1.0,
}
"""What is left of the rate when a share of the steps after the warm-up is done."""


@dataclass(frozen=True)
class Schedule:
    """rate(t) = lr · t / warmup for t ≤ warmup, then lr · shape((t − 1 − warmup) / (steps − warmup)); t = 1, 2, …"""

    lr: float
    warmup: int
    steps: int
    shape: str = "linear"

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 1. The last step of a line down still has one."""
        if step <= self.warmup:
            return self.lr * step / self.warmup
        done = (step - 1 - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * SHAPES[self.shape](min(done, 1.0))
