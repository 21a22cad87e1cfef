"""The spelling suites of the public scoreboard in our own language: each row one way to write the same mathematics.

A row of `ATTENTION` is the formula of the heads with its parts; `SHAPES` are the ways to project and to join them. What
other systems tell apart by transpositions and by the letters of an einsum is told by names of axes here. Precision is
no part of a formula: where another system computes in bfloat16, the row is the formula alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FUNCTIONS = ("softmax", "attention", "causal", "clamp", "general_attention", "relative_attention")
"""What a spelling may use from the library."""


@dataclass(frozen=True)
class Shape:
    """How Q, K and V come from x and the heads go on: lines of a `where`, the block's result, weights, config."""

    where: tuple[str, ...]
    result: str
    weights: tuple[str, ...]
    config: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attention:
    """One spelling: its name on the scoreboard, the class of its meaning, the formula of the heads, further parts."""

    name: str
    meaning: str
    formula: str
    parts: tuple[str, ...] = ()
    shape: str = "heads"
    weights: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The spec: a block of self-attention over tokens and a model of it alone, or an objective over a batch."""
        shape = SHAPES[self.shape]
        words = set(re.findall(r"\w+", " ".join((self.formula, *self.parts))))
        used = ", ".join(name for name in FUNCTIONS if name in words)
        where = _lines((f"heads = {self.formula}", *self.parts, *shape.where), "where")
        weights = _lines((*shape.weights, *self.weights), "weights")
        head = f"block Attn(x[seq, d], good[seq]) → [seq, d] = {shape.result}\n"
        tail = MODEL
        if not weights:
            head, tail = "objective M(x[batch, d] as x) → y = sum[batch, d](heads)\n", ""
        config = "".join(f"    {one}\n" for one in shape.config)
        imports = f"from functions import {used}\n" if used else ""
        return f"spec t\n{imports}{CONFIG}{config}\n{head}{where}{weights}\n{tail}"


def _lines(lines: tuple[str, ...], word: str) -> str:
    """A section of a definition, its first line behind the word."""
    return "".join(f"    {' ' * len(word) if i else word} {one}\n" for i, one in enumerate(lines))


CONFIG = """config
    vocab = 20
    d = 16
    head = 4
    dk = d / head
    bucket = 5
"""
MODEL = """model M(tokens[seq] as input_ids) → y[seq, d] = attn(E[vocab = tokens], tokens ≠ 3)
    uses attn : Attn
    weights E : [vocab, d]
"""
QKV = ("Q = x @ W_Q", "K = (x @ W_K)[seq → key]", "V = (x @ W_V)[seq → key]")
FLAT = ("Q = (x @ W_Q)[d → head dk]", *(f"{one} = (x @ W_{one})[d → head dk][seq → key]" for one in "KV"))
ONE = ("z = x[→ one]", "Q = z @ W_Q", "K = (z @ W_K)[seq → key]", "V = (z @ W_V)[seq → key]")
MAPS, OUT = "W_Q, W_K, W_V : [d → head dk]", "W_O : [head dk → d]"
GROUPED = ("W_Q : [d → head dk]", "W_K, W_V : [d → kv dk]", OUT)
EACH = tuple(f"W_{one}{i} : [d → dk]" for one in "QKV" for i in range(4))
SHAPES = {
    "heads": Shape(QKV, "heads @ W_O", (MAPS, OUT)),
    "flat": Shape(FLAT, "heads[head dk → d] @ W_O", ("W_Q, W_K, W_V, W_O : [d → d]",)),
    "one": Shape(ONE, "(heads @ W_O)[one = 0]", (MAPS, OUT), ("one = 1",)),
    "grouped": Shape(QKV, "heads @ W_O", GROUPED, ("kv = 2", "group = 2")),
    "groups": Shape(QKV, "heads[kv group → head] @ W_O", GROUPED, ("kv = 2", "group = 2")),
    "joined": Shape(QKV, "heads @ W_O", (MAPS, "W_O : [wide → d]"), ("wide = d",)),
    "chunks": Shape(QKV, "heads @ W_O", ("W_Q, W_K, W_V : [d → wide]", "W_O : [wide → d]"), ("wide = d",)),
    "own": Shape((), "heads @ W_O", (*EACH, "W_O : [wide → d]"), ("wide = d",)),
    "summed": Shape((), "heads", (*EACH, "W_O0, W_O1, W_O2, W_O3 : [dk → d]")),
    "3-D": Shape(QKV, "heads @ W_O", ("W_Q, W_K, W_V : [d → dk]", "W_O : [dk → d]")),
    "2-D": Shape(("K = x[batch → key]",), "heads", ()),
}
S = "s = Q @[dk] K / √dk"
M = "M[i: seq, j: key] = 0 if j ≤ i else -∞"
SEE = "see[i: seq, j: key] = j ≤ i"
B = "B[seq, key, head] = T[bucket = clamp(index(seq) - index(key) + 2, 0, bucket - 1)]"
T = ("T : [bucket, head]",)
R = "r[seq, key, dk] = R[bucket = clamp(index(seq) - index(key) + 2, 0, bucket - 1)]"
TABLE = ("R : [bucket, dk]",)
E = "e = exp(s - max[key](s))"


def _each(formula: str) -> tuple[str, ...]:
    """The heads o_0 … o_3, the number of the head for each # of the formula."""
    return tuple(f"o_{i} = {formula.replace('#', str(i))}" for i in range(4))


