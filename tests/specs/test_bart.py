"""specs/bart.formula against the library's BART."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from tests.specs.peers import names_match
from tests.specs.seq2seq import SOURCE, agree, pairs, saved

TINY: dict[str, Any] = {
    "vocab_size": 31,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "max_position_embeddings": 9,
}
EOS = 2
KINDS = ("BartForConditionalGeneration", "BartModel", "BartForSequenceClassification")
UNUSUAL: list[dict[str, Any]] = [
    {"tie_word_embeddings": False},
    {"encoder_layers": 1, "decoder_layers": 3, "scale_embedding": True},
    {"encoder_layers": 3, "decoder_layers": 1, "activation_function": "gelu_new"},
    {"encoder_attention_heads": 6, "decoder_attention_heads": 2, "encoder_ffn_dim": 1, "decoder_ffn_dim": 33},
    {"d_model": 7, "encoder_attention_heads": 1, "decoder_attention_heads": 7, "activation_function": "relu"},
    {"tie_word_embeddings": False, "scale_embedding": True, "max_position_embeddings": 7},
    {"vocab_size": 4, "activation_function": "silu", "dropout": 0.0, "attention_dropout": 0.3},
    {"max_position_embeddings": 200, "pad_token_id": 0, "bos_token_id": 5, "activation_function": "tanh"},
]


def config(**more: Any) -> Any:
    return transformers.BartConfig(**{**TINY, **more})


def given(kind: str, vocab: int = 31) -> dict[str, Any]:
    """Where a text is classified, the target has its length, and each text two ends, padding perhaps more."""
    made = pairs(vocab)
    if kind != "BartForSequenceClassification":
        return made
    ids = np.where(made["input_ids"] == EOS, 3, made["input_ids"])
    for row, mask in enumerate(SOURCE):
        real = np.flatnonzero(mask)
        ids[row, real[[0, -1 if row % 2 else len(real) // 2]]] = EOS
        ids[row, mask == 0] = EOS if mask[0] else 3
    return {**made, "input_ids": ids, "decoder_input_ids": ids, "decoder_attention_mask": SOURCE}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_models(tmp_path: Path, kind: str, tied: bool) -> None:
    more = {} if kind == "BartModel" else {"num_labels": 5}
    folder = saved(tmp_path, kind, config(tie_word_embeddings=tied, **more))
    if tied:
        names_match(folder)
    agree(folder, kind, given(kind))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, KINDS[0], made), KINDS[0], given(KINDS[0], made.vocab_size))
