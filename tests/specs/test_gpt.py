"""specs/gpt.formula against the library's first GPT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.peers import MASK, agree, batch, names_match, saved
from tests.specs.test_losses import BACKENDS, close, theirs
from transformula import TransformulaError

TINY: dict[str, Any] = {"vocab_size": 31, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 16}
MODELS: dict[str, dict[str, Any]] = {
    "OpenAIGPTModel": {},
    "OpenAIGPTLMHeadModel": {},
    "OpenAIGPTForSequenceClassification": {"num_labels": 3, "pad_token_id": 7},
}
UNUSUAL: list[dict[str, Any]] = [
    {"tie_word_embeddings": False, "afn": "relu"},
    {"n_head": 12, "n_positions": 7},
    {"n_head": 1, "n_embd": 7, "afn": "silu"},
    {"n_layer": 1, "vocab_size": 5, "layer_norm_epsilon": 0.5},
    {"n_layer": 5, "layer_norm_epsilon": 1e-12},
    {"n_layer": 0},
    {"n_embd": 1, "n_head": 1, "afn": "swish"},
    {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5, "tie_word_embeddings": False},
]


def folder_of(path: Path, kind: str, **more: Any) -> Path:
    return saved(path, kind, transformers.OpenAIGPTConfig(**{**TINY, **more}))


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path, kind, **MODELS[kind])
    names_match(folder)
    agree(folder, kind, batch(31, types=31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, "OpenAIGPTLMHeadModel", **more)
    agree(folder, "OpenAIGPTLMHeadModel", batch(more.get("vocab_size", 31)))


def test_activations_have_names_of_their_own(tmp_path: Path) -> None:
    """GELU is the approximation; names that the library does not know are errors."""
    folder = folder_of(tmp_path, "OpenAIGPTModel", afn="gelu")
    assert transformula.load(folder).config["act"] == "gelu_tanh"
    with pytest.raises(TransformulaError, match='afn = "gelu_new" is not a known activation'):
        transformula.compile("gpt", config={"afn": "gelu_new"})


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_prefixes(tmp_path: Path, prefix: str) -> None:
    """Old files have no prefix, and the buffers of masks and places."""
    folder = folder_of(tmp_path, "OpenAIGPTLMHeadModel")
    wanted = transformula.load(folder)([[1, 2]])["logits"]
    path = folder / "model.safetensors"
    stored = {prefix + name.removeprefix("transformer."): value for name, value in load_file(path).items()}
    stored[f"{prefix}position_ids"] = np.arange(16)
    for layer in range(3):
        stored[f"{prefix}h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 16, 16), np.float32))
    save_file(stored, path)
    np.testing.assert_array_equal(transformula.load(folder)([[1, 2]])["logits"], wanted)


def test_causal_loss(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "OpenAIGPTLMHeadModel")
    given = {name: value[:2] for name, value in batch(31).items()}
    named = np.where(MASK[:2] != 0, given["input_ids"], -100)
    wanted = theirs(folder, "OpenAIGPTLMHeadModel", {**given, "labels": named}).loss
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given, labels=named)
        assert abs(float(found["loss"]) - float(wanted)) < 1e-6  # theirs is a float32
        logits = torch.as_tensor(found["logits"])[:, :-1].flatten(0, 1)
        exact = torch.nn.functional.cross_entropy(logits, torch.from_numpy(named)[:, 1:].flatten())
        close(found["loss"], exact, backend)


def test_loss_of_texts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "OpenAIGPTForSequenceClassification", num_labels=3, pad_token_id=7)
    ids = np.array([[1, 2, 3, 4, 5], [6, 8, 9, 7, 7]])
    given = {"input_ids": ids, "attention_mask": (ids != 7).astype(int), "labels": np.array([2, 0])}
    wanted = theirs(folder, "OpenAIGPTForSequenceClassification", given).loss
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**given)["loss"], wanted, backend)


def test_states_and_attention(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "OpenAIGPTLMHeadModel")
    given = {name: value[:2] for name, value in batch(31).items()}
    wanted = theirs(folder, "OpenAIGPTLMHeadModel", given, output_hidden_states=True, output_attentions=True)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**given, output_hidden_states=True, output_attentions=True)
        for name in ("hidden_states", "attentions"):
            for ours, other in zip(found[name], wanted[name], strict=True):
                for row, length in enumerate((7, 4)):
                    place = (row, ..., slice(length), slice(length if name == "attentions" else None))
                    np.testing.assert_allclose(np.asarray(ours)[place], other.numpy()[place], rtol=0, atol=1e-10)
