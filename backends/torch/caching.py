"""Run-time memory of texts that are decoded: rows that earlier steps kept, and the step over them.

Copied into generated modules as functions.py is. Examples stand at the left: row r of example b is [b, r, …], and of
the rows that there are, `count` are the example's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Key = tuple[Any, ...]  # the name of a value, and the numbers of the steps whose it is
FEW = range(3, 65)  # rows of a product that a weight in oneDNN's own order makes faster


class Rows:
    """The rows along one length: how many each example has, which of them nobody may see, and the values.

    With a `window`, rows before the last so many old ones may go: an example has `stored` of its `count` rows.
    """

    def __init__(self, room: int, window: int | None = None) -> None:
        self.room, self.keys, self.before, self.new, self.window = room, 0, 0, 0, window
        self.even = True  # all examples have `keys` rows, and all may be seen
        self.count = self.stored = self.visible = self.at = self.own = torch.empty(0)
        self.values: dict[Key, Tensor] = {}
        self.bands: dict[int, Rows] = {}
        self.last: tuple[Tensor, Tensor | None, Tensor | None] | None = None

    def within(self, window: int | None) -> Rows:
        """The rows of values of which a later row sees `window` old ones alone: these, if it sees all."""
        if window is None:
            return self
        if window not in self.bands:
            band = self.bands[window] = Rows(min(self.room, 2 * window + 1), window)
            if self.last is not None:
                band.advance(*self.last)
        return self.bands[window]

    def advance(self, new: Tensor, counts: Tensor | None, hidden: Tensor | None) -> None:
        """Counts the rows of new[batch, tokens]: `counts` of each example (all, if None); `hidden` may not be seen."""
        self.last = new, counts, hidden
        for band in self.bands.values():
            band.advance(new, counts, hidden)
        batch, self.new, device = new.shape[0], new.shape[1], new.device
        if not self.keys:
            self.count = self.stored = torch.zeros(batch, dtype=torch.long, device=device)
            self.visible = torch.zeros(batch, 0, dtype=torch.bool, device=device)
        if self.window is not None and self.keys + self.new > self.room:
            self.forget(self.window)
        start, self.before = self.stored, self.keys
        self.own = own = torch.full_like(start, self.new) if counts is None else counts.to(start)
        self.even = self.even and hidden is None and (counts is None or bool((own == self.new).all()))
        self.count, self.stored = self.count + own, start + own
        self.keys = self.before + self.new if self.even else int(self.stored.max())
        self.room = self.room if self.before + self.new <= self.room else max(self.before + self.new, 2 * self.room)
        self.at = start[:, None] + torch.arange(self.new, device=device)
        real = torch.arange(self.new, device=device) < own[:, None]
        seen = torch.zeros(batch, self.before + self.new, dtype=torch.bool, device=device)
        seen[:, : self.visible.shape[1]] = self.visible
        seen.scatter_(1, self.at, real if hidden is None else real & ~hidden)
        self.visible = seen[:, : self.keys]

    def append(self, key: Key, value: Tensor) -> Tensor:
        """All rows of a value, the new ones among them; value[batch, new, …] are those."""
        rows = self.values.get(key)
        if rows is None or rows.shape[1] < self.room:
            more = value.new_zeros((value.shape[0], self.room, *value.shape[2:]))
            if rows is not None:
                more[:, : self.before] = rows[:, : self.before]
            rows = self.values[key] = more
        if self.even:
            rows[:, self.before : self.keys] = value
        else:
            rows[torch.arange(len(rows), device=rows.device)[:, None], self.at] = value
        return rows[:, : self.keys]

    def forget(self, window: int) -> None:
        """Leaves the last `window` rows of each example."""
        kept = self.stored.clamp(max=window)
        self.keys = min(self.keys, window) if self.even else int(kept.max())
        places = (self.stored - kept)[:, None] + torch.arange(self.keys, device=kept.device)
        places = places.clamp(max=self.visible.shape[1] - 1)
        each = torch.arange(len(kept), device=kept.device)[:, None]
        self.stored, self.visible = kept, self.visible[each, places]
        self.visible = self.visible & (torch.arange(self.keys, device=kept.device) < kept[:, None])
        self.room = 2 * window + 1
        self.values = {key: rows[each, places] for key, rows in self.values.items()}

    def take(self, chosen: Tensor) -> None:
        """These examples alone, in this order."""
        self.count, self.stored, self.visible = self.count[chosen], self.stored[chosen], self.visible[chosen]
        if not self.even and len(chosen):
            self.keys = int(self.stored.max())
            self.visible = self.visible[:, : self.keys]
            self.even = bool(self.visible.all())
        self.values = {key: rows[chosen] for key, rows in self.values.items()}
        for band in self.bands.values():
            band.take(chosen)


class Cache:
    """What a batch of texts has computed so far: rows by length, and what was computed once before the first token."""

    def __init__(self, room: int = 64) -> None:
        self.room = max(room, 1)
        self.rows: dict[str, Rows] = {}
        self.values: dict[Key, tuple[Tensor, bool]] = {}  # and whether each example has its own
        self.held: dict[str, tuple[Tensor, ...]] = {}  # the places of another input's length
        self.masked: dict[str, bool] = {}
        self.onednn = has_onednn()
        self.packed: dict[Key, Tensor] = {}  # weights in oneDNN's order

    def along(self, length: str) -> Rows:
        """The rows along a length."""
        return self.rows.setdefault(length, Rows(self.room))

    def hold(self, length: str, masked: bool, *places: Tensor) -> None:
        """What is known of the places along the length of another input."""
        self.masked[length], self.held[length] = masked, places

    def keep(self, key: Key, value: Tensor, own: bool) -> Tensor:
        """The value, for later steps; `own`: each example has its entry, in front."""
        self.values[key] = value, own
        return value

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x Wᵀ + b over x[batch, …, in]; a step of a few texts reads a copy of W that is ordered for it, made once.

        That is for float32 on a CPU, where PyTorch has oneDNN, and for as long as the texts are decoded.
        """
        plain = x.device.type != "cpu" or x.dtype != torch.float32 or torch.is_grad_enabled()
        if plain or len(x) not in FEW or x.numel() // x.shape[-1] not in FEW or not self.onednn:
            return F.linear(x, weight, bias)
        key = weight.data_ptr(), weight.shape
        if key not in self.packed:
            self.packed[key] = torch.ops.mkldnn._reorder_linear_weight(weight)
        made: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed[key], bias, "none", [], "")
        return made

    def take(self, chosen: Tensor) -> None:
        """These examples alone, in this order; one may come several times."""
        for rows in self.rows.values():
            rows.take(chosen)
        self.values = {key: (value[chosen] if own else value, own) for key, (value, own) in self.values.items()}
        self.held = {length: tuple(one[chosen] for one in places) for length, places in self.held.items()}