CONCAT = "[o_0; o_1; o_2; o_3][dk → wide]"
PICKED = _each("softmax[key](Q[head = #] @[dk] K[head = #] / √dk) @[key] V[head = #]")
AT = "[wide = index(dk) + # * dk]"
CHUNKS = _each(f"softmax[key](Q{AT} @[dk] K{AT} / √dk) @[key] V{AT}")
OWN = _each("softmax[key]((x @ W_Q#) @[dk] (x @ W_K#)[seq → key] / √dk) @[key] (x @ W_V#)[seq → key]")

# fmt: off
ATTENTION = (
    Attention("QK/c", "plain", "softmax[key](Q @[dk] K / √dk) @[key] V"),
    Attention("QK*c", "plain", "softmax[key](Q @[dk] K * c) @[key] V", ("c = dk^(-1/2)",)),
    Attention("c*QK", "plain", "softmax[key](c * (Q @[dk] K)) @[key] V", ("c = 1 / √dk",)),
    Attention("max-exp-sum softmax", "plain", "(e / sum[key](e)) @[key] V", (E, S)),
    Attention("QK/c+M", "masked", "softmax[key](Q @[dk] K / √dk + M) @[key] V", (M,)),
    Attention("constant zero mask", "plain", "softmax[key](s + Z) @[key] V", (S, "Z[i: seq, j: key] = 0")),
    Attention("permute(0,2,1,3)/c+mask", "masked", "softmax[key](s + M) @[key] V", (M, S), "flat"),
    Attention("batch 1", "plain", "softmax[key](Q @[dk] K / √dk) @[key] V", (), "one"),
    Attention(
        "GQA repeat_interleave", "grouped", "softmax[key](Q @[dk] k / √dk) @[key] v",
        ("k = K[kv = index(head) // group]", "v = V[kv = index(head) // group]"), "grouped",
    ),
    Attention("bf16, fp32 softmax", "plain", "softmax[key](s) @[key] V", (S,)),
    Attention("(q/c)K", "plain", "softmax[key]((Q / √dk) @[dk] K) @[key] V"),
    Attention("q(K/c)", "plain", "softmax[key](Q @[dk] (K / √dk)) @[key] V"),
    Attention("no scale", "no scale", "softmax[key](Q @[dk] K) @[key] V"),
    Attention("einsum bhid,bhjd", "plain", "softmax[j](Q[dk → d'] @[d'] K[dk → d'][key → j] / √dk) @[j] V[key → j]"),
    Attention(
        "einsum on (b,s,h,d)", "plain",
        "(softmax[key](Q[head → h] @[dk] K[head → h] / √dk) @[key] V[head → h])[h → head]",
    ),
    Attention("exp/sum softmax", "plain", "(exp(s) / sum[key](exp(s))) @[key] V", (S,)),
    Attention("divide after PV", "plain", "(exp(s) @[key] V) / sum[key](exp(s))", (S,)),
    Attention("(QK+M)/c", "masked", "softmax[key]((Q @[dk] K + M) / √dk) @[key] V", (M,)),
    Attention("M+QK/c", "masked", "softmax[key](M + Q @[dk] K / √dk) @[key] V", (M,)),
    Attention("QK*c+M", "masked", "softmax[key](Q @[dk] K * (1 / √dk) + M) @[key] V", (M,)),
    Attention("masked_fill(-inf)", "masked", "softmax[key](-∞ if not see else s) @[key] V", (S, SEE)),
    Attention("where(m, s, -inf)", "masked", "softmax[key](s if see else -∞) @[key] V", (S, SEE)),
    Attention(
        "where(m, s, finfo.min)", "filled", "softmax[key](s if see else low) @[key] V",
        (S, SEE), weights=("low : []",),
    ),
    Attention("causal from iota", "masked", "softmax[key if index(seq) ≥ index(key)](s) @[key] V", (S,)),
    Attention(
        "causal + padding", "masked by tokens", "softmax[key](s + M + P) @[key] V",
        (M, S, "P[key] = 0 if good[seq → key] else -∞"),
    ),
    Attention("QK+B", "biased", "softmax[key](Q @[dk] K + B) @[key] V", (B,), weights=T),
    Attention("QK/c+B+M", "biased and masked", "softmax[key](Q @[dk] K / √dk + B + M) @[key] V", (B, M), weights=T),
    Attention("(VᵀAᵀ)ᵀ", "plain", "V @[key] softmax[key](s)", (S,)),
    Attention("KᵀQ, softmax over -2", "plain", "softmax[key](K @[dk] Q / √dk) @[key] V"),
    Attention("per-head loop, concat", "plain", CONCAT, PICKED, "joined"),
    Attention("3-D single head", "plain", "softmax[key](Q @[dk] K / √dk) @[key] V", (), "3-D"),
    Attention("2-D single head", "plain", "softmax[key](x @[d] K / √d) @[key] K", (), "2-D"),
    Attention(
        "Shaw q(k+r)", "relative", "softmax[key]((Q @[dk] k) / √dk) @[key] V",
        ("k[seq, key, head, dk] = K + r", R), weights=TABLE,
    ),
    Attention("0-d scale", "scaled by a value", "softmax[key](Q @[dk] K * t) @[key] V", weights=("t : []",)),
    Attention(
        "additive f(q,k)", "scores", "softmax[key](f) @[key] V",
        ("f = sum[dk](w * tanh(a))", "a[seq, key, head, dk] = Q + K"), weights=("w : [dk]",),
    ),
)
"""The 35 of the scoreboard."""

