"""Where dropout stands and at which rate: each draw of a generated module in training is one of the library's."""

import math
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
import transformers
from torch.nn import functional as F

import transformula
from tests.specs import test_albert, test_deberta, test_llama, test_modernbert
from tests.specs.configs import TINY
from tests.specs.peers import saved

Draw: TypeAlias = tuple[float, tuple[int, ...]]
"""The rate of a call, and the shape of what is dropped: [batch, head, query, key] for the weights of attention."""

IDS = torch.arange(12).reshape(2, 6) + 5
HIDDEN, WEIGHTS, HEAD = 0.125, 0.25, 0.375
BERT = {**TINY, "hidden_dropout_prob": HIDDEN, "attention_probs_dropout_prob": WEIGHTS, "classifier_dropout": HEAD}
ALBERT = {
    **test_albert.TINY, "hidden_dropout_prob": HIDDEN, "attention_probs_dropout_prob": WEIGHTS,
    "classifier_dropout_prob": HEAD, "num_hidden_groups": 2, "inner_group_num": 2,
}  # fmt: skip
DISTILBERT = {
    "vocab_size": 31, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 16,
    "dropout": HIDDEN, "attention_dropout": WEIGHTS, "seq_classif_dropout": HEAD, "qa_dropout": 0.5,
}  # fmt: skip
RATES = {
    "hidden_dropout_prob": HIDDEN, "attention_probs_dropout_prob": WEIGHTS, "pooler_dropout": 0.5, "cls_dropout": HEAD,
}  # fmt: skip
MODERNBERT = {
    **test_modernbert.TINY, "embedding_dropout": HIDDEN, "attention_dropout": WEIGHTS, "mlp_dropout": 0.5,
    "classifier_dropout": HEAD,
}  # fmt: skip
V2 = {**test_deberta.TINY, **test_deberta.V2, **RATES}
V1 = {**test_deberta.TINY, **test_deberta.HUB, **RATES}
HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
GPT = {
    "vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16,
    "resid_pdrop": HIDDEN, "attn_pdrop": WEIGHTS, "embd_pdrop": 0.5,
}  # fmt: skip
GPT2 = {**GPT, "classifier_dropout": HEAD, "pad_token_id": 0}
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": BERT, "Roberta": BERT, "XLMRoberta": BERT, "Camembert": BERT, "Data2VecText": BERT,
    "Electra": {**BERT, "embedding_size": 8}, "Albert": ALBERT, "DistilBert": DISTILBERT, "MPNet": BERT,
    "Deberta": V1, "DebertaV2": V2, "ModernBert": MODERNBERT,
}
DECODERS: dict[str, dict[str, Any]] = {
    "GPT2Model": GPT2, "GPT2LMHeadModel": GPT2, "GPT2ForTokenClassification": GPT2, "GPT2ForQuestionAnswering": GPT2,
    "GPT2ForSequenceClassification": GPT2, "OpenAIGPTModel": GPT, "OpenAIGPTLMHeadModel": GPT,
    "BertLMHeadModel": {**BERT, "is_decoder": True},
}  # fmt: skip
KINDS = [f"{family}{head}" for family in FAMILIES for head in HEADS]
LLAMA = {**test_llama.TINY, "head_dim": 4, "attention_dropout": WEIGHTS}
FAMILIES["Llama"] = {**LLAMA, "classifier_dropout": HEAD}
KINDS += ["LlamaForCausalLM", "LlamaForTokenClassification"]
ONE_TOKEN = ("ForSequenceClassification", "ForNextSentencePrediction")
"""Heads that read the first token: our last block draws for its row only, where the library draws for all."""

KINDS += DECODERS
KINDS += [f"{family}ForPreTraining" for family in ("Bert", "Electra", "Albert")] + ["BertForNextSentencePrediction"]


def drawn(monkeypatch: pytest.MonkeyPatch, module: torch.nn.Module, **given: torch.Tensor) -> list[Draw]:
    """The draws of one call, in order; what is not drawn (evaluation, a rate of 0) is left out."""
    found: list[Draw] = []
    dropout, attention = F.dropout, F.scaled_dot_product_attention

    def noted(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if training and p > 0:
            found.append((p, tuple(x.shape)))
        return dropout(x, p, training, inplace)

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **how: Any) -> torch.Tensor:
        if how.get("dropout_p", 0.0) > 0:
            found.append((how["dropout_p"], (*q.shape[:-1], k.shape[-2])))
        return attention(q, k, v, **how)

    with monkeypatch.context() as patch:
        patch.setattr(F, "dropout", noted)
        patch.setattr(F, "scaled_dot_product_attention", attended)
        module(**given)
    return found


