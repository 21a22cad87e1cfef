"""Run-time text of the NumPy backend for training: AdamW over arrays by their names; the emitter copies it.

As in kernels.py everything is a top-level name and needs nothing but numpy, the standard library and the other files of
this folder that are copied.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import BLOCK, run_parallel, scratch

Span = tuple[str, int]
MOMENTS = ("exp_avg", "exp_avg_sq")


class AdamW:
    """w ← w − η (m̂ / (√v̂ + ε) + λ w) for arrays by their names, in place; λ is 0 for all but `decays`.

    m and v are running means of g and g², m̂ and v̂ what they would be without their start at 0. With `clip` gradients
    are scaled down to a norm of so much, all together. (Loshchilov and Hutter, "Decoupled weight decay regularization",
    2019, algorithm 2; the numbers are those of torch.optim.AdamW and clip_grad_norm_.)
    """

    def __init__(
        self,
        tensors: dict[str, NDArray[Any]],
        decays: Collection[str] = (),
        decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        clip: float = 0.0,
        threads: int | None = None,
    ) -> None:
        self.tensors, self.decay, self.betas, self.eps, self.clip = tensors, decay, betas, eps, clip
        self.decays, self.threads, self.count = frozenset(decays), threads, 0
        self.first = {name: np.zeros_like(w) for name, w in tensors.items()}
        self.second = {name: np.zeros_like(w) for name, w in tensors.items()}

    def update(self, gradients: Mapping[str, NDArray[Any]], rate: float) -> float:
        """One step at the learning rate η of the arrays that have a gradient; the norm of all gradients, unclipped."""
        spans = [(name, at) for name, g in gradients.items() for at in range(0, g.size, BLOCK)]
        flat = {name: g.reshape(-1) for name, g in gradients.items()}
        groups = [spans[at : at + 16] for at in range(0, len(spans), 16)]
        norm = math.sqrt(sum(run_parallel(lambda own: sum(square_of(flat, one) for one in own), groups, self.threads)))
        share = min(1.0, self.clip / (norm + 1e-6)) if self.clip else 1.0
        self.count += 1
        run_parallel(lambda own: self.change_all(flat, own, rate, share), groups, self.threads)
        return norm

    def change_all(
        self, gradients: Mapping[str, NDArray[Any]], spans: Sequence[Span], rate: float, share: float
    ) -> None:
        """The step for several parts of arrays."""
        for span in spans:
            self.change(gradients, span, rate, share)

    def change(self, gradients: Mapping[str, NDArray[Any]], span: Span, rate: float, share: float) -> None:
        """The step for a few entries of one array."""
        (name, start), (beta, gamma) = span, self.betas
        g = gradients[name][start : start + BLOCK]
        w, m, v = (one[name].reshape(-1)[start : start + BLOCK] for one in (self.tensors, self.first, self.second))
        s = scratch("adamw", g.shape, w.dtype)
        if share != 1:
            g = np.multiply(g, share, out=scratch("clipped", g.shape, w.dtype))
        np.subtract(g, m, out=s)
        s *= 1 - beta
        m += s
        np.multiply(g, g, out=s)
        s *= 1 - gamma
        v *= gamma
        v += s
        np.sqrt(v, out=s)
        s *= 1 / math.sqrt(1 - gamma**self.count)
        s += self.eps
        np.divide(m, s, out=s)
        s *= rate / (1 - beta**self.count)
        if name in self.decays:
            w *= 1 - rate * self.decay
        w -= s

    def state(self) -> dict[str, NDArray[Any]]:
        """What is remembered of each array: NAME/exp_avg, NAME/exp_avg_sq and NAME/step."""
        found: dict[str, NDArray[Any]] = {}
        for name in self.tensors if self.count else ():
            found[f"{name}/exp_avg"], found[f"{name}/exp_avg_sq"] = self.first[name], self.second[name]
            found[f"{name}/step"] = np.asarray(float(self.count))
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Takes up what was remembered."""
        for name in self.tensors:
            if f"{name}/step" in state:
                self.count = int(state[f"{name}/step"])
                self.first[name][...] = state[f"{name}/exp_avg"]
                self.second[name][...] = state[f"{name}/exp_avg_sq"]


def square_of(arrays: Mapping[str, NDArray[Any]], span: Span) -> float:
    """Σ x² of a few entries of one array."""
    name, start = span
    x = arrays[name][start : start + BLOCK]
    return float(x @ x)
