"""Masks are relations: restricted axes, and the page's 0/−∞ form, with a meaning for an empty row."""

import numpy as np
import pytest

from tests.compiler.spec_tools import Array, close, codes, rng, softmax, value

Q, K, V = rng(1).normal(size=(2, 3, 4)), rng(2).normal(size=(2, 5, 4)), rng(3).normal(size=(2, 5, 4))
SEE = rng(4).random(size=(2, 3, 5)) < 0.6
SEE[0, 1] = False  # a query that may see nothing
HEAD = (
    "from functions import attention, masked_attention, softmax, log_softmax, "
    "causal, causal_mask, window\nconfig\n    d = 4\n"
    "    dk = 4\n"
)
ARGS = "q[seq, dk], k[key, dk], v[key, dk], see[seq, key]"


def masked_softmax(scores: Array, see: Array) -> Array:
    e = np.where(see, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    total = e.sum(-1, keepdims=True)
    result: Array = np.where(total > 0, e / np.where(total > 0, total, 1), 0.0)
    return result


def test_a_restricted_axis() -> None:
    text = HEAD + f"model M({ARGS}) → [seq, dk] = attention[key if see](q, k, v)\n"
    scores = Q @ K.transpose(0, 2, 1) / 2
    close(value(text, q=Q, k=K, v=V, see=SEE), masked_softmax(scores, SEE) @ V)


def test_excluded_entries_are_zero() -> None:
    text = HEAD + "model M(s[seq, key], see[seq, key]) → [seq, key] = softmax[key if see](s)\n"
    scores = Q @ K.transpose(0, 2, 1)
    close(value(text, s=scores, see=SEE), masked_softmax(scores, SEE))


def test_a_restriction_reaches_every_reduction_inside() -> None:
    text = (
        "inner[j](x[j]) = max[j](x)\n"
        "outer[j](x[j]) = sum[j](exp(x - inner[j](x)))\n"
        "model M(s[seq, key], see[seq, key]) → [seq] = outer[key if see](s)\n"
    )
    s = rng(5).normal(size=(2, 3, 5))
    see = SEE | (np.arange(5) == 0)
    top = np.where(see, s, -np.inf).max(-1, keepdims=True)
    close(value(text, s=s, see=see), np.where(see, np.exp(s - top), 0).sum(-1))


def test_restrictions_add_up() -> None:
    text = "f[j](x[j]) = sum[j if x > 0](x)\nmodel M(s[seq, key], see[seq, key]) → [seq] = f[key if see](s)\n"
    s = rng(5).normal(size=(2, 3, 5))
    close(value(text, s=s, see=SEE), np.where(SEE & (s > 0), s, 0).sum(-1))


def test_relations_are_combined_with_and_or_not() -> None:
    text = HEAD + (
        f"model M({ARGS}) → [seq, dk] = attention[key if (see and j ≤ 3) or not j ≠ "
        "4](q, k, v)\n    where j = index(key)\n"
    )
    see = (SEE & (np.arange(5) <= 3)) | (np.arange(5) == 4)
    close(
        value(text, q=Q, k=K, v=V, see=see.astype(float)),
        masked_softmax(Q @ K.transpose(0, 2, 1) / 2, see) @ V,
    )


@pytest.mark.parametrize("see", ["true", "false"])
def test_a_relation_that_config_decides(see: str) -> None:
    text = HEAD + "model M(s[seq, key]) → [seq, key] = softmax[key if all_of](s)\nconfig\n    all_of = true\n"
    s = rng(5).normal(size=(2, 3, 5))
    wanted = softmax(s) if see == "true" else np.zeros_like(s)
    close(value(text, s=s, settings={"all_of": see == "true"}), wanted)


PAGE = HEAD + f"model M({ARGS}) → [seq, dk] = masked_attention[key](q, k, v, 0 if see else -∞)\n"


def test_the_page_form_is_read_as_a_relation() -> None:
    scores = Q @ K.transpose(0, 2, 1) / 2
    close(value(PAGE, q=Q, k=K, v=V, see=SEE), masked_softmax(scores, SEE) @ V)


def test_the_page_form_under_a_learned_temperature() -> None:
    text = (
        "from functions import softmax\n"
        "model M(s[seq, key], see[seq, key], τ[] as τ) → [seq, key] = softmax[key]((s + (0 if see else -∞)) * exp(τ))\n"
    )
    s = rng(5).normal(size=(2, 3, 5))
    close(value(text, s=s, see=SEE, τ=[0.5, -1.0]), masked_softmax(s * np.exp([0.5, -1.0])[:, None, None], SEE))
    assert codes(text.replace("exp(τ)", "τ")) == {"M505"}


def test_the_page_form_by_printed_cases() -> None:
    text = HEAD + "model M(s[seq, key]) → [seq, key] = softmax[key](s + causal_mask)\n"
    s = rng(5).normal(size=(2, 4, 4))
    text = text.replace("s[seq, key]", "x[seq, d]").replace(
        "softmax[key](s + causal_mask)", "softmax[key](x @[d] x[seq → key] + causal_mask)"
    )
    x = rng(5).normal(size=(2, 4, 4))
    close(value(text, x=x), masked_softmax(x @ x.transpose(0, 2, 1), np.tril(np.ones((4, 4), bool))))
    assert s.shape == (2, 4, 4)


def test_the_log_of_a_masked_softmax_is_bottom_again() -> None:
    text = (
        HEAD + "model M(s[seq, key], see[seq, key]) → [seq] = max[key](log(softmax[key](s if see else -∞)))\n"
    )
    s = rng(5).normal(size=(2, 3, 5))
    see = SEE | (np.arange(5) == 2)
    close(value(text, s=s, see=see), np.log(masked_softmax(s, see).max(-1)))


@pytest.mark.parametrize(
    "use",
    [
        "sum[key](m)",
        "tanh(m)",
        "m * m",
        "-m",
        "m * s",
        "1 / m",
        "m @[key] s",
        "mean[key](m)",
        "m",
        "m - m",
        "s / m",
    ],
)
def test_other_uses_of_bottom_are_errors_by_name(use: str) -> None:
    axes = "seq, key" if use.count("[key]") == 0 else "seq"
    text = f"model M(s[seq, key], see[seq, key]) → [{axes}] = {use}\n    where m = s if see else -∞\n"
    assert codes(text) & {"M505", "M502"}


def test_a_large_number_is_no_mask() -> None:
    assert codes("model M(s[seq, key], see[seq, key]) → [seq, key] = s + (0 if see else -1e9)\n") == {"M501"}
    assert codes("model M(s[seq, key]) → [seq, key] = s + -10000\n") == {"M501"}


def test_max_over_nothing() -> None:
    """−∞ inside, which a restricted call turns into 0 at its border only if the axis is still there."""
    text = "model M(s[seq, key], see[seq, key]) → [seq] = exp(max[key if see](s))\n"
    s = rng(5).normal(size=(2, 3, 5))
    wanted = np.exp(np.where(SEE, s, -np.inf).max(-1))
    assert wanted[0, 1] == 0
    close(value(text, s=s, see=SEE), wanted)


def test_a_stable_softmax_by_hand_gives_zeros_for_an_empty_row() -> None:
    text = (
        "stable[j](x) = e / sum[j](e)\n    where e = exp(x - max[j](x))\n"
        "model M(s[seq, key], see[seq, key]) → [seq, key] = stable[key if see](s)\n"
    )
    s = rng(5).normal(size=(2, 3, 5))
    close(value(text, s=s, see=SEE), masked_softmax(s, SEE))


def test_a_number_is_no_condition() -> None:
    assert codes(
        "from functions import softmax\nmodel M(s[seq, key]) → [seq, key] = softmax[key if 1](s)\n"
    ) == {"M504"}
    assert codes("model M(s[seq]) → [seq] = s if s + 1 else 0\n") == {"M504"}


def test_a_truth_value_is_no_number() -> None:
    assert codes("model M(s[seq]) → [seq] = s * (s > 0)\n") == {"M503"}
    assert codes("model M(s[seq]) → [] = sum[seq](s > 0)\n") == {"M503"}


# ------------------------------------------------------------------------------- cases met by others


def test_bl_01_a_row_with_nothing_to_see() -> None:
    text = (
        "from functions import attention\n"
        "model M(q[seq, dk], k[key, dk], v[key, dk], see[seq, key]) → [seq, dk] = "
        "attention[key if see](q, k, v, scale = 1)\n"
    )
    found = value(
        text, q=[[[1.0], [1]]], k=[[[0.0], [1]]], v=[[[10.0], [20]]], see=[[[True, False], [False, False]]]
    )
    close(found, [[[10.0], [0.0]]])
    page = text.replace("attention\n", "softmax\n", 1).replace(
        "attention[key if see](q, k, v, scale = 1)", "softmax[key](q @[dk] k + (0 if see else -∞)) @[key] v"
    )
    close(
        value(
            page,
            q=[[[1.0], [1]]],
            k=[[[0.0], [1]]],
            v=[[[10.0], [20]]],
            see=[[[True, False], [False, False]]],
        ),
        [[[10.0], [0.0]]],
    )


def test_bl_02_polarity_is_in_the_words() -> None:
    x = np.zeros((1, 3, 1))
    v = np.array([[[3.0], [6], [9]]])
    base = (
        "from functions import attention, masked_attention, causal, causal_mask\n"
        "config\n    d = 1\n"
        "model M(x[seq, d], v[seq, d]) → [seq, d] = "
    )
    for body in (
        "attention[key if causal, d](x, x[seq → key], v[seq → key])",
        (
            "attention[key if not i < j, d](x, x[seq → key], v[seq → key])\n"
            "    where i = index(seq)\n          j = index(key)"
        ),
        "masked_attention[key, d](x, x[seq → key], v[seq → key], causal_mask)",
    ):
        close(value(base + body + "\n", x=x, v=v), [[[3.0], [4.5], [6.0]]])


def test_bl_02_a_relation_is_not_added_to_scores() -> None:
    text = (
        "from functions import masked_attention, causal\nconfig\n"
        "    d = 1\n"
        "model M(x[seq, d]) → [seq, d] = masked_attention[key, d](x, x[seq → key], "
        "x[seq → key], causal)\n"
    )
    assert codes(text) == {"M503"}


def test_bl_03_queries_at_the_end_of_the_keys() -> None:
    text = (
        "from functions import attention\nconfig\n    start = 3\n    dk = 1\n"
        "model M(q[seq, dk], k[src, dk], v[src, dk]) → [seq, dk] = attention[key if "
        "j ≤ i + start](q, k[src → key], v[src → key])\n"
        "    where i = index(seq)\n          j = index(key)\n"
    )
    k, v = np.array([[[0.0], [1], [0], [1], [0]]]), np.arange(1.0, 6)[None, :, None]
    close(value(text, q=[[[1.0], [2]]], k=k, v=v), [[[2.7310585786300049], [3.0]]], 1e-9)
    close(value(text, q=[[[0.0], [0]]], k=k, v=v), [[[2.5], [3.0]]])


def test_bl_04_a_bias_before_and_after_the_division() -> None:
    base = "from functions import softmax\nconfig\n    d = 4\nmodel M(q[d], k[key, d], b[key]) → [key] = "
    q, k, b = np.array([[2.0, 0, 0, 0]]), np.eye(4)[None, :2], np.array([[0.0, -3]])
    close(
        value(base + "softmax[key]((q @[d] k + b) / √d)\n", q=q, k=k, b=b), [[0.92414182, 0.07585818]], 1e-7
    )
    close(value(base + "softmax[key](q @[d] k / √d + b)\n", q=q, k=k, b=b), [[0.98201379, 0.01798621]], 1e-7)


def test_bl_05_padding_is_by_example_even_if_sizes_coincide() -> None:
    text = (
        "from functions import attention\nconfig\n    head = 2\n    dk = 1\n"
        "model M(x[seq], v[seq]) → [seq, head] = attention[key](z, z[seq → key], v[seq → key][→ head])\n"
        "    where z = (0 * x)[→ head][→ dk]\n"
    )
    found = value(text, x=np.zeros((2, 2)), v=[[1.0, 2], [3, 4]], attention_mask=[[1, 0], [1, 1]])
    close(found, [[[1.0, 1], [0, 0]], [[3.5, 3.5], [3.5, 3.5]]])
