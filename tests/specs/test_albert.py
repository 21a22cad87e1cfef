"""specs/albert.formula against the library's ALBERT."""

from math import prod
from pathlib import Path
from typing import Any

import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, saved

TINY = {
    "vocab_size": 31,
    "embedding_size": 5,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
}
MODELS = {
    "AlbertModel": {},
    "AlbertForMaskedLM": {},
    "AlbertForPreTraining": {"num_labels": 2},
    "AlbertForSequenceClassification": {"num_labels": 5},
    "AlbertForTokenClassification": {"num_labels": 3},
    "AlbertForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {"num_hidden_layers": 5, "num_hidden_groups": 2},  # BL-24: groups 0, 0, 0, 1, 1
    {"num_hidden_layers": 12, "num_hidden_groups": 4},
    {"num_hidden_layers": 4, "num_hidden_groups": 4, "hidden_act": "gelu"},
    {"num_hidden_layers": 2, "num_hidden_groups": 2, "inner_group_num": 3},
    {"inner_group_num": 2, "hidden_act": "relu"},
    {"num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 1},
    {"embedding_size": 12, "hidden_act": "silu"},
    {"embedding_size": 1, "type_vocab_size": 1},
    {"hidden_size": 7, "num_attention_heads": 7, "type_vocab_size": 3, "layer_norm_eps": 0.5},
    {"num_hidden_layers": 7, "num_hidden_groups": 3, "max_position_embeddings": 7},
    {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-30, "vocab_size": 3, "pad_token_id": 2},
]


def config(**more: Any) -> Any:
    return transformers.AlbertConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    agree(saved(tmp_path, kind, config(**MODELS[kind])), kind, batch(31, 2))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    kind = "AlbertForPreTraining" if made.inner_group_num > 1 else "AlbertModel"
    agree(saved(tmp_path, kind, made), kind, batch(made.vocab_size, made.type_vocab_size))


@pytest.mark.parametrize("layers", [1, 40])
def test_one_set_of_parameters_however_deep(layers: int) -> None:
    program = transformula.compile("albert", entry="Bert", settings={"layers": layers})
    assert len(program.graph.weights) == 25
    sizes = [prod(int(str(size)) for size in one.shape) for one in program.graph.weights]
    assert sum(sizes) == 222_595_584, "ALBERT xxlarge has 223 M"
