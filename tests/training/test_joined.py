"""Objectives that join several models (ELECTRA's `joint`): a folder for each, kept and gone on with as one."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.objectives import class_of
from tests.training.test_trainer import TEXT
from transformula import TransformulaError
from transformula.backends.joined import Joined, folder_rows, joined, parts_of
from transformula.backends.program import compile
from transformula.cli import app
from transformula.compiler.config import Config
from transformula.compiler.driver import load_module
from transformula.training import checkpoints, trainer
from transformula.training.job import Job, Settings

SMALL = {"d": 16, "layers": 2, "head": 4, "ffn": 16, "emb": 8}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
KINDS = {"generator": "ElectraForMaskedLM", "discriminator": "ElectraForPreTraining"}
SHARED = [f"electra.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")]
BACKENDS = ("torch", "numpy")
OWN = """spec pair extends electra

uses generator : Generator(d = d / 2, head = head / 2, layers = layers / 2)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "text.txt"
    file.write_text(TEXT, "utf-8")
    return file


def asked(data: Path, out: Path, backend: str = "torch", **options: Any) -> Settings:
    """A training of a few steps in float64."""
    usual = {"dtype": "float64", "length": 24, "batch_size": 4, "steps": 6, "eval_every": 3, "save_every": 3}
    given = {"spec": "electra", "settings": SMALL, "lr": 1e-2, "backend": backend, **usual, **options}
    return Settings(objective="joint", data=[data], out=out, **given)


def files(out: Path) -> dict[str, bytes]:
    """All that a training has left, by its place."""
    return {str(one.relative_to(out)): one.read_bytes() for one in sorted(out.rglob("*")) if one.is_file()}


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same steps on both backends, with nothing dropped out."""
    found = {}
    for backend in BACKENDS:
        found[backend] = tmp_path_factory.mktemp(backend)
        done = trainer.train(asked(data, found[backend], backend, config=STILL))
        (found[backend] / "losses.txt").write_text(
            "\n".join(repr(one[name]) for one in done.history for name in ("loss", "held_out") if name in one), "utf-8"
        )
    return found


def test_both_backends_take_the_same_steps(trained: dict[str, Path]) -> None:
    """The generator draws inside of the objective, by the seed of the step: both draw the same tokens."""
    losses = [[float(line) for line in (trained[one] / "losses.txt").read_text().split()] for one in BACKENDS]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-8)
    assert losses[0][-1] < losses[0][0] - 0.5
    for name in KINDS:
        first, second = (load_file(trained[one] / name / "model.safetensors") for one in BACKENDS)
        for key, value in first.items():
            np.testing.assert_allclose(value, second[key], rtol=0, atol=1e-8, err_msg=key)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_library_reads_both_folders(trained: dict[str, Path], backend: str) -> None:
    """Its models have our logits and the two losses of our objective, and share what is tied."""
    out = trained[backend]
    peers = {}
    for name, kind in KINDS.items():
        peers[name], told = getattr(transformers, kind).from_pretrained(
            out / name, dtype=torch.float64, output_loading_info=True
        )
        assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert transformers.AutoTokenizer.from_pretrained(out / name)("a cat")["input_ids"]
    assert [one.config.hidden_size for one in peers.values()] == [4, 16]
    stored = [load_file(out / name / "model.safetensors") for name in KINDS]
    assert all(np.array_equal(stored[0][name], stored[1][name]) for name in SHARED)
    draw = np.random.default_rng(0)
    original = draw.integers(5, 200, (3, 9))
    mask = (np.arange(9) < np.array([[9], [5], [7]])).astype(int)
    masked = (draw.random(mask.shape) < 0.4) & (mask == 1)
    ids, see = np.where(masked, 3, original), torch.from_numpy(mask)
    labels = np.where(masked, original, -100)
    config = transformers.AutoConfig.from_pretrained(out / "discriminator").to_dict()
    model = class_of(compile("electra", "numpy", config, "joint", validate=False)).load(out, dtype="float64")
    made = model(input_ids=ids, labels=labels, attention_mask=mask, seed=3)
    filled = torch.from_numpy(np.where(mask == 1, made["corrupted"], 0).astype(int))
    with torch.no_grad():
        scores = peers["generator"](torch.from_numpy(ids), see).logits
        found = peers["discriminator"](filled, see).logits
    replaced = (filled != torch.from_numpy(original)).double()
    wanted = F.cross_entropy(scores.flatten(0, 1), torch.from_numpy(labels).flatten())
    assert float(made["generator_loss"]) == pytest.approx(float(wanted), abs=1e-10)
    wanted = F.binary_cross_entropy_with_logits(found[see == 1], replaced[see == 1])
    assert float(made["discriminator_loss"]) == pytest.approx(float(wanted), abs=1e-10)
    ours = transformula.load(out / "generator", dtype="float64")(ids, mask)["logits"]
    np.testing.assert_allclose(ours[mask == 1], scores.numpy()[mask == 1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["torch", pytest.param("numpy", marks=pytest.mark.slow)])
def test_going_on_changes_no_bit(data: Path, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout, in two parts for each step: weights, what the optimiser remembers, and what was measured."""
    plan = {"dtype": "float32", "accumulate": 2, "batch_size": 2}
    trainer.train(asked(data, tmp_path / "whole", backend, **plan))
    real = Job.step

    def stops(job: Job, number: int) -> tuple[float, int]:
        if number == 5:
            raise KeyboardInterrupt
        return real(job, number)

    monkeypatch.setattr(Job, "step", stops)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(asked(data, tmp_path / "parts", backend, **plan))
    monkeypatch.setattr(Job, "step", real)
    assert [one.name for one in checkpoints.found(tmp_path / "parts")] == ["checkpoint-3"]
    trainer.train(asked(data, tmp_path / "parts", backend, **plan, resume=True))
    assert files(tmp_path / "whole") == files(tmp_path / "parts")


