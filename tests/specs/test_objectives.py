"""Objectives as modules of their own, from inputs to loss: value and all gradients, against transformers and torch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

from tests.specs.configs import TINY
from tests.specs.objectives import (
    Array,
    agree,
    class_of,
    random_weights,
    spelled,
    tensors,
    torch_module,
)
from tests.specs.peers import network
from tests.specs.test_llama import TINY as LLAMA
from transformula.backends.program import compile
from transformula.compiler import reference

pytestmark = pytest.mark.usefixtures("no_islands")
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT = {**TINY, **STILL}
NARROW = {**BERT, "embedding_size": 6}
SEQ2SEQ = {
    "vocab_size": 31, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 16,
    "decoder_start_token_id": 2, "dropout": 0.0,
}  # fmt: skip
T5 = {
    "vocab_size": 31, "d_model": 12, "num_layers": 2, "d_ff": 20, "num_heads": 3, "d_kv": 4, "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
}  # fmt: skip
GPT2 = {
    "vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4}
MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]])
CASES: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {  # spec, objective, model of the spec, class, config
    "mlm": ("bert", "mlm", "BertForMaskedLM", "Bert", BERT),
    "joint pretraining": ("bert", "pretraining", "BertForPreTraining", "Bert", BERT),
    "denoising": ("bart", "denoising", "BartForConditionalGeneration", "Bart", SEQ2SEQ),
    "nsp": ("bert", "nsp", "BertForNextSentencePrediction", "Bert", BERT),
    "bert as decoder": ("bert", "causal_lm", "BertLMHeadModel", "Bert", {**BERT, "is_decoder": True}),
    "roberta": ("roberta", "mlm", "BertForMaskedLM", "Roberta", {**BERT, "pad_token_id": 1}),
    "order": ("albert", "pretraining", "AlbertForPreTraining", "Albert", NARROW),
    "generator": ("electra", "mlm", "BertForMaskedLM", "Electra", NARROW),
    "discriminator": ("electra", "detecting", "ElectraForPreTraining", "Electra", NARROW),
    "deberta": ("deberta_v2", "mlm", "BertForMaskedLM", "DebertaV2", {**BERT, **RELATIVE}),
    "causal": ("gpt2", "causal_lm", "GPT2LMHeadModel", "GPT2", GPT2),
    "llama": ("llama", "causal_lm", "LlamaForCausalLM", "Llama", {**LLAMA, "head_dim": 4, "pad_token_id": None}),
    "seq2seq": ("t5", "seq2seq", "T5ForConditionalGeneration", "T5", T5),
}
CLASSES = {"roberta": "RobertaForMaskedLM", "generator": "ElectraForMaskedLM", "deberta": "DebertaV2ForMaskedLM"}


def labels(case: str, seed: int = 5) -> dict[str, Array]:
    """Labels of a case; at padding and elsewhere -100 where the marker is known."""
    draw = np.random.default_rng(seed)
    tokens = np.where((draw.random(MASK.shape) < 0.5) & (MASK == 1), draw.integers(0, 31, MASK.shape), -100)
    order = np.array([1, 0, 1])
    match case:
        case "nsp":
            return {"labels": order}
        case "joint pretraining":
            return {"labels": tokens, "next_sentence_label": order}
        case "order":
            return {"labels": tokens, "sentence_order_label": order}
        case "discriminator":
            return {"labels": (tokens % 2) * MASK}
    return {"labels": tokens}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_library(case: str) -> None:
    spec, entry, model, kind, config = CASES[case]
    peer = network(CLASSES.get(case, model), getattr(transformers, f"{kind}Config")(**config)).double().eval()
    draw = np.random.default_rng(0)
    given = {"input_ids": draw.integers(2, 30, MASK.shape), "attention_mask": MASK, **labels(case)}
    wanted = peer(**tensors(given)).loss
    peer.zero_grad()
    wanted.backward()
    named = dict(peer.named_parameters())
    found, ours = agree(spec, entry, config, given, spelled(spec, model, config, named))
    assert abs(float(found["loss"]) - wanted.item()) < 1e-10
    grads = {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in named.items()}
    same(ours, spelled(spec, model, config, grads), peer.config.pad_token_id, case)


def same(ours: dict[str, Array], theirs: dict[str, Array], pad: int | None, case: str) -> None:
    """Gradients by the names of the spec; the library has none for the word of padding (docs/differences.md)."""
    assert any(np.abs(one).max() > 1e-4 for one in theirs.values())
    for name in ours:
        value, other = ours[name], theirs[name]
        if pad is not None and name.rpartition(".")[2] in ("E", "P"):
            value, other = np.delete(value, pad, axis=0), np.delete(other, pad, axis=0)
        np.testing.assert_allclose(value, other, rtol=0, atol=1e-9, err_msg=f"{case}: {name}")


# ----------------------------------------------------------------------------------------------- ELECTRA, both parts


SMALL = {**NARROW, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
QUARTER = {**SMALL, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 6}


def electra() -> tuple[Any, Any, dict[str, Array]]:
    """Generator and discriminator that share the tables of the embedding, and their weights by the spec's names."""
    generator = network("ElectraForMaskedLM", transformers.ElectraConfig(**QUARTER), 1).double()
    discriminator = network("ElectraForPreTraining", transformers.ElectraConfig(**SMALL), 2).double()
    for name in ("word_embeddings", "token_type_embeddings", "position_embeddings"):
        getattr(generator.electra.embeddings, name).weight = getattr(discriminator.electra.embeddings, name).weight
    generator.tie_weights()
    return generator, discriminator, by_name(dict(generator.named_parameters()), dict(discriminator.named_parameters()))


