"""Attention by meaning: wherever the scale, the mask and the bias stand, it is one node that carries them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.backends.torch import test_module as torch_module
from tests.compiler import zoo
from tests.compiler.test_recognise import names, reasons, result
from transformula.compiler import kernels
from transformula.compiler.ir import Node, walk_all
from transformula.grammar.diagnostics import TransformulaError

S = "s = Q @[dk] K / √dk"
B = "B[seq, key] = (index(key) - index(seq)) / 7"
PLAIN = [
    ("softmax[key](Q @[dk] K / √dk) @[key] V", ""),
    ("softmax[key](Q @[dk] K * (1 / √dk)) @[key] V", ""),
    ("softmax[key](1 / √dk * (Q @[dk] K)) @[key] V", ""),
    ("softmax[key](dk^(-1/2) * (Q @[dk] K)) @[key] V", ""),
    ("softmax[key]((Q / √dk) @[dk] K) @[key] V", ""),
    ("softmax[key]((1 / √dk * Q) @[dk] K) @[key] V", ""),
    ("softmax[key](Q @[dk] (K / √dk)) @[key] V", ""),
    ("softmax[key]((Q * dk^(-1/4)) @[dk] (K * dk^(-1/4))) @[key] V", ""),
    ("V @[key] softmax[key](Q @[dk] K / √dk)", ""),
    ("softmax[key](K @[dk] Q / √dk) @[key] V", ""),
    ("exp(s) / sum[key](exp(s)) @[key] V", S),
    ("exp(s - max[key](s)) / sum[key](exp(s - max[key](s))) @[key] V", S),
    ("(exp(s) @[key] V) / sum[key](exp(s))", S),
    ("general_attention[key](Q, K, V, f)", "f(q, k) = q @[dk] k / √dk"),
    ("attention[key](Q, K, V)", ""),
    ("attention[key](Q, K, V, drop = 0.1)", ""),
    ("softmax[key](-(Q @[dk] K) / -√dk) @[key] V", ""),
    ("softmax[key](Q @[dk] K / √dk / 2 + Q @[dk] K / √dk / 2) @[key] V", ""),
    ("softmax[key](Q @[dk] K / √dk + 0) @[key] (1 * V)", ""),
]
NO_SCALE = [("softmax[key](Q @[dk] K) @[key] V", ""), ("attention[key](Q, K, V, scale = 1)", "")]
MASKED = [
    ("masked_attention[key](Q, K, V, causal_mask)", ""),
    ("softmax[key](Q @[dk] K / √dk + causal_mask) @[key] V", ""),
    ("softmax[key](causal_mask + Q @[dk] K / √dk) @[key] V", ""),
    ("softmax[key if index(seq) ≥ index(key)](Q @[dk] K / √dk) @[key] V", ""),
    ("attention[key if index(seq) ≥ index(key)](Q, K, V)", ""),
    ("softmax[key](s if index(seq) ≥ index(key) else -∞) @[key] V", S),
    ("softmax[key](-∞ if index(seq) < index(key) else s) @[key] V", S),
]
BIASED = [
    ("softmax[key](Q @[dk] K / √dk + B) @[key] V", B),
    ("softmax[key](B + Q @[dk] K / √dk) @[key] V", B),
    ("softmax[key]((Q / √dk) @[dk] K + B) @[key] V", B),
    ("attention[key](Q, K, V, B)", B),
]
ATTENTION = [
    *(("plain", *one) for one in PLAIN),
    *(("no scale", *one) for one in NO_SCALE),
    *(("masked", *one) for one in MASKED),
    *(("biased", *one) for one in BIASED),
    ("biased", "softmax[key]((Q @[dk] K + B) / √dk) @[key] V", B),
    ("masked and biased", "softmax[key](Q @[dk] K / √dk - B + causal_mask) @[key] V", B),
    ("masked", "attention[key if causal and index(key) ≥ index(seq) - 2](Q, K, V)", ""),
]
FUNCTIONS = ("softmax", "attention", "causal", "causal_mask", "masked_attention", "general_attention")


def heads(formula: str, more: str = "") -> str:
    """A spec of one block of self-attention."""
    used = [
        f for f in FUNCTIONS if f in formula.replace("causal_mask", "" if f == "causal" else "causal_mask")
    ]
    used = [f for f in used if f != "attention" or formula.lstrip().startswith("attention")]
    return zoo.attention_spec(formula, ", ".join(used), more, IDS_ONLY)


IDS_ONLY = zoo.IDS + "y[seq, d] = attn(E[vocab = tokens])\n    uses attn : Attn\n" + zoo.EMBED


def attention_node(text: str) -> Node:
    root = result(text)
    found = names(root)
    assert (found["attention"], found["softmax"]) == (1, 0), f"{found}: {reasons(text)}"
    return next(one for one in walk_all([root]) if one.op == "kernel")


@pytest.mark.parametrize(("kind", "formula", "more"), ATTENTION)
def test_attention_spelling(kind: str, formula: str, more: str) -> None:
    roles = attention_node(heads(formula, more))["roles"]
    assert ("see" in roles or "stop" in roles) == ("masked" in kind)
    assert ("bias" in roles) == ("biased" in kind)


def before_scales(text: str) -> tuple[object, ...]:
    """Scale and parts of the attention node as it is recognised."""
    graph = zoo.program(text, until="recognise").graph
    (one,) = [n for n in graph.nodes() if n.op == "kernel" and n["name"] == "attention"]
    return (round(float(one["scale"]), 14), *one["roles"], kernels.parts(one).get("see"))


@pytest.mark.parametrize(
    "suite", [PLAIN, NO_SCALE, MASKED, BIASED], ids=["plain", "no scale", "masked", "biased"]
)
def test_spellings_of_attention_are_one_normal_form(suite: list[tuple[str, str]]) -> None:
    assert len({before_scales(heads(*one)) for one in suite}) == 1


@pytest.mark.parametrize(
    "name", ["gpt", "page", "window", "alibi", "rope", "deberta", "two", "token_mask", "bert"]
)
def test_attention_in_whole_models(name: str) -> None:
    """Causal in a loop, the page's form, ALiBi, grouped queries with rotary positions, DeBERTa, cross-attention."""
    graph = zoo.whole(name).graph
    found = [one for one in graph.nodes() if one.op == "kernel" and one["name"] == "attention"]
    assert len(found) == 1
    assert not [one for one in graph.nodes() if one.op == "kernel" and one["name"] == "softmax"]


