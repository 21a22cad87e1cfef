"""Run-time text of the NumPy backend around a call: which results are wanted, and how they are put together.

Copied into generated modules like kernels.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import pack

OutputRow = tuple[str, tuple[str, ...]]  # (name, names of its dimensions: batch, lengths, or sizes as numbers)
Results = dict[str, NDArray[Any]]


def check_outputs(wanted: Sequence[str] | None, outputs: Sequence[OutputRow]) -> list[str]:
    """The names of the results to compute: all, or those asked for; ValueError names an unknown one."""
    known = [row[0] for row in outputs]
    if wanted is None:
        return known
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no result {name!r}: there is {', '.join(known)}")
    return [name for name in known if name in wanted]


def rows_of(given: Mapping[str, NDArray[Any]], name: str, where: NDArray[np.intp], default: NDArray[Any] | None) -> Any:
    """The packed rows of an input [batch, seq, …]; what is not given is the default."""
    if name not in given:
        return default
    value = given[name]
    if value.ndim == 1 or (value.shape[0] == 1 and name == "position_ids"):
        return value.reshape(-1)[where % value.shape[-1]]
    return value.reshape(-1, *value.shape[2:])[where]


def chunk_rows(starts: NDArray[np.intp], lengths: NDArray[np.intp], part: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers of the packed rows of some examples, example after example."""
    sizes = lengths[part]
    shift = starts[part] - (np.cumsum(sizes) - sizes)
    return np.asarray(np.repeat(shift, sizes) + np.arange(int(sizes.sum())), np.intp)


def keep(results: Results, name: str, value: NDArray[Any], at: NDArray[np.intp], size: int) -> None:
    """Puts a chunk's part of a result at its places, zeros elsewhere; safe from several threads."""
    whole = results.get(name)
    if whole is None:
        whole = results.setdefault(name, np.zeros((size, *value.shape[1:]), value.dtype))
    whole[at] = value


def finished(
    results: Results,
    wanted: Sequence[str],
    outputs: Sequence[OutputRow],
    where: NDArray[np.intp],
    shape: tuple[int, ...],
    dtype: Any,
    given: Mapping[str, int] | None = None,
) -> Results:
    """Results in the caller's shapes: rows back at their padded places, zeros where there is padding or no example.

    `given` are sizes of dimensions that are no padded places: those of other inputs.
    """
    own = given or {}
    made: Results = {}
    for name, dimensions in outputs:
        if name not in wanted:
            continue
        sizes = [own[d] if d in own else int(d) for d in dimensions if d in own or d.isdigit()]
        per_row = len(dimensions) > len(sizes) + 1
        value = results.get(name)
        if value is None:
            value = np.zeros((len(where) if per_row else shape[0], *sizes), dtype)
        if per_row:
            padded = np.zeros((shape[0] * shape[1], *value.shape[1:]), value.dtype)
            padded[where] = value
            place = next(p for p, d in enumerate(dimensions) if p > 0 and not d.isdigit() and d not in own)
            value = np.moveaxis(padded.reshape(*shape, *value.shape[1:]), 1, place)
        made[name] = checked_result(name, value)
    return made


def checked_result(name: str, value: NDArray[Any]) -> NDArray[Any]:
    """The result, or an error when an entry that does not exist was read into it."""
    if value.dtype.kind == "f" and np.isnan(value).any():
        raise ValueError(f"{name} reads an entry that does not exist (or the weights or inputs hold NaN)")
    return value


