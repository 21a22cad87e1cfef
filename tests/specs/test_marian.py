"""specs/marian.formula against the library's Marian."""

from pathlib import Path
from typing import Any

import pytest
import transformers

import transformula
from tests.specs.peers import names_match
from tests.specs.seq2seq import agree, change, pairs, saved

pytestmark = pytest.mark.usefixtures("exact_sinusoids")
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
    "pad_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": None,
    "decoder_start_token_id": 0,
}
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 17}
UNUSUAL: list[dict[str, Any]] = [
    {},
    {"scale_embedding": True, "activation_function": "swish"},
    APART,
    {"tie_word_embeddings": False},
    {**APART, "tie_word_embeddings": False, "scale_embedding": True},
    {"d_model": 7, "encoder_attention_heads": 1, "decoder_attention_heads": 7, "activation_function": "relu"},
    {"encoder_layers": 1, "decoder_layers": 3, "encoder_ffn_dim": 1, "decoder_ffn_dim": 33},
    {"encoder_attention_heads": 6, "decoder_attention_heads": 2, "max_position_embeddings": 7},
]


def config(**more: Any) -> Any:
    return transformers.MarianConfig(**{**TINY, **more})


def given(more: dict[str, Any]) -> dict[str, Any]:
    made = pairs(31)
    return {**made, "decoder_input_ids": made["decoder_input_ids"] % more.get("decoder_vocab_size", 31)}


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_translation(tmp_path: Path, more: dict[str, Any]) -> None:
    folder = saved(tmp_path, "MarianMTModel", config(**more))
    if more.get("tie_word_embeddings", True):  # else the file has a table that nobody reads
        names_match(folder)
    agree(folder, "MarianMTModel", given(more))


@pytest.mark.parametrize("more", [{}, APART], ids=str)
def test_without_a_head(tmp_path: Path, more: dict[str, Any]) -> None:
    """The library's file then holds the sinusoids, rounded, which nobody needs."""
    folder = saved(tmp_path, "MarianModel", config(**more))
    before = transformula.load(folder, dtype="float64")(**given(more))
    change(folder, **{f"{part}.embed_positions.weight": None for part in ("encoder", "decoder")})
    agree(folder, "MarianModel", given(more))
    after = transformula.load(folder, dtype="float64")(**given(more))
    assert all((before[name] == after[name]).all() for name in after)
