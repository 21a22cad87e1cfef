"""Run-time functions of packed rows in PyTorch; the emitter copies what a module needs.

Packed rows are the tokens of whole examples one after the other. Examples of equal length are neighbours: a run is
(first row, examples, length), and what looks along a length does so run by run, on [example, place, …] without padding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .functions import length_softmax, reduce_where

ROWS = 1024  # rows at a time on a CPU: what a layer makes of them stays close to its caches


class Part:
    """Some examples of a batch as `n` rows: their `runs` and `lengths`, the `index` of each row in its example.

    `hidden` marks keys that nobody may see; `at` and `chosen` are the places among all rows and all examples.
    """

    def __init__(self, whole: Packing, first: int, last: int) -> None:
        before = sum(whole.counts[:first])
        counts = whole.counts[first:last]
        self.n, self.chosen = sum(counts), slice(first, last)
        self.at = slice(before, before + self.n)
        self.lengths, self.index = whole.lengths[self.chosen], whole.index[self.at]
        self.hidden = None if whole.hidden is None or not whole.hidden[self.at].any() else whole.hidden[self.at]
        self.runs: list[tuple[int, int, int]] = []
        row = 0
        for length in dict.fromkeys(counts):
            self.runs.append((row, counts.count(length), length))
            row += counts.count(length) * length
        self.runs = self.runs or [(0, 0, 1)]


class Packing:
    """A padded batch as packed rows, the longest examples first; examples without a token are left out.

    An example goes from its first to its last visible place; hidden places between are keys that nobody may see. A
    batch without padding stays as it is: nothing is gathered, and results are views.
    """

    def __init__(self, padded: Tensor, mask: Tensor | None) -> None:
        self.batch, self.seq = padded.shape[:2]
        self.where: Tensor | None = None
        self.examples: Tensor | None = None
        self.hidden: Tensor | None = None
        device, visible = padded.device, None if mask is None else mask != 0
        if self.seq > 0 and (visible is None or bool(visible.all())):
            self.counts = [self.seq] * self.batch
            self.lengths = torch.full((self.batch,), self.seq, device=device)
            self.index = torch.arange(self.seq, device=device).repeat(self.batch)
            return
        if visible is None or self.seq == 0:
            visible = torch.zeros((self.batch, 1), dtype=torch.bool, device=device)
        first, last = visible.int().argmax(dim=1), visible.flip(1).int().argmax(dim=1)
        count = torch.where(visible.any(dim=1), visible.shape[1] - last - first, 0)
        order = count.argsort(descending=True, stable=True)
        self.counts = [one for one in count[order].tolist() if one > 0]
        self.examples = order[: len(self.counts)]
        self.lengths = count[self.examples]
        owner = torch.arange(len(self.counts), device=device).repeat_interleave(self.lengths)
        self.index = torch.arange(len(owner), device=device) - (self.lengths.cumsum(0) - self.lengths)[owner]
        self.where = (self.examples * self.seq + first[self.examples])[owner] + self.index
        hidden = ~visible.flatten()[self.where]
        self.hidden = hidden if bool(hidden.any()) else None

    def rows(self, x: Tensor) -> Tensor:
        """x[batch, seq, …] → [row, …]"""
        flat = x.reshape(-1, *x.shape[2:])
        return flat if self.where is None else flat[self.where]

    def each(self, x: Tensor) -> Tensor:
        """x[batch, …] → [example, …]"""
        return x if self.examples is None else x[self.examples]

    def parts(self) -> list[Part]:
        """Whole examples, about ROWS rows at a time on a CPU, else all at once."""
        n = sum(self.counts)
        pieces = max(1, -(-n // ROWS)) if self.index.device.type == "cpu" else 1
        cuts, row, piece = [0], 0, 0
        for number, length in enumerate(self.counts):
            if row * pieces // max(n, 1) > piece:
                cuts.append(number)
                piece = row * pieces // n
            row += length
        return [Part(self, *span) for span in zip(cuts, [*cuts[1:], len(self.counts)], strict=True)]

    def padded(self, parts: list[Tensor]) -> Tensor:
        """[row, …] → [batch, seq, …], 0 at padding."""
        rows = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.where is not None:
            rows = rows.new_zeros((self.batch * self.seq, *rows.shape[1:])).index_copy(0, self.where, rows)
        return rows.reshape(self.batch, self.seq, *rows.shape[1:])

    def batched(self, parts: list[Tensor]) -> Tensor:
        """[example, …] → [batch, …], 0 for an example without a token."""
        found = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.examples is None:
            return found
        return found.new_zeros((self.batch, *found.shape[1:])).index_copy(0, self.examples, found)


def by_runs(
    step: Callable[..., Tensor],
    runs: list[tuple[int, int, int]],
    *rows: Tensor | None,
    queries: int | None = None,
    asked: int = 1,
) -> Tensor:
    """step([example, place, …], …) of each run, one result after the other.

    With `queries`, the first `asked` of `rows` have that many rows of each example.
    """
    sides: list[list[Tensor | None]] = []  # cut at once: a slice of each run would have a gradient of all rows
    for number, x in enumerate(rows):
        shapes = [(n, length if queries is None or number >= asked else queries) for _, n, length in runs]
        if x is None:
            sides.append([None] * len(runs))
            continue
        parts = torch.split(x, [n * many for n, many in shapes])
        sides.append([part.reshape(*shape, *x.shape[1:]) for part, shape in zip(parts, shapes, strict=True)])
    made = [step(*parts) for parts in zip(*sides, strict=True)]
    return made[0] if len(made) == 1 else torch.cat(made)


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    runs: list[tuple[int, int, int]],
    scale: float = 1.0,
    see: Callable[[int, int], Tensor] | None = None,
    hidden: Tensor | None = None,
    bias: Callable[[int, int], Tensor] | None = None,
    drop: float = 0.0,
    queries: int | None = None,
) -> Tensor:
    """A @[key] V, A = softmax[key if see and not hidden](scale * (Q @[dk] K) + bias), each example by itself.

    Q, K and V[row, head, dk] are packed rows; grouped queries are Q[row, kv, group, dk] with K and V[row, kv, dk].
    With `queries`, Q has that many rows of each example instead of all.
    `see(queries, keys)` and `bias(queries, keys)` are made for each length. A query that sees nothing gives 0. Weights
    are dropped at the rate `drop`.
    """
    heads = Q.shape[1:-1]
    if Q.dim() == 4:
        Q = Q.flatten(1, 2)
        K, V = (x.repeat_interleave(heads[1], dim=1) for x in (K, V))

    def of_run(q: Tensor, k: Tensor, v: Tensor, gone: Tensor | None) -> Tensor:
        asked, length = q.shape[1], k.shape[1]
        mask = None if see is None else see(asked, length)
        if gone is not None:
            keys = ~gone[:, None, None, :]
            mask = keys if mask is None else mask & keys
        if bias is not None:
            added = bias(asked, length).to(q.dtype)
            mask = added if mask is None else added.masked_fill(~mask, float("-inf"))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        made = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop, scale=scale)
        return made.transpose(1, 2).flatten(0, 1)

    made = by_runs(of_run, runs, Q, K, V, hidden, queries=queries)
    return made.reshape(-1, *heads, V.shape[-1])


def reduce_examples(
    kind: str, x: Tensor, runs: list[tuple[int, int, int]], see: Tensor | None = None
) -> Tensor:
    """The reduction over each example's rows, of those that `see` lets through."""

    def of_run(x: Tensor, see: Tensor | None) -> Tensor:
        seen = x.new_ones((), dtype=torch.bool) if see is None else see.reshape(see.shape + (1,) * (x.dim() - 2))
        return reduce_where(kind, x, seen, (1,))

    return by_runs(of_run, runs, x, see)


