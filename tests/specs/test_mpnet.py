"""specs/mpnet.formula against the library's MPNet."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.peers import MASK, Array, agree, batch, saved

TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
}
MODELS: dict[str, dict[str, Any]] = {
    "MPNetModel": {},
    "MPNetForMaskedLM": {"hidden_act": "relu"},
    "MPNetForSequenceClassification": {"num_labels": 5},
    "MPNetForTokenClassification": {"num_labels": 1},
    "MPNetForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {"num_hidden_layers": 1, "num_attention_heads": 1},
    {"num_hidden_layers": 5, "hidden_act": "gelu_new"},
    {"hidden_size": 7, "num_attention_heads": 7},
    {"pad_token_id": 4},
    {"pad_token_id": None, "bos_token_id": None},
    {"relative_attention_num_buckets": 40},
    {"intermediate_size": 1, "hidden_act": "relu"},
    {"max_position_embeddings": 200, "layer_norm_eps": 0.5},
    {"vocab_size": 3, "layer_norm_eps": 1e-30},
]


def config(**more: Any) -> Any:
    return transformers.MPNetConfig(**{**TINY, **more})


def padded(vocab: int) -> dict[str, Array]:
    """Hidden tokens are padding, as the library's tokenizers write it; others are not."""
    given = batch(vocab, low=2)
    return {**given, "input_ids": np.where(MASK == 1, given["input_ids"], 1)}


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    agree(saved(tmp_path, kind, config(**MODELS[kind])), kind, padded(31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "MPNetModel", made), "MPNetModel", padded(made.vocab_size))


def test_tokens_decide_the_positions(tmp_path: Path) -> None:
    """Padding that the mask shows, and tokens that it hides."""
    agree(saved(tmp_path, "MPNetModel", config()), "MPNetModel", batch(3))


@pytest.mark.parametrize("length", [1, 300])
def test_buckets_of_far_keys(tmp_path: Path, length: int) -> None:
    """BL-22: every bucket to both sides, in float64, from the library's float32 logarithms."""
    made = config(max_position_embeddings=length + 2, num_hidden_layers=3, num_attention_heads=1)
    folder = saved(tmp_path, "MPNetModel", made)
    ids = np.random.default_rng(0).integers(2, 31, (1, length))
    model = transformers.MPNetModel.from_pretrained(folder, dtype=torch.float64)
    wanted = model(torch.from_numpy(ids)).last_hidden_state.detach().numpy()
    found = transformula.load(folder, dtype="float64")(ids)["last_hidden_state"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
