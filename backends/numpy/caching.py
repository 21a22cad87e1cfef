"""Run-time memory of a text that is decoded: rows that earlier steps kept, and the step over them.

Copied into generated modules like kernels.py. The rows of a value lie as [example * room + place, …]: each example has
`room` places, of which its first `count` hold rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .border import check_ids
from .kernels import BoolArray, IntArray, run_parallel

Key = tuple[Any, ...]  # the name of a value, and the numbers of the steps whose it is
Step = Callable[["Cache", IntArray, IntArray, IntArray], NDArray[Any]]


class Rows:
    """The rows along one length: how many each example has, which of them nobody may see, and the values.

    With a `window`, rows before the last so many old ones may go: an example has `stored` of its `count` rows, those
    behind the first `dropped`; `shift` is that number for each new row.
    """

    def __init__(self, examples: int, room: int, window: int | None = None) -> None:
        self.count = self.stored = self.dropped = self.shift = np.zeros(examples, np.intp)
        self.room, self.window = room, window
        self.hidden: BoolArray | None = None
        self.values: dict[Key, NDArray[Any]] = {}
        self.at: slice | IntArray = slice(0, 0)  # where the new rows go
        self.bands: dict[int, Rows] = {}
        self.new: tuple[IntArray, BoolArray | None] | None = None

    def within(self, window: int | None) -> Rows:
        """The rows of values of which a later row sees `window` old ones alone: these, if it sees all."""
        if window is None:
            return self
        if window not in self.bands:
            band = self.bands[window] = Rows(len(self.count), min(self.room, 2 * window + 1), window)
            if self.new is not None:
                band.advance(*self.new)
        return self.bands[window]

    def advance(self, lengths: IntArray, hidden: BoolArray | None) -> None:
        """Counts `lengths` new rows of each example and makes room for them; `hidden` marks those not to be seen."""
        self.new, examples = (lengths, hidden), len(lengths)
        for band in self.bands.values():
            band.advance(lengths, hidden)
        most = int((self.stored + lengths).max(initial=0))
        if most > self.room:
            if self.window is not None:
                most = self.forget(lengths)
            else:
                self.grow(max(most, 2 * self.room))
        before = self.stored
        self.count, self.stored = self.count + lengths, before + lengths
        self.shift = np.repeat(self.dropped, lengths)
        if examples == 1:
            self.at = slice(int(before[0]), int(self.stored[0]))
        else:
            shift = np.arange(examples) * self.room + before - (np.cumsum(lengths) - lengths)
            self.at = np.arange(int(lengths.sum())) + np.repeat(shift, lengths)
        if hidden is not None and self.hidden is None:
            self.hidden = np.zeros(examples * self.room, np.bool_)
        if self.hidden is not None:
            self.hidden[self.at] = False if hidden is None else hidden

    def append(self, key: Key, value: NDArray[Any]) -> NDArray[Any]:
        """All rows of a value, the new ones among them; value[row, …] are those."""
        rows = self.values.get(key)
        if rows is None:
            rows = self.values[key] = np.zeros((len(self.count) * self.room, *value.shape[1:]), value.dtype)
        rows[self.at] = value
        return rows

    def of(self, example: int) -> slice:
        """Where the rows of an example are."""
        return slice(example * self.room, example * self.room + int(self.stored[example]))

    def append_of(self, example: int, key: Key, value: NDArray[Any]) -> NDArray[Any]:
        """All rows of one example's value, the new ones among them; value[row, …] are those."""
        rows = self.values.get(key)
        if rows is None:
            rows = self.values[key] = np.zeros((len(self.count) * self.room, *value.shape[1:]), value.dtype)
        made = rows[self.of(example)]
        made[len(made) - len(value) :] = value
        return made

    def seen(self, example: int) -> BoolArray:
        """Which rows of an example may be seen."""
        if self.hidden is None:
            return np.ones(int(self.stored[example]), np.bool_)
        return np.asarray(~self.hidden[self.of(example)])

    def grow(self, room: int) -> None:
        """More places for each example."""
        self.rearrange(np.arange(len(self.count)), room)

    def forget(self, lengths: IntArray) -> int:
        """Leaves the last `window` rows of each example, and makes room for new ones; how many that are at most."""
        kept = np.minimum(self.stored, self.window or 0)
        drop, most = self.stored - kept, int((kept + lengths).max(initial=0))
        room = max(most, 2 * (self.window or 0) + 1)
        places = np.minimum(drop[:, None] + np.arange(int(kept.max(initial=0))), self.room - 1)
        self.rearrange(np.arange(len(kept)), room, places)
        self.dropped, self.stored = self.dropped + drop, kept
        return most

    def rearrange(self, chosen: IntArray, room: int, places: IntArray | None = None) -> None:
        """These examples, in this order, with so many places each: of all their rows, or those at places[example]."""
        old, self.room = self.room, room
        used = min(int(self.stored.max(initial=0)), old) if places is None else places.shape[1]

        def moved(rows: NDArray[Any]) -> NDArray[Any]:
            whole = rows.reshape(len(rows) // old, old, *rows.shape[1:])
            made = np.zeros((len(chosen), room, *rows.shape[1:]), rows.dtype)
            made[:, :used] = whole[chosen, :used] if places is None else whole[chosen[:, None], places]
            return made.reshape(-1, *rows.shape[1:])

        self.values = {key: moved(rows) for key, rows in self.values.items()}
        self.hidden = None if self.hidden is None else moved(self.hidden)

    def take(self, chosen: IntArray) -> None:
        """These examples alone, in this order."""
        self.rearrange(chosen, self.room)
        self.count, self.stored, self.dropped = self.count[chosen], self.stored[chosen], self.dropped[chosen]
        for band in self.bands.values():
            band.take(chosen)


class Cache:
    """What a batch of texts has computed so far: rows by length, and values without one."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.rows: dict[str, Rows] = {}
        self.values: dict[Key, tuple[NDArray[Any], bool]] = {}  # and whether each example has its own

    def along(self, length: str, room: int = 64) -> Rows:
        """The rows along a length; `room` places for each example to begin with."""
        if length not in self.rows:
            self.rows[length] = Rows(self.examples, max(room, 1))
        return self.rows[length]

    def keep(self, key: Key, value: NDArray[Any], own: bool) -> NDArray[Any]:
        """The value, for later steps; `own`: each example has its entry."""
        self.values[key] = np.array(value), own
        return value

    def take(self, chosen: IntArray) -> None:
        """These examples alone, in this order; one may come several times."""
        for rows in self.rows.values():
            rows.take(chosen)
        self.values = {key: (value[chosen] if own else value, own) for key, (value, own) in self.values.items()}
        self.examples = len(chosen)


class Cached:
    """Decodes a batch step by step: each `feed` computes its new tokens alone, over what the steps before kept."""

    def __init__(
        self, step: Step, cache: Cache, length: str, limit: int, room: int = 64, threads: int | None = None
    ) -> None:
        self.step, self.cache, self.limit, self.threads = step, cache, limit, threads
        self.rows = cache.along(length, room)

    def feed(self, ids: NDArray[Any], counts: IntArray | None = None, hidden: BoolArray | None = None) -> NDArray[Any]:
        """logits[example, vocab] after each example's last new token.

        `ids[example, new]` begin at the left, `counts` of them are real (all, if none are given); `hidden` marks tokens
        that no later one may see. Raises ValueError for ids outside the table.
        """
        lengths = np.full(len(ids), ids.shape[1], np.intp) if counts is None else np.asarray(counts, np.intp)
        index = np.arange(ids.shape[1])
        real = index < lengths[:, None]
        tokens = np.asarray(ids)[real]
        check_ids("a new token", tokens, self.limit)
        self.rows.advance(lengths, None if hidden is None or not hidden[real].any() else hidden[real])
        places = np.broadcast_to(index, real.shape)[real]

        def step(rows: NDArray[Any]) -> NDArray[Any]:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                return self.step(self.cache, lengths, places, rows)

        return run_parallel(step, [tokens], self.threads)[0]

    def take(self, rows: IntArray) -> None:
        """These examples alone, in this order; one may come several times."""
        self.cache.take(np.asarray(rows, np.intp))
