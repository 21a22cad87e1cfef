"""Small causal models, one construct each, and how to decode them in pieces: for the reference and for backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from tests.compiler.spec_tools import Array, rng, weight_values
from tests.compiler.zoo import IDS, LAYERS, ZOO, attention_spec, spec
from transformula.backends.program import Program
from transformula.backends.program import compile as compile
from transformula.compiler import reference
from transformula.compiler.ir import Graph

STACK = IDS + "logits[seq, vocab] = x[layers] @[d] E" + LAYERS


def decoder(heads: str, functions: str = "attention", more: str = "") -> str:
    """Layers of self-attention that computes `heads` from Q, K and V, with logits."""
    return attention_spec(heads, functions, more, STACK)


def mixer(mixed: str, functions: str = "", more: str = "", weights: str = "") -> str:
    """Layers that mix the tokens x[seq, d] as `mixed` says."""
    imports = functions
    where = "".join(f"          {line}\n" for line in more.splitlines())
    head = "    where " + where.lstrip() if where else ""
    block = f"block Attn(x[seq, d]) → [seq, d] = ({mixed}) @ W\n{head}    weights W : [d → d]\n{weights}"
    return spec(imports, block + STACK)


WITH_TABLE = "            W_O : [head dk → d]\n            R : [bucket, dk]"
WITH_BIAS = "            W_O : [head dk → d]\n            R : [bucket, head]"


def tabled(text: str, table: str) -> str:
    """The text with a table of relative positions among the weights of attention."""
    return text.replace("            W_O : [head dk → d]", table)


CROSSED = """
block Attn(x[seq, d], m[src, d]) → [seq, d] = z + cross[key = src](z, m)
    where z = x + self(x, x[seq → key], causal)
    uses self, cross : Heads