def has_onednn() -> bool:
    """Whether this PyTorch has oneDNN's products with a weight that is ordered before."""
    names = "_reorder_linear_weight", "_linear_pointwise"
    return all(hasattr(torch.ops.mkldnn, name) for name in names)


class Cached:
    """Decodes a batch step by step: each `feed` computes its new tokens alone, over what the steps before kept."""

    def __init__(self, step: Callable[[Cache, Tensor, Rows], Tensor], cache: Cache, length: str, limit: int) -> None:
        self.step, self.cache, self.limit = step, cache, limit
        self.rows = cache.along(length)

    def feed(self, ids: Tensor, counts: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        """logits[example, vocab] after each example's last new token.

        `ids[example, new]` begin at the left, `counts` of them are real (all, if none are given); `hidden` marks tokens
        that no later one may see. Raises ValueError for ids outside the table.
        """
        with torch.inference_mode():
            if not bool(((ids >= 0) & (ids < self.limit)).all()):
                raise ValueError(f"a new token is none of 0 … {self.limit - 1}")
            self.rows.advance(ids, counts, hidden)
            return self.step(self.cache, ids, self.rows)

    def take(self, rows: Tensor) -> None:
        """These examples alone, in this order; one may come several times."""
        with torch.inference_mode():
            self.cache.take(rows)


def kept_attention(
    q: Tensor, k: Tensor, v: Tensor, rows: Rows, scale: float, before: int | None = None, last: bool = False
) -> Tensor:
    """A @[key] V over [batch, head, new, width]: a new token sees the kept rows up to its own, or `before` of them.

    `last`: the query is each example's last token alone. Where all examples have as many rows, one token sees them all.
    """
    within = before is None or rows.keys <= before + 1
    if rows.even and within and (rows.new == 1 or last):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)
    if rows.even and within and not rows.before:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    own = (rows.stored - 1)[:, None] if last else rows.at
    gap = own[:, :, None] - torch.arange(rows.keys, device=q.device)
    near = rows.visible[:, None] & (gap >= 0)
    near = near if before is None else near & (gap <= before)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near[:, None], scale=scale)
