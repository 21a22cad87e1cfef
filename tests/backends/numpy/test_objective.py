"""Objectives as NumPy modules: what a call may look like, memory of a long vocabulary."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.configs import TINY
from tests.specs.objectives import class_of, random_weights
from tests.specs.peers import saved
from transformula.backends.numpy.chunked import product_cross_entropy, product_cross_entropy_slope
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


@pytest.mark.parametrize("most", [1, 40, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_slopes_in_pieces_are_those_of_torch(most: int, smoothing: float) -> None:
    """Loss and slopes of rows that count more and less; a row that counts nothing may have any label."""
    draw = np.random.default_rng(0)
    x, table, bias, g = (draw.normal(size=shape) for shape in ((12, 5), (13, 5), 13, 12))
    label = draw.integers(0, 13, 12)
    g[3] = 0
    parts = [torch.from_numpy(one).requires_grad_() for one in (x, table, bias)]
    wanted = torch.nn.functional.cross_entropy(
        parts[0] @ parts[1].T + parts[2], torch.from_numpy(label), reduction="none", label_smoothing=smoothing
    )
    (wanted * torch.from_numpy(g)).sum().backward()  # type: ignore[no-untyped-call]
    label[3] = -100
    loss, *slopes = product_cross_entropy_slope(x, table, bias, label, g, smoothing, most)
    assert np.isnan(loss).tolist() == [row == 3 for row in range(12)]
    np.testing.assert_allclose(np.delete(loss, 3), np.delete(wanted.detach().numpy(), 3), rtol=1e-12)
    for mine, theirs in zip(slopes, parts, strict=True):
        np.testing.assert_allclose(mine, theirs.grad, rtol=1e-12, atol=1e-13)  # type: ignore[arg-type]


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
