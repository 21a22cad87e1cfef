"""What each reduction means, in float64: over nothing a sum is 0, a product 1, a mean 0, a maximum -∞."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


def _sum(value: Array, condition: Array, dims: tuple[int, ...]) -> Array:
    return np.asarray(np.where(condition, value, 0.0).sum(axis=dims))


def _mean(value: Array, condition: Array, dims: tuple[int, ...]) -> Array:
    count = condition.sum(axis=dims)
    return np.where(count > 0, _sum(value, condition, dims) / np.maximum(count, 1), 0.0)


def _argmax(value: Array, condition: Array, dims: tuple[int, ...]) -> Array:
    (dim,) = dims
    if not value.shape[dim]:  # of nothing: 0
        return np.asarray(value.sum(axis=dim))
    return np.asarray(np.where(condition, value, -np.inf).argmax(axis=dim).astype(float))


REDUCE: dict[str, Callable[[Array, Array, tuple[int, ...]], Array]] = {
    "sum": _sum,
    "mean": _mean,
    "prod": lambda v, c, d: np.where(c, v, 1.0).prod(axis=d),
    "max": lambda v, c, d: np.where(c, v, -np.inf).max(axis=d, initial=-np.inf),
    "min": lambda v, c, d: np.where(c, v, np.inf).min(axis=d, initial=np.inf),
    "norm": lambda v, c, d: np.sqrt((np.where(c, v, 0.0) ** 2).sum(axis=d)),
    "argmax": _argmax,
    "count": lambda v, c, d: (np.asarray(v, bool) & c).sum(axis=d).astype(float),
    "any": lambda v, c, d: np.asarray((np.asarray(v, bool) & c).any(axis=d)),
    "all": lambda v, c, d: np.asarray((np.asarray(v, bool) | ~c).all(axis=d)),
}
"""Each reduction of a value over dimensions, of the entries at which the condition holds."""
