"""One case run through graphs by the naive evaluator, and two graphs compared entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..evaluate import Array, Evaluator, align
from ..ir import Axis, Graph, Length, Output
from ..reference import Places, arranged, check_inputs, mask_names
from .cases import Case
from .rounding import Noisy, allowed

WRONG_ID = -7
"""An entry that no table has."""


@dataclass(frozen=True)
class Gap:
    """How far a result is from what it should be: the largest difference, that relative to the example's size, and
    that relative to what is allowed; the name of the result; in how many entries both could be compared."""

    result: str
    error: float = 0.0
    relative: float = 0.0
    excess: float = 0.0
    reason: str = ""
    entries: int = 0

    @property
    def wrong(self) -> bool:
        """Whether it is further than rounding explains."""
        return bool(self.reason) or not self.excess <= 1.0


@dataclass(frozen=True)
class Measure:
    """How far a pass moved the results of a model in one case, at the sizes that are told."""

    model: str
    stage: str
    numeric: str
    case: str
    sizes: str
    gap: Gap


class Trial:
    """A case, evaluated on one graph after the other; what they share is evaluated once."""

    def __init__(self, graph: Graph, case: Case, seed: int = 3) -> None:
        self.graph, self.case = replace(graph, each=""), case
        check_inputs(self.graph, {name: np.asarray(value) for name, value in case.inputs.items()})
        inputs, lengths, self.places = arranged(self.graph, case.inputs)
        if case.kind.poison:
            inputs = {name: self._poisoned(name, value) for name, value in inputs.items()}
        self._how: Any = (inputs, lambda name, axes: case.weights[name], lengths, seed, case.kind.training)
        self._exact = Evaluator(*self._how)
        self._values: dict[tuple[Graph, bool], dict[str, Array]] = {}

    def values(self, graph: Graph) -> dict[str, Array]:
        """Every result of a graph, dimensions in the order that it declares."""
        return self._run(graph, False)

    def moved(self, graph: Graph) -> dict[str, Array]:
        """The same with every operation erring a little."""
        return self._run(graph, True)

    def _run(self, graph: Graph, noisy: bool) -> dict[str, Array]:
        key = graph, noisy
        if key not in self._values:
            evaluator = Noisy(*self._how) if noisy else self._exact
            self._values[key] = {
                out.name: evaluator(out.node).transpose([out.node.axes.index(axis) for axis in out.axes])
                for out in graph.outputs
            }
        return self._values[key]

    def _poisoned(self, name: str, value: Array) -> Array:
        """The input with NaN, or a wrong id, at every entry that no mask shows."""
        axes = next((one.axes for one in self.graph.inputs if one.name == name), None)
        if axes is None or value.dtype.kind == "b":
            return value
        hidden: Array = np.zeros(value.shape, bool)
        for axis in axes:
            if isinstance(axis.size, Length) and axis.size.name in self.places and axis.owner in axes:
                unseen = ~self.places[axis.size.name].visible
                hidden = hidden | align(unseen, (axis.owner, axis), axes)
        return np.where(hidden, np.nan if value.dtype.kind == "f" else WRONG_ID, value)

    def aligned(self, name: str, length: Length) -> tuple[Array, Array, Array]:
        """An input along a length with its examples at the left, their numbers of entries, and which may be seen."""
        inputs, _, lengths, *_ = self._how
        return np.asarray(inputs[name]), np.asarray(lengths.count[length.name], int), lengths.visible[length.name]

    def others(self, name: str, length: Length) -> dict[str, Array]:
        """The inputs and masks of all lengths but one, which the input `name` counts."""
        mine = mask_names(self.graph).get(length.name, "")
        return {key: value for key, value in self.case.inputs.items() if key not in (name, mine)}

    def shown(self, axes: tuple[Axis, ...], value: Array) -> Array:
        """Which entries of a result with these axes a caller sees: those of texts that have a token."""
        seen: Array = np.ones(value.shape, bool)
        if self.graph.batch in axes and self.places:
            rows = np.any([place.count > 0 for place in self.places.values()], axis=0)
            seen = seen & align(rows, (self.graph.batch,), axes)
        told: set[Axis] = set()
        for axis in axes:
            if isinstance(axis.size, Length) and axis.size.name in self.places and axis.owner in axes:
                place: Places = self.places[axis.size.name]
                seen = seen & align(place.visible if axis.owner in told else place.real, (axis.owner, axis), axes)
                told.add(axis.owner)
        return seen

    def whole(self, graph: Graph) -> bool:
        """Whether all that a caller sees are numbers."""
        found = self.values(graph)
        return all(
            np.isfinite(found[out.name])[self.shown(out.axes, found[out.name])].all() for out in graph.outputs
        )

    def compare(self, before: Graph, after: Graph, unit: float) -> Gap:
        """The worst result of a graph against the graph that it was made from."""
        if [(out.name, out.axes) for out in before.outputs] != [(out.name, out.axes) for out in after.outputs]:
            lost = [out.name for out in before.outputs if out.name not in {one.name for one in after.outputs}]
            return far("", f"`{lost[0]}` is lost" if lost else "its results have other axes")
        wanted = self.values(before)
        try:
            found = self.values(after)
        except Exception as fault:  # whatever an operation on wrong shapes raises
            return far("", f"it cannot be evaluated: {type(fault).__name__}: {fault}")
        gaps = [self._gap(before, out, wanted[out.name], found[out.name], unit) for out in before.outputs]
        return replace(max(gaps, key=lambda gap: gap.excess), entries=sum(gap.entries for gap in gaps))

    def _gap(self, before: Graph, out: Output, wanted: Array, found: Array, unit: float) -> Gap:
        name = out.name
        if wanted.shape != found.shape:
            return far(name, f"`{name}` is {list(found.shape)}, not {list(wanted.shape)}")
        if wanted.dtype.kind == "b":
            wanted, found = wanted.astype(float), found.astype(float)
        seen = self.shown(out.axes, wanted) & np.isfinite(wanted)
        if not seen.any():
            return Gap(name)
        return gap(name, wanted, found, seen, allowed(wanted, self._moved(before, name), unit))

    def _moved(self, before: Graph, name: str) -> Array:
        """The result with noise: of the formula, unless that has no finite numbers here (or other axes)."""
        moved = self.moved(self.graph)[name] if name in {out.name for out in self.graph.outputs} else None
        here = self.values(before)[name]
        if moved is None or moved.shape != here.shape or (np.isfinite(here) & ~np.isfinite(moved)).any():
            moved = self.moved(before)[name]
        return moved.astype(float)


def far(name: str, reason: str) -> Gap:
    """As wrong as can be, for a reason that is no number."""
    return Gap(name, np.inf, np.inf, np.inf, reason)


def gap(name: str, wanted: Array, found: Array, seen: Array, limit: Array) -> Gap:
    """How far `found` is from `wanted` where it is seen; NaN where a number should be is as far as can be."""
    with np.errstate(invalid="ignore"):
        apart = np.where(found == wanted, 0.0, np.abs(found - wanted))
    apart = np.where(seen, np.where(np.isnan(apart), np.inf, apart), 0.0)
    size = np.abs(np.where(seen, wanted, 0.0))
    rows = size.reshape(len(size) if size.ndim else 1, -1).max(axis=1, initial=0.0)
    scale = np.maximum(rows, np.finfo(float).tiny).reshape((-1,) + (1,) * max(size.ndim - 1, 0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        over = np.where(apart > 0, np.where(np.isinf(limit) & np.isfinite(apart), 0.0, apart / limit), 0.0)
        over = np.where(np.isnan(over), np.inf, over)
        relative = float((apart.reshape(-1 if size.ndim == 0 else size.shape) / scale).max(initial=0.0))
    reason = f"`{name}` has no number where there should be one" if np.isinf(apart).any() else ""
    compared = int((seen & np.isfinite(limit)).sum())
    return Gap(name, float(apart.max(initial=0.0)), relative, float(over.max(initial=0.0)), reason, compared)
