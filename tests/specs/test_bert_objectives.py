"""The objectives of specs/bert.formula against transformers and torch."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from transformula.compiler import reference
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Graph

SIZES = {
    "vocab_size": 19,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
}
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]])


@lru_cache
def peer() -> Any:
    torch.manual_seed(3)
    made = BertForPreTraining(BertConfig(**SIZES, attn_implementation="eager")).double().eval()
    for weight in made.parameters():
        weight.data.normal_(std=0.3)
    return made


NAMES = {
    "embed.E": "embeddings.word_embeddings.weight",
    "embed.S": "embeddings.token_type_embeddings.weight",
    "embed.P": "embeddings.position_embeddings.weight",
    "embed.LN.γ": "embeddings.LayerNorm.weight",
    "embed.LN.β": "embeddings.LayerNorm.bias",
    "attn.W_Q": "attention.self.query.weight",
    "attn.b_Q": "attention.self.query.bias",
    "attn.W_K": "attention.self.key.weight",
    "attn.b_K": "attention.self.key.bias",
    "attn.W_V": "attention.self.value.weight",
    "attn.b_V": "attention.self.value.bias",
    "attn.W_O": "attention.output.dense.weight",
    "attn.b_O": "attention.output.dense.bias",
    "LN_1.γ": "attention.output.LayerNorm.weight",
    "LN_1.β": "attention.output.LayerNorm.bias",
    "FFN.W_1": "intermediate.dense.weight",
    "FFN.b_1": "intermediate.dense.bias",
    "FFN.W_2": "output.dense.weight",
    "FFN.b_2": "output.dense.bias",
    "LN_2.γ": "output.LayerNorm.weight",
    "LN_2.β": "output.LayerNorm.bias",
    "pool.W": "pooler.dense.weight",
    "pool.b": "pooler.dense.bias",
    "lm_head.W": "cls.predictions.transform.dense.weight",
    "lm_head.b": "cls.predictions.transform.dense.bias",
    "lm_head.LN.γ": "cls.predictions.transform.LayerNorm.weight",
    "lm_head.LN.β": "cls.predictions.transform.LayerNorm.bias",
    "lm_head.c": "cls.predictions.bias",
    "nsp_head.W": "cls.seq_relationship.weight",
    "nsp_head.b": "cls.seq_relationship.bias",
}


def stored(path: str, shape: tuple[Any, ...]) -> np.ndarray:
    """A weight of the peer, its [out, in] turned to our [in, out]."""
    table = peer().state_dict()

    def one(name: str, shape: tuple[Any, ...]) -> np.ndarray:
        found = table[name].numpy()
        turn = found.ndim == 2 and "embeddings" not in name
        result: np.ndarray = (found.T if turn else found).reshape(shape)
        return result

    name = path.removeprefix("bert.")
    if name.startswith("layer[layers]."):
        end = NAMES[name.removeprefix("layer[layers].")]
        return np.stack([one(f"bert.encoder.layer.{number}.{end}", shape[1:]) for number in range(shape[0])])
    return one(NAMES[name] if name.startswith(("lm_head", "nsp_head")) else f"bert.{NAMES[name]}", shape)


@lru_cache
def graph(entry: str) -> Graph:
    return compile_graph("bert", SIZES, entry, until="formula").formula


def loss(entry: str, **inputs: Any) -> float:
    weights = {one.name: stored(one.name, one.shape) for one in graph(entry).weights}
    return float(reference.run(graph(entry), weights, inputs)["loss"])


def batch(mask: np.ndarray) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    ids, segments = rng.integers(0, 19, mask.shape), rng.integers(0, 2, mask.shape)
    labels = np.where((rng.random(mask.shape) < 0.5) & (mask == 1), ids, -100)
    return {"input_ids": ids, "token_type_ids": segments, "labels": labels, "attention_mask": mask}


def scores(given: dict[str, Any], segments: bool) -> Any:
    inputs = {name: torch.tensor(given[name]) for name in ("input_ids", "attention_mask")}
    if segments:
        inputs["token_type_ids"] = torch.tensor(given["token_type_ids"])
    with torch.no_grad():
        return peer()(**inputs)


def cross_entropy(logits: torch.Tensor, labels: np.ndarray) -> float:
    return float(
        torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), torch.tensor(labels).reshape(-1)
        )
    )


@pytest.mark.parametrize("mask", [MASK, np.ones_like(MASK)], ids=["padded", "full"])
def test_masked_language_model(mask: np.ndarray) -> None:
    given = batch(mask)
    wanted = cross_entropy(scores(given, segments=False).prediction_logits, given["labels"])
    found = loss("mlm", input_ids=given["input_ids"], labels=given["labels"], attention_mask=mask)
    assert abs(found - wanted) < 1e-13


@pytest.mark.parametrize("mask", [MASK, np.ones_like(MASK)], ids=["padded", "full"])
def test_next_sentence(mask: np.ndarray) -> None:
    given, order = batch(mask), np.array([0, 1, 1])
    wanted = cross_entropy(scores(given, segments=True).seq_relationship_logits, order)
    inputs = {key: value for key, value in given.items() if key != "labels"}
    assert abs(loss("nsp", **inputs, labels=order) - wanted) < 1e-13


@pytest.mark.parametrize("mask", [MASK, np.ones_like(MASK)], ids=["padded", "full"])
def test_pretraining_is_the_sum_of_both(mask: np.ndarray) -> None:
    given, order = batch(mask), np.array([0, 1, 1])
    inputs = {name: torch.tensor(value) for name, value in given.items()}
    with torch.no_grad():
        wanted = float(peer()(**inputs, next_sentence_label=torch.tensor(order)).loss)
    assert abs(loss("pretraining", **given, next_sentence_label=order) - wanted) < 1e-12


def test_padding_on_the_left_changes_no_loss() -> None:
    given, order = batch(MASK), np.array([0, 1, 1])
    turned = {
        key: np.stack([np.roll(row, 6 - MASK[i].sum()) for i, row in enumerate(value)])
        for key, value in given.items()
    }
    right = loss("pretraining", **given, next_sentence_label=order)
    assert abs(loss("pretraining", **turned, next_sentence_label=order) - right) < 1e-13


def test_a_batch_without_labels_has_loss_zero() -> None:
    given = batch(MASK)
    assert (
        loss("mlm", input_ids=given["input_ids"], labels=np.full_like(MASK, -100), attention_mask=MASK) == 0
    )


def test_the_model_is_shared_by_all_objectives() -> None:
    names = {entry: {one.name for one in graph(entry).weights} for entry in ("mlm", "nsp", "pretraining")}
    assert names["mlm"] | names["nsp"] == names["pretraining"]
    assert all(name.startswith(("bert.", "lm_head.", "nsp_head.")) for name in names["pretraining"])
