"""The loop of a training: steps, checkpoints, and what is held out measured on the way."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .job import Job, Settings
from .preparing import prepare

Told = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Trained:
    """What came of a training: the folder, the step it ended at, losses on the way, and whether it was interrupted."""

    folder: Path
    step: int
    history: list[dict[str, Any]]
    interrupted: bool

    @property
    def losses(self) -> list[float]:
        """The loss of what is held out, each time that it was measured."""
        return [one["held_out"] for one in self.history if one.get("held_out") is not None]


def train(asked: Settings, tell: Told = lambda _: None) -> Trained:
    """Trains from the step where a checkpoint left off, or from the first; `tell` hears of every step.

    Ctrl-C (or SIGTERM) ends it after the step in work, with a checkpoint. Raises `TransformulaError` for mistakes in
    the text, the model or the arguments.
    """
    job = prepare(asked)
    if not job.progress.step:
        job.progress.history.append({"step": 0, "held_out": job.held_out()})
    tell({"job": job, **(job.progress.history[-1] if job.progress.history else {})})
    with stopping() as stop:
        _steps(job, tell, stop)
    job.finish()
    return Trained(asked.out, job.progress.step, job.progress.history, bool(stop))


def _steps(job: Job, tell: Told, stop: list[int]) -> None:
    asked, saved = job.asked, job.progress.step
    while job.progress.step < asked.steps and not stop:
        begun = time.perf_counter()
        number = job.progress.step + 1
        loss, tokens = job.step(number)
        told: dict[str, Any] = {"step": number, "loss": loss}
        if number % asked.eval_every == 0 or number == asked.steps:
            told["held_out"] = job.held_out()
        job.progress = replace(job.progress, step=number)
        job.progress.history.append(told)
        if number % asked.save_every == 0 or number == asked.steps:
            job.save()
            saved = number
        tell({**told, "tokens": tokens, "seconds": time.perf_counter() - begun})
    if saved < job.progress.step:
        job.save()


@contextmanager
def stopping() -> Iterator[list[int]]:
    """A list that has an entry once the user wants to stop; a second Ctrl-C stops at once."""
    stop: list[int] = []
    before = {}

    def note(number: int, frame: Any) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            before[number] = signal.signal(number, note)
        except ValueError:  # not in the main thread: whoever runs it stops it
            break
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
