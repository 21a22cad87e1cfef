"""Run-time text of the NumPy backend that finds and checks weights; the emitter copies it into modules.

As in kernels.py everything is a small top-level function, an UPPER_CASE constant or a type alias, and needs
nothing but numpy, the standard library and files.py. backends/checkpoint_table.py tells what a table holds.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import Stored

Dimensions = tuple[tuple[tuple[str, int], ...], ...]
Cut = tuple[()] | tuple[int, int, int, int]
TableRow = tuple[str, str, tuple[tuple[str, int], ...], Dimensions, tuple[int, ...], Cut]
Table = tuple[
    tuple[TableRow, ...],
    tuple[str, ...],
    tuple[str, ...],
    tuple[tuple[str, str], ...],
    tuple[tuple[str, float], ...],
]
Weights = dict[
    str, Any
]  # weight -> array with a dimension per axis, or a list of such for each axis of its stack
Entry = tuple[
    TableRow, tuple[int, ...], str
]  # a row, one entry of its weight's stack, and the name of its tensor

# ---- the table and the names -------------------------------------------------------------------------------

OLD_NAMES = ((".weight", ".gamma"), (".bias", ".beta"))  # what norms called them in the first checkpoints
BUFFERS = ("position_ids", "token_type_ids")  # index tables that old versions saved; no weight is called so
MOST_ENTRIES = 1 << 16  # of a stack of weights
LISTED = 40  # names of a kind that an error spells out


def assemble(stored: Stored, table: Table, strict: bool = True) -> Weights:
    """Weight -> array with one dimension per axis; for a stack, nested lists of such. Views where possible.

    Missing, misshapen and left-over tensors, and duplicates that differ, are told in one ValueError; then
    nothing is returned. With strict=False left-over tensors are let be.
    """
    wrong: list[str] = []
    weights: Weights = {}
    homes: dict[tuple[str, tuple[int, ...]], list[tuple[str, NDArray[Any]]]] = {}
    missing: dict[tuple[str, tuple[int, ...]], Entry] = {}
    blamed: set[str] = set()
    for row, index, name in table_entries(table):
        key = (row[0], index)
        found = [one for one in other_names(name, table[2]) if one in stored]
        if not found:
            missing.setdefault(key, (row, index, name))
        for one in found:
            fault = misfit(row, stored[one])
            if fault:
                wrong.append(f"misshapen: {one!r} {fault}")
                blamed.add(row[0])
            homes.setdefault(key, [])
            if not fault:
                homes[key].append((one, part_of(row, index, stored[one])))
    absent = dict(table[4])
    for (weight, index), (row, _, _) in missing.items():
        if weight in absent and (weight, index) not in homes:
            homes[weight, index] = [("", part_of(row, index, np.full(row_shape(row), absent[weight], np.float32)))]
    missing = {key: entry for key, entry in missing.items() if key not in homes}
    wrong = [*told_missing(table, missing), *wrong]
    blamed.update(weight for weight, _ in missing)
    for (weight, index), same in homes.items():
        wrong += told_different(weight, same)
        if same:
            place(weights, weight, index, stack_sizes(table, weight), widened(same[0][1]))
    if strict:
        wrong += [f"left over: {name!r} {list(stored[name].shape)}" for name in left_over(stored, table)]
    if wrong:
        raise ValueError(told_all(wrong, table, blamed))
    return weights


def missing_weights(stored: Stored, table: Table) -> set[str]:
    """The weights of which a tensor is not there under any name."""
    found: dict[tuple[str, tuple[int, ...]], bool] = {}
    for row, index, name in table_entries(table):
        key = (row[0], index)
        found[key] = found.get(key, False) or any(one in stored for one in other_names(name, table[2]))
    return {weight for (weight, _), there in found.items() if not there and weight not in dict(table[4])}


def several(stored: Stored, table: Table) -> set[str]:
    """The weights that the file holds twice, with other numbers."""
    first: dict[tuple[str, tuple[int, ...]], NDArray[Any]] = {}
    found: set[str] = set()
    for row, index, name in table_entries(table):
        for one in other_names(name, table[2]):
            if one in stored and not misfit(row, stored[one]):
                array = part_of(row, index, stored[one])
                if not np.array_equal(first.setdefault((row[0], index), array), array, equal_nan=True):
                    found.add(row[0])
    return found


def table_entries(table: Table) -> Iterator[Entry]:
    """Each row of the table with each entry of its weight's stack and the name of its tensor."""
    for row in table[0]:
        weight, template, stack, _, _, _ = row
        if math.prod(size for _, size in stack) > MOST_ENTRIES:
            told = " × ".join(str(size) for _, size in stack)
            raise ValueError(
                f"the weights do not fit: {weight} has {told} entries, that is no model; nothing was loaded"
            )
        for index in itertools.product(*(range(size) for _, size in stack)):
            if all(
                not place.isdigit() or int(place) == i for (place, _), i in zip(stack, index, strict=True)
            ):
                yield row, index, filled(template, [place for place, _ in stack], index)