def test_ctrl_c_saves_both(data: Path, tmp_path: Path) -> None:
    def tell(told: dict[str, Any]) -> None:
        if told["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    done = trainer.train(asked(data, tmp_path, steps=50), tell)
    assert (done.interrupted, done.step) == (True, 2)
    for name in KINDS:
        kept, own = (load_file(one / name / "model.safetensors") for one in (tmp_path / "checkpoint-2", tmp_path))
        assert all(np.array_equal(kept[key], own[key]) for key in own)


def test_weights_begin_apart_and_as_the_spec_says(data: Path, tmp_path: Path) -> None:
    """A spec of one's own, whose generator has half of the layers; what is shared begins the same."""
    one = asked(data, tmp_path, spec=str(own_spec(tmp_path)), settings={**SMALL, "emb": 6}, steps=1, lr=1e-30)
    trainer.train(one)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in KINDS)
    assert first["electra.embeddings_project.weight"].shape == (8, 6)
    assert sum(".layer." in name and "query.weight" in name for name in first) == 1
    assert sum(".layer." in name and "query.weight" in name for name in second) == 2
    norm = "electra.embeddings.LayerNorm.weight"
    assert np.array_equal(first[norm], np.ones(6))
    value = "electra.encoder.layer.0.attention.self.value.weight"
    assert not np.array_equal(first[value], first[value.replace("value", "query")])
    assert all(np.array_equal(first[name], second[name]) for name in SHARED)
    assert np.std(second[SHARED[0]]) == pytest.approx(0.02, rel=0.1)


def own_spec(folder: Path) -> Path:
    file = folder / "pair.formula"
    file.write_text(OWN, "utf-8")
    return file


def test_a_width_that_only_one_of_them_has(data: Path, tmp_path: Path) -> None:
    """The discriminator is as wide as the embedding and has no map behind it, the generator has one (base sizes)."""
    trainer.train(asked(data, tmp_path, settings={**SMALL, "emb": 16}, steps=1))
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in KINDS)
    assert "electra.embeddings_project.weight" in first
    assert "electra.embeddings_project.weight" not in second


