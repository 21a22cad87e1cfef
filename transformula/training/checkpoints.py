"""Checkpoints: folders of the ecosystem with what the optimiser remembers, there wholly or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from ..backends.joined import Joined
from ..backends.saving import Origin
from ..grammar.diagnostics import error

Array = npt.NDArray[Any]
STATE, OPTIMISER = "trainer_state.json", "optimizer.safetensors"
NAME = re.compile(r"checkpoint-([0-9]+)")
UNFINISHED = ".checkpoint-"


@dataclass(frozen=True)
class Progress:
    """How far a training is: steps done, what it was asked for, and what was measured on the way."""

    step: int
    asked: Mapping[str, Any]
    history: list[dict[str, Any]]


def save(out: Path, origin: Origin | Joined, optimiser: Mapping[str, Array], progress: Progress, keep: int) -> Path:
    """Writes out/checkpoint-STEP beside its place and renames it; of older ones `keep` stay. Returns the folder."""
    place = out / f"checkpoint-{progress.step}"
    made = Path(tempfile.mkdtemp(dir=out, prefix=f"{UNFINISHED}{progress.step}."))
    try:
        origin.save(made)
        arrays = {name: np.array(value, order="C") for name, value in optimiser.items()}  # the file is their memory
        save_file(arrays or {"none": np.zeros(0)}, made / OPTIMISER)
        told = {"step": progress.step, "asked": progress.asked, "history": progress.history}
        (made / STATE).write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        for file in made.rglob("*"):
            _flush(file)
        os.chmod(made, 0o755)
        if place.exists():
            shutil.rmtree(place)
        os.rename(made, place)
        _flush(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    for old in found(out)[: -keep or None]:
        _remove(old)
    return place


def _flush(path: Path) -> None:
    """Waits until a file or a folder's entries are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(place: Path) -> None:
    """Removes a checkpoint: first its name, so that no half of it is taken for one."""
    gone = place.with_name(f"{UNFINISHED}{place.name}.old")
    os.rename(place, gone)
    shutil.rmtree(gone, ignore_errors=True)


def found(out: Path) -> list[Path]:
    """The checkpoints of a folder, the oldest first."""
    numbered = [(int(match[1]), one) for one in out.glob("checkpoint-*") if (match := NAME.fullmatch(one.name))]
    return [one for _, one in sorted(numbered)]


def tidy(out: Path) -> None:
    """Removes what a training that was killed left half-written."""
    for one in out.glob(f"{UNFINISHED}*"):
        shutil.rmtree(one, ignore_errors=True)


def read(place: Path, asked: Mapping[str, Any]) -> tuple[Progress, dict[str, Array]]:
    """How far a checkpoint is, and its optimiser. Raises `TransformulaError` if it is of another training."""
    try:
        told = json.loads((place / STATE).read_text("utf-8"))
        progress = Progress(int(told["step"]), dict(told["asked"]), list(told["history"]))
        state = load_file(place / OPTIMISER)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise error("T008", f"{place} is no checkpoint of a training: {fault}") from None
    other = [name for name in asked if progress.asked.get(name) != asked[name]]
    if other:
        told = "; ".join(f"{name} was {progress.asked.get(name)!r}, is {asked[name]!r}" for name in other)
        advice = "Go on with the same arguments, or begin in another --out."
        raise error("T009", f"{place} is of another training: {told}", help=advice)
    return progress, {name: value for name, value in state.items() if name != "none"}
