"""Run-time kernels of the NumPy backend.

A generated module imports only numpy and the standard library: the emitter copies into it, function by
function, the kernels that it needs and whatever names those mention. So everything here is a small top-level
function, an UPPER_CASE constant or a type alias, and needs nothing but the imports below.

Conventions. `x[row, d]` names the axes of an array. Elementwise kernels and norms work **in place** on
floating arrays and return their argument; products and attention return a new array unless `out` is given.
*Packed rows* are the tokens of all examples one after the other, example i being a run of `lengths[i]` rows.
"""

import ctypes
import json
import math
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]
Lengths = Sequence[int] | IntArray
Relation = BoolArray | Callable[[int, int], BoolArray]  # see[seq, key], or what gives it for both lengths
Bias = FloatArray | Callable[[int, int], FloatArray]  # bias[head, seq, key], likewise
Part = TypeVar("Part")
Result = TypeVar("Result")

# ---- buffers and blocks ------------------------------------------------------------------------------------

# Entries per step of pointwise work: with fewer the calls cost more than the work, with more a block and its
# two scratch blocks leave a core's own cache.
BLOCK = 1 << 16
SCRATCH = threading.local()  # each thread's buffers, kept from call to call


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A buffer of this thread, uninitialised, the same memory at every call of the same name and dtype."""
    size = math.prod(shape)
    key = f"{name} {np.dtype(dtype).char}"
    buffers: dict[str, NDArray[Any]] = SCRATCH.__dict__
    if key not in buffers or buffers[key].size < size:
        buffers[key] = np.empty(size, dtype)
    return buffers[key][:size].reshape(shape)


def statistics_type(x: NDArray[Any]) -> type[np.float64] | type[np.float32]:
    """float64 for float64, float32 for float32 and for float16: half precision is never summed in."""
    return np.float64 if x.dtype == np.float64 else np.float32


def cut_ready(x: FloatArray) -> bool:
    """Whether x can be worked on in place, as float32 or float64 blocks of its own memory."""
    return x.flags.c_contiguous and x.dtype in (np.float32, np.float64)


def in_blocks(step: Callable[[FloatArray], Any], x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := step(x + bias) entry by entry; `step` overwrites a flat float32 or float64 block."""
    if not cut_ready(x):
        x[...] = in_blocks(step, x.astype(statistics_type(x), order="C"), bias)
        return x
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if bias is not None:
            return in_row_blocks(lambda rows: step(np.add(rows, bias, out=rows).reshape(-1)), x)
        flat = x.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            step(flat[start : start + BLOCK])
    return x


def in_row_blocks(step: Callable[..., Any], x: FloatArray, beside: FloatArray | None = None) -> FloatArray:
    """x := step(x) row by row (last axis); `step` overwrites a float32 or float64 block[row, d].

    With `beside`, an array like x, the step gets its rows as well.
    """
    if x.size == 0:
        return x
    if not cut_ready(x):
        x[...] = in_row_blocks(step, x.astype(statistics_type(x), order="C"), beside)
        return x
    rows = x.reshape(-1, x.shape[-1])
    others = None if beside is None else beside.reshape(rows.shape)
    several = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(rows), several):
        block = slice(start, start + several)
        if others is None:
            step(rows[block])
        else:
            step(rows[block], others[block])
    return x


def horner(x: FloatArray, coefficients: Sequence[float]) -> FloatArray:
    """c0 + c1 x + c2 x² + …"""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total


# ---- pointwise functions -----------------------------------------------------------------------------------

# Chebyshev interpolation in 50-digit arithmetic, turned into powers; the first term left out is below 1e-17.
# erf(x) / x in z = 2x² - 1 for x in [0, 1]:
ERF_NEAR = (
    0.9654687386698673, -0.1405360890227171, 0.019852496688983708, -0.0022854855611440673,
    0.00021751715604160108, -1.7537169441492004e-05, 1.2233827383524026e-06, -7.511569160710623e-08,
    4.115800597661665e-09, -2.03524938661036e-10, 9.167606748998164e-12, -3.7910973708931526e-13,
    1.4548169783352384e-14, -5.16472878942302e-16,
)  # fmt: skip
# (1 + 2x) exp(x²) erfc(x) in z = (x - 5) / (x + 3) for x in [1, ∞):
ERFC_FAR = (
    1.217751015063755, -0.10601129557561728, 0.008036606418313823, 0.019435097941324093,
    -0.01720384051822676, 0.008834602508995426, -0.0030422185758690544, 0.0006022571917870702,
    1.4613632033877155e-05, -4.873084708077806e-05, 9.950054865337315e-06, 2.3581750049965716e-06,
    -1.3083033294486578e-06, -6.772872557721139e-08, 1.4471739356248912e-07, -3.0742226628195957e-09,
    -1.638150730545557e-08, 7.993090453855972e-10, 1.8126422217791725e-09, -8.041611981126636e-11,
    -1.3860436540708324e-10, 3.6875617734863664e-12,
)  # fmt: skip
# log(Φ(x) / Φ(-x)) = x * (a + s * (b + c / ((s + d) * s + e))) with s = x² + f: a rational minimax fit
# (Lawson's weighted least squares), weighted by what an error does to x Φ(x), which is right to 1.2e-7.
PHI_LOGIT = (
    1.4323021022788873, 0.03450936130252988, -9.228402744124393, -37.42309647765914, 524.4697926890256,
    30.627808991703123,
)  # fmt: skip


