"""specs/gemma.formula and specs/gemma2.formula against the library's: norms around 1, caps, windows, scaled tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved
from tests.specs.test_llama import TINY

pytestmark = pytest.mark.usefixtures("no_islands")
FULL, NEAR = "full_attention", "sliding_attention"
OFF: dict[str, Any] = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("GemmaModel", {}),
    ("GemmaForCausalLM", {"tie_word_embeddings": False, "attention_bias": True}),
    ("GemmaForCausalLM", {"hidden_act": "gelu", "num_key_value_heads": 1, "head_dim": 2}),
    ("GemmaForCausalLM", {"hidden_size": 7, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 31}),
    ("GemmaForCausalLM", {"hidden_act": "silu", "rms_norm_eps": 0.5, "num_hidden_layers": 1, "intermediate_size": 3}),
    ("GemmaForCausalLM", {"rope_parameters": {"rope_type": "yarn", "factor": 3.0, "rope_theta": 50.0}, "head_dim": 8}),
    ("GemmaForSequenceClassification", {"num_labels": 3}),
    ("GemmaForTokenClassification", {"pad_token_id": None, "num_hidden_layers": 3}),
    ("Gemma2Model", {"sliding_window": 2}),
    ("Gemma2ForCausalLM", {"sliding_window": 3, "num_hidden_layers": 3, "query_pre_attn_scalar": 7}),
    ("Gemma2ForCausalLM", {**OFF, "final_logit_softcapping": 1.5, "attention_bias": True}),
    ("Gemma2ForCausalLM", {**OFF, "attn_logit_softcapping": 0.5, "tie_word_embeddings": False}),
    ("Gemma2ForCausalLM", {"sliding_window": 2, "layer_types": [FULL, NEAR], "hidden_activation": "relu"}),
    ("Gemma2ForCausalLM", {"sliding_window": 1, "layer_types": [NEAR, NEAR], "head_dim": 2}),
    ("Gemma2ForSequenceClassification", {"pad_token_id": None, "num_labels": 5, "num_key_value_heads": 6}),
    ("Gemma2ForTokenClassification", {"hidden_activation": "gelu", "rms_norm_eps": 0.1, "num_key_value_heads": 1}),
]


def config(kind: str, **more: Any) -> Any:
    made = transformers.Gemma2Config if kind.startswith("Gemma2") else transformers.GemmaConfig
    return made(**{**TINY, "head_dim": 4, **more})


@pytest.mark.parametrize(("kind", "more"), CASES, ids=str)
def test_models(tmp_path: Path, kind: str, more: dict[str, Any]) -> None:
    agree(saved(tmp_path, kind, config(kind, **more)), kind, batch(31))


@pytest.mark.parametrize("kind", ["GemmaForCausalLM", "Gemma2ForCausalLM"])
@pytest.mark.parametrize("tied", [True, False])
def test_names(tmp_path: Path, kind: str, tied: bool) -> None:
    names_match(saved(tmp_path, kind, config(kind, tie_word_embeddings=tied, attention_bias=True)))


def test_given_embeddings_are_not_scaled(tmp_path: Path) -> None:
    folder = saved(tmp_path, "GemmaModel", config("GemmaModel"))
    words = np.random.default_rng(3).standard_normal((1, 5, 12))
    peer = transformers.GemmaModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.inference_mode():
        wanted = peer(inputs_embeds=torch.from_numpy(words)).last_hidden_state.numpy()
    for backend in ("reference", "numpy", "torch"):
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = np.asarray(model(inputs_embeds=words)["last_hidden_state"])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10, err_msg=backend)


def test_gelu_means_the_form_with_tanh_in_gemma_alone(tmp_path: Path) -> None:
    """The library's Gemma 2 takes "gelu" by its word."""
    shown = {}
    for kind, key in (("GemmaModel", "hidden_act"), ("Gemma2Model", "hidden_activation")):
        shown[kind] = transformula.load(saved(tmp_path / kind, kind, config(kind, **{key: "gelu"}))).config["act"]
    assert shown == {"GemmaModel": "gelu_tanh", "Gemma2Model": "gelu"}


def test_attention_without_a_causal_mask_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, "GemmaModel", config("GemmaModel"))
    change_config(folder, use_bidirectional_attention=True)
    with pytest.raises(transformula.TransformulaError, match="use_bidirectional_attention = true is not supported"):
        transformula.load(folder)


def test_caps_do_not_prevent_one_attention() -> None:
    keys = {"num_hidden_layers": 2, "vocab_size": 50}
    program = transformula.compile("gemma2", config=keys, entry="LlamaForCausalLM")
    assert any(line.rule == "attention" and line.fired for line in program.ledger.lines)
