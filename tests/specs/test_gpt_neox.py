"""specs/gpt_neox.formula against the library's GPT-NeoX."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.specs.peers import agree, batch, names_match, saved

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
}
MODELS: dict[str, dict[str, Any]] = {
    "GPTNeoXModel": {},
    "GPTNeoXForCausalLM": {},
}


def turned(share: float, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share, **more}}


UNUSUAL: list[dict[str, Any]] = [
    {"use_parallel_residual": False, "hidden_act": "gelu_new"},
    {"attention_bias": False, "tie_word_embeddings": True},
    {"attention_bias": False, "use_parallel_residual": False, **turned(1.0)},
    turned(0.0),
    turned(0.25, rope_theta=3.5),
    turned(0.5),
    turned(1 / 3),
    turned(0.95),
    turned(0.1),
    {"num_attention_heads": 1, "num_hidden_layers": 1, "hidden_act": "relu", **turned(0.3)},
    {"hidden_size": 14, "num_attention_heads": 2, **turned(0.8)},
    {"hidden_size": 3, "num_attention_heads": 3, **turned(0.9)},
    {"num_hidden_layers": 5, "layer_norm_eps": 0.5, "intermediate_size": 1, "hidden_act": "silu"},
    {"vocab_size": 3, "layer_norm_eps": 1e-30, "max_position_embeddings": 2},
]


def config(**more: Any) -> Any:
    return transformers.GPTNeoXConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config(**MODELS[kind]))
    agree(folder, kind, batch(31))
    names_match(folder)


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "GPTNeoXForCausalLM", made), "GPTNeoXForCausalLM", batch(made.vocab_size))