def listed(results: Results, places: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Results whose steps, `depth` axes from axis `at` on, become a tuple: one value for each step."""
    made: dict[str, Any] = dict(results)
    for name, (at, depth) in places.items():
        if name in made:
            moved = np.moveaxis(made[name], range(at, at + depth), range(depth))
            made[name] = tuple(moved.reshape(-1, *moved.shape[depth:]))
    return made


def grouped(results: Mapping[str, Any], groups: tuple[int, ...]) -> dict[str, Any]:
    """Results [group, …] with the axes that make up a group in front: [batch, choice, …]; of each value of a tuple."""

    def parted(value: Any) -> Any:
        return value.reshape(*groups, *value.shape[1:])

    return {name: tuple(map(parted, v)) if isinstance(v, tuple) else parted(v) for name, v in results.items()}


def row_of_example(x: NDArray[Any], lengths: NDArray[np.intp], number: Any) -> NDArray[Any]:
    """x[seq = number] of each example, for one number, or number[example, …]; NaN where there is no such row."""
    starts = np.cumsum(lengths) - lengths
    place = np.asarray(number)
    many = (...,) + (None,) * (place.ndim - 1)
    there = (place >= 0) & (place < lengths[many])
    y: NDArray[Any] = x[starts[many] + np.where(there, place, 0).astype(np.intp)]
    if not there.all():
        y = y if y.dtype.kind == "f" else y.astype(float)
        y[~there] = np.nan
    return y


def put_example(
    whole: NDArray[Any], value: NDArray[Any], example: int, columns: Sequence[Any], see: Sequence[Any] = ()
) -> None:
    """whole[example, c1, c2, …] = value, a length's entries at their padded columns, other axes as they are.

    `see` says for an axis which of its entries may be seen (None: all); the others are 0.
    """
    for axis, visible in enumerate(see):
        if visible is not None:
            value = np.where(visible.reshape([-1 if a == axis else 1 for a in range(value.ndim)]), value, 0)
    index: list[Any] = [
        np.arange(size) if isinstance(c, str) else c for c, size in zip(columns, value.shape, strict=True)
    ]
    place: tuple[Any, ...] = (example, *np.ix_(*index))
    whole[place] = value


def align_left(mask: NDArray[Any]) -> tuple[tuple[Any, Any, Any], NDArray[np.intp], NDArray[np.bool_]]:
    """mask[batch, seq] -> (places, lengths, visible[batch, width]): each example moved to the left.

    `places` are (row, column in the padded batch, column at the left) of each entry, for `left_aligned`.
    """
    where, lengths, hidden, index = pack(mask)
    rows, columns = np.divmod(where, max(mask.shape[1], 1))
    visible = np.zeros((len(mask), int(lengths.max(initial=0))), np.bool_)
    visible[rows, index] = True if hidden is None else ~hidden
    return (rows, columns, index), lengths, visible


def left_aligned(x: NDArray[Any], places: tuple[Any, Any, Any], width: int) -> NDArray[Any]:
    """x[batch, seq, …] with each example moved to the left, zeros behind it."""
    rows, columns, index = places
    y = np.zeros((len(x), width, *x.shape[2:]), x.dtype)
    y[rows, index] = x[rows, columns]
    return y


def put_back(x: NDArray[Any], places: tuple[Any, Any, Any], shape: tuple[int, int]) -> NDArray[Any]:
    """The other way: x[batch, width, …] at the places of the padded batch, zeros elsewhere."""
    rows, columns, index = places
    y = np.zeros((*shape, *x.shape[2:]), x.dtype)
    y[rows, columns] = x[rows, index]
    return y


def rows_at(x: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
    """y[row, …] = x[rows, columns, …] for different places in their order; all of them are a view of x."""
    if len(rows) == x.shape[0] * x.shape[1]:
        return x.reshape(-1, *x.shape[2:])
    y: NDArray[Any] = x[rows, columns]
    return y


def rows_put_back(
    x: NDArray[Any], shape: tuple[int, int], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[Any]:
    """The other way: x[row, …] at the places of y[batch, width, …], zeros elsewhere."""
    if len(rows) == shape[0] * shape[1]:
        return x.reshape(*shape, *x.shape[1:])
    y = np.zeros((*shape, *x.shape[1:]), x.dtype)
    y[rows, columns] = x
    return y


def prepared(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A parameter in the model's type, contiguous."""
    return np.asarray(array, dtype, order="C")
