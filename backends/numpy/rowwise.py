"""More run-time kernels, row by row and entry by entry: unit vectors, log Σ e^x, and two activations.

Copied into generated modules like kernels.py, under the same conventions.
"""

import math

import numpy as np

from .kernels import BLOCK, BoolArray, FloatArray, in_blocks, in_row_blocks, mean_square, scratch, statistics_type


def quick_gelu(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := y / (1 + exp(-1.702 y)) where y = x + bias; in place."""
    return in_blocks(quick_gelu_step, x, bias)


def quick_gelu_step(x: FloatArray) -> None:
    """x / (1 + exp(-1.702 x)) in a scratch block."""
    u = scratch("u", x.shape, x.dtype)
    np.multiply(x, -1.702, out=u)
    np.exp(u, out=u)
    u += 1
    x /= u


def leaky_relu(x: FloatArray, slope: float, bias: FloatArray | None = None) -> FloatArray:
    """x := y if y > 0 else slope * y, where y = x + bias; in place."""

    def step(block: FloatArray) -> None:
        np.multiply(block, slope, out=block, where=block < 0)

    return in_blocks(step, x, bias)


def l2_normalize(x: FloatArray, least: float = 0.0) -> FloatArray:
    """x[…, d] := x / max(‖x‖[d], least); in place."""

    def step(rows: FloatArray) -> None:
        length = np.sqrt(mean_square(rows) * rows.dtype.type(rows.shape[1]))
        with np.errstate(divide="ignore", invalid="ignore"):
            rows /= np.maximum(length, length.dtype.type(least))

    return in_row_blocks(step, x)


def log_sum_exp(x: FloatArray, see: BoolArray | None = None, less: FloatArray | None = None) -> FloatArray:
    """y[…] = log(sum[j if see](exp(x))) - less over the last axis, -∞ where nothing is seen.

    Shifted by each row's maximum, so nothing overflows and a small difference keeps its digits; exponentials exist for
    one block of rows at a time.
    """
    width, kind = x.shape[-1], statistics_type(x)
    rows = x.reshape(math.prod(x.shape[:-1]), width)
    seen = None if see is None else np.broadcast_to(see, x.shape).reshape(rows.shape)
    total = np.zeros((len(rows), 1), kind)
    if less is not None:
        total -= less.reshape(-1, 1)
    several = max(1, BLOCK // max(1, width))
    for start in range(0, len(rows), several):
        block = slice(start, start + several)
        e = scratch("e", rows[block].shape, kind)
        e[...] = rows[block]
        if seen is not None:
            e[~seen[block]] = -np.inf
        log_sum_exp_step(e, total[block])
    return total.astype(x.dtype, copy=False).reshape(x.shape[:-1])


def log_sum_exp_step(rows: FloatArray, total: FloatArray) -> None:
    """total += log(sum[j](exp(rows))) for one block of rows, which is overwritten."""
    top = rows.max(axis=-1, keepdims=True, initial=-np.inf)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        np.exp(np.subtract(rows, top, out=rows), out=rows)
        total += top
        total += np.log(rows.sum(axis=-1, keepdims=True))
