"""Calls: nothing is captured, whatever is bound to whatever; functions and instances as arguments."""

import numpy as np
import pytest

from tests.compiler.spec_tools import close, codes, lowered, rng, softmax, value, weight_values

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
HEADS = """\
from functions import attention, softmax, general_attention, dot, layer_norm, residual
config
    d = 4
    head = 2
    dk = d / head
block MultiHead(x[seq, d], m[key, d]) → [seq, d] = attention[key](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
"""


def attend(x: np.ndarray, w: dict[str, np.ndarray], prefix: str) -> np.ndarray:
    q, k, v = (np.einsum("bsd,dhk->bhsk", x, w[f"{prefix}.W_{n}"]) for n in "QKV")
    heads = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])) @ v
    result: np.ndarray = np.einsum("bhsk,hkd->bsd", heads, w[f"{prefix}.W_O"])
    return result


def test_binding_an_axis_equals_renaming_the_argument() -> None:
    renamed = HEADS + "model M(x[seq, d]) → [seq, d] = attn(x, x[seq → key])\n    uses attn : MultiHead\n"
    bound = renamed.replace("attn(x, x[seq → key])", "attn[key = seq](x, x)")
    weights = weight_values(lowered(renamed))
    close(value(renamed, x=X), attend(X, weights, "attn"))
    close(value(bound, x=X), value(renamed, x=X), 0)


def test_a_lifted_axis_with_the_name_of_a_formal_is_not_captured() -> None:
    """The caller's key is carried along by a formula that has a key of its own."""
    text = (
        "config\n    key = 3\nf[key](x[key]) = sum[key](x)\nmodel M(x[key, seq]) → [key] = f[key = seq](x)\n"
    )
    x = rng(2).normal(size=(1, 3, 5))
    close(value(text, x=x), x.sum(-1))


def test_a_lifted_axis_with_the_name_of_a_weights_axis_is_not_captured() -> None:
    """Lifted `ffn` of the argument and the block's own `ffn` are two axes."""
    text = (
        "config\n    d = 4\n    ffn = 3\n"
        "block F(x[d]) → [d] = (x @ W_1) @ W_2\n    weights W_1 : [d → ffn]\n            W_2 : [ffn → d]\n"
        "model M(x[ffn, d]) → [ffn, d] = f(x)\n    uses f : F\n"
    )
    weights = weight_values(lowered(text))
    x = rng(2).normal(size=(2, 3, 4))
    close(value(text, x=x), x @ weights["f.W_1"] @ weights["f.W_2"])


def test_an_axis_that_a_body_makes_may_not_meet_a_lifted_one_of_that_name() -> None:
    text = (
        "config\n    d = 4\n    ffn = 3\n"
        "block F(x[d]) → [ffn] = x @ W\n    weights W : [d → ffn]\n"
        "model M(x[ffn, d]) → [ffn] = f(x)\n    uses f : F\n"
    )
    assert codes(text) == {"A126"}


def test_self_attention_by_a_formula_without_a_rename() -> None:
    text = (
        HEADS.split("block")[0]
        + "model M(x[seq, d]) → [seq, d] = general_attention[key = seq](x, x, x, dot)\n"
    )
    scores = X @ X.transpose(0, 2, 1)
    close(value(text, x=X), softmax(scores) @ X)


def test_a_function_passed_on_twice_keeps_its_callers_names() -> None:
    """Hole 9: `outer` passes its f on to `general_attention`; the query axis must survive two levels."""
    text = HEADS.split("block")[0] + (
        "outer[key](q, K[key], V[key], f) = general_attention[key](q, K, V, f)\n"
        "model M(x[seq, d]) → [seq, d] = outer[key = seq](x, x, x, dot)\n"
    )
    close(value(text, x=X), softmax(X @ X.transpose(0, 2, 1)) @ X)


def test_a_passed_function_may_use_names_of_its_own_file_only() -> None:
    text = HEADS.split("block")[0] + (
        "scaled(q[d], k[d]) = q @[d] k / √d\n"
        "model M(x[seq, d], y[key, d]) → [seq, d] = general_attention[key](x, y, y, scaled)\n"
    )
    y = rng(3).normal(size=(2, 5, 4))
    close(value(text, x=X, y=y), softmax(X @ y.transpose(0, 2, 1) / 2) @ y)


def test_an_instance_with_weights_as_a_score_function() -> None:
    text = HEADS.split("block")[0] + (
        "block Score(q[d], k[d]) → [] = (q @ W) @[d] k\n    weights W : [d → d]\n"
        "model M(x[seq, d], y[key, d]) → [seq, d] = general_attention[key](x, y, y, s)\n    uses s : Score\n"
    )
    y, w = rng(3).normal(size=(2, 5, 4)), weight_values(lowered(text))["s.W"]
    close(value(text, x=X, y=y), softmax(X @ w @ y.transpose(0, 2, 1)) @ y)
    itself = text.replace(", y[key, d]", "").replace(
        "general_attention[key](x, y, y, s)", "general_attention[key = seq](x, x, x, s)"
    )
    close(value(itself, x=X), softmax(X @ w @ X.transpose(0, 2, 1)) @ X)


