"""Run-time kernels of rowwise.py against their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from transformula.backends.numpy.rowwise import l2_normalize, leaky_relu, quick_gelu

Array = np.ndarray[Any, Any]
ROUNDING = {np.float64: 1e-15, np.float32: 1e-6, np.float16: 4e-3}
FORMULAS: dict[str, tuple[Callable[..., Array], Callable[[float], float]]] = {
    "quick_gelu": (quick_gelu, lambda v: v / (1 + math.exp(-1.702 * v))),
    "leaky_relu": (partial(leaky_relu, slope=0.01), lambda v: v if v > 0 else 0.01 * v),
    "steep": (partial(leaky_relu, slope=3.0), lambda v: v if v > 0 else 3 * v),
}


def fresh(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape) * 3


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", FORMULAS)
def test_pointwise(name: str, dtype: Any) -> None:
    function, formula = FORMULAS[name]
    x = fresh(7, 30).astype(dtype)
    bias = fresh(30).astype(dtype)
    exact = np.vectorize(formula)((x + bias).astype(float))
    assert function(x, bias=bias) is x
    np.testing.assert_allclose(x, exact, rtol=8 * ROUNDING[dtype], atol=8 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_out(dtype: Any) -> None:
    x = np.array([1e30, -1e30, np.inf, 0, np.nan], dtype)
    np.testing.assert_array_equal(quick_gelu(x.copy()), np.array([1e30, 0, np.inf, 0, np.nan], dtype))
    far = np.array([1e30, -5e29, np.inf, 0, np.nan], dtype)
    np.testing.assert_array_equal(leaky_relu(x.copy(), 0.5), far)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_unit_vectors(dtype: Any) -> None:
    """More rows than a block holds; a short row is divided by the bound; a row of zeros has no direction."""
    x = fresh(3000, 40).astype(dtype)
    x[5] *= dtype(1e-3)
    length = np.linalg.norm(x.astype(float), axis=-1, keepdims=True)
    for least in (0.0, 0.5):
        right = x / np.maximum(length, least)
        np.testing.assert_allclose(l2_normalize(x.copy(), least), right, rtol=8 * ROUNDING[dtype], atol=ROUNDING[dtype])
    zeros = np.zeros((2, 3), dtype)
    assert not l2_normalize(zeros.copy(), 0.5).any()
    assert np.isnan(l2_normalize(zeros)).all()