def by_name(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Array]:
    models = ("generator", "BertForMaskedLM", QUARTER, small), ("discriminator", "ElectraForPreTraining", SMALL, large)
    found = {part: spelled("electra", model, sizes, own) for part, model, sizes, own in models}
    return {f"{part}.{name}": value for part, own in found.items() for name, value in own.items()}


@pytest.mark.parametrize("way", [pytest.param("paper", marks=pytest.mark.slow), "page"])
def test_joint_electra_draws_inside(way: str) -> None:
    """One module from ids to L: the draws are the reference's, and no gradient passes through them."""
    generator, discriminator, weights = electra()
    draw = np.random.default_rng(0)
    original = draw.integers(0, 31, MASK.shape)
    masked = (draw.random(MASK.shape) < 0.5) & (MASK == 1)
    ids = np.where(masked, 3, original)
    given = {"input_ids": ids, "labels": original, "masked": masked, "attention_mask": MASK, "seed": 5}
    found, ours = agree("electra", "joint", {**SMALL, "joint_loss": way}, given, weights)
    corrupted = torch.from_numpy(np.where(MASK == 1, found["corrupted"], 0).astype(int))
    see = torch.from_numpy(MASK)
    aims = torch.from_numpy(np.where(masked, original, -100))
    L_G = generator(torch.from_numpy(ids), see, labels=aims).loss
    replaced = torch.from_numpy((corrupted.numpy() != original)[MASK == 1]).double()
    L_D = F.binary_cross_entropy_with_logits(discriminator(corrupted, see).logits[see == 1], replaced)
    wanted = L_G + 50 * L_D if way == "paper" else L_D + 50 * L_G
    wanted.backward()
    assert abs(float(found["loss"]) - wanted.item()) < 1e-9
    grads = [{n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in one.named_parameters()}
             for one in (generator, discriminator)]  # fmt: skip
    theirs = by_name(*grads)
    for name, value in ours.items():
        first = 1 if name == "discriminator.bert.embed.E" else 0  # the library's padding has no gradient
        np.testing.assert_allclose(
            np.atleast_1d(value)[first:], np.atleast_1d(theirs[name])[first:], rtol=0, atol=1e-8, err_msg=name
        )


