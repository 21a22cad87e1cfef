"""The heads over pairs of embeddings, against numbers by hand and the library's loss."""

from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss

from tests.compiler.spec_tools import Array, rng
from transformula.backends.program import compile
from transformula.compiler import reference
from transformula.compiler.checkpoint import checkpoint_rows

D = 5
U, V = rng(1).normal(size=(2, 6, D))
PARTS = {
    "PairClassification": [U, V, U * V, np.abs(U - V)],
    "SoftmaxClassification": [U, V, np.abs(U - V)],
}
LABELS = {"PairClassification": 2, "SoftmaxClassification": 3}
HEADS = {"PairClassification": "of_pair", "SoftmaxClassification": "ways"}


def results(entry: str, weights: dict[str, Array], dtype: str = "float64") -> list[tuple[str, dict[str, Array]]]:
    """The results by the formulas, by the NumPy module and by the PyTorch module."""
    given: dict[str, Any] = {"first": U, "second": V}
    made = compile("sbert", entry=entry, settings={"d": D, "head": 1})
    found = [("reference", reference.run(made.compiled.formula, weights, given))]
    names: dict[str, Any] = {}
    exec(made.source, names)
    found.append(("numpy", names["Model"](weights, dtype=dtype)(**given)))
    exec(compile("sbert", "torch", entry=entry, settings={"d": D, "head": 1}).source, names)
    module = names["Model"](dtype=torch.float64)
    with torch.no_grad():
        module.W.copy_(torch.from_numpy(weights[f"{HEADS[entry]}.W"].T.copy()))
        module.b.copy_(torch.from_numpy(weights[f"{HEADS[entry]}.b"]))
        tensors = module(torch.from_numpy(U), torch.from_numpy(V))
    return [*found, ("torch", {name: value.numpy() for name, value in tensors.items()})]


@pytest.mark.parametrize("entry", PARTS)
def test_by_hand(entry: str) -> None:
    size, labels = len(PARTS[entry]) * D, LABELS[entry]
    head = HEADS[entry]
    weights = {f"{head}.W": rng(2).normal(size=(size, labels)), f"{head}.b": rng(3).normal(size=labels)}
    logits = np.concatenate(PARTS[entry], axis=1) @ weights[f"{head}.W"] + weights[f"{head}.b"]
    for told, found in results(entry, weights):
        np.testing.assert_allclose(found["logits"], logits, rtol=0, atol=1e-12, err_msg=told)
        if entry == "SoftmaxClassification":
            shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found["probabilities"], shares, rtol=0, atol=1e-12, err_msg=told)


def test_numbers_to_read() -> None:
    """u = (1, 2), v = (3, −1): each part by itself."""
    made = compile("sbert", entry="PairClassification", settings={"d": 2, "head": 1, "label": 8}).compiled.formula
    weights = {"of_pair.W": np.eye(8), "of_pair.b": np.zeros(8)}
    found = reference.run(made, weights, {"first": [[1.0, 2.0]], "second": [[3.0, -1.0]]})
    np.testing.assert_array_equal(found["logits"], [[1, 2, 3, -1, 3, -2, 2, 3]])


@pytest.mark.parametrize("entry", PARTS)
def test_the_loss_of_the_library(entry: str) -> None:
    """Its options choose the parts; where it multiplies, it writes the difference before the product."""
    product = entry == "PairClassification"
    torch.manual_seed(0)
    loss = SoftmaxLoss(Twin(), D, LABELS[entry], concatenation_sent_multiplication=product)
    loss = loss.double()
    with torch.no_grad():
        _, wanted = loss([{"sentence_embedding": torch.from_numpy(one)} for one in (U, V)], None)
    theirs = loss.classifier.weight.detach().numpy().T.reshape(-1, D, LABELS[entry])
    ours = theirs[[0, 1, 3, 2]] if product else theirs
    head, bias = HEADS[entry], loss.classifier.bias.detach().numpy()
    weights = {f"{head}.W": ours.reshape(-1, LABELS[entry]), f"{head}.b": bias}
    for told, found in results(entry, weights):
        np.testing.assert_allclose(found["logits"], wanted.numpy(), rtol=0, atol=1e-12, err_msg=told)
    made = compile("sbert", entry=entry, settings={"d": D, "head": 1}).compiled
    rows = checkpoint_rows(made.module, entry, made.formula, made.config).rows
    assert [row.stored for row in rows] == [name for name in loss.state_dict() if name.startswith("classifier.")]


class Twin(torch.nn.Module):
    """Stands for a model whose embeddings are given."""

    device = torch.device("cpu")

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return features
