"""Every formula of specs/lib/functions.formula against plain NumPy, and the numeric cases that touch them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.spec_tools import Array, close, rng, softmax, value
from transformula.compiler.driver import load_module

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
Y = rng(2).normal(size=(2, 5, 4))  # [batch, key, d]
P = softmax(rng(3).normal(size=(2, 3, 4)))
HEAD = (
    "from functions import {}\n"
    "config\n    d = 4\n    dk = 4\n    span = 4\n    offset = 9\n    place = 7\n    half = 2\n"
    "    one = 1\n    pass = 2\n"
)
erf = np.vectorize(math.erf)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def normal(x: Array) -> Array:
    result: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return result


ENTRYWISE: dict[str, Callable[[Array], Array]] = {
    "sigmoid": sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "Φ": lambda x: (1 + erf(x / np.sqrt(2))) / 2,
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("name", ENTRYWISE)
def test_activations(name: str) -> None:
    close(
        value(HEAD.format(name) + f"model M(x[seq, d]) → [seq, d] = {name}(x)\n", x=3 * X),
        ENTRYWISE[name](3 * X),
    )


def angles(at: Array, width: int, base: float) -> Array:
    result: Array = at[:, None] / base ** (np.arange(width) / width)
    return result


def rotated(x: Array) -> Array:
    half = x.shape[-1] // 2
    a = angles(np.arange(3.0), half, 100.0)
    first, second = x[..., :half], x[..., half:]
    result: Array = np.concatenate(
        [first * np.cos(a) - second * np.sin(a), second * np.cos(a) + first * np.sin(a)], -1
    )
    return result


SCORES = X @ Y.transpose(0, 2, 1)
R = rng(5).normal(size=(2, 9, 4))
OFFSET = np.arange(5)[None, :] - np.arange(3)[:, None]
RELATIVE = SCORES + np.einsum("bsd,bstd->bst", X, R[:, OFFSET + 4])
BIAS = rng(6).normal(size=(2, 3, 5))

ROWS: dict[str, tuple[str, str, dict[str, Any], Array]] = {
    "softmax": ("x[seq, d]", "softmax[d](x)", {"x": X}, softmax(X)),
    "log_softmax": ("x[seq, d]", "log_softmax[d](x)", {"x": X}, np.log(softmax(X))),
    "layer_norm": (
        "x[seq, d], g[d], b[d]",
        "layer_norm[d](x, g, b, 1e-5)",
        {"x": X, "g": X[:, 0], "b": X[:, 1]},
        normal(X) * X[:, :1] + X[:, 1:2],
    ),
    "rms_norm": (
        "x[seq, d], g[d]",
        "rms_norm[d](x, g, 1e-5)",
        {"x": X, "g": X[:, 0]},
        X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * X[:, :1],
    ),
    "residual": ("x[seq, d]", "residual(x, tanh)", {"x": X}, X + np.tanh(X)),
    "attention": (
        "x[seq, d], y[key, d], b[seq, key]",
        "attention[key, d](x, y, y, b)",
        {"x": X, "y": Y, "b": BIAS},
        softmax(SCORES / 2 + BIAS) @ Y,
    ),
    "masked_attention": (
        "x[seq, d], y[key, d]",
        "masked_attention[key, d](x, y, y, 0 * (x @[d] y))",
        {"x": X, "y": Y},
        softmax(SCORES / 2) @ Y,
    ),
    "general_attention": (
        "x[seq, d], y[key, d]",
        "general_attention[key](x, y, y, dot)",
        {"x": X, "y": Y},
        softmax(SCORES) @ Y,
    ),
    "relative_attention": (
        "x[seq, d], y[key, d], r[offset, d]",
        "relative_attention[key, d](x, y, y, r, index(key) - index(seq), span)",
        {"x": X, "y": Y, "r": R},
        softmax(RELATIVE / 2) @ Y,
    ),
    "causal": ("x[seq, d]", "sum[key if causal](x[seq → key])", {"x": X}, np.cumsum(X, 1)),
    "window": (
        "x[seq, d]",
        "sum[key if window(2)](x[seq → key])",
        {"x": X},
        X + np.pad(X, ((0, 0), (1, 0), (0, 0)))[:, :3],
    ),
    "causal_mask": (
        "x[seq, d]",
        "softmax[key](x @[d] x[seq → key] + causal_mask) @[key] x[seq → key]",
        {"x": X},
        np.zeros_like(X),
    ),
    "sinusoidal": (
        "x[seq, d]",
        "x + sinusoidal",
        {"x": X},
        X
        + np.stack(
            [
                np.sin(np.arange(3)),
                np.cos(np.arange(3)),
                np.sin(np.arange(3) / 100),
                np.cos(np.arange(3) / 100),
            ],
            -1,
        ),
    ),
    "learned": (
        "x[seq, d], p[place, d]",
        "x + learned[position = place](p, index(seq))",
        {"x": X, "p": rng(4).normal(size=(2, 7, 4))},
        X + rng(4).normal(size=(2, 7, 4))[:, :3],
    ),
    "turned": (
        "x[seq, d], a[seq, half]",
        "turned[d, half](x, a)",
        {"x": X, "a": np.stack([angles(np.arange(3.0), 2, 100.0)] * 2)},
        rotated(X),
    ),
    "partly_turned": (
        "x[seq, d], a[seq, one]",
        "partly_turned[d, one, pass](x, a, 3)",
        {"x": X, "a": np.stack([angles(np.arange(3.0), 1, 100.0)] * 2)},
        np.concatenate([3 * rotated(X[..., :2]), X[..., 2:]], -1),
    ),
    "rope": ("x[seq, d]", "rope[d](x, index(seq), 100)", {"x": X}, rotated(X)),
    "shift": (
        "x[seq, d]",
        "shift[seq](x, 1, 7)",
        {"x": X},
        np.concatenate([X[:, 1:], np.full((2, 1, 4), 7.0)], 1),
    ),
    "clamp": ("x[seq, d]", "clamp(x, -1 / 2, 1)", {"x": X}, np.clip(X, -0.5, 1)),
    "cross_entropy": (
        "x[seq, d], p[seq, d]",
        "cross_entropy[d](p, softmax[d](x))[→ d]",
        {"x": X, "p": P},
        np.repeat(-(P * np.log(softmax(X))).sum(-1, keepdims=True), 4, -1),
    ),
    "nll": (
        "x[seq, d]",
        "nll[d](x, index(seq))[→ d]",
        {"x": X},
        np.repeat(-np.log(softmax(X))[:, np.arange(3), np.arange(3)][..., None], 4, -1),
    ),
    "soft_nll": (
        "x[seq, d], p[seq, d]",
        "soft_nll[d](x, p)[→ d]",
        {"x": X, "p": P},
        np.repeat(-(P * np.log(softmax(X))).sum(-1, keepdims=True), 4, -1),
    ),
    "smoothed_nll": (
        "x[seq, d]",
        "smoothed_nll[d](x, index(seq), 0.3)[→ d]",
        {"x": X},
        np.repeat(
            -0.7 * np.log(softmax(X))[:, np.arange(3), np.arange(3)][..., None]
            - 0.3 * np.log(softmax(X)).mean(-1, keepdims=True),
            4,
            -1,
        ),
    ),
    "weighted_mean": (
        "x[seq, d], p[seq, d]",
        "weighted_mean[seq, d](x, p)[→ seq][→ d]",
        {"x": X, "p": P},
        np.broadcast_to((X * P).sum((1, 2), keepdims=True) / P.sum((1, 2), keepdims=True), X.shape),
    ),
    "log_1p_sum": (
        "x[seq, d]",
        "log_1p_sum[seq, d](x)[→ seq][→ d]",
        {"x": X},
        np.broadcast_to(np.log1p(np.exp(X).sum((1, 2), keepdims=True)), X.shape),
    ),
    "binary_cross_entropy": (
        "x[seq, d], p[seq, d]",
        "binary_cross_entropy(x, p)",
        {"x": X, "p": P},
        -(P * np.log(sigmoid(X)) + (1 - P) * np.log(1 - sigmoid(X))),
    ),
    "cosine": (
        "x[seq, d]",
        "cosine[d](x, x[seq = 0])[→ d]",
        {"x": X},
        np.repeat(
            (
                (X @ X[:, 0][..., None])[..., 0]
                / np.linalg.norm(X, axis=-1)
                / np.linalg.norm(X[:, :1], axis=-1)
            )[..., None],
            4,
            -1,
        ),
    ),
    "dot": ("x[seq, d]", "dot[d](x, x)[→ d]", {"x": X}, np.repeat((X * X).sum(-1, keepdims=True), 4, -1)),
    "euclidean": (
        "x[seq, d]",
        "euclidean[d](x, 2 * x)[→ d]",
        {"x": X},
        np.repeat(np.linalg.norm(X, axis=-1)[..., None], 4, -1),
    ),
    "manhattan": (
        "x[seq, d]",
        "manhattan[d](x, 2 * x)[→ d]",
        {"x": X},
        np.repeat(np.abs(X).sum(-1, keepdims=True), 4, -1),
    ),
}
ROWS["causal_mask"] = (
    *ROWS["causal_mask"][:3],
    softmax(np.where(np.tri(3, dtype=bool), X @ X.transpose(0, 2, 1), -np.inf)) @ X,
)
OTHER_NAMES = {"softmax": ["cross_entropy", "causal_mask"], "dot": ["general_attention"]}


@pytest.mark.parametrize("name", ROWS)
def test_formulas(name: str) -> None:
    params, body, inputs, wanted = ROWS[name]
    names = [name, *(other for other, users in OTHER_NAMES.items() if name in users)]
    close(
        value(HEAD.format(", ".join(names)) + f"model M({params}) → [seq, d] = {body}\n", **inputs),
        wanted,
        1e-10,
    )


def test_every_formula_is_tested() -> None:
    assert set(load_module("lib/functions").entries) == set(ENTRYWISE) | set(ROWS)


# ------------------------------------------------------------------------------- cases met by others


def number(imports: str, params: str, result: str, body: str, **inputs: Any) -> Array:
    found: Array = value(
        f"from functions import {imports}\nmodel M({params}) → {result} = {body}\n", **inputs
    )[0]
    return found


def test_bl_10_eps_sits_inside_the_root() -> None:
    one, none = [[1.0, 1]], [[0.0, 0]]
    close(
        number(
            "layer_norm",
            "x[d], g[d], b[d]",
            "[d]",
            "layer_norm[d](x, g, b, 1e-5)",
            x=[[1e-3, -1e-3]],
            g=one,
            b=none,
        ),
        [0.30151134, -0.30151134],
        1e-8,
    )
    close(
        number("rms_norm", "x[d], g[d]", "[d]", "rms_norm[d](x, g, 1e-5)", x=[[3e-3, 4e-3]], g=one),
        [0.63245553, 0.84327404],
        1e-8,
    )
    close(
        number(
            "layer_norm", "x[d], g[d], b[d]", "[d]", "layer_norm[d](x, g, b, 1e-5)", x=none, g=one, b=none
        ),
        [0.0, 0.0],
    )
    close(number("rms_norm", "x[d], g[d]", "[d]", "rms_norm[d](x, g, 1e-5)", x=none, g=one), [0.0, 0.0])


def test_bl_13_a_norm_without_shift() -> None:
    wanted = [-1.34163542, -0.89442361, 0.44721181, 1.34163542]
    x, g = [[1.0, 2, 3, 4]], [[1.0, 2, 1, 1]]
    close(number("layer_norm", "x[d], g[d]", "[d]", "layer_norm[d](x, g, 0, 1e-5)", x=x, g=g), wanted, 1e-8)
    text = (
        "from functions import layer_norm\nconfig\n    d = 4\n"
        "    shift = false\n"
        "block Norm(x[d]) → [d] = layer_norm[d](x, γ, β, 1e-5)\n"
        "    weights γ : [d] ~ 1\n            β : [d] ~ 0 if shift\n"
        "model M(x[d]) → [d] = n(x)\n    uses n : Norm\n"
    )
    close(value(text, {"n.γ": g[0]}, x=x)[0], wanted, 1e-8)


def test_bl_14_two_forms_of_gelu() -> None:
    x = [[1.0, 3.0, -3.0]]
    exact, approximate = (number(n, "x[d]", "[d]", f"{n}(x)", x=x) for n in ("gelu", "gelu_tanh"))
    close(exact[0], 0.8413447460685429)
    close(approximate[0], 0.8411919906082768)
    close(exact[2], -3 * 0.0013498980316300957, 1e-9)


def test_bl_15_the_literal_softmax_overflows_in_the_naive_reference() -> None:
    """exp(1000) is inf: the meaning is the textbook's; the stable form is a pass's business."""
    close(number("softmax", "x[d]", "[d]", "softmax[d](x)", x=[[0.0, 0.0, math.log(2)]]), [0.25, 0.25, 0.5])


def test_bl_22_t5_buckets() -> None:
    def text(two_sided: str, count: int, reach: int) -> str:
        return (
            f"config\n    n = {count}\n    far = {reach}\n    both = {two_sided}\n"
            "bucket_of(r, m, low) = low + (a if a < e else min(m - 1, e + floor(log(a "
            "/ e) / log(far / e) * (m - e))))\n"
            "    where e = m // 2\n          a = |r| if both else max(-r, 0)\n"
            "model M(r[seq]) → [seq] = bucket_of(r, n / 2 if both else n, n / 2 if both "
            "and_positive else 0)\n"
        ).replace("n / 2 if both and_positive else 0", "(n / 2 if r > 0 else 0) if both else 0")

    rel = [0, 1, -1, 7, 8, -7, -8, -15, -16, 15, 16, 31, 32, -127, -128, 1000]
    wanted = [0, 17, 1, 23, 24, 7, 8, 9, 10, 25, 26, 27, 28, 15, 15, 31]
    close(value(text("true", 32, 128), r=[rel])[0], np.array(wanted, float))
    close(
        value(text("false", 4, 8), r=[[0, -1, -2, -3, -4, -9, 3]])[0], np.array([0, 1, 2, 2, 3, 3, 0], float)
    )


def test_bl_23_both_forms_of_the_third_term() -> None:
    text = (
        "config\n    k = 2\n    rel = 4\n    d = 1\n"
        "model M(q[seq, d], c[seq, d], kr[rel, d], qr[rel, d]) → [seq, key] = q @[d] "
        "c_ + (q @[d] kr)[rel = δ] + (c_ @[d] qr)[rel = {}]\n"
        "    where c_ = c[seq → key]\n"
        "          δ = min(max(i - j + k, 0), 3)\n"
        "          back = min(max(j - i + k, 0), 3)\n"
        "          i = index(seq)\n          j = index(key)\n"
    )
    inputs: dict[str, Any] = {
        "q": [[[1.0], [2], [3]]],
        "c": [[[1.0], [1], [2]]],
        "kr": [[[0.1], [0.2], [0.3], [0.4]]],
        "qr": [[[1.0], [2], [3], [4]]],
    }
    page, paper = (
        text.format("δ").replace("          back = min(max(j - i + k, 0), 3)\n", ""),
        text.format("back"),
    )
    close(value(page, **inputs)[0], [[4.3, 3.2, 4.1], [6.8, 5.6, 8.4], [8.2, 8.2, 12.9]])
    close(value(paper, **inputs)[0], [[4.3, 5.2, 10.1], [4.8, 5.6, 12.4], [5.2, 6.2, 12.9]])


RANKING = """\
from functions import nll
config
    scale = 20
    column = {columns}
