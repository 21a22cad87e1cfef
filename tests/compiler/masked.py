"""Models with masks of every kind, for tests of the pass fold_masks and of what backends make of it."""

from __future__ import annotations

from tests.compiler import zoo


def attending(see: str, functions: str = "attention", bias: str = "", more: str = "") -> str:
    """One block of self-attention whose rows see by the relation `see` of i and j."""
    lines = f"see[i: seq, j: key] = {see}" + (f"\n{more}" if more else "")
    return zoo.attention_spec(f"attention[key if see](Q, K, V{bias})", functions, lines)


TOKENS = """
block Attn(x[seq, d], good[seq]) → [seq, d] = heads @ W_O
    where heads = attention[key if see](Q, K, V)
          {see}"""
TAKING = (
    zoo.QKV
    + zoo.IDS
    + "logits[seq, d] = attn(E[vocab = tokens], tokens % 3 ≠ 0)\n    uses attn : Attn\n"
    + zoo.EMBED
)
TWO = """
block Attn(x[tgt, d], m[key, d]) → [tgt, d] = attention[key if see](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    where see[i: tgt, j: key] = {see}
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
model M(tokens[key] as input_ids, targets[tgt] as decoder_input_ids) → h[tgt, d] = attn(x, m)
    where x = E[vocab = targets]
          m = E[vocab = tokens]
    uses attn : Attn
    weights E : [vocab, d]
"""
LAYERED = """
block Attn(x[seq, d], w) → [seq, d] = heads @ W_O
    where heads = attention[key if see](Q, K, V)
          see[i: seq, j: key] = 0 ≤ i - j ≤ w"""
GROWING = """
model M(tokens[seq] as input_ids) → h[seq, d] = x[layers]
    where x[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = x[l] + attn[l](x[l], l + 1)
    uses attn[layers] : Attn
    weights E : [vocab, d]
"""
BIAS = ", bias"
SLOPES = "slope[h: head] = 2^(-8 * (h + 1) / head)\nbias[seq, key, head] = slope * (index(key) - index(seq))"


def of_tokens(see: str) -> str:
    """A block whose rows see by what their tokens, and those of the keys, are."""
    return zoo.spec("attention", TOKENS.format(see=see) + TAKING)


def two(see: str) -> str:
    """Attention of one text to another, by the relation of i in the first and j in the second."""
    return zoo.spec("attention", TWO.format(see=see))


MODELS: dict[str, str] = {
    "causal": attending("j ≤ i"),
    "page": zoo.ZOO["page"],
    "layers": zoo.ZOO["gpt"],
    "groups": zoo.ZOO["rope"],
    "no heads": attending("j ≤ i").replace("[d → head dk]", "[d → dk]").replace("[head dk → d]", "[dk → d]"),
    "window": attending("|i - j| ≤ 1"),
    "sliding": attending("0 ≤ i - j < 3"),
    "wide window": attending("|i - j| ≤ 50"),
    "ahead": attending("1 ≤ j - i ≤ 2"),
    "strictly earlier": attending("j < i"),
    "later": attending("j ≥ i"),
    "prefix": attending("j < 3 or j ≤ i"),
    "short prefix": attending("j < 2"),
    "blocks": attending("i // 2 == j // 2"),
    "half as far": attending("2 * j ≤ i"),
    "every other": attending("j ≤ i and (i - j) % 2 == 0"),
    "first and near": attending("j == 0 or 0 ≤ i - j < 2"),
    "everything": attending("j ≤ i or j > i"),
    "nothing": attending("j < i and j > i"),
    "first row sees all": attending("i == 0 or j == i"),
    "causal with a bias": attending("j ≤ i", "attention", BIAS, SLOPES),
    "window with a bias": attending("|i - j| ≤ 2", "attention", BIAS, SLOPES),
    "growing windows": zoo.spec("attention", LAYERED + zoo.QKV + GROWING),
    "good keys": of_tokens("see = good[seq → key]"),
    "good keys, causal": of_tokens("see[seq, key] = good[seq → key] and index(key) ≤ index(seq)"),
    "good keys, near": of_tokens("see[seq, key] = |index(seq) - index(key)| ≤ 2 and good[seq → key]"),
    "good rows": of_tokens("see[seq, key] = good and index(key) ≤ index(seq)"),
    "bad rows see all": of_tokens("see[seq, key] = not good or index(key) ≤ index(seq)"),
    "good pairs": of_tokens("see[seq, key] = good and good[seq → key]"),
    "like pairs": of_tokens(
        "see[seq, key] = (good and good[seq → key] or not good and not good[seq → key]) and index(key) ≤ index(seq)"
    ),
}
"""Self-attention by the name of its mask."""

CROSSED: dict[str, str] = {
    "top-left": two("j ≤ i"),
    "bottom-right": two("j ≤ i + key - tgt"),
    "near": two("|i - j| ≤ 1"),
    "short prefix": two("j < 2"),
    "everything": two("j < key"),
}
"""Attention of one text to another."""
