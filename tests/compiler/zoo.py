"""A zoo of small models, one construct of the language each, with what tests need to run them everywhere."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.compiler.spec_tools import Array, rng
from tests.compiler.spec_tools import weight_values as weight_values
from transformula.backends.program import Program
from transformula.backends.program import compile as compile
from transformula.backends.sentence import Sentence, Step
from transformula.compiler import pipeline
from transformula.compiler import reference as reference
from transformula.compiler.driver import Compiled, compile_graph, load_module
from transformula.compiler.ir import Graph

SIZES = """
config
    vocab = 20
    d = 12
    head = 3
    dk = d / head
    layers = 2
    place = 16
    kv = 3
    group = 1
    bucket = 5
"""
QKV = """
          Q = x @ W_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""
IDS = "model M(tokens[seq] as input_ids) → "
EMBED = "    weights E : [vocab, d]\n"
LM = IDS + "logits[seq, vocab] = attn(E[vocab = tokens]) @[d] E\n    uses attn : Attn\n" + EMBED


def spec(functions: str, body: str) -> str:
    """The text of a spec with the zoo's sizes."""
    imports = f"from functions import {functions}" if functions else ""
    return f"spec t\n{imports}\n{SIZES}{body}"


def attention_spec(heads: str, functions: str = "attention", more: str = "", model: str = LM) -> str:
    """One block of self-attention that computes `heads` from Q, K and V."""
    where = "".join(f"          {line}\n" for line in more.splitlines())
    block = f"block Attn(x[seq, d]) → [seq, d] = heads @ W_O\n    where heads = {heads}\n{where}"
    return spec(functions, block.rstrip("\n") + QKV + model)


LAYERS = """
    where x[0] = E[vocab = tokens] + P[place = index(seq)]
          for l in layers:
              x[l + 1] = x[l] + attn[l](x[l])
    uses attn[layers] : Attn
    weights E : [vocab, d]
            P : [place, d]
"""
ENCODER = """
block Attn(x[seq, d]) → [seq, d] = heads @ W_O + b_O
    where Q = x @ W_Q + b_Q
          K = (x @ W_K + b_K)[seq → key]
          V = (x @ W_V + b_V)[seq → key]
          heads = {heads}
    weights W_Q, W_K, W_V : [d → head dk]
            b_Q, b_K, b_V : [head, dk]
            W_O : [head dk → d]
            b_O : [d]
block Layer(x[seq, d]) → [seq, d] = layer_norm[d](y + dropout(gelu(y @ W_1 + b_1) @ W_2 + b_2, 0.1), g_2, h_2, 1e-5)
    where y = layer_norm[d](x + attn(x), g_1, h_1, 1e-5)
    uses attn : Attn
    weights W_1 : [d → ffn]
            W_2 : [ffn → d]
            b_1 : [ffn]
            b_2, g_1, g_2, h_1, h_2 : [d]
axes ffn = 5
"""


def encoder(
    results: str,
    heads: str = "attention[key](Q, K, V, drop = 0.2)",
    functions: str = "",
    axes: str = "",
    given: str = "",
    more: str = "",
) -> str:
    """A stack of blocks of attention and feed-forward network, read as `results` says."""
    imports = ", ".join(filter(None, ("attention, layer_norm, gelu", functions)))
    model = f"model M(tokens[seq] as input_ids{given}) → {results}\n"
    where = """    where x[0] = E[vocab = tokens] + P[place = index(seq)]
          for l in layers:
              x[l + 1] = layer[l](x[l])
    uses layer[layers] : Layer
    weights E : [vocab, d]
            P : [place, d]
"""
    more = more or ("            w : [d]\n" if " w" in results else "")
    blocks = ENCODER.replace("{heads}", heads)
    return spec(imports, blocks + (f"axes {axes}\n" if axes else "") + model + where + more)


FF = "block FF(x[d]) → [d] = silu(x @ W + b)\n    weights W : [d → d]\n            b : [d]\n"

