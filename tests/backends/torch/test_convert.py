"""`transformula convert`: pickled weights as safetensors; a pickle runs nothing here."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from safetensors.torch import load_file

import transformula
from tests.backends.test_load import batch, saved
from transformula import TransformulaError
from transformula.backends.torch.convert import convert
from transformula.cli import app


def pickled(folder: Path, kind: str = "BertModel") -> Path:
    """A folder as old versions wrote it."""
    saved(folder, kind)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def rxn_folder() -> Path:
    """The small ALBERT (MIT) of the package rxnmapper, which the Makefile lays beside the installed packages."""
    (config,) = (Path(sys.prefix) / "models" / "rxnmapper").rglob("albert*/config.json")
    return config.parent


def test_the_tensors_are_the_same(tmp_path: Path) -> None:
    before = pickled(tmp_path / "before")
    with pytest.raises(TransformulaError, match="transformula convert"):
        transformula.load(before)
    file = convert(before, tmp_path / "after")
    found, wanted = load_file(file), torch.load(before / "pytorch_model.bin", weights_only=True)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())
    transformula.load(tmp_path / "after")


def test_a_real_albert_predicts_what_the_library_predicts(tmp_path: Path) -> None:
    """Masked tokens of a checkpoint of 2020, on all three ways to compute it."""
    convert(rxn_folder(), tmp_path)
    model = transformers.AlbertForMaskedLM.from_pretrained(
        tmp_path, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    draw = np.random.default_rng(0)
    ids = draw.integers(20, 591, (3, 24))
    ids[:, ::5] = 4
    mask = np.ones_like(ids)
    mask[1, 15:] = 0
    with torch.inference_mode():
        wanted = model(torch.from_numpy(ids), torch.from_numpy(mask)).logits.numpy()
    seen = mask.astype(bool)
    for backend, dtype, bound in (
        ("reference", "float64", 1e-10),
        ("numpy", "float64", 1e-10),
        ("torch", "float64", 1e-10),
        ("numpy", "float32", 1e-3),
        ("torch", "float32", 1e-3),
    ):
        found = np.asarray(transformula.load(tmp_path, backend=backend, dtype=dtype)(ids, mask)["logits"])
        np.testing.assert_allclose(found[seen], wanted[seen], rtol=0, atol=bound)
        assert (found[seen].argmax(-1) == wanted[seen].argmax(-1)).all()


class Mischief:
    """What a pickle could do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch run-by-a-pickle",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": Mischief()}, "more than tensors"),
        ([torch.ones(2)], "no table of named tensors"),
        ({"a": 3}, "'a' is no tensor"),
        ({}, "no table of named tensors"),
    ],
)
def test_what_is_no_state_dict_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pickled(tmp_path / "before")
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(TransformulaError, match=text):
        convert(folder, tmp_path / "after")
    assert not (tmp_path / "after").exists()
    assert not (tmp_path / "run-by-a-pickle").exists()


def test_a_plain_pickle_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pickled(tmp_path / "before")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Mischief(), protocol=2))
    with pytest.raises(TransformulaError):
        convert(folder, tmp_path / "after")
    assert not (tmp_path / "run-by-a-pickle").exists()


def test_half_a_file_and_no_file(tmp_path: Path) -> None:
    folder = pickled(tmp_path / "before")
    file = folder / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(TransformulaError, match=r"cannot be read|damaged"):
        convert(folder, tmp_path / "after")
    file.unlink()
    with pytest.raises(TransformulaError, match="no pickled weights"):
        convert(folder, tmp_path / "after")
    with pytest.raises(TransformulaError, match="no model's folder"):
        convert(tmp_path / "nowhere", tmp_path / "after")
    assert not (tmp_path / "after").exists()


def test_from_the_command_line_into_the_folder_itself(tmp_path: Path) -> None:
    folder = pickled(tmp_path)
    result = CliRunner().invoke(app, ["convert", str(folder)])
    assert result.exit_code == 0, result.output
    given = batch()
    found = transformula.load(folder)(**given)
    assert np.isfinite(found["last_hidden_state"]).all()
    shutil.rmtree(folder)
    assert CliRunner().invoke(app, ["convert", str(folder)]).exit_code == 1
