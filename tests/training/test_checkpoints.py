"""Checkpoints are there wholly or not at all, whenever the process that writes them is killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from transformula import TransformulaError
from transformula.backends.folder import read_model_folder
from transformula.backends.fresh import write_fresh
from transformula.backends.numpy.files import read_stored
from transformula.compiler.config import Config
from transformula.compiler.driver import load_module
from transformula.training import checkpoints

SMALL = {"d": 16, "layers": 2, "head": 2, "ffn": 20, "vocab": 40}
WRITING = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from transformula.backends.folder import read_model_folder
from transformula.training import checkpoints
from transformula.training.places import origin_of
out = Path(sys.argv[1])
origin = origin_of(read_model_folder(out))
weights = origin.weights()
step = max([int(one.name.split("-")[1]) for one in checkpoints.found(out)], default=0)
print("ready", flush=True)
while True:
    step += 1
    marked = {name: [np.full_like(w, step) for w in value] if isinstance(value, list) else np.full_like(value, step)
              for name, value in weights.items()}
    moments = {f"{number}/exp_avg": np.full(10**5, float(step)) for number in range(8)}
    checkpoints.save(out, replace(origin, weights=lambda: marked), moments, checkpoints.Progress(step, {}, []), 2)
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    module = load_module("gpt2")
    write_fresh(tmp_path, module, Config(module, {}, SMALL), "GPT2LMHeadModel", 0, "float32")
    return tmp_path


def test_a_writer_that_is_killed_leaves_whole_checkpoints(out: Path) -> None:
    draw = random.Random(0)
    kills = 0
    while kills < 20:
        writer = subprocess.Popen([sys.executable, "-c", WRITING, str(out)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(4):  # stopped at some place, looked at, and on; at last killed
            time.sleep(draw.uniform(0.0, 0.03))
            writer.send_signal(signal.SIGSTOP)
            kills += 1
            whole(out)
            writer.send_signal(signal.SIGCONT)
        writer.kill()
        writer.wait()
        kills += 1
        whole(out)
        checkpoints.tidy(out)
        assert not list(out.glob(".checkpoint-*"))
    assert checkpoints.found(out)


def whole(out: Path) -> None:
    """Every checkpoint has its own step's weights and optimiser, all of them."""
    for place in checkpoints.found(out)[-1:]:
        step = int(place.name.split("-")[1])
        progress, state = checkpoints.read(place, {})
        assert progress.step == step
        assert all((value == step).all() for value in state.values())
        assert (place / "config.json").is_file()
        weights = read_stored(place)
        assert all((value == step).all() for value in weights.values())
        assert set(weights) == set(read_stored(out))


def test_what_is_read_is_of_this_training(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint-3"
    place.mkdir()
    with pytest.raises(TransformulaError, match="is no checkpoint of a training"):
        checkpoints.read(place, {})
    (place / checkpoints.STATE).write_text(json.dumps({"step": 3, "asked": {"lr": 0.1}, "history": []}), "utf-8")
    from safetensors.numpy import save_file

    save_file({"none": np.zeros(0)}, place / checkpoints.OPTIMISER)
    assert checkpoints.read(place, {"lr": 0.1})[0].step == 3
    with pytest.raises(TransformulaError, match=r"of another training: lr was 0\.1, is 0\.2"):
        checkpoints.read(place, {"lr": 0.2})


def test_the_newest_is_the_last_by_number(tmp_path: Path) -> None:
    for name in ("checkpoint-10", "checkpoint-9", "checkpoint-x", ".checkpoint-11.abc"):
        (tmp_path / name).mkdir()
    assert [one.name for one in checkpoints.found(tmp_path)] == ["checkpoint-9", "checkpoint-10"]


def test_fresh_folders_are_read(out: Path) -> None:
    assert read_model_folder(out).entry == "GPT2LMHeadModel"
