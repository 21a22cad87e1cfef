"""Run-time text of generated corruptions with NumPy: draws, picks, and the border of a call.

A draw is a function of seed, site, the number of the example and the places of the entry: integers of 64 bits, which
every machine and backend mixes alike (the finaliser of splitmix64).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

InputRow = tuple[str, str, bool]
OutputRow = tuple[str, str, bool, int | None]

GOLDEN = 0x9E3779B97F4A7C15


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(seed: int, site: int, first: Sequence[int], sizes: Sequence[int]) -> NDArray[np.float64]:
    """Numbers in (0, 1) with these sizes, at the places `first` of the axes before them."""
    state = mixed(np.array([(int(seed) + GOLDEN) % 2**64], np.uint64)) ^ np.uint64(site)
    for place in first:
        state = mixed(state + np.uint64((int(place) + 1) * GOLDEN % 2**64))
    for size in sizes:
        state = mixed(state[..., None] + np.arange(1, size + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    result: NDArray[np.float64] = ((mixed(state) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
    return result.reshape(tuple(sizes))


def chosen(x: NDArray[Any], *index: Any) -> NDArray[Any]:
    """x[i, j, …] for numbers that align; a number out of range gives the least whole number, NaN or false."""
    bad: Any = np.False_
    inside = []
    for number, size in zip(index, x.shape, strict=False):
        bad = bad | (np.asarray(number) < 0) | (np.asarray(number) >= size)
        inside.append(np.clip(number, 0, max(size - 1, 0)).astype(np.intp))
    none = {"b": False, "f": np.nan}.get(x.dtype.kind, np.iinfo(np.int64).min)
    if 0 in x.shape[: len(index)]:
        shape = np.broadcast_shapes(*(one.shape for one in inside)) + x.shape[len(index) :]
        return np.full(shape, none, x.dtype)
    found: NDArray[Any] = x[tuple(inside)]
    return np.where(np.reshape(bad, np.shape(bad) + (1,) * (found.ndim - np.ndim(bad))), none, found).astype(x.dtype)


MOST = 2**24


def counted(n: Any) -> int:
    """How long a new text is; ValueError where that is no text any more."""
    if int(n) > MOST:
        raise ValueError(f"a result would have {int(n):,} entries, and {MOST:,} are the most")
    return int(n)


def whole(name: str, x: Any) -> NDArray[np.int64]:
    """A result as whole numbers; ValueError where it reads an entry that does not exist."""
    x = np.asarray(x)
    if (x == np.iinfo(np.int64).min).any() or (x.dtype.kind == "f" and not np.isfinite(x).all()):
        raise ValueError(f"{name} reads an entry that does not exist")
    found: NDArray[np.int64] = x.astype(np.int64)
    return found


class Texts:
    """The texts of a call: what the mask shows of each row, and numbers, one for all texts or one for each.

    ValueError says which input does not fit, and why.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        inputs: Sequence[InputRow],
        masks: Mapping[str, str],
        shares: Sequence[str],
        example: Any,
    ) -> None:
        self.masks = masks
        self.arrays = {name: as_texts(name, given[name]) for name, at, _ in inputs if at and given[name] is not None}
        missing = [name for name, _, needed in inputs if needed and given[name] is None]
        if missing:
            raise ValueError(f"the input {missing[0]!r} is missing")
        self.batch = len(next(iter(self.arrays.values()))[0])
        self.shapes: dict[str, tuple[int, int]] = {}
        self.columns = {at: self.shown(mask, at, given[mask], inputs) for mask, at in masks.items()}
        numbers = {name: self.number(name, given[name], name in shares) for name, at, _ in inputs if not at}
        examples = self.number("example", range(self.batch) if example is None else example, False)
        if any(one < 0 for one in examples or ()):
            raise ValueError("the number of an example counts from 0")
        self.rows = [
            (
                one,
                *(len(self.columns[at][row]) for at in masks.values()),
                *(self.taken(name, at, row) if at else numbers[name][row] for name, at, _ in inputs),
            )
            for row, one in enumerate(examples)
        ]

    def shown(self, mask: str, at: str, given: Any, inputs: Sequence[InputRow]) -> list[NDArray[np.intp]]:
        """The columns of each text that the mask of a length shows."""
        names = [name for name, length, _ in inputs if length == at and name in self.arrays]
        shape = self.shapes[at] = self.arrays[names[0]][0].shape
        for name in names[1:]:
            if self.arrays[name][0].shape != shape:
                raise ValueError(f"{name} is {list(self.arrays[name][0].shape)} where {names[0]} is {list(shape)}")
        if len(shape) != 2 or shape[0] != self.batch:
            raise ValueError(f"{names[0]} should be [{self.batch}, length], not {list(shape)}")
        real = self.arrays[names[0]][1] if given is None else as_texts(mask, given)[0] != 0
        if real.shape != shape:
            raise ValueError(f"{mask} is {list(real.shape)} where {names[0]} is {list(shape)}")
        return [np.flatnonzero(one) for one in real]

    def taken(self, name: str, at: str, row: int) -> NDArray[np.int64] | None:
        """The entries of one text."""
        return self.arrays[name][0][row, self.columns[at][row]] if name in self.arrays else None

    def number(self, name: str, given: Any, share: bool) -> list[Any]:
        """A number for each text."""
        if given is None:
            return [None] * self.batch
        x = np.asarray(given)
        fits = x.ndim == 0 or (x.ndim == 1 and len(x) == self.batch)
        if not fits or x.dtype.kind not in "biuf" or not np.isfinite(x).all():
            raise ValueError(f"{name} is a number, or one for each of {self.batch} texts, and not {given!r}"[:200])
        if share and not ((x >= 0) & (x <= 1)).all():
            raise ValueError(f"{name} is a share between 0 and 1, and not {given!r}"[:200])
        found = (x.astype(float) if x.dtype.kind == "f" else x.astype(np.int64)).tolist()
        return found if x.ndim else [found] * self.batch

    def left(self, made: Sequence[Mapping[str, Any]], outputs: Sequence[OutputRow], pad: int) -> dict[str, Any]:
        """The results of all texts: at the caller's places, or, of another length, padded on the right; with masks."""
        found: dict[str, Any] = {}
        for name, at, new, fill in outputs:
            rows = [whole(name, one[name]) for one in made]
            if not at:
                found[name] = np.array(rows, np.int64).reshape(self.batch)
                continue
            shape = (self.batch, max((len(one) for one in rows), default=0)) if new else self.shapes[at]
            x = np.full(shape, pad if fill is None else fill, np.int64)
            if not new and name in self.arrays:
                x[:] = self.arrays[name][0]
            real = np.zeros(shape, np.int64)
            for row, one in enumerate(rows):
                columns = np.arange(len(one)) if new else self.columns[at][row]
                x[row, columns], real[row, columns] = one, 1
            found[name] = x
            if fill is None:
                found[f"{name.removesuffix('input_ids')}attention_mask"] = real
        return found


def as_texts(name: str, given: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Whole numbers [batch, length] and which are there; rows of lists may differ in length."""
    if hasattr(given, "shape"):
        x = np.asarray(given)
        real = np.ones(x.shape, bool)
    elif not all(hasattr(one, "__len__") for one in given):
        raise ValueError(f"{name} should be whole numbers [batch, length], and is one list")
    else:
        rows = [np.asarray(one if len(one) else np.zeros(0, np.int64)) for one in given]
        counts = np.array([len(one) for one in rows], np.int64)
        real = np.arange(counts.max(initial=0)) < counts[:, None]
        x = np.zeros(real.shape, np.result_type(np.int64, *rows))
        for at, one in enumerate(rows):
            x[at, : len(one)] = one
    if x.ndim != 2 or x.dtype.kind not in "biuf" or (x.dtype.kind == "f" and not np.equal(x, np.floor(x)).all()):
        raise ValueError(f"{name} should be whole numbers [batch, length], not {x.dtype} {list(x.shape)}")
    return x.astype(np.int64), real
