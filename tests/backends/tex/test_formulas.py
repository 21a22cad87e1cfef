"""Expressions as on paper: what has which axes decides how a product, a sum or a call is written."""

from __future__ import annotations

import pytest

from transformula.backends.tex import facts_of, latex, parts_of, text
from transformula.grammar.diagnostics import TransformulaError


def lines(spec: str, name: str, inline: bool = False) -> list[str]:
    """The lines of a definition as text."""
    (part,) = parts_of(facts_of(spec), [name], inline=inline)
    return [text.line(line) for line in part.all_lines]


def tex(spec: str, name: str) -> list[str]:
    (part,) = parts_of(facts_of(spec), [name])
    return [latex.line(line) for line in part.all_lines]


FORMULAS = [
    # products: of numbers, entries, rows and columns
    ("f(x) = 2 * x", "f(x) = 2x"),
    ("f(x) = x * 2", "f(x) = x · 2"),
    ("f(x, y) = x * y", "f(x, y) = xy"),
    ("f(x, rate) = x * rate", "f(x, rate) = x rate"),
    ("f(x, y) = x * (1 + y)", "f(x, y) = x · (1 + y)"),
    ("f(x, y) = 2 * x * (1 + y)", "f(x, y) = 2x(1 + y)"),
    ("f(x) = x * exp(x + 1)", "f(x) = x exp(x + 1)"),
    ("f[d](x[d], γ[d]) = γ * x", "f(x, γ) = γ ⊙ x"),
    ("f[d](x[d], γ) = γ * x", "f(x, γ) = γx"),
    ("f[d](x[d], γ[d], s) = γ * x / s", "f(x, γ, s) = γ ⊙ (x / s)"),
    ("f(x, y, s) = x * y / s", "f(x, y, s) = (xy) / s"),
    ("f(x, y, s) = x / s * y", "f(x, y, s) = (x / s)y"),
    ("f[k](Q[k], K[j, k]) = Q @[k] K", "f(Q, K) = QKᵀ"),
    ("f[j](A[j], V[j, k]) = A @[j] V", "f(A, V) = AV"),
    ("f[d](u[d], v[d]) = u @[d] v", "f(u, v) = u · v"),
    ("f[k](Q[k], K[j, k], r[j, k]) = Q @[k] (K + r)", "f(Q, K, r) = Q(K + r)ᵀ"),
    ("f[d](u[d]) = √(u @[d] u)", "f(u) = √(u · u)"),
    # fractions, powers, roots
    ("f(x) = 1 / (1 + exp(-x))", "f(x) = 1 / (1 + exp(−x))"),
    ("f(x, n) = x^(2 * n / 3)", "f(x, n) = x^{2n/3}"),
    ("f(x) = (x + 1)²", "f(x) = (x + 1)²"),
    ("f(x) = √x", "f(x) = √x"),
    ("f(x) = -(x + 1)", "f(x) = −(x + 1)"),
    ("f(x, y) = x - (y - 1)", "f(x, y) = x − (y − 1)"),
    ("f(x) = |x|", "f(x) = |x|"),
    ("f(x) = floor(x)", "f(x) = ⌊x⌋"),
    ("f(x) = x // 2 + x % 3", "f(x) = ⌊x / 2⌋ + x mod 3"),
    ("f(x) = 1e-12 * x", "f(x) = 10⁻¹²x"),
    ("f(x) = exp(x²)", "f(x) = e^{x²}"),
    ("f(x) = exp(exp(x))", "f(x) = exp(e^x)"),
    # reductions and indices
    ("f[d](x[d]) = sum[d](x²)", "f(x) = ∑_{i = 1}^{d} xᵢ²"),
    ("f[d](x[d]) = mean[d](x)", "f(x) = (1 / d)∑_{i = 1}^{d} xᵢ"),
    ("f[d](x[d]) = max[d](x)", "f(x) = max_{i = 1, …, d} xᵢ"),
    ("f[d](x[d]) = x / sum[d](x)", "f(xᵢ) = xᵢ / (∑_{j = 1}^{d} xⱼ)"),
    ("f[d](x[d], y[d]) = x / sum[d](y)", "f(x, y)ᵢ = xᵢ / (∑_{j = 1}^{d} yⱼ)"),
    ("f[j](x) = exp(x) / sum[j](exp(x))", "f(xᵢ) = e^{xᵢ} / (∑_{j = 1}^{n} e^{xⱼ})"),
    ("f[i](x[i]) = sum[i](x)", "f(x) = ∑_{i = 1}^{n} xᵢ"),
    ("f[a, b](x[a, b]) = sum[a, b](x)", "f(x) = ∑_{i = 1}^{a} ∑_{j = 1}^{b} x_{i, j}"),
    ("f[v](y[v]) = sum[v if y > 0](y)", "f(y) = ∑_{i: yᵢ > 0} yᵢ"),
    ("f[v](y[v], i) = sum[v](y + i)", "f(y, i) = ∑_{j = 1}^{v} (yⱼ + i)"),
    ("f[d](x[d]) = ‖x‖[d]", "f(x) = ‖x‖"),
    ("f[d](x[seq, d]) = ‖x‖[d]", "f(x) = ‖x‖_d"),
    ("f[d](x[d]) = count[d](x > 0)", "f(x) = ∑_{i = 1}^{d} [xᵢ > 0]"),
    ("f[d](x[d]) = argmax[d](x)", "f(x) = arg max_{i = 1, …, d} xᵢ"),
    ("f[d](x[d], y[d]) = any[d](x > 0 and not (y > 0))", "f(x, y) = ⋁_{i = 1}^{d} (xᵢ > 0 ∧ ¬(yᵢ > 0))"),
    # picks, renames, index formulas
    ("f[v](E[v, d], tokens) = E[v = tokens]", "f(E, tokens) = E_{tokens}"),
    ("f[seq](u[seq, d]) = u[seq = 0]", "f(u) = u₀"),
    ("f[j](x[j], by) = x[j = index(j) + by else 0]", "f(x, by)ᵢ = x_{i + by else 0}"),
    ("c[i: seq, j: key] = j ≤ i", "c_{i, j} = j ≤ i"),
    ("c[i: seq] = 0 if i > 1 else -∞", "cᵢ = { 0 if i > 1; −∞ otherwise }"),
    ("f[d](x[d], y) = x[d → e] * y", "f(x, y) = xy"),
    ("f[a](x[a], y[a]) = [x; |x - y|][a → two]\naxes two = 2", "f(x, y) = [x; |x − y|]"),
    # calls
    ("f(x, g) = x + g(x)", "f(x, g) = x + g(x)"),
    ("s[j](x[j]) = x\nf[j](x[seq, j]) = s[j](x)", "f(x) = sⱼ(x)"),
    ("s[j](x[j]) = x\nf[j](x[j]) = s[j](x)", "f(x) = s(x)"),
    ("s[j](x[j]) = x\nf[j](x[j], y[j]) = s[j if y > 0](x)", "f(x, y) = s_{j: y > 0}(x)"),
    ('f(x) = x if x > 0 else 1 if x > -1 else 0', "f(x) = { x if x > 0; 1 if x > −1; 0 otherwise }"),
]


