"""The summary: its tree adds up to what cost.py tells, and holds what a hand counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler import zoo
from transformula.compiler import cost
from transformula.compiler.driver import compile_graph, load_module
from transformula.compiler.layouts import axes_text
from transformula.compiler.sizes import Sizes
from transformula.compiler.summary import Amount, Block, Summary, summarise
from transformula.grammar.diagnostics import TransformulaError

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

ALBERT_BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
ROBERTA_BASE = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}


def amounts(found: cost.Costs) -> Amount:
    """The totals of cost.py as the summary has them."""
    run, held = found.total, (found.parameters, found.parameter_bytes)
    return Amount(*held, run.flops, run.products, run.read, run.written, found.prepared.flops)


@pytest.mark.parametrize(("spec", "entry"), TREES)
def test_the_tree_adds_up_to_the_costs(spec: str, entry: str | None) -> None:
    compiled = zoo.shipped(spec, entry)
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


def block(made: Summary, *path: str) -> Block:
    """The block at a path."""
    (found,) = [one for one in made.top.walk() if one.path == path]
    return found


# --- by hand -------------------------------------------------------------------------------------------------

MIXING = """
spec mixing
config
    d = 6
    k = 4
    layers = 3
block Mix(x[seq, d]) → [seq, d] = x + relu(x @ W + b) @ V
    where relu(t) = max(0, t)
    weights W : [d → k]
            b : [k]
            V : [k → d]
model Mixing(x[seq, d]) → y[seq, d] = h[layers]
    where
        h[0] = first(x)
        for l in layers:
            h[l + 1] = layer[l](h[l])
    uses first : Mix
         layer[layers] : Mix
"""
"""Residual layers, one of them by itself."""


def test_a_layer_is_what_a_hand_counts() -> None:
    n, length, d, k, layers = 2, 5, 6, 4, 3
    rows = n * length
    made = summarise(compile_graph(MIXING), Sizes(n, length))
    one = d * k + k + k * d  # W, b, V
    products = 2 * rows * d * k + 2 * rows * k * d  # x @ W and … @ V: a product and a sum for each pair
    rest = rows * k + rows * k + rows * d  # + b, max(0, …), + x
    first, layer = block(made, "first"), block(made, "layer[layers]")
    assert (first.name, first.definition, first.runs, first.sets) == ("first", "Mix", 1, 1)
    assert (layer.name, layer.definition, layer.runs, layer.sets) == ("layer[layers]", "Mix", layers, layers)
    for found, times in ((first, 1), (layer, layers)):
        assert found.formula.parameters == times * one
        assert found.formula.products == times * products
        assert found.formula.flops == times * (products + rest)
    weights = 4 * one
    read = weights + 4 * rows * (d + k + k + k + d + d)  # x for W, its product, + b, max, … for V, its product, x
    written = 4 * rows * (k + k + k + d + d)
    assert (first.formula.read, first.formula.written) == (read, written)
    assert made.top.own_formula == Amount()
    assert made.parameters == made.trainable == (1 + layers) * one
    assert [part.name for part in made.top.parts] == ["first", "layer[layers]"]


def test_attention_and_norms_are_what_a_hand_counts() -> None:
    n, length, d, head, dk, ffn, layers = 3, 7, 12, 3, 4, 10, 2
    rows, pairs = n * length, n * length * length
    made = summarise(zoo.program("bert").compiled, Sizes(n, length))
    attn, norm = block(made, "layer[layers]", "attn"), block(made, "layer[layers]", "LN_1")
    assert attn.formula.parameters == layers * 4 * (d * d + d)
    assert attn.formula.products == layers * (4 * 2 * rows * d * d + 2 * 2 * pairs * head * dk)
    # of each score: the scale, the mask, exp, the sum, its quotient, dropout; of each row 4 biases
    assert attn.formula.flops - attn.formula.products == layers * (6 * pairs * head + 4 * rows * d)
    assert norm.formula.parameters == layers * 2 * d
    # of each entry: the mean, -, ², its mean, ⊙ γ, / σ, + β; of each row + ε and √
    assert norm.formula.flops == layers * (7 * rows * d + 2 * rows)
    fused = block(made, "layer[layers]", "LN_1").final.flops
    assert fused > norm.formula.flops  # the residual and the bias are added inside it
    assert block(made, "layer[layers]", "FFN").formula.parameters == layers * (2 * d * ffn + ffn + d)


# --- shared and tied weights ---------------------------------------------------------------------------------


def test_one_set_of_weights_runs_in_many_layers() -> None:
    made = summarise(compile_graph("albert", settings={"layers": 5, "groups": 1}))
    layer = block(made, "layer[groups, inner]")
    assert (layer.runs, layer.sets) == (5, 1)
    assert made.parameters == sum(one.count for one in made.weights)
    more = summarise(compile_graph("albert", settings={"layers": 10, "groups": 1}))
    assert more.parameters == made.parameters
    assert block(more, "layer[groups, inner]").formula.products == 2 * layer.formula.products


SIAMESE = """
spec siamese
config
    d = 6
