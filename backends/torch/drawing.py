"""Run-time text of generated corruptions with PyTorch: draws, picks, and the border of a call.

Draws are those of the NumPy module to the last bit: integers of 64 bits, which wrap, and exact steps to float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

InputRow = tuple[str, str, bool]
OutputRow = tuple[str, str, bool, int | None]

GOLDEN = 0x9E3779B97F4A7C15


def signed(x: int) -> int:
    """The whole number of 64 bits with a sign that has the same bits."""
    return (x + 2**63) % 2**64 - 2**63


def shifted(x: Tensor, by: int) -> Tensor:
    """The bits moved to the right, with zeros from the left."""
    kept: int = 2 ** (64 - by) - 1
    return (x >> by) & kept


def mixed(x: Tensor) -> Tensor:
    """splitmix64's finaliser."""
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    y: Tensor = x ^ shifted(x, 31)
    return y


def uniform(seed: int, site: int, first: Sequence[int], sizes: Sequence[int], device: Any) -> Tensor:
    """Numbers in (0, 1) with these sizes, at the places `first` of the axes before them."""
    state = mixed(torch.tensor(signed(int(seed) + GOLDEN), device=device)) ^ signed(site)
    for place in first:
        state = mixed(state + signed((int(place) + 1) * GOLDEN))
    for size in sizes:
        state = mixed(state[..., None] + torch.arange(1, size + 1, device=device) * signed(GOLDEN))
    drawn: Tensor = (shifted(mixed(state), 12).double() + 0.5) / 2.0**52
    return drawn


def chosen(x: Tensor, *index: Tensor | int) -> Tensor:
    """x[i, j, …] for numbers that align; a number out of range gives the least whole number, NaN or false."""
    places = [torch.as_tensor(one, device=x.device).long() for one in index]
    bad = torch.zeros((), dtype=torch.bool, device=x.device)
    for one, size in zip(places, x.shape, strict=False):
        bad = bad | (one < 0) | (one >= size)
    none = float("nan") if x.is_floating_point() else False if x.dtype == torch.bool else torch.iinfo(torch.int64).min
    if 0 in x.shape[: len(places)]:
        return x.new_full(bad.shape + x.shape[len(places) :], none)
    found = x[tuple(one.clamp(0, size - 1) for one, size in zip(places, x.shape, strict=False))]
    return found.masked_fill(bad.reshape(bad.shape + (1,) * (found.dim() - bad.dim())), none)


MOST = 2**24


def counted(n: Any) -> int:
    """How long a new text is; ValueError where that is no text any more."""
    if int(n) > MOST:
        raise ValueError(f"a result would have {int(n):,} entries, and {MOST:,} are the most")
    return int(n)


