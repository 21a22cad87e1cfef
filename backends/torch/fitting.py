"""An objective's nn.Module with torch.optim.AdamW: what a training asks of a backend."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from ...compiler.objectives import COUNT, SUM
from ..numpy.weights import Weights
from ..objectives import SEED, draws
from ..optimising import AdamW, decaying, seed_of
from .emit import parameter_names
from .loading import device_of, fill, weights_of

if TYPE_CHECKING:
    from ..program import Program

Array = npt.NDArray[Any]
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Fit:
    """The module of an objective in training; gradients of parts of a batch add up until `update`."""

    def __init__(
        self, program: Program, weights: Weights, dtype: str, optimiser: AdamW, device: str | None, seed: int
    ) -> None:
        made = types.ModuleType(f"transformula_{program.name}")
        exec(compile(program.source, f"<{program.name}: generated>", "exec"), made.__dict__)
        self.program, self.place, self.seed = program, device_of(device), seed
        self.module: torch.nn.Module = made.__dict__["Model"](dtype=getattr(torch, dtype), device=self.place)
        fill(program, self.module, weights)
        names, decay = parameter_names(program.graph), decaying(program.compiled.formula)
        self.parameters = {
            f"{one.name}/{place}": parameter
            for one in program.graph.weights
            for place, parameter in enumerate(_flat(getattr(self.module, names.attribute[one.name])))
        }
        groups: list[dict[str, Any]] = [
            {"params": self._of(decay, True), "weight_decay": optimiser.decay},
            {"params": self._of(decay, False), "weight_decay": 0.0},
        ]
        self.clip = optimiser.clip
        self.optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(optimiser.first, optimiser.second), eps=optimiser.eps)
        graph = program.compiled.formula
        self.floats = {one.name for one in graph.inputs if one.kind == "real"}
        self.dtype, self.draws = getattr(torch, dtype), draws(graph)

    def _of(self, decay: set[str], decays: bool) -> list[Any]:
        return [one for name, one in self.parameters.items() if (name.rpartition("/")[0] in decay) == decays]

    def _call(self, given: Mapping[str, Array], **seed: int) -> Mapping[str, Any]:
        tensors = {name: torch.from_numpy(np.array(value)).to(self.place) for name, value in given.items()}
        found: Mapping[str, Any] = self.module(
            **{name: one.to(self.dtype) if name in self.floats else one for name, one in tensors.items()}, **seed
        )
        return found

    def accumulate(self, given: Mapping[str, Array], totals: Array | None, step: int, part: int) -> float:
        """Adds ∂/∂w Σ sum / total over a part of the step's batch and returns its value.

        A loss that is no sum is its own sum, with count 1; without totals it is the loss of this part.

        What is dropped out, and what the formulas draw, is decided by the seed, the step and the part.
        """
        seed = seed_of(self.seed, step, part)
        torch.manual_seed(seed)
        self.module.train()
        found = self._call(given, **({SEED: seed} if self.draws else {}))
        loss = found["loss"]
        if totals is not None:
            counted = torch.as_tensor(np.where(totals > 0, totals, 1), dtype=self.dtype, device=self.place)
            loss = (found.get(SUM, loss) / counted).sum()
        loss.backward()
        return float(loss.detach())

    def update(self, rate: float) -> float:
        """A step of AdamW at this learning rate; returns the norm of the gradient before it was clipped."""
        norm = torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip or float("inf"))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return float(norm)

    def value(self, given: Mapping[str, Array]) -> tuple[Array, Array]:
        """(sums, counts) of the terms of the loss, nothing dropped out; of a loss without, (the loss, 1)."""
        self.module.eval()
        with torch.inference_mode():
            found = self._call(given)
        if SUM not in found:
            return np.asarray([float(found["loss"])]), np.ones(1)
        return tuple(np.atleast_1d(found[name].double().cpu().numpy()) for name in (SUM, COUNT))  # type: ignore[return-value]

    def weights(self) -> Weights:
        """The weights as they are now."""
        return weights_of(self.program, self.module)

    def refill(self, weights: Weights) -> None:
        """Other numbers for the weights."""
        fill(self.program, self.module, weights)

    def state(self) -> dict[str, Array]:
        """What the optimiser remembers, by weight."""
        found = {}
        for name, parameter in self.parameters.items():
            for kind, value in self.optimiser.state.get(parameter, {}).items():
                whole = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
                found[f"{name}/{kind}"] = whole.cpu().numpy()
        return found

    def restore(self, state: Mapping[str, Array]) -> None:
        """Takes up what an optimiser remembered."""
        for name, parameter in self.parameters.items():
            kinds = {kind: state[f"{name}/{kind}"] for kind in MOMENTS if f"{name}/{kind}" in state}
            if kinds:
                tensors = {kind: torch.from_numpy(np.array(value)) for kind, value in kinds.items()}
                self.optimiser.state[parameter] = {
                    kind: one if kind == "step" else one.to(parameter) for kind, one in tensors.items()
                }


def _flat(source: Any) -> Iterator[Any]:
    if isinstance(source, torch.nn.Parameter):
        yield source
    else:
        for one in source:
            yield from _flat(one)