def filled(template: str, places: Sequence[str], index: Sequence[int]) -> str:
    """The stored name with numbers for its letters: "layer.{l + 1}.weight" -> "layer.1.weight"."""
    for place, i in zip(places, index, strict=True):
        if place:
            pattern = r"\{" + re.escape(place) + r"(?: ?\+ ?([0-9]+))?\}"
            template = re.sub(pattern, lambda found, i=i: str(i + int(found[1] or 0)), template)  # type: ignore[misc]
    return template


def other_names(name: str, prefixes: Sequence[str]) -> list[str]:
    """The name itself, then as old files write it, and with or without the prefix of a base model."""
    names = [name]
    for prefix in prefixes:
        names.append(name[len(prefix) :] if name.startswith(prefix) else prefix + name)
    for new, old in OLD_NAMES:
        names += [one[: -len(new)] + old for one in names if one.endswith(new)]
    return names


def left_over(stored: Stored, table: Table) -> list[str]:
    """Stored names that no row reads, no skip knows and that are no harmless buffers.

    Where a base model finds all its weights behind the prefix that head models give it, the rest is another
    head's.
    """
    taken = {
        one for _, _, name in table_entries(table) for one in other_names(name, table[2]) if one in stored
    }
    skips = skip_pattern(table)
    rest = [
        name for name in stored if name not in taken and not skips(name) and not is_buffer(name, stored[name])
    ]
    for prefix in table[2]:
        bare = not any(row[1].startswith(prefix) for row in table[0])
        own = [name for name in taken if "/" not in name]
        if bare and own and all(name.startswith(prefix) for name in own):
            rest = [name for name in rest if name.startswith(prefix) or "/" in name]
    return rest


def skip_pattern(table: Table) -> Callable[[str], Any]:
    """Whether a stored name is one that nobody reads; {l} in such a name is any number."""
    names = [other for name in table[1] for other in other_names(name, table[2])]
    parts = [re.sub(r"\\\{[^{}]*\\\}", "[0-9]+", re.escape(name)) for name in names]
    return re.compile("|".join(parts) if parts else r"(?!)").fullmatch


def is_buffer(name: str, array: NDArray[Any]) -> bool:
    """Whether it is a saved table of places."""
    return name.rpartition(".")[2] in BUFFERS and array.dtype.kind in "iu"


# ---- one tensor --------------------------------------------------------------------------------------------


def row_shape(row: TableRow) -> tuple[int, ...]:
    """The shape that a row's tensor should have."""
    shape = [math.prod(size for _, size in group) for group in row[3]]
    if row[5]:
        dimension, at, total, _ = row[5]
        shape[dimension] = math.prod(size for _, size in row[3][dimension][:at]) * total
    return tuple(shape)


def misfit(row: TableRow, array: NDArray[Any]) -> str:
    """What is wrong with the tensor of a row, nothing if all is well."""
    if array.dtype.kind != "f":
        return f"holds {array.dtype}, {row[0]} wants real numbers"
    if not (merges if not row[4] else same_shape)(array.shape, row_shape(row)):
        return f"is {list(array.shape)}, {row[0]} wants {told_shape(row)}"
    return ""