def whole(name: str, x: Any) -> Tensor:
    """A result as whole numbers; ValueError where it reads an entry that does not exist."""
    x = torch.as_tensor(x)
    if bool((x == torch.iinfo(torch.int64).min).any()) or not bool(torch.isfinite(x.double()).all()):
        raise ValueError(f"{name} reads an entry that does not exist")
    found: Tensor = x.long()
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
        self.device = next((x.device for x in given.values() if isinstance(x, Tensor) and x.dim() == 2), None)
        self.arrays = {
            name: as_texts(name, given[name], self.device) for name, at, _ in inputs if at and given[name] is not None
        }
        missing = [name for name, _, needed in inputs if needed and given[name] is None]
        if missing:
            raise ValueError(f"the input {missing[0]!r} is missing")
        self.batch = len(next(iter(self.arrays.values()))[0])
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.columns = {at: self.shown(mask, at, given[mask], inputs) for mask, at in masks.items()}
        numbers = {name: self.number(name, given[name], name in shares) for name, at, _ in inputs if not at}
        examples = self.number("example", list(range(self.batch)) if example is None else example, False)
        if any(one < 0 for one in examples):
            raise ValueError("the number of an example counts from 0")
        self.rows = [
            (
                int(one),
                *(len(self.columns[at][row]) for at in masks.values()),
                *(self.taken(name, at, row) if at else numbers[name][row] for name, at, _ in inputs),
            )
            for row, one in enumerate(examples)
        ]

    def shown(self, mask: str, at: str, given: Any, inputs: Sequence[InputRow]) -> list[Tensor]:
        """The columns of each text that the mask of a length shows."""
        names = [name for name, length, _ in inputs if length == at and name in self.arrays]
        shape = self.shapes[at] = tuple(self.arrays[names[0]][0].shape)
        for name in names[1:]:
            if self.arrays[name][0].shape != shape:
                raise ValueError(f"{name} is {list(self.arrays[name][0].shape)} where {names[0]} is {list(shape)}")
        if shape[0] != self.batch:
            raise ValueError(f"{names[0]} should be [{self.batch}, length], not {list(shape)}")
        real = self.arrays[names[0]][1] if given is None else as_texts(mask, given, self.device)[0] != 0
        if real.shape != shape:
            raise ValueError(f"{mask} is {list(real.shape)} where {names[0]} is {list(shape)}")
        return [one.nonzero()[:, 0] for one in real]

    def taken(self, name: str, at: str, row: int) -> Tensor | None:
        """The entries of one text."""
        return self.arrays[name][0][row, self.columns[at][row]] if name in self.arrays else None

    def number(self, name: str, given: Any, share: bool) -> list[Any]:
        """A number for each text."""
        if given is None:
            return [None] * self.batch
        x = torch.as_tensor(given, dtype=torch.float64 if isinstance(given, float) else None, device=self.device)
        if x.dim() > 1 or (x.dim() == 1 and len(x) != self.batch) or not bool(torch.isfinite(x.double()).all()):
            raise ValueError(f"{name} is a number, or one for each of {self.batch} texts, and not {given!r}"[:200])
        if share and not bool(((x >= 0) & (x <= 1)).all()):
            raise ValueError(f"{name} is a share between 0 and 1, and not {given!r}"[:200])
        x = x.double() if x.is_floating_point() else x.long()
        return list(x) if x.dim() else [x] * self.batch

    def left(self, made: Sequence[Mapping[str, Any]], outputs: Sequence[OutputRow], pad: int) -> dict[str, Any]:
        """The results of all texts: at the caller's places, or, of another length, padded on the right; with masks."""
        found: dict[str, Any] = {}
        for name, at, new, fill in outputs:
            rows = [whole(name, one[name]) for one in made]
            if not at:
                found[name] = torch.tensor([int(one) for one in rows], dtype=torch.int64, device=self.device)
                continue
            shape = (self.batch, max((len(one) for one in rows), default=0)) if new else self.shapes[at]
            x = torch.full(shape, pad if fill is None else fill, dtype=torch.int64, device=self.device)
            if not new and name in self.arrays:
                x.copy_(self.arrays[name][0])
            real = torch.zeros_like(x)
            for row, one in enumerate(rows):
                columns = torch.arange(len(one), device=self.device) if new else self.columns[at][row]
                x[row, columns], real[row, columns] = one, 1
            found[name] = x
            if fill is None:
                found[f"{name.removesuffix('input_ids')}attention_mask"] = real
        return found


def as_texts(name: str, given: Any, device: Any) -> tuple[Tensor, Tensor]:
    """Whole numbers [batch, length] and which are there; rows of lists may differ in length."""
    if hasattr(given, "shape"):
        x = torch.as_tensor(given, device=device)
        real = torch.ones_like(x, dtype=torch.bool)
    elif not all(hasattr(one, "__len__") for one in given):
        raise ValueError(f"{name} should be whole numbers [batch, length], and is one list")
    else:
        rows = [torch.as_tensor(one, device=device) for one in given]
        counts = torch.tensor([len(one) for one in rows], dtype=torch.int64, device=device)
        real = torch.arange(max((len(one) for one in rows), default=0), device=device) < counts[:, None]
        x = torch.zeros(real.shape, dtype=torch.float64, device=device)
        for at, one in enumerate(rows):
            x[at, : len(one)] = one
    if x.dim() != 2 or (x.is_floating_point() and not bool((x == x.floor()).all())):
        raise ValueError(f"{name} should be whole numbers [batch, length], not {x.dtype} {list(x.shape)}")
    return x.long(), real
