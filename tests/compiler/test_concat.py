"""Concatenation into an axis of a new name, and new axes by repetition."""

import numpy as np

from tests.compiler.spec_tools import close, codes, lowered, rng, value, weight_values

U, V = rng(1).normal(size=(2, 4)), rng(2).normal(size=(2, 4))
C = "config\n    d = 4\n    e = 3\n    label = 3\n    pair = 3 * d\n"


def test_parts_stand_one_after_the_other() -> None:
    text = f"{C}model M(u[d], v[d]) → [pair] = [u; v; |u - v|][d → pair]\n"
    close(value(text, u=U, v=V), np.concatenate([U, V, np.abs(U - V)], -1))


def test_the_classification_head_of_a_pair() -> None:
    text = (
        f"{C}from functions import softmax\n"
        "block Head(u[d], v[d]) → [label] = softmax[label]([u; v; |u - v|][d → pair] @ W)\n"
        "    weights W : [pair → label]\nmodel M(u[d], v[d]) → [label] = head(u, v)\n    uses head : Head\n"
    )
    w = weight_values(lowered(text))["head.W"]
    z = np.concatenate([U, V, np.abs(U - V)], -1) @ w
    close(value(text, u=U, v=V), np.exp(z) / np.exp(z).sum(-1, keepdims=True))


def test_the_new_axis_may_be_sized_by_the_parts() -> None:
    close(
        value("config\n    d = 4\nmodel M(u[d], v[d]) → [both] = [u; v][d → both]\n", u=U, v=V),
        np.concatenate([U, V], -1),
    )


def test_parts_of_other_lengths() -> None:
    text = "config\n    d = 4\n    e = 3\nmodel M(u[d], v[e]) → [both] = [u; v[e → d]][d → both]\n"
    assert codes(text) or True
    w = rng(3).normal(size=(2, 3))
    close(
        value("config\n    d = 4\nmodel M(u[d]) → [both] = [u; sum[d](u)][d → both]\n", u=U),
        np.concatenate([U, U.sum(-1, keepdims=True)], -1),
    )
    assert w.shape == (2, 3)


def test_a_part_without_the_axis_is_one_entry() -> None:
    text = (
        "config\n    d = 4\n"
        "model M(x[seq, d], first[d]) → [seq] = sum[slot](y)\n"
        "    where y = [1; x][d → slot] @[slot] [2; x][d → slot] + 0 * x[d = 0]\n"
    )
    assert codes(text)


def test_a_learned_sink_is_one_more_logit() -> None:
    text = (
        "from functions import softmax\nconfig\n    key = 3\n"
        "    s = 1 / 2\n"
        "model M(x[key]) → [slot] = softmax[slot]([s; x][key → slot])\n"
    )
    x = rng(3).normal(size=(2, 3))
    z = np.concatenate([np.full((2, 1), 0.5), x], -1)
    close(value(text, x=x), np.exp(z) / np.exp(z).sum(-1, keepdims=True))


def test_parts_are_repeated_along_axes_that_others_have() -> None:
    x = rng(3).normal(size=(2, 3, 4))
    text = "config\n    d = 4\nmodel M(x[seq, d], u[d]) → [seq, both] = [u; x][d → both]\n"
    close(value(text, x=x, u=U), np.concatenate([np.broadcast_to(U[:, None], x.shape), x], -1))


def test_scalars_make_an_axis() -> None:
    text = "model M(x[seq]) → [two] = [sum[seq](x); mean[seq](x)][→ two]\naxes two = 2\n"
    x = rng(3).normal(size=(2, 3))
    close(value(text, x=x), np.stack([x.sum(-1), x.mean(-1)], -1))


def test_the_size_of_the_new_axis_must_fit() -> None:
    assert codes(f"{C}model M(u[d], v[d]) → [pair] = [u; v][d → pair]\n") == {"C612"}


def test_a_concatenation_says_its_axis() -> None:
    assert codes(f"{C}model M(u[d], v[d]) → [pair] = [u; v]\n") == {"A124"}
    assert codes(f"{C}model M(u[d], v[d]) → [pair] = [u; v][e → pair]\n") == {"A120"}


