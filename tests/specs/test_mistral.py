"""specs/mistral.formula against the library's Mistral: windows in every layer."""

from pathlib import Path
from typing import Any

import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, names_match, saved
from tests.specs.test_llama import TINY
from transformula.compiler.config import Config
from transformula.compiler.driver import load_module

pytestmark = pytest.mark.usefixtures("no_islands")
MODELS: dict[str, dict[str, Any]] = {
    "MistralModel": {},
    "MistralForCausalLM": {"tie_word_embeddings": True},
    "MistralForSequenceClassification": {"sliding_window": 2, "num_labels": 3, "pad_token_id": 30},
    "MistralForTokenClassification": {"sliding_window": None},
    "MistralForQuestionAnswering": {"sliding_window": 6},
}
UNUSUAL: list[dict[str, Any]] = [
    {"sliding_window": 1},
    {"sliding_window": 3, "num_hidden_layers": 5},
    {"sliding_window": 4, "head_dim": 8, "hidden_act": "relu"},
    {"sliding_window": 7, "num_key_value_heads": 6},
    {"sliding_window": None, "num_key_value_heads": 1, "rms_norm_eps": 1e-30},
    {"head_dim": None, "num_attention_heads": 2, "num_key_value_heads": 2, "attention_dropout": 0.4},
    {"sliding_window": 2, "head_dim": 4, "rope_parameters": {"rope_type": "dynamic", "factor": 3.0}},
    {"sliding_window": 5, "hidden_size": 6, "num_attention_heads": 3, "num_key_value_heads": 3, "vocab_size": 3},
]


def config(**more: Any) -> Any:
    return transformers.MistralConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    agree(saved(tmp_path, kind, config(**MODELS[kind])), kind, batch(31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "MistralForCausalLM", made), "MistralForCausalLM", batch(made.vocab_size))


def test_names(tmp_path: Path) -> None:
    names_match(saved(tmp_path, "MistralForCausalLM", config()))


def test_a_window_is_bounds_and_no_table() -> None:
    program = transformula.compile("mistral", config={"sliding_window": 3, "num_hidden_layers": 2}, entry="Llama")
    (line,) = (line for line in program.ledger.lines if line.rule == "bounds")
    assert line.fired
    assert line.what == "a window: 2 keys before the row to 0 after it"


def test_null_is_no_window_and_a_missing_key_the_default() -> None:
    module = load_module("mistral")
    found = [Config(module, given).effective()["w"] for given in ({}, {"sliding_window": None}, {"sliding_window": 7})]
    assert found == [4096, None, 7]
    assert Config(module, {"num_attention_heads": 6, "num_key_value_heads": None}).effective()["kv"] == 6
