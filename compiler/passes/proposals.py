"""Proposals: the known meanings that a region may have, with parameters from what it contains; the probe decides.

Where the region renames axes (a norm over `emb` whose result is called `d`), the proposal is of the renamed value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from .. import ir, kernels
from ..ir import Axis, Node
from ..rules.algebra import is_map, number
from .regions import Region

PLAIN = tuple(name for name in kernels.POINTWISE if name != "leaky_relu")


@dataclass(frozen=True)
class Found:
    """A kernel node (or a scalar multiple of one) that means what the part means."""

    kernel: str
    node: Node


def proposals(region: Region) -> Iterator[Found]:
    """What the region may mean, the most special meaning first."""
    axis = reduced(region)
    if axis is None:
        yield from _pointwise(region)
        return
    pairs = _renames(region)
    x, axis = ir.rename(region.x, pairs), pairs.get(axis, axis)
    if region.label is not None:
        yield from _losses(region, x, axis)
    else:
        yield from _along(region, x, axis)


def reduced(region: Region) -> Axis | None:
    """The one axis that the part reduces, or None for a scalar function."""
    over = [one["over"] for one in region.inside if one.op == "reduce"]
    found = {axes for axes in over if len(axes) == 1 and axes[0] in region.x.axes}
    return next(iter(found))[0] if len(found) == 1 else None


def _renames(region: Region) -> dict[Axis, Axis]:
    """Axes of x that the result has under another name."""
    found: dict[Axis, Axis] = {}
    for one in region.inside:
        if one.op == "rename":
            found.update((a, b) for a, b in one["pairs"] if a in region.x.axes and b not in region.x.axes)
    return found


def _numbers(region: Region) -> list[Fraction]:
    """The positive numbers inside, below 1, and 0."""
    return [Fraction(0), *(one for one in _positive(region) if one < 1)]


def _positive(region: Region) -> list[Fraction]:
    values = (number(arg) for one in region.inside for arg in one.args)
    return sorted({Fraction(value) for value in values if value is not None and 0 < value < math.inf})


# ---------------------------------------------------------------------------------------------------- functions


def _pointwise(region: Region) -> Iterator[Found]:
    x = region.x
    if region.see is not None or region.weights or x.axes == () or set(region.root.axes) != set(x.axes):
        return
    for name in PLAIN:
        yield Found(name, kernels.make(name, {"x": x}, x.axes))
    for slope in _slopes(region):
        yield Found("leaky_relu", kernels.make("leaky_relu", {"x": x}, x.axes, slope=slope))


def _slopes(region: Region) -> Iterator[Fraction]:
    for value in _positive(region):
        yield from (value, 1 - value) if value < 1 else (1 / value,)


# ---------------------------------------------------------------------------------------------- along one axis


def _along(region: Region, x: Node, axis: Axis) -> Iterator[Found]:
    root, see, weights = region.root, region.see, region.weights
    axes = x.axes if see is None else ir.union((x, see))
    if set(root.axes) == set(axes) - {axis} and not weights:
        kept = tuple(a for a in axes if a != axis)
        yield Found("logsumexp", kernels.make("logsumexp", {"x": x, "see": see}, kept, axis=axis))
    if set(root.axes) != set(axes):
        return
    if not weights:
        yield Found("softmax", kernels.make("softmax", {"x": x, "see": see}, axes, axis=axis))
        for base in _bases(region):
            scaled = ir.apply("*", kernels.number(math.log(base)), x)
            yield Found("softmax", kernels.make("softmax", {"x": scaled, "see": see}, axes, axis=axis))
    if see is not None:
        return
    if not weights:
        yield Found("log_softmax", kernels.make("log_softmax", {"x": x}, axes, axis=axis))
    if any(one.axes != (axis,) for one in weights):
        return
    for small in _numbers(region):
        yield from _norms(x, weights, axis, small)


def _bases(region: Region) -> list[float]:
    """The numbers that x is an exponent of."""
    found = {number(one.args[0]) for one in region.inside if is_map(one, "^")}
    return sorted(float(base) for base in found if base is not None and base > 0)


def _norms(x: Node, weights: tuple[Node, ...], axis: Axis, small: Fraction) -> Iterator[Found]:
    places: list[dict[str, Node]] = [{}]
    if len(weights) == 1:
        places = [{"gain": weights[0]}, {"shift": weights[0]}]
    elif len(weights) == 2:
        places = [{"gain": weights[0], "shift": weights[1]}, {"gain": weights[1], "shift": weights[0]}]
    for place in places:
        yield Found("layer_norm", kernels.make("layer_norm", {"x": x, **place}, x.axes, axis=axis, eps=small))
        if "shift" not in place:
            yield Found("rms_norm", kernels.make("rms_norm", {"x": x, **place}, x.axes, axis=axis, eps=small))
    if not weights:
        yield Found("l2_normalize", kernels.make("l2_normalize", {"x": x}, x.axes, axis=axis, least=small))


# -------------------------------------------------------------------------------------------------- with a label


def _losses(region: Region, x: Node, axis: Axis) -> Iterator[Found]:
    """Cross-entropy and its negative, the logarithm of a share."""
    label = region.label
    assert label is not None
    kept = tuple(a for a in ir.union((x, label)) if a != axis)
    if region.weights or region.see is not None or set(region.root.axes) != set(kept):
        return
    small = _numbers(region)
    for outside in (None, Fraction(0)):
        for smoothing in dict.fromkeys((*small, *(1 - one for one in small[1:]))):
            attrs = {"axis": axis, "smoothing": smoothing, "outside": outside}
            made = kernels.make("cross_entropy", {"x": x, "label": label}, kept, **attrs)
            yield Found("cross_entropy", made)
            yield Found("cross_entropy", ir.apply("neg", made))
