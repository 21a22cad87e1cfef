"""How much of the rounding of each operation reaches a result: its condition, measured.

The formula is evaluated twice, once with the result of every operation moved by a random relative error of 2^-44. What
comes out moved by δ in an example has a condition of δ / 2^-44: an operation that errs by one unit of rounding moves
the result by about so many units. Cancellation, ill-conditioned norms and softmaxes of large scores are thus seen where
they are, and a result that is far from all of them is held to a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..evaluate import Array, Evaluator, Lengths
from ..ir import Axis, Node

NOISE = 2.0**-44
"""Far above the rounding that it stands for, and too small to move anything across a step of floor or ceil."""

SHARP = ("where", "max", "min", "neg", "abs", "sign", "stop", "floor", "ceil")
"""Functions that round nothing."""

SAFETY = 4.0
"""One draw of noise may be kind to an entry."""


class Noisy(Evaluator):
    """An evaluator whose every operation on other than whole numbers errs by up to 2^-44."""

    def __init__(
        self,
        inputs: Mapping[str, Array],
        weights: Callable[[str, tuple[Axis, ...]], Array],
        lengths: Lengths | None = None,
        seed: int = 0,
        training: bool = False,
    ) -> None:
        super().__init__(inputs, weights, lengths, seed, training)
        self._noise = np.random.default_rng(1)

    def _evaluate(self, one: Node) -> Any:
        value = super()._evaluate(one)
        if not rounds(one) or value.dtype.kind != "f" or self._exact(one, value):
            return value
        return value * (1.0 + NOISE * self._noise.uniform(-1.0, 1.0, value.shape))

    def _exact(self, one: Node, value: Array) -> bool:
        """Whether whole numbers were made of whole numbers: places, labels and counts err nowhere."""
        if one.op == "input" and one["name"] in self.inputs:
            return self.inputs[one["name"]].dtype.kind != "f"
        return bool(one.args) and all(_whole(part) for part in (value, *self._args(one)))


def _whole(value: Array) -> bool:
    return bool(np.all((value == np.round(value)) | np.isnan(value))) if value.dtype.kind == "f" else True


def rounds(one: Node) -> bool:
    """Whether the operation rounds: arithmetic on numbers. Inputs and weights are held to be rounded, too."""
    if one.kind in ("int", "bool"):
        return False
    if one.op == "map":
        return one["fn"] not in SHARP
    if one.op == "reduce":
        return one["reduction"] in ("sum", "mean", "prod", "norm")
    return one.op in ("contract", "input", "weight")


def allowed(value: Array, moved: Array, unit: float) -> Array:
    """By how much each entry may differ if every operation may err by `unit`; inf where nothing can be said.

    The condition is that of the example: the first axis of the arrays, if they have one.
    """
    rows = value.reshape(len(value) if value.ndim else 1, -1)
    with np.errstate(invalid="ignore"):
        apart = np.abs(moved.reshape(rows.shape) - rows)
    both = np.isfinite(rows) & np.isfinite(moved.reshape(rows.shape))
    condition = np.where(both, apart, 0.0).max(axis=1, initial=0.0) / NOISE
    size = np.where(both, np.abs(rows), 0.0).max(axis=1, initial=0.0)
    bound = np.where(both, (unit * (SAFETY * condition + size))[:, None], np.inf)
    return bound.reshape(value.shape)