def softmax_of_examples(
    x: Tensor, runs: list[tuple[int, int, int]], hidden: Tensor | None, see: Tensor | None = None
) -> Tensor:
    """softmax over each example's rows, of those that `see` lets through; a hidden one adds nothing to the sum."""

    def of_run(x: Tensor, hidden: Tensor | None, see: Tensor | None) -> Tensor:
        shape = (x.shape[0], *(1,) * (x.dim() - 2), x.shape[1])
        visible = x.new_ones((), dtype=torch.bool) if hidden is None else ~hidden.reshape(shape)
        share = length_softmax(x.movedim(1, -1), visible, None if see is None else see.reshape(shape))
        return share.movedim(-1, 1).flatten(0, 1)

    return by_runs(of_run, runs, x, hidden, see)


def sums_of_examples(x: Tensor, runs: list[tuple[int, int, int]]) -> Tensor:
    """At each row the sum of its example's rows up to it."""
    return by_runs(lambda x: x.cumsum(dim=1).flatten(0, 1), runs, x)


def row_of_example(x: Tensor, lengths: Tensor, number: int | Tensor) -> Tensor:
    """x[seq = number] of each example, for one number, or number[example, …]; beyond its rows NaN."""
    starts, place = lengths.cumsum(0) - lengths, torch.as_tensor(number, device=x.device).long()
    many = (...,) + (None,) * (place.dim() - 1)
    there = (place >= 0) & (place < lengths[many])
    found = x[starts[many] + torch.where(there, place, 0).long()]
    if found.is_floating_point():
        found = found.masked_fill(~there.reshape(there.shape + (1,) * (found.dim() - there.dim())), float("nan"))
    return found
