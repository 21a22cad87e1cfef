"""A checkpoint map as a literal of texts and numbers, which generated modules carry and `assemble` reads.

    table = (rows, skips, prefixes, sizes, absent)
    row   = (weight, stored name, stack, stored dimensions, order, cut)

* `stack`: for each axis of the weight's stack (place, size); the place is a letter in the stored name, a
  number (this entry only), or "" for an axis of the stored tensor itself;
* `stored dimensions`: for each dimension the axes in it as (name, size), the last running fastest;
* `order`: for each axis of the weight its place among those axes; () for a weight in its declared order, of
  which the file may merge neighbouring axes;
* `cut`: () or, for a part of a fused tensor, (dimension, place of the parts in it, entries of all parts,
  first entry), entries counted behind that place.

Several rows of one weight are homes of the same numbers, the first one found counts. `sizes` tells where
sizes came from, `absent` what number a weight has that a file may lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..compiler.checkpoint import CheckpointMap, Row, label
from ..compiler.ir import Axis
from .numpy.weights import Cut, Dimensions, Table, TableRow


def checkpoint_table(made: CheckpointMap) -> Table:
    """The literal of a map: `repr` of it is source."""
    rows = tuple(one for row in made.rows for one in _rows(row))
    absent = tuple((one.name, row.absent) for row in made.rows for one in row.weights if row.absent is not None)
    return (rows, made.skips, made.prefixes, made.sizes, absent)


def table_source(table: Table, name: str = "CHECKPOINT") -> str:
    """The literal as an assignment, a row a line, for people to read."""
    rows, *rest = table
    lines = [f"{name} = (", "    ("]
    lines += [f"        {row!r}," for row in rows]
    lines += ["    ),", *(f"    {one!r}," for one in rest), ")"]
    return "\n".join(lines) + "\n"


def _rows(row: Row) -> Iterator[TableRow]:
    offset = 0
    for weight, layout in zip(row.weights, row.layouts, strict=True):
        stack = tuple((place, size(axis)) for place, axis in zip(row.places, weight.stack, strict=True))
        flat = [axis for group in layout for axis in group]
        inside = [axis for axis in weight.axes if axis in flat]
        order = () if row.merged else tuple(flat.index(axis) for axis in inside)
        dimensions: Dimensions = tuple(tuple((label(axis), size(axis)) for axis in group) for group in layout)
        cut: Cut = ()
        if row.part is not None:
            own, total = _part(row, layout)
            cut = (*row.part, total, offset)
            offset += own
        yield (weight.name, row.stored, stack, dimensions, order, cut)


def _part(row: Row, layout: tuple[tuple[Axis, ...], ...]) -> tuple[int, int]:
    """How many entries this part and all parts have behind the place of the parts."""
    assert row.part is not None
    dimension, place = row.part

    def behind(one: tuple[tuple[Axis, ...], ...]) -> int:
        return math.prod(size(axis) for axis in one[dimension][place:])

    return behind(layout), sum(behind(one) for one in row.layouts)


def size(axis: Axis) -> int:
    """The size of a weight's axis, which is a number."""
    assert isinstance(axis.size, int)
    return axis.size
