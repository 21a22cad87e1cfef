"""Run-time kernels of the NumPy backend for gradients: what flows back through activations, softmax and norms.

Copied into generated modules like kernels.py, under the same conventions: they work in place, block by block.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import (
    BoolArray,
    FloatArray,
    gelu_step_32,
    gelu_step_64,
    in_blocks,
    in_row_blocks,
    length_softmax,
    masked_softmax,
    mean_square,
    scratch,
    sigmoid_step,
    softmax,
)


def with_result(step: Callable[..., None], x: FloatArray, y: FloatArray | None) -> FloatArray:
    """x := f'(x), in place, by a step; y, if it is given, becomes f(x)."""
    return in_blocks(step, x) if y is None else in_row_blocks(step, x, y)


def gelu_slope(x: FloatArray, y: FloatArray | None = None) -> FloatArray:
    """x := Φ(x) + x φ(x), the derivative of x Φ(x); in place. y becomes x Φ(x)."""
    return with_result(gelu_slope_step, x, y)


def gelu_slope_step(x: FloatArray, y: FloatArray | None = None) -> None:
    """Φ(x) is gelu(x) / x, and 1/2 at 0."""
    share, bell = scratch("p", x.shape, x.dtype), scratch("q", x.shape, x.dtype)
    share[...] = x
    (gelu_step_64 if x.dtype == np.float64 else gelu_step_32)(share)
    if y is not None:
        y[...] = share
    with np.errstate(divide="ignore", invalid="ignore"):
        share /= x
    np.copyto(share, 0.5, where=x == 0)
    np.square(x, out=bell)
    bell *= -0.5
    np.exp(bell, out=bell)
    bell *= 1 / math.sqrt(2 * math.pi)
    x *= bell
    x += share


def gelu_tanh_slope(x: FloatArray, y: FloatArray | None = None) -> FloatArray:
    """x := p + 2 x p (1 - p) w', p = (1 + tanh w) / 2, w = √(2/π) (x + 0.044715 x³); in place. y becomes x p."""
    return with_result(gelu_tanh_slope_step, x, y)


def gelu_tanh_slope_step(x: FloatArray, y: FloatArray | None = None) -> None:
    """p = 1 / (1 + exp(-2w))."""
    share, u = scratch("p", x.shape, x.dtype), scratch("q", x.shape, x.dtype)
    np.square(x, out=u)
    np.multiply(u, -0.044715 * math.sqrt(8 / math.pi), out=share)
    share -= math.sqrt(8 / math.pi)
    share *= x
    np.exp(share, out=share)
    share += 1
    np.reciprocal(share, out=share)
    if y is not None:
        np.multiply(x, share, out=y)
    u *= 0.134145 * math.sqrt(8 / math.pi)
    u += math.sqrt(8 / math.pi)
    x *= u
    x *= share
    np.subtract(1, share, out=u)
    x *= u
    x += share


def silu_slope(x: FloatArray, y: FloatArray | None = None) -> FloatArray:
    """x := s (1 + x (1 - s)), s = 1 / (1 + exp(-x)); in place. y becomes x s."""
    return with_result(silu_slope_step, x, y)


def silu_slope_step(x: FloatArray, y: FloatArray | None = None) -> None:
    """The share s in a scratch block of its own."""
    share, u = scratch("p", x.shape, x.dtype), scratch("q", x.shape, x.dtype)
    share[...] = x
    sigmoid_step(share)
    if y is not None:
        np.multiply(x, share, out=y)
    np.subtract(1, share, out=u)
    x *= u
    x += 1
    x *= share


def softmax_slope(g: FloatArray, y: FloatArray, seen: BoolArray | None = None) -> FloatArray:
    """g[…, j] := y (g - sum[j](y g)); in place. An entry that is not seen loses nothing to the others."""

    def step(rows: FloatArray, shares: FloatArray) -> None:
        rows -= (rows[:, None, :] @ shares[:, :, None])[:, 0]
        rows *= shares

    if seen is None:
        return in_row_blocks(step, g, y)
    g -= np.where(seen, np.sum(g * y, axis=-1, keepdims=True), 0)
    g *= y
    return g


def seen_softmax(x: FloatArray, seen: BoolArray | None, see: BoolArray | None = None) -> FloatArray:
    """softmax over the last axis, of what may be seen along its length (None: all) and is related; in place."""
    if seen is not None:
        return length_softmax(x, seen, see)
    return softmax(x) if see is None else masked_softmax(x, np.broadcast_to(see, x.shape))


def layer_norm_slope(g: FloatArray, x: FloatArray, eps: float = 1e-5) -> FloatArray:
    """g[…, d] := (g - mean g - y mean(g y)) / σ, y = (x - μ) / σ, σ² = mean((x - μ)²) + ε; in place."""

    def step(rows: FloatArray, beside: FloatArray) -> None:
        ones = np.full((rows.shape[1], 1), 1 / rows.shape[1], rows.dtype)
        rows -= rows @ ones
        centred = beside - beside @ ones
        flow_back(rows, centred, eps)

    return in_row_blocks(step, g, x)


def rms_norm_slope(g: FloatArray, x: FloatArray, eps: float = 1e-6) -> FloatArray:
    """g[…, d] := (g - y mean(g y)) / σ, y = x / σ, σ² = mean(x²) + ε; in place."""
    return in_row_blocks(lambda rows, beside: flow_back(rows, np.array(beside), eps), g, x)


def flow_back(rows: FloatArray, centred: FloatArray, eps: float) -> None:
    """The end of both: rows that have lost their means, beside what the norm divides."""
    shrunk = 1 / np.sqrt(mean_square(centred) + eps)
    centred *= shrunk
    along = (rows[:, None, :] @ centred[:, :, None])[:, 0] / rows.dtype.type(rows.shape[1])
    centred *= along
    rows -= centred
    rows *= shrunk


def fresh(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A copy of x in the order of its dimensions, to be worked on in place."""
    return np.array(x, dtype, order="C")