def same_shape(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether the shapes are equal."""
    return tuple(shape) == tuple(wanted)


def merges(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether the shape is the wanted one, or that with neighbouring dimensions merged."""
    if len(shape) > len(wanted) or math.prod(shape) != math.prod(wanted):
        return False
    rest = list(wanted)
    for size in shape:
        product = rest.pop(0) if rest else 1
        while rest and product != size and product <= max(size, 1):
            product *= rest.pop(0)
        if product != size:
            return False
    return all(size == 1 for size in rest)


def part_of(row: TableRow, index: Sequence[int], array: NDArray[Any]) -> NDArray[Any]:
    """The entry `index` of the stack, one dimension per axis of the weight: a view where it can be."""
    _, _, stack, dimensions, order, cut = row
    sizes = [size for group in dimensions for _, size in group]
    if cut:
        dimension, at, total, first = cut if order else (0, 0, row_total(row), row_first(row))
        shape = row_shape(row) if order else (total,)
        own = math.prod(size for _, size in dimensions[dimension][at:]) if order else math.prod(sizes)
        before, behind = shape[:dimension], shape[dimension + 1 :]
        parts = array.reshape(*before, -1, total, *behind)
        array = parts[(slice(None),) * (len(before) + 1) + (slice(first, first + own),)]
    array = array.reshape(sizes)
    if order:
        array = array.transpose(order)
    entry: NDArray[Any] = array[tuple(i for (place, _), i in zip(stack, index, strict=True) if not place)]
    return entry


def row_total(row: TableRow) -> int:
    """All entries of a fused tensor whose parts simply follow each other."""
    return math.prod(row_shape(row))


def row_first(row: TableRow) -> int:
    """Where a part begins in such a tensor."""
    assert row[5]
    _, _, total, first = row[5]
    return first * row_total(row) // total


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32, all else as it is."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def stack_sizes(table: Table, weight: str) -> tuple[int, ...]:
    """The sizes of a weight's stack."""
    return next(tuple(size for _, size in row[2]) for row in table[0] if row[0] == weight)


def place(
    weights: Weights, weight: str, index: Sequence[int], sizes: Sequence[int], array: NDArray[Any]
) -> None:
    """Puts an array at its place in nested lists."""
    if not index:
        weights[weight] = array
        return
    here = weights.setdefault(weight, empty_stack(sizes))
    for i in index[:-1]:
        here = here[i]
    here[index[-1]] = array


def empty_stack(sizes: Sequence[int]) -> list[Any]:
    """Nested lists of these lengths."""
    if len(sizes) == 1:
        return [None] * sizes[0]
    return [empty_stack(sizes[1:]) for _ in range(sizes[0])]


# ---- the error ---------------------------------------------------------------------------------------------


def told_shape(row: TableRow) -> str:
    """The layout with names and numbers: [(head dk), d] = [8, 8]."""
    names = [[name for name, _ in group] for group in row[3]]
    if row[5]:
        names[row[5][0]].insert(row[5][1], "parts")
    groups = [
        "1" if not group else group[0] if len(group) == 1 else f"({' '.join(group)})" for group in names
    ]
    return f"[{', '.join(groups)}] = {list(row_shape(row))}"


def told_missing(table: Table, missing: Mapping[tuple[str, tuple[int, ...]], Entry]) -> list[str]:
    """A line for each missing tensor; one for a row that is missing in every layer."""
    lines = []
    for row in table[0]:
        entries = [entry for entry in missing.values() if entry[0] is row]
        whole = len(entries) == math.prod(size for _, size in row[2]) > 1
        if whole and entries[0][2] != entries[-1][2]:
            lines.append(
                f"missing: {row[1]!r} in all {len(entries)} entries, for {row[0]} : {told_shape(row)}"
            )
        else:
            names = dict.fromkeys(name for _, _, name in entries)
            lines += [f"missing: {name!r}, for {row[0]} : {told_shape(row)}" for name in names]
    return lines


def told_different(weight: str, same: Sequence[tuple[str, NDArray[Any]]]) -> list[str]:
    """A line for each duplicate of a weight that is not equal to its first home."""
    return [
        f"different: {same[0][0]!r} and {name!r} are both {weight}, one weight, and hold different numbers"
        for name, array in same[1:]
        if not np.array_equal(same[0][1], array, equal_nan=True)
    ]


def told_all(wrong: Sequence[str], table: Table, blamed: set[str]) -> str:
    """All that is wrong, and where the sizes came from."""
    wrong = list(dict.fromkeys(wrong))
    kinds = dict.fromkeys(line.partition(":")[0] for line in wrong)
    lines, counts = [], []
    for kind in kinds:
        own = [line for line in wrong if line.startswith(kind + ":")]
        counts.append(f"{len(own)} {kind}")
        lines += own[:LISTED]
        lines += [f"{kind}: … and {len(own) - LISTED} more"] if len(own) > LISTED else []
    axes = {name for row in table[0] if row[0] in blamed for group in row[3] for name, _ in group}
    lines += [f"{name} = {text}" for name, text in table[3] if name in axes]
    return "\n  ".join([f"the weights do not fit: {', '.join(counts)}; nothing was loaded", *lines])
