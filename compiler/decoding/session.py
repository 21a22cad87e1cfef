"""Decoding by the naive evaluator: what `begin` and `step` of any backend are tested against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..evaluate import Evaluator, Lengths
from ..ir import Graph, Node
from ..reference import Weights, arranged, check_inputs
from .derive import Decoding

Array = npt.NDArray[Any]
Key: TypeAlias = tuple[str | int, ...]
"""The name of what is kept, and the numbers of the steps whose it is."""


class Keeping(Evaluator):
    """Evaluates the nodes of a step, too: `kept` by earlier calls, `appended` by this one."""

    kept: dict[Key, Array]
    appended: dict[Key, Array]

    def _append(self, one: Node, args: list[Array]) -> Array:
        """Kept rows with the new ones behind them, example by example; 0 beyond an example's end."""
        at = (_key(one, args[1:]), one["along"], one["into"])
        value = np.moveaxis(args[0], [one.args[0].axes.index(a) for a in (at[1].owner, at[1])], (0, 1))
        new, all_ = (self.lengths.count[axis.size.name].astype(int) for axis in at[1:])
        before = self.kept.get(at[0])
        made = np.zeros((len(value), self.extent(at[2]), *value.shape[2:]), value.dtype)
        for example, (more, total) in enumerate(zip(new, all_, strict=True)):
            if before is not None:
                made[example, : total - more] = before[example, : total - more]
            made[example, total - more : total] = value[example, :more]
        self.appended[at[0]] = made
        return np.moveaxis(made, (0, 1), [one.axes.index(a) for a in (at[1].owner, at[2])])

    def _keep(self, one: Node, args: list[Array]) -> Array:
        self.appended[_key(one, args[1:])] = args[0]
        return args[0]

    def _stored(self, one: Node, args: list[Array]) -> Array:
        return self.kept[_key(one, args)]


def _key(one: Node, numbers: Sequence[Array]) -> Key:
    return (str(one["name"]), *(int(number) for number in numbers))


class Session:
    """One batch that is decoded, `feed` by `feed`. Examples stand at the left, `visible` marks what may be seen."""

    def __init__(
        self, decoding: Decoding, weights: Weights | Mapping[str, Array], others: Mapping[str, Any]
    ) -> None:
        """Computes what comes before the first token, from the model's other inputs."""
        self.decoding = decoding
        self.weights: Weights = weights if callable(weights) else lambda name, axes: weights[name]
        self.kept: dict[Key, Array] = {}
        self.lengths = Lengths()
        if decoding.begin is not None:
            given = {name: np.asarray(value) for name, value in others.items() if value is not None}
            check_inputs(decoding.begin, given)
            aligned, self.lengths, _ = arranged(decoding.begin, given)
            self._run(decoding.begin, aligned, self.lengths)

    def feed(self, tokens: Any, counts: Any = None, visible: Any = None) -> dict[str, Array]:
        """The results of new tokens[batch, new], of which each example has `counts`."""
        tokens = np.asarray(tokens)
        counts = np.full(len(tokens), tokens.shape[1]) if counts is None else np.asarray(counts)
        real = np.arange(tokens.shape[1]) < counts[:, None]
        here = self._lengths(tokens.shape[1], counts, real if visible is None else np.asarray(visible, bool) & real)
        found = self._run(self.decoding.step, {self.decoding.tokens: tokens}, here)
        self.lengths = here
        return found

    def _lengths(self, width: int, counts: Array, visible: Array) -> Lengths:
        """Those of the new tokens, and of all with them."""
        all_, new = self.decoding.length.name, self.decoding.new.name
        before = self.lengths.count.get(all_, np.zeros(len(counts), int))
        total = before + counts
        seen = np.zeros((len(counts), int(total.max(initial=0))), bool)
        for example, (start, more) in enumerate(zip(before, counts, strict=True)):
            if all_ in self.lengths.visible:
                seen[example, :start] = self.lengths.visible[all_][example, :start]
            seen[example, start : start + more] = visible[example, :more]
        old = self.lengths
        return Lengths(
            {**old.size, all_: seen.shape[1], new: width, "batch": len(counts)},
            {**old.count, all_: total, new: counts},
            {**old.visible, all_: seen, new: visible},
        )

    def _run(self, graph: Graph, inputs: Mapping[str, Array], lengths: Lengths) -> dict[str, Array]:
        evaluator = Keeping(inputs, self.weights, lengths)
        evaluator.kept, evaluator.appended = self.kept, {}
        found = {}
        for out in graph.outputs:
            found[out.name] = evaluator(out.node).transpose([out.node.axes.index(axis) for axis in out.axes])
        self.kept = {**self.kept, **evaluator.appended}
        return found