# ------------------------------------------------------------------------------------------------------------ folders


def test_a_trained_pair_is_gone_on_with(data: Path, tmp_path: Path, trained: dict[str, Path]) -> None:
    before = files(trained["torch"])
    next_ = asked(data, tmp_path, spec=str(trained["torch"]), settings={}, steps=1, lr=1e-30, decay=0.0)
    done = trainer.train(next_)
    last = float((trained["torch"] / "losses.txt").read_text().split()[-1])
    assert done.losses[0] == pytest.approx(last, abs=1e-10)
    for name in KINDS:
        old, new = (load_file(one / name / "model.safetensors") for one in (trained["torch"], tmp_path))
        for key, value in old.items():
            np.testing.assert_allclose(new[key], value, rtol=0, atol=1e-12)
    assert files(trained["torch"]) == before


def test_one_model_is_gone_on_with_and_the_other_drawn(data: Path, tmp_path: Path, trained: dict[str, Path]) -> None:
    """A discriminator alone: the generator has its embedding, and layers of its own."""
    source = trained["torch"] / "discriminator"
    trainer.train(asked(data, tmp_path, spec=str(source), settings={}, steps=1, lr=1e-30, decay=0.0))
    old, new = load_file(source / "model.safetensors"), load_file(tmp_path / "discriminator" / "model.safetensors")
    assert all(np.allclose(new[key], value, rtol=0, atol=1e-12) for key, value in old.items())
    first = load_file(tmp_path / "generator" / "model.safetensors")
    assert all(np.allclose(first[key], old[key], rtol=0, atol=1e-12) for key in SHARED)
    other = load_file(trained["torch"] / "generator" / "model.safetensors")
    query = "electra.encoder.layer.0.attention.self.query.weight"
    assert first[query].shape == other[query].shape
    assert not np.allclose(first[query], other[query])


def test_folders_that_contradict_each_other_are_told(data: Path, tmp_path: Path, trained: dict[str, Path]) -> None:
    pair = tmp_path / "pair"
    for name in KINDS:
        shutil.copytree(trained["torch"] / name, pair / name)
    file = pair / "generator" / "model.safetensors"
    save_file({name: value + 1 for name, value in load_file(file).items()}, file)
    told = "generator and discriminator hold different numbers for discriminator.bert.embed"
    with pytest.raises(TransformulaError, match=told) as caught:
        trainer.train(asked(data, tmp_path / "out", spec=str(pair), settings={}))
    assert caught.value.diagnostics[0].code == "T023"
    shutil.rmtree(pair / "discriminator")
    with pytest.raises(TransformulaError, match="holds no folder with the sizes of joint") as caught:
        trainer.train(asked(data, tmp_path / "out", spec=str(pair), settings={}))
    assert caught.value.diagnostics[0].code == "T024"


def test_nothing_is_written_over(data: Path, tmp_path: Path, trained: dict[str, Path]) -> None:
    with pytest.raises(TransformulaError, match="holds checkpoint-6 of another training"):
        trainer.train(asked(data, trained["numpy"], config=STILL))
    shutil.copytree(trained["torch"] / "discriminator", tmp_path / "discriminator")
    before = files(tmp_path)
    with pytest.raises(TransformulaError, match="holds discriminator, and no checkpoint to go on from"):
        trainer.train(asked(data, tmp_path))
    assert files(tmp_path) == before


def test_a_folder_of_folders_says_so(trained: dict[str, Path]) -> None:
    done = CliRunner().invoke(app, ["run", str(trained["torch"]), "--text", "a"])
    assert done.exit_code == 1
    assert done.output.startswith("error[C680]")
    assert "discriminator, generator" in done.output.replace("\n", " ")


