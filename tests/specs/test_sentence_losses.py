"""The objectives of specs/sbert.formula against the losses of sentence-transformers: values and all gradients."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling

from tests.specs.configs import TINY
from tests.specs.objectives import Array, agree, random_weights, spelled, tensors, torch_module
from transformula.backends.program import compile
from transformula.compiler.driver import compile_graph

CONFIG = {**TINY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
D = TINY["hidden_size"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A tiny random BERT with mean pooling, in float64."""
    path: Path = tmp_path_factory.mktemp("sentence")
    torch.manual_seed(0)
    base = transformers.BertModel(transformers.BertConfig(**CONFIG))
    with torch.no_grad():
        for one in base.parameters():
            one.add_(torch.randn_like(one) * 0.3)
    base.save_pretrained(path)
    (path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]))
    transformers.BertTokenizer(str(path / "vocab.txt")).save_pretrained(path)
    made = SentenceTransformer(modules=[Transformer(str(path)), Pooling(D, pooling_mode="mean")], device="cpu")
    return made.double().eval()


def texts(number: int, examples: int = 5) -> dict[str, Array]:
    """So many texts for each example, padded on the right."""
    draw = np.random.default_rng(number)
    lengths = draw.integers(2, 8, (examples, number, 1))
    mask = (np.arange(7) < lengths).astype(int)
    return {"input_ids": draw.integers(5, 12, mask.shape) * mask, "attention_mask": mask}


def features(given: dict[str, Array]) -> list[dict[str, Any]]:
    """The library's columns: one batch for each side."""
    sides = given["input_ids"].shape[1]
    return [{name: torch.from_numpy(value[:, side].copy()) for name, value in given.items()} for side in range(sides)]


