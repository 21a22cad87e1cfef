"""The proof that row i depends on rows ≤ i alone, and what is told where it does not hold."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler import decoders
from tests.compiler.spec_tools import Array, rng
from transformula.compiler.decoding import tokens_of
from transformula.compiler.driver import compile_graph


@pytest.mark.parametrize("name", decoders.CAUSAL)
def test_causal_models_decode(name: str) -> None:
    made = compile_graph(decoders.CAUSAL[name])
    assert made.decoding is not None
    assert all(line.fired for line in made.ledger.lines if line.pass_name == "derive_cache")


@pytest.mark.parametrize("name", decoders.AHEAD)
def test_what_looks_ahead_is_told_with_its_line(name: str) -> None:
    text, line, why = decoders.AHEAD[name]
    made = compile_graph(text)
    assert made.decoding is None
    (told,) = [one for one in made.ledger.lines if one.pass_name == "derive_cache"]
    assert not told.fired
    assert told.reason.startswith(why)
    assert told.span is not None
    assert line in told.span.source.line(told.span.line)


def changed_later(name: str, text: str) -> Array:
    """How much the logits before a token change with it: [place of the token, place of the logits]."""
    graph = compile_graph(text, until="formula").formula
    tokens = rng(5).integers(4, decoders.VOCABULARY, (1, 7))
    more = decoders.others(graph, 1)
    before = decoders.full(graph, tokens, np.ones((1, 7), bool), more)
    found = np.zeros((7, 7))
    for place in range(7):
        other = tokens.copy()
        other[0, place] = (other[0, place] + 7) % 16 + 4
        after = decoders.full(graph, other, np.ones((1, 7), bool), more)
        found[place] = np.abs(after - before).max(axis=-1)[0]
    return found


@pytest.mark.parametrize("name", decoders.CAUSAL)
def test_the_proof_agrees_with_what_is_computed(name: str) -> None:
    change = changed_later(name, decoders.CAUSAL[name])
    assert not np.tril(change, -1).any()  # no row before the token that was changed
    assert np.diag(change).all()


@pytest.mark.parametrize("name", sorted({*decoders.AHEAD} - {"length", "mean_of_zeros", "bias_is_no_mask", "chosen"}))
def test_what_is_refused_does_look_ahead(name: str) -> None:
    assert np.tril(changed_later(name, decoders.AHEAD[name][0]), -1).any()


def test_a_model_without_logits_over_its_tokens_is_no_decoder() -> None:
    for model, entry in (("bert", "Bert"), ("bert", "BertForTokenClassification"), ("sbert", None)):
        graph = compile_graph(model, entry=entry, until="formula").formula
        assert tokens_of(graph) is None
    assert tokens_of(compile_graph("bert", entry="BertForMaskedLM", until="formula").formula) == "input_ids"
    graph = compile_graph("t5", entry="T5ForConditionalGeneration", until="formula").formula
    assert tokens_of(graph) == "decoder_input_ids"


def test_bert_is_refused_at_its_attention() -> None:
    made = compile_graph("bert", entry="BertForMaskedLM")
    (told,) = [one for one in made.ledger.lines if one.pass_name == "derive_cache"]
    assert told.span is not None
    assert told.span.source.name == "bert.formula"
    assert "attention[key" in told.span.source.line(told.span.line)
