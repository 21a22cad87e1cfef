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
    """The rows along one length: how many each example has, which of them nobody may see, and the values."""

    def __init__(self, examples: int, room: int) -> None:
        self.count = np.zeros(examples, np.intp)
        self.room = room
        self.hidden: BoolArray | None = None
        self.values: dict[Key, NDArray[Any]] = {}
        self.at: slice | IntArray = slice(0, 0)  # where the new rows go

    def advance(self, lengths: IntArray, hidden: BoolArray | None) -> None:
        """Counts `lengths` new rows of each example and makes room for them; `hidden` marks those not to be seen."""
        before, examples = self.count, len(lengths)
        self.count = before + lengths
        if self.count.max(initial=0) > self.room:
            self.grow(max(int(self.count.max()), 2 * self.room))
        if examples == 1:
            self.at = slice(int(before[0]), int(self.count[0]))
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
        return slice(example * self.room, example * self.room + int(self.count[example]))

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
            return np.ones(int(self.count[example]), np.bool_)
        return np.asarray(~self.hidden[self.of(example)])

    def grow(self, room: int) -> None:
        """More places for each example."""
        self.rearrange(np.arange(len(self.count)), room)

    def rearrange(self, chosen: IntArray, room: int) -> None:
        """These examples, in this order, with so many places each."""
        old, self.room, used = self.room, room, int(self.count.max(initial=0))

        def moved(rows: NDArray[Any]) -> NDArray[Any]:
            made = np.zeros((len(chosen), room, *rows.shape[1:]), rows.dtype)
            kept = min(used, old)
            made[:, :kept] = rows.reshape(len(rows) // old, old, *rows.shape[1:])[chosen, :kept]
            return made.reshape(-1, *rows.shape[1:])

        self.values = {key: moved(rows) for key, rows in self.values.items()}
        self.hidden = None if self.hidden is None else moved(self.hidden)


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
            rows.rearrange(chosen, rows.room)
            rows.count = rows.count[chosen]
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
