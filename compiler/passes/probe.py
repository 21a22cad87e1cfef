"""The probe: does a part of the graph compute a known meaning? Decided by evaluation in float64 at random points.

A meaning is proposed with its parameters (axis, ε, which weight is gain and which shift) from what the part contains,
evaluated by its own core graph, and must agree with the part to 1e-11 of the largest value on every draw: rows of
several sizes (1e-3 … 30, where ε of 1e-12 shows against 0 by rows of size 1e-6), rows of zeros (where any ε shows),
rows beyond every number inside (a bound of 1000 shows there), random relations with an empty row.
Agreement at hundreds of random points of functions made of exp, erf, tanh, roots and means is agreement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .. import ir, kernels
from ..evaluate import Array, Evaluator, Lengths
from ..ir import Axis, Length, Node

TOLERANCE = 1e-11
SIZES = {0: 3, 1: 4, 2: 5, 3: 2}
FEW = 8
"""Entries along each axis where a scalar function is probed: they are all alike."""


@dataclass(frozen=True)
class Found:
    """A kernel node that means what the part means."""

    kernel: str
    node: Node


def meaning(root: Node, x: Node, see: Node | None, weights: tuple[Node, ...]) -> Found | None:
    """The known meaning of root as a function of x, a relation and weights, if there is one."""
    if len(weights) > 2:
        return None
    axis = _axis(root, x)
    proposals = list(_pointwise(root, x, see, weights) if axis is None else _along(root, x, see, weights, axis))
    if not proposals:
        return None
    seeds = _seeds(root, x, see, weights, most=FEW if axis is None else None)
    wanted = [_value(root, seed) for seed in seeds]
    if not any(value is not None and np.isfinite(value).any() for value in wanted):
        return None
    for proposal in proposals:
        agrees = (
            _equal(left, _value(proposal.node, s), proposal.node.axes, root.axes)
            for left, s in zip(wanted, seeds, strict=True)
        )
        if all(agrees):  # one draw after the other: most wrong proposals fail the first
            return proposal
    return None


def _axis(root: Node, x: Node) -> Axis | None:
    """The one axis that the part reduces, or None for a scalar function."""
    axes = {one["over"] for one in ir.walk([root], enter=lambda n: n is not x) if one.op == "reduce"}
    axes = {over for over in axes if len(over) == 1 and over[0] in x.axes}
    return next(iter(axes))[0] if len(axes) == 1 else None


def _pointwise(root: Node, x: Node, see: Node | None, weights: tuple[Node, ...]) -> Iterator[Found]:
    if see is not None or weights or x.axes == () or set(root.axes) != set(x.axes):
        return
    for name in kernels.POINTWISE:
        yield Found(name, kernels.make(name, {"x": x}, x.axes))


def _along(root: Node, x: Node, see: Node | None, weights: tuple[Node, ...], axis: Axis) -> Iterator[Found]:
    axes = ir.union((x,) if see is None else (x, see))
    if set(root.axes) != set(axes):
        return
    if not weights:
        yield Found("softmax", kernels.make("softmax", {"x": x, "see": see}, axes, axis=axis))
    if see is not None:
        return
    if not weights:
        yield Found("log_softmax", kernels.make("log_softmax", {"x": x}, axes, axis=axis))
    if any(one.axes != (axis,) for one in weights):
        return
    for eps in _epsilons(root, x):
        yield from _norms(x, weights, axis, eps)


def _norms(x: Node, weights: tuple[Node, ...], axis: Axis, eps: Fraction) -> Iterator[Found]:
    places: list[dict[str, Node]] = [{}]
    if len(weights) == 1:
        places = [{"gain": weights[0]}, {"shift": weights[0]}]
    elif len(weights) == 2:
        places = [{"gain": weights[0], "shift": weights[1]}, {"gain": weights[1], "shift": weights[0]}]
    for place in places:
        yield Found("layer_norm", kernels.make("layer_norm", {"x": x, **place}, x.axes, axis=axis, eps=eps))
        if "shift" not in place:
            yield Found("rms_norm", kernels.make("rms_norm", {"x": x, **place}, x.axes, axis=axis, eps=eps))


def _epsilons(root: Node, x: Node) -> list[Fraction]:
    """0 and the small positive numbers inside."""
    found = {Fraction(0)}
    for one in ir.walk([root], enter=lambda n: n is not x):
        if one.op == "const" and not isinstance(one["value"], bool) and 0 < one["value"] < 1:
            found.add(Fraction(one["value"]))
    return sorted(found)


def _bounds(root: Node, x: Node) -> list[float]:
    """Sizes beyond the large numbers inside, and where tiny ones count."""
    found = set()
    for one in ir.walk([root], enter=lambda n: n is not x):
        size = 0 if one.op != "const" or isinstance(one["value"], bool) else abs(one["value"])
        if 10 < size < 1e100:
            found.add(3 * float(size))
        elif 1e-100 < size < 1e-12:
            found.add(math.sqrt(size))
    return sorted(found)[-4:]


# ---------------------------------------------------------------------------------------------------- evaluation


def _seeds(
    root: Node, x: Node, see: Node | None, weights: tuple[Node, ...], most: int | None
) -> list[tuple[dict[Node, Array], Lengths]]:
    rng = np.random.default_rng(20_240)
    draws = []
    lengths = _lengths((root, x, *((see,) if see is not None else ()), *weights))
    for scale in (1.0, 1e-6, 30.0, 1e-3, 0.0, *_bounds(root, x)):
        values: dict[Node, Array] = {x: rng.normal(size=_shape(x.axes, lengths, most)) * scale}
        for one in weights:
            values[one] = rng.normal(size=_shape(one.axes, lengths))
        if see is not None:
            values[see] = rng.random(_shape(see.axes, lengths)) < 0.6
        draws.append((values, lengths))
    return draws


def _lengths(nodes: tuple[Node, ...]) -> Lengths:
    found = Lengths()
    for one in nodes:
        for axis in one.axes:
            for here in (axis, axis.owner):
                if here is not None and isinstance(here.size, Length) and here.size.name not in found.size:
                    found.size[here.size.name] = SIZES[len(found.size) % 4]
    return found


def _shape(axes: tuple[Axis, ...], lengths: Lengths, most: int | None = None) -> tuple[int, ...]:
    sizes = (axis.size if isinstance(axis.size, int) else lengths.size[axis.size.name] for axis in axes)
    return tuple(size if most is None else min(size, most) for size in sizes)


class _Seeded(Evaluator):
    """An evaluator that takes some nodes' values as given."""

    def __init__(self, values: Mapping[Node, Array], lengths: Lengths) -> None:
        super().__init__({}, lambda name, axes: np.zeros(0), lengths)
        self._given = dict(values)

    def _store(self, one: Node) -> dict[Node, Array]:
        return self._given


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
    return bool(np.all(np.abs(left - right)[finite] <= TOLERANCE * size))
