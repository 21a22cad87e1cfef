"""specs/t5.formula against the library's T5, versions 1.0 and 1.1."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.specs.peers import names_match
from tests.specs.seq2seq import agree, pairs, saved

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 6,
    "decoder_start_token_id": 0,
}
KINDS = ("T5ForConditionalGeneration", "T5Model", "T5EncoderModel")
UNUSUAL: list[dict[str, Any]] = [
    {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    {"num_decoder_layers": 3},
    {"num_layers": 3, "num_decoder_layers": 1, "feed_forward_proj": "gated-silu"},
    {"d_model": 7, "d_kv": 1, "num_heads": 5, "feed_forward_proj": "gelu"},
    {"num_heads": 1, "d_kv": 9, "d_ff": 1, "feed_forward_proj": "gated-relu"},
    {"relative_attention_num_buckets": 5, "relative_attention_max_distance": 40, "layer_norm_epsilon": 0.5},
    {"relative_attention_num_buckets": 64, "relative_attention_max_distance": 33, "layer_norm_epsilon": 1e-30},
    {"vocab_size": 3, "pad_token_id": None, "eos_token_id": None, "dropout_rate": 0.0},
    {"feed_forward_proj": "gelu_new", "tie_word_embeddings": False, "num_layers": 1},
]


def config(**more: Any) -> Any:
    return transformers.T5Config(**{**TINY, **more})


def given(kind: str, vocab: int = 31) -> dict[str, Any]:
    made = pairs(vocab)
    return {name: value for name, value in made.items() if "decoder" not in name} if "Encoder" in kind else made


@pytest.mark.parametrize("named", ["gated-gelu", "gelu", "relu", "gated-silu"])
def test_files_that_the_library_has_not_rewritten(tmp_path: Path, named: str) -> None:
    """They say feed_forward_proj alone, of which what the library adds is made."""
    folder = saved(tmp_path, KINDS[0], config(num_layers=1, feed_forward_proj=named))
    path = folder / "config.json"
    derived = ("dense_act_fn", "is_gated_act", "scale_decoder_outputs", "num_decoder_layers")
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key not in derived}
    path.write_text(json.dumps(kept))
    agree(folder, KINDS[0], given(KINDS[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config())
    names_match(folder)
    agree(folder, kind, given(kind))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = config(**more)
    agree(saved(tmp_path, KINDS[0], made), KINDS[0], given(KINDS[0], made.vocab_size))
