"""The NumPy backend's kernels against plain float64 formulas."""

import contextlib
import json
import math
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from transformula.backends.numpy import kernels
from transformula.backends.numpy.kernels import (
    attention,
    erf,
    gelu,
    gelu_tanh,
    layer_norm,
    length_softmax,
    linear,
    log_softmax,
    masked_softmax,
    pack,
    read_npz,
    read_safetensors,
    relu,
    rms_norm,
    run_parallel,
    segment_first,
    segment_max,
    segment_mean,
    segment_softmax,
    segment_sum,
    sigmoid,
    silu,
    softmax,
    split_examples,
    tanh,
    unpack,
)

Array = NDArray[Any]
TYPES = [np.float16, np.float32, np.float64]
ROUNDING = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-13}

pytestmark = pytest.mark.filterwarnings("error")  # no kernel warns of an overflow or an empty row


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that ordinary test arrays need several."""
    monkeypatch.setattr(kernels, "BLOCK", 64)
    monkeypatch.setattr(kernels, "SCORES", 200)


def fresh(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def each(function: Callable[[float], float], x: Array) -> Array:
    """function of every entry, in float64."""
    return np.array([function(float(v)) for v in x.reshape(-1)], np.float64).reshape(x.shape)


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


# ---- pointwise ---------------------------------------------------------------------------------------------


def test_erf_in_float64() -> None:
    x = np.concatenate(
        [np.linspace(-7, 7, 20001), np.geomspace(1e-300, 1, 500), -np.geomspace(1e-12, 6, 500)]
    )
    np.testing.assert_allclose(erf(x), each(math.erf, x), rtol=2e-15, atol=0)


def test_erf_at_the_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e300, 5e-324])
    np.testing.assert_allclose(
        erf(x), [0, 0, 1, -1, np.nan, math.erf(1), -math.erf(1), 1, 5e-324], rtol=1e-15
    )
    assert np.signbit(erf(x)[1])
    assert erf(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_erf_of_narrow_types_is_rounded_once(dtype: Any) -> None:
    x = np.linspace(-5, 5, 2001).astype(dtype)
    assert erf(x).dtype == dtype
    np.testing.assert_array_equal(erf(x), each(math.erf, x).astype(dtype))


def test_far_tail_of_erfc_is_relatively_exact() -> None:
    x = np.linspace(1, 26, 3001)
    np.testing.assert_allclose(kernels.erfc_far(x), each(math.erfc, x), rtol=2e-13)


def test_gelu_in_float64() -> None:
    x = np.linspace(-37, 37, 20001)
    np.testing.assert_allclose(gelu(x.copy()), each(lambda v: v * phi(v), x), rtol=1e-12, atol=1e-15)


def test_gelu_in_float32() -> None:
    x = np.linspace(-10, 10, 100001).astype(np.float32)
    exact = each(lambda v: v * phi(v), x)
    error = np.abs(gelu(x.copy()) - exact)
    assert error.max() < 7e-7
    assert (error <= 2.5e-7 + np.spacing(np.abs(exact).astype(np.float32))).all()


@pytest.mark.parametrize("function", [gelu, gelu_tanh, silu, relu])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_far_out_are_the_identity_or_zero(function: Callable[..., Array], dtype: Any) -> None:
    x = np.array([1e3, -1e3, 1e12, -1e12, 1e30, -1e30, np.inf, 0, np.nan], dtype)
    y = function(x.copy())
    np.testing.assert_array_equal(y, np.array([1e3, 0, 1e12, 0, 1e30, 0, np.inf, 0, np.nan], dtype))


FORMULAS: dict[Callable[..., Array], Callable[[float], float]] = {
    gelu: lambda v: v * phi(v),
    gelu_tanh: lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    sigmoid: logistic,
    silu: lambda v: v * logistic(v),
    relu: lambda v: max(v, 0.0),
    tanh: math.tanh,
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", FORMULAS)
def test_pointwise_in_place(function: Callable[..., Array], dtype: Any) -> None:
    formula = FORMULAS[function]
    x = (3 * fresh(7, 30)).astype(dtype)
    exact = each(formula, x)
    assert function(x) is x
    np.testing.assert_allclose(x, exact, rtol=0, atol=4 * ROUNDING[dtype])
    one = np.array(0.5, dtype)
    np.testing.assert_allclose(function(one), formula(0.5), atol=ROUNDING[dtype])
    assert function(np.empty((0, 3), dtype)).shape == (0, 3)


@pytest.mark.parametrize("function", FORMULAS)
def test_pointwise_on_a_view_and_with_a_bias(function: Callable[..., Array]) -> None:
    base, bias = fresh(9, 40), fresh(20)
    exact = each(FORMULAS[function], base[:, ::2] + bias)
    other = base[:, 1::2].copy()
    view = base[:, ::2]
    assert function(view, bias) is view
    np.testing.assert_allclose(base[:, ::2], exact, atol=1e-14)
    np.testing.assert_array_equal(base[:, 1::2], other)
    np.testing.assert_allclose(
        function((exact * 0 + 0.5), -bias), each(FORMULAS[function], 0.5 - bias + 0 * exact)
    )


def test_sigmoid_never_overflows() -> None:
    np.testing.assert_array_equal(sigmoid(np.array([-1e4, 1e4, -np.inf, np.inf], np.float32)), [0, 1, 0, 1])


# ---- softmax and norms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_softmax(dtype: Any) -> None:
    x = (5 * fresh(3, 4, 17)).astype(dtype)
    e = np.exp(x.astype(np.float64))
    assert softmax(x) is x
    np.testing.assert_allclose(x, e / e.sum(-1, keepdims=True), atol=ROUNDING[dtype])


def test_softmax_is_stable() -> None:
    x = np.array([[1e4, 1e4, -1e4], [-1e4, -1e4, -1e4], [-np.inf, 0, -np.inf], [-np.inf] * 3], np.float32)
    np.testing.assert_allclose(
        softmax(x), np.array([[0.5, 0.5, 0], [1 / 3] * 3, [0, 1, 0], [0] * 3]), rtol=1e-6
    )
    assert softmax(np.empty((3, 0))).shape == (3, 0)
    assert softmax(np.empty((0, 3))).shape == (0, 3)
    assert np.isnan(softmax(np.array([1.0, np.nan]))).all()


def test_softmax_of_a_view() -> None:
    base = fresh(6, 10)
    e = np.exp(base[:, ::2])
    softmax(base[:, ::2])
    np.testing.assert_allclose(base[:, ::2], e / e.sum(-1, keepdims=True))


def test_masked_softmax() -> None:
    x, see = fresh(2, 3, 5), np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0]], bool)
    x[:, :, 4] = [[np.inf, np.nan, 1e9]] * 2  # hidden numbers cannot matter
    e = np.where(see, np.exp(np.where(see, x, 0)), 0)
    total = e.sum(-1, keepdims=True)
    got = masked_softmax(x, see)
    np.testing.assert_allclose(got, e / np.where(total == 0, 1, total))
    assert (got[:, 1] == 0).all()
    assert (got[:, ~see] == 0).all()


def test_hidden_entries_of_a_length_add_nothing_to_the_sum() -> None:
    """They have a share like any other; `see` decides what is 0. A hidden score of any size overflows nothing."""
    x, visible = fresh(2, 3, 5), np.array([1, 1, 0, 1, 1], bool)
    see = np.array([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 0]], bool)
    e = np.exp(x)
    np.testing.assert_allclose(length_softmax(x.copy(), visible), e / e[..., visible].sum(-1, keepdims=True))
    total = np.where(visible & see, e, 0).sum(-1, keepdims=True)
    np.testing.assert_allclose(length_softmax(x.copy(), visible, see), np.where(see, e / np.where(total, total, 1), 0))
    x[..., 2] = 1e30
    for dtype in (np.float32, np.float64):
        assert np.isfinite(length_softmax(x.astype(dtype), visible) * 1e15).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_log_softmax(dtype: Any) -> None:
    x = (5 * fresh(4, 17)).astype(dtype)
    wide = x.astype(np.float64)
    exact = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    np.testing.assert_allclose(log_softmax(x), exact, atol=10 * ROUNDING[dtype])
    np.testing.assert_allclose(log_softmax(np.array([1e4, 0.0])), [0, -1e4])
    np.testing.assert_array_equal(log_softmax(np.array([-np.inf, 0.0])), [-np.inf, 0])
    np.testing.assert_array_equal(log_softmax(np.array([-np.inf, -np.inf])), [-np.inf, -np.inf])


def norm(y: Array, eps: float) -> Array:
    y = y.astype(np.float64)
    centred = y - y.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 7), (5, 3, 40), (12,), (0, 4), (9, 1)])
def test_layer_norm(dtype: Any, shape: tuple[int, ...]) -> None:
    x = fresh(*shape).astype(dtype)
    gain, shift = fresh(shape[-1], seed=1, dtype=dtype), fresh(shape[-1], seed=2, dtype=dtype)
    plain, full = norm(x, 1e-5), norm(x, 1e-5) * gain + shift
    tolerance = 10 * ROUNDING[dtype]
    np.testing.assert_allclose(layer_norm(x.copy()), plain, atol=tolerance)
    assert layer_norm(x, gain, shift, 1e-5) is x
    np.testing.assert_allclose(x, full, atol=tolerance)


def test_layer_norm_with_bias_and_residual_on_a_view() -> None:
    base, bias, residual = fresh(9, 40), fresh(20, seed=1), fresh(9, 20, seed=2)
    exact = norm(base[:, ::2] + bias + residual, 1e-3)
    layer_norm(base[:, ::2], eps=1e-3, bias=bias, residual=residual)
    np.testing.assert_allclose(base[:, ::2], exact, atol=1e-13)


def test_layer_norm_with_a_large_mean() -> None:
    x = (fresh(8, 64) + 1000).astype(np.float32)
    np.testing.assert_allclose(layer_norm(x.copy()), norm(x, 1e-5), atol=5e-4)
    half = np.full((2, 64), 60000, np.float16)  # a sum in float16 would overflow
    half[:, ::2] = 59968
    np.testing.assert_allclose(layer_norm(half.copy()), norm(half, 1e-5), atol=2e-3)


@pytest.mark.parametrize("dtype", TYPES)
def test_rms_norm(dtype: Any) -> None:
    x, gain = fresh(5, 3, 40).astype(dtype), fresh(40, seed=1, dtype=dtype)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(rms_norm(x.copy()), exact, atol=10 * ROUNDING[dtype])
    np.testing.assert_allclose(rms_norm(x.copy(), gain), exact * gain, atol=10 * ROUNDING[dtype])
    both = wide + wide + 1
    exact = both / np.sqrt((both**2).mean(-1, keepdims=True) + 1e-6)
    got = rms_norm(x.copy(), bias=np.ones(40, dtype), residual=x)
    np.testing.assert_allclose(got, exact, atol=10 * ROUNDING[dtype])


def test_linear() -> None:
    x, weight, bias = fresh(5, 3), fresh(4, 3, seed=1).T, fresh(4, seed=2)
    out = np.empty((5, 4))
    assert linear(x, weight, bias, out) is out
    np.testing.assert_allclose(out, x @ weight + bias)
    np.testing.assert_allclose(linear(x, weight), x @ weight)
    assert linear(x[:0], weight, bias).shape == (0, 4)


# ---- attention ---------------------------------------------------------------------------------------------


def plain_attention(
    q: Array, k: Array, v: Array, scale: float, see: Array | None = None, bias: Array | None = None
) -> Array:
    """One example, one formula: q[seq, head, dk], k and v[key, head, dk], see and bias[head, seq, key]."""
    scores = scale * np.einsum("shd,khd->hsk", q, k) + (0 if bias is None else bias)
    allowed = np.ones(scores.shape, bool) if see is None else np.broadcast_to(see, scores.shape)
    top = np.max(np.where(allowed, scores, -np.inf), axis=-1, keepdims=True, initial=-1e300)
    weights = np.where(allowed, np.exp(np.where(allowed, scores - top, -np.inf)), 0)
    total = weights.sum(-1, keepdims=True)
    result: Array = np.einsum("hsk,khd->shd", weights / np.where(total == 0, 1, total), v)
    return result


def examples(lengths: list[int]) -> Iterator[slice]:
    start = 0
    for length in lengths:
        yield slice(start, start + length)
        start += length


def fused(lengths: list[int], heads: int = 3, dk: int = 4, dtype: Any = np.float64) -> Iterator[Array]:
    """Q, K and V as views into one buffer."""
    rows = sum(lengths)
    buffer = fresh(rows, 3 * heads * dk, dtype=dtype)
    return iter(buffer.reshape(rows, 3, heads, dk).transpose(1, 0, 2, 3))


LENGTHS = [[5, 5, 3], [1], [4, 0, 4, 4], [0, 0], [], [2, 7, 7, 1, 1, 1], [40, 2]]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [0.5, 300.0])  # the second needs the row's maximum
def test_attention(lengths: list[int], dtype: Any, scale: float) -> None:
    Q, K, V = fused(lengths, dtype=dtype)
    got = attention(Q, K, V, lengths, scale)
    assert got.flags.c_contiguous
    assert got.dtype == dtype
    for rows in examples(lengths):
        q, k, v = (x[rows].astype(np.float64) for x in (Q, K, V))
        exact = plain_attention(q, k, v, scale)
        np.testing.assert_allclose(got[rows], exact, atol=max(1, scale) * 10 * ROUNDING[dtype])


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_attention_with_relation_holes_and_bias(lengths: list[int], size: float) -> None:
    Q, K, V = fused(lengths)
    causal = np.tril(np.ones((64, 64), bool))
    hidden = np.random.default_rng(3).random(len(Q)) < 0.4
    bias = size * fresh(3, 64, 64, seed=4)
    out = np.full(Q.shape, np.nan)
    assert attention(Q, K, V, lengths, 0.5, causal, hidden, bias, out=out) is out
    called = attention(
        Q, K, V, lengths, 0.5, lambda n, m: causal[:n, :m], hidden, lambda n, m: bias[:, :n, :m]
    )
    np.testing.assert_array_equal(called, out)
    for rows, length in zip(examples(lengths), lengths, strict=True):
        see = causal[:length, :length] & ~hidden[rows]
        exact = plain_attention(Q[rows], K[rows], V[rows], 0.5, see, bias[:, :length, :length])
        np.testing.assert_allclose(out[rows], exact, atol=1e-12)
        assert (out[rows][~see.any(-1)] == 0).all()


def test_attention_ignores_what_is_hidden() -> None:
    Q, K, V = (fresh(6, 2, 4, seed=s) for s in range(3))
    hidden = np.array([0, 0, 1, 0, 1, 0], bool)
    clean = attention(Q, K, V, [6], hidden=hidden)
    K[hidden] = 1e5
    V[hidden] = -1e5
    np.testing.assert_allclose(attention(Q, K, V, [6], hidden=hidden), clean, rtol=1e-12)


def test_attention_with_a_bias_of_minus_infinity() -> None:
    Q, K, V = (fresh(4, 1, 2, seed=s) for s in range(3))
    bias = np.zeros((1, 4, 4))
    bias[:, :, 2:] = -np.inf
    bias[:, 1] = -np.inf
    see = np.isfinite(bias[0])
    np.testing.assert_allclose(attention(Q, K, V, [4], bias=bias), plain_attention(Q, K, V, 1.0, see))


def test_attention_passes_nan_on_within_its_example() -> None:
    Q, K, V = (fresh(7, 1, 2, seed=s) for s in range(3))
    clean = attention(Q, K, V, [3, 4])
    K[1] = np.nan
    got = attention(Q, K, V, [3, 4])
    assert np.isnan(got[:3]).all()
    np.testing.assert_allclose(got[3:], clean[3:])


def test_grouped_queries_are_repeated_keys() -> None:
    lengths = [5, 5, 9]
    Q, K, V = fresh(19, 2, 3, 4), fresh(19, 2, 4, seed=1), fresh(19, 2, 5, seed=2)
    got = attention(Q, K, V, lengths, 0.5, np.tril(np.ones((9, 9), bool)))
    assert got.shape == (19, 2, 3, 5)
    many = attention(
        Q.reshape(19, 6, 4), K.repeat(3, 1), V.repeat(3, 1), lengths, 0.5, np.tril(np.ones((9, 9), bool))
    )
    np.testing.assert_allclose(got.reshape(19, 6, 5), many, atol=1e-14)


def test_attention_to_other_rows() -> None:
    lengths, keys = [2, 3, 1, 0], [4, 4, 0, 2]
    Q, K, V = fresh(6, 3, 4), fresh(10, 3, 4, seed=1), fresh(10, 3, 4, seed=2)
    got = attention(Q, K, V, lengths, 0.5, key_lengths=keys, out=np.full((6, 3, 4), np.nan))
    for q, k in zip(examples(lengths), examples(keys), strict=True):
        np.testing.assert_allclose(got[q], plain_attention(Q[q], K[k], V[k], 0.5), atol=1e-14)
    assert (got[5] == 0).all()


@given(st.lists(st.integers(0, 6), max_size=12), st.booleans())
def test_an_example_is_the_same_in_any_company(lengths: list[int], causal: bool) -> None:
    Q, K, V = fused(lengths, heads=2, dtype=np.float32)
    see = np.tril(np.ones((6, 6), bool)) if causal else None
    whole = attention(Q, K, V, lengths, 0.5, see)
    for rows, length in zip(examples(lengths), lengths, strict=True):
        alone = attention(Q[rows], K[rows], V[rows], [length], 0.5, see)
        np.testing.assert_allclose(whole[rows], alone, atol=1e-6)


# ---- pooling and packing -----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=8), st.booleans(), st.sampled_from([(), (3,), (2, 2)]))
def test_segments(lengths: list[int], holes: bool, rest: tuple[int, ...]) -> None:
    x = fresh(sum(lengths), *rest)
    visible = np.random.default_rng(1).random(len(x)) < 0.6 if holes else None
    weights = segment_softmax(x, lengths, visible)
    found = [function(x, lengths, visible) for function in (segment_sum, segment_max, segment_mean)]
    for number, rows in enumerate(examples(lengths)):
        part = x[rows] if visible is None else x[rows][visible[rows]]
        zero = np.zeros(rest)
        wanted = [part.sum(0), part.max(0), part.mean(0)] if len(part) else [zero] * 3
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got[number], want, atol=1e-14)
        e = np.exp(x[rows])
        total = (e if visible is None else e[visible[rows]]).sum(0)
        np.testing.assert_allclose(weights[rows], e / np.where(total == 0, 1, total), rtol=1e-13)
        np.testing.assert_array_equal(
            segment_first(x, lengths)[number], x[rows][0] if lengths[number] else zero
        )


def test_segments_of_half_precision_are_summed_in_single() -> None:
    x = np.ones((5000, 1), np.float16)
    assert segment_sum(x, [5000]).dtype == np.float16
    assert segment_sum(x, [5000])[0, 0] == 5000


def test_segment_softmax_is_stable() -> None:
    np.testing.assert_allclose(segment_softmax(np.array([1e4, 1e4, 5.0]), [2, 1]), [0.5, 0.5, 1])


def test_pack() -> None:
    mask = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]])
    where, lengths, hidden, positions = pack(mask)
    np.testing.assert_array_equal(where, [0, 1, 6, 7, 9, 10, 11, 16, 17, 18, 19])
    np.testing.assert_array_equal(lengths, [2, 2, 3, 0, 4])
    np.testing.assert_array_equal(positions, [0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 3])
    np.testing.assert_array_equal(hidden, np.arange(11) == 5)
    assert pack(mask[:2])[2] is None


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 3)])
def test_pack_of_nothing(shape: tuple[int, int]) -> None:
    where, lengths, hidden, positions = pack(np.zeros(shape, bool))
    assert (len(where), len(positions), hidden) == (0, 0, None)
    np.testing.assert_array_equal(lengths, np.zeros(shape[0]))


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6))
def test_unpack_undoes_pack(mask: list[list[bool]]) -> None:
    see = np.array(mask)
    where, lengths, hidden, _ = pack(see)
    x = fresh(*see.shape, 2)
    rows = x.reshape(-1, 2)[where]
    back = unpack(rows, where, see.shape)
    np.testing.assert_array_equal(back[see], x[see])
    inside = unpack(np.ones(len(where), bool), where, see.shape)
    assert (back[~inside] == 0).all()
    assert see.sum() == lengths.sum() - (0 if hidden is None else hidden.sum())


# ---- threads -----------------------------------------------------------------------------------------------


def test_run_parallel_keeps_order_and_restores_blas() -> None:
    found = kernels.blas_threads()
    before = found[1]() if found else None
    during: list[int] = []

    def work(part: int) -> int:
        if found:
            during.append(found[1]())
        return part * part

    assert run_parallel(work, range(20), 3) == [n * n for n in range(20)]
    assert run_parallel(work, range(3), 1) == [0, 1, 4]
    assert set(during) <= {1}
    assert run_parallel(work, []) == []
    assert run_parallel(lambda part: part, [7], 4) == [7]
    if found:
        assert found[1]() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_run_parallel_passes_errors_on(threads: int) -> None:
    found = kernels.blas_threads()
    before = found[1]() if found else None
    with pytest.raises(ZeroDivisionError):
        run_parallel(lambda part: 1 // part, [1, 0, 2], threads)
    if found:
        assert found[1]() == before


def test_run_parallel_within_run_parallel_and_from_threads() -> None:
    found = kernels.blas_threads()
    before = found[1]() if found else None
    results: list[list[int]] = []

    def outer() -> None:
        results.append(run_parallel(lambda n: sum(run_parallel(lambda m: m, range(n), 2)), range(5), 2))

    users = [threading.Thread(target=outer) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert results == [[0, 0, 1, 3, 6]] * 4
    if found:
        assert found[1]() == before


def test_run_parallel_without_a_known_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "BLAS_FOUND", [None])
    threads = set(run_parallel(lambda part: threading.get_ident(), range(5), 4))
    assert threads == {threading.get_ident()}


def test_scratch_belongs_to_its_thread() -> None:
    mine = kernels.scratch("a", (3, 4), np.float32)
    assert np.shares_memory(mine, kernels.scratch("a", (2, 2), np.float32))
    assert not np.shares_memory(mine, kernels.scratch("b", (2, 2), np.float32))
    other: list[Array] = []
    thread = threading.Thread(target=lambda: other.append(kernels.scratch("a", (3, 4), np.float32)))
    thread.start()
    thread.join()
    assert not np.shares_memory(mine, other[0])


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 4), st.integers(1, 200))
def test_split_examples(lengths: list[int], threads: int, rows: int) -> None:
    parts = split_examples(lengths, threads, rows)
    order = [int(i) for part in parts for i in part]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    assert all(sum(lengths[i] for i in part) <= rows + 2 * max(lengths) for part in parts)


# ---- checkpoints -------------------------------------------------------------------------------------------


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: Any, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_read_safetensors(tmp_path: Path) -> None:
    wanted = {
        "a": fresh(2, 3, dtype=np.float32),
        "b": np.array(7, np.int64),
        "c": np.zeros((0, 4), np.float16),
        "d": np.array([True, False, True]),
        "e": fresh(5),  # not aligned
        "f": np.arange(4, dtype=np.uint8),
    }
    codes = {"a": "F32", "b": "I64", "c": "F16", "d": "BOOL", "e": "F64", "f": "U8"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in wanted.items():
        header[name] = entry(codes[name], list(array.shape), len(data), len(data) + array.nbytes)
        data += array.tobytes()
    got = read_safetensors(write(tmp_path / "x.safetensors", header, data))
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)
        assert got[name].dtype == array.dtype
        assert got[name].flags.aligned
    with pytest.raises(ValueError, match="read-only"):
        got["a"][0, 0] = 1


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    x = np.array([1.0, -2.5, 3e38, 1e-40, np.inf, 0], np.float32)
    short = (x.view(np.uint32) >> 16).astype("<u2")
    got = read_safetensors(write(tmp_path / "x", {"t": entry("BF16", [6], 0, 12)}, short.tobytes()))["t"]
    np.testing.assert_array_equal(got, (short.astype(np.uint32) << 16).view(np.float32))
    assert got.dtype == np.float32


HOSTILE: dict[str, tuple[Any, bytes, int | None, str]] = {
    "header beyond the file": ({}, b"", 1 << 62, "header of"),
    "header not JSON": (b"{", b"", None, "no JSON object"),
    "header not text": (b"\xff\xfe", b"", None, "no JSON object"),
    "header a list": ([], b"", None, "no JSON object"),
    "header too deep": (b"[" * 100_000, b"", None, "no JSON object"),
    "a name twice": (b'{"t": {}, "t": {}}', b"", None, "twice"),
    "entry a number": ({"t": 3}, b"", None, "tensor 't': needs"),
    "entry without shape": ({"t": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234", None, "needs"),
    "unknown dtype": ({"t": entry("F8_E4M3", [1], 0, 1)}, b"1", None, "dtype 'F8_E4M3'"),
    "dtype a list": ({"t": entry([], [1], 0, 1)}, b"1", None, "dtype"),
    "negative size": ({"t": entry("F32", [-1, -1], 0, 4)}, b"1234", None, "not sizes"),
    "size a fraction": ({"t": entry("F32", [1.0], 0, 4)}, b"1234", None, "not sizes"),
    "size a truth": ({"t": entry("F32", [True], 0, 4)}, b"1234", None, "not sizes"),
    "size huge": ({"t": entry("F32", [1 << 70], 0, 4)}, b"1234", None, "not sizes"),
    "product huge": ({"t": entry("F32", [1 << 40, 1 << 40], 0, 4)}, b"1234", None, "does not fill"),
    "too many axes": ({"t": entry("U8", [1] * 100, 0, 1)}, b"1", None, "axes"),
    "three offsets": ({"t": {**entry("U8", [1], 0, 1), "data_offsets": [0, 1, 1]}}, b"1", None, "offsets"),
    "backwards": ({"t": entry("U8", [1], 1, 0)}, b"1", None, "does not fill"),
    "span too short": ({"t": entry("F32", [2], 0, 4)}, b"1234", None, "does not fill"),
    "beyond the data": ({"t": entry("F32", [2], 0, 8)}, b"1234", None, "cover 8"),
    "data left over": ({"t": entry("U8", [1], 0, 1)}, b"12", None, "cover 1"),
    "overlap": ({"t": entry("U8", [2], 0, 2), "u": entry("U8", [2], 1, 3)}, b"123", None, "'u' begins at 1"),
    "gap": ({"t": entry("U8", [1], 0, 1), "u": entry("U8", [1], 2, 3)}, b"123", None, "'u' begins at 2"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_safetensors_are_refused_by_name(case: str, tmp_path: Path) -> None:
    header, data, length, message = HOSTILE[case]
    path = write(tmp_path / "hostile.safetensors", header, data, length)
    with pytest.raises(ValueError, match=message) as raised:
        read_safetensors(path)
    assert "hostile.safetensors" in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"1234567"])
def test_a_safetensors_file_that_is_too_short(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(content)
    with pytest.raises(ValueError, match="no safetensors file"):
        read_safetensors(tmp_path / "short")


@given(st.binary(max_size=80), st.integers(0, 80))
def test_damaged_bytes_give_an_array_or_a_value_error(junk: bytes, place: int) -> None:
    text = b'{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    sound = len(text).to_bytes(8, "little") + text + b"1234"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        path.write_bytes(sound[:place] + junk + sound[place + len(junk) :])
        with contextlib.suppress(ValueError):
            assert all(array.nbytes <= len(sound) + len(junk) for array in read_safetensors(path).values())


def test_read_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=fresh(2, 2))
    got = read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(got["x"], np.arange(3))
    np.testing.assert_array_equal(got["y"], fresh(2, 2))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"junk", b"\x93NUMPY"])
def test_what_is_no_npz_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "junk.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"junk\.npz"):
        read_npz(tmp_path / "junk.npz")


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", x=np.array([{}], object))
    with pytest.raises(ValueError, match=r"bad\.npz"):
        read_npz(tmp_path / "bad.npz")
    np.save(tmp_path / "one.npy", np.arange(3))
    with pytest.raises(ValueError, match="not an archive"):
        read_npz(tmp_path / "one.npy")
