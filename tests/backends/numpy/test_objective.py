"""Objectives as NumPy modules: what a call may look like, memory of a long vocabulary."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.configs import TINY
from tests.specs.objectives import class_of, random_weights
from tests.specs.peers import saved
from transformula.backends.numpy.chunked import product_cross_entropy
from transformula.backends.program import compile

MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
IDS = np.arange(18).reshape(3, 6)


def model(spec: str, entry: str, config: dict[str, Any], dtype: str = "float64") -> Any:
    made = compile(spec, "numpy", config, entry, validate=False)
    return class_of(made)(random_weights(made), dtype=dtype)


def test_some_results_alone() -> None:
    made = model("bert", "mlm", TINY)
    whole = made(input_ids=IDS, labels=IDS, attention_mask=MASK)
    assert set(whole) == {"loss", "loss_sum", "loss_count"}
    assert set(made(input_ids=IDS, labels=IDS, attention_mask=MASK, outputs=["loss"])) == {"loss"}
    assert made(input_ids=IDS, labels=IDS, attention_mask=MASK, outputs=["loss"])["loss"] == whole["loss"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"input_ids": IDS, "labels": IDS[:, :2]}, "labels has 2 along seq"),
        ({"input_ids": IDS + 20, "labels": IDS}, "input_ids holds 37"),
        ({"input_ids": IDS, "labels": IDS + 20}, "labels holds 31, labels are 0 … 30, or -100"),
    ],
)
def test_wrong_calls(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        model("bert", "mlm", TINY)(**given)


def test_what_stands_at_padding_is_no_label() -> None:
    made = model("bert", "mlm", TINY)
    found = [made(input_ids=IDS, labels=np.where(MASK == 1, IDS, other), attention_mask=MASK) for other in (-100, 99)]
    assert found[0]["loss"] == found[1]["loss"]
    assert found[0]["loss_count"].tolist() == [13]


def test_groups_of_texts() -> None:
    """[batch, side, seq]; labels belong to examples."""
    made = model("sbert", "regression", TINY)
    texts = np.stack([IDS, IDS[::-1]], axis=1)
    assert made(input_ids=texts, labels=np.array([0.5, 1, 0]))["loss"].shape == ()
    with pytest.raises(ValueError, match="labels has 2 along batch, input_ids has 3"):
        made(input_ids=texts, labels=np.array([0.5, 1]))
    with pytest.raises(ValueError, match=r"input_ids should be \[batch, side, seq\]"):
        made(input_ids=IDS, labels=np.array([0.5, 1, 0]))


@pytest.mark.parametrize("most", [1, 40, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_pieces_are_the_whole(most: int, smoothing: float) -> None:
    draw = np.random.default_rng(0)
    x, table, bias = draw.normal(size=(12, 5)), draw.normal(size=(13, 5)), draw.normal(size=13)
    label = draw.integers(0, 13, 12)
    z = x @ table.T + bias
    p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    wanted = -(1 - smoothing) * p[np.arange(12), label] - smoothing * p.mean(axis=1)
    np.testing.assert_allclose(product_cross_entropy(x, table, bias, label, smoothing, most), wanted, rtol=1e-12)
    wrong = product_cross_entropy(x, table, None, np.array([13, -1, *label[2:]]), smoothing, most)
    assert np.isnan(wrong).tolist() == [True, True, *[False] * 10]


def test_the_peak_of_memory_is_that_of_a_piece() -> None:
    """600 rows of 20000 words in float32 are 48 MB; a piece is 4 M numbers, 17 MB."""
    draw = np.random.default_rng(0)
    x, table = draw.normal(size=(600, 4)).astype(np.float32), draw.normal(size=(20000, 4)).astype(np.float32)
    label = draw.integers(0, 20000, 600)
    tracemalloc.start()
    try:
        product_cross_entropy(x, table, None, label)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_a_model_s_folder_is_an_objective_s(tmp_path: Path) -> None:
    """The weights are those of its model, under the names that the file has."""
    folder = saved(tmp_path, "BertForMaskedLM", transformers.BertConfig(**TINY))
    made = class_of(compile("bert", "numpy", TINY, "mlm", validate=False)).load(folder, dtype="float64")
    labels = np.where(IDS % 2 == 0, IDS, -100)
    wanted = transformula.load(folder, dtype="float64", validate=False)(input_ids=IDS, labels=labels)["loss"]
    np.testing.assert_allclose(made(input_ids=IDS, labels=labels)["loss"], wanted, rtol=1e-12)
    heads = compile("sbert", "numpy", TINY, "classification", validate=False).source
    assert "'ways.W'" in heads  # what the objective adds has its own name
    assert "attention.self.query.weight'" in heads