objective mnr(S[batch, column]) → loss = mean[batch](nll[column](scale * S, index(batch)))
"""


def test_bl_29_multiple_negatives_ranking() -> None:
    pairs = value(RANKING.format(columns=2), S=[[0.9, 0.1], [0.2, 0.8]])
    close(pairs, 3.12836e-06, 1e-10)
    hard = value(RANKING.format(columns=4), S=[[0.9, 0.1, 0.85, 0.0], [0.2, 0.8, 0.1, 0.75]])
    close(hard, 0.31326428, 1e-8)


def test_bl_32_cosine_with_a_zero_vector() -> None:
    def cosine(u: list[float], v: list[float]) -> float:
        return float(
            value(
                (
                    "from functions import cosine\nconfig\n    d = 2\n"
                    "model M(u[d], v[d]) → [] = cosine[d](u, v)\n"
                ),
                u=[u],
                v=[v],
            )[0]
        )

    assert cosine([0, 0], [1, 2]) == 0
    assert cosine([0, 0], [0, 0]) == 0
    assert abs(cosine([3, 4], [3, 4]) - 1) < 1e-12
    assert abs(cosine([1, 0], [-2, 0]) + 1) < 1e-12


def test_bl_26_label_smoothing_on_selected_items_only() -> None:
    text = (
        "from functions import log_softmax\nconfig\n    vocab = 3\n    ε = 0.3\n"
        "objective O(z[batch, vocab], y[batch] as labels) → = mean[batch if y ≠ -100]((1 "
        "- ε) * hard + ε * smooth)\n"
        "    where hard = -l[vocab = y]\n"
        "          smooth = -mean[vocab](l)\n"
        "          l = log_softmax[vocab](z)\n"
    )
    close(value(text, z=[[2.0, 0, 0], [0, 0, 5]], labels=[0, -100]), 0.63954477, 1e-8)


def test_bl_28_the_discriminator_of_electra() -> None:
    text = (
        "objective O(p[batch, seq] as input_ids, c[batch, seq], x[batch, seq]) → sum "
        "= sum[batch, seq](l), mean = mean[batch, seq](l)\n"
        "    where l = -log(p) if c == x else -log(1 - p)\n"
    )
    from tests.compiler.spec_tools import run

    ids = np.array([[5, 6, 7, 8]])
    found = run(
        text,
        input_ids=[[0.9, 0.2, 0.6, 0.5]],
        c=ids,
        x=ids + np.array([[0, 1, 0, 0]]),
        attention_mask=[[1, 1, 1, 0]],
    )
    close(found["sum"], 0.83932969, 1e-8)
    close(found["mean"], 0.27977656, 1e-8)


def test_bl_21_grouped_queries() -> None:
    text = (
        "from functions import attention\nconfig\n    kv = 2\n"
        "    heads = 4\n    group = heads / kv\n    dk = 1\n"
        "model M(q[seq, kv, group, dk], k[key, kv, dk], v[key, kv, dk]) → [seq, kv, "
        "group, dk] = attention[key](q, k, v)\n"
    )
    found = value(
        text, q=np.zeros((1, 1, 2, 2, 1)), k=np.zeros((1, 1, 2, 1)), v=np.array([[[[10.0], [20.0]]]])
    )
    close(found.ravel(), [10.0, 10, 20, 20])
    from tests.compiler.spec_tools import codes

    assert codes(text, None, None, heads=6, kv=4) == {"C601"}
