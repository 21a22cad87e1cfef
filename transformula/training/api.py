"""`transformula.train`: text in, a model's folder out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import trainer
from .job import Settings
from .trainer import Trained


def train(
    spec: str | Path,
    objective: str | None = None,
    data: str | Path | Sequence[str | Path] = (),
    out: str | Path = "trained",
    tell: Callable[[dict[str, Any]], None] = lambda _: None,
    **options: Any,
) -> Trained:
    """Trains an objective of a spec (or of a folder's model) on text into `out`, a folder of the ecosystem.

    `options` are those of the command line: steps, batch_size, accumulate, length, lr, warmup, schedule, decay, clip,
    held_out, eval_every, save_every, keep, seed, resume, backend, dtype, device, tokenizer, corruption, inputs, config,
    settings (entries of the spec's config). `tell` hears of each step. Raises `TransformulaError` for mistakes.
    """
    files = [data] if isinstance(data, str | Path) else list(data)
    if options.get("tokenizer") is not None:
        options["tokenizer"] = Path(options["tokenizer"])
    paths = [Path(one) for one in files]
    return trainer.train(Settings(spec=str(spec), objective=objective, data=paths, out=Path(out), **options), tell)