ZOO: dict[str, str] = {
    "gpt": attention_spec(
        "attention[key if causal](Q, K, V)",
        "attention, causal",
        model=IDS + "logits[seq, vocab] = x[layers] @[d] E" + LAYERS,
    ),
    "page": attention_spec("masked_attention[key](Q, K, V, causal_mask)", "masked_attention, causal_mask"),
    "window": attention_spec("attention[key if near](Q, K, V)", more="near[i: seq, j: key] = |i - j| ≤ 1"),
    "alibi": attention_spec(
        "attention[key, dk](Q, K, V, bias)",
        more="slope[h: head] = 2^(-8 * (h + 1) / head)\n"
        "bias[seq, key, head] = slope * (index(key) - index(seq))",
    ),
    "tied": attention_spec("attention[key](Q, Q[seq → key] + 0 * K, V)"),
    "shaw": attention_spec(
        "softmax[key](e) @[key] V",
        "softmax, clamp",
        more="at = clamp(index(seq) - index(key) + 2, 0, bucket - 1)\n"
        "near[seq, key, dk] = R[bucket = at]\n"
        "e = (Q @[dk] K + Q @[dk] near) / √dk",
    ).replace(
        "            W_O : [head dk → d]", "            W_O : [head dk → d]\n            R : [bucket, dk]"
    ),
    "token_mask": spec(
        "attention",
        "block Attn(x[seq, d], good[seq]) → [seq, d] = heads @ W_O\n"
        "    where heads = attention[key if see](Q, K, V)\n"
        "          see = good[seq → key] and index(key) ≤ index(seq)"
        + QKV
        + IDS
        + "logits[seq, d] = attn(E[vocab = tokens], tokens ≠ 3)\n    uses attn : Attn\n"
        + EMBED,
    ),
    "rope": spec(
        "attention, causal, rope, rms_norm, silu",
        """
block Norm(x[d]) → [d] = rms_norm[d](x, g, 1e-6)
    weights g : [d] ~ 1
block Attn(x[seq, d]) → [seq, d] = heads @ W_O
    where Q = rope[dk](x @ W_Q, position(seq), 10000)
          K = rope[dk](x @ W_K, position(seq), 10000)[seq → key]
          V = (x @ W_V)[seq → key]
          heads = attention[key if causal](Q, K, V)
    weights W_Q : [d → kv group dk]
            W_K, W_V : [d → kv dk]
            W_O : [kv group dk → d]
block FF(x[d]) → [d] = (silu(x @ W_1) ⊙ (x @ W_3)) @ W_2
    weights W_1, W_3 : [d → head dk]
            W_2 : [head dk → d]
model M(tokens[seq] as input_ids) → logits[seq, vocab] = N(x[layers]) @[d] E
    where x[0] = E[vocab = tokens]
          for l in layers:
              z = x[l] + attn[l](N_1[l](x[l]))
              x[l + 1] = z + ff[l](N_2[l](z))
    uses attn[layers] : Attn
         ff[layers] : FF
         N_1[layers], N_2[layers] : Norm
         N : Norm
    weights E : [vocab, d]
""",
    ),
    "deberta": attention_spec(
        "softmax[key](A) @[key] V",
        "softmax, clamp",
        more="at = clamp(index(seq) - index(key) + 2, 0, bucket - 1)\n"
        "c2p = (Q @[dk] (R @ W_K))[bucket = at]\n"
        "p2c = (K @[dk] (R @ W_Q))[bucket = at]\n"
        "A = (Q @[dk] K + c2p + p2c) / √(3 * dk)",
    ).replace(
        "            W_O : [head dk → d]", "            W_O : [head dk → d]\n            R : [bucket, d]"
    ),
    "maps": spec(
        "softmax",
        """
block Attn(x[seq, d]) → [seq, d] = (A @[key] V) @ W_O, weights[seq, key, head] = A
    where A = softmax[key](Q @[dk] K / √dk)"""
        + QKV
        + IDS
        + "h[seq, d] = a, w[seq, key, head] = a.weights\n"
        + "    where a = attn(E[vocab = tokens])\n    uses attn : Attn\n"
        + EMBED,
    ),
    "history": spec(
        "silu",
        FF
        + IDS
        + """h[seq, d] = x[layers] + x[layers - 1] + x[0], first[d] = x[1][seq = 0]
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = x[l] + f[l](x[l]) + x[0] + x[l // 2]
    uses f[layers] : FF
"""
        + EMBED,
    ),
    "two_states": spec(
        "silu",
        FF
        + IDS
        + """h[seq, d] = x[layers], last[d] = y[layers]
    where x[0] = E[vocab = tokens]
          y[0] = mean[seq](E[vocab = tokens])
          for l in layers:
              x[l + 1] = x[l] + f[l](x[l]) + y[l]
              y[l + 1] = y[l] / 2 + mean[seq](x[l])
    uses f[layers] : FF
"""
        + EMBED,
    ),
    "crossed": spec(
        "silu",
        FF
        + IDS
        + """h[seq, d] = x[layers]
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = x[l] + f[l](x[l]) + f[l // 2](x[l]) + g[l % 2](x[l]) + s(x[l])
    uses f[layers], g[layers] : FF
         s : FF
"""
        + EMBED,
    ),
    "nested": spec(
        "silu",
        FF
        + """
block Stack(x[seq, d]) → [seq, d] = y[layers]
    where y[0] = x
          for k in layers:
              y[k + 1] = y[k] + f[k](y[k]) / 2
    uses f[layers] : FF
"""
        + IDS
        + """h[seq, d] = x[layers]
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = stack[l](x[l])
    uses stack[layers] : Stack
"""
        + EMBED,
    ),
    "pools": spec(
        "softmax",
        "model M(tokens[seq] as input_ids, kind[seq] as token_type_ids = 0) → "
        "a[d] = mean[seq if kind == 0](u), b[d] = max[seq](u), c[d] = sum[seq](softmax[seq](u @[d] w) ⊙ u), "
        "n = count[seq](tokens == 3), m[d] = min[seq](u), e = norm[seq](u @[d] w), last[seq] = u @[d] w + seq\n"
        "    where u = E[vocab = tokens]\n    weights E : [vocab, d]\n            w : [d]\n",
    ),
    "shares": spec(
        "softmax",
        "model M(tokens[seq] as input_ids, kind[seq] as token_type_ids = 0) → "
        "a[seq] = softmax[seq](u @[d] w), b[seq] = softmax[seq if tokens > 4](u @[d] w), "
        "c[seq, d] = softmax[seq](u) ⊙ u\n"
        "    where u = E[vocab = tokens]\n    weights E : [vocab, d]\n            w : [d]\n",
    ),
    "nothing": spec(
        "",
        IDS + "mean[d] = mean[seq if tokens == 3](u), max[d] = max[seq if tokens == 3](u) , "
        "total[d] = sum[seq if tokens == 3](u), n = count[seq if tokens == 3](tokens ≥ 0)\n"
        "    where u = E[vocab = tokens]\n" + EMBED,
    ),
    "norms": spec(
        "layer_norm, rms_norm, gelu, gelu_tanh, silu, relu, log_softmax",
        IDS + "a[seq, d] = layer_norm[d](u + r, γ, β, 1e-5), b[seq, d] = rms_norm[d](u + u, γ, 1e-6), "
        "c[seq, d] = gelu(u + β) + gelu_tanh(u) + silu(u) + relu(u + γ), "
        "e[seq, vocab] = log_softmax[vocab](u @[d] E), r[seq, d] = r\n"
        "    where u = E[vocab = tokens]\n          r = u @ W\n"
        "    weights E : [vocab, d]\n            γ, β : [d]\n            W : [d → d]\n",
    ),
    "meanings": spec(
        "quick_gelu, log_softmax",
        IDS + "a[seq, d] = quick_gelu(u) + (v if v > 0 else 0.01 * v), c[seq] = log(sum[d](exp(u))), "
        "e[seq] = -log_softmax[d](u)[d = tokens % d], f[seq, d] = u / norm[d](u)\n"
        "    where u = 3 * v\n          v = E[vocab = tokens]\n" + EMBED,
    ),
    "shift": spec(
        "shift, sinusoidal",
        IDS + "h[seq, d] = E[vocab = next] + sinusoidal\n    where next = shift[seq](tokens, 1, 0)\n" + EMBED,
    ),
    "scan": spec(
        "",
        IDS
        + """h[d] = s[seq]
    where u = E[vocab = tokens]
          s[0] = w + 0 * mean[seq](u)
          for t in seq:
              s[t + 1] = (s[t] + u[seq = t]) / 2
    weights E : [vocab, d]
            w : [d]
""",
    ),
    "running": spec(
        "sigmoid",
        IDS
        + """h[seq, d] = sigmoid(u) + n[index(seq) + 1], k[seq] = n[index(seq) + 1]
    where u = E[vocab = tokens]
          n[0] = 0
          for t in seq:
              n[t + 1] = n[t] + (1 if tokens[seq = t] > 5 else 0)
"""
        + EMBED,
    ),
    "post_norm": spec(
        "layer_norm",
        """block FF(x[d]) → [d] = tanh(x @ W_1 + b_1) @ W_2 + b_2
    weights W_1 : [d → ffn]
            W_2 : [ffn → d]
            b_1 : [ffn]
            b_2 : [d]
axes ffn = 5
"""
        + IDS
        + """h[seq, d] = x[layers], p[d] = tanh(x[layers][seq = 0] @ W)
    where x[0] = E[vocab = tokens]
          for l in layers:
              z = layer_norm[d](x[l] + f[l](x[l]), γ, β, 1e-5)
              x[l + 1] = layer_norm[d](z + g[l](z), γ, β, 1e-5)
    uses f[layers], g[layers] : FF
    weights E : [vocab, d]
            W : [d → d]
            γ, β : [d]
""",
    ),
    "powers": spec(
        "",
        IDS + "h[seq, d] = |u|^1.5 + u³ + (index(seq) + 1)^(-1/2), k[seq] = index(seq) // 2 % 2, "
        "s[seq] = sum[d](u) ^ 2, ranks[seq] = sum[d](rank[d](u) * u)\n"
        "    where u = E[vocab = tokens]\n" + EMBED,
    ),
    "joined": spec(
        "",
        IDS + "h[pair] = [u[seq = 0]; mean[seq](u)][d → pair], t[seq, d] = u[d → head dk][head dk → d] + 1\n"
        "    where u = E[vocab = tokens]\n" + EMBED,
    ),
    "runs": spec(
        "gelu",
        """block Turn(x[seq, d]) → [seq, d] = [y[d = quarter + index(quarter)] - a; a * 2; gelu(rest)][quarter left → d]
    where y    = x @ W
          a    = y[d = index(quarter)]
          rest = y[d = 2 * quarter + index(left)]
    weights W : [d → d]
axes quarter = 3
axes left = 6
"""
        + IDS
        + """h[seq, d] = x[layers], back[seq, d] = u[d = d - 1 - index(d)] + u[d = index(d) + 9 else 2], """
        + """odd[seq, quarter] = u[d = 2 * index(quarter) + 1], """
        + """corner[seq, quarter, left] = v[head = 2 - index(quarter), d = index(left) + 5], some[quarter, d] = """
        + """B[bucket = index(quarter) + 1], last[seq, quarter] = (x[layers] * 2)[d = 9 + index(quarter)], """
        + """diagonal[seq, head] = u[d → head dk][dk = index(head)]
    where u = E[vocab = tokens] @ V
          v[head, seq, d] = u * (index(head) + 1)
          x[0] = u
          for l in layers:
              x[l + 1] = x[l] + turn[l](x[l])
    uses turn[layers] : Turn
    weights E : [vocab, d]
            V : [d → d]
            B : [bucket, d]
""",
    ),
    "kinds": spec(
        "attention, gelu",
        """near[i: seq, j: key] = |i - j| ≤ 1
block Attn(x[seq, d], bounded) → [seq, d] = heads @ W_O
    where heads = attention[key if near or not bounded](Q, K, V)"""
        + QKV
        + IDS
        + """h[seq, d] = x[5], k[seq, d] = y[5], m[seq, d] = p[5], n[seq, d] = q[5]
    where x[0] = E[vocab = tokens]
          y[0] = x[0] / 2
          p[0] = x[0]
          q[0] = x[0]
          for l in 0..5:
              z = x[l] + attn(x[l], l % 2 == 1)
              w = (gelu(z @ V) + z if l == 1 or l == 4 else tanh(z)) if l > 0 else z
              x[l + 1] = w if l ≠ 3 else x[l]
              y[l + 1] = y[l] if l < 2 else w[d = d - 1 - index(d)]
              r = (p[l] + w) @ V if l % 2 == 0 else gelu(x[l] @ V)
              p[l + 1] = r @ V + r
              q[l + 1] = (q[l] + w) @ V if l % 2 == 0 else gelu(w @ V)
    uses attn : Attn
    weights E : [vocab, d]
            V : [d → d]
""",
    ),
    "turned": spec(
        "",
        "model M(tokens[seq] as input_ids, weight[d] as weight = 1) → h[d, seq] = E[vocab = tokens] ⊙ weight, "
        "p[head, seq, dk] = E[vocab = tokens][d → head dk]\n" + EMBED,
    ),
    "two": spec(
        "attention",
        """
block Attn(x[tgt, d], m[key, d]) → [tgt, d] = attention[key, dk](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
model M(tokens[seq] as input_ids, targets[tgt] as decoder_input_ids) → h[tgt, d] = attn(x, m)
    where x = E[vocab = targets]
          m = E[vocab = tokens][seq → key]
    uses attn : Attn
    weights E : [vocab, d]
""",
    ),
    "cls": encoder("h[d] = tanh(x[layers][seq = 0])"),
    "last": encoder("logits[vocab] = x[layers][seq = seq - 1] @[d] E", "attention[key if causal](Q, K, V)", "causal"),
    "last_alibi": encoder(
        "logits[vocab] = x[layers][seq = seq - 1] @[d] E",
        "attention[key if causal](Q, K, V, (index(key) - index(seq)) / 7)",
        "causal",
    ),
    "last_of_a_kind": encoder(
        "logits[vocab] = x[layers][seq = max(max[seq if tokens ≠ 3](index(seq)), 0)] @[d] E",
        "attention[key if causal](Q, K, V)",
        "causal",
    ),
    "ends": encoder("h[pair] = [x[layers][seq = 0]; x[layers][seq = seq - 1]][d → pair]"),
    "spots": encoder(
        "logits[spot, vocab] = gelu(x[layers] @ U)[seq = min(at, seq - 1)] @[d] E",
        axes="spot = 4",
        given=", at[spot] as spots",
        more="            U : [d → d]\n",
    ),
    "whole_and_cls": encoder("h[seq, d] = x[layers], p[d] = x[layers][seq = 0]"),
    "means": spec(
        "",
        IDS + "a[dk] = mean[seq](u @ W + b), c[dk] = sum[seq if tokens > 5](2 * (u @ V) - b), "
        "f[dk] = mean[seq if tokens == 3](b / 3 + u @ U), g[dk] = mean[seq](t), k[dk] = max[seq](t)\n"
        "    where u = E[vocab = tokens]\n          t = u @ T\n"
        "    weights E : [vocab, d]\n            W, V, U, T : [d → dk]\n            b : [dk]\n",
    ),
    "wide_bias": spec(
        "gelu",
        IDS + "h[seq, head, dk] = gelu(E[vocab = tokens] @ W + b), k[seq, head, dk] = gelu(E[vocab = tokens] @ W + c), "
        "m[head, seq, dk] = gelu(E[vocab = tokens] @ W + e)\n"
        "    weights E : [vocab, d]\n            W : [d → head dk]\n            b : [head, dk]\n"
        "            c : [dk]\n            e : [head]\n",
    ),
    "turned_bias": spec(
        "layer_norm",
        IDS + "o[seq, head, dk] = layer_norm[dk](E[vocab = tokens] @ V + e, ε = 1e-5), "
        "p[seq, head, dk] = E[vocab = tokens] @ W + g\n"
        "    weights E : [vocab, d]\n            V, W : [d → head dk]\n            e : [head]\n"
        "            g : [dk, head]\n",
    ),
    "no_length": spec(
        "cosine, euclidean",
        "model M(u[d] as first, v[d] as second) → c = cosine[d](u, v), e = euclidean[d](u, v), w[d] = u ⊙ v\n",
    ),
}


