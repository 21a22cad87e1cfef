"""Reductions: over named axes, restricted, with bound indices; what nothing gives."""

import numpy as np
import pytest

from tests.compiler.spec_tools import close, codes, rng, run, value

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
C = "config\n    d = 4\n"

PLAIN = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "norm": lambda x: np.sqrt((x**2).sum(-1)),
    "argmax": lambda x: x.argmax(-1).astype(float),
}


@pytest.mark.parametrize("name", PLAIN)
def test_over_one_axis(name: str) -> None:
    close(value(f"model M(x[seq, d]) → [seq] = {name}[d](x)\n", x=X), PLAIN[name](X))


@pytest.mark.parametrize("name", [n for n in PLAIN if n != "argmax"])
def test_over_two_axes(name: str) -> None:
    close(value(f"model M(x[seq, d]) → [] = {name}[seq, d](x)\n", x=X), PLAIN[name](X.reshape(2, 12)))


def test_bars_are_norms_and_absolute_values() -> None:
    close(value("model M(x[seq, d]) → [seq] = ‖x‖[d]\n", x=X), PLAIN["norm"](X))
    close(value("model M(x[seq, d]) → [seq, d] = |x|\n", x=X), np.abs(X))


EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "norm": 0.0, "count": 0.0}


@pytest.mark.parametrize("name", EMPTY)
def test_over_nothing(name: str) -> None:
    inside = "x > 0" if name == "count" else "x"
    close(
        value(f"model M(x[seq, d]) → [seq] = {name}[d if x > 100]({inside})\n", x=X),
        np.full((2, 3), EMPTY[name]),
    )


def test_bl_25_a_mean_over_nothing_is_zero() -> None:
    text = (
        "from functions import nll\nconfig\n    vocab = 3\n"
        "objective O(z[batch, seq, vocab], y[batch, seq] as labels) → = mean[batch, "
        "seq if y ≠ -100](nll[vocab](z, y))\n"
    )
    z = np.zeros((1, 2, 3))
    close(value(text, z=z, labels=[[-100, -100]]), 0.0)
    close(value(text, z=z, labels=[[-100, 1]]), 1.0986122886681098)


def test_max_and_min_over_nothing_are_infinite_inside() -> None:
    close(
        value("model M(x[seq, d]) → [seq] = exp(max[d if x > 100](x)) + 1 / min[d if x > 100](x)\n", x=X),
        np.zeros((2, 3)),
    )


def test_any_and_all() -> None:
    close(
        value("model M(x[seq, d]) → [seq] = 1 if any[d](x > 1) else 0\n", x=X), (X > 1).any(-1).astype(float)
    )
    close(
        value("model M(x[seq, d]) → [seq] = 1 if all[d if x > 0](x > 0.5) else 0\n", x=X),
        ((X > 0.5) | (X <= 0)).all(-1).astype(float),
    )


def test_count() -> None:
    close(value("model M(x[seq, d]) → [seq] = count[d](x > 0)\n", x=X), (X > 0).sum(-1).astype(float))
    close(
        value("model M(x[seq, d]) → [] = count[seq, d if x > 0](x < 1)\n", x=X),
        ((X > 0) & (X < 1)).sum((1, 2)).astype(float),
    )


def test_a_bound_index() -> None:
    """sum[r: key if r ≤ i] is a running sum by its definition."""
    text = "model M(x[seq]) → [seq] = sum[r: seq if r ≤ i](x[seq = r])\n    where i = index(seq)\n"
    x = rng(2).normal(size=(2, 5))
    close(value(text, x=x), np.cumsum(x, 1))


def test_a_bound_index_without_a_condition() -> None:
    text = "model M(x[seq]) → [] = sum[t: seq](x[seq = t] * t)\n"
    x = rng(2).normal(size=(2, 5))
    close(value(text, x=x), (x * np.arange(5)).sum(1))


def test_a_product_over_positions() -> None:
    text = f"{C}model M(P[seq, d], x[seq]) → [] = prod[t: seq](P[seq = t, d = x[seq = t]])\n"
    t = np.array([[0, 3, 1], [2, 2, 0]])
    close(value(text, P=X, x=t), np.take_along_axis(X, t[..., None], 2)[..., 0].prod(1))


def test_a_condition_may_bring_an_axis() -> None:
    """How many keys a query sees: the value has no key, the condition has."""
    text = (
        "model M(x[seq], y[key]) → [seq] = sum[key if below](1 + 0 * x)\n    where below[seq, key] = y < x\n"
    )
    x, y = rng(2).normal(size=(2, 3)), rng(3).normal(size=(2, 5))
    close(value(text, x=x, y=y), (y[:, None, :] < x[:, :, None]).sum(-1).astype(float))


