"""`transformula summary`: what it prints, the same as data, a folder beside its files, and the function from Python."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import transformers
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.configs import TINY
from transformula.cli import app
from transformula.summarising import ModelSummary

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "summarised"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["summary", *arguments])


def data(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(*arguments, "--json").stdout)
    return found


PRINTED = {
    "bert": ["bert"],
    "gpt2": ["gpt2", "--entry", "GPT2LMHeadModel", "--batch", "1", "--stage", "formula", "--depth", "2"],
    "albert": ["albert", "--length", "512", "--dtype", "bfloat16"],
    "t5_weights": ["t5", "--entry", "T5ForConditionalGeneration", "--weights"],
    "mistral": ["mistral", "--entry", "LlamaForCausalLM", "--set", "layers=2"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed(name: str, regen: bool) -> None:
    told = call(*PRINTED[name]).stdout
    path = GOLDEN / f"{name}.txt"
    if regen:
        path.write_text(told, "utf-8")
    assert path.read_text("utf-8") == told, "write it anew with pytest --regen"
    assert call(*PRINTED[name]).stdout == told


@pytest.mark.parametrize("width", [30, 50, 70, 100])
@pytest.mark.parametrize("weights", [False, True], ids=["blocks", "weights"])
def test_narrow_terminals_get_fewer_columns(width: int, weights: bool) -> None:
    made = transformula.summary("bert", settings={"layers": 2})
    told = made.text(width=width, weights=weights)
    assert max(map(len, told.splitlines())) <= width
    assert all(line == line.rstrip() for line in told.splitlines())
    if not weights:
        assert "85,054,464" not in told
        assert "14,175,744" in told  # two layers
        assert ("moved" in told.split("\n\n")[1]) == (width == 100)


def test_json_is_the_tree() -> None:
    found = data("bert", "--set", "layers=2", "--batch", "3", "--length", "5")
    top = found["top"]
    assert top["formula"]["parameters"] == found["parameters"] == found["formula"]["amount"]["parameters"]
    assert found["tokens"] == 15
    assert [part["name"] for part in top["parts"]] == ["embed", "layer[layers]", "pool"]
    assert top["parts"][1]["runs"] == 2
    (weight,) = [one for one in top["parts"][0]["weights"] if one["name"] == "embed.E"]
    assert (weight["axes"], weight["shape"]) == (["vocab", "d"], [30522, 768])
    assert weight["stored"] == ["embeddings.word_embeddings.weight"]
    assert found["cache"] is None
    assert found["files"] is None


def test_mistakes_are_told() -> None:
    assert call("bert", "--depth", "-1").exit_code == 2
    for arguments, code in (
        (["bert", "--dtype", "float23"], "C670"),
        (["bert", "--entry", "Bart"], "N230"),
        (["nothing_like_this"], "S410"),
    ):
        found = call(*arguments)
        assert found.exit_code == 1
        assert code in found.stderr
        assert found.stdout == ""


# --- a model's folder ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT of the library."""
    transformers.BertModel(transformers.BertConfig(**TINY)).save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_is_its_config_and_agrees_with_its_headers(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    made = transformula.summary(folder)
    assert made.parameters == sum(one.size for one in stored.values())
    assert made.files is not None
    assert made.files.same
    assert (made.files.tensors, made.files.read_tensors) == (len(stored), len(stored))
    assert (made.files.numbers, made.files.read_numbers) == (made.parameters, made.parameters)
    assert made.files.bytes == 4 * made.parameters
    told = call(str(folder)).stdout
    assert f"{len(stored)} tensors, {made.parameters:,} numbers" in told
    assert "that nobody reads" not in told


def test_each_difference_of_a_file_is_told(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    del stored["pooler.dense.bias"]
    stored["stray.weight"] = stored["pooler.dense.weight"]
    stored["embeddings.word_embeddings.weight"] = stored["embeddings.word_embeddings.weight"][:-1].copy()
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    found = data(str(folder))["files"]
    assert found["missing"] == ["pool.b"]
    assert found["left_over"] == ["stray.weight"]
    (wrong,) = found["misshapen"]
    assert wrong.startswith("embeddings.word_embeddings.weight is [30, 12]")
    told = call(str(folder)).stdout
    assert "1 of weights that the file lacks: pool.b" in told
    assert "1 that nobody reads: stray.weight" in told
    assert "1 of another shape: embeddings.word_embeddings.weight" in told


def test_tied_weights_that_a_file_holds_twice_are_told(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=31, n_embd=12, n_layer=1, n_head=3, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    save_file({**stored, "lm_head.weight": stored["transformer.wte.weight"].copy()}, tmp_path / "model.safetensors")
    made = transformula.summary(tmp_path)
    assert made.files is not None
    assert made.files.same
    assert made.files.twice == ("lm_head.weight",)
    assert made.files.numbers == made.parameters + 31 * 12
    assert made.files.read_numbers == made.parameters


def test_a_folder_without_safetensors_is_summed_up_all_the_same(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "no safetensors here" in call(str(folder)).stdout
    assert transformula.summary(folder).files is None


@pytest.mark.parametrize(
    "content",
    [b"", struct.pack("<Q", 1 << 60), struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 40) + b'{"a": {"dtype": "F32"}}'],
)
def test_a_file_that_is_unsound_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    found = call(str(folder))
    assert found.exit_code == 1
    assert "K010" in found.stderr


def test_shards_are_read_by_their_headers(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(stored)
    homes = {name: f"part{i % 2}.safetensors" for i, name in enumerate(names)}
    for file in set(homes.values()):
        save_file({name: stored[name] for name in names if homes[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes}))
    made = transformula.summary(folder)
    assert made.files is not None
    assert made.files.same
    assert made.files.tensors == len(stored)


# --- from Python ---------------------------------------------------------------------------------------------


def test_from_python() -> None:
    made = transformula.summary("gpt2", entry="GPT2LMHeadModel", batch=2, length=10, dtype="float16")
    assert isinstance(made, ModelSummary)
    assert (made.parameters, made.tokens, made.dtype) == (124_439_808, 20, "float16")
    assert made.cache is not None
    assert made.cache.per_token == 12 * 2 * 768 * 2
    assert str(made).startswith("GPT2LMHeadModel of gpt2; costs are for 2 examples of 10 tokens")
    program = transformula.compile("gpt2", entry="GPT2LMHeadModel", validate=False)
    assert transformula.summary(program, batch=2, length=10, dtype="float16") == made
    text = (ROOT / "examples" / "attention.formula").read_text("utf-8")
    assert transformula.summary(text).parameters == transformula.summary(ROOT / "examples/attention.formula").parameters