@pytest.mark.parametrize(("spec", "wanted"), FORMULAS)
def test_formula(spec: str, wanted: str) -> None:
    name = wanted[0]
    assert lines(spec + "\n", name)[0] == wanted


MAPS = """\
spec maps
config
    d = 8
    head = 2
    dk = d / head
    layers = 3
block Attention(x[seq, d]) → [seq, d] = heads @ W_O
    where Q = x @ W_Q
          K = x[seq → key] @ W_K
          scores = Q @[dk] K / √dk
          V = x[seq → key] @ W_V
          heads = softmax[key](scores) @[key] V
    weights W_Q, W_K, W_V : [d → head dk] ~ normal(0.02)
            W_O : [head dk → d]
model M(x[seq, d]) → [seq, d] = h[layers]
    where
        h[0] = x
        for l in layers:
            h[l + 1] = h[l] + layer[l](h[l])
    uses layer[layers] : Attention
softmax[j](x) = exp(x) / sum[j](exp(x))
"""


def test_maps_stand_behind_what_they_are_applied_to() -> None:
    assert lines(MAPS, "Attention") == [
        "Attention(x) = heads W^O",
        "Q = xW^Q",
        "K = xW^K",
        "scores = (QKᵀ) / √dₖ",
        "V = xW^V",
        "heads = softmax_{key}(scores)V",
        "W^Q, W^K, W^V ∈ ℝ^{d × head dₖ}",
        "W^O ∈ ℝ^{head dₖ × d}",
    ]


