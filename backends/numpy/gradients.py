"""Run-time text of the NumPy backend for gradients: products, sums at places, and arrays as a checkpoint has them.

As in kernels.py everything is a small top-level function and needs nothing but numpy, the standard library and the
other files of this folder that are copied. A relation [owner, entry] is None where it always holds.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.draws import uniform
from .dense import gather
from .kernels import cores, run_parallel
from .results import left_aligned
from .weights import Table, TableRow, Weights, part_of, place, row_first, row_shape, stack_sizes, table_entries

Relation2 = NDArray[np.bool_] | None
ALONE = 1 << 16  # products of a matrix that BLAS gives one thread anyhow
SEVERAL = 1 << 17  # entries that are worth more than one thread


def stored_zeros(table: Table, dtype: Any, made: Weights | None = None) -> dict[str, NDArray[Any]]:
    """Stored name -> zeros in the layout of the file; of several homes of one weight the first.

    What is made for a whole weight, just as a tensor of its own is stored, is that tensor.
    """
    found: dict[str, NDArray[Any]] = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for row, index, name in table_entries(table):
        if (row[0], index) not in seen:
            seen.add((row[0], index))
            if name not in found:
                mine = (made or {}).get(row[0])
                stored = mine is not None and is_stored_so(row, mine, dtype)
                found[name] = np.asarray(mine) if stored else np.zeros(row_shape(row), dtype)
    return found


def is_stored_so(row: TableRow, array: NDArray[Any], dtype: Any) -> bool:
    """Whether a weight's array is just as a tensor of its file."""
    plain = not row[2] and not row[5] and list(row[4]) == sorted(row[4])
    return plain and array.shape == row_shape(row) and array.dtype == dtype and array.flags.c_contiguous


def weight_views(stored: dict[str, NDArray[Any]], table: Table) -> Weights:
    """Weight -> views of its stored tensors, as `assemble` gives them, that may be written into."""
    weights: Weights = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for row, index, name in table_entries(table):
        if (row[0], index) not in seen:
            seen.add((row[0], index))
            place(weights, row[0], index, stack_sizes(table, row[0]), view_of(row, index, stored[name]))
    return weights


def view_of(row: TableRow, index: Sequence[int], array: NDArray[Any]) -> NDArray[Any]:
    """The entry `index` of a weight's stack as a view, even of a single number."""
    whole: Any = part_of(row, [slice(i, i + 1) for i in index], array)  # type: ignore[misc]
    if not isinstance(whole, np.ndarray):  # NumPy hands out single numbers as copies
        first = row_first(row) if row[5] else 0
        return array.reshape(-1)[first : first + 1].reshape(())
    inside = sum(not place for place, _ in row[2])
    made: NDArray[Any] = whole.reshape(whole.shape[inside:])
    return made


def fill_weights(into: Weights, weights: Weights) -> None:
    """The numbers of the weights, put into arrays of the same shapes."""
    for name, array in into.items():
        fill_stack(array, weights[name])


def fill_stack(into: Any, values: Any) -> None:
    """An array, or each of a stack of arrays, overwritten."""
    if isinstance(into, list):
        for part, value in zip(into, values, strict=True):
            fill_stack(part, value)
    else:
        into[...] = values


def add_gradient(into: Any, gradient: Any) -> None:
    """Adds to an array, or to each of a stack of arrays; not what lies there already."""
    if isinstance(into, list):
        for part, value in zip(into, gradient, strict=True):
            add_gradient(part, value)
    elif not np.may_share_memory(into, gradient):
        into += gradient


def checked_totals(totals: Any, terms: int, dtype: Any) -> dict[str, NDArray[Any]]:
    """The input with the count of each term of a loss over all parts of a batch, if it is given."""
    if totals is None:
        return {}
    if not terms:
        raise ValueError("totals: this loss is no sum over examples, so its batch cannot be cut into parts")
    found = np.atleast_1d(np.asarray(totals, dtype))
    if found.shape != (terms,) or not np.isfinite(found).all():
        raise ValueError(f"totals should be {terms} numbers, the sum of loss_count over all parts of the batch")
    return {"loss_totals": found}


def if_any_not(there: NDArray[np.bool_]) -> Relation2:
    """The relation, None where it holds everywhere."""
    return None if there.all() else there


