"""Cross-entropy of products, some rows at a time; the emitter copies it into generated modules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import BLOCK, run_parallel

LOGITS = 1 << 22
"""So many logits are made at a time."""
SHARED = 8  # blocks of rows that are worth several threads
KEPT_LOGITS = 1 << 24
"""So many with their slopes: each piece adds up a gradient of the whole table."""


def product_cross_entropy(
    x: NDArray[Any],
    table: NDArray[Any],
    bias: NDArray[Any] | None,
    label: NDArray[Any],
    smoothing: float = 0.0,
    most: int = 0,
) -> NDArray[Any]:
    """log Σ e^z - (1 - s) z[label] - s mean(z) of each row z = x[row, width] @ tableᵀ + bias, `most` logits at a time.

    NaN where a label is no place of the table.
    """
    count = table.shape[0]
    step = max(1, (most or LOGITS) // max(1, count))
    loss = np.empty(len(x), x.dtype)
    room = np.empty((min(step, len(x)), count), x.dtype)
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        z = np.matmul(x[part], table.T, out=room[: len(x) - first])
        if bias is not None:
            z += bias
        own = label[part].astype(np.intp)
        aim = z[np.arange(len(z)), np.clip(own, 0, count - 1)]
        aim[(own < 0) | (own >= count)] = np.nan
        if smoothing:
            aim = (1 - smoothing) * aim + smoothing * z.mean(axis=1)
        top = z.max(axis=1, keepdims=True)
        z -= top
        np.exp(z, out=z)
        loss[part] = np.log(z.sum(axis=1)) + (top[:, 0] - aim)
    return loss


def product_cross_entropy_slope(
    x: NDArray[Any],
    table: NDArray[Any],
    bias: NDArray[Any] | None,
    label: NDArray[Any],
    g: NDArray[Any],
    smoothing: float = 0.0,
    most: int = 0,
    threads: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(loss of each row, what flows to x, to the table, to the bias) where g[row] flows to the loss, in pieces."""
    count = table.shape[0]
    step = max(1, (most or KEPT_LOGITS) // max(1, count))
    loss, of_x = np.empty(len(x), x.dtype), np.empty_like(x)
    of_table, of_bias = np.zeros(table.shape, x.dtype), np.zeros(count, x.dtype)
    room = np.empty((min(step, len(x)), count), x.dtype)
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        z = np.matmul(x[part], table.T, out=room[: len(x) - first])
        several = max(1, BLOCK // max(1, count))

        def some(start: int, z: NDArray[Any] = z, first: int = first, several: int = several) -> None:
            end = min(start + several, len(z))
            at = slice(first + start, first + end)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                loss[at] = loss_to_slope(z[start:end], bias, label[at], g[at], smoothing)

        starts = range(0, len(z), several)
        run_parallel(some, starts, threads if len(starts) > SHARED else 1)
        np.matmul(z, table, out=of_x[part])
        if first:
            of_table += np.matmul(z.T, x[part])
        else:
            np.matmul(z.T, x[part], out=of_table)
        of_bias += z.sum(axis=0)
    return loss, of_x, of_table, of_bias


def loss_to_slope(
    z: NDArray[Any], bias: NDArray[Any] | None, label: NDArray[Any], g: NDArray[Any], smoothing: float
) -> NDArray[Any]:
    """The cross-entropy of logits z + bias; z := what flows to them, g (softmax - what the label says)."""
    count = z.shape[1]
    if bias is not None:
        z += bias
    own = label.astype(np.intp)
    there = (own >= 0) & (own < count)
    rows, own = np.arange(len(z)), np.where(there, own, 0)
    aim = np.where(there, z[rows, own], np.nan)
    if smoothing:
        aim = (1 - smoothing) * aim + smoothing * z.mean(axis=1)
    top = z.max(axis=1, keepdims=True)
    z -= top
    np.exp(z, out=z)
    total = z.sum(axis=1)
    z *= (g / total)[:, None]
    z[rows, own] -= np.where(there, (1 - smoothing) * g, 0)
    if smoothing:
        z -= (smoothing / count) * g[:, None]
    loss: NDArray[Any] = np.log(total) + (top[:, 0] - aim)
    return loss
