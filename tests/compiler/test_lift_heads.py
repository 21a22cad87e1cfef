"""Heads that are written one by one, with weights, biases and instances of their own, become one attention."""

from __future__ import annotations

import pytest
import torch

from tests.backends.torch.test_module import results
from tests.compiler import zoo
from tests.compiler.test_spellings import GIVEN
from transformula.backends.program import compile
from transformula.backends.torch.loading import fill

SPEC = """spec t
from functions import attention
config
    d = 8
    vocab = 20
    dk = 4
    wide = d
    head = 2
    layers = 3

block Head(x[seq, d]) → [seq, dk] = attention[key](x @ W_Q + b, (x @ W_K)[seq → key], (x @ W_V)[seq → key], bias{drop})
    where bias[seq, key] = {slope} * (index(key) - index(seq))
    weights W_Q, W_K, W_V : [d → dk]
            b : [dk]
            s : []

block Layer(x[seq, d]) → [seq, d] = {layer}
    uses {uses} : Head
    weights W_O : [{ins} → d]

model M(tokens[seq] as input_ids) → y[seq, d] = x[layers]
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = layer[l](x[l])
    uses layer[layers] : Layer
    weights E : [vocab, d]
"""
PLAIN = {"slope": "s", "uses": "h[head]", "ins": "wide", "drop": ""}
LAYERS = {
    "instances by name": PLAIN | {"layer": "x + [g(x); h(x)][dk → wide] @ W_O", "uses": "g, h"},
    "a number as slope": PLAIN | {"layer": "x + [g(x); h(x)][dk → wide] @ W_O", "uses": "g, h", "slope": "2"},
    "instances by number": PLAIN | {"layer": "x + [h[0](x); h[1](x)][dk → wide] @ W_O"},
    "in another order": PLAIN | {"layer": "x + [h[1](x); h[0](x)][dk → wide] @ W_O"},
    "as an axis": PLAIN | {"layer": "x + [h[0](x); h[1](x)][→ head] @ W_O", "ins": "head dk"},
    "a sum": PLAIN | {"layer": "x + h[0](x) @ W_O[head = 0] + h[1](x) @ W_O[head = 1]", "ins": "head dk"},
}


def spec(name: str) -> str:
    text = SPEC.format(**LAYERS[name])
    return text if "s *" in text else text.replace("            s : []\n", "")


@pytest.mark.parametrize("name", LAYERS)
def test_heads_are_one_attention(name: str) -> None:
    made = compile(spec(name))
    graph = made.compiled.graph
    assert [one["name"] for one in graph.nodes() if one.op == "kernel"] == ["attention"]
    right = zoo.reference_results(made.compiled.formula, GIVEN)
    assert zoo.difference(zoo.model(made)(**GIVEN), right) < 1e-12
    for layout in ("padded", "packed"):
        other = compile(spec(name), "torch", layout=layout)
        module = zoo.module(other.source)["Model"](dtype=torch.float64)
        fill(other, module, zoo.weight_values(other.compiled.formula, 0))
        assert zoo.difference(results(module.eval(), GIVEN), right) < 1e-12


def test_heads_that_draw_stay_apart() -> None:
    """Each head drops weights of its own; in training one draw for all would be another one."""
    text = SPEC.format(**(LAYERS["instances by name"] | {"drop": ", drop = 0.1"}))
    made = compile(text, "torch").compiled
    kinds = [one["name"] for one in made.graph.nodes() if one.op == "kernel"]
    assert kinds == ["attention", "attention"]
    assert "not done, the heads are not one formula" in str(made.ledger)
    assert [one["name"] for one in compile(text).compiled.graph.nodes() if one.op == "kernel"] == ["attention"]