def modules() -> str:
    """A spec as it is written for three poolings, a normalisation, a Dense and a LayerNorm."""
    steps = (Step("Normalize", "", {}), Step("Dense", "3_Dense", {}), Step("LayerNorm", "4_LayerNorm", {}))
    dense = {"activation_function": "GELU"}
    sentence = Sentence(Path(), ("mean", "cls", "max"), (steps[0], replace(steps[1], config=dense), steps[2]))
    return sentence.written(load_module("sbert")).text


LLAMA = {"vocab": 20, "d": 12, "layers": 2, "head": 6, "kv": 3, "ffn": 10, "dk": 4}
PAIR = {"vocab": 20, "d": 12, "layers": 2, "steps": 2, "head": 3, "ffn": 10}
BERT = {"vocab": 20, "d": 12, "layers": 2, "head": 3, "ffn": 10, "place": 16, "segment": 3}
GPT = {"vocab": 20, "d": 12, "layers": 2, "head": 3, "place": 16}
MODERNBERT = {"vocab": 20, "d": 12, "layers": 4, "head": 3, "ffn": 10, "around": 5, "pooled": "mean"}
NEOX = {"vocab": 20, "d": 16, "layers": 2, "head": 2, "ffn": 10, "share": 0.5}
SHIPPED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("bert", "Bert", BERT),
    "mlm": ("bert", "BertForMaskedLM", BERT),
    "sbert": ("sbert", "SentenceBert", BERT),
    "modules": (modules(), "SentenceBert", {**BERT, "pool_2": "cls", "pool_3": "max", "out_2": 7, "act_2": "GELU"}),
    "albert": ("albert", "BertForSequenceClassification", {**BERT, "emb": 6, "layers": 4, "groups": 2, "inner": 2}),
    "attention_pool": ("sbert", "AttentionPooledBert", BERT),
    "similarities": ("sbert", "Similarities", BERT),
    "gpt2": ("gpt2", "GPT2LMHeadModel", {**GPT, "ffn": 10, "by_layer": True}),
    "gpt2_crossed": ("gpt2", "GPT2Model", {**GPT, "ffn": 10, "crossed": True}),
    "gpt2_texts": ("gpt2", "GPT2ForSequenceClassification", {**GPT, "ffn": 10, "pad": 3}),
    "gpt1": ("gpt", "OpenAIGPTLMHeadModel", {**GPT, "ffn": 10}),
    "bert_crossed": ("bert", "BertLMHeadModel", {**BERT, "decoder": True, "crossed": True}),
    "llama": ("llama", "LlamaForCausalLM", LLAMA),
    "qwen3": ("qwen3", "Llama", {**LLAMA, "slides": True, "width": 3, "upper": 1}),
    "gemma2": ("gemma2", "LlamaForSequenceClassification", {**LLAMA, "w": 3, "cap": 2}),
    "modernbert": ("modernbert", "BertForSequenceClassification", MODERNBERT),
    "gpt_neox": ("gpt_neox", "LlamaForCausalLM", NEOX),
    "phi": ("phi", "LlamaForCausalLM", {**NEOX, "kv": 1, "normed": True}),
    "t5": ("t5", "T5ForConditionalGeneration", {**PAIR, "dk": 5, "bucket": 6, "gated": True, "tied": False}),
    "bart": ("bart", "BartForConditionalGeneration", {**PAIR, "head_dec": 4, "ffn_dec": 7, "length": 9}),
    "marian": ("marian", "BartForConditionalGeneration", {**PAIR, "head_dec": 3, "ffn_dec": 10, "place": 9}),
}
TWO = ("two", "t5", "bart", "marian")
"""Models of a source and a target."""
NAMES = (*ZOO, *SHIPPED)