def test_another_seed_draws_otherwise() -> None:
    _, _, weights = electra()
    made = compile("electra", "torch", SMALL, "joint", validate=False)
    module = torch_module(made, weights)
    given = {"input_ids": np.full(MASK.shape, 3), "labels": np.full(MASK.shape, 4), "masked": MASK == 1}
    first, again, other = (module(**tensors(given), seed=seed)["corrupted"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# ------------------------------------------------------------------------------------------------- sums and counts


@lru_cache
def masked_lm() -> nn.Module:
    made = compile("bert", "torch", {**BERT, "num_hidden_layers": 1}, "pretraining", validate=False)
    return torch_module(made, random_weights(made))


def parts_of(given: dict[str, Array], cut: int) -> list[dict[str, Array]]:
    return [{name: value[part] for name, value in given.items()} for part in (slice(0, cut), slice(cut, None))]


@settings(max_examples=3, deadline=None)
@drawn(seed=st.integers(0, 999), cut=st.integers(1, 3), rate=st.sampled_from([0.0, 0.1, 0.6]))
def test_parts_of_a_batch_add_up(seed: int, cut: int, rate: float) -> None:
    """Σ sum / Σ count over the parts is the loss of the whole, and so are gradients: each mean has its own count."""
    module = masked_lm()
    draw = np.random.default_rng(seed)
    mask = np.arange(7) < draw.integers(1, 8, (4, 1))
    ids = draw.integers(0, 31, mask.shape)
    given = {
        "input_ids": ids,
        "attention_mask": mask.astype(int),
        "labels": np.where((draw.random(mask.shape) < rate) & mask, ids, -100),
        "next_sentence_label": draw.integers(0, 2, 4),
    }
    whole = module(**tensors(given))
    parts = parts_of(given, cut)
    with torch.no_grad():
        counts = sum(module(**tensors(one))["loss_count"] for one in parts)
    assert counts.tolist() == [(given["labels"] != -100).sum(), 4]
    total = sum((module(**tensors(one))["loss_sum"] / counts.clamp(min=1)).sum() for one in parts)
    torch.testing.assert_close(total, whole["loss"], rtol=1e-13, atol=1e-13)
    module.zero_grad()
    for one in parts:  # as a trainer accumulates
        (module(**tensors(one))["loss_sum"] / counts.clamp(min=1)).sum().backward()
    found = {name: weight.grad for name, weight in module.named_parameters()}
    module.zero_grad()
    module(**tensors(given))["loss"].backward()
    for name, weight in module.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-10, atol=1e-13)


def test_a_mean_over_nothing_is_0_with_count_0_and_no_gradient() -> None:
    made = compile("bert", "torch", BERT, "mlm", validate=False)
    given = {"input_ids": np.ones(MASK.shape, int), "attention_mask": MASK, "labels": np.full(MASK.shape, -100)}
    found, ours = agree("bert", "mlm", BERT, given, random_weights(made))
    assert (float(found["loss"]), found["loss_sum"].tolist(), found["loss_count"].tolist()) == (0.0, [0.0], [0.0])
    assert all((one == 0).all() for one in ours.values())


# ------------------------------------------------------------------------------------------- cross-entropy in general

CLASSES_10 = 10


def logits(seed: int = 0) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    made = draw.normal(size=(*MASK.shape, CLASSES_10)) * 3
    return made, np.where((draw.random(MASK.shape) < 0.7) & (MASK == 1), draw.integers(0, 10, MASK.shape), -100)


def of_torch(entry: str, z: torch.Tensor, aims: Array, more: dict[str, Array]) -> torch.Tensor:
    flat, places = z.flatten(0, 1), torch.from_numpy(aims).flatten()
    match entry:
        case "labelled":
            return F.cross_entropy(flat, places)
        case "smoothed":
            return F.cross_entropy(flat, places, label_smoothing=0.1)
        case "by_class":
            return F.cross_entropy(flat, places, weight=torch.from_numpy(more["class_weights"]))
        case "by_token":
            w = torch.from_numpy(more["token_weights"]).flatten()[places != -100]
            return (w * F.cross_entropy(flat[places != -100], places[places != -100], reduction="none")).sum() / w.sum()
    counted = torch.from_numpy(more["counts"]).flatten()
    return F.cross_entropy(flat[counted], torch.from_numpy(more["labels"]).flatten(0, 1)[counted])


@pytest.mark.parametrize("entry", ["by_class", "smoothed", "by_token", "labelled", "probable"])
@pytest.mark.parametrize("some", [True, False])
def test_cross_entropy(entry: str, some: bool) -> None:
    """Labels, smoothing, weights of classes and tokens, probabilities; where nothing counts 0, with gradient 0."""
    z, aims = logits()
    aims = aims if some else np.full_like(aims, -100)
    draw = np.random.default_rng(1)
    more = {"by_class": {"class_weights": draw.random(10)}, "by_token": {"token_weights": draw.random(MASK.shape)}}
    own: dict[str, Array] = {"labels": aims, **more.get(entry, {})}
    if entry == "probable":
        shares = draw.random(z.shape)
        own = {"labels": shares / shares.sum(-1, keepdims=True), "counts": aims != -100}
    made = compile("cross_entropy", "torch", {}, entry)
    module = class_of(made)()
    ours = torch.tensor(z, requires_grad=True)
    found = module(ours, **tensors({"attention_mask": MASK, **own}))
    found["loss"].backward()
    numpy = class_of(compile("cross_entropy", "numpy", {}, entry))({}, dtype="float64")
    plain = numpy(logits=z, attention_mask=MASK, **own)
    formula = reference.run(made.compiled.formula, {}, {"logits": z, "attention_mask": MASK, **own})
    for name, value in formula.items():
        np.testing.assert_allclose(plain[name], value, rtol=1e-12)
        np.testing.assert_allclose(found[name].detach(), value, rtol=1e-12)
    if not some:
        assert float(formula["loss"]) == 0
        assert ours.grad is not None
        assert (ours.grad == 0).all()
        return
    theirs = torch.tensor(z, requires_grad=True)
    wanted = of_torch(entry, theirs, aims, own)
    wanted.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found["loss"].detach(), wanted.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_bl_26_smoothing_leaves_out_what_does_not_count() -> None:
    made = compile("cross_entropy", "torch", {"num_labels": 3, "label_smoothing": 0.3}, "smoothed")
    scores = torch.tensor([[[2.0, 0, 0], [0, 0, 5]]], dtype=torch.float64)
    found = class_of(made)()(scores, labels=torch.tensor([[0, -100]]))
    assert abs(found["loss"].item() - 0.63954477) < 1e-8
    assert found["loss_count"].tolist() == [1]
