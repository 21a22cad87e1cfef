"""Draws: named streams; nothing but seed, site, example and logical position decides a draw."""

import numpy as np
import pytest

from tests.compiler.spec_tools import Array, close, codes, lowered, rng, value
from transformula import TransformulaError
from transformula.compiler import draws

X = rng(1).normal(size=(3, 5))
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]], bool)
LEFT = MASK[:, ::-1]


def moved(x: Array, mask: Array) -> Array:
    """The real entries of X under another padding; 99 elsewhere."""
    result = np.full(mask.shape, 99.0)
    for row in range(len(x)):
        result[row, mask[row]] = x[row, : mask[row].sum()]
    return result


DRAWS = {
    "bernoulli": "1 if bernoulli[seq](0.5) else 0",
    "by a value": "1 if bernoulli(1 / (1 + exp(-x))) else 0",
    "uniform": "uniform[seq](0, 1)",
    "randint": "randint[seq](0, 10)",
    "sample": "sample[n](x[→ n] * index(n))",
    "dropout": "dropout(x, 0.4)",
}


@pytest.mark.parametrize("body", DRAWS.values(), ids=DRAWS)
def test_padding_and_the_other_examples_change_no_draw(body: str) -> None:
    graph = lowered(f"config\n    n = 3\nmodel M(x[seq]) → [seq] = {body}\n")
    right = value(graph, x=moved(X, MASK), attention_mask=MASK, training=True, seed=4)
    left = value(graph, x=moved(X, LEFT), attention_mask=LEFT, training=True, seed=4)
    full = value(graph, x=X, training=True, seed=4)
    for row, count in enumerate(MASK.sum(1)):
        close(left[row, LEFT[row]], right[row, MASK[row]], 0)
        close(right[row, :count], full[row, :count], 0)
    assert not np.array_equal(full[0], full[1])


@pytest.mark.parametrize("body", DRAWS.values(), ids=DRAWS)
def test_the_seed_decides(body: str) -> None:
    graph = lowered(f"config\n    n = 3\nmodel M(x[seq]) → [seq] = {body}\n")
    x = np.ones((4, 50))
    one, same, other = (value(graph, x=x, training=True, seed=seed) for seed in (1, 1, 2))
    close(one, same, 0)
    assert not np.array_equal(one, other)


def test_draws_are_made_at_evaluation_too_but_dropout_is_not() -> None:
    close(value("model M(x[seq]) → [seq] = dropout(x, 0.5)\n", x=X), X, 0)
    drawn = value("model M(x[seq]) → [seq] = 1 if bernoulli[seq](0.5) else 0\n", x=np.ones((1, 200)))
    assert 60 < drawn.sum() < 140


def test_dropout_keeps_the_mean_and_scales() -> None:
    found = value("model M(x[seq]) → [seq] = dropout(x, 0.25)\n", x=np.ones((2, 5000)), training=True)
    assert set(np.unique(found).round(12)) == {0.0, round(4 / 3, 12)}
    assert abs(found.mean() - 1) < 0.05


def test_a_dropout_rate_of_zero_is_nothing() -> None:
    graph = lowered("model M(x[seq]) → [seq] = dropout(x, 0)\n")
    assert not [one for one in graph.nodes() if one.op == "random"]


@pytest.mark.parametrize("rate", ["-0.1", "1", "2"])
def test_a_dropout_rate_is_a_share(rate: str) -> None:
    assert codes(f"model M(x[seq]) → [seq] = dropout(x, {rate})\n") == {"D801"}


def test_each_site_has_a_stream_of_its_own() -> None:
    text = "model M(x[seq]) → [seq] = uniform[seq](0, 1) - uniform[seq](0, 1)\n"
    assert np.abs(value(text, x=X)).min() > 0


def test_one_equation_is_one_draw() -> None:
    close(value("model M(x[seq]) → [seq] = u - u\n    where u = uniform[seq](0, 1)\n", x=X), np.zeros_like(X))


def test_each_call_of_a_formula_draws_anew() -> None:
    text = "noise(x[d]) = x + uniform(0, 1)\nmodel M(x[d]) → [d] = noise(x) - noise(x)\nconfig\n    d = 5\n"
    assert np.abs(value(text, x=X)).min() > 0


def test_each_instance_and_each_layer_draws_anew() -> None:
    text = (
        "config\n    layers = 4\nblock Noise(x[seq]) → [seq] = x + uniform[seq](0, 1)\n"
        "model M(x[seq]) → [seq] = {}\n    where\n"
        "        h[0] = 0 * x\n        for l in layers:\n"
        "            h[l + 1] = noise[l](h[l])\n"
        "    uses noise[layers] : Noise\n"
    )
    first = value(text.format("h[1]"), x=X)
    total = value(text.format("h[layers]"), x=X)
    assert np.abs(total - 4 * first).min() > 1e-6
    two = (
        "block Noise(x[seq]) → [seq] = uniform[seq](0, 1)\n"
        "model M(x[seq]) → [seq] = a(x) - b(x)\n"
        "    uses a, b : Noise\n"
    )
    assert np.abs(value(two, x=X)).min() > 0