@cache
def whole(name: str) -> Program:
    """A model of the zoo (or the text of one) compiled for NumPy with all passes, once."""
    if name in SHIPPED:
        text, entry, settings = SHIPPED[name]
        return compile(text, entry=entry, settings=settings)
    return compile(ZOO.get(name, name))


@cache
def shipped(spec: str, entry: str | None = None) -> Compiled:
    """A model of a shipped spec as it stands there, compiled once; who has it changes nothing of it."""
    return compile_graph(spec, entry=entry)


def program(name: str, **passes: Any) -> Program:
    """The same by chosen passes."""
    made = whole(name).compiled
    stages, ledger = pipeline.run(made.formula, **passes)
    return Program(replace(made, stages=stages, ledger=ledger), "numpy")


def module(source: str) -> dict[str, Any]:
    """The names that a generated module defines."""
    made = types.ModuleType("generated")
    exec(compile_source(source), made.__dict__)
    return made.__dict__


@cache
def compile_source(source: str) -> types.CodeType:
    """The code of a generated module."""
    import builtins

    code: types.CodeType = builtins.compile(source, "<generated>", "exec")
    return code


def nested(graph: Graph, values: Mapping[str, Array]) -> dict[str, Any]:
    """Weights as a checkpoint gives them: stacks are lists."""

    def unstacked(array: Array, depth: int) -> Any:
        return [unstacked(one, depth - 1) for one in array] if depth else array

    return {one.name: unstacked(values[one.name], len(one.stack)) for one in graph.weights}