def test_the_axes_of_a_weight_do_not_depend_on_the_call() -> None:
    """Bound to ffn, the block's d needs a stand-in beside the ffn of its own; it is one weight all the same."""
    text = (
        "config\n    d = 4\n    ffn = 4\n"
        "block F(x[d]) → [d] = (x @ W_1) @ W_2 @ S\n    weights W_1 : [d → ffn]\n            W_2 : [ffn → d]\n"
        "            S : [d → d]\n"
        "model M(x[seq, d]) → [seq, d] = f(x) + f[d = ffn](x[d → ffn])[ffn → d]\n    uses f : F\n"
    )
    graph = lowered(text)
    assert [one.name for one in graph.weights] == ["f.W_1", "f.W_2", "f.S"]
    w = weight_values(graph)
    close(value(graph, x=X), 2 * X @ w["f.W_1"] @ w["f.W_2"] @ w["f.S"])


def test_two_lifted_axes_of_one_name_do_not_leave_together() -> None:
    text = (
        "config\n    d = 4\nblock B(x[d], y[key]) → [d] = (x @ W) * sum[key](y)\n    weights W : [d → d]\n"
        "model M(x[seq, d]) → [seq, d] = b(x, x[seq → key])\n    uses b : B\n"
    )
    assert codes(text) == {"A126"}


NAMES = ("key", "dk", "d", "head", "j", "v")


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_of_names_captures_an_axis(seed: int) -> None:
    """Attention through two formulas and a passed score function, under names drawn at random."""
    draw = rng(seed)
    lifted, query, key, width = draw.permutation(NAMES)[:4]
    outer, inner = draw.choice([*NAMES, "z"], 2)
    if draw.random() < 0.5:
        key = query  # self-attention without a rename
    sizes = {lifted: 2, query: 3, width: 4, key: 3 if key == query else 5}
    q = draw.normal(size=(1, 2, 3, 4))
    k, v = (q, q) if key == query else (draw.normal(size=(1, 2, 5, 4)), draw.normal(size=(1, 2, 5, 4)))
    text = (
        "from functions import softmax\nconfig\n"
        + "".join(f"    {n} = {size}\n" for n, size in sizes.items())
        + f"block Score(a_[{width}], b_[{width}]) → [] = (a_ @ W) @[{width}] b_\n    weights W : [{width} → {width}]\n"
        f"inner[{inner}](q, K[{inner}], V[{inner}], f) = sum[{inner}](softmax[{inner}](f(q, K)) * V)\n"
        f"outer[{outer}](q, K[{outer}], V[{outer}], f) = inner[{inner} = {outer}](q, K, V, f)\n"
        f"model M(q[{lifted}, {query}, {width}], K[{lifted}, {key}, {width}], V[{lifted}, {key}, {width}])"
        f" → [{lifted}, {query}, {width}] = outer[{outer} = {key}](q, K, V, s)\n    uses s : Score\n"
    )
    w = draw.normal(size=(4, 4))
    wanted = softmax(q @ w @ k.transpose(0, 1, 3, 2)) @ v
    close(value(text, {"s.W": w}, q=q, K=k, V=v), wanted)


def test_an_activation_as_an_argument() -> None:
    text = (
        "from functions import relu\napply(f, x) = f(x) + f(-x)\n"
        "model M(x[seq, d]) → [seq, d] = apply(relu, x)\n"
    )
    close(value(text, x=X), np.abs(X))


def test_a_builtin_as_an_argument() -> None:
    close(
        value("apply(f, x) = f(f(x))\nmodel M(x[seq, d]) → [seq, d] = apply(tanh, x)\n", x=X),
        np.tanh(np.tanh(X)),
    )


def test_a_block_as_a_sublayer() -> None:
    text = HEADS + (
        "block Linear(x[d]) → [d] = x @ W\n    weights W : [d → d]\n"
        "sandwich(x, f) = x + f(x)\n"
        "model M(x[seq, d]) → [seq, d] = sandwich(x, linear)\n    uses linear : Linear\n"
    )
    close(value(text, x=X), X + X @ weight_values(lowered(text))["linear.W"])


def test_local_functions_see_what_stands_around_them() -> None:
    text = (
        "config\n    c = 3\n"
        "model M(x[seq, d]) → [seq, d] = f(x) - f(2 * x)\n"
        "    where f(t) = t * shift + c\n"
        "          shift = mean[d](x)\n"
    )
    close(value(text, x=X), -X * X.mean(-1, keepdims=True))