def test_the_command_trains_it(data: Path, tmp_path: Path) -> None:
    sizes = [f"--set={name}={size}" for name, size in SMALL.items()]
    options = ["--objective", "joint", "--data", str(data), "--out", str(tmp_path / "out"), *sizes]
    options += ["--steps", "2", "--batch-size", "2", "--length", "16", "--set=λ=25"]
    done = CliRunner().invoke(app, ["train", "electra", *options])
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("joint of electra: ")
    assert "masking" in done.stderr
    assert (tmp_path / "out" / "checkpoint-2" / "generator" / "config.json").is_file()
    again = CliRunner().invoke(app, ["train", "electra", *options[:-1], "--resume"])
    assert "error[T009]" in again.output  # λ was 25
    wrong = CliRunner().invoke(app, ["train", "cross_entropy", "--objective", "labelled", "--data", str(data)])
    assert wrong.output.startswith("error[T020]: `labelled` is of no model")


# ---------------------------------------------------------------------------------------------------------- the map


@pytest.mark.parametrize(
    ("row", "code", "told"),
    [
        ('generator : BertForMaskedLM "../x/"', "T021", "is no name of a folder"),
        ('generator : BertForMaskedLM "checkpoint-1/"', "T021", "is no name of a folder"),
        ('generator : ElectraForPreTraining "g/"', "T022", "ElectraForPreTraining has nothing like generator."),
        ('discriminator : BertForMaskedLM "d/"', "T022", "discriminator is no BertForMaskedLM"),
    ],
)
def test_rows_that_name_no_folder_or_another_model(row: str, code: str, told: str) -> None:
    module = load_module(f"spec other extends electra\n\ncheckpoint huggingface of joint\n    {row}\n")
    with pytest.raises(TransformulaError, match=told) as caught:
        parts_of(module, Config(module, {}, SMALL), module.entries["joint"])
    assert caught.value.diagnostics[0].code == code


def test_sizes_that_config_json_cannot_say() -> None:
    text = "spec other extends electra\n\nconfig\n    tall = 3\n\nuses generator : Generator(d = d / 4, tall = 5)\n"
    module = load_module(text)
    with pytest.raises(TransformulaError, match="generator cannot say `tall` = 5") as caught:
        parts_of(module, Config(module, {}, SMALL), module.entries["joint"])
    assert caught.value.diagnostics[0].code == "T022"


def test_what_each_model_calls_a_weight() -> None:
    module = load_module("electra")
    assert [name for _, _, name in folder_rows(module, "joint")] == list(KINDS)
    small, large = parts_of(module, Config(module, {}, SMALL), module.entries["joint"])
    assert small.homes["lm_head.W"] == "generator.lm_head.W"
    assert small.homes["bert.embed.E"] == large.homes["bert.embed.E"] == "discriminator.bert.embed.E"
    assert (small.whole, large.whole) == (False, True)
    assert small.config.effective()["ffn"] == 4


# ------------------------------------------------------------------------------------------------------------- killed

WRITING = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from transformula.backends.folder import read_model_folder
from transformula.backends.joined import joined, parts_of
from transformula.compiler.config import Config, read_config
from transformula.compiler.driver import load_module
from transformula.training import checkpoints
from transformula.training.places import origin_of
out = Path(sys.argv[1])
module = load_module("electra")
config = Config(module, read_config(out / "discriminator" / "config.json"))
parts = parts_of(module, config, module.entries["joint"])
origin = joined(tuple((one, origin_of(read_model_folder(out / one.name))) for one in parts))
weights = origin.weights()
step = max([int(one.name.split("-")[1]) for one in checkpoints.found(out)], default=0)
print("ready", flush=True)
while True:
    step += 1
    marked = {name: [np.full_like(w, step) for w in value] if isinstance(value, list) else np.full_like(value, step)
              for name, value in weights.items()}
    moments = {f"{number}/exp_avg": np.full(10**5, float(step)) for number in range(4)}
    checkpoints.save(out, replace(origin, weights=lambda: marked), moments, checkpoints.Progress(step, {}, []), 2)