def model(made: Program, dtype: str = "float64", threads: int | None = 1, seed: int = 0) -> Any:
    """The generated model with the weights of `weight_values`."""
    graph = made.compiled.formula
    return module(made.source)["Model"](
        nested(graph, weight_values(graph, seed)), dtype=dtype, threads=threads
    )


MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 1, 1],
        [0, 1, 0, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 1],
    ]
)
"""Examples of every kind: whole, padded right and left, with a hole, empty, of length 1."""


def inputs(name: str, mask: Array = MASK, seed: int = 1) -> dict[str, Array]:
    """Random inputs of a model of the zoo, padded as the mask says."""
    draw = rng(seed)
    if name in ("no_length", "similarities"):
        return {"first": draw.normal(size=(len(mask), 12)), "second": draw.normal(size=(len(mask), 12))}
    made: dict[str, Array] = {"input_ids": draw.integers(0, 20, mask.shape), "attention_mask": mask}
    if name == "spots":
        made["spots"] = draw.integers(0, 9, (len(mask), 4))
    if name.endswith("_crossed"):
        made["encoder_hidden_states"] = draw.normal(size=(len(mask), min(4, mask.shape[1]), 12))
        made["encoder_attention_mask"] = mask[:, -4:]
    if name in TWO:
        made["decoder_input_ids"] = draw.integers(0, 20, (len(mask), min(4, mask.shape[1])))
        made["decoder_attention_mask"] = mask[::-1, :4]  # an empty text stands beside one that is not
    return made


def reference_results(graph: Graph, given: Mapping[str, Any], seed: int = 0) -> dict[str, Array]:
    """The results of a graph by the naive evaluator."""
    return reference.run(graph, weight_values(graph, seed), given)


@cache
def wanted(name: str) -> dict[str, Array]:
    """The results of a model of the zoo for `inputs(name)`, by the formula as it stands."""
    return reference_results(whole(name).compiled.formula, inputs(name))


def difference(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
    """The largest difference of any result, relative to its size; the names must be the same."""
    assert list(found) == list(wanted)
    worst = 0.0
    for name, value in wanted.items():
        assert found[name].shape == value.shape, f"{name} is {found[name].shape}, not {value.shape}"
        size = max(1.0, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))
        with np.errstate(invalid="ignore"):
            gap = np.where(found[name] == value, 0.0, np.abs(found[name] - value))
        assert not np.isnan(gap).any(), f"{name} is not a number where it should be, or the reverse"
        worst = max(worst, float(gap.max(initial=0.0)) / size)
    return worst