def test_a_local_function_with_an_axis() -> None:
    text = (
        "model M(x[seq, d]) → [seq, d] = centred[d](x) + centred[seq](x)\n"
        "    where centred[j](t) = t - mean[j](t)\n"
    )
    close(value(text, x=X), 2 * X - X.mean(-1, keepdims=True) - X.mean(-2, keepdims=True))


def test_a_local_function_binds_an_axis_twice_without_a_rename() -> None:
    text = (
        "from functions import softmax\n"
        "model M(x[seq, d]) → [seq, d] = mix[key = seq](x, x) * c\n"
        "    where mix[key](q, K[key]) = softmax[key](c * (q @[d] K)) @[key] K\n          c = 1 / 2\n"
    )
    close(value(text, x=X), softmax(X @ X.transpose(0, 2, 1) / 2) @ X / 2)


def test_a_local_function_with_a_restricted_axis() -> None:
    text = (
        "model M(x[seq, d]) → [seq, d] = centred[d if x > 0](x)\n    where centred[j](t) = t - mean[j](t)\n"
    )
    mean = np.where(X > 0, X, 0).sum(-1, keepdims=True) / np.maximum((X > 0).sum(-1, keepdims=True), 1)
    close(value(text, x=X), np.where(X > 0, X - mean, 0))


def test_a_local_function_as_an_argument() -> None:
    text = HEADS.split("block")[0] + (
        "model M(x[seq, d], y[key, d]) → [seq, d] = general_attention[key](x, y, y, f)\n"
        "    where f(q, k) = c * (q @[d] k)\n          c = 1 / √d\n"
    )
    y = rng(3).normal(size=(2, 5, 4))
    close(value(text, x=X, y=y), softmax(X @ y.transpose(0, 2, 1) / 2) @ y)
    itself = text.replace(", y[key, d]", "").replace(
        "general_attention[key](x, y, y, f)", "general_attention[key = seq](x, x, x, f)"
    )
    close(value(itself, x=X), softmax(X @ X.transpose(0, 2, 1) / 2) @ X)


def test_binding_an_axis_of_an_instance() -> None:
    text = HEADS + (
        "block LayerNorm(x[d]) → [d] = layer_norm[d](x, γ, β)\n    weights γ, β : [d]\n"
        "model M(x[seq, emb]) → [seq, emb] = LN(x)\n    uses LN : LayerNorm[d = emb]\n"
    )
    text = text.replace("config\n", "config\n    emb = 3\n")
    x, weights = rng(3).normal(size=(2, 5, 3)), weight_values(lowered(text))
    normal = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    assert weights["LN.γ"].shape == (3,)
    close(value(text, x=x), normal * weights["LN.γ"] + weights["LN.β"])


def test_an_instance_with_a_config_of_its_own() -> None:
    """`G : Bert(d = d / 2)` has an axis G.d of its own, and what is derived from d follows."""
    text = (
        "config\n    d = 8\n    head = 2\n    dk = d / head\n    label = 3\n"
        "block Small(x[label]) → [label] = (x @ U) @ V\n"
        "    weights U : [label → head dk]\n            V : [head dk → label]\n"
        "model M(x[seq, label]) → [seq, label] = G(x) + D(x)\n"
        "    uses G : Small(d = d / 2)\n         D : Small\n"
    )
    graph = lowered(text)
    shapes = {one.name: one.shape for one in graph.weights}
    assert shapes["G.U"] == (3, 2, 2)
    assert shapes["D.U"] == (3, 2, 4)
    x, w = rng(3).normal(size=(2, 5, 3)), weight_values(graph)
    wanted = sum(np.einsum("bsl,lhk,hkm->bsm", x, w[f"{n}.U"], w[f"{n}.V"]) for n in "GD")
    close(value(graph, x=x), wanted)


def test_the_axes_of_two_configs_do_not_mix() -> None:
    text = (
        "config\n    d = 8\n    vocab = 5\n"
        "block Table(x[seq]) → [seq, d] = E[vocab = x]\n    weights E : [vocab, d]\n"
        "model M(x[seq]) → [seq, d] = G(x) + D(x)\n    uses G : Table(d = d / 2)\n         D : Table\n"
    )
    assert codes(text) & {"A105", "A106", "A114"}


def test_an_argument_by_declaration() -> None:
    text = (
        "block Scale(x[d], by = 1) → [d] = by * x\n"
        "model M(x[seq, d]) → [seq, d] = twice(x) + once(x)\n"
        "    uses twice : Scale(by = 2)\n         once : Scale\n"
    )
    close(value(text, x=X), 3 * X)


