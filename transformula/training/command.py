"""The command `train`: its options as settings, a bar with loss and tokens per second, and what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from .job import Settings
from .trainer import Trained, train


def run(asked: Settings) -> Trained:
    """Trains, with a bar on the terminal (a line for each measurement elsewhere)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown = Shown(bar, console, asked)
        done = train(asked, shown.tell)
    if done.interrupted:
        told = f"interrupted after step {done.step}: go on with --resume"
        click.echo(told, err=True)
    else:
        click.echo(f"{done.folder}: {_measured(done)}", err=True)
    return done


def _measured(done: Trained) -> str:
    losses = done.losses
    if not losses:
        return f"loss {done.history[-1]['loss']:.4f} after {done.step} steps"
    return f"loss of the held-out text {losses[0]:.4f} → {losses[-1]:.4f} after {done.step} steps"


class Shown:
    """Tells the terminal how a training goes."""

    def __init__(self, bar: Any, console: Any, asked: Settings) -> None:
        self.bar, self.console, self.asked = bar, console, asked
        self.task: Any = None
        self.tokens, self.begun = 0, time.perf_counter()

    def tell(self, told: dict[str, Any]) -> None:
        """A step, or what the training begins with."""
        if "job" in told:
            self._begin(told["job"])
            told = {"step": told.get("step", 0), "held_out": told.get("held_out")}
        self.tokens += told.get("tokens", 0)
        speed = self.tokens / max(time.perf_counter() - self.begun, 1e-9)
        loss = f"loss {told['loss']:.4f}" if "loss" in told else ""
        self.bar.update(self.task, completed=told["step"], description=f"{loss}  {speed:,.0f} tokens/s".strip())
        if told.get("held_out") is not None:
            rate = f", {speed:,.0f} tokens/s" if self.tokens else ""
            parts = [part for part in (loss, f"held out {told['held_out']:.4f}") if part]
            self.console.print(f"step {told['step']}: {', '.join(parts)}{rate}", highlight=False)

    def _begin(self, job: Any) -> None:
        names = [program.name for program in job.batcher.chain]
        way = f", {' and '.join(names)}" if names else ""
        count = sum(int(getattr(one, "size", 0)) for one in _arrays(job.fit.weights()))
        self.console.print(
            f"{job.batcher.objective.entry} of {job.batcher.objective.module.name}: {count:,} parameters, "
            f"{len(job.text.train):,} examples ({len(job.text.test):,} held out), {job.tokens.size:,} tokens{way}",
            highlight=False,
        )
        self.task = self.bar.add_task("", total=self.asked.steps, completed=job.progress.step)
        self.begun = time.perf_counter()


def _arrays(weights: Any) -> list[Any]:
    found: list[Any] = []
    stack = list(weights.values())
    while stack:
        one = stack.pop()
        if isinstance(one, list):
            stack += one
        else:
            found.append(one)
    return found


def settings_of(spec: str, data: tuple[Path, ...], corruption: tuple[str, ...], **chosen: Any) -> Settings:
    """The command line's options as what a training is asked for."""
    return Settings(spec=spec, data=data, corruption=corruption or None, **chosen)


def end(done: Trained) -> None:
    """130 where the user stopped it."""
    if done.interrupted:
        sys.exit(130)