MORE = (
    Attention(
        "the page's three steps", "plain", "weights @[key] V",
        ("weights = exp(scores) / sum[key](exp(scores))", "scores = Q @[dk] K / √dk"),
    ),
    Attention("Σ α v", "plain", "total", ("total = sum[key](α_V)", "α_V[seq, head, key, dk] = softmax[key](s) ⊙ V", S)),
    Attention("the library's", "plain", "attention[key](Q, K, V)"),
    Attention("with f(q, k)", "plain", "general_attention[key](Q, K, V, f)", ("f(q, k) = q @[dk] k / √dk",)),
    Attention("(c^½ q)(c^½ K)", "plain", "softmax[key]((Q * dk^(-1/4)) @[dk] (K * dk^(-1/4))) @[key] V"),
    Attention("negated twice", "plain", "softmax[key](-(Q @[dk] K) / -√dk) @[key] V"),
    Attention("half and half", "plain", "softmax[key](s / 2 + s / 2 + 0) @[key] (1 * V)", (S,)),
    Attention("base 2", "plain", "(2^(s / log(2)) / sum[key](2^(s / log(2)))) @[key] V", (S,)),
    Attention("a library mask", "masked", "attention[key if causal](Q, K, V)"),
    Attention(
        "a sum of two relations", "masked by tokens", "softmax[key if see and good[seq → key]](s) @[key] V", (S, SEE),
    ),
    Attention(
        "padding, then causal", "masked by tokens", "softmax[key](-∞ if not (good[seq → key] and see) else s) @[key] V",
        (S, SEE),
    ),
    Attention("(QK+B)/c", "biased alike", "softmax[key]((Q @[dk] K + B) / √dk) @[key] V", (B,), weights=T),
    Attention("QK/c+B/c", "biased alike", "softmax[key](B / √dk + Q @[dk] K / √dk) @[key] V", (B,), weights=T),
    Attention("M+B+QK/c", "biased and masked", "softmax[key](M + B + s) @[key] V", (B, M, S), weights=T),
    Attention("fill, then bias", "biased and masked", "softmax[key if see](B + s) @[key] V", (B, SEE, S), weights=T),
    Attention("t*QK", "scaled by a value", "softmax[key](t * (Q @[dk] K)) @[key] V", weights=("t : []",)),
    Attention("(tq)K", "scaled by a value", "softmax[key]((t * Q) @[dk] K) @[key] V", weights=("t : []",)),
    Attention("qk + qr", "relative", "softmax[key](Q @[dk] K / √dk + Q @[dk] r / √dk) @[key] V", (R,), weights=TABLE),
    Attention(
        "(r+k)q", "relative", "softmax[key](k @[dk] Q / √dk) @[key] V",
        ("k[seq, key, head, dk] = r + K", R), weights=TABLE,
    ),
    Attention("groups of heads", "grouped", "softmax[key](Q[head → kv group] @[dk] K / √dk) @[key] V", (), "groups"),
    Attention("chunks of one projection", "plain", CONCAT, CHUNKS, "chunks"),
    Attention("heads with maps of their own", "plain", CONCAT, OWN, "own"),
    Attention("a sum over heads", "plain", "o_0 @ W_O0 + o_1 @ W_O1 + o_2 @ W_O2 + o_3 @ W_O3", OWN, "summed"),
)
"""Further spellings of the same meanings."""
# fmt: on

