"""specs/phi.formula against the library's Phi."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved
from tests.specs.test_dropout import both
from tests.specs.test_gpt_neox import loss_and_states, turned
from transformula import TransformulaError

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 6,
}
MODELS: dict[str, dict[str, Any]] = {
    "PhiModel": {"qk_layernorm": True},
    "PhiForCausalLM": {},
    "PhiForSequenceClassification": {"num_labels": 5, "pad_token_id": 4},
    "PhiForTokenClassification": {"num_labels": 1},
}


UNUSUAL: list[dict[str, Any]] = [
    {"tie_word_embeddings": True, "qk_layernorm": True, **turned(1.0)},
    {"num_key_value_heads": None, "hidden_act": "gelu", **turned(1 / 3)},
    {"num_key_value_heads": 1, "hidden_act": "relu", "layer_norm_eps": 0.5, **turned(0.0)},
    {"num_attention_heads": 1, "num_key_value_heads": 1, "qk_layernorm": True, "num_hidden_layers": 1, **turned(0.4)},
    {"head_dim": 10, "num_hidden_layers": 3, "intermediate_size": 1, **turned(0.8, rope_theta=1.5)},
    {"hidden_size": 15, "num_attention_heads": 3, "num_key_value_heads": 3, "hidden_act": "silu", **turned(0.4)},
    {"vocab_size": 3, "layer_norm_eps": 1e-30, "resid_pdrop": 0.5, "embd_pdrop": 0.5, "attention_dropout": 0.5},
    {"num_hidden_layers": 0, "tie_word_embeddings": True},
    turned(0.5, rope_type="linear", factor=2.5),
    turned(0.5, rope_type="dynamic", factor=3.0),
    turned(0.5, rope_type="yarn", factor=4.0, beta_fast=3, beta_slow=2),
    turned(0.5, rope_type="longrope", short_factor=[1.0, 2.5], long_factor=[3.0, 1.5], factor=3.0),
    turned(1.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
]


def config(**more: Any) -> Any:
    return transformers.PhiConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config(**MODELS[kind]))
    agree(folder, kind, batch(31))
    names_match(folder)


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, "PhiForCausalLM", made), "PhiForCausalLM", batch(made.vocab_size))


@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_states(tmp_path: Path, tied: bool) -> None:
    folder = saved(tmp_path, "PhiForCausalLM", config(tie_word_embeddings=tied))
    loss_and_states(folder, "PhiForCausalLM")


def test_older_keys_of_rotation(tmp_path: Path) -> None:
    """phi-2 says partial_rotary_factor and rope_theta at the top of its config.json."""
    folder = saved(tmp_path, "PhiModel", config(**turned(0.75, rope_theta=9.0)))
    given = batch(31)
    wanted = transformula.load(folder)(**given)["last_hidden_state"]
    change_config(folder, rope_parameters=None, partial_rotary_factor=0.75, rope_theta=9.0)
    np.testing.assert_array_equal(transformula.load(folder)(**given)["last_hidden_state"], wanted)
    change_config(folder, partial_rotary_factor=0.4)
    with pytest.raises(TransformulaError, match=r"half = 1.5 is a size and must be a whole number"):
        transformula.load(folder)


def test_what_the_recogniser_finds(tmp_path: Path) -> None:
    program = transformula.load(saved(tmp_path, "PhiForCausalLM", config())).program
    fired = {line.rule for line in program.ledger.lines if line.fired}
    assert fired >= {"attention", "layer_norm", "gelu_tanh", "bounds"}


@pytest.mark.parametrize("kind", ["PhiModel", "PhiForCausalLM", "PhiForTokenClassification"])
def test_dropout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    rates = {"resid_pdrop": 0.125, "embd_pdrop": 0.5, "attention_dropout": 0.25}
    found, wanted = both(monkeypatch, tmp_path, kind, {**TINY, **rates})
    assert found == wanted
    assert len(wanted) == 1 + 2 * 3 + (kind == "PhiForTokenClassification")
