"""Run-time attention within bounds: of each block of queries only the keys that some query of it sees.

The emitter copies what a module needs, as from kernels.py. A row sees the keys first ≤ j < stop. Keys outside the
bounds of a whole block are never looked at, so causal attention computes about half of the products and a window a band
of them; what a bound cuts inside a block is hidden there, so nothing is as large as queries times keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import (
    CALM,
    SCORES,
    BoolArray,
    FloatArray,
    IntArray,
    Lengths,
    equal_runs,
    scratch,
    shift_rows,
)

BlockRelation = BoolArray | Callable[[IntArray, IntArray, int, int], BoolArray]  # see[i, j], or what gives it
BlockBias = FloatArray | Callable[[IntArray, IntArray, int, int], FloatArray]  # bias[head, i, j], likewise

QUERIES = 64  # queries of a long example at a time: fewer skip more keys, more are better products


class Block(NamedTuple):
    """Queries begin ≤ i < end of some `examples` of one length, and the keys low ≤ j < high that they look at."""

    query: int  # the row of the first example's first query
    key: int  # and of its first key
    examples: int
    length: int
    keys: int
    begin: int
    end: int
    low: int
    high: int
    room: int  # rows from one example's first key to the next one's

    @property
    def rows(self) -> tuple[int, int, int]:
        """How many scores the block has for each head: examples, queries, keys."""
        return self.examples, self.end - self.begin, self.high - self.low

    def queries(self, x: NDArray[Any]) -> NDArray[Any]:
        """x[row, …] → [example, query, …], the block's."""
        return x[self.query : self.query + self.examples * self.length].reshape(
            self.examples, self.length, *x.shape[1:]
        )[:, self.begin : self.end]

    def seen(self, x: NDArray[Any]) -> NDArray[Any]:
        """x[row, …] → [example, key, …], the block's."""
        return x[self.key : self.key + self.examples * self.room].reshape(self.examples, self.room, *x.shape[1:])[
            :, self.low : self.high
        ]


def attention_within(
    Q: FloatArray,
    K: FloatArray,
    V: FloatArray,
    lengths: Lengths,
    scale: float = 1.0,
    first: IntArray | None = None,
    stop: IntArray | None = None,
    see: BlockRelation | None = None,
    hidden: BoolArray | None = None,
    bias: BlockBias | None = None,
    key_lengths: Lengths | None = None,
    full: bool = False,
    out: FloatArray | None = None,
    room: int = 0,
) -> FloatArray:
    """As `attention`, of the keys first[row] ≤ j < stop[row] alone (either may be left out).

    `see` and `bias` are arrays over one example's queries and keys, or functions of a block's places of queries and
    keys and of the lengths of both. `full` promises that every query sees a key: there is no sum of 0 to guard. With a
    `room`, the keys of an example begin so many rows behind those of the one before.
    """
    result: FloatArray = np.empty(Q.shape[:-1] + V.shape[-1:], Q.dtype) if out is None else out
    if Q.dtype == np.float16:
        q, k, v = Q.astype(np.float32), K.astype(np.float32), V.astype(np.float32)
        options = scale, first, stop, see, hidden, bias, key_lengths, full, None, room
        result[...] = attention_within(q, k, v, lengths, *options)
        return result
    queries = Q if Q.ndim == 4 else Q[:, :, None]
    heads = result.reshape(queries.shape[:-1] + V.shape[-1:])
    sums = scratch("sums", (*queries.shape[:-1], 1), Q.dtype)
    if key_lengths is not None or not full:  # a block without a key is passed over
        heads.fill(0)
        sums.fill(1)
    per_pair = queries.shape[1] * queries.shape[2]
    keys = lengths if key_lengths is None else key_lengths
    for blocks in span_blocks(lengths, keys, per_pair, first, stop, room):
        flat, scores = span_scores(queries, K, blocks)
        if scale != 1:
            flat *= scale
        for block, s in zip(blocks, scores, strict=True):
            if bias is not None:
                s += block_relation(bias, block)
        calm = bool(flat.min() >= -CALM and flat.max() <= CALM)
        for block, s in zip(blocks, scores, strict=True):
            hide_outside(s, block, first, stop)
            hide_block(s, block, see, hidden)
            if not calm:
                shift_rows(s)
        with np.errstate(under="ignore"):
            np.exp(flat, out=flat)
        for block, s in zip(blocks, scores, strict=True):
            weigh_block(s, V, block, heads, sums)
    if not full:
        sums[sums == 0] = 1
    heads /= sums
    return result