def zero_beyond(x: NDArray[Any], there: Relation2, owner: int, entry: int) -> NDArray[Any]:
    """x where the relation holds, 0 elsewhere; `owner` and `entry` are the dimensions of x that it speaks of."""
    if there is None:
        return x
    shape = [1] * x.ndim
    shape[owner], shape[entry] = x.shape[owner], x.shape[entry]
    return np.where((there if owner < entry else there.T).reshape(shape), x, x.dtype.type(0))


def lifted(there: Relation2, owner: int, entry: int, dimensions: int) -> Relation2:
    """The relation as an array of so many dimensions, of which it knows two."""
    if there is None:
        return None
    shape = [1] * dimensions
    shape[owner], shape[entry] = there.shape
    return (there if owner < entry else there.T).reshape(shape)


def given_positions(
    given: NDArray[Any] | None, places: tuple[Any, Any, Any], shape: tuple[int, int], width: int
) -> NDArray[Any]:
    """position_ids of each example moved to the left, 0, 1, … where none are given."""
    if given is None:
        return np.broadcast_to(np.arange(width), (shape[0], width))
    return left_aligned(np.broadcast_to(given, shape), places, width)


def drawn(seed: int | None, site: str, shape: Sequence[int], order: Sequence[int] = ()) -> NDArray[Any] | None:
    """Numbers in (0, 1) of a site and a step, as the reference draws them, their dimensions in another order.

    None where nothing is drawn."""
    if seed is None:
        return None
    numbers = uniform(seed, site, shape)
    return numbers.transpose(order) if order else numbers


def drawn_rows(numbers: NDArray[Any] | None, order: Sequence[int], *index: NDArray[Any]) -> NDArray[Any] | None:
    """Of what is drawn for all rows the numbers of some: of the dimensions in that order, at the index."""
    return None if numbers is None else gather(numbers.transpose(order), *index)


def dropped(x: NDArray[Any], rate: float, numbers: NDArray[Any] | None, over: bool = False) -> NDArray[Any]:
    """x / (1 - rate) where a number is not below the rate, else 0; x itself where nothing is drawn, or if `over` it."""
    if numbers is None:
        return x
    if not over:
        x = np.array(x)
    x /= x.dtype.type(max(1.0 - rate, 1e-300))
    np.copyto(x, 0, where=numbers < rate)
    return x


def product_of(left: NDArray[Any], right: NDArray[Any], text: str, threads: int | None = None) -> NDArray[Any]:
    """A sum of products as matrix products: "abc,cd->abd"; the result has the common letters first.

    Letters of the result that both have count the matrices, those that both have and the result has not are summed.
    """
    terms, result = text.split("->")
    first, second = terms.split(",")
    common = [c for c in first if c in second and c in result]
    over = [c for c in first if c in second and c not in result]
    rows, columns = [c for c in first if c not in second], [c for c in second if c not in first]
    if not rows and not columns:
        return np.asarray(np.einsum(f"{first},{second}->{''.join(common)}", left, right))
    size = dict(zip(first + second, left.shape + right.shape, strict=True))
    a = left.transpose([first.index(c) for c in (*common, *rows, *over)])
    b = right.transpose([second.index(c) for c in (*common, *over, *columns)])
    counts = [size[c] for c in common]
    m, k, n = (math.prod(size[c] for c in letters) for letters in (rows, over, columns))
    if len(rows) != 1 or len(over) != 1:
        a = a.reshape(*counts, m, k)
    if len(over) != 1 or len(columns) != 1:
        b = b.reshape(*counts, k, n)
    made = matrices(a, b, threads) if counts else np.matmul(a, b)
    return made.reshape([size[c] for c in (*common, *rows, *columns)])


