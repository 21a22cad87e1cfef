"""The rows of the page, in its order."""

from __future__ import annotations

from tests.backends.tex.page import EXAMPLE, Row, names

MEAN = "a mean over the batch, of which the sum and the count are exported; the page writes one example's sum"
LABEL = "−log P of the right entry is nll(logits, label)"
LIB = "lib/functions"
ONE = (1,)

ATTENTION = names(r"\mathrm{attention} → \text{Attention}")
HEADS = names(r"\mathrm{heads} → \text{Concat}(\text{head}_1, \ldots, \text{head}_h)")

ROWS: tuple[Row, ...] = (
    # softmax
    Row(LIB, "softmax", reason="the page lists all entries; the formula says one of them, which is the next row"),
    Row(LIB, "softmax"),
    # attention
    Row(LIB, "attention", same=ATTENTION, put=("A", "scores", "scale", "bias", "drop")),
    Row(EXAMPLE, "attend", r"\mathrm{scores}"),
    Row(EXAMPLE, "attend", "A", names(r"A → \text{weights}"), only=(0, 1)),
    Row(EXAMPLE, "attend", "", names(r"A → \text{weights}"), only=ONE),
    # multi-head attention
    Row("t5", "MultiHead", "", HEADS, only=ONE),
    Row(
        "transformer_encoder",
        "MultiHead",
        r"\mathrm{heads}",
        names(
            r"\mathrm{heads} → \text{head}_i",
            r"\mathrm{attention} → \text{Attention}",
            "W^{Q} → W_i^Q",
            "W^{K} → W_i^K",
            "W^{V} → W_i^V",
        ),
        at=(("b_Q", "0"), ("b_K", "0"), ("b_V", "0")),
        note="all heads at once, along the axis head; the paper has no biases, and config leaves them out",
    ),
    # any score function
    Row(LIB, "general_attention", "", names(r"\mathrm{key} → n", "V_{i} → v_i"), only=ONE),
    Row(LIB, "general_attention", r"\alpha_i", names(r"\mathrm{key} → n", "K_{i} → k_i", "K_{j} → k_j")),
    # LayerNorm
    Row(LIB, "layer_norm", "", names(r"\mathrm{layer\_norm} → \text{LayerNorm}")),
    Row(LIB, "layer_norm", r"\mu"),
    Row(LIB, "layer_norm", r"\sigma", put=("ε",)),
    # residual
    Row(LIB, "residual", "", names(r"\mathrm{sublayer} → \text{Sublayer}"), only=ONE),
    # feed-forward
    Row(
        "transformer_encoder",
        "FeedForward",
        "",
        names(r"\mathrm{FeedForward} → \text{FFN}", r"\mathrm{relu}( → \max(0,"),
    ),
    Row("bert", "FeedForward", "", names(r"\mathrm{FeedForward} → \text{FFN}", r"\mathrm{act} → \text{GELU}")),
    # GELU
    Row(LIB, "gelu", "", names(r"\mathrm{gelu} → \text{GELU}"), only=(0, 1)),
    Row(LIB, "gelu_tanh", "", only=ONE),
    # positions
    Row(LIB, "sinusoidal", reason="even and odd entries are two cases of one formula: c = 2i and c = 2i + 1"),
    Row(LIB, "sinusoidal", reason="as above"),
    # the block
    Row(
        "transformer_encoder",
        "Layer",
        "z",
        names(
            r"\mathrm{attn}(x, x, x) → \text{MultiHead}(x)",
            r"\mathrm{LN}_1 → \text{LayerNorm}",
            "x → x_{l-1}",
            "z → z_l",
        ),
        put=("m",),
        at=(("p", "0"),),
    ),
    Row(
        "transformer_encoder",
        "Layer",
        "",
        names(r"\mathrm{LN}_2 → \text{LayerNorm}", "z → z_l"),
        at=(("p", "0"),),
        only=ONE,
    ),
    Row(LIB, "cross_entropy", reason="entries with y = 0 are left out, so that 0 · log 0 adds nothing"),
    # projections
    Row(EXAMPLE, "Attention", "Q", names("x → X")),
    Row(EXAMPLE, "Attention", "K", names("m → X")),
    Row(EXAMPLE, "Attention", "V", names("m → X")),
    Row(
        LIB,
        "causal_mask",
        "",
        names(r"\mathrm{causal\_mask} → \text{mask}", r"\text{otherwise} → \text{if } i < j"),
    ),
    # RMSNorm
    Row(LIB, "rms_norm", "", names(r"\mathrm{rms\_norm} → \text{RMSNorm}", r"\mathrm{rms} → \text{RMS}(x)")),
    Row(LIB, "rms_norm", r"\mathrm{rms}", names(r"\mathrm{rms} → \text{RMS}(x)"), put=("ε",)),
    # BERT
    Row(
        "bert",
        "Embeddings",
        r"\mathrm{input}",
        names(
            r"\mathrm{input} → \text{Input}",
            r"\mathrm{words} → \text{TokenEmb}",
            r"S_{\mathrm{segments}} → \text{SegmentEmb}",
            r"P_{\mathrm{at}} → \text{PositionEmb}",
        ),
    ),
    Row("bert", "mlm", reason=f"{MEAN}; {LABEL}, and M is where a label counts"),
    Row("bert", "nsp", reason=f"{MEAN}; {LABEL}, P(IsNext) is that of class 0"),
    Row("bert", "pretraining", "", names(r"\mathrm{pretraining} → \text{BERT}")),
    # GPT
    Row(
        "gpt2",
        "Head",
        reason="the model gives the logits of each factor; their product is what generation and the loss make of them",
    ),
    Row("gpt2", "causal_lm", reason=f"{MEAN}; {LABEL}, where position t foretells token t + 1"),
    Row(LIB, "masked_attention", "", only=ONE),
    # T5
    Row("t5", "seq2seq", reason=f"{MEAN}; {LABEL}"),
    Row(
        LIB,
        "attention",
        same=names(
            r"\mathrm{attention} → \text{CrossAttention}",
            r"Q → Q_{\text{dec}}",
            r"K → K_{\text{enc}}",
            r"V → V_{\text{enc}}",
        ),
        put=("A", "scores", "scale", "bias", "drop"),
        note="of a decoder in general; T5 itself does not scale its scores",
    ),
    Row("bert", "mlm", reason="roberta takes L_MLM over from bert and removes the other objectives: it writes no line"),
    # ELECTRA
    Row("electra", "joint", "L_{G}", reason=f"{MEAN}; {LABEL}"),
    Row(
        "electra",
        "joint",
        "L_{D}",
        reason=f"{MEAN}; from logits z, of which σ(z) is the probability that a token was replaced: D = σ(−z)",
    ),
    Row(
        "electra",
        "generator_weighed",
        "",
        names(r"\mathrm{found} → \mathcal{L}_D", r"\mathrm{times} → \lambda", r"\mathrm{made} → \mathcal{L}_G"),
        only=ONE,
    ),
    # DeBERTa
    Row(
        "deberta",
        "Disentangled",
        r"\mathrm{scores}",
        reason="each {·, ·} is a product over d_k, picked at δ(i, j); the sum is scaled, as in the paper's equation 4",
    ),
    Row("bert", "MaskedHead", reason="a map, activation and norm stand before the table of tokens, which is shared"),
    # BART
    Row("bart", "denoising", reason=f"{MEAN}; {LABEL}, and the text was corrupted before"),
    Row("bart", "token_masking", reason="the page names it; the spec says it"),
    Row("bart", "token_deletion", reason="the page names it; the spec says it"),
    Row("bart", "text_infilling", reason="the page names it; the spec says it"),
    Row("bart", "sentence_permutation", reason="the page names it; the spec says it"),
    # ALBERT
    Row("albert", "Embeddings", reason="the page counts weights; the spec has E : [vocab, emb] and M : [emb → d]"),
    Row("albert", "Bert", "y", reason="the page says that weights are equal; the spec calls one block at every step"),
    Row("albert", "sop", reason=f"{MEAN}; {LABEL}, P(InOrder) is that of class 0"),
    # common components
    Row(EXAMPLE, "attend", r"\mathrm{scores}", reason="for all i and j at once, of Q = x W^Q and K = x W^K"),
    Row(
        LIB,
        "general_attention",
        r"\alpha_i",
        names(
            r"f(q, K_{i}) → e_{i,j}",
            r"f(q, K_{j}) → e_{i,k}",
            r"\alpha_{i} → \alpha_{i,j}",
            "{j = 1} → {k = 1}",
            r"\mathrm{key} → n",
        ),
    ),
    Row("t5", "MultiHead", "", HEADS, only=ONE),
    Row(
        LIB,
        "attention",
        "",
        names(r"\mathrm{dropout} → \text{Dropout}", r", \mathrm{drop} → "),
        put=("A",),
        only=ONE,
    ),
    Row(LIB, "learned", "", names(r"\mathrm{learned}(P, i) → \text{PE}_{\text{learned}}(i)", "P → p")),
    Row(
        LIB,
        "relative_attention",
        "e",
        names("Q → x_i W^Q", "K → x_j W^K", r"r_{\mathrm{distance} + \mathrm{span}} → r_{i-j}", "e → e_{i,j}"),
    ),
    # Sentence-BERT
    Row("sbert", "SentenceBert", "u", names(r"\mathrm{last\_hidden\_state} → \text{BERT}(\text{sentence})")),
    Row("sbert", "SentenceBert", "s", names(r"\mathrm{pool\_tokens}_{\mathrm{seq}} → \text{POOL}")),
    Row("sbert", "cls_pool", "", names(r"0 → \text{[CLS]}"), only=ONE),
    Row("sbert", "mean_pool", "", names(r"\mathrm{seq} → n"), only=ONE),
    Row("sbert", "max_pool", "", names(r"\mathrm{seq} → n"), only=ONE),
    Row("sbert", "AttentionPool", r"\alpha", reason="softmax is called by its name, of the products of all u_i with w"),
    Row("sbert", "AttentionPool", "", names(r"\mathrm{seq} → n"), only=ONE),
    Row(
        "sbert",
        "Ways",
        reason="a map stands behind what it is applied to, rows and not columns; b, which the paper's code has",
    ),
    Row("sbert", "classification", reason=f"{MEAN}; {LABEL}"),
    Row(LIB, "cosine", reason="each norm is bounded by itself, so that a zero vector has similarity 0"),
    Row("sbert", "regression", reason=MEAN),
    Row("sbert", "regression", "u", names(r"\mathrm{embedding}_0 → f_\theta(\text{sentence}_A)")),
    Row("sbert", "regression", "v", names(r"\mathrm{embedding}_1 → f_\theta(\text{sentence}_B)")),
    Row("sbert", "triplet", reason=f"{MEAN}; the distance is chosen by config"),
    Row("sbert", "ranking_of_page", reason=f"{MEAN}; log Σ exp is subtracted, not divided by"),
    Row(LIB, "cosine", reason="as above"),
    Row(LIB, "euclidean", reason="the page's ‖·‖ is its own second line, which is the next row"),
    Row(LIB, "euclidean", "", names(r"\mathrm{euclidean} → D", "d → n", "D → d")),
    Row(LIB, "euclidean", reason="the page writes the sum out"),
    Row(LIB, "manhattan", reason="the page's |·|₁ is its own second line, which is the next row"),
    Row(LIB, "manhattan", "", names("d → n", r"\mathrm{manhattan} → d_{manhattan}")),
    Row("sbert", "Pairs", reason="a map stands behind what it is applied to, rows and not columns"),
)