def span_blocks(
    lengths: Lengths, key_lengths: Lengths, heads: int, first: IntArray | None, stop: IntArray | None, room: int = 0
) -> Iterator[list[Block]]:
    """Blocks of queries with the keys between their bounds, in lots of about SCORES scores."""
    lot: list[Block] = []
    held = 0
    for query, count, length, key, keys in equal_runs(lengths, key_lengths, room):
        height = min(length, QUERIES, max(1, SCORES // (heads * keys)))
        several = max(1, SCORES // (heads * height * keys))
        for i in range(0, count, several):
            here = query + i * length, key + i * (room or keys), min(several, count - i), length, keys
            for begin in range(0, length, height):
                end = min(begin + height, length)
                block = bounded_block(Block(*here, begin, end, 0, keys, room or keys), first, stop)
                if block.low >= block.high:
                    continue
                size = heads * block.examples * (block.end - block.begin) * (block.high - block.low)
                if lot and held + size > SCORES:
                    yield lot
                    lot, held = [], 0
                lot.append(block)
                held += size
    if lot:
        yield lot


def bounded_block(block: Block, first: IntArray | None, stop: IntArray | None) -> Block:
    """The block with the keys that some of its queries see, as far as the bounds tell."""
    low = 0 if first is None else max(0, int(block.queries(first).min()))
    high = block.keys if stop is None else min(block.keys, int(block.queries(stop).max()))
    return block._replace(low=low, high=high)


def span_scores(Q: FloatArray, K: FloatArray, blocks: list[Block]) -> tuple[FloatArray, list[FloatArray]]:
    """Q @[dk] K of each block as [example, head, query, key], all in one flat buffer."""
    kv, group = Q.shape[1:3]
    shapes = [(count, kv, group, queries, keys) for count, queries, keys in (block.rows for block in blocks)]
    sizes = [count * kv * group * queries * keys for count, _, _, queries, keys in shapes]
    flat = scratch("scores", (sum(sizes),), Q.dtype)
    scores = []
    start = 0
    for block, shape, size in zip(blocks, shapes, sizes, strict=True):
        s = flat[start : start + size].reshape(shape)
        np.matmul(
            block.queries(Q).transpose(0, 2, 3, 1, 4), block.seen(K)[:, :, :, None].transpose(0, 2, 3, 4, 1), out=s
        )
        scores.append(s.reshape(shape[0], kv * group, *shape[3:]))
        start += size
    return flat, scores


def block_relation(relation: Any, block: Block) -> NDArray[Any]:
    """The part of see[i, j] or bias[head, i, j] that this block's queries and keys meet."""
    if callable(relation):
        i, j = np.arange(block.begin, block.end), np.arange(block.low, block.high)
        return np.asarray(relation(i, j, block.length, block.keys))
    part: NDArray[Any] = np.asarray(relation)[..., block.begin : block.end, block.low : block.high]
    return part


def hide_outside(s: FloatArray, block: Block, first: IntArray | None, stop: IntArray | None) -> None:
    """Scores of keys outside a row's own bounds become -∞; only the columns that a bound cuts are looked at."""
    width = block.high - block.low
    if stop is not None:
        ends = block.queries(stop)[:, None, :, None] - block.low
        cut = min(max(int(ends.min()), 0), width)
        np.copyto(s[..., cut:], -np.inf, where=np.arange(cut, width) >= ends)
    if first is not None:
        starts = block.queries(first)[:, None, :, None] - block.low
        cut = min(max(int(starts.max()), 0), width)
        np.copyto(s[..., :cut], -np.inf, where=np.arange(cut) < starts)


def hide_block(s: FloatArray, block: Block, see: BlockRelation | None, hidden: BoolArray | None) -> None:
    """Scores of pairs that may not see each other become -∞."""
    if see is not None:
        np.copyto(s, -np.inf, where=~block_relation(see, block))
    if hidden is not None:
        np.copyto(s, -np.inf, where=block.seen(hidden)[:, None, None, :])


def weigh_block(s: FloatArray, V: FloatArray, block: Block, heads: FloatArray, sums: FloatArray) -> None:
    """heads[query] = sum[key](s V) and sums[query] = sum[key](s), written to the block's rows."""
    count, queries, keys = block.rows
    kv, group = heads.shape[1:3]
    v = block.seen(V)[:, :, :, None].transpose(0, 2, 3, 1, 4)
    np.matmul(s.reshape(count, kv, group, queries, keys), v, out=block.queries(heads).transpose(0, 2, 3, 1, 4))
    total = (s.reshape(-1, keys) @ np.ones(keys, s.dtype)).reshape(count, kv, group, queries)
    block.queries(sums)[..., 0] = total.transpose(0, 3, 1, 2)


def unseen(hidden: BoolArray | None, see: BoolArray) -> BoolArray:
    """Which keys nobody may see: hidden ones, and those that the relation leaves out."""
    return ~see if hidden is None else hidden | ~see
