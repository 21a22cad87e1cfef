"""Facts of shipped models, as their papers say them."""

from __future__ import annotations

import pytest

from transformula.compiler.difference import compared, side
from transformula.compiler.difference.facts import FACTS, facts
from transformula.compiler.driver import compile_graph
from transformula.compiler.summary import summarise

KNOWN = {
    "bert": {"positions": "a learned table at 0, 1, 2, …", "norm": "LayerNorm", "activation": "GELU",
             "place of norms": "behind each sum (post-norm)", "who sees whom": "every token sees all",
             "biases": "in all maps", "weights of layers": "each layer has its own"},
    "roberta": {"positions": "a learned table at places that follow input_ids"},
    "albert": {"weights of layers": "12 layers share the weights of 1", "activation": "GELU in its tanh form"},
    "modernbert": {"who sees whom": "every token sees all, in 8 of 22 layers; a token sees 64 tokens on either side, "
                   "in 14 of 22 layers", "weights of layers": "each layer has its own", "biases": "in no map"},
    "bart": {"positions": "a learned table at 2, 3, 4, …"},
    "t5": {"positions": "a learned bias of scores by distance", "scale of scores": "none", "norm": "RMSNorm",
           "activation": "ReLU"},
    "gpt2": {"who sees whom": "a token sees itself and those before it",
             "place of norms": "before each part (pre-norm), one behind the last layer"},
    "llama": {"positions": "queries and keys turned by their place (rotary)", "norm": "RMSNorm", "activation": "SiLU",
              "feed-forward": "gated: the activation of one map times another", "biases": "in no map"},
    "mistral": {"keys and values": "each shared by 4 queries",
                "who sees whom": "a token sees itself and 4095 before it"},
    "gemma": {"embeddings": "times √d"},
    "gemma2": {"place of norms": "before each part (pre-norm) and behind each part, one behind the last layer"},
    "gpt_neox": {"place of the feed-forward": "beside attention, of the same input (parallel)"},
    "qwen3": {"queries and keys": "normalised before they meet"},
    "marian": {"positions": "sines and cosines, added to the embeddings"},
    "mpnet": {"positions": "a learned table at places that follow input_ids and a learned bias of scores by distance"},
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_facts(name: str) -> None:
    found = facts(compile_graph(name, until="recognise").graph)
    assert list(found) == [row.name for row in FACTS]
    assert {key: found[key] for key in KNOWN[name]} == KNOWN[name]


def test_costs_are_those_of_the_summary() -> None:
    found = compared(side("a", "bert"), side("b", "bert", settings={"layers": 6}), only=("cost",))
    for number, settings in enumerate(({}, {"layers": 6})):
        whole = summarise(compile_graph("bert", settings=settings))
        mine = {one.name: (one.before, one.after)[number] for one in found.figures}
        assert mine["parameters"] == whole.parameters
        assert mine["operations of a run"] == whole.final.amount.flops
        assert mine["values at once, at most"] == whole.final.peak_bytes
        top = found.blocks[0].figures[0]
        assert (top.before, top.after)[number] == whole.parameters


def test_a_cache_is_told_of_decoders_alone() -> None:
    rows = [one.name for one in compared(side("a", "bert"), side("b", "roberta"), only=("cost",)).figures]
    assert not any("kept" in name for name in rows)
    settings = {"layers": 2, "vocab": 100}
    sides = (side("a", "llama", settings=settings), side("b", "mistral", settings=settings))
    kept = compared(*sides, only=("cost",)).figures[-1]
    assert kept.before == 2 * 2 * 32 * 128 * 4  # layers, keys and values, heads, dk, bytes
    assert kept.after == 2 * 2 * 8 * 128 * 4