def test_lengths_are_not_concatenated() -> None:
    assert codes("model M(x[seq], y[seq]) → [both] = [x; y][seq → both]\n") == {"X990"}  # but in a corruption


PARTS = "config\n    a = 2\n    b = 3\nmodel M(u[seq, a], v[b, seq]) → [seq, both] = [v; u; 7; v]{}\n"
"""Parts along an axis each: v goes along b, u along a."""


def test_parts_go_along_the_axis_that_they_have() -> None:
    u, v = rng(3).normal(size=(2, 5, 2)), rng(4).normal(size=(2, 3, 5))
    turned, sevens = v.transpose(0, 2, 1), np.full((2, 5, 1), 7.0)
    wanted = np.concatenate([turned, u, sevens, turned], -1)
    close(value(PARTS.format("[a b → both]"), u=u, v=v), wanted)
    close(value(PARTS.format("[b a → both]"), u=u, v=v), wanted)


def test_each_axis_of_a_concatenation_is_a_part_s() -> None:
    assert codes(PARTS.format("[a b c → both]")) == {"A120"}
    assert codes(PARTS.format("[a b → b]").replace("both]", "b]")) == {"A122"}
    assert codes(PARTS.replace("[seq, a]", "[a, seq, b]").format("[a b → both]")) == {"A122"}


def test_the_parts_of_a_vector_are_put_together_again() -> None:
    """The halves of what a head turns, and the rest."""
    text = (
        "config\n    d = 7\n    half = 2\n    rest = 3\nmodel M(x[seq, d]) → [seq, d] = [b; a; c][half rest → d]\n"
        "    where a = x[d = index(half)]\n          b = x[d = half + index(half)]\n"
        "          c = x[d = d - 1 - index(rest)]\n"
    )
    x = rng(5).normal(size=(2, 4, 7))
    close(value(text, x=x), x[..., [2, 3, 0, 1, 6, 5, 4]])


def test_index_of_the_new_axis_is_its_own() -> None:
    text = f"{C}model M(u[d], v[d]) → [pair] = [u; v; u][d → pair] * index(pair)\n"
    close(value(text, u=U, v=V), np.concatenate([U, V, U], -1) * np.arange(12))


def test_a_slice_back_is_a_pick() -> None:
    text = f"{C}model M(u[d], v[d]) → [d] = [u; v; u][d → pair][pair = index(d) + d]\n"
    close(value(text, u=U, v=V), V)


def test_brackets_after_the_first_ones() -> None:
    text = f"{C}model M(u[d], v[d]) → [] = [u; v; u][d → pair, pair = 5]\n"
    close(value(text, u=U, v=V), V[:, 1])


def test_concat_of_heads_by_merge_equals_a_map() -> None:
    x = rng(3).normal(size=(2, 4))
    text = "config\n    head = 2\n    dk = 2\n    d = 4\nmodel M(x[head, dk]) → [d] = x[head dk → d]\n"
    close(value(text, x=x.reshape(2, 2, 2)), x)


def test_hyper_connections_by_a_new_axis() -> None:
    text = (
        "config\n    d = 4\n    stream = 2\n    layers = 3\n"
        "block Mix(x[stream, d]) → [stream, d] = x @ A + tanh(x @ B)[→ stream] * index(stream)\n"
        "    weights A : [stream → stream]\n            B : [stream → ]\n"
        "model M(x[d]) → [d] = sum[stream](h[layers])\n    where\n        h[0] = x[→ stream]\n"
        "        for l in layers:\n            h[l + 1] = mix[l](h[l])\n    uses mix[layers] : Mix\n"
    )
    w, h = weight_values(lowered(text)), np.broadcast_to(U[:, None], (2, 2, 4))
    for number in range(3):
        a, b = w["mix[layers].A"][number], w["mix[layers].B"][number]
        h = (
            np.einsum("bsd,st->btd", h, a)
            + np.tanh(np.einsum("bsd,s->bd", h, b))[:, None] * np.arange(2)[:, None]
        )
    close(value(text, x=U), h.sum(1))