def test_one_head_without_an_axis_of_heads() -> None:
    text = (
        heads("attention[key](Q, K, V)")
        .replace("[d → head dk]", "[d → dk]")
        .replace("[head dk → d]", "[dk → d]")
    )
    attention_node(text)


SCORES = {
    "softmax(tanh(q·k)) @ V": ("softmax[key](tanh(Q @[dk] K)) @[key] V", "plain"),
    "softmax((q·k)²) @ V": ("softmax[key]((Q @[dk] K)²) @[key] V", "plain"),
    "softmax of the smaller": ("softmax[key if causal](min(Q @[dk] K, 1)) @[key] V", "masked"),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_that_are_no_product_are_taken_as_they_are(name: str) -> None:
    formula, kind = SCORES[name]
    at = attention_node(heads(formula))
    assert at["roles"] == (("scores", "value", "see") if kind == "masked" else ("scores", "value"))


POOLED = """spec t
config
    d = 12
    vocab = 20
model M(tokens[seq] as input_ids) → y[d] = {}
    where u = E[vocab = tokens]
          α = exp(u @[d] w) / sum[seq](exp(u @[d] w))
    weights w : [d]
            E : [vocab, d]
"""


@pytest.mark.parametrize("formula", ["α @[seq] u", "sum[seq](α ⊙ u)", "sum[seq](u * α)"])
def test_attention_pooling(formula: str) -> None:
    """The page's Σ α_i u_i: one attention, whose only query is w; NumPy computes it on packed rows."""
    text = POOLED.format(formula)
    at = kernels.parts(attention_node(text))
    assert at["query"]["name"] == "w"
    assert "def rows" in zoo.whole(text).source


LEARNED = """spec t
from functions import softmax
config
    d = 12
    vocab = 20
    slot = 3
model M(tokens[seq] as input_ids) → y[slot, d] = softmax[seq](S @[d] u) @[seq] u
    where u = E[vocab = tokens]
    weights S : [slot, d]
            E : [vocab, d]
"""


@pytest.mark.parametrize("text", [POOLED.format("α @[seq] u"), LEARNED], ids=["pooling", "learned queries"])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_queries_that_are_the_same_for_all_examples(text: str, layout: str) -> None:
    """They are weights: a fused call has no batch of them, so it is written step by step."""
    made = torch_module.program(text, layout)
    found = torch_module.results(torch_module.model(text, layout=layout), zoo.inputs("pools"))
    right = zoo.reference_results(made.compiled.formula, zoo.inputs("pools"))
    assert zoo.difference(found, right) < 1e-12


def test_weights_times_themselves() -> None:
    """Both sides of the product are the shares, so they are read twice."""
    text = heads("(A @[key] A) * Q + 0 * (K @[key] V)", f"A = exp(s) / sum[key](exp(s))\n{S}")
    assert names(zoo.whole(text).graph.outputs[0].node)["attention"] == 0


NOT_YET = {
    "the shares are halved": (
        "(0.5 * softmax[key](Q @[dk] K)) @[key] V",
        "the softmax is changed before it weighs the values",
    ),
}


@pytest.mark.parametrize("name", NOT_YET)
def test_what_is_not_recognised_is_told(name: str) -> None:
    """BL-38: a variant that is not one attention node says so, with the reason and its place."""
    formula, reason = NOT_YET[name]
    root = result(heads(formula))
    assert names(root)["attention"] == 0
    assert reasons(heads(formula)) == [reason]
    (line,) = [line for line in zoo.whole(heads(formula)).ledger.lines if line.reason == reason]
    assert line.place


@pytest.mark.parametrize("axis", ["seq", "head"])
def test_a_softmax_over_another_axis_is_no_attention(axis: str) -> None:
    text = heads(f"softmax[{axis}](Q @[dk] K / √dk) @[key] V")
    graph = zoo.whole(text).graph
    kinds = Counter(one["name"] for one in graph.nodes() if one.op == "kernel")
    assert kinds == {"softmax": 1}


def test_an_outer_product_is_no_attention() -> None:
    with pytest.raises(TransformulaError):
        zoo.whole(heads("sum[key](softmax[key](Q @[dk] K / √dk) ⊙ V)"))
