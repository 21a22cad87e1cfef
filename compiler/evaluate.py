"""The meaning of the language: a naive float64 evaluator of the core operations.

It is written to be obviously right, not fast; every pass and backend is tested against it. Values are arrays whose
dimensions are the node's axes in order. Integers are float64 too (exact to 2^53), so that an undefined entry, one
picked out of range, is NaN for every kind and shows when it reaches a result.

Lengths are logical: examples stand left-aligned, `Lengths` says how many entries each owner has and which of them are
hidden. A reduction or contraction over a length, or over its owner, only sees visible entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..grammar.diagnostics import InternalError
from . import draws, ops
from .ir import Axis, Length, Node, drawing_order, union
from .reducing import REDUCE, bounded, settled

Array: TypeAlias = npt.NDArray[Any]


@dataclass
class Lengths:
    """Run-time sizes: `size` entries are stored, `count[owner]` of them exist, `visible[owner, entry]` may be seen."""

    size: dict[str, int] = field(default_factory=dict)
    count: dict[str, Array] = field(default_factory=dict)
    visible: dict[str, Array] = field(default_factory=dict)
    numbered: str = ""  # the length that given position ids belong to, if there are several
    numbers: Mapping[Axis, Array] = field(default_factory=dict)  # what draws take for places along an axis: the batch


class Evaluator:
    """Evaluates nodes for given inputs, weights and lengths; each node once (inside a loop: once a step)."""

    def __init__(
        self,
        inputs: Mapping[str, Array],
        weights: Callable[[str, tuple[Axis, ...]], Array],
        lengths: Lengths | None = None,
        seed: int = 0,
        training: bool = False,
    ) -> None:
        self.inputs, self.weights = inputs, weights
        self.lengths = lengths or Lengths()
        self.seed, self.training = seed, training
        self._memo: dict[int, dict[Node, Any]] = {0: {}}
        self._cores: dict[Node, Node] = {}
        self._steps: dict[int, tuple[int, list[list[Array]]]] = {}
        self._slots: dict[int, list[tuple[Axis, ...]]] = {}

    def __call__(self, root: Node) -> Array:
        """The value of a node, dimensions in the order of its axes."""
        with np.errstate(all="ignore"):
            return self._value(root)

    def _value(self, root: Node) -> Array:
        memo, stack = self._memo, [root]
        while stack:
            one = stack[-1]
            if one not in memo[one.home]:
                missing = [arg for arg in one.args if arg not in memo[arg.home]]
                if missing:
                    stack += reversed(missing)
                    continue
                memo[one.home][one] = self._evaluate(one)
            stack.pop()
        return memo[root.home][root]  # type: ignore[no-any-return]

    def core(self, one: Node) -> Node:
        """A kernel node as core operations, the same in every step of a loop."""
        found = self._cores.get(one)
        if found is None:
            from .kernels import expanded

            found = self._cores[one] = expanded(one)
        return found

    def extent(self, axis: Axis) -> int:
        """The number of stored entries along an axis."""
        if isinstance(axis.size, int):
            return axis.size
        if axis.size.made is not None:
            return bounded(int(np.max(self(axis.size.made), initial=0)), axis)
        if axis.size.name not in self.lengths.size:
            raise InternalError(f"no size is known for the length {axis.size.name}")
        return self.lengths.size[axis.size.name]

    def _args(self, one: Node) -> list[Any]:
        """The values of what a node takes, which exist by now."""
        return [self._memo[arg.home][arg] for arg in one.args]

    def _evaluate(self, one: Node) -> Any:
        method = getattr(self, f"_{one.op}", None)
        if method is None:
            raise InternalError(f"the evaluator does not know the operation {one.op}")
        return method(one, self._args(one))

    # ------------------------------------------------------------------------------------------------ leaves

    def _input(self, one: Node, args: list[Array]) -> Array:
        if one["name"] in self.inputs:
            return np.asarray(self.inputs[one["name"]], float if one.kind != "bool" else bool)
        shape = tuple(self.extent(axis) for axis in one.axes)
        return np.broadcast_to(align(args[0], one.args[0].axes, one.axes), shape)

    def _weight(self, one: Node, args: list[Array]) -> Array:
        found = np.asarray(self.weights(one["name"], one.axes), float)
        shape = tuple(self.extent(axis) for axis in one.axes)
        if found.shape != shape:
            raise InternalError(f"weight {one['name']} is {found.shape}, not {shape}")
        return found

    def _const(self, one: Node, args: list[Array]) -> Array:
        value = one["value"]
        return np.asarray(value if isinstance(value, bool) else float(value))

    def _table(self, one: Node, args: list[Array]) -> Array:
        return np.asarray(one["values"] if one.kind == "bool" else [float(v) for v in one["values"]])

    def _index(self, one: Node, args: list[Array]) -> Array:
        return np.arange(self.extent(one["axis"]), dtype=float)

    def _position(self, one: Node, args: list[Array]) -> Array:
        shape = tuple(self.extent(axis) for axis in one.axes)
        given = self.inputs.get("position_ids")
        if given is None or self.lengths.numbered not in ("", str(one["axis"].size)):
            return np.broadcast_to(np.arange(shape[-1], dtype=float), shape)
        return np.broadcast_to(np.asarray(given, float), shape)

    def _size(self, one: Node, args: list[Array]) -> Array:
        length = one["axis"].size
        return self._count(length) if one.axes else np.asarray(float(self.extent(one["axis"])))

    def _count(self, length: Length) -> Array:
        if length.made is not None:
            return self(length.made)
        return np.asarray(self.lengths.count[length.name], float)

    # ------------------------------------------------------------------------------------------- entry by entry

    def _map(self, one: Node, args: list[Array]) -> Array:
        row = ops.FUNCTIONS[one["fn"]]
        aligned = [align(value, arg.axes, one.axes) for value, arg in zip(args, one.args, strict=True)]
        if one["fn"] == "floor" or one["fn"] == "ceil":
            aligned = [settled(value) for value in aligned]
        if row.takes == "truth":
            aligned = [value.astype(bool) for value in aligned]
        return np.asarray(row.meaning(*aligned))

    def _rename(self, one: Node, args: list[Array]) -> Array:
        return args[0]

    def _split(self, one: Node, args: list[Array]) -> Array:
        at = one.args[0].axes.index(one["axis"])
        shape = args[0].shape
        return args[0].reshape(shape[:at] + tuple(self.extent(a) for a in one["into"]) + shape[at + 1 :])

    def _merge(self, one: Node, args: list[Array]) -> Array:
        kept = [a for a in one.args[0].axes if a not in one["gone"]]
        moved = align(args[0], one.args[0].axes, (*kept, *one["gone"]))
        return moved.reshape((*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :])))

    def _widen(self, one: Node, args: list[Array]) -> Array:
        return np.broadcast_to(args[0][..., None], (*args[0].shape, self.extent(one["axis"])))

    def _concat(self, one: Node, args: list[Array]) -> Array:
        kept = one.axes[:-1]
        shape = tuple(self.extent(axis) for axis in kept)
        parts = []
        for value, arg, axis in zip(args, one.args, one["along"], strict=True):
            wide = align(value, arg.axes, (*kept, axis)) if axis else align(value, arg.axes, kept)[..., None]
            parts.append(np.broadcast_to(wide, (*shape, wide.shape[-1])))
        return np.concatenate(parts, axis=-1)

    # ------------------------------------------------------------------------------------------ along the axes

    def seen(
        self, over: Sequence[Axis], have: Sequence[Axis], hidden: bool = False
    ) -> tuple[Array, tuple[Axis, ...]] | None:
        """Which entries a reduction over `over` of a value with axes `have` may see (None: all).

        With `hidden`, all that exist: hidden entries, too.
        """
        result: tuple[Array, tuple[Axis, ...]] | None = None
        for axis in dict.fromkeys((*over, *have)):
            size, owner = axis.size, axis.owner
            if not isinstance(size, Length) or owner is None:
                continue
            known = size.made is not None or size.name in self.lengths.visible
            if hidden and owner not in over and owner not in have:  # the same for all owners
                continue
            if (axis in over or owner in over) and (hidden or known):
                visible, axes = self._exists(size) if hidden else self._seen_of(axis, size), (owner, axis)
                if result is not None:
                    both = tuple(dict.fromkeys((*result[1], *axes)))
                    visible = align(result[0], result[1], both) & align(visible, axes, both)
                    axes = both  # type: ignore[assignment]
                result = visible, axes
        return result

    def _exists(self, length: Length) -> Array:
        return np.asarray(np.arange(self.lengths.size[length.name]) < self.lengths.count[length.name][:, None])

    def _visible(self, one: Node, args: list[Array]) -> Array:
        axis = one["axis"]
        shape = tuple(self.extent(a) for a in one.axes)
        return np.broadcast_to(self.lengths.visible.get(axis.size.name, np.asarray(True)), shape)

    def _seen_of(self, axis: Axis, size: Length) -> Array:
        """Which entries of each owner may be seen."""
        if size.made is None:
            return self.lengths.visible[size.name]
        return np.asarray(np.arange(self.extent(axis)) < self._count(size)[..., None])

    def _contract(self, one: Node, args: list[Array]) -> Array:
        return self._product(one, args, self.seen(one["over"], union(one.args)))

    def _total(self, one: Node, args: list[Array]) -> Array:
        return self._product(one, args, self.seen(one["over"], union(one.args), hidden=True))

    def _product(self, one: Node, args: list[Array], seen: tuple[Array, tuple[Axis, ...]] | None) -> Array:
        both = union(one.args)
        operands = [(value, arg.axes) for value, arg in zip(args, one.args, strict=True)]
        if seen is not None:
            operands = [self._hide(value, axes, seen) for value, axes in operands]
            operands.append((seen[0].astype(float), seen[1]))
        letters: dict[Axis, int] = {}
        for axis in (*both, *(seen[1] if seen else ())):
            letters.setdefault(axis, len(letters))
        flat: list[Any] = []
        for value, axes in operands:
            flat += [value.astype(float), [letters[a] for a in axes]]
        return np.asarray(np.einsum(*flat, [letters[a] for a in one.axes], optimize=True))

    @staticmethod
    def _hide(
        value: Array, axes: tuple[Axis, ...], seen: tuple[Array, tuple[Axis, ...]]
    ) -> tuple[Array, tuple[Axis, ...]]:
        """0 where the value may not be seen (0 * NaN would not be 0), if the value has all axes of the relation."""
        if not set(seen[1]) <= set(axes):
            return value, axes
        return np.where(align(seen[0], seen[1], axes), value, 0.0), axes

    def _reduce(self, one: Node, args: list[Array]) -> Array:
        over = one["over"]
        have = tuple(dict.fromkeys(axis for arg in one.args for axis in arg.axes))
        seen = self.seen(over, have)
        full = tuple(dict.fromkeys((*one.axes, *over, *have)))
        shape = tuple(self.extent(axis) for axis in full)
        value = np.broadcast_to(align(args[0], one.args[0].axes, full), shape)
        condition: Array = np.ones(shape, bool)
        if seen is not None:
            condition = condition & align(seen[0], seen[1], full)
        if len(args) > 1:
            condition = condition & align(args[1], one.args[1].axes, full).astype(bool)
        dims = tuple(full.index(axis) for axis in over)
        result = REDUCE[one["reduction"]](value, condition, dims)
        left = tuple(axis for axis in full if axis not in over)
        return align(np.asarray(result), left, one.axes)

    def _scatter(self, one: Node, args: list[Array]) -> Array:
        full = tuple(dict.fromkeys((*union(one.args), *(a for a in one.axes if a not in one["keys"]))))
        shape = tuple(self.extent(axis) for axis in full)
        seen = self.seen([axis for axis in full if axis not in one.axes], full, hidden=True)
        there: Array = np.ones(shape, bool) if seen is None else np.broadcast_to(align(*seen, full), shape)
        places: dict[Axis, Array] = {}
        for key, number, arg in zip(one["keys"], args[1:], one.args[1:], strict=True):
            number = np.broadcast_to(align(number, arg.axes, full), shape)
            there = there & (number >= 0) & (number < self._bound(key, full))
            places[key] = np.where(there, number, 0).astype(int)
        for axis in (a for a in one.axes if a not in places):
            places[axis] = align(np.arange(self.extent(axis)), (axis,), full)
        value = np.where(there, align(args[0], one.args[0].axes, full), 0.0)
        result = np.zeros(tuple(self.extent(axis) for axis in one.axes))
        if value.size:
            np.add.at(result, tuple(np.broadcast_to(places[axis], shape) for axis in one.axes), value)
        return result

    def _rank(self, one: Node, args: list[Array]) -> Array:
        at = one.axes.index(one["axis"])
        value = np.moveaxis(args[0], at, -1)
        seen = self.seen([one["axis"]], one.axes)
        if seen is not None:
            value = np.where(np.moveaxis(align(seen[0], seen[1], one.axes), at, -1), value, -np.inf)
        order = np.argsort(-value, axis=-1, kind="stable")
        result = np.empty(value.shape)
        np.put_along_axis(result, order, np.broadcast_to(np.arange(value.shape[-1], dtype=float), value.shape), -1)
        return np.moveaxis(result, -1, at)

    def _selected(self, one: Node, args: list[Array]) -> Array:
        among, into = one["among"], one["into"]
        seen = self.seen(among, among, hidden=one.get("hidden", False))
        shape = tuple(self.extent(axis) for axis in among)
        condition = np.broadcast_to(align(args[0], one.args[0].axes, among), shape).astype(bool)
        if seen is not None:
            condition = condition & align(seen[0], seen[1], among)
        places = np.nonzero(condition)
        self.lengths.size[into.size.name] = len(places[0])
        if one["axis"] is None:
            return np.ones(len(places[0]), bool)
        return np.asarray(places[among.index(one["axis"])], float)

    def _order(self, one: Node, args: list[Array]) -> Array:
        at = one.axes.index(one["axis"])
        seen = self.seen([one["axis"]], one.axes)
        value = args[0] if seen is None else np.where(align(seen[0], seen[1], one.axes), args[0], np.inf)
        return np.argsort(value, axis=at, kind="stable").astype(float)

    def _repeat(self, one: Node, args: list[Array]) -> Array:
        at = one.args[0].axes.index(one["axis"])
        times = np.moveaxis(args[0], at, -1)
        seen = self.seen([one["axis"]], one.args[0].axes)
        if seen is not None:
            times = np.where(np.moveaxis(align(seen[0], seen[1], one.args[0].axes), at, -1), times, 0)
        places = np.arange(self.extent(one["into"]))
        ends = np.cumsum(times, axis=-1)
        return np.moveaxis((ends[..., None, :] <= places[:, None]).sum(-1).astype(float), -1, at)

    def _pick(self, one: Node, args: list[Array]) -> Array:
        indices = [(value, arg.axes) for value, arg in zip(args[1:], one.args[1:], strict=True)]
        return self._chosen(args[0], one.args[0].axes, one["keys"], indices, one.axes)

    def _chosen(
        self,
        value: Array,
        have: Sequence[Axis],
        keys: Sequence[Axis],
        indices: Sequence[tuple[Array, tuple[Axis, ...]]],
        target: Sequence[Axis],
    ) -> Array:
        """The value at numbers along `keys`, NaN where there is no such entry."""
        # whose length bounds a place
        owners = [key.owner for key in keys if key.ragged and key.owner is not None and key.owner in have]
        at = tuple(dict.fromkeys((*(a for _, axes in indices for a in axes), *(a for a in owners if a not in keys))))
        shared = tuple(a for a in have if a not in keys and a in at)
        rest = tuple(a for a in have if a not in keys and a not in at)
        value = align(value, have, (*keys, *shared, *rest))
        bad: Array = np.zeros((1,) * len(at), bool)
        where: list[Array] = []
        for key, (index, axes) in zip(keys, indices, strict=True):
            number = align(index, axes, at)
            inside = (number >= 0) & (number < self._bound(key, at))
            bad = bad | ~inside
            where.append(np.where(inside, number, 0).astype(int))
        where += [align(np.arange(self.extent(a)), (a,), at) for a in shared]
        found = value[tuple(where)] if value.size else self._nothing(at, rest)
        if bad.any():
            bad = np.broadcast_to(bad, found.shape[: len(at)])
            found = np.where(bad.reshape(bad.shape + (1,) * len(rest)), np.nan, found)
        return align(found, (*at, *rest), target)

    def _nothing(self, at: tuple[Axis, ...], rest: tuple[Axis, ...]) -> Array:
        return np.full(tuple(self.extent(a) for a in (*at, *rest)), np.nan)

    def _bound(self, key: Axis, at: tuple[Axis, ...]) -> Any:
        if isinstance(key.size, Length) and key.owner is not None and key.owner in at:
            return align(self._count(key.size), (key.owner,), at)
        return self.extent(key)

    # ------------------------------------------------------------------------------------------ draws and loops

    def _random(self, one: Node, args: list[Array]) -> Array:
        if one["draw"] == "dropout" and not self.training:
            shape = tuple(self.extent(axis) for axis in one.axes)
            return np.broadcast_to(align(args[0], one.args[0].axes, one.axes), shape)
        count = len(args) - one.get("counted", 0)
        args, steps = args[:count], [np.asarray(number).reshape(1) for number in args[count:]]
        if one.get("picked") is not None:
            return self._rows_drawn(one, args, steps)
        full = tuple(dict.fromkeys((*one.axes, *((one["axis"],) if one.get("axis") else ()))))
        aligned = [align(value, arg.axes, full) for value, arg in zip(args, one.args, strict=False)]
        return draws.draw(one["draw"], aligned, self._numbers(one, full, steps))

    def _numbers(self, one: Node, axes: Sequence[Axis], given: Sequence[Array] = ()) -> Array:
        """A uniform number for each entry, by its places: the steps of loops, the example, then axes by their names.

        So it does not matter in which order a formula came by its axes.
        """
        steps = given or [np.array([self._steps[ident][0]]) for ident in sorted(one.free)]
        known = drawing_order(axes)
        places = [self.lengths.numbers.get(axis, self.extent(axis)) for axis in known]
        drawn = draws.uniform(self.seed, one["site"], (*steps, *places))
        return align(drawn.reshape(drawn.shape[len(steps) :]), known, axes)

    def _rows_drawn(self, one: Node, args: list[Array], steps: Sequence[Array]) -> Array:
        """A dropout of some rows: the numbers of these rows out of those that are drawn for all."""
        all_axes = one["drawn"]
        numbers = self._numbers(one, all_axes, steps)
        keys = one["picked"] if isinstance(one["picked"], tuple) else (one["picked"],)
        places = [(value, arg.axes) for value, arg in zip(args[2:], one.args[2:], strict=False)]
        chosen = self._chosen(numbers, all_axes, keys, places, one.axes)
        aligned = [align(value, arg.axes, one.axes) for value, arg in zip(args[:2], one.args, strict=False)]
        return draws.draw(one["draw"], aligned, chosen)

    def _loop(self, one: Node, args: list[Array]) -> list[list[Array]]:
        ident, slots, start = one["loop"], one["slots"], one["start"]
        states: list[list[Array]] = [[value] for value in args[:slots]]
        count, count_axes = args[slots], one.args[slots].axes
        self._slots[ident] = [first.axes for first in one.args[:slots]]
        for step in range(start, int(np.max(count, initial=0))):
            self._memo[ident] = {}
            self._steps[ident] = (step, states)
            new = [self(part) for part in one["body"]]
            for slot, value in enumerate(new):
                axes = one.args[slot].axes
                value = align(value, one["body"][slot].axes, axes)
                if count_axes:  # a length: an example that has ended keeps its state
                    value = np.where(align(count, count_axes, axes) > step, value, states[slot][-1])
                states[slot].append(value)
        return states

    def _counter(self, one: Node, args: list[Array]) -> Array:
        return np.asarray(float(self._steps[one["loop"]][0]))

    def _carry(self, one: Node, args: list[Array]) -> Array:
        states = self._steps[one["loop"]][1][one["slot"]]
        return align(states[-1], self._slots[one["loop"]][one["slot"]], one.axes)

    def _past(self, one: Node, args: list[Array]) -> Array:
        states, axes = self._steps[one["loop"]][1][one["slot"]], self._slots[one["loop"]][one["slot"]]
        return self._recall(one, states, args[0], one.args[0].axes, axes)

    def _state(self, one: Node, args: list[Any]) -> Array:
        states: list[Array] = args[0][one["slot"]]
        return states[-1]

    def _history(self, one: Node, args: list[Any]) -> Array:
        states, start = args[0][one["slot"]], one.args[0]["start"]
        axes = one.args[0].args[one["slot"]].axes
        return self._recall(one, states, args[1] - start, one.args[1].axes, axes)

    @staticmethod
    def _recall(
        one: Node, states: list[Array], number: Array, number_axes: Sequence[Axis], axes: Sequence[Axis]
    ) -> Array:
        """The state of a number, entry by entry; NaN where there is none."""
        if np.ndim(number) == 0:
            wanted = float(number)
            found = states[int(wanted)] if wanted in range(len(states)) else np.full_like(states[0], np.nan)
            return align(found, axes, one.axes)
        at = align(number, number_axes, one.axes)
        result: Array = np.full((1,) * len(one.axes), np.nan)
        for place, value in enumerate(states):
            result = np.where(at == place, align(value, axes, one.axes), result)
        return result

    def _kernel(self, one: Node, args: list[Array]) -> Array:
        from .kernels import KERNELS

        return KERNELS[one["name"]].evaluate(self, one, args)


def align(value: Array, axes: Sequence[Axis], target: Sequence[Axis]) -> Array:
    """The array with one dimension per target axis, in that order; size 1 where it lacks the axis."""
    axes, target = tuple(axes), tuple(target)
    if axes == target:
        return np.asarray(value)
    order, places = _aligning(axes, target)
    return np.asarray(value).transpose(order)[places]


@lru_cache(maxsize=4096)
def _aligning(axes: tuple[Axis, ...], target: tuple[Axis, ...]) -> tuple[tuple[int, ...], tuple[slice | None, ...]]:
    """The order of dimensions that the target asks for, and where it has others."""
    order = tuple(axes.index(axis) for axis in target if axis in axes)
    return order, tuple(slice(None) if axis in axes else None for axis in target)
