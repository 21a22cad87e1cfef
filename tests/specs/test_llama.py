"""specs/llama.formula against the library's Llama."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved

pytestmark = pytest.mark.usefixtures("no_islands")
TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 6,
}
MODELS: dict[str, dict[str, Any]] = {
    "LlamaModel": {"attention_bias": True, "mlp_bias": True, "num_attention_heads": 3, "num_key_value_heads": 3},
    "LlamaForCausalLM": {},
    "LlamaForSequenceClassification": {"num_labels": 5, "pad_token_id": 4},
    "LlamaForTokenClassification": {"num_labels": 1, "tie_word_embeddings": True},
    "LlamaForQuestionAnswering": {"num_key_value_heads": 1},
}
UNUSUAL: list[dict[str, Any]] = [
    {"head_dim": 8, "tie_word_embeddings": True},
    {"num_key_value_heads": None, "mlp_bias": True, "num_hidden_layers": 1},
    {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 0.5, "intermediate_size": 1},
    {"hidden_act": "relu", "attention_bias": True, "num_hidden_layers": 5, "vocab_size": 3},
    {"hidden_size": 6, "head_dim": 6, "num_attention_heads": 1, "num_key_value_heads": 1},
    {"rms_norm_eps": 1e-30, "attention_dropout": 0.5, "num_hidden_layers": 0},
    {"hidden_size": 15, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 2, "hidden_act": "gelu"},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 7.5}, "max_position_embeddings": 1},
]


def config(**more: Any) -> Any:
    return transformers.LlamaConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    agree(saved(tmp_path, kind, config(**MODELS[kind])), kind, batch(31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "LlamaForCausalLM", made), "LlamaForCausalLM", batch(made.vocab_size))


@pytest.mark.parametrize("kind", ["LlamaModel", "LlamaForCausalLM"])
@pytest.mark.parametrize("more", [{"tie_word_embeddings": True}, {"attention_bias": True, "mlp_bias": True}], ids=str)
def test_names(tmp_path: Path, kind: str, more: dict[str, Any]) -> None:
    names_match(saved(tmp_path, kind, config(**more)))


def test_grouped_heads_are_not_repeated(tmp_path: Path) -> None:
    """Keys and values keep the axis of their own heads: the group of queries is another one."""
    program = transformula.load(saved(tmp_path, "LlamaModel", config())).program
    shapes = {one.name: one.shape for one in program.compiled.formula.weights}
    assert shapes["layer[layers].attn.W_Q"] == (2, 12, 2, 3, 2)
    assert shapes["layer[layers].attn.W_K"] == (2, 12, 2, 2)


def test_what_the_recogniser_finds(tmp_path: Path) -> None:
    program = transformula.load(saved(tmp_path, "LlamaForCausalLM", config())).program
    fired = {line.rule for line in program.ledger.lines if line.fired}
    assert fired >= {"attention", "rms_norm", "silu", "bounds"}


def test_stray_buffers_of_old_files(tmp_path: Path) -> None:
    """Older files hold the frequencies, and the head beside the table that it is tied to."""
    folder = saved(tmp_path, "LlamaForCausalLM", config(tie_word_embeddings=True))
    path = folder / "model.safetensors"
    stored = load_file(path)
    stored |= {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": np.ones(1, np.float32) for n in range(2)}
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"]
    save_file(stored, path, {"format": "pt"})
    agree(folder, "LlamaForCausalLM", batch(31))


def test_given_positions_turn_and_do_not_mask(tmp_path: Path) -> None:
    """position_ids change the rotation alone; a shift of all of them changes nothing."""
    model = transformula.load(saved(tmp_path, "LlamaModel", config()), dtype="float64")
    given = batch(31)
    plain = model(**given)["last_hidden_state"]
    places = np.arange(7) + np.zeros((len(plain), 1), int)
    np.testing.assert_allclose(model(**given, position_ids=places + 40)["last_hidden_state"], plain, rtol=0, atol=1e-12)
    other = model(**given, position_ids=3 * places)["last_hidden_state"]
    assert np.abs(other[0, 1:] - plain[0, 1:]).max() > 0.01
    np.testing.assert_allclose(other[:, 0], plain[:, 0], rtol=0, atol=1e-12)  # the first token sees itself alone


def test_a_head_width_that_does_not_pair(tmp_path: Path) -> None:
    folder = saved(tmp_path, "LlamaModel", config())
    change_config(folder, head_dim=3)
    with pytest.raises(transformula.TransformulaError, match="is a size and must be a whole number"):
        transformula.load(folder)
