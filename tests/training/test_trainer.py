"""Trainings as a user runs them: what they learn, how they go on, and what they say."""

from __future__ import annotations

import json
import shutil
import signal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

import transformula
from transformula import TransformulaError
from transformula.training import trainer
from transformula.training.batches import chosen
from transformula.training.job import Job, Settings
from transformula.training.trainer import Trained

EVENTS = product(("cat", "dog", "owl"), ("moon", "sea", "hill"), ("noon", "night"))
TEXT = "".join(f"the {who} saw the {what} at {when}\n" for who, what, when in EVENTS) * 6
PAIRS = "".join(f"one {n} two\tthe number {n}\n" for n in range(40))
LABELLED = {
    "labelled.tsv": "".join(f"{'yes' if n % 2 else 'no'} {n}\t{n % 2}\n" for n in range(40)),
    "ways.tsv": "".join(f"one {n} two\tthe number {n}\t{n % 3}\n" for n in range(40)),
}
TINY = {"d": 16, "layers": 2, "head": 2, "ffn": 24}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("bert", "mlm", TINY),
    "gpt2": ("gpt2", "causal_lm", {"d": 16, "layers": 2, "head": 2}),
    "t5": ("t5", "seq2seq", {**TINY, "dk": 8}),
    "bart": ("bart", "denoising", {**TINY, "steps": 2}),
    "sbert": ("sbert", "ranking", TINY),
    "labels": ("bert", "labelling", TINY),
    "ways": ("sbert", "classification", {**TINY, "way": 3}),
}
FILES = {"sbert": "pairs.tsv", "labels": "labelled.tsv", "ways": "ways.tsv"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "text.txt").write_text(TEXT, "utf-8")
    for name, text in {"pairs.tsv": PAIRS, **LABELLED}.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def asked(data: Path, out: Path, kind: str = "gpt2", **options: Any) -> Settings:
    """A training of a few steps in float64."""
    spec, objective, sizes = KINDS[kind]
    file = data / FILES.get(kind, "text.txt")
    usual = {"dtype": "float64", "length": 24, "batch_size": 4, "steps": 6, "eval_every": 3, "save_every": 3}
    given = {"settings": sizes, "config": {}, "lr": 1e-2, **usual, **options}
    return Settings(spec=spec, objective=objective, data=[file], out=out, **given)


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_what_is_held_out_goes_down(data: Path, tmp_path: Path, kind: str) -> None:
    still = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)  # twelve steps on two words
    done = trainer.train(asked(data, tmp_path, kind, steps=12, eval_every=6, config=still if kind == "labels" else {}))
    assert done.step == 12
    assert not done.interrupted
    assert done.losses[-1] < done.losses[0] * (0.9 if kind in ("gpt2", "t5", "bart") else 0.97)
    if kind in ("sbert", "ways"):
        SentenceTransformer(str(tmp_path), device="cpu").encode(["one 3 two"])
        return
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    _, told = getattr(transformers, config.architectures[0]).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("a cat")["input_ids"]


@pytest.mark.parametrize("kind", ["bert", "ways"])
def test_going_on_changes_no_bit(data: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of an objective with weights of its own, which the folder has no place for."""
    whole = trainer.train(asked(data, tmp_path / "whole", kind, dtype="float32"))
    parts = tmp_path / "parts"
    real = Job.step

    def stops(job: Job, number: int) -> tuple[float, int]:
        if number == 5:
            raise KeyboardInterrupt
        return real(job, number)

    monkeypatch.setattr(Job, "step", stops)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(asked(data, parts, kind, dtype="float32"))
    monkeypatch.setattr(Job, "step", real)
    done = trainer.train(asked(data, parts, kind, dtype="float32", resume=True))
    assert [one["loss"] for one in done.history if "loss" in one] == [
        one["loss"] for one in whole.history if "loss" in one
    ]
    assert done.losses == whole.losses
    first, second = weights(tmp_path / "whole"), weights(parts)
    assert set(first) == set(second)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_parts_of_a_batch_are_the_whole_batch(data: Path, tmp_path: Path) -> None:
    """Masked tokens differ in number from part to part; dropout, which draws by parts, is off."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {"batch_size": 8, "accumulate": 1}, {"batch_size": 2, "accumulate": 4}
    done = [
        trainer.train(asked(data, tmp_path / str(number), "bert", config=still, **size))
        for number, size in enumerate(sizes)
    ]
    for one, other in zip(done[0].history, done[1].history, strict=True):
        assert one.get("loss") == pytest.approx(other.get("loss"), abs=1e-12)
    first, second = weights(tmp_path / "0"), weights(tmp_path / "1")
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], rtol=0, atol=1e-9)