MEAN, SQUARES = "μ = mean[d](x)", "mean[d]((x - μ)²)"
LAYER_NORM = {
    "pow": (f"(x - μ) / √({SQUARES} + ε) ⊙ γ + β", MEAN),
    "rsqrt": (f"(x - μ) * ({SQUARES} + ε)^(-1/2) ⊙ γ + β", MEAN),
    "gamma left": (f"γ ⊙ (x - μ) / √({SQUARES} + ε) + β", MEAN),
    "(x-μ)*(x-μ)": ("(x - μ) / √(mean[d]((x - μ) * (x - μ)) + ε) ⊙ γ + β", MEAN),
    "without ε": (f"γ ⊙ (x - μ) / √({SQUARES}) + β", MEAN),
    "E[x²]-μ²": ("(x - μ) / √(mean[d](x²) - μ² + ε) ⊙ γ + β", MEAN),
    "sum/d": ("(x - μ) / √(sum[d]((x - μ)²) / d + ε) ⊙ γ + β", "μ = sum[d](x) / d"),
    "centred once": ("c / √(mean[d](c²) + ε) ⊙ γ + β", f"c = x - {MEAN[4:]}"),
}
"""The eight of the scoreboard: name → (formula, parts)."""

GELU = {
    "x*0.5*(1+erf(x/√2))": ("x * 0.5 * (1 + erf(x / √2))", "gelu"),
    "x/2*(1+erf(x*√½))": ("x / 2 * (1 + erf(x * √0.5))", "gelu"),
    "distributed": ("0.5 * x + 0.5 * x * erf(x / √2)", "gelu"),
    "x*Φ(x)": ("x * ((1 + erf(x / √2)) / 2)", "gelu"),
    "tanh, x^3": ("0.5 * x * (1 + tanh(√(2 / π) * (x + 0.044715 * x^3)))", "gelu_tanh"),
    "tanh, x*x*x": ("0.5 * x * (1 + tanh(√(2 / π) * (x + 0.044715 * x * x * x)))", "gelu_tanh"),
    "tanh, factored": ("0.5 * x * (1 + tanh(√(2 / π) * x * (1 + 0.044715 * x * x)))", "gelu_tanh"),
    "as a sigmoid": ("x / (1 + exp(-2 * √(2 / π) * (x + 0.044715 * x^3)))", "gelu_tanh"),
}
"""The eight of the scoreboard: name → (formula, which of the two GELUs it is)."""