def erfc_far(x: FloatArray) -> FloatArray:
    """erfc(x) = 1 - erf(x) for float64 x ≥ 1, to full relative precision."""
    x = np.minimum(x, 40.0)
    return np.exp(-x * x) / (1 + 2 * x) * horner((x - 5) / (x + 3), ERFC_FAR)


def erf_near(x: FloatArray) -> FloatArray:
    """erf(x) for float64 |x| ≤ 1."""
    return x * horner(2 * x * x - 1, ERF_NEAR)


def erf(x: FloatArray) -> FloatArray:
    """erf(x) = 2/√π ∫₀ˣ exp(-t²) dt, a new array, exact to about 1e-15 in float64 and to rounding below."""
    wide = np.asarray(x, np.float64)
    size = np.abs(wide)
    far = np.copysign(1 - erfc_far(np.maximum(size, 1.0)), wide)
    exact = np.where(size < 1, erf_near(np.clip(wide, -1, 1)), far)
    kind = np.asarray(x).dtype
    return np.asarray(exact, kind if kind.kind == "f" else float)


def gelu(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := y Φ(y) where y = x + bias, Φ(y) = (1 + erf(y / √2)) / 2; in place.

    Hendrycks and Gimpel 2016, the exact form. float64 to 1e-14; float32 to 2e-7 and rounding of the result
    (largest absolute error 6e-7, near y = 4.3).
    """
    return in_blocks(gelu_step_64 if x.dtype == np.float64 else gelu_step_32, x, bias)


def gelu_step_32(x: FloatArray) -> None:
    """x := x / (1 + exp(-u)) where u = log(Φ(x) / Φ(-x)), see PHI_LOGIT; no overflow becomes NaN."""
    a, b, c, d, e, f = PHI_LOGIT
    s, u = scratch("s", x.shape, x.dtype), scratch("u", x.shape, x.dtype)
    np.square(x, out=s)
    s += f
    np.add(s, d, out=u)
    u *= s
    u += e
    np.divide(-c, u, out=u)
    u -= b
    u *= s
    u -= a
    u *= x
    np.exp(u, out=u)
    u += 1
    x /= u


def gelu_step_64(x: FloatArray) -> None:
    """x := x Φ(x) with both tails to full relative precision: Φ(-x) = erfc(x / √2) / 2."""
    size = np.abs(x) * math.sqrt(0.5)
    tail = 0.5 * erfc_far(np.maximum(size, 1.0))
    far = np.where(x > 0, 1 - tail, tail)
    x *= np.where(size < 1, 0.5 + 0.5 * erf_near(np.clip(x * math.sqrt(0.5), -1, 1)), far)


def gelu_tanh(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := y (1 + tanh(√(2/π) (y + 0.044715 y³))) / 2 where y = x + bias; in place. GPT-2's approximation."""
    return in_blocks(gelu_tanh_step, x, bias)


def gelu_tanh_step(x: FloatArray) -> None:
    """(1 + tanh(w)) / 2 = 1 / (1 + exp(-2w))."""
    u = scratch("u", x.shape, x.dtype)
    np.square(x, out=u)
    u *= -0.044715 * math.sqrt(8 / math.pi)
    u -= math.sqrt(8 / math.pi)
    u *= x
    np.exp(u, out=u)
    u += 1
    x /= u


def sigmoid(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := 1 / (1 + exp(-y)) where y = x + bias; in place."""
    return in_blocks(sigmoid_step, x, bias)


def sigmoid_step(x: FloatArray) -> None:
    """exp(-x) may become ∞, whose inverse is the right 0."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def silu(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := y / (1 + exp(-y)) where y = x + bias; in place. Elfwing, Uchibe and Doya 2017."""
    return in_blocks(silu_step, x, bias)


def silu_step(x: FloatArray) -> None:
    """x / (1 + exp(-x)) in a scratch block."""
    u = scratch("u", x.shape, x.dtype)
    np.negative(x, out=u)
    np.exp(u, out=u)
    u += 1
    x /= u


def relu(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := max(y, 0) where y = x + bias; in place."""
    return in_blocks(lambda block: np.maximum(block, 0, out=block), x, bias)


def tanh(x: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """x := tanh(y) where y = x + bias; in place."""
    return in_blocks(lambda block: np.tanh(block, out=block), x, bias)


# ---- softmax and norms over the last axis ------------------------------------------------------------------


def softmax(x: FloatArray) -> FloatArray:
    """x[…, j] := exp(x) / sum[j](exp(x)); in place, shifted by the row's maximum: no overflow."""
    return in_row_blocks(softmax_step, x)


def softmax_step(x: FloatArray) -> None:
    """A row whose maximum is -∞ has no visible entry and becomes 0."""
    top = x.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore"):
        x -= top
        np.exp(x, out=x)
    total = x.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    x /= total


def masked_softmax(x: FloatArray, see: BoolArray) -> FloatArray:
    """x[…, j] := exp(x) / sum[j if see](exp(x)), 0 where not see, rows that see nothing 0; in place."""
    np.copyto(x, -np.inf, where=~np.asarray(see, np.bool_))
    return softmax(x)


def largest_exponent(x: FloatArray) -> float:
    """Where exponents of hidden entries, which no maximum bounds, are cut off: their products overflow nowhere."""
    return 300.0 if x.dtype == np.float64 else 40.0


def length_softmax(x: FloatArray, visible: BoolArray, see: BoolArray | None = None) -> FloatArray:
    """x[…, j] := exp(x) / sum[j if visible and see](exp(x)), 0 where not see; in place.

    An entry along a length that nobody may see adds nothing to the sum, but has a share like any other.
    """
    counted = np.broadcast_to(visible if see is None else visible & see, x.shape)
    top = x.max(axis=-1, keepdims=True, where=counted, initial=-np.inf)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore"):
        x -= top
        np.minimum(x, largest_exponent(x), out=x)
        np.exp(x, out=x)
    total = x.sum(axis=-1, keepdims=True, where=counted)
    total[total == 0] = 1
    x /= total
    if see is not None:
        np.copyto(x, 0, where=~np.broadcast_to(see, x.shape))
    return x


def length_log_softmax(x: FloatArray, visible: BoolArray) -> FloatArray:
    """x[…, j] := x - log(sum[j if visible](exp(x))); in place."""
    counted = np.broadcast_to(visible, x.shape)
    top = x.max(axis=-1, keepdims=True, where=counted, initial=-np.inf)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        x -= top
        total = np.log(np.exp(np.minimum(x, 0)).sum(axis=-1, keepdims=True, where=counted))
    total[np.isneginf(total)] = 0
    x -= total
    return x


def log_softmax(x: FloatArray) -> FloatArray:
    """x[…, j] := x - log(sum[j](exp(x))); in place."""
    return in_row_blocks(log_softmax_step, x)


def log_softmax_step(x: FloatArray) -> None:
    """log-sum-exp of the row shifted by its maximum; a row of nothing but -∞ stays so."""
    top = x.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        x -= top
        total = np.log(np.exp(x).sum(axis=-1, keepdims=True))
    total[np.isneginf(total)] = 0
    x -= total


def layer_norm(
    x: FloatArray,
    gain: FloatArray | None = None,
    shift: FloatArray | None = None,
    eps: float = 1e-5,
    bias: FloatArray | None = None,
    residual: FloatArray | None = None,
) -> FloatArray:
    """x[…, d] := gain ⊙ (y - μ) / √(mean[d]((y - μ)²) + ε) + shift; in place.

    μ = mean[d](y), y = x + bias + residual. Ba, Kiros and Hinton 2016. The variance is taken of the centred
    row, so a large mean costs no digits. `bias` and `residual` are added while the block is in the cache: the
    end of a product and of a residual block in one pass.
    """

    def step(rows: FloatArray, beside: FloatArray | None = None) -> None:
        if bias is not None:
            rows += bias
        if beside is not None:
            rows += beside
        layer_norm_step(rows, gain, shift, eps)

    return in_row_blocks(step, x, residual)


def layer_norm_step(rows: FloatArray, gain: FloatArray | None, shift: FloatArray | None, eps: float) -> None:
    """The norm of one block of rows, in place. The mean is a product with ones, which BLAS does fastest."""
    d = rows.shape[1]
    rows -= rows @ np.full((d, 1), 1 / d, rows.dtype)
    rows *= 1 / np.sqrt(mean_square(rows) + eps)
    if gain is not None:
        rows *= gain
    if shift is not None:
        rows += shift


def mean_square(rows: FloatArray) -> FloatArray:
    """m[row, 1] = mean[d](rows²), each row a product with itself."""
    return (rows[:, None, :] @ rows[:, :, None])[:, 0] / rows.dtype.type(rows.shape[1])


def rms_norm(
    x: FloatArray,
    gain: FloatArray | None = None,
    eps: float = 1e-6,
    bias: FloatArray | None = None,
    residual: FloatArray | None = None,
) -> FloatArray:
    """x[…, d] := gain ⊙ y / √(mean[d](y²) + ε), y = x + bias + residual; in place. Zhang, Sennrich 2019."""

    def step(rows: FloatArray, beside: FloatArray | None = None) -> None:
        if bias is not None:
            rows += bias
        if beside is not None:
            rows += beside
        rows *= 1 / np.sqrt(mean_square(rows) + eps)
        if gain is not None:
            rows *= gain

    return in_row_blocks(step, x, residual)


# ---- products ----------------------------------------------------------------------------------------------


def linear(
    x: FloatArray, weight: FloatArray, bias: FloatArray | None = None, out: FloatArray | None = None
) -> FloatArray:
    """y[row, out] = x[row, in] @ weight[in, out] + bias[out].

    Checkpoints store [out, in]. Its transposed view gives the same speed from some 500 rows on; below,
    OpenBLAS is up to 1.4 times faster with a contiguous [in, out] (18 to 250 rows), so weights are turned
    once, at loading.
    """
    y = np.matmul(x, weight, out=out)
    if bias is not None:
        y += bias
    return y


# ---- attention on packed rows ------------------------------------------------------------------------------

SCORES = 1 << 18  # scores held at a time: about a core's own cache
CALM = 40.0  # |score| up to which exp needs no shift: exp(±40) and sums of it are far from float32's limits
# (row of the first query, examples, queries, the first one's place, length, row of the first key, keys)
Task = tuple[int, int, int, int, int, int, int]


def attention(
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    lengths: Lengths,
    scale: float = 1.0,
    see: Relation | None = None,
    hidden: BoolArray | None = None,
    bias: Bias | None = None,
    key_lengths: Lengths | None = None,
    out: FloatArray | None = None,
) -> FloatArray:
    """A @[key] V, A = softmax[key if see and not hidden](scale * (Q @[dk] K) + bias), each example by itself.

    Vaswani et al. 2017. Q, K and V[row, head, dk] are packed rows, possibly views into one [row, 3 head dk]
    buffer; grouped queries are Q[row, kv, group, dk] with K and V[row, kv, dk]. `see[seq, key]` is cut to
    each example's lengths, `hidden[row]` marks keys that nobody may see, `bias[head, seq, key]` is added; a
    query that sees nothing gives 0. The result has Q's leading axes and is contiguous, ready to be read as
    [row, head dk].

    Neighbours of equal length are one batched product, so examples sorted by length go fastest. BLAS reads
    the strided heads in place: copying them into [head, seq, dk] first costs more than it saves. Scores that
    exp can take as they are need no row maximum, which costs more than exp itself on short rows; the sums are
    one product with ones, and divide the result, not the scores.
    """
    result: FloatArray = np.empty(Q.shape[:-1] + V.shape[-1:], Q.dtype) if out is None else out
    if Q.dtype == np.float16:
        q, k, v = Q.astype(np.float32), K.astype(np.float32), V.astype(np.float32)
        result[...] = attention(q, k, v, lengths, scale, see, hidden, bias, key_lengths)
        return result
    queries = Q if Q.ndim == 4 else Q[:, :, None]
    heads = result.reshape(queries.shape[:-1] + V.shape[-1:])
    sums = scratch("sums", (*queries.shape[:-1], 1), Q.dtype)
    if key_lengths is not None:  # there may be examples without a key
        heads.fill(0)
        sums.fill(1)
    per_pair = queries.shape[1] * queries.shape[2]
    for tasks in attention_tasks(lengths, lengths if key_lengths is None else key_lengths, per_pair):
        flat, scores = attention_scores(queries, K, tasks)
        if scale != 1:
            flat *= scale
        for task, s in zip(tasks, scores, strict=True):
            if bias is not None:
                s += relation_block(bias, task)
        calm = bool(flat.min() >= -CALM and flat.max() <= CALM)
        for task, s in zip(tasks, scores, strict=True):
            hide(s, task, see, hidden)
            if not calm:
                shift_rows(s)
        with np.errstate(under="ignore"):
            np.exp(flat, out=flat)
        for task, s in zip(tasks, scores, strict=True):
            weigh(s, V, task, heads, sums)
    sums[sums == 0] = 1
    heads /= sums
    return result


def attention_tasks(lengths: Lengths, key_lengths: Lengths, heads: int) -> Iterator[list[Task]]:
    """Runs of equal lengths, long examples cut into blocks of queries, in lots of about SCORES scores."""
    lot: list[Task] = []
    held = 0
    for query, count, length, key, keys in equal_runs(lengths, key_lengths):
        cost = heads * length * keys
        several = max(1, SCORES // cost)
        queries = min(length, max(1, SCORES // (heads * keys)))
        for i in range(0, count, several):
            n = min(several, count - i)
            for first in range(0, length, queries):
                size = min(queries, length - first)
                if lot and held + n * heads * size * keys > SCORES:
                    yield lot
                    lot, held = [], 0
                lot.append((query + i * length + first, n, size, first, length, key + i * keys, keys))
                held += n * heads * size * keys
    if lot:
        yield lot


def equal_runs(
    lengths: Lengths, key_lengths: Lengths, room: int = 0
) -> Iterator[tuple[int, int, int, int, int]]:
    """(query row, examples, length, key row, keys) of each run of equal lengths; no empty ones.

    With a `room`, the keys of an example begin so many rows behind those of the one before.
    """
    query = key = i = 0
    pairs = [(int(a), int(b)) for a, b in zip(lengths, key_lengths, strict=True)]
    while i < len(pairs):
        end = i + 1
        while end < len(pairs) and pairs[end] == pairs[i]:
            end += 1
        length, keys = pairs[i]
        if length and keys:
            yield query, end - i, length, key, keys
        query += (end - i) * length
        key += (end - i) * (room or keys)
        i = end


def attention_scores(Q: FloatArray, K: FloatArray, tasks: list[Task]) -> tuple[FloatArray, list[FloatArray]]:
    """Q @[dk] K of each task as [example, head, seq, key], all in one flat buffer."""
    kv, group, dk = Q.shape[1:]
    sizes = [n * kv * group * queries * keys for _, n, queries, _, _, _, keys in tasks]
    flat = scratch("scores", (sum(sizes),), Q.dtype)
    scores = []
    start = 0
    for (query, n, queries, _, _, key, keys), size in zip(tasks, sizes, strict=True):
        s = flat[start : start + size].reshape(n, kv, group, queries, keys)
        q = Q[query : query + n * queries].reshape(n, queries, kv, group, dk).transpose(0, 2, 3, 1, 4)
        k = K[key : key + n * keys].reshape(n, keys, kv, 1, dk).transpose(0, 2, 3, 4, 1)
        np.matmul(q, k, out=s)
        scores.append(s.reshape(n, kv * group, queries, keys))
        start += size
    return flat, scores


def relation_block(relation: Any, task: Task) -> NDArray[Any]:
    """The part of see[seq, key] or bias[head, seq, key] that this task's queries and keys meet."""
    _, _, queries, first, length, _, keys = task
    whole = relation(length, keys) if callable(relation) else relation
    block: NDArray[Any] = np.asarray(whole)[..., first : first + queries, :keys]
    return block


def hide(s: FloatArray, task: Task, see: Relation | None, hidden: BoolArray | None) -> None:
    """Scores of pairs that may not see each other become -∞."""
    _, n, _, _, _, key, keys = task
    if see is not None:
        np.copyto(s, -np.inf, where=~relation_block(see, task))
    if hidden is not None:
        np.copyto(s, -np.inf, where=hidden[key : key + n * keys].reshape(n, 1, 1, keys))


def shift_rows(s: FloatArray) -> None:
    """s -= max[key](s), for rows that see something."""
    top = s.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    with np.errstate(invalid="ignore"):
        s -= top


def weigh(s: FloatArray, V: FloatArray, task: Task, heads: FloatArray, sums: FloatArray) -> None:
    """heads[seq] = sum[key](s V) and sums[seq] = sum[key](s), written to the task's rows."""
    query, n, queries, _, _, key, keys = task
    kv, group, dv = heads.shape[1:]
    v = V[key : key + n * keys].reshape(n, keys, kv, 1, dv).transpose(0, 2, 3, 1, 4)
    h = heads[query : query + n * queries].reshape(n, queries, kv, group, dv).transpose(0, 2, 3, 1, 4)
    np.matmul(s.reshape(n, kv, group, queries, keys), v, out=h)
    total = (s.reshape(-1, keys) @ np.ones(keys, s.dtype)).reshape(n, kv, group, queries)
    sums[query : query + n * queries].reshape(n, queries, kv, group)[...] = total.transpose(0, 3, 1, 2)


# ---- pooling over packed rows ------------------------------------------------------------------------------


def segment_sum(x: FloatArray, lengths: Lengths, visible: BoolArray | None = None) -> FloatArray:
    """y[example, …] = sum[row of the example, if visible](x); 0 over nothing."""
    if visible is not None:
        x = np.where(visible.reshape((-1,) + (1,) * (x.ndim - 1)), x, 0)
    return segment_reduce(np.add, x, np.asarray(lengths, np.intp))


def segment_max(
    x: FloatArray, lengths: Lengths, visible: BoolArray | None = None, nothing: float = 0
) -> FloatArray:
    """y[example, …] = max[row of the example, if visible](x); `nothing` over nothing."""
    if visible is not None:
        x = np.where(visible.reshape((-1,) + (1,) * (x.ndim - 1)), x, -np.inf)
    y = segment_reduce(np.maximum, x, np.asarray(lengths, np.intp))
    y[segment_counts(lengths, visible) == 0] = nothing
    return y


def segment_mean(x: FloatArray, lengths: Lengths, visible: BoolArray | None = None) -> FloatArray:
    """y[example, …] = mean[row of the example, if visible](x); 0 over nothing."""
    y = segment_sum(x, lengths, visible)
    count = np.maximum(segment_counts(lengths, visible), 1).astype(y.dtype)
    y /= count.reshape((-1,) + (1,) * (y.ndim - 1))
    return y


def segment_first(x: FloatArray, lengths: Lengths) -> FloatArray:
    """y[example, …] = x[first row of the example]; 0 where the example has none."""
    sizes = np.asarray(lengths, np.intp)
    y = np.zeros((len(sizes), *x.shape[1:]), x.dtype)
    y[sizes > 0] = x[(np.cumsum(sizes) - sizes)[sizes > 0]]
    return y


def segment_softmax(x: FloatArray, lengths: Lengths, visible: BoolArray | None = None) -> FloatArray:
    """y[row, …] = exp(x) / sum[row of the same example, if visible](exp(x)), hidden rows too. A new array."""
    sizes = np.asarray(lengths, np.intp)
    wide: FloatArray = x.astype(statistics_type(x))
    top = segment_max(wide, sizes, visible)
    top[np.isneginf(top)] = 0
    with np.errstate(under="ignore", invalid="ignore"):
        wide -= np.repeat(top, sizes, axis=0)
        np.minimum(wide, largest_exponent(wide), out=wide)
        np.exp(wide, out=wide)
    total = segment_sum(wide, sizes, visible)
    total[total == 0] = 1
    wide /= np.repeat(total, sizes, axis=0)
    return wide.astype(x.dtype, copy=False)


def segment_cumsum(x: NDArray[Any], lengths: Lengths) -> NDArray[Any]:
    """y[row, …] = sum[earlier rows of the same example, and this one](x). A new array."""
    y = np.empty_like(x)
    ends = np.cumsum(np.asarray(lengths, np.intp))
    for start, end in zip(ends - lengths, ends, strict=True):
        np.cumsum(x[start:end], axis=0, out=y[start:end])
    return y


def segment_reduce(reduce: np.ufunc, x: FloatArray, lengths: NDArray[np.intp]) -> FloatArray:
    """reduce over the rows of each example; 0 for an empty one. Sums of float16 are float32 inside."""
    y = np.zeros((len(lengths), *x.shape[1:]), x.dtype)
    full = lengths > 0
    if full.any():
        wide = x.astype(statistics_type(x), copy=False)
        y[full] = reduce.reduceat(wide, (np.cumsum(lengths) - lengths)[full], axis=0)
    return y


def segment_counts(lengths: Lengths, visible: BoolArray | None = None) -> NDArray[np.intp]:
    """How many (visible) rows each example has."""
    sizes = np.asarray(lengths, np.intp)
    if visible is None:
        return sizes
    seen = np.concatenate([[0], np.cumsum(visible, dtype=np.intp)])
    ends = np.cumsum(sizes)
    counts: NDArray[np.intp] = seen[ends] - seen[ends - sizes]
    return counts


# ---- packing: padded batch <-> rows ------------------------------------------------------------------------


def pack(
    attention_mask: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.intp], BoolArray | None, NDArray[np.intp]]:
    """attention_mask[batch, seq] -> (where, lengths, hidden, positions).

    An example's rows run from its first to its last visible position, padding may stand on either side:
    `where` are their numbers in the flattened batch, `lengths` how many each example has (0 if nothing is
    visible), `positions` count from the first visible one. `hidden` marks rows that the mask hides between
    visible ones; it is None if there are none.
    """
    see = np.asarray(attention_mask) != 0
    batch, seq = see.shape
    if seq == 0:
        return np.empty(0, np.intp), np.zeros(batch, np.intp), None, np.empty(0, np.intp)
    first = see.argmax(axis=1)
    last = seq - 1 - see[:, ::-1].argmax(axis=1)
    lengths = np.where(see.any(axis=1), last - first + 1, 0).astype(np.intp)
    position = np.arange(seq) - first[:, None]
    where = np.flatnonzero((position >= 0) & (position < lengths[:, None]))
    hidden = ~see.reshape(-1)[where]
    return where, lengths, hidden if hidden.any() else None, position.reshape(-1)[where]


def unpack(rows: NDArray[Any], where: IntArray, shape: tuple[int, ...]) -> NDArray[Any]:
    """y[batch, seq, …] with each row at its place and zeros elsewhere; shape = (batch, seq)."""
    y = np.zeros((math.prod(shape), *rows.shape[1:]), rows.dtype)
    y[where] = rows
    return y.reshape(*shape, *rows.shape[1:])


# ---- threads -----------------------------------------------------------------------------------------------

# What sets and reads a BLAS's thread count: OpenBLAS as NumPy's wheels rename it, as others build it; MKL.
BLAS_NAMES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
)
BLAS_FOUND: list[tuple[Callable[[int], Any], Callable[[], int]] | None] = []  # looked for once
BLAS_LOCK = threading.Lock()
BLAS_LIMITS: list[int] = []  # thread counts to go back to, one for each run_parallel that is at work


def blas_threads() -> tuple[Callable[[int], Any], Callable[[], int]] | None:
    """(set, get) of the thread count of the BLAS that numpy has loaded, None where it is not found."""
    if not BLAS_FOUND:
        BLAS_FOUND.append(find_blas())
    return BLAS_FOUND[0]


def find_blas() -> tuple[Callable[[int], Any], Callable[[], int]] | None:
    """numpy's own extension, which answers for the libraries it is linked to; then files beside it."""
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get("numpy.core._multiarray_umath")
    beside = Path(np.__file__).parent
    files = [Path(core.__file__)] if core is not None and core.__file__ else []
    files += sorted(beside.parent.glob("numpy.libs/*openblas*")) + sorted(beside.glob(".dylibs/*openblas*"))
    for file in files:
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for set_name, get_name in BLAS_NAMES:
            if hasattr(library, set_name) and hasattr(library, get_name):
                return getattr(library, set_name), getattr(library, get_name)
    return None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While it lasts, products use their caller's thread alone; after the last, the former count is back."""
    found = blas_threads()
    if found is None:
        yield
        return
    set_threads, get_threads = found
    with BLAS_LOCK:
        BLAS_LIMITS.append(get_threads() if not BLAS_LIMITS else BLAS_LIMITS[0])
        set_threads(1)
    try:
        yield
    finally:
        with BLAS_LOCK:
            before = BLAS_LIMITS.pop()
            if not BLAS_LIMITS:
                set_threads(before)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_parallel(
    function: Callable[[Part], Result], parts: Sequence[Part], threads: int | None = None
) -> list[Result]:
    """[function(part) for part in parts], by several threads, BLAS using one thread in each while it runs.

    NumPy lets go of the interpreter's lock in products and in pointwise work, so threads over parts keep all
    cores busy in both, where BLAS's own threads would help the products alone. An error in any part is raised
    here. A lone part, or a BLAS whose threads cannot be counted, is left to BLAS's threads; threads=1 means
    one.
    """
    workers = cores() if threads is None else threads
    if workers <= 1:
        with one_blas_thread():
            return [function(part) for part in parts]
    if len(parts) <= 1 or blas_threads() is None:
        return [function(part) for part in parts]
    workers = min(workers, len(parts))
    from concurrent.futures import ThreadPoolExecutor  # here, since a single text does without

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, parts))


def split_examples(lengths: Lengths, threads: int | None = None, rows: int = 1024) -> list[NDArray[np.intp]]:
    """Numbers of whole examples in chunks of about `rows` rows, longest first so that equal lengths meet.

    There are at least as many chunks as threads where examples allow it, of nearly equal size, so that all
    threads end together. From 500 to 2000 rows the speed is about the same; few rows spend it on calls, many
    take memory (each thread holds some 20 KB a row of a small encoder).
    """
    sizes = np.asarray(lengths, np.intp)
    order = np.argsort(-sizes, kind="stable")
    total = int(sizes.sum())
    workers = cores() if threads is None else threads
    chunks = max(1, min(len(sizes), workers * math.ceil(total / (rows * workers))))
    middle = np.cumsum(sizes[order]) - sizes[order] / 2
    number = np.minimum((middle * chunks / max(total, 1)).astype(np.intp), chunks - 1)
    parts = np.split(order, np.flatnonzero(np.diff(number)) + 1)
    return [part for part in parts if len(part)]


# ---- checkpoints -------------------------------------------------------------------------------------------

SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
HEADER_LIMIT = 100_000_000  # bytes; the format's own limit


def read_safetensors(path: str | Path) -> dict[str, NDArray[Any]]:
    """name -> read-only array, mapped from the file; BF16 widened to float32. ValueError if it is unsound.

    The format: eight bytes n (little endian), n bytes of JSON {name: {dtype, shape, data_offsets: [begin,
    end]}}, then the data, which the tensors must cover without gap or overlap.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise ValueError(f"{path}: {size} bytes are no safetensors file")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(data[:8], "little")
    if length > min(HEADER_LIMIT, size - 8):
        raise ValueError(f"{path}: header of {length} bytes in a file of {size}")
    header = safetensors_header(str(path), data[8 : 8 + length])
    spans = {name: safetensors_span(f"{path}: tensor {name!r}", entry) for name, entry in header.items()}
    end = 0
    for name, (begin, stop, _, _) in sorted(spans.items(), key=lambda item: item[1][:2]):
        if begin != end:
            raise ValueError(f"{path}: tensor {name!r} begins at {begin}, the one before it ends at {end}")
        end = stop
    if end != size - 8 - length:
        raise ValueError(f"{path}: tensors cover {end} bytes of data, the file has {size - 8 - length}")
    return {
        name: safetensors_array(data, 8 + length + begin, header[name]["dtype"], count, shape)
        for name, (begin, _, count, shape) in spans.items()
    }


def safetensors_header(path: str, text: bytes) -> dict[str, dict[str, Any]]:
    """The header without its __metadata__: a JSON object of objects, each name once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = dict(pairs)
        if len(names) < len(pairs):
            raise ValueError("a name is given twice")
        return names

    try:
        header = json.loads(text.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: the header is no JSON object: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is no JSON object")
    header.pop("__metadata__", None)
    return header


def safetensors_span(where: str, entry: Any) -> tuple[int, int, int, tuple[int, ...]]:
    """(begin, end, number of entries, shape) of a header entry, once they agree with each other."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise ValueError(f"{where}: needs dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in SAFETENSORS_TYPES:
        raise ValueError(f"{where}: dtype {code!r} is not one of {', '.join(SAFETENSORS_TYPES)}")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers):
            raise ValueError(f"{where}: {numbers!r} are not sizes")
    if len(shape) > 32 or len(offsets) != 2:
        raise ValueError(f"{where}: {len(shape)} axes and {len(offsets)} offsets")
    begin, end = offsets
    count = math.prod(shape)
    if end - begin != count * np.dtype(SAFETENSORS_TYPES[code]).itemsize:
        raise ValueError(f"{where}: {code} of shape {shape} does not fill bytes {begin} to {end}")
    return begin, end, count, tuple(shape)


def safetensors_array(
    data: mmap.mmap, start: int, code: str, count: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    """The entries at byte `start`: a view, or a copy where they are BF16 or not aligned."""
    if count == 0:
        return np.zeros(shape, np.float32 if code == "BF16" else SAFETENSORS_TYPES[code])
    flat: NDArray[Any] = np.frombuffer(data, SAFETENSORS_TYPES[code], count, start)
    if code == "BF16":
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    elif not flat.flags.aligned:
        flat = flat.copy()
    flat.flags.writeable = False
    return flat.reshape(shape)


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """name -> array of a NumPy archive; nothing pickled is read."""
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("one array, not an archive")
            return {name: archive[name] for name in archive.files}
    except Exception as error:
        if type(error).__name__ not in ("ValueError", "EOFError", "BadZipFile"):  # zipfile is not imported for a name
            raise
        raise ValueError(f"{path}: {error}") from None
