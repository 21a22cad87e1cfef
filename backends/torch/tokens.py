"""Run-time attention over rows of tokens, for objectives; the emitter copies what a module needs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .functions import rows_at, rows_put_back
from .packing import attention
from .spans import attention_within, causal_attention, window_attention


def runs_of_tokens(real: Tensor) -> list[tuple[int, int, int]] | None:
    """real[batch, seq] → (first row, examples, length) of each run of equal lengths, the longest first.

    None where the padded batch is attended to at once: nothing is padding, a device has many cores for it, or a graph
    that is compiled or exported cannot know the lengths.
    """
    if torch.compiler.is_compiling() or real.device.type != "cpu" or bool(real.all()):
        return None
    counts = real.sum(dim=1).sort(descending=True).values.tolist()
    runs, row = [], 0
    for length in dict.fromkeys(count for count in counts if count):
        runs.append((row, counts.count(length), length))
        row += counts.count(length) * length
    return runs or [(0, 0, 1)]


def attention_of_tokens(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    runs: list[tuple[int, int, int]] | None,
    rows: Tensor,
    columns: Tensor,
    index: Tensor,
    visible: Tensor,
    masked: bool,
    scale: float = 1.0,
    before: int | None = None,
    after: int | None = None,
    drop: float = 0.0,
) -> Tensor:
    """A @[key] V, A = softmax[key if near and visible](scale * (Q @[dk] K)), each example by itself.

    Q[row, head, dk], or Q[row, kv, group, dk] with K and V[row, kv, …], are rows of tokens at (rows, columns) of a
    padded batch. A query sees the keys up to `after` places behind its own, from `before` places in front of it (None:
    all).
    """
    if runs is not None:
        hidden = ~visible[rows, columns]
        some = hidden if bool(hidden.any()) else None
        if after is None:
            return attention(Q, K, V, runs, scale, None, some, None, drop)
        at = index[rows, columns]
        first = None if before is None else at - before
        return attention_within(
            Q, K, V, runs, scale, first, at + (after + 1), before is None and after == 0, hidden=some, drop=drop
        )
    heads, shape = Q.shape[1:-1], (visible.shape[0], visible.shape[1])
    if Q.dim() == 4:
        Q = Q.flatten(1, 2)
        K, V = (x.repeat_interleave(heads[1], dim=1) for x in (K, V))
    q, k, v = (rows_put_back(x, shape, rows, columns).transpose(1, 2) for x in (Q, K, V))
    keys = visible if masked else None
    if after is None:
        mask = None if keys is None else keys[:, None, None, :]
        made = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop, scale=scale)
    elif before is None:
        made = causal_attention(q, k, v, keys, scale, drop)
    else:
        made = window_attention(q, k, v, keys, before, after, scale, drop)
    return rows_at(made.transpose(1, 2), rows, columns).reshape(-1, *heads, V.shape[-1])
