"""BERT and its relatives as decoders: causal, and looking at the states of another text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.configs import TINY, unusual
from tests.specs.peers import (
    LENGTH,
    MASK,
    MEMORY_MASK,
    agree,
    alone,
    batch,
    change_config,
    names_match,
    saved,
    with_memory,
)
from tests.specs.test_losses import BACKENDS, close, theirs
from transformula import TransformulaError

DECODER = {**TINY, "num_hidden_layers": 3, "is_decoder": True}
CROSSED = {**DECODER, "add_cross_attention": True}
FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Bert": ("BertLMHeadModel", {}, {"types": 2}),
    "Roberta": ("RobertaForCausalLM", {"pad_token_id": 1}, {"low": 2}),
    "XLMRoberta": ("XLMRobertaForCausalLM", {"pad_token_id": 1}, {"low": 2}),
    "Camembert": ("CamembertForCausalLM", {"pad_token_id": 1}, {"low": 2}),
    "Data2VecText": ("Data2VecTextForCausalLM", {"pad_token_id": 1}, {"low": 2}),
    "Electra": ("ElectraForCausalLM", {"embedding_size": 6}, {"types": 2}),
}


def folder_of(path: Path, kind: str, **keys: Any) -> Path:
    return saved(path, kind, getattr(transformers, kind).config_class(**keys))


def test_causal(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "BertLMHeadModel", **DECODER)
    names_match(folder)
    agree(folder, "BertLMHeadModel", batch(31, 2))


@pytest.mark.parametrize("family", ["Bert", "Roberta", "Electra"])
def test_crossed(tmp_path: Path, family: str) -> None:
    kind, keys, ids = FAMILIES[family]
    agree(folder_of(tmp_path, kind, **CROSSED, **keys), kind, with_memory(batch(31, **ids)))


@pytest.mark.parametrize("family", FAMILIES)
def test_relatives(tmp_path: Path, family: str) -> None:
    kind, keys, ids = FAMILIES[family]
    folder = folder_of(tmp_path, kind, **CROSSED, **keys)
    names_match(folder)
    given = with_memory(batch(31, **ids))
    found = transformula.load(folder, dtype="float64", validate=False)(**given)["logits"]
    for row, (place, results) in enumerate(alone(folder, kind, given)):
        real = MASK[row, place] != 0
        np.testing.assert_allclose(found[row, place][real], results["logits"][real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("number", range(8))
def test_unusual(tmp_path: Path, number: int) -> None:
    choices = {"is_decoder": number > 0, "add_cross_attention": number > 1, "tie_word_embeddings": number < 5}
    keys = unusual(number, LENGTH, **choices)
    kind = ("BertLMHeadModel", "BertModel")[number // 2 % 2]
    given = batch(keys["vocab_size"], keys["type_vocab_size"])
    folder = folder_of(tmp_path, kind, **keys)
    agree(folder, kind, with_memory(given, keys["hidden_size"]) if number > 1 else given)


def test_every_head_is_causal_then(tmp_path: Path) -> None:
    """A later token changes nothing at an earlier one."""
    folder = folder_of(tmp_path, "BertForMaskedLM", **DECODER)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        first, second = (np.asarray(model([[3, 4, 5, last]])["logits"]) for last in (6, 7))
        np.testing.assert_allclose(first[:, :3], second[:, :3], rtol=0, atol=1e-12)
        assert np.abs(first[:, 3] - second[:, 3]).max() > 1e-3
    change_config(folder, is_decoder=False)
    model = transformula.load(folder, dtype="float64")
    first, second = (model([[3, 4, 5, last]])["logits"] for last in (6, 7))
    assert np.abs(first[:, :3] - second[:, :3]).max() > 1e-3


@pytest.mark.parametrize("kind", ["albert", "distilbert", "mpnet", "deberta", "deberta-v2", "modernbert"])
@pytest.mark.parametrize("key", ["is_decoder", "add_cross_attention"])
def test_who_cannot_be_a_decoder_says_so(tmp_path: Path, kind: str, key: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, key: True}))
    with pytest.raises(TransformulaError, match=f"{key} = true is not supported"):
        transformula.load(tmp_path)


def test_loss(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "BertLMHeadModel", **CROSSED)
    given = {name: value[:2] for name, value in with_memory(batch(31, 2)).items()}
    named = np.where(MASK[:2] != 0, given["input_ids"], -100)
    wanted = theirs(folder, "BertLMHeadModel", {**given, "labels": named})
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given, labels=named)
        assert abs(float(found["loss"]) - float(wanted.loss)) < 1e-6  # theirs is a float32
        logits = torch.as_tensor(found["logits"])[:, :-1].flatten(0, 1)
        exact = torch.nn.functional.cross_entropy(logits, torch.from_numpy(named)[:, 1:].flatten())
        close(found["loss"], exact, backend)


@pytest.mark.parametrize("family", ["Bert", "Electra"])
def test_states_and_attention(tmp_path: Path, family: str) -> None:
    kind, keys, ids = FAMILIES[family]
    folder = folder_of(tmp_path, kind, **CROSSED, **keys)
    given = {name: value[:2] for name, value in with_memory(batch(31, **ids)).items()}
    wanted = theirs(folder, kind, given, output_hidden_states=True, output_attentions=True)
    names = ("hidden_states", "attentions", "cross_attentions")
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        assert model.shows == names
        found = model(**given, outputs=names)
        for name in names:
            for ours, other in zip(found[name], wanted[name], strict=True):
                for row, (length, source) in enumerate(((7, 5), (4, 2))):
                    keys_ = {"attentions": length, "cross_attentions": source}.get(name)
                    place = (row, ..., slice(length), slice(keys_))
                    np.testing.assert_allclose(np.asarray(ours)[place], other.numpy()[place], rtol=0, atol=1e-10)


def test_the_memory_is_asked_for_where_it_is_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "crossed", "BertModel", **CROSSED)
    plain = folder_of(tmp_path / "plain", "BertModel", **DECODER)
    for backend in BACKENDS:
        with pytest.raises(TransformulaError, match="'encoder_hidden_states' is missing"):
            transformula.load(folder, backend=backend)([[1, 2]])
        with pytest.raises(TransformulaError, match="no input 'encoder_hidden_states'"):
            transformula.load(plain, backend=backend)([[1, 2]], encoder_hidden_states=np.ones((1, 3, 12)))
    assert transformula.load(plain).shows == ("hidden_states", "attentions")
    with pytest.raises(TransformulaError, match=r"encoder_attention_mask is .*: they should be alike"):
        transformula.load(folder)(**{**with_memory(batch(31, 2)), "encoder_attention_mask": MEMORY_MASK[:, :3]})
