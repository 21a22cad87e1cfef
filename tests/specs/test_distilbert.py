"""specs/distilbert.formula against the library's DistilBERT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, saved

TINY = {
    "vocab_size": 31,
    "dim": 12,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 20,
    "max_position_embeddings": 9,
}
MODELS: dict[str, dict[str, Any]] = {
    "DistilBertModel": {},
    "DistilBertForMaskedLM": {"activation": "gelu_new"},
    "DistilBertForSequenceClassification": {"num_labels": 5},
    "DistilBertForTokenClassification": {"num_labels": 1},
    "DistilBertForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {"sinusoidal_pos_embds": True},
    {"sinusoidal_pos_embds": True, "dim": 7, "n_heads": 1, "max_position_embeddings": 7},
    {"n_heads": 12},
    {"n_layers": 1, "hidden_dim": 1},
    {"n_layers": 5, "activation": "relu"},
    {"n_layers": 0},
    {"dim": 1, "n_heads": 1, "vocab_size": 2},
    {"activation": "silu", "pad_token_id": 5},
    {"activation": "gelu_pytorch_tanh", "dropout": 0.5, "attention_dropout": 0.5},
]


def config(**more: Any) -> Any:
    return transformers.DistilBertConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    agree(saved(tmp_path, kind, config(**MODELS[kind])), kind, batch(31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "DistilBertModel", made), "DistilBertModel", batch(made.vocab_size))


def test_there_are_no_segments(tmp_path: Path) -> None:
    model = transformula.load(saved(tmp_path, "DistilBertModel", config()))
    with pytest.raises(transformula.TransformulaError, match="token_type_ids"):
        model(input_ids=np.ones((1, 3), int), token_type_ids=np.zeros((1, 3), int))


def test_keys_of_bert_are_none_of_its_own(tmp_path: Path) -> None:
    """The norms' bound is fixed, and the sizes have other keys."""
    folder = saved(tmp_path, "DistilBertModel", config())
    change_config(folder, layer_norm_eps=0.5, hidden_size=24)
    model = transformula.load(folder, backend="reference")
    assert model.config["ε"] == 1e-12
    assert model.config["d"] == 12
    assert model.unused_config_keys == ["layer_norm_eps", "hidden_size"]