block Heads(x[d], m[key, d], see[key] = true) → [d] = attention[key if see](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
model M(source[src] as input_ids, tokens[seq] as decoder_input_ids) → logits[seq, vocab] = z, memory[src, d] = m
    where x[0] = E[vocab = source]
          for l in layers:
              x[l + 1] = tanh(x[l] @ W + mean[src](x[l]))
          m = x[layers]
          z = y[layers] @[d] E
          y[0] = E[vocab = tokens] + P[place = index(seq)]
          for l in layers:
              y[l + 1] = block[l](y[l], m) + shared(mean[src](m))
    uses block[layers] : Attn
         shared : Shared
    weights E : [vocab, d]
            P : [place, d]
            W : [d → d]
block Shared(x[d]) → [d] = x @ W
    weights W : [d → d]
"""

CAUSAL: dict[str, str] = {
    "gpt": ZOO["gpt"],
    "page": ZOO["page"],
    "rope": ZOO["rope"],
    "window": decoder("attention[key if window(3)](Q, K, V)", "attention, window"),
    "own_window": decoder("attention[key if near](Q, K, V)", more="near[i: seq, j: key] = 0 ≤ i - j and i - j ≤ 2"),
    "alternating": decoder(
        "attention[key if see](Q, K, V)", "attention, causal", more="see = causal and index(seq) - index(key) < 2"
    ),
    "layers_apart": spec(
        "attention",
        """block Attn(x[seq, d], l) → [seq, d] = attention[key if see](Q, K, V) @ W_O
    where Q = x @ W_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
          see[i: seq, j: key] = j ≤ i and (i - j < 3 or l % 2 == 1)
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""
        + IDS
        + """logits[seq, vocab] = x[layers] @[d] E
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = x[l] + attn[l](x[l], l)
    uses attn[layers] : Attn
    weights E : [vocab, d]
""",
    ),
    "either": spec(
        "attention, causal",
        """block Attn(x[seq, d]) → [seq, d] = attention[key if causal](Q, K, V) @ W_O
    where Q = x @ W_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""
        + IDS
        + """logits[seq, vocab] = x[5] @[d] E
    where x[0] = E[vocab = tokens]
          for l in 0..5:
              x[l + 1] = x[l] + (attn(x[l]) if l == 1 or l == 3 else tanh(x[l] @ V))
    uses attn : Attn
    weights E : [vocab, d]
            V : [d → d]
""",
    ),
    "stripes": decoder(
        "attention[key if see](Q, K, V)", more="see[i: seq, j: key] = j ≤ i and ((i - j) % 2 == 0 or j < 2)"
    ),
    "blocks": decoder(
        "attention[key if see](Q, K, V)", more="see[i: seq, j: key] = i // 3 == j // 3 and not j > i"
    ),
    "alibi": decoder(
        "attention[key if causal](Q, K, V, bias)",
        "attention, causal",
        more="slope[h: head] = 2^(-8 * (h + 1) / head)\nbias[seq, key, head] = slope * (index(key) - index(seq))",
    ),
    "buckets": tabled(
        decoder(
            "attention[key if causal](Q, K, V, R[bucket = at])",
            "attention, causal, clamp",
            more="at = clamp(index(seq) - index(key), 0, bucket - 1)",
        ),
        WITH_BIAS,
    ),
    "shaw": tabled(
        decoder(
            "softmax[key if causal](e) @[key] V",
            "softmax, clamp, causal",
            more="at = clamp(index(seq) - index(key) + 2, 0, bucket - 1)\n"
            "e = (Q @[dk] K + Q @[dk] R[bucket = at]) / √dk",
        ),
        WITH_TABLE,
    ),
    "soft_cap": decoder("softmax[key if causal](3 * tanh((Q @[dk] K) / 3)) @[key] V", "softmax, causal"),
    "additive": decoder(
        "softmax[key if causal](e) @[key] V",
        "softmax, causal",
        more="t[seq, key, head, dk] = tanh(Q + K)\ne = sum[dk](t)",
    ),
    "unnormalised": decoder("(w @[key] V)", "causal", more="w[seq, key, head] = Q @[dk] K if causal else 0"),
    "token_mask": spec(
        "attention",
        """block Attn(x[seq, d], good[seq]) → [seq, d] = attention[key if see](Q, K, V) @ W_O
    where see = good[seq → key] and index(key) ≤ index(seq)
          Q = x @ W_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""
        + IDS
        + """logits[seq, vocab] = attn(E[vocab = tokens], tokens ≠ 3) @[d] E
    uses attn : Attn
    weights E : [vocab, d]
""",
    ),
    "running_mean": mixer("mean[key if causal](x[seq → key])", "causal"),
    "largest": mixer("max[key if causal](x[seq → key]) - min[key if causal](x[seq → key])", "causal"),
    "counted": mixer(
        "x + P[place = n]",
        "causal",
        "n = min(count[key if causal](x[seq → key][d = 0] > 0), 5)",
        "            P : [place, d]\n",
    ),
    "shifted": mixer("x + shift[seq](x, -1, 0) + shift[seq](x, -2, 1)", "shift"),
    "first": mixer("x + x[seq = 0]"),
    "back": mixer("x[seq → key][key = max(index(seq) - 2, 0)]"),
    "residual_values": spec(
        "attention, causal",
        """block Attn(x[seq, d], first[seq, d]) → [seq, d] = attention[key if causal](x @ W_Q, m @ W_K, V) @ W_O
    where m = x[seq → key]
          V = m @ W_V + f @ W_1
          f = first[seq → key]
    weights W_Q, W_K, W_V, W_1 : [d → head dk]
            W_O : [head dk → d]
"""
        + IDS
        + """logits[seq, vocab] = (x[layers] + x[1]) @[d] E
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = x[l] + attn[l](x[l], x[0] + x[l // 2])
    uses attn[layers] : Attn
    weights E : [vocab, d]
""",
    ),
    "shared": spec(
        "attention, causal",
        """block Attn(x[seq, d]) → [seq, d] = attention[key if causal](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    where m = x[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""
        + IDS
        + """logits[seq, vocab] = y[layers] @[d] E
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = tanh(x[l] + attn(x[l]))
          y[0] = x[layers]
          for k in layers:
              y[k + 1] = tanh(y[k] + attn(y[k]))
    uses attn : Attn
    weights E : [vocab, d]
""",
    ),
    "crossed": spec("attention, causal", CROSSED),
}
"""Each has `logits` over tokens and is causal; by name."""

AHEAD: dict[str, tuple[str, str, str]] = {
    "all": (decoder("attention[key](Q, K, V)"), "heads = attention[key](Q, K, V)", "the sum over `key`: a row sees"),
    "window": (
        decoder("attention[key if near](Q, K, V)", more="near[i: seq, j: key] = |i - j| ≤ 1"),
        "heads = attention[key if near]",
        "the sum over `key`: a row sees those after it",
    ),
    "prefix": (
        decoder("attention[key if see](Q, K, V)", "attention, causal", more="see[i: seq, j: key] = j ≤ i or j < 3"),
        "heads = attention[key if see]",
        "the sum over `key`: a row sees those after it",
    ),
    "late": (
        decoder("attention[key if see](Q, K, V)", more="see[i: seq, j: key] = j ≤ i + 1"),
        "heads = attention[key if see]",
        "the sum over `key`: a row sees those after it",
    ),
    "bias_is_no_mask": (
        decoder("attention[key](Q, K, V, 0 if causal else -1000)", "attention, causal"),
        "heads = attention[key]",
        "the sum over `key`: a row sees those after it",
    ),
    "mean": (mixer("x + mean[seq](x)"), "(x + mean[seq](x))", "the mean over `seq`: of all rows at once"),
    "mean_of_zeros": (
        mixer("x + mean[key](y)", more="y[seq, key, d] = x[seq → key] if index(key) ≤ index(seq) else 0"),
        "(x + mean[key](y))",
        "the mean over `key`: a row sees those after it",
    ),
    "next": (mixer("x + shift[seq](x, 1, 0)", "shift"), "shift[seq](x, 1, 0)", "the place along `seq` may lie after"),
    "last": (mixer("x + x[seq = seq - 1]"), "x[seq = seq - 1]", "the place along `seq` may lie after the row"),
    "length": (mixer("x / seq"), "(x / seq)", "it depends on how long `seq` is"),
    "chosen": (
        mixer("x + x[seq → key][key = n]", more="n = x[d = 0] * 3 // 1"),
        "x[seq → key][key = n]",
        "the place along `key` may lie after the row",
    ),
    "larger": (
        mixer("x + x[seq → key][key = n else 0]", more="n = max(index(seq), 3)"),
        "x[seq → key][key = n",
        "the place along `key` may lie after the row",
    ),
    "rank": (mixer("x * rank[seq](x)"), "rank[seq](x)", "it puts all rows along `seq` in one order"),
    "softmax": (mixer("x * softmax[seq](x)", "softmax"), "softmax[seq](x)", "the sum over `seq`: of all rows at once"),
}
"""By name: a model that looks ahead, a part of the line that does, and a part of what is told."""

VOCABULARY = 20


@cache
def program(name: str, backend: str = "numpy", layout: str | None = None) -> Program:
    """A model of `CAUSAL` for a backend, compiled once."""
    return compile(CAUSAL[name], backend, layout=layout)


def others(graph: Graph, batch: int, seed: int = 3) -> dict[str, Array]:
    """Random inputs beside the decoder's tokens: sources with padding on the left, on the right, and a hole."""
    if not any(one.name == "decoder_input_ids" for one in graph.inputs):
        return {}
    mask = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1]])
    rows = np.arange(batch) % len(mask)
    return {"input_ids": rng(seed).integers(0, VOCABULARY, (batch, 6)), "attention_mask": mask[rows]}