def matrices(a: NDArray[Any], b: NDArray[Any], threads: int | None) -> NDArray[Any]:
    """a[…, m, k] @ b[…, k, n] by several threads, BLAS using one: its own would wait for each other at each matrix."""
    counts, work = a.shape[:-2], a.shape[-2] * a.shape[-1] * b.shape[-1]
    if work < ALONE or max(counts) < 2:
        return np.asarray(np.matmul(a, b))
    made = np.empty((*counts, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    axis = counts.index(max(counts))
    count = cores() if threads is None else threads
    ends = [counts[axis] * place // count for place in range(count + 1)]
    lead = (slice(None),) * axis

    def part(place: int) -> None:
        some = (*lead, slice(ends[place], ends[place + 1]))
        np.matmul(a[some], b[some], out=made[some])

    run_parallel(part, range(count), threads)
    return made


def in_parts(
    kernel: Callable[..., Any], threads: int | None, x: NDArray[Any], *beside: Any, **more: Any
) -> NDArray[Any]:
    """kernel(x, …), which works in place, by several threads: arrays with as many entries as x has are cut with it."""
    count = cores() if threads is None else threads
    if count < 2 or x.ndim < 2 or len(x) < count or x.size < SEVERAL:
        kernel(x, *beside, **more)
        return x
    ends = [len(x) * place // count for place in range(count + 1)]

    def cut(one: Any, place: int) -> Any:
        along = isinstance(one, np.ndarray) and one.ndim == x.ndim and len(one) == len(x)
        return one[ends[place] : ends[place + 1]] if along else one

    def part(place: int) -> None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            kernel(*(cut(one, place) for one in (x, *beside)), **more)

    run_parallel(part, range(count), threads)
    return x


def with_slope(slope: Callable[..., Any], threads: int | None, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(f(x), f'(x)) in one pass, the second in the memory of x."""
    y = np.empty(x.shape, x.dtype)
    return y, in_parts(slope, threads, x, y)


def scatter_add(
    shape: Sequence[int], values: NDArray[Any], keys: int, *index: NDArray[Any], there: Any = None
) -> NDArray[Any]:
    """y[i, j, …] += values for numbers that align with each other, over an array of zeros; out of range adds nothing.

    The first `keys` numbers are places that may be out of range; entries where `there` is false add nothing.
    """
    y: NDArray[Any] = np.zeros(shape, values.dtype)
    scatter_into(y, values, keys, *index, there=there)
    return y


def scatter_into(y: NDArray[Any], values: NDArray[Any], keys: int, *index: NDArray[Any], there: Any = None) -> None:
    """The same, added to an array that is there."""
    if not y.flags.c_contiguous:
        y += scatter_add(y.shape, values, keys, *index, there=there)
        return
    shape = y.shape
    if not y.size or not values.size:
        return
    good: NDArray[Any] = np.asarray(True if there is None else there)
    places = [np.asarray(one) for one in index]
    for number, size in zip(places[:keys], shape, strict=False):
        good = good & (number >= 0) & (number < size)  # NaN is out of range, too
    lead = np.broadcast_shapes(good.shape, *(one.shape for one in places))
    flat: NDArray[Any] = np.zeros(lead, np.intp)
    for number, size in zip(places, shape, strict=False):
        flat = flat * size + np.where(good, number, 0).astype(np.intp)
    wide = np.broadcast_to(values, (*lead, *shape[len(index) :])).reshape(flat.size, -1)
    flat, good = flat.reshape(-1), np.broadcast_to(good, lead).reshape(-1)
    if not good.all():
        flat, wide = flat[good], wide[good]
    add_rows(y.reshape(-1, wide.shape[1]), flat, wide)


def add_at(x: NDArray[Any], values: NDArray[Any], *index: NDArray[Any]) -> NDArray[Any]:
    """x[i, j, …] += values in place, for places that are all different; one out of range adds nothing."""
    good: NDArray[Any] = np.asarray(True)
    places = []
    for number, size in zip(index, x.shape, strict=True):
        inside = (number >= 0) & (number < size)
        good = good & inside
        places.append(np.where(inside, number, 0).astype(np.intp))  # the other numbers keep places different
    if x.size:
        x[tuple(places)] += np.where(good, values, 0)
    return x


def add_rows(y: NDArray[Any], at: NDArray[Any], rows: NDArray[Any]) -> None:
    """y[at] += rows, each as often as it is named: those of one place are summed side by side."""
    if not len(at):
        return
    order = np.argsort(at, kind="stable")
    at = at[order]
    starts = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    y[at[starts]] += rows if len(starts) == len(at) and (order[1:] > order[:-1]).all() else np.add.reduceat(
        rows[order], starts, axis=0
    )
