"""A training that is ready to run: what it was asked for, one step of it, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..backends.joined import Joined
from ..backends.saving import Origin
from ..compiler import reference
from ..compiler.graphs import Graph, restricted
from ..compiler.objectives import COUNT
from ..grammar.diagnostics import error
from . import checkpoints
from .batches import Batcher, chosen
from .schedule import Schedule
from .texts import Corpus
from .vocabulary import Tokens

Array = npt.NDArray[Any]
OWN = "own weight "
"""What the name of a weight that no folder holds begins with, in what a checkpoint keeps for the optimiser."""


@dataclass(frozen=True)
class Settings:
    """What a training is asked for; all but `out`, `resume`, `save_every`, `keep` and `device` decides its numbers."""

    spec: str
    objective: str | None = None
    data: Sequence[Path] = ()
    out: Path = Path("trained")
    tokenizer: Path | None = None
    vocabulary: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    corruption: Sequence[str] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "torch"
    dtype: str = "float32"
    device: str | None = None
    steps: int = 1000
    batch_size: int = 16
    accumulate: int = 1
    length: int = 128
    lr: float = 1e-3
    warmup: int | None = None
    schedule: str = "linear"
    decay: float = 0.01
    clip: float = 1.0
    held_out: float = 0.05
    eval_every: int = 100
    save_every: int = 500
    keep: int = 2
    seed: int = 0
    resume: bool = False

    @property
    def stored(self) -> str:
        """The numbers that weights begin with: never less than float32."""
        return "float64" if self.dtype == "float64" else "float32"

    def asked(self, digest: str) -> dict[str, Any]:
        """What must be the same where a training goes on, as JSON has it."""
        own = asdict(self)
        for name in ("out", "resume", "save_every", "keep", "device", "data", "tokenizer", "eval_every"):
            own.pop(name)
        made: dict[str, Any] = json.loads(json.dumps({**own, "text": digest}, default=str))
        return made


@dataclass
class Job:
    """A training that is ready to run."""

    asked: Settings
    fit: Any
    batcher: Batcher
    text: Corpus
    origin: Origin | Joined
    schedule: Schedule
    tokens: Tokens
    progress: checkpoints.Progress

    def totals(self, parts: Sequence[Mapping[str, Array]]) -> Array:
        """The counts of each term of the loss over all parts of a batch; for a loss that is no sum, how many."""
        graph = self.batcher.objective.formula
        if all(out.name != COUNT for out in graph.outputs):
            return np.asarray([float(len(parts))])
        counting = restricted(graph, [COUNT])
        read = {str(one["name"]) for one in counting.nodes() if one.op == "input"}
        found = [reference.run(counting, {}, _only(part, read, graph))[COUNT] for part in parts]
        return np.atleast_1d(np.sum(found, axis=0))

    def step(self, number: int) -> tuple[float, int]:
        """One step: (its loss, the tokens it read)."""
        asked, examples = self.asked, self.text.train
        size = asked.batch_size * asked.accumulate
        places, numbers = chosen(len(examples), size, number - 1, asked.seed)
        cuts = [slice(at, at + asked.batch_size) for at in range(0, size, asked.batch_size)]
        parts = [self.batcher.batch(examples, places[cut], numbers[cut]) for cut in cuts]
        totals = self.totals(parts)
        loss = sum(self.fit.accumulate(part, totals, number, place) for place, part in enumerate(parts))
        if not np.isfinite(loss):
            advice = "Take a smaller --lr, or a longer --warmup; at the first step, look for labels that are no class."
            raise error("T011", f"step {number}: the loss is {loss}", help=advice)
        self.fit.update(self.schedule.rate(number))
        return float(loss), sum(int(part["attention_mask"].sum()) for part in parts if "attention_mask" in part)

    def held_out(self) -> float | None:
        """The loss over what is held out; its draws are always the same. None where nothing is."""
        examples = self.text.test
        if not len(examples):
            return None
        batcher = replace(self.batcher, seed=self.asked.seed + 1)
        sums: list[tuple[Array, Array]] = []
        for at in range(0, len(examples), self.asked.batch_size):
            places = range(at, min(at + self.asked.batch_size, len(examples)))
            sums.append(self.fit.value(batcher.batch(examples, places, places)))
        total, count = (np.sum([one[place] for one in sums], axis=0) for place in (0, 1))
        return float((total / np.where(count > 0, count, 1)).sum())

    def save(self) -> Path:
        """A checkpoint of the step that was done last."""
        held = self.origin.weights()
        own = {f"{OWN}{name}": np.asarray(one) for name, one in self.fit.weights().items() if name not in held}
        state = {**self.fit.state(), **own}
        return checkpoints.save(self.asked.out, self._now(), state, self.progress, self.asked.keep)

    def _now(self) -> Origin | Joined:
        """Where the weights go, with their numbers of now; those that the objective does not read stay."""
        return replace(self.origin, weights=lambda: {**self.origin.weights(), **self.fit.weights()})

    def finish(self) -> None:
        """The weights in the folder itself."""
        self._now().save(self.asked.out)


def _only(part: Mapping[str, Array], read: set[str], graph: Graph) -> dict[str, Array]:
    masks = {name: value for name, value in part.items() if name.endswith("attention_mask")}
    needed = {one.name for one in graph.inputs if one.required}
    return {**masks, **{name: value for name, value in part.items() if name in read | needed}}
