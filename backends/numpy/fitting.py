"""An objective's NumPy module with the AdamW that its file holds: what a training asks of a backend."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...compiler.objectives import COUNT, SUM
from ...grammar.diagnostics import error
from ..optimising import AdamW, decaying, seed_of
from .loading import DTYPES
from .weights import Weights, table_entries

if TYPE_CHECKING:
    from ..program import Program

Array = npt.NDArray[Any]


class Fit:
    """The module of an objective in training; gradients of parts of a batch add up until `update`.

    Raises `TransformulaError` for a device or a kind of numbers that NumPy has not.
    """

    def __init__(
        self, program: Program, weights: Weights, dtype: str, optimiser: AdamW, device: str | None, seed: int
    ) -> None:
        if device not in (None, "cpu"):
            raise error("C626", f"device = {device!r}: NumPy computes on the CPU", help="--backend torch has devices.")
        if dtype not in DTYPES:
            raise error("C622", f"dtype = {dtype!r} is none of {', '.join(DTYPES)}")
        made = types.ModuleType(f"transformula_{program.name}")
        exec(compile(program.source, f"<{program.name}: generated>", "exec"), made.__dict__)
        self.program, self.made, self.dtype, self.seed = program, made.__dict__, np.dtype(dtype), seed
        self.model = self.made["Model"](weights, dtype=dtype)
        decay = decaying(program.compiled.formula)
        decays = {name for row, _, name in table_entries(self.made["CHECKPOINT"]) if row[0] in decay}
        self.optimiser = self.made["AdamW"](
            self.model.tensors, decays, optimiser.decay, (optimiser.first, optimiser.second), optimiser.eps,
            optimiser.clip,
        )  # fmt: skip
        graph = program.compiled.formula
        self.floats = {one.name for one in graph.inputs if one.kind == "real"}
        self.sums = any(out.name == SUM for out in graph.outputs)
        self.gradients: dict[str, Array] = {}
        self.fresh = True  # whether calls see the weights as they are

    def _given(self, given: Mapping[str, Array]) -> dict[str, Array]:
        return {n: np.asarray(x, self.dtype) if n in self.floats else np.asarray(x) for n, x in given.items()}

    def accumulate(self, given: Mapping[str, Array], totals: Array | None, step: int, part: int) -> float:
        """Adds ∂/∂w Σ sum / total over a part of the step's batch and returns its value.

        A loss that is no sum is its own sum, with count 1; without totals it is the loss of this part.

        What is dropped out, and what the formulas draw, is decided by the seed, the step and the part.
        """
        loss, gradients = self.model.loss_and_gradients(
            **self._given(given), totals=totals if self.sums else None, seed=seed_of(self.seed, step, part)
        )
        if not self.sums and totals is not None and totals[0] != 1:
            loss /= totals[0]
            for one in gradients.values():
                one /= totals[0]
        if not self.gradients:
            self.gradients = gradients
        else:
            for name, own in gradients.items():
                self.gradients[name] += own
        return float(loss)

    def update(self, rate: float) -> float:
        """A step of AdamW at this learning rate; returns the norm of the gradient before it was clipped."""
        norm = self.optimiser.update(self.gradients, rate)
        self.gradients, self.fresh = {}, False
        return float(norm)

    def value(self, given: Mapping[str, Array]) -> tuple[Array, Array]:
        """(sums, counts) of the terms of the loss; of a loss without, (the loss, 1)."""
        if not self.fresh:
            self.model.refresh()
            self.fresh = True
        if not self.sums:
            return np.asarray([float(self.model(**self._given(given), outputs=["loss"])["loss"])]), np.ones(1)
        found = self.model(**self._given(given), outputs=[SUM, COUNT])
        return np.asarray(found[SUM], float), np.asarray(found[COUNT], float)

    def weights(self) -> Weights:
        """The weights as they are now."""
        return {name: _copied(one) for name, one in self.model.weights.items()}

    def refill(self, weights: Weights) -> None:
        """Other numbers for the weights."""
        self.made["fill_weights"](self.model.weights, weights)
        self.fresh = False

    def state(self) -> dict[str, Array]:
        """What the optimiser remembers, by stored names."""
        return {name: np.array(one) for name, one in self.optimiser.state().items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Takes up what an optimiser remembered."""
        self.optimiser.restore(state)


def _copied(one: Any) -> Any:
    return [_copied(part) for part in one] if isinstance(one, list) else np.array(one)