def test_recurrences_have_their_steps_behind_them() -> None:
    assert lines(MAPS, "M") == [
        "M(x) = h_{layers}",
        "h₀ = x",
        "hₗ₊₁ = hₗ + layerₗ(hₗ)    (l = 0, …, layers − 1)",
        "layerₗ : Attention    (l < layers)",
    ]


def test_instances_say_what_they_are_and_when() -> None:
    assert "LN : LayerNorm(d = emb)" in lines("albert", "Embeddings")
    assert "cross : MultiHead(key = src, decoder = false)    (if crossed)" in lines("bert", "Layer")
    assert "layer_{l, k} : Layer    (l < groups, k < inner)" in lines("albert", "Bert")


def test_one_line_puts_parts_in_place() -> None:
    assert lines(MAPS, "Attention", inline=True)[0] == "Attention(x) = softmax_{key}((xW^Q(xW^K)ᵀ) / √dₖ)(xW^V)W^O"


def test_declared_axes_are_indices() -> None:
    spec = "spec t\nmodel M(u[seq, d], v[seq, d]) → [] = sum[seq](sum[key](s))\n"
    spec += "    where s[seq, key] = u @[d] v[seq → key]\nconfig\n    d = 4\n"
    assert lines(spec, "M")[1] == "s_{i, j} = uᵢvⱼᵀ"


def test_objective_is_a_loss_over_the_batch() -> None:
    assert tex("bert", "nsp") == [
        r"\mathcal{L}_{\mathrm{nsp}} = \frac{1}{\mathrm{batch}}\sum_{i = 1}^{\mathrm{batch}}"
        r" \mathrm{nll}(\mathrm{logits}_{i}, \mathrm{next}_{i})"
    ]


def test_branch_that_config_leaves_out_has_axes_too() -> None:
    """Nobody checked c2p's branch at the default config: what is declared tells that the key's axis stays."""
    found = "\n".join(lines("deberta_v2", "Disentangled"))
    assert "(Q({ rW^K + b_K if shared; rU^K + c_K otherwise })ᵀ)_{at}" in found


def test_defaults_are_told() -> None:
    assert "scale = 1 / √dₖ    (by default)" in lines("lib/functions", "attention")


def test_inlining_is_bounded() -> None:
    steps = "\n".join(f"          a{n + 1} = a{n} + a{n} * a{n}" for n in range(40))
    with pytest.raises(TransformulaError) as caught:
        lines(f"f(x) = a40\n    where a0 = x + 1\n{steps}\n", "f", inline=True)
    assert caught.value.diagnostics[0].code == "C652"


def test_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(TransformulaError) as caught:
        parts_of(facts_of("bert"), ["MultiHed"])
    assert caught.value.diagnostics[0].code == "C650"
    assert "MultiHead" in str(caught.value)


def test_a_file_without_definitions_has_nothing_to_write() -> None:
    with pytest.raises(TransformulaError) as caught:
        parts_of(facts_of("spec empty\nconfig\n    d = 4\n"))
    assert caught.value.diagnostics[0].code == "C651"


def test_an_entry_comes_with_all_it_uses() -> None:
    names = [part.name for part in parts_of(facts_of("bert"), entry="mlm")]
    assert names[0] == "mlm"
    assert {"nll", "log_softmax", "softmax", "BertForMaskedLM", "Bert", "MultiHead", "causal"} <= set(names)
    assert "nsp" not in names