block Tower(x[d]) → [d] = x @ W
    weights W : [d → d]
model Siamese(u[d], v[d]) → score = tower(u) @[d] tower(v)
    uses tower : Tower
"""


def test_a_block_that_is_called_twice_holds_its_weights_once() -> None:
    made = summarise(compile_graph(SIAMESE), Sizes(3))
    tower = block(made, "tower")
    assert (tower.calls, tower.runs, tower.formula.parameters) == (2, 1, 36)
    assert tower.formula.products == 2 * 2 * 3 * 36
    assert made.top.own_formula.products == 2 * 3 * 6


def test_tied_weights_are_counted_once_and_told_where_they_are_read() -> None:
    made = summarise(compile_graph("bert", entry="BertForMaskedLM"))
    assert block(made, "lm_head").shared == ("bert.embed.E",)
    assert block(made, "bert", "embed").weights[0].name == "bert.embed.E"
    assert block(made, "bert", "layer[layers]").shared == ()
    assert summarise(compile_graph("bert")).top.shared == ()  # it alone reads the table, which it hands to nobody
    joint = summarise(compile_graph("electra", entry="joint"))
    assert block(joint, "generator", "bert", "embed").shared == ("discriminator.bert.embed.S",)
    assert block(joint, "generator", "lm_head").shared == ("discriminator.bert.embed.E",)
    assert block(joint, "generator", "bert", "embed").formula.flops > 0


@pytest.mark.parametrize(
    ("spec", "entry", "config", "count"),
    [
        ("bert", "Bert", {}, 109_482_240),  # with the pooler
        ("gpt2", "GPT2LMHeadModel", {}, 124_439_808),  # its head is the table of tokens
        ("t5", "T5ForConditionalGeneration", {}, 60_506_624),
        ("albert", "Bert", ALBERT_BASE, 11_683_584),  # with the pooler
        ("roberta", "Bert", ROBERTA_BASE, 124_645_632),  # with the pooler
    ],
)
def test_known_totals(spec: str, entry: str, config: dict[str, Any], count: int) -> None:
    made = summarise(compile_graph(spec, config, entry, until="formula"))
    assert made.parameters == made.trainable == made.formula.amount.parameters == count
    assert made.dtype_bytes == {"float64": 8 * count, "float32": 4 * count, "bfloat16": 2 * count, "float16": 2 * count}


def test_the_totals_of_bert_and_gpt2_by_hand() -> None:
    d, ffn, vocab, places = 768, 3072, 30522, 512
    attn, feed, norm = 4 * (d * d + d), d * ffn + ffn + ffn * d + d, 2 * d
    assert vocab * d + 2 * d + places * d + norm + 12 * (attn + feed + 2 * norm) + d * d + d == 109_482_240
    assert 50257 * d + 1024 * d + 12 * (attn + feed + 2 * norm) + norm == 124_439_808


def test_what_no_gradient_reaches_is_not_trained() -> None:
    made = summarise(compile_graph("bart", entry="BartForConditionalGeneration", until="formula"))
    (bias,) = [one for one in made.weights if not one.trainable]
    assert made.parameters - made.trainable == bias.count == 50265
    assert bias.stored == ("final_logits_bias",)


# --- numbers of the whole ------------------------------------------------------------------------------------


def test_bytes_are_those_of_the_numbers() -> None:
    compiled = compile_graph("gpt2", entry="GPT2LMHeadModel", settings={"layers": 2})
    half, single, double = (summarise(compiled, dtype=dtype) for dtype in ("bfloat16", "float32", "float64"))
    for stage in ("formula", "final"):
        few, some, many = (getattr(one, stage) for one in (half, single, double))
        assert few.amount.parameter_bytes * 4 == some.amount.parameter_bytes * 2 == many.amount.parameter_bytes
        assert few.amount.flops == some.amount.flops == many.amount.flops
        assert few.peak_bytes < some.peak_bytes < many.peak_bytes
        assert some.intensity == some.amount.flops / some.amount.bytes
        assert some.flops_per_token == some.amount.flops / 1024
    assert half.cache is not None
    assert single.cache is not None
    assert 2 * half.cache.per_token == single.cache.per_token == 2 * 2 * 768 * 4  # K and V of two layers
    with pytest.raises(TransformulaError, match="C670"):
        summarise(compiled, dtype="float3")


def test_tokens_are_real_ones_of_all_lengths() -> None:
    assert summarise(compile_graph("t5"), Sizes(2, 10)).tokens == 2 * 10 + 2 * 10
    assert summarise(compile_graph("bert"), Sizes(lengths={"seq": (3, 9)})).tokens == 12
    assert summarise(compile_graph(SIAMESE), Sizes(7)).tokens == 7


def test_a_cache_counts_key_value_heads_windows_and_what_is_read_once() -> None:
    llama = {"layers": 3, "d": 24, "head": 4, "kv": 2, "ffn": 20, "vocab": 9}
    made = summarise(compile_graph("llama", entry="LlamaForCausalLM", settings=llama)).cache
    assert made is not None
    assert made.per_token == made.per_token_at_last == 3 * 2 * 2 * 6 * 4  # layers, K and V, kv heads, dk, bytes
    assert (made.once, made.after_length) == (0, 128 * made.per_token)
    windowed = compile_graph("mistral", {"sliding_window": 5}, "LlamaForCausalLM", llama)
    kept = summarise(windowed).cache
    assert kept is not None
    assert (kept.per_token, kept.per_token_at_last) == (made.per_token, 0)
    assert [kept.after(n) for n in (0, 1, 4, 5, 900)] == [n * made.per_token for n in (0, 1, 4, 4, 4)]
    crossed = summarise(compile_graph("t5", entry="T5ForConditionalGeneration"), Sizes(3, 11)).cache
    assert crossed is not None
    assert crossed.per_token == 6 * 2 * 512 * 4
    assert crossed.once == 11 * 6 * 2 * 512 * 4
    assert summarise(compile_graph("bert")).cache is None


# --- laws ----------------------------------------------------------------------------------------------------

SMALL = st.fixed_dictionaries({
    "layers": st.integers(1, 3),
    "head": st.integers(1, 3),
    "ffn": st.integers(1, 9),
    "vocab": st.integers(3, 11),
})  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["bert", "gpt2", "t5", "electra"]),
    SMALL,
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 9),
    st.floats(0.3, 1),
)
def test_laws(name: str, small: dict[str, int], dk: int, batch: int, length: int, fill: float) -> None:
    """The tree adds up; weights do not depend on the batch, and whole batches of products are products of examples."""
    known = load_module(name).options
    chosen = {key: value for key, value in {**small, "d": 2 * dk * small["head"]}.items() if key in known}
    compiled = compile_graph(name, settings=chosen)
    every = (Sizes(batch, length), Sizes(1, length), Sizes(batch, length, fill))
    made, one, packed = (summarise(compiled, sizes) for sizes in every)
    for stage in ("formula", "final"):
        graph = compiled.formula if stage == "formula" else compiled.graph
        many, single, some = (getattr(each.top, stage) for each in (made, one, packed))
        assert many == amounts(cost.costs(graph, Sizes(batch, length)))
        assert some == amounts(cost.costs(graph, Sizes(batch, length, fill)))
        assert many.parameters == single.parameters == some.parameters
        assert many.products == batch * single.products
        assert many.load_flops == single.load_flops
        assert some.products <= many.products
    assert [block.path for block in made.top.walk()] == [block.path for block in one.top.walk()]
    assert all(block.formula.flops >= block.formula.products for block in made.top.walk())


def test_a_block_that_some_steps_choose_runs_so_often() -> None:
    text = MIXING.replace("h[l + 1] = layer[l](h[l])", "h[l + 1] = odd(h[l]) if l % 2 == 1 else even(h[l])")
    text = text.replace("layer[layers] : Mix", "odd, even : Mix").replace("layers = 3", "layers = 7")
    made = summarise(compile_graph(text), Sizes(2, 5))
    assert [(name, block(made, name).runs, block(made, name).sets) for name in ("first", "odd", "even")] == [
        ("first", 1, 1),
        ("odd", 3, 1),
        ("even", 4, 1),
    ]
    assert block(made, "even").formula.products == 4 * block(made, "first").formula.products
    assert block(made, "odd").formula.products == 3 * block(made, "first").formula.products


def test_axes_are_told_as_they_are_declared() -> None:
    """Those of a stack apart, those that are carried through a map beside its two sides."""
    text = (
        "spec s\nconfig\n    d = 4\n    e = 3\n    two = 2\n    layers = 5\n"
        "block B(x[d]) → [d] = sum[two](x @ W) @ V * γ\n"
        "    weights W : [two, d → e]\n            V : [e → d]\n            γ : [d]\n"
        "model M(x[seq, d] as inputs) → [seq, d] = y[layers]\n    where\n        y[0] = x\n"
        "        for l in layers:\n            y[l + 1] = b[l](y[l])\n    uses b[layers] : B\n"
    )
    weights = {one.name.rpartition(".")[2]: one for one in compile_graph(text, until="formula").formula.weights}
    assert [axes_text(weights[name]) for name in "WVγ"] == ["[two, d → e]", "[e → d]", "[d]"]
    assert axes_text(weights["W"], stacked=True) == "[layers, two, d → e]"
