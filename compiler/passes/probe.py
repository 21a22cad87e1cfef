"""The probe: does a part of the graph compute a known meaning? Decided by evaluation in float64 at random points.

A meaning is proposed with its parameters (proposals.py), evaluated by its own core graph, and must agree with the part
to 1e-11 of the largest value on every draw: rows of several sizes (1e-3 … 30, where ε of 1e-12 shows against 0 by rows
of size 1e-6), rows of zeros (where any ε shows), rows beyond every number inside (a bound of 1000 shows there), random
relations with an empty row, labels that are no place of the axis, the numbers that something inside is compared with.
Agreement at hundreds of random points of functions made of exp, erf, tanh, roots and means is agreement.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .. import ir
from ..evaluate import Array, Evaluator, Lengths
from ..ir import Axis, Length, Node
from ..rules.algebra import number
from .proposals import Found, proposals, reduced
from .regions import Region

TOLERANCE = 1e-11
SIZES = {0: 3, 1: 4, 2: 5, 3: 2}
FEW = 8
"""Entries along each axis where a scalar function is probed: they are all alike."""

REMEMBERED = 1024
"""Regions of one form, that of every LayerNorm of one width, are probed once in a process."""


def meaning(region: Region) -> Found | None:
    """The known meaning of a region as a function of x, a relation, a label and weights, if there is one."""
    if len(region.weights) > 2:
        return None
    found = list(proposals(region))
    if not found:
        return None
    place = _decided(*_form(region, [one.node for one in found]))
    return None if place is None else found[place]


def _form(region: Region, proposed: Sequence[Node]) -> tuple[Region, tuple[Node, ...]]:
    """The region and what it may mean, of inputs that stand for what goes in: all that the probe looks at."""
    made = {one: ir.input_(f"given {place}", one.axes, one.kind) for place, one in enumerate(region.given)}
    for one in ir.walk([region.root, *proposed], enter=lambda n: n not in made):
        if one not in made:
            made[one] = ir.rebuild(one, tuple(made[arg] for arg in one.args))
    see, label = (None if one is None else made[one] for one in (region.see, region.label))
    weights, inside = (tuple(made[one] for one in some) for some in (region.weights, region.inside))
    return Region(made[region.root], made[region.x], see, label, weights, inside), tuple(made[one] for one in proposed)


@lru_cache(maxsize=REMEMBERED)
def _decided(region: Region, proposed: tuple[Node, ...]) -> int | None:
    """The place of the first proposal that is what the region is."""
    seeds = _seeds(region, most=FEW if reduced(region) is None else None)
    wanted: list[Array | None] = []  # computed when a proposal gets that far: most wrong ones fail the first draw
    for which, one in enumerate(proposed):
        for place, seed in enumerate(seeds):
            if place == len(wanted):
                wanted.append(_value(region.root, seed))
            if not _equal(wanted[place], _value(one, seed), one.axes, region.root.axes):
                break
        else:
            if any(value is not None and np.isfinite(value).any() for value in wanted):
                return which
    return None


def _bounds(region: Region) -> list[float]:
    """Sizes beyond the large numbers inside, and where tiny ones count."""
    found: set[float] = set()
    values: list[Fraction | float | None] = [number(arg) for one in region.inside for arg in one.args]
    for value in values:
        if value is None:
            continue
        size: Fraction | float = value if value >= 0 else -value
        if 10 < size < 1e100:
            found.add(3 * float(size))
        elif 1e-100 < size < 1e-12:
            found.add(math.sqrt(size))
        if 1e-100 < size < 1e-8:  # a bound of a length
            found.add(float(size))
    return sorted(found)[-5:]


def _singled_out(region: Region) -> list[list[float]]:
    """The numbers that something inside asks for, as in y == -100, which no random point is; none, or one list."""
    if not any(one.op == "map" and one["fn"] in ("==", "!=") for one in region.inside):
        return []
    values = (number(arg) for one in region.inside for arg in one.args)
    found = {float(value) for value in values if value is not None}
    return [[0.5, *sorted(value for value in found if abs(value) < 1e100)]]


# ---------------------------------------------------------------------------------------------------- evaluation


def _seeds(region: Region, most: int | None) -> list[tuple[dict[Node, Array], Lengths]]:
    rng = np.random.default_rng(20_240)
    draws = []
    x, see, label = region.x, region.see, region.label
    lengths = _lengths((region.root, *region.given))
    far = (1e7,) if most else ()  # a bend of max(x, x / 100) bounded at 1000 shows there
    drawn = [rng.normal(size=_shape(x.axes, lengths, most)) * scale for scale in (1.0, 1e-6, 30.0, 1e-3, 0.0, *far)]
    drawn += [rng.normal(size=_shape(x.axes, lengths, most)) * scale for scale in _bounds(region)]
    drawn += [rng.choice(points, _shape(x.axes, lengths, most)) for points in _singled_out(region)]
    for given in drawn:
        values: dict[Node, Array] = {x: given}
        for one in region.weights:
            values[one] = rng.normal(size=_shape(one.axes, lengths))
        if see is not None:
            values[see] = rng.random(_shape(see.axes, lengths)) < 0.6
        if label is not None:  # now and then one that is no place
            values[label] = np.floor(rng.uniform(-1, 8, _shape(label.axes, lengths)))
        draws.append((values, lengths))
    return draws


def _lengths(nodes: tuple[Node, ...]) -> Lengths:
    found = Lengths()
    for axis in (axis for one in nodes for axis in one.axes):
        for here in (axis.owner, axis):
            if here is not None and isinstance(here.size, Length) and here.size.name not in found.size:
                found.size[here.size.name] = SIZES[len(found.size) % 4]
        if axis.owner is not None and isinstance(axis.size, Length) and isinstance(axis.owner.size, Length):
            found.count[axis.size.name] = np.full(found.size[axis.owner.size.name], found.size[axis.size.name])
    return found


def _shape(axes: tuple[Axis, ...], lengths: Lengths, most: int | None = None) -> tuple[int, ...]:
    sizes = (axis.size if isinstance(axis.size, int) else lengths.size[axis.size.name] for axis in axes)
    return tuple(size if most is None else min(size, most) for size in sizes)


class _Seeded(Evaluator):
    """An evaluator that takes some nodes' values as given."""

    def __init__(self, values: Mapping[Node, Array], lengths: Lengths) -> None:
        super().__init__({}, lambda name, axes: np.zeros(0), lengths)
        given = dict(values)
        self._memo = defaultdict(lambda: given)  # in whatever step of a loop


def _value(root: Node, seed: tuple[dict[Node, Array], Lengths]) -> Array | None:
    """The value of a node at one draw; None where the part needs more than was drawn."""
    try:
        return _Seeded(*seed)(root)
    except (KeyError, ValueError, AttributeError):
        return None


def _equal(left: Array | None, right: Array | None, axes: tuple[Axis, ...], target: tuple[Axis, ...]) -> bool:
    from ..evaluate import align

    if left is None or right is None:
        return False
    right = align(right, axes, target)
    if left.shape != right.shape:
        return False
    finite = np.isfinite(left)  # a naive form may overflow where the stable one does not
    size = np.abs(left[finite]).max(initial=0.0)
    return bool(np.all(np.abs(left[finite] - right[finite]) <= TOLERANCE * size))