def test_rank_is_the_number_of_larger_entries_ties_by_order() -> None:
    x = np.array([[3.0, 1, 3, 2], [0, 0, 0, 0]])
    close(value(f"{C}model M(x[d]) → [d] = rank[d](x)\n", x=x), [[0.0, 3, 1, 2], [0, 1, 2, 3]])


def test_top_k_by_rank() -> None:
    text = f"{C}model M(x[seq, d]) → [seq] = sum[d if rank[d](x) < 2](x)\n"
    close(value(text, x=X), np.sort(X, -1)[..., -2:].sum(-1))


def test_rank_along_a_length_of_different_examples() -> None:
    text = "model M(x[seq]) → [seq] = rank[seq](x)\n"
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 0]])
    close(
        value(text, x=np.array([[1.0, 4, 2, 3], [9, 1, 2, 9]]), attention_mask=mask),
        [[3.0, 0, 2, 1], [0, 1, 0, 0]],
    )


def test_argmax_takes_the_first_of_ties() -> None:
    close(value(f"{C}model M(x[d]) → [] = argmax[d](x)\n", x=[[1.0, 3, 3, 2]]), [1.0])
    close(value(f"{C}model M(x[d]) → [] = argmax[d if x < 3](x)\n", x=[[1.0, 3, 3, 2]]), [3.0])


def test_the_larger_of_two_and_the_largest_along_an_axis() -> None:
    close(value("model M(x[seq, d]) → [seq, d] = max(x, 0, -x)\n", x=X), np.abs(X))
    assert codes("model M(x[seq, d]) → [seq] = max(x)\n") == {"A102"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("sum(x)", "A102"),
        ("sum[key](x)", "A109"),
        ("sum[d](x, x)", "N221"),
        ("sum[d](x = x)", "N220"),
        ("count[d](x)", None),
        ("count[d](x + 1)", "M504"),
        ("sum[d if x](x)", None),
        ("sum[d if x * 2](x)", "M504"),
        ("argmax[seq, d](x)", "A116"),
    ],
)
def test_wrong_reductions(body: str, code: str | None) -> None:
    if code is None:  # an input may be a truth value: how it is used decides
        value(f"model M(x[seq, d]) → [seq] = {body}\n", x=X > 0)
        return
    assert codes(f"model M(x[seq, d]) → [seq] = {body}\n") == {code}


def test_the_kind_of_an_input_follows_from_its_use() -> None:
    from tests.compiler.spec_tools import lowered

    text = (
        f"{C}    vocab = 3\nmodel M(x[seq, d], y[seq], m[seq], z[seq]) → [seq] = (x[d = y] if m else 0) + z\n"
    )
    kinds = {one.name: one.kind for one in lowered(text).inputs}
    assert kinds == {"x": "real", "y": "int", "m": "bool", "z": "real"}


def test_reductions_see_real_entries_only() -> None:
    text = (
        "model M(x[seq]) → mean[] = mean[seq](x), sum[] = sum[seq](x), max[] = max[seq](x), "
        "min[] = min[seq](x), norm[] = norm[seq](x), best[] = argmax[seq](x), there[] "
        "= count[seq](x == x), all_of[] = 1 if all[seq](x < 50) else 0, prod[] = prod[seq](x)\n"
    )
    x = np.array([[1.0, 2, 3, 4], [99, 7, 5, 99]])
    found = run(text, x=x, attention_mask=[[1, 1, 1, 1], [0, 1, 1, 0]])
    wanted = {
        "mean": 6,
        "sum": 12,
        "max": 7,
        "min": 5,
        "norm": np.sqrt(74),
        "best": 0,
        "there": 2,
        "all_of": 1,
        "prod": 35,
    }
    assert {name: round(float(v[1]), 9) for name, v in found.items()} == {
        k: round(float(v), 9) for k, v in wanted.items()
    }


def test_hidden_entries_in_the_middle_are_not_seen_and_keep_their_place() -> None:
    text = "model M(x[seq]) → mean[] = mean[seq](x), place[seq] = index(seq) + 0 * x, size[] = seq\n"
    found = run(text, x=np.array([[1.0, 99, 3, 99]]), attention_mask=[[1, 0, 1, 0]])
    close(found["mean"], [2.0])
    close(found["place"], [[0.0, 1, 2, 0]])
    close(found["size"], [3.0])


def test_reducing_the_owner_skips_what_is_not_real() -> None:
    """A mean over the batch of values that have a length: padding of other examples is no part of it."""
    text = "objective O(x[batch, seq] as input_ids) → [seq] = sum[batch](x)\n"
    found = value(text, input_ids=np.array([[1.0, 2, 3], [4, 99, 99]]), attention_mask=[[1, 1, 1], [1, 0, 0]])
    close(found, [5.0, 2, 3])
