"""The summary: its tree adds up to what cost.py tells, and holds what a hand counts."""

from __future__ import annotations

import json

import pytest

from transformula.compiler import cost
from transformula.compiler.driver import compile_graph
from transformula.compiler.sizes import Sizes
from transformula.compiler.summary import Amount, Summary, summarise

TREES = [
    ("bert", "BertForMaskedLM"),
    ("albert", None),
    ("electra", "joint"),
    ("gpt2", "GPT2LMHeadModel"),
    ("t5", "T5ForConditionalGeneration"),
    ("gemma2", None),
    ("modernbert", None),
    ("sbert", "Siamese"),
    ("transformer", None),
]


def amounts(found: cost.Costs) -> Amount:
    """The totals of cost.py as the summary has them."""
    run, held = found.total, (found.parameters, found.parameter_bytes)
    return Amount(*held, run.flops, run.products, run.read, run.written, found.prepared.flops)


@pytest.mark.parametrize(("spec", "entry"), TREES)
def test_the_tree_adds_up_to_the_costs(spec: str, entry: str | None) -> None:
    compiled = compile_graph(spec, entry=entry)
    sizes = Sizes(3, 17, 0.6)
    made = summarise(compiled, sizes)
    for graph, whole, top in (
        (compiled.formula, made.formula, made.top.formula),
        (compiled.graph, made.final, made.top.final),
    ):
        assert top == whole.amount == amounts(cost.costs(graph, sizes))
    blocks = list(made.top.walk())
    assert sum((one.own_formula for one in blocks), Amount()) == made.top.formula
    assert sum((one.own_final for one in blocks), Amount()) == made.top.final
    assert len({one.path for one in blocks}) == len(blocks)
    assert sum(one.count for block in blocks for one in block.weights) == made.parameters == made.top.formula.parameters
    json.dumps(made.data())


def block(made: Summary, *path: str) -> object:
    """The block at a path."""
    (found,) = [one for one in made.top.walk() if one.path == path]
    return found