"""


def test_a_writer_that_is_killed_leaves_whole_checkpoints(tmp_path: Path, trained: dict[str, Path]) -> None:
    """Both models are of one step, and so is the optimiser."""
    for name in KINDS:
        shutil.copytree(trained["torch"] / name, tmp_path / name)
    draw = random.Random(0)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITING, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(3):  # stopped at some place, looked at, and on; at last killed
            time.sleep(draw.uniform(0.0, 0.04))
            writer.send_signal(signal.SIGSTOP)
            whole(tmp_path)
            writer.send_signal(signal.SIGCONT)
        writer.kill()
        writer.wait()
        whole(tmp_path)
        checkpoints.tidy(tmp_path)
        assert not list(tmp_path.glob(".checkpoint-*"))
    assert checkpoints.found(tmp_path)


def whole(out: Path) -> None:
    for place in checkpoints.found(out)[-1:]:
        step = int(place.name.split("-")[1])
        progress, state = checkpoints.read(place, {})
        assert progress.step == step
        assert all((value == step).all() for value in state.values())
        for name in KINDS:
            assert (place / name / "config.json").is_file()
            assert (place / name / "tokenizer.json").is_file()
            weights = load_file(place / name / "model.safetensors")
            assert all((value == step).all() for value in weights.values())
            assert set(weights) == set(load_file(out / name / "model.safetensors"))


@pytest.mark.slow
def test_a_training_that_is_killed_goes_on(data: Path, tmp_path: Path) -> None:
    """SIGKILL while it runs, whatever it is at: what goes on from there ends as if nothing had been."""
    sizes = [f"--set={name}={size}" for name, size in SMALL.items()]
    options = ["train", "electra", "--objective", "joint", "--data", str(data), *sizes, "--steps", "12", "--save-every"]
    options += ["1", "--eval-every", "12", "--length", "16", "--batch-size", "2", "--backend", "numpy"]
    options = [sys.executable, "-m", "transformula", *options, "--resume", "--out"]
    subprocess.run([*options, str(tmp_path / "whole")], check=True, capture_output=True)
    out, draw = tmp_path / "parts", random.Random(1)
    for _ in range(2):
        run = subprocess.Popen([*options, str(out)], stderr=subprocess.DEVNULL)
        seen = len(checkpoints.found(out)) and int(checkpoints.found(out)[-1].name[11:])
        while run.poll() is None and not any(int(one.name[11:]) > seen + 2 for one in checkpoints.found(out)):
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.05))
        run.kill()
        run.wait()
        assert checkpoints.found(out)
    subprocess.run([*options, str(out)], check=True, capture_output=True)
    first, second = files(tmp_path / "whole"), files(out)
    assert first == second


def test_joined_weights_are_written_to_all(trained: dict[str, Path], tmp_path: Path) -> None:
    """A weight that models share is one, wherever it is changed."""
    from transformula.backends.folder import read_model_folder
    from transformula.training.places import origin_of

    module = load_module("electra")
    config = Config(module, transformers.AutoConfig.from_pretrained(trained["torch"] / "discriminator").to_dict())
    parts = parts_of(module, config, module.entries["joint"])
    found = joined(tuple((one, origin_of(read_model_folder(trained["torch"] / one.name))) for one in parts))
    changed = {**found.weights(), "discriminator.bert.embed.E": found.weights()["discriminator.bert.embed.E"] + 1}
    Joined(found.parts, lambda: changed).save(tmp_path)
    for name in KINDS:
        old, new = (load_file(one / name / "model.safetensors") for one in (trained["torch"], tmp_path))
        moved = [key for key, value in old.items() if not np.array_equal(value, new[key])]
        assert moved == [SHARED[0]]
        np.testing.assert_array_equal(new[SHARED[0]], old[SHARED[0]] + 1)
