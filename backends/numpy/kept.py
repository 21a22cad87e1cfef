"""Run-time attention of new tokens over kept rows; the emitter copies what a module needs, as from kernels.py."""

from __future__ import annotations

import numpy as np

from .kernels import BoolArray, FloatArray, IntArray, Lengths, shift_rows
from .spans import BlockBias, BlockRelation, attention_within


def kept_attention(
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    lengths: Lengths,
    key_lengths: IntArray,
    room: int,
    scale: float = 1.0,
    first: IntArray | None = None,
    stop: IntArray | None = None,
    see: BlockRelation | None = None,
    hidden: BoolArray | None = None,
    bias: BlockBias | None = None,
    full: bool = False,
    out: FloatArray | None = None,
) -> FloatArray:
    """As `attention_within`, of keys that lie as [example * room + place, …], of which each example has some.

    One query of each example, the usual step, is one product of all; whatever else there is goes by blocks.
    """
    if len(Q) == len(key_lengths) and see is None and bias is None and Q.dtype != np.float16:
        return one_query_attention(Q, K, V, key_lengths, room, scale, first, stop, hidden, out)
    return attention_within(
        Q, K, V, lengths, scale, first, stop, see, hidden, bias, key_lengths, full, out, room
    )


def one_query_attention(
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    key_lengths: IntArray,
    room: int,
    scale: float,
    first: IntArray | None,
    stop: IntArray | None,
    hidden: BoolArray | None,
    out: FloatArray | None,
) -> FloatArray:
    """A @[key] V of one query for each example, over the keys first ≤ j < stop of its own; 0 where it sees none."""
    examples, (kv, dk) = len(Q), K.shape[1:]
    stop = key_lengths if stop is None else np.minimum(stop, key_lengths)
    low = 0 if first is None else max(int(first.min()), 0)
    high = int(stop.max(initial=0))
    keys, values = (x.reshape(examples, room, kv, -1)[:, low:high].transpose(0, 2, 1, 3) for x in (K, V))
    s = np.matmul(Q.reshape(examples, kv, -1, dk), keys.transpose(0, 1, 3, 2))
    if scale != 1:
        s *= scale
    place = np.arange(low, high)
    if int(stop.min(initial=high)) < high:
        np.copyto(s, -np.inf, where=(place >= stop[:, None])[:, None, None])
    if first is not None and int(first.max(initial=0)) > low:
        np.copyto(s, -np.inf, where=(place < first[:, None])[:, None, None])
    if hidden is not None:
        np.copyto(s, -np.inf, where=hidden.reshape(examples, room)[:, None, None, low:high])
    if high > low:
        shift_rows(s)
    np.exp(s, out=s)
    sums = s.sum(axis=-1, keepdims=True)
    sums[sums == 0] = 1
    made = np.matmul(s, values)
    made /= sums
    result: FloatArray = np.empty(Q.shape[:-1] + V.shape[-1:], Q.dtype) if out is None else out
    result[...] = made.reshape(result.shape)
    return result
