"""What files of weights hold, by their headers alone: names, shapes and kinds of numbers, and no number is read.

    tensors_in   each tensor of a folder's file or shards
    shapes_in    stored name → an array of the tensor's shape that takes no memory
    compared     these against what a model reads: what is missing, left over, of another shape, or there twice
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numpy.files import INDEX_FILE, MODULES_FILE, PICKLED, WEIGHTS, WEIGHTS_FILE, inside, module_rows, shard_index
from .numpy.kernels import HEADER_LIMIT, SAFETENSORS_TYPES, safetensors_header, safetensors_span
from .numpy.weights import Table, left_over, misfit, missing_weights, other_names, table_entries

Shapes = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Tensor:
    """A tensor as a header tells of it: its kind of numbers in safetensors' words, and the bytes of its data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


class NoWeights(ValueError):
    """A folder has no file that could be read."""


@dataclass(frozen=True)
class Compared:
    """A model beside its files: their tensors, numbers and bytes, and how many tensors and numbers the model reads.

    `twice` are tensors of which the model reads another home already: the numbers of tied weights. All is well where
    nothing is `missing`, `left_over` or `misshapen`.
    """

    tensors: int
    numbers: int
    bytes: int
    read_tensors: int
    read_numbers: int
    missing: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    misshapen: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the files hold what the model reads, and nothing else."""
        return not (self.missing or self.left_over or self.misshapen)


def compared(folder: Path, table: Table) -> Compared:
    """The files of a folder against a model's checkpoint table. Raises ValueError for files that are unsound."""
    stored, size = shapes_in(folder)
    homes: dict[tuple[str, tuple[int, ...]], str] = {}
    read: dict[str, NDArray[Any]] = {}
    twice: dict[str, None] = {}
    wrong: dict[str, None] = {}
    for row, index, name in table_entries(table):
        for one in (one for one in other_names(name, table[2]) if one in stored):
            fault = misfit(row, stored[one])
            wrong.update({f"{one} {fault}": None} if fault else {})
            if homes.setdefault((row[0], index), one) == one:
                read[one] = stored[one]
            else:
                twice[one] = None
    return Compared(
        len(stored),
        _numbers(stored),
        size,
        len(read),
        _numbers(read),
        tuple(sorted(missing_weights(stored, table))),
        tuple(left_over(stored, table)),
        tuple(wrong),
        tuple(name for name in twice if name not in read),
    )


def _numbers(stored: Shapes) -> int:
    return sum(math.prod(one.shape) for one in stored.values())


def shapes_in(folder: Path) -> tuple[Shapes, int]:
    """The shapes of a model's folder, of one model or of all modules of a sentence model, and the bytes of its data."""
    if not (folder / MODULES_FILE).is_file():
        return _of_files(folder)
    found: Shapes = {}
    size = 0
    for kind, path in module_rows(folder / MODULES_FILE):
        place = inside(folder, path)
        if kind == "Transformer" or (path and any(True for pattern in WEIGHTS for _ in place.glob(pattern))):
            shapes, more = _of_files(place)
            prefix = "" if kind == "Transformer" else f"{path}/"
            found.update({f"{prefix}{name}": one for name, one in shapes.items()})
            size += more
    return found, size


def _of_files(folder: Path) -> tuple[Shapes, int]:
    """The shapes of one folder's file, or of its shards."""
    held = tensors_in(folder)
    kinds = {"BF16": "<f4"}  # as it is read
    found = {
        one.name: np.broadcast_to(np.zeros((), kinds.get(one.dtype) or SAFETENSORS_TYPES[one.dtype]), one.shape)
        for one in held
    }
    return found, sum(one.bytes for one in held)


def tensors_in(folder: Path) -> list[Tensor]:
    """The tensors of a folder's file, or of its shards. Raises `NoWeights`, ValueError for headers that are none."""
    found: dict[str, Tensor] = {}
    for file in _files(folder):
        for one in _header(file):
            if one.name in found:
                raise ValueError(f"{one.name!r} is in two shards")
            found[one.name] = one
    return list(found.values())


def _files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    if (folder / INDEX_FILE).is_file():
        return [folder / name for name in sorted(set(shard_index(folder / INDEX_FILE).values()))]
    if any(True for pattern in WEIGHTS[1:] for _ in folder.glob(pattern)):
        raise NoWeights(f"{folder} {PICKLED}")
    raise NoWeights(f"{folder} holds neither {WEIGHTS_FILE} nor {INDEX_FILE}")


def _header(path: Path) -> Iterator[Tensor]:
    """The tensors of a file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(HEADER_LIMIT, size - 8):
            raise ValueError(f"{path}: {size} bytes are no safetensors file")
        header = safetensors_header(str(path), file.read(length))
    for name, entry in header.items():
        begin, end, _, shape = safetensors_span(f"{path}: tensor {name!r}", entry)
        if 8 + length + end > size:
            raise ValueError(f"{path}: tensor {name!r} ends at {end}, behind the file's end")
        yield Tensor(name, entry["dtype"], shape, end - begin)
