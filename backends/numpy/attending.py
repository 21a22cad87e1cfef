"""Run-time text of the NumPy backend: attention over a batch and what flows back through it, example by example.

Some heads of one example at a time, so what is made of all pairs of queries and keys stays in a core's cache, is made
again on the way back, and is never there for a whole batch. Nothing is computed of places where no token is.

    Q[batch, seq, kv, group, dk], K[batch, key, kv, dk], V[batch, key, kv, dv]
    relations and what is added or multiplied: [batch, kv, group, seq, key], each dimension perhaps 1
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import CALM, SCORES, FloatArray, run_parallel, scratch, shift_rows

Lot = tuple[int, int, int, slice]  # an example, how many queries and keys it has, some heads of the keys
Pairs = NDArray[Any] | None


def attended(
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    queries: NDArray[np.intp] | None,
    keys: NDArray[np.intp],
    scale: float = 1.0,
    seen: Pairs = None,
    see: Pairs = None,
    bias: Pairs = None,
    kept: Pairs = None,
    threads: int | None = None,
) -> FloatArray:
    """(A ⊙ kept) @[key] V, A = softmax[key if seen and see](scale * (Q @[dk] K) + bias); 0 where no key is seen.

    Vaswani et al. 2017. `queries` and `keys` are how many each example has (None: all), `seen[batch, key]` which of
    these may be seen by anybody.
    """
    heads = np.zeros((*Q.shape[:-1], V.shape[-1]), Q.dtype)

    def of_lot(lot: Lot) -> None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            example, _, m, some = lot
            shares = shares_of(Q, K, lot, scale, seen, see, bias)
            if kept is not None:
                pairs_of(shares, Q, lot)[...] *= of_pairs(kept, lot)
            product_to(heads, lot, shares, V[example, :m, some].transpose(1, 0, 2))

    run_parallel(of_lot, list(lots(Q, K, queries, keys)), threads)
    return heads


def attended_slopes(
    g: FloatArray,
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    queries: NDArray[np.intp] | None,
    keys: NDArray[np.intp],
    scale: float = 1.0,
    seen: Pairs = None,
    see: Pairs = None,
    bias: Pairs = None,
    kept: Pairs = None,
    threads: int | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What flows to Q, K and V where g[batch, seq, kv, group, dv] flows to the heads."""
    to_q, to_k, to_v = np.zeros_like(Q, order="C"), np.zeros_like(K, order="C"), np.zeros_like(V, order="C")

    def of_lot(lot: Lot) -> None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            example, _, m, some = lot
            shares = shares_of(Q, K, lot, scale, seen, see, bias)
            q, g_rows = rows_of_heads(Q, lot), rows_of_heads(g, lot)
            flow = scratch("flow", shares.shape, shares.dtype)
            np.matmul(g_rows, V[example, :m, some].transpose(1, 2, 0), out=flow)
            used = shares
            if kept is not None:
                used = shares.copy()
                pairs_of(used, Q, lot)[...] *= of_pairs(kept, lot)
                pairs_of(flow, Q, lot)[...] *= of_pairs(kept, lot)
            np.matmul(used.transpose(0, 2, 1), g_rows, out=to_v[example, :m, some].transpose(1, 0, 2))
            flow -= (flow[:, :, None, :] @ shares[:, :, :, None])[:, :, 0]
            flow *= shares
            if scale != 1:
                flow *= scale
            product_to(to_q, lot, flow, K[example, :m, some].transpose(1, 0, 2))
            np.matmul(flow.transpose(0, 2, 1), q, out=to_k[example, :m, some].transpose(1, 0, 2))

    run_parallel(of_lot, list(lots(Q, K, queries, keys)), threads)
    return to_q, to_k, to_v


def lots(
    Q: FloatArray, K: FloatArray, queries: NDArray[np.intp] | None, keys: NDArray[np.intp]
) -> Iterator[Lot]:
    """Each example that has queries and keys, as many heads at a time as a cache holds the scores of."""
    heads, group = Q.shape[2:4]
    for example in range(len(Q)):
        n, m = Q.shape[1] if queries is None else int(queries[example]), int(keys[example])
        several = max(1, SCORES // max(1, group * n * m))
        for first in range(0, heads if n and m else 0, several):
            yield example, n, m, slice(first, min(first + several, heads))


def rows_of_heads(x: FloatArray, lot: Lot) -> FloatArray:
    """x[batch, seq, kv, group, …] of some heads of an example, as [kv, group seq, …]."""
    example, n, _, some = lot
    part = x[example, :n, some].transpose(1, 2, 0, 3)
    return part.reshape(len(part), -1, x.shape[-1])


def product_to(x: FloatArray, lot: Lot, left: FloatArray, right: FloatArray) -> None:
    """x[batch, seq, kv, group, …] of some heads of an example := left[kv, group seq, key] @ right[kv, key, …]."""
    example, n, _, some = lot
    rows = x[example, :n, some].transpose(1, 2, 0, 3)
    if rows.shape[1] == 1:
        np.matmul(left, right, out=rows[:, 0])
    else:
        rows[...] = np.matmul(left, right).reshape(rows.shape)


def pairs_of(x: FloatArray, Q: FloatArray, lot: Lot) -> FloatArray:
    """x[kv, group seq, key] as [kv, group, seq, key]."""
    return x.reshape(len(x), Q.shape[3], lot[1], lot[2])


def of_pairs(relation: NDArray[Any], lot: Lot) -> NDArray[Any]:
    """The part of a relation that the queries and keys of a lot meet."""
    example, n, m, some = lot
    own: NDArray[Any] = relation[example if len(relation) > 1 else 0]
    return (own[some] if len(own) > 1 else own)[:, :, :n, :m]


def shares_of(
    Q: FloatArray, K: FloatArray, lot: Lot, scale: float, seen: Pairs, see: Pairs, bias: Pairs
) -> FloatArray:
    """softmax[key if seen and see](scale * (Q @[dk] K) + bias) of a lot, as [kv, group seq, key] in scratch memory."""
    example, _, m, some = lot
    q = rows_of_heads(Q, lot)
    s = scratch("shares", (len(q), q.shape[1], m), q.dtype)
    np.matmul(q, K[example, :m, some].transpose(1, 2, 0), out=s)
    if scale != 1:
        s *= scale
    pairs = pairs_of(s, Q, lot)
    if bias is not None:
        pairs += of_pairs(bias, lot)
    calm = bool(s.min() >= -CALM and s.max() <= CALM)
    if see is not None:
        np.copyto(pairs, -np.inf, where=~of_pairs(see, lot))
    if seen is not None:
        np.copyto(s, -np.inf, where=~seen[example, :m])
    if not calm:
        shift_rows(s)
    np.exp(s, out=s)
    total = s @ np.ones((m, 1), s.dtype)
    total[total == 0] = 1
    s /= total
    return s