def test_brackets_name_the_visible_axes_of_a_draw() -> None:
    whole = value(
        "config\n    d = 4\nmodel M(x[seq, d]) → [seq, d] = x * (1 if bernoulli[seq](0.5) else 0)\n",
        x=np.ones((2, 20, 4)),
    )
    assert (whole.min(-1) == whole.max(-1)).all()
    assert {0.0, 1.0} == set(whole.ravel())


def test_a_draw_without_axes_is_one_per_example() -> None:
    """Stochastic depth: one draw for each example, none for its tokens."""
    found = value("model M(x[seq]) → [seq] = x if bernoulli(0.5) else 0 * x\n", x=np.ones((40, 3)))
    assert (found.min(1) == found.max(1)).all()
    assert 5 < found[:, 0].sum() < 35


def test_lifted_axes_draw_anew() -> None:
    text = (
        "noise(x[d]) = x + uniform(0, 1)\nmodel M(x[seq, d]) → [seq, d] = noise(x) - x\nconfig\n    d = 2\n"
    )
    found = value(text, x=np.zeros((1, 6, 2)))
    close(found[..., 0], found[..., 1])
    assert len(np.unique(found[0, :, 0])) == 6


def test_sample_follows_the_logits() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.7]))
    text = "config\n    vocab = 3\nmodel M(x[seq, vocab]) → [seq] = sample[vocab](x)\n"
    found = value(text, x=np.broadcast_to(logits, (4, 2000, 3)))
    close(np.bincount(found.astype(int).ravel()) / 8000, [0.1, 0.2, 0.7], 0.03)


def test_a_sample_of_what_is_undefined_is_undefined() -> None:
    text = "config\n    vocab = 3\nmodel M(x[seq, vocab]) → [seq] = sample[vocab](x)\n"
    logits = np.zeros((1, 4, 3))
    logits[0, 1, 2] = np.nan
    assert value(text, x=np.zeros((1, 4, 3))).shape == (1, 4)
    with pytest.raises(TransformulaError, match="an entry that does not exist"):
        value(text, x=logits)


def test_sample_never_chooses_what_is_impossible() -> None:
    text = "config\n    vocab = 3\nmodel M(x[seq, vocab]) → [seq] = sample[vocab](x)\n"
    with np.errstate(divide="ignore"):
        logits = np.log(np.array([0.0, 1.0, 0.0]))
    close(value(text, x=np.broadcast_to(logits, (1, 50, 3))), np.ones((1, 50)))


def test_randint_is_half_open() -> None:
    found = value("model M(x[seq]) → [seq] = randint[seq](2, 5)\n", x=np.ones((1, 500)))
    assert set(found.ravel()) == {2.0, 3.0, 4.0}


def test_masked_language_modelling_by_draws() -> None:
    text = (
        "config\n    MASK = 9\nobjective O(x[batch, seq]) → [batch, seq] = context\n"
        "    where hit = bernoulli[batch, seq](0.15)\n          context = MASK if hit else x\n"
    )
    found = value(text, x=np.zeros((8, 200)))
    assert 0.1 < (found == 9).mean() < 0.2


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 1, 2)])
def test_a_uniform_number_depends_on_its_own_indices_only(shape: tuple[int, ...]) -> None:
    small = draws.uniform(5, "site", shape)
    large = draws.uniform(5, "site", tuple(n + 3 for n in shape))
    close(large[tuple(slice(n) for n in shape)], small, 0)
    assert ((small > 0) & (small < 1)).all()


def test_uniform_numbers_are_uniform() -> None:
    u = draws.uniform(0, "site", (200, 200))
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(u.var() - 1 / 12) < 0.003
    assert abs(np.corrcoef(u[:, :-1].ravel(), u[:, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(u[:-1].ravel(), u[1:].ravel())[0, 1]) < 0.02
    assert len(np.unique(u)) == u.size


def test_a_draw_in_a_scan_is_new_at_each_step() -> None:
    text = (
        "model M(x[seq]) → [seq] = s[index(seq) + 1] - s[index(seq)]\n"
        "    where\n        s[0] = 0 * x[seq = 0]\n"
        "        for t in seq:\n"
        "            s[t + 1] = s[t] + uniform(0, 1)\n"
    )
    found = value(text, x=np.zeros((2, 6)))
    assert len(np.unique(found.round(9))) == 12


def test_edits_elsewhere_move_no_draw() -> None:
    """A draw is told by its definition and its line within it: lines before and after it may change."""
    model = "model M(x[seq]) → [seq] = noise(x) + y\n    where y = uniform[seq](0, 1)\n"
    text = f"noise(x[seq]) = x + uniform[seq](0, 1)\n\n{model}"
    more = "# A line.\n\nf(z) = z + 1\n\n" + text.replace("\n\nmodel", "\n\ng(z) = f(z)\n\nmodel")
    close(value(text, x=X), value(more, x=X), 0)
