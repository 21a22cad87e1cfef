"""What a decoder keeps of a text: bytes for each token, for each example, and what windows let go.

Read off the derived step (decoding/): keys and values as they are kept there, with key-value heads only; what no token
goes into (the keys and values of cross-attention) once for an example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import cost
from .driver import Compiled
from .explain import KeptRows, kept_rows
from .sizes import USUAL, Sizes


@dataclass(frozen=True)
class CacheRow(KeptRows):
    """A value whose rows are kept: what of a token or (`once`) of an example; `window` old rows at most, by step."""

    window: tuple[int | None, ...] = ()

    def after(self, tokens: int) -> int:
        """The bytes that are needed of an example of so many tokens for the next one."""
        if self.once:
            return self.bytes
        if not self.window:
            return self.bytes * tokens
        rows = sum(tokens if far is None else min(tokens, far) for far in self.window)
        return self.bytes // len(self.window) * rows


@dataclass(frozen=True)
class Cache:
    """What a decoder keeps of an example: bytes of each token, and bytes `once`.

    `per_token_at_last` is what a token adds when the windows are full; `after_length` and `step_flops` (of one token
    more for each example) are those behind a text of the summary's length.
    """

    per_token: int
    per_token_at_last: int
    once: int
    after_length: int
    step_flops: int
    rows: tuple[CacheRow, ...]

    def after(self, tokens: int) -> int:
        """The bytes that are kept of an example of so many tokens."""
        return sum(row.after(tokens) for row in self.rows)


def cache_of(compiled: Compiled, sizes: Sizes = USUAL, word: int = cost.WORD) -> Cache | None:
    """What the derived step keeps, numbers of `word` bytes; None of a model that does not decode."""
    made = compiled.decoding
    if made is None:
        return None
    rows = tuple(_cache_row(kept_rows(row, made, sizes, word), row.window) for row in made.kept)
    grown = Cache(0, 0, 0, 0, 0, rows)
    far = max((back for row in rows for back in row.window if back is not None), default=0)
    new = replace(sizes, lengths={**sizes.lengths, made.new.name: 1})
    return Cache(
        sum(row.bytes for row in rows if not row.once),
        grown.after(far + 1) - grown.after(far),
        grown.after(0),
        grown.after(sizes.length),
        cost.flops(made.step, new),
        rows,
    )


def _cache_row(row: KeptRows, window: tuple[int | None, ...]) -> CacheRow:
    return CacheRow(row.name, row.axes, row.steps, row.bytes, row.once, window)
