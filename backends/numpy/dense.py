"""Run-time kernels for values with all their axes, used where one example is computed at a time.

Copied into generated modules like kernels.py: every function stands by itself, over numpy alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def gather(x: NDArray[Any], *index: NDArray[Any]) -> NDArray[Any]:
    """y = x[i, j, …] for numbers that align with each other; out of range is undefined (NaN), and never wraps."""
    bad: NDArray[Any] = np.zeros((), bool)
    clipped = []
    for number, size in zip(index, x.shape, strict=False):
        whole = np.nan_to_num(np.asarray(number)).astype(np.intp)
        bad = bad | (whole < 0) | (whole >= size) | np.isnan(number)
        clipped.append(np.clip(whole, 0, max(size - 1, 0)))
    if x.size == 0:
        shape = (*np.broadcast_shapes(*(c.shape for c in clipped)), *x.shape[len(index) :])
        return np.full(shape, np.nan, x.dtype if x.dtype.kind == "f" else float)
    y: NDArray[Any] = x[tuple(clipped)]
    if bad.any():
        kind = y.dtype if y.dtype.kind == "f" else float
        y = np.where(np.reshape(bad, bad.shape + (1,) * (y.ndim - bad.ndim)), np.nan, y).astype(kind)
    return y


def reduce_where(kind: str, x: NDArray[Any], see: Any, axes: tuple[int, ...]) -> NDArray[Any]:
    """The reduction over the entries that `see` lets through; over nothing: 0, prod 1, max -∞, min ∞."""
    x, see = np.broadcast_arrays(x, np.asarray(see, bool))
    if kind == "count":
        return np.asarray((x.astype(bool) & see).sum(axis=axes))
    if kind == "any":
        return np.asarray((x.astype(bool) & see).any(axis=axes))
    if kind == "all":
        return np.asarray((x.astype(bool) | ~see).all(axis=axes))
    if kind == "prod":
        return np.asarray(np.where(see, x, x.dtype.type(1)).prod(axis=axes))
    if kind in ("max", "min", "argmax"):
        return extreme_where(kind, x, see, axes)
    zeros = np.where(see, x, x.dtype.type(0))
    if kind == "norm":
        return np.asarray(np.sqrt((zeros * zeros).sum(axis=axes)))
    total = np.asarray(zeros.sum(axis=axes))
    if kind == "sum":
        return total
    count = see.sum(axis=axes)
    return np.where(count > 0, total / np.maximum(count, 1), 0).astype(
        total.dtype if total.dtype.kind == "f" else float
    )


def extreme_where(kind: str, x: NDArray[Any], see: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    """max, min or argmax of the entries that `see` lets through."""
    real = x if x.dtype.kind == "f" else x.astype(float)
    worst = real.dtype.type(np.inf if kind == "min" else -np.inf)
    chosen = np.where(see, real, worst)
    if kind == "argmax":
        return np.asarray(chosen.argmax(axis=axes[0]))
    if kind == "max":
        return np.asarray(chosen.max(axis=axes, initial=worst))
    return np.asarray(chosen.min(axis=axes, initial=worst))


def rank(x: NDArray[Any], see: Any = True) -> NDArray[Any]:
    """How many entries of the last axis are larger, ties by order; hidden entries are smallest."""
    value = np.where(see, x, -np.inf)
    order = np.argsort(-value, axis=-1, kind="stable")
    result = np.empty(value.shape, np.intp)
    np.put_along_axis(result, order, np.broadcast_to(np.arange(value.shape[-1]), value.shape), -1)
    return result


def whole_floor(x: Any, up: bool = False) -> NDArray[Any]:
    """⌊x⌋ (or ⌈x⌉) as whole numbers; a hair beside a whole number is that number, in every order of rounding."""
    value = np.asarray(x, float)
    near = np.round(value)
    settled = np.where(np.abs(value - near) <= 1e-12 * np.maximum(np.abs(near), 1), near, value)
    rounded = np.ceil(settled) if up else np.floor(settled)
    return np.asarray(np.nan_to_num(rounded, posinf=2**62, neginf=-(2**62)).astype(np.int64))