SIMILAR = np.array([0.875, 0.125, 0.5, 0.5, 0.75])  # the library rounds labels to float32
BINARY = np.array([1, 0, 1, 1, 0])
THREE = np.array([2, 0, 1, 1, 2])
METRICS = losses.TripletDistanceMetric
CASES: dict[str, tuple[str, Any, Array | None, dict[str, Any]]] = {
    "regression": ("regression", lambda m: losses.CosineSimilarityLoss(m), SIMILAR, {}),
    "triplet": ("triplet", lambda m: losses.TripletLoss(m), None, {"distance_metric": "euclidean"}),
    "triplet, cosine": (
        "triplet",
        lambda m: losses.TripletLoss(m, METRICS.COSINE, triplet_margin=0.1),
        None,
        {"distance_metric": "cosine", "triplet_margin": 0.1},
    ),
    "triplet, manhattan": (
        "triplet",
        lambda m: losses.TripletLoss(m, METRICS.MANHATTAN, triplet_margin=1),
        None,
        {"distance_metric": "manhattan", "triplet_margin": 1},
    ),
    "ranking": ("ranking", lambda m: losses.MultipleNegativesRankingLoss(m), None, {}),
    "ranking, hard negatives": ("ranking", lambda m: losses.MultipleNegativesRankingLoss(m), None, {}),
    "ranking, scale 7": ("ranking", lambda m: losses.MultipleNegativesRankingLoss(m, scale=7.0), None, {"scale": 7}),
    "cosent": ("cosent", lambda m: losses.CoSENTLoss(m), SIMILAR, {}),
    "contrastive": ("contrastive", lambda m: losses.ContrastiveLoss(m), BINARY, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_library(encoder: SentenceTransformer, case: str) -> None:
    entry, make, labels, more = CASES[case]
    given = texts(4 if "hard" in case else 3 if "triplet" in case else 2)
    own = {} if labels is None else {"labels": labels}
    loss = make(encoder)
    encoder.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = loss(features(given), torch.from_numpy(own.get("labels", np.zeros(5))).double())
    wanted.backward()
    same(entry, encoder, wanted, {**given, **own}, more)


def same(entry: str, encoder: Any, wanted: Any, given: dict[str, Array], more: dict[str, Any], **heads: Array) -> None:
    """The loss and the gradient of every weight are the library's."""
    config = {**CONFIG, **more}
    inside = encoder[0].auto_model if hasattr(encoder[0], "auto_model") else encoder[0].model
    named = dict(inside.named_parameters())
    grads = {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in named.items()}
    weights = {**spelled("sbert", "SentenceBert", config, named), **heads}
    found, ours = agree("sbert", entry, config, given, weights)
    assert abs(float(found["loss"]) - wanted.item()) < 1e-10
    theirs = spelled("sbert", "SentenceBert", config, grads)
    assert any(np.abs(one).max() > 1e-4 for one in theirs.values())
    for name, value in ours.items():
        if name in theirs:
            np.testing.assert_allclose(value, theirs[name], rtol=0, atol=1e-9, err_msg=name)


def test_softmax_loss(encoder: SentenceTransformer) -> None:
    """softmax(W [u; v; |u − v|] + b), and the gradient of W and b, too."""
    given = texts(2)
    torch.manual_seed(4)
    loss = losses.SoftmaxLoss(encoder, D, 3).double()
    encoder.zero_grad()
    wanted = loss(features(given), torch.from_numpy(THREE))
    wanted.backward()
    matrix, bias = loss.classifier.weight.detach().numpy().T, loss.classifier.bias.detach().numpy()
    heads = {"ways.W": matrix, "ways.b": bias}
    same("classification", encoder, wanted, {**given, "labels": THREE}, {}, **heads)


def test_softmax_loss_with_a_product(encoder: SentenceTransformer) -> None:
    """The library writes the difference before the product: the last two parts of W change places."""
    given = texts(2)
    torch.manual_seed(5)
    loss = losses.SoftmaxLoss(encoder, D, 3, concatenation_sent_multiplication=True).double()
    encoder.zero_grad()
    wanted = loss(features(given), torch.from_numpy(THREE))
    wanted.backward()
    parts = loss.classifier.weight.detach().numpy().T.reshape(4, D, 3)[[0, 1, 3, 2]].reshape(4 * D, 3)
    heads = {"of_pair.W": parts, "of_pair.b": loss.classifier.bias.detach().numpy()}
    same("pair_classification", encoder, wanted, {**given, "labels": THREE}, {"num_labels": 3}, **heads)


def test_distillation(encoder: SentenceTransformer) -> None:
    given = {name: value[:, 0] for name, value in texts(1).items()}
    target = np.random.default_rng(3).normal(size=(5, D))
    encoder.zero_grad()
    wanted = losses.MSELoss(encoder)([tensors(given)], torch.from_numpy(target))
    wanted.backward()
    same("distillation", encoder, wanted, {**given, "labels": target}, {})


# --------------------------------------------------------------------------------------------- the page's own forms


@lru_cache
def embeddings(sides: int) -> tuple[Array, dict[str, Array]]:
    """The embeddings of a batch by the encoder of random weights, and the weights."""
    made = compile("sbert", "torch", CONFIG, "SentenceBert", validate=False)
    weights = random_weights(made)
    given = tensors(texts(sides))
    flat = {name: value.flatten(0, 1) for name, value in given.items()}
    with torch.no_grad():
        found = torch_module(made, weights)(**flat)["sentence_embedding"]
    return found.numpy().reshape(5, sides, D), weights


def cosine(u: Array, v: Array) -> Array:
    return np.asarray((u * v).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(v, axis=-1))


def test_triplet_of_the_page_is_squared() -> None:
    u, weights = embeddings(3)
    found, _ = agree("sbert", "triplet", {**CONFIG, "triplet_margin": 0.5}, texts(3), weights)
    a, p, n = u[:, 0], u[:, 1], u[:, 2]
    wanted = np.maximum(((a - p) ** 2).sum(-1) - ((a - n) ** 2).sum(-1) + 0.5, 0).mean()
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-12)


def test_ranking_of_the_page_leaves_the_positive_out() -> None:
    """It may be below zero, which the library's never is."""
    u, weights = embeddings(2)
    found, _ = agree("sbert", "ranking_of_page", CONFIG, texts(2), weights)
    scores = cosine(u[:, None, 0], u[None, :, 1])
    others = np.where(np.eye(5, dtype=bool), 0, np.exp(scores)).sum(axis=1)
    np.testing.assert_allclose(found["loss"], -np.log(np.exp(np.diag(scores)) / others).mean(), rtol=1e-11)


def test_a_negative_label_has_no_class() -> None:
    """-100 leaves a pair out of the classification, and out of its count."""
    _, weights = embeddings(2)
    more = random_weights(compile("sbert", "torch", {**CONFIG, "num_labels": 3}, "pair_classification", validate=False))
    given = {**texts(2), "labels": np.array([1, -100, 0, -100, 2])}
    found, _ = agree("sbert", "pair_classification", {**CONFIG, "num_labels": 3}, given, {**more, **weights})
    assert found["loss_count"].tolist() == [3]


# ------------------------------------------------------------------------------------------------------ one encoder


@pytest.mark.parametrize(("entry", "sides"), [("regression", 2), ("triplet", 3), ("ranking", 4)])
def test_the_towers_are_one_encoder_over_all_texts(entry: str, sides: int) -> None:
    """One loop over the layers, and in each attention goes over texts of one length at a time, whatever their side."""
    made = compile("sbert", "torch", CONFIG, entry, validate=False)
    loops = [one for one in made.graph.nodes() if one.op == "loop"]
    alone = compile("sbert", "torch", CONFIG, "SentenceBert", validate=False)
    assert len(loops) == len([one for one in alone.graph.nodes() if one.op == "loop"]) == 1
    module = torch_module(made, random_weights(made))
    calls: list[tuple[int, ...]] = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def counted(query: Any, *others: Any, **options: Any) -> Any:
        calls.append(tuple(query.shape))
        return attend(query, *others, **options)

    torch.nn.functional.scaled_dot_product_attention = counted
    try:
        own = {"labels": SIMILAR} if entry == "regression" else {}
        module(**tensors({**texts(sides), **own}))
    finally:
        torch.nn.functional.scaled_dot_product_attention = attend
    heads, width = TINY["num_attention_heads"], D // TINY["num_attention_heads"]
    lengths = Counter(texts(sides)["attention_mask"].sum(axis=-1).flatten().tolist())
    runs = [(count, heads, length, width) for length, count in sorted(lengths.items(), reverse=True)]
    assert len(runs) < 5 * sides
    assert calls == runs * TINY["num_hidden_layers"]


def test_they_share_their_weights() -> None:
    """The encoder's weights are there once, whatever the number of texts."""
    twin, alone = (compile_graph("sbert", CONFIG, one, until="formula").formula for one in ("cosent", "SentenceBert"))
    assert {one.name for one in twin.weights} == {one.name for one in alone.weights}


@pytest.mark.parametrize("entry", ["ranking", "ranking_of_page", "cosent"])
def test_what_compares_examples_says_that_it_does_not_add_up(entry: str) -> None:
    made = compile("sbert", "torch", CONFIG, entry, validate=False)
    assert [out.name for out in made.graph.outputs] == ["loss"]
    (line,) = [line for line in made.ledger.lines if line.rule == "loss_sum"]
    assert not line.fired
    assert line.reason


def test_padding_and_its_side_change_nothing() -> None:
    given, (_, weights) = texts(2), embeddings(2)
    lengths = given["attention_mask"].reshape(-1, 7).sum(axis=1)
    turned = {
        name: np.stack([np.roll(row, 7 - count) for row, count in zip(value.reshape(-1, 7), lengths, strict=True)])
        for name, value in given.items()
    }
    turned = {name: value.reshape(5, 2, 7) for name, value in turned.items()}
    found = [agree("sbert", "ranking", CONFIG, one, weights)[0]["loss"] for one in (given, turned)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)