def test_steps_are_those_of_transformers(data: Path, tmp_path: Path) -> None:
    """Three steps by hand: the library's model, torch.optim.AdamW, the usual weights that do not decay."""
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    plan: dict[str, Any] = {"steps": 3, "config": still, "schedule": "constant", "warmup": 0}
    begin: dict[str, Any] = {}
    trainer.train(asked(data, tmp_path, **plan, decay=0.1), lambda told: begin.update(told) if "job" in told else None)
    job = begin["job"]
    first = tmp_path / "first"
    transformula.train("gpt2", "causal_lm", data / "text.txt", first, steps=1, lr=1e-30, settings=KINDS["gpt2"][2],
                       config=still, length=24, dtype="float64", batch_size=4, clip=1.0)  # fmt: skip
    peer = transformers.GPT2LMHeadModel.from_pretrained(first, dtype=torch.float64).train()
    plain = [one for name, one in peer.named_parameters() if one.dim() < 2]
    maps = [one for name, one in peer.named_parameters() if one.dim() >= 2]
    groups = [{"params": maps, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-2)
    for step in range(3):
        places, numbers = chosen(len(job.text.train), 4, step, 0)
        batch = job.batcher.batch(job.text.train, places, numbers)
        ids, mask, labels = (torch.from_numpy(batch[name]) for name in ("input_ids", "attention_mask", "labels"))
        logits = peer(ids, attention_mask=mask).logits  # the library's own loss is in float32
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        assert float(loss.detach()) == pytest.approx(job.progress.history[step + 1]["loss"], abs=1e-9)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    mine = weights(tmp_path)
    for name, value in peer.state_dict().items():
        if name in mine:
            np.testing.assert_allclose(mine[name], value.numpy(), rtol=0, atol=1e-8)


def test_ctrl_c_saves_what_was_learned(data: Path, tmp_path: Path) -> None:
    """As a checkpoint, and in the folder itself."""
    def tell(told: dict[str, Any]) -> None:
        if told["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    done: Trained = trainer.train(asked(data, tmp_path, steps=50), tell)
    assert done.interrupted
    assert (done.step, signal.getsignal(signal.SIGINT)) == (2, before)
    assert [one.name for one in sorted(tmp_path.glob("checkpoint-*"))] == ["checkpoint-2"]
    kept, own = weights(tmp_path / "checkpoint-2"), weights(tmp_path)
    assert all(np.array_equal(kept[name], own[name]) for name in own)


def test_a_folder_is_gone_on_with(data: Path, tmp_path: Path) -> None:
    """An encoder of the library is read into a model with a head, which is drawn; its own folder stays as it is."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    peer = transformers.BertModel(transformers.BertConfig(vocab_size=361, **sizes))
    peer.save_pretrained(tmp_path / "base")
    stored = weights(tmp_path / "base")
    first = Settings(spec=str(tmp_path / "base"), objective="mlm", data=[data / "text.txt"], out=tmp_path / "next",
                     length=24, steps=1, batch_size=4, lr=1e-9, decay=0.0)  # fmt: skip
    trainer.train(first)
    mine = weights(tmp_path / "next")
    same = [name for name in stored if f"bert.{name}" in mine]
    assert len(same) == len(stored) - 2  # the pooler is no part of it
    for name in same:
        np.testing.assert_allclose(mine[f"bert.{name}"], stored[name], rtol=0, atol=1e-6)
    assert np.abs(mine["cls.predictions.transform.dense.weight"]).max() > 0
    with pytest.raises(TransformulaError, match="holds a model, and no checkpoint to go on from"):
        trainer.train(Settings(**{**first.__dict__, "out": tmp_path / "base"}))
    assert all(np.array_equal(value, weights(tmp_path / "base")[name]) for name, value in stored.items())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_half_the_digits_are_saved_and_gone_on_with(data: Path, tmp_path: Path, dtype: str) -> None:
    plan: dict[str, Any] = {"dtype": dtype, "steps": 4, "save_every": 2, "eval_every": 4}
    whole = trainer.train(asked(data, tmp_path / "whole", **plan))
    (tmp_path / "parts").mkdir()
    shutil.copytree(tmp_path / "whole" / "checkpoint-2", tmp_path / "parts" / "checkpoint-2")
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "whole" / name, tmp_path / "parts" / name)
    done = trainer.train(asked(data, tmp_path / "parts", **plan, resume=True))
    assert [one.get("loss") for one in done.history] == [one.get("loss") for one in whole.history]
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(np.array_equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"objective": "causal"}, "gpt2 has no objective `causal`"),
        ({"objective": None}, "which objective should be trained"),
        ({"schedule": "cosin"}, "there is no schedule `cosin`"),
        ({"lr": -1.0}, r"lr = -1\.0 makes no training"),
        ({"steps": 0}, "steps = 0 should be at least 1"),
        ({"length": 5000}, "the model has room for 1024 tokens"),
        ({"corruption": ["masking"]}, "gpt2 has no corruption"),
        ({"tokenizer": Path("/nowhere")}, "there is no tokenizer"),
        ({"settings": {"vocab": 10}}, "the tokenizer has 361 tokens, the model vocab = 10"),
        ({"backend": "numpi"}, "there is no backend `numpi`"),
        ({"dtype": "float8"}, "dtype = 'float8' is none of"),
        ({"device": "gpu"}, "device = 'gpu'"),
        ({"seed": -1}, "seed = -1 makes no training"),
        ({"settings": {"layer": 2}}, "gpt2 has no config entry `layer`"),
        ({"settings": {"dk": 2}}, "`dk` of gpt2 has no key in config.json"),
        ({"data": []}, "there is no text to train on"),
    ],
)
def test_mistakes_are_told(data: Path, tmp_path: Path, change: dict[str, Any], told: str) -> None:
    one = asked(data, tmp_path)
    with pytest.raises(TransformulaError, match=told):
        trainer.train(Settings(**{**one.__dict__, **change}))


def test_a_folder_with_another_training_is_let_be(data: Path, tmp_path: Path) -> None:
    trainer.train(asked(data, tmp_path, steps=1))
    with pytest.raises(TransformulaError, match=r"holds checkpoint-1 of another training"):
        trainer.train(asked(data, tmp_path, steps=1))
    with pytest.raises(TransformulaError, match=r"of another training: lr was 0\.01, is 0\.5"):
        trainer.train(asked(data, tmp_path, steps=1, lr=0.5, resume=True))
    told = json.loads((tmp_path / "checkpoint-1" / "trainer_state.json").read_text("utf-8"))
    assert told["step"] == 1
