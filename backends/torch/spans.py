"""Run-time attention within bounds; the emitter copies what a module needs.

A query sees the keys first ≤ j < stop. No function makes a table of queries and keys: packed rows go block by block,
each with the keys that some query of it sees; a padded batch, which has to compile as one graph, takes SDPA's own
causal form, or blocks of one shape.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .packing import by_runs

QUERIES = 128  # queries of a long example at a time
BAND = 64, 512  # the least and the most of them where only a window of keys is seen
EVEN = 64  # products of sizes that this divides are fastest

BlockOf = Callable[[Tensor, Tensor, int, int], Tensor]  # of the places of queries and keys, and how many there are


def attention_within(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    runs: list[tuple[int, int, int]],
    scale: float = 1.0,
    first: Tensor | None = None,
    stop: Tensor | None = None,
    causal: bool = False,
    see: BlockOf | None = None,
    hidden: Tensor | None = None,
    bias: BlockOf | None = None,
    drop: float = 0.0,
    queries: int | None = None,
) -> Tensor:
    """As `attention`, of the keys first[row] ≤ j < stop[row] alone (either may be left out), a number for each query.

    `causal` says that those are all keys up to the query's own place: a run without holes is one call. `see` and `bias`
    are made for the places of a block.
    """
    heads = Q.shape[1:-1]
    if Q.dim() == 4:
        Q = Q.flatten(1, 2)
        K, V = (x.repeat_interleave(heads[1], dim=1) for x in (K, V))

    def of_run(
        q: Tensor, low: Tensor | None, high: Tensor | None, k: Tensor, v: Tensor, gone: Tensor | None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if causal and (gone is None or not bool(gone.any())):
            made = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True, scale=scale)
            return made.transpose(1, 2).flatten(0, 1)
        parts = []
        for begin, end, least, last in query_blocks(low, high, q.shape[2], k.shape[2]):
            if least >= last:
                parts.append(v.new_zeros((*q.shape[:2], end - begin, v.shape[-1])))
                continue
            mask = block_mask(low, high, see, gone, bias, (begin, end, least, last), q, k)
            here, keys, values = q[:, :, begin:end], k[:, :, least:last], v[:, :, least:last]
            parts.append(
                F.scaled_dot_product_attention(here, keys, values, attn_mask=mask, dropout_p=drop, scale=scale)
            )
        made = torch.cat(parts, dim=2)
        return made.transpose(1, 2).flatten(0, 1)

    made = by_runs(of_run, runs, Q, first, stop, K, V, hidden, queries=queries, asked=3)
    return made.reshape(-1, *heads, V.shape[-1])


def query_blocks(
    low: Tensor | None, high: Tensor | None, queries: int, keys: int
) -> list[tuple[int, int, int, int]]:
    """(begin, end, first, last): blocks of queries, and the keys that some query of each sees."""
    lows = [0] * queries if low is None or not len(low) else low.amin(dim=0).clamp(min=0).tolist()
    highs = [keys] * queries if high is None or not len(high) else high.amax(dim=0).clamp(max=keys).tolist()
    cuts = [(begin, min(begin + QUERIES, queries)) for begin in range(0, queries, QUERIES)]
    return [(begin, end, min(lows[begin:end]), max(highs[begin:end])) for begin, end in cuts]


def block_mask(
    low: Tensor | None,
    high: Tensor | None,
    see: BlockOf | None,
    gone: Tensor | None,
    bias: BlockOf | None,
    block: tuple[int, int, int, int],
    q: Tensor,
    k: Tensor,
) -> Tensor:
    """Which keys each query of a block sees, as [example, 1, query, key]; its bias with -∞ elsewhere, if it has one."""
    begin, end, first, last = block
    i, j = torch.arange(begin, end, device=q.device), torch.arange(first, last, device=q.device)
    seen = torch.ones((1, end - begin, last - first), dtype=torch.bool, device=q.device)
    if low is not None:
        seen = seen & (j >= low[:, begin:end, None])
    if high is not None:
        seen = seen & (j < high[:, begin:end, None])
    if see is not None:
        seen = seen & see(i, j, q.shape[2], k.shape[2])
    if gone is not None:
        seen = seen & ~gone[:, None, first:last]
    seen = seen[:, None]
    return seen if bias is None else bias(i, j, q.shape[2], k.shape[2]).to(q.dtype).masked_fill(~seen, float("-inf"))


def unseen(hidden: Tensor | None, see: Tensor) -> Tensor:
    """Which keys nobody may see: hidden ones, and those that the relation leaves out."""
    return ~see if hidden is None else hidden | ~see


def causal_attention(q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, scale: float, drop: float = 0.0) -> Tensor:
    """A @[key] V over [batch, head, place, width], of the keys up to each query's own, of which `keys` may be seen.

    SDPA takes its causal form without a mask. So a hidden key gets one more coordinate, by which every score with it is
    too low to count, and its value is 0: a query that sees nothing gives 0. It costs a copy, no table of all pairs.
    """
    if keys is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True, scale=scale)
    gone = ~keys[:, None, :, None]
    far = torch.zeros_like(k[..., :1]).masked_fill(gone, -min(torch.finfo(k.dtype).max / 2, 1e18))
    q = torch.cat([q, torch.full_like(q[..., :1], 1 / scale)], dim=-1)
    v = torch.cat([v.masked_fill(gone, 0.0), torch.zeros_like(v[..., :1])], dim=-1)
    made = F.scaled_dot_product_attention(
        q, torch.cat([k, far], dim=-1), v, dropout_p=drop, is_causal=True, scale=scale
    )
    return made[..., :-1]


def window_attention(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, before: int, after: int, scale: float, drop: float = 0.0
) -> Tensor:
    """A @[key] V over [batch, head, place, width], of the keys from `before` to `after` places beside each query's own.

    The queries are cut into blocks, each with the keys within reach: a band of scores, no table of all pairs.
    """
    batch, _, seq, _ = q.shape
    one_graph = torch.compiler.is_compiling()  # for all lengths: a size that may be 0 or 1 would split it
    window = -(-(before + after) // EVEN) * EVEN
    block = min(max(BAND[0], -(-window // 4 // EVEN) * EVEN), BAND[1])
    reach = block + window
    if not one_graph and seq <= 2 * reach:  # a short text is one block
        gap = torch.arange(seq, device=q.device) - torch.arange(seq, device=q.device)[:, None]
        near = (gap >= -before) & (gap <= after)
        near = near if keys is None else near & keys[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=near, dropout_p=drop, scale=scale)
    count = seq // block + 2 if one_graph else -(-seq // block)
    begin = torch.arange(count, device=q.device) * block
    start = (begin - before).clamp(min=0)
    start = start if one_graph else start.clamp(max=seq - reach)
    row = begin[:, None] + torch.arange(block, device=q.device)
    place = start[:, None] + torch.arange(reach, device=q.device)
    gap = place[:, None, :] - row[:, :, None]
    near = (gap >= -before) & (gap <= after) & (place < seq)[:, None]
    row, place = row.clamp(max=seq - 1), place.clamp(max=seq - 1)
    near = near.expand(batch, *gap.shape) if keys is None else near & keys[:, place][:, :, None, :]
    near = near.flatten(0, 1)[:, None]
    q, k, v = taken_places(q, row), taken_places(k, place), taken_places(v, place)
    made = F.scaled_dot_product_attention(q, k, v, attn_mask=near, dropout_p=drop, scale=scale)
    rows = made.transpose(1, 2).reshape(batch, count * block, *made.shape[1::2])
    return rows[:, torch.arange(seq, device=q.device)].transpose(1, 2)


def taken_places(x: Tensor, at: Tensor) -> Tensor:
    """x[batch, head, place, width] at the places of each block, [block, place] → [batch block, head, place, width]"""
    batch, heads, _, width = x.shape
    rows = x.transpose(1, 2).index_select(1, at.flatten())
    return rows.reshape(batch * at.shape[0], at.shape[1], heads, width).transpose(1, 2)
