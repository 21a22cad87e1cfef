"""specs/deberta.formula against the library's first DeBERTa."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.specs.peers import agree, batch, saved

pytestmark = pytest.mark.usefixtures("no_islands")

TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
}
HUB = {"relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False}
"""What the authors' files say, and what a config of the library leaves out."""

MODELS: dict[str, dict[str, Any]] = {
    "DebertaModel": {},
    "DebertaForMaskedLM": {"hidden_act": "gelu_new"},
    "DebertaForSequenceClassification": {"num_labels": 5, "pooler_hidden_act": "relu"},
    "DebertaForTokenClassification": {"num_labels": 1},
    "DebertaForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {},
    {"pos_att_type": ["c2p"], "relative_attention": True, "max_relative_positions": 3},
    {"pos_att_type": ["p2c"], "relative_attention": True, "type_vocab_size": 2},
    {"pos_att_type": [], "relative_attention": True, "num_hidden_layers": 1},
    {"pos_att_type": ["c2p", "p2c", "p2p"], "relative_attention": True, "position_biased_input": False},
    {"pos_att_type": "c2p|p2c", "relative_attention": False},
    {**HUB, "talking_head": True},
    {**HUB, "max_relative_positions": 2, "num_attention_heads": 1, "hidden_act": "relu"},
    {**HUB, "embedding_size": 5, "type_vocab_size": 1, "layer_norm_eps": 0.5},
    {**HUB, "hidden_size": 7, "num_attention_heads": 7, "intermediate_size": 1, "position_biased_input": True},
]


def config(**more: Any) -> Any:
    return transformers.DebertaConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    made = config(**{**HUB, **MODELS[kind]})
    agree(saved(tmp_path, kind, made), kind, batch(31, made.type_vocab_size))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "DebertaModel", made), "DebertaModel", batch(31, made.type_vocab_size))