def both(
    monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str, keys: dict[str, Any], **more: torch.Tensor
) -> tuple[list[Draw], list[Draw]]:
    """The draws of our module and of the library's, in training; none in evaluation."""
    saved(folder, kind, getattr(transformers, kind).config_class(**keys))
    network = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager")
    ours = transformula.load(folder, backend="torch", layout="padded").module
    assert isinstance(ours, torch.nn.Module)
    given = {"input_ids": IDS, **more}
    assert drawn(monkeypatch, ours, **given) == drawn(monkeypatch, network.eval(), **given) == []
    found = drawn(monkeypatch, ours.train(), **given)
    return found, drawn(monkeypatch, network.train(), **given)


@pytest.mark.parametrize("kind", KINDS)
def test_sites(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    keys = DECODERS[kind] if kind in DECODERS else FAMILIES[kind.replace("Model", "For").split("For")[0]]
    found, wanted = both(monkeypatch, tmp_path, kind, keys)
    assert wanted
    if not kind.endswith(ONE_TOKEN):
        assert found == wanted
        return
    assert [rate for rate, _ in found] == [rate for rate, _ in wanted]
    fewer = [place for place, (own, theirs) in enumerate(zip(found, wanted, strict=True)) if own != theirs]
    assert fewer, "the last block computes all its rows"
    for place in fewer:
        assert found[place][1] in first_row(wanted[place][1]), place
    assert fewer[-1] - fewer[0] < 4, "more than one block reads single rows"


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertLMHeadModel"])
def test_sites_of_cross_attention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    keys = {**DECODERS[kind], "add_cross_attention": True}
    found, wanted = both(monkeypatch, tmp_path, kind, keys, encoder_hidden_states=torch.randn(2, 5, 12))
    assert found == wanted
    assert (WEIGHTS, (2, 3, 6, 5)) in found


def first_row(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shape with one token instead of all: without the dimension, or with one entry (of queries)."""
    tokens = IDS.shape[1]
    places = [place for place, size in enumerate(shape) if size == tokens]
    return [(*shape[:p], *more, *shape[p + 1 :]) for p in places for more in ((), (1,))]


def test_rates_of_zero_leave_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = {**BERT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
    kind = "BertForSequenceClassification"
    assert both(monkeypatch, tmp_path, kind, keys) == ([], [])
    source = transformula.load(tmp_path, backend="torch", layout="padded").program.source
    assert "F.dropout(" not in source
    assert "dropout_p" not in source
    assert "self.training" not in source
    assert "It has no dropout" in source


@pytest.mark.parametrize("kind", ["Gemma2ForCausalLM", "Gemma2ForTokenClassification"])
def test_capped_scores_of_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """They are no fused attention: the weights are dropped with their groups as an axis."""
    found, wanted = both(monkeypatch, tmp_path, kind, {**LLAMA, "hidden_dropout": HEAD})
    assert [(rate, math.prod(shape)) for rate, shape in found] == [(rate, math.prod(shape)) for rate, shape in wanted]


TALKING = {**V1, "pos_att_type": "c2p|p2c", "talking_head": True}


@pytest.mark.parametrize("keys", [TALKING, {**V1, "relative_attention": False}], ids=["talking", "absolute"])
def test_deberta_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: dict[str, Any]) -> None:
    found, wanted = both(monkeypatch, tmp_path, "DebertaModel", keys)
    assert [(rate, sorted(shape)) for rate, shape in found] == [(rate, sorted(shape)) for rate, shape in wanted]


def test_the_convolution_of_deberta_is_drawn_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is chosen at the first layer, and computed there alone."""
    keys = {**V2, "num_hidden_layers": 3, "conv_kernel_size": 3}
    found, wanted = both(monkeypatch, tmp_path, "DebertaV2Model", keys)
    assert found == wanted
