"""specs/qwen2.formula and specs/qwen3.formula against the library's: biases, norms of the heads, windows by layer."""

from pathlib import Path
from typing import Any

import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved
from tests.specs.test_llama import TINY

pytestmark = pytest.mark.usefixtures("no_islands")
SLIDING = {"use_sliding_window": True, "sliding_window": 3}
FULL, NEAR = "full_attention", "sliding_attention"
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Qwen2Model", {}),
    ("Qwen2ForCausalLM", {**SLIDING, "max_window_layers": 1, "num_hidden_layers": 3}),
    ("Qwen2ForCausalLM", {**SLIDING, "layer_types": [NEAR, FULL, NEAR], "num_hidden_layers": 3}),
    ("Qwen2ForCausalLM", {"sliding_window": 3, "max_window_layers": 0, "tie_word_embeddings": True}),
    ("Qwen2ForCausalLM", {**SLIDING, "max_window_layers": 0, "num_key_value_heads": 1, "rms_norm_eps": 0.5}),
    ("Qwen2ForSequenceClassification", {"num_labels": 3, "pad_token_id": 5, "hidden_act": "gelu_new"}),
    ("Qwen2ForTokenClassification", {"num_key_value_heads": None, "head_dim": 6}),
    ("Qwen2ForQuestionAnswering", {**SLIDING, "layer_types": [NEAR, NEAR], "vocab_size": 31}),
    ("Qwen3Model", {"head_dim": 6}),
    ("Qwen3ForCausalLM", {"head_dim": 4, "attention_bias": True, **SLIDING, "max_window_layers": 1}),
    ("Qwen3ForCausalLM", {"head_dim": 2, "tie_word_embeddings": True, "rms_norm_eps": 0.1}),
    ("Qwen3ForCausalLM", {"head_dim": 4, "num_hidden_layers": 4, **SLIDING, "layer_types": [FULL, NEAR, NEAR, FULL]}),
    ("Qwen3ForCausalLM", {"hidden_size": 7, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 10}),
    ("Qwen3ForSequenceClassification", {"head_dim": 4, "num_labels": 1, "num_key_value_heads": 1}),
    ("Qwen3ForTokenClassification", {"head_dim": 8, "hidden_act": "relu", "num_hidden_layers": 1}),
    ("Qwen3ForQuestionAnswering", {"head_dim": 2, "rope_parameters": {"rope_type": "linear", "factor": 3.0}}),
]


def config(kind: str, **more: Any) -> Any:
    return getattr(transformers, f"{kind[:5]}Config")(**{**TINY, **more})


@pytest.mark.parametrize(("kind", "more"), CASES, ids=str)
def test_models(tmp_path: Path, kind: str, more: dict[str, Any]) -> None:
    agree(saved(tmp_path, kind, config(kind, **more)), kind, batch(31))


@pytest.mark.parametrize("kind", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_names(tmp_path: Path, kind: str) -> None:
    names_match(saved(tmp_path, kind, config(kind, head_dim=4)))


def test_windows_by_layer_are_bounds_in_one_loop() -> None:
    keys = {"num_hidden_layers": 4, "use_sliding_window": True, "max_window_layers": 2, "sliding_window": 5}
    program = transformula.compile("qwen2", config=keys, entry="Llama")
    lines = [line for line in program.ledger.lines if line.rule == "bounds"]
    assert all(line.fired for line in lines)
    assert {line.what for line in lines} == {"causal", "a window: 4 keys before the row to 0 after it"}
    assert len([one for one in program.graph.nodes() if one.op == "loop"]) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"layer_types": [FULL, "chunked_attention"]}, r'layer_types\[1\] = "chunked_attention" is not a known reach'),
    ({"layer_types": [FULL]}, "layer_types has 1 value, but layers is 2"),
    ({"layer_types": [FULL, NEAR]}, "a value is needed here, not none"),  # a window of no width
]


@pytest.mark.parametrize(("keys", "told"), WRONG, ids=str)
def test_layer_types_that_cannot_be(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    folder = saved(tmp_path, "Qwen2Model", config("Qwen2"))
    change_config(folder, **keys)
    with pytest.raises(transformula.TransformulaError, match=told):
        transformula.load(folder, backend="reference")
