"""The command `train`: its options as settings, what it tells, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from transformula.cli import app
from transformula.training import command
from transformula.training.job import Settings
from transformula.training.trainer import Trained


def test_options_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Settings] = []

    def train(asked: Settings, tell: Any) -> Trained:
        seen.append(asked)
        return Trained(asked.out, 3, [{"step": 0, "held_out": 2.0}, {"step": 3, "loss": 1.5, "held_out": 1.0}], False)

    monkeypatch.setattr(command, "train", train)
    options = ["--objective", "mlm", "--data", "a.txt", "--data", "b.txt", "--set", "layers=2", "--steps", "3"]
    options += ["--corruption", "masking", "--input", "mlm_probability=0.3", "--held-out", "0.2"]
    options += ["--schedule", "cosine"]
    done = CliRunner().invoke(app, ["train", "bert", *options, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.strip() == f"{tmp_path}: loss of the held-out text 2.0000 → 1.0000 after 3 steps"
    (one,) = seen
    assert (one.spec, one.objective, one.data) == ("bert", "mlm", (Path("a.txt"), Path("b.txt")))
    assert (one.settings, one.corruption, one.inputs) == ({"layers": 2}, ("masking",), {"mlm_probability": 0.3})
    assert (one.steps, one.held_out, one.schedule, one.out) == (3, 0.2, "cosine", tmp_path)
    defaults = Settings("bert")
    same = set(vars(one)) - {"spec", "objective", "data", "settings", "corruption", "inputs", "steps", "held_out"}
    assert all(getattr(one, name) == getattr(defaults, name) for name in same - {"schedule", "out", "warmup"})


def test_an_interrupted_training_says_how_it_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "train", lambda asked, tell: Trained(tmp_path, 7, [{"step": 7, "loss": 1.0}], True))
    done = CliRunner().invoke(app, ["train", "bert", "--objective", "mlm", "--data", "a.txt"])
    assert done.exit_code == 130
    assert done.output.strip() == "interrupted after step 7: go on with --resume"


def test_a_training_is_told_as_it_goes(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat saw the moon at noon\n" * 40, "utf-8")
    options = ["--objective", "causal_lm", "--data", str(text), "--out", str(tmp_path / "out"), "--length", "16"]
    options += ["--set", "d=8", "--set", "layers=1", "--set", "head=1", "--steps", "2", "--batch-size", "2"]
    done = CliRunner().invoke(app, ["train", "gpt2", *options, "--eval-every", "1", "--save-every", "2"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("causal_lm of gpt2: ")
    assert "361 tokens" in " ".join(lines[:2])
    told = [line.split(":")[0] for line in lines if line.startswith("step ")]
    assert told == ["step 0", "step 1", "step 2"]
    again = CliRunner().invoke(app, ["train", "gpt2", *options])
    assert again.exit_code == 1
    assert "error[T012]" in again.output


def test_mistakes_have_no_traceback(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "gpt2", "--objective", "causal", "--data", str(tmp_path / "none.txt")])
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    assert done.output.startswith("error[T002]")