def test_parts_of_a_call() -> None:
    text = HEADS + (
        "block Attend(x[seq, d]) → [seq, d] = A @[key] x[seq → key]\n"
        "    where A = softmax[key](scores)\n          scores = x @[d] x[seq → key]\n"
        "model M(x[seq, d]) → [seq, d] = a, scores[seq, key] = a.scores\n"
        "    where a = attend(x)\n    uses attend : Attend\n"
    )
    from tests.compiler.spec_tools import run

    close(run(text, x=X)["scores"], X @ X.transpose(0, 2, 1))


def test_members_reach_weights_of_instances() -> None:
    text = (
        "config\n    vocab = 5\n    d = 4\n"
        "block Embed(t[seq]) → [seq, d] = E[vocab = t]\n    weights E : [vocab, d]\n"
        "model M(t[seq]) → [seq, vocab] = embed(t) @[d] embed.E\n    uses embed : Embed\n"
    )
    e = rng(2).normal(size=(5, 4))
    t = np.array([[0, 4, 1]])
    close(value(text, {"embed.E": e}, t=t), e[t] @ e.T)


def test_a_defaulted_parameter_may_lack_its_axes_a_required_one_may_not() -> None:
    text = "f[key](x[key], b[key] = 0) = sum[key](x + b)\nmodel M(x[key, d]) → [d] = f(x, {})\n"
    close(value(text.format("1"), x=X), X.sum(1) + 3)
    close(value(text.format("x"), x=X), 2 * X.sum(1))
    assert codes("f[key](x[key], b[key]) = sum[key](x + b)\nmodel M(x[key, d]) → [d] = f(x, 1)\n") == {"A129"}


def test_defaults_are_evaluated_inside() -> None:
    text = (
        "f[d](x[d], n = √d, twice = 2 * n) = x * n * twice\n"
        "model M(x[seq, d]) → [seq, d] = f(x)\nconfig\n    d = 4\n"
    )
    close(value(text, x=X), X * 8)


def test_a_bias_with_a_head_of_its_own_must_be_declared() -> None:
    """Hole 3: passed through `bias[key]` it would be lifted; declared it aligns with the block's heads."""
    text = (
        "from functions import softmax\nconfig\n    d = 4\n    head = 2\n    dk = 2\n    bucket = 7\n"
        "block A(x[seq, d], bias[seq, key, head] = 0) → [seq, key, head] = softmax[key](Q @[dk] K + bias)\n"
        "    where Q = x @ W_Q\n          K = x[seq → key] @ W_K\n    weights W_Q, W_K : [d → head dk]\n"
        "model M(x[seq, d], b[bucket, head]) → [seq, key, head] = a(x, b[bucket = "
        "index(seq)[seq → key] - index(seq) + 3])\n"
        "    uses a : A\n"
    )
    w, b = weight_values(lowered(text)), rng(5).normal(size=(2, 7, 2))
    q, k = (np.einsum("bsd,dhk->bshk", X, w[f"a.W_{n}"]) for n in "QK")
    i = np.arange(3)
    bias = b[:, i[None, :] - i[:, None] + 3]
    close(value(text, x=X, b=b), softmax(np.einsum("bshk,bthk->bsth", q, k) + bias, 2))
    close(
        value(
            text.replace(", b[bucket = index(seq)[seq → key] - index(seq) + 3]", "").replace(
                ", b[bucket, head]", ""
            ),
            x=X,
        ),
        softmax(np.einsum("bshk,bthk->bsth", q, k), 2),
    )


def test_wrong_arguments() -> None:
    base = "f(x[d], y = 1) = x + y\nmodel M(x[seq, d]) → [seq, d] = "
    assert codes(base + "f(x, 1, 2)\n") == {"N224"}
    assert codes(base + "f(x, z = 2)\n") == {"N225"}
    assert codes(base + "f(x, x = x)\n") == {"N226"}
    assert codes(base + "f()\n") == {"N227"}
    assert codes(base + "f\n") & {"N209"}


def test_a_definition_may_not_call_itself() -> None:
    assert codes("f(x) = f(x)\nmodel M(x[seq]) → [seq] = f(x)\n") == {"U705"}


def test_two_axes_of_one_argument_bound_to_two_formals() -> None:
    text = (
        "f[i, j](x[i, j]) = x - mean[i](x) + 2 * mean[j](x)\n"
        "model M(x[seq, d]) → [seq, d] = f[i = d, j = seq](x)\n"
    )
    close(value(text, x=X), X - X.mean(-1, keepdims=True) + 2 * X.mean(-2, keepdims=True))


def test_swapped_names() -> None:
    """The caller's a is the formal b and the other way round."""
    text = (
        "config\n    a = 3\n    b = 4\n"
        "f[a, b](x[a, b]) = x - 2 * mean[a](x)\n"
        "model M(x[a, b]) → [a, b] = f[a = b, b = a](x)\n"
    )
    close(value(text, x=X), X - 2 * X.mean(-1, keepdims=True))
