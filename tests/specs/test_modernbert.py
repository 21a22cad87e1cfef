"""specs/modernbert.formula against the library's ModernBERT."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.specs.peers import agree, batch, names_match, saved

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "local_attention": 4,
    "pad_token_id": 1,
    "bos_token_id": None,
    "eos_token_id": None,
    "cls_token_id": None,
    "sep_token_id": None,
}
MODELS: dict[str, dict[str, Any]] = {
    "ModernBertModel": {},
    "ModernBertForMaskedLM": {},
    "ModernBertForSequenceClassification": {"num_labels": 5},
    "ModernBertForTokenClassification": {"num_labels": 1},
    "ModernBertForQuestionAnswering": {},
}
FULL, LOCAL = "full_attention", "sliding_attention"


def kinds(*names: str) -> dict[str, Any]:
    return {"layer_types": list(names), "num_hidden_layers": len(names)}


BIASED = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}
UNUSUAL: list[tuple[str, dict[str, Any]]] = [
    ("MaskedLM", {"tie_word_embeddings": False, "hidden_activation": "gelu_new", "classifier_activation": "relu"}),
    ("MaskedLM", {"decoder_bias": False, **BIASED}),
    ("MaskedLM", {"tie_word_embeddings": False, "decoder_bias": False, "norm_eps": 0.5}),
    ("SequenceClassification", {"classifier_pooling": "mean", **BIASED}),
    ("SequenceClassification", {"classifier_pooling": "mean", "num_labels": 1, **kinds(LOCAL)}),
    ("SequenceClassification", {"num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 2}),
    ("MaskedLM", kinds(LOCAL, FULL, FULL, LOCAL, FULL)),
    ("MaskedLM", {"local_attention": 1, **kinds(LOCAL, LOCAL)}),
    ("MaskedLM", {"local_attention": 3, "intermediate_size": 1}),
    ("TokenClassification", {"local_attention": 0, "norm_bias": True}),
    ("TokenClassification", {"num_attention_heads": 1, "hidden_size": 6, "vocab_size": 3, "norm_eps": 1e-30}),
    (
        "MaskedLM",
        {
            "rope_parameters": {
                FULL: {"rope_type": "default", "rope_theta": 20.0},
                LOCAL: {"rope_type": "default", "rope_theta": 1.5},
            }
        },
    ),
]


def config(**more: Any) -> Any:
    return transformers.ModernBertConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config(**MODELS[kind]))
    names_match(folder)
    agree(folder, kind, batch(31))


@pytest.mark.parametrize(("head", "more"), UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, head: str, more: dict[str, Any]) -> None:
    made, kind = config(**more), f"ModernBertFor{head}"
    agree(saved(tmp_path, kind, made), kind, batch(made.vocab_size))
