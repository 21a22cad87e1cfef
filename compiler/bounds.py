"""How many pairs of rows and keys lie within the bounds of an attention, counted for the lengths of each example."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..grammar.diagnostics import InternalError
from . import kernels
from .evaluate import Array, Evaluator, Lengths, align
from .ir import Axis, Length, Node, walk
from .sizes import Sizes

PLACES = ("index", "size", "const", "table")
"""What bounds may be made of to be counted; others (numbers that a caller gives) are taken to leave nothing out."""


def visible_share(one: Node, sizes: Sizes, packed: bool) -> Fraction:
    """Σ of the keys that each row sees / all pairs of rows and keys; 1 for an attention without bounds.

    first ≤ j < stop are the keys of a row. A padded batch is counted as if all examples were as long as the longest.
    """
    at = kernels.parts(one)
    ends = [at.get("first"), at.get("stop")]
    bounds = [end for end in ends if end is not None]
    if not bounds or any(leaf.op not in PLACES for leaf in walk(bounds) if not leaf.args):
        return Fraction(1)
    key = one["axis"]
    rows = next((axis for axis in one.axes if axis.ragged and axis.owner == key.owner), None)
    every = {axis.size for part in (one, *walk(bounds)) for axis in (key, *part.axes) if axis.owner is not None}
    lengths = {size.name: sizes.each(size) for size in every if isinstance(size, Length)}
    count = len(next(iter(lengths.values()), (0,)))
    if not packed:
        lengths, count = {name: (max(each, default=0),) for name, each in lengths.items()}, 1
    pairs, seen = 0, Fraction(0)
    for example in range(count):
        own = {name: each[example] for name, each in lengths.items()}
        width, height = (_extent(axis, own) for axis in (key, rows))
        pairs += width * height
        if width and height:
            first, stop = (_values(end, own) for end in ends)
            seen += height * _mean_width(first, stop, width)
    return seen / pairs if pairs else Fraction(1)


def _extent(axis: Axis | None, lengths: dict[str, int]) -> int:
    if axis is None:
        return 1
    return lengths[axis.size.name] if isinstance(axis.size, Length) else axis.size


def _values(end: Node | None, lengths: dict[str, int]) -> tuple[Array | None, tuple[Axis, ...]]:
    """A bound of one example, as an array over its axes."""
    if end is None:
        return None, ()
    known = [axis for part in walk([end]) for axis in part.axes]
    owners = {*known, *(axis.owner for axis in known if axis.owner is not None)}
    one_of = {str(axis.size): 1 for axis in owners if axis.ragged and axis.owner is None}
    counts = {name: np.array([size]) for name, size in lengths.items()}
    evaluator = Evaluator({}, _no_weights, Lengths({**one_of, **lengths}, counts))
    return evaluator(end), end.axes


def _no_weights(name: str, axes: tuple[Axis, ...]) -> Array:
    raise InternalError(f"a bound reads the weight {name}")


def _mean_width(
    first: tuple[Array | None, tuple[Axis, ...]], stop: tuple[Array | None, tuple[Axis, ...]], width: int
) -> Fraction:
    """The mean number of keys from first to stop."""
    axes = tuple(dict.fromkeys((*first[1], *stop[1])))
    low = np.zeros(1) if first[0] is None else np.clip(align(first[0], first[1], axes), 0, width)
    high = np.full(1, width) if stop[0] is None else np.clip(align(stop[0], stop[1], axes), 0, width)
    keys = np.maximum(high - low, 0)
    return Fraction(int(keys.sum()), keys.size)