def full(graph: Graph, tokens: Array, visible: Array, more: Mapping[str, Array], seed: int = 0) -> Array:
    """logits[batch, seq, vocab] of whole texts, by the formula as it stands; texts begin at the left."""
    names = ("decoder_input_ids", "decoder_attention_mask") if more else ("input_ids", "attention_mask")
    given = {**more, names[0]: tokens, names[1]: visible.astype(int)}
    return np.asarray(reference.run(graph, weight_values(graph, seed), given)["logits"])


class Feeds(Protocol):
    """What decodes step by step."""

    def feed(self, ids: Any, counts: Any, hidden: Any) -> Array:
        """logits[example, vocab] after each example's last new token."""

    def take(self, rows: Any) -> None:
        """These examples alone, in this order."""


Found = list[tuple[int, int, Array]]


def in_pieces(decoding: Feeds, tokens: Array, visible: Array, pieces: Sequence[Sequence[int]]) -> Found:
    """(example, place, logits) after each piece: `pieces` of each example are how many tokens it is given at a time.

    An example that has had all its pieces is dropped, and those that are left change their order.
    """
    found: Found = []
    at, alive, turn = [0] * len(pieces), list(range(len(pieces))), 0
    while alive:
        counts = np.array([pieces[example][turn] for example in alive])
        ids, hidden = np.zeros((len(alive), counts.max()), int), np.zeros((len(alive), counts.max()), bool)
        for row, example in enumerate(alive):
            part = slice(at[example], at[example] + counts[row])
            ids[row, : counts[row]], hidden[row, : counts[row]] = tokens[example, part], ~visible[example, part]
            at[example] += int(counts[row])
        made = decoding.feed(ids, counts, hidden)
        found += [(example, at[example] - 1, np.asarray(made[row])) for row, example in enumerate(alive)]
        turn += 1
        left = [row for row, example in enumerate(alive) if len(pieces[example]) > turn][::-1]
        decoding.take(np.array(left, int))
        alive = [alive[row] for row in left]
    return found


def worst(found: Sequence[tuple[int, int, Array]], wanted: Array, visible: Array) -> float:
    """The largest difference from whole texts, after tokens that may be seen."""
    gaps = [np.abs(made - wanted[example, place]).max() for example, place, made in found if visible[example, place]]
    return float(max(gaps)) / max(1.0, float(np.abs(wanted).max()))
