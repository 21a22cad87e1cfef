"""How the evaluator reduces: plain functions of a value, the condition on its entries, and the dimensions that go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..grammar.diagnostics import error

Array: TypeAlias = npt.NDArray[Any]
MOST = 2**24
"""Entries that a new length may have: a text, and no way to fill the memory."""


def bounded(count: int, name: object) -> int:
    """The number of entries of a new length. Raises `TransformulaError` if that is no text any more."""
    if count > MOST:
        raise error("R910", f"`{name}` would have {count:,} entries, and {MOST:,} are the most", help="Repeat less.")
    return count


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
"""The meaning of each reduction by its name."""


def settled(value: Array) -> Array:
    """A hair below a whole number is that number, so that floor(log 8 / log 2) is 3 in every order of rounding."""
    near = np.round(value)
    return np.where(np.abs(value - near) <= 1e-12 * np.maximum(np.abs(near), 1), near, value)
