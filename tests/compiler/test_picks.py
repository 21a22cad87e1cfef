"""Picks: simultaneous, aligned by name, undefined out of range, never evaluated where they are not chosen."""

from typing import Any

import numpy as np
import pytest

from tests.compiler.spec_tools import Array, close, codes, rng, value
from transformula.grammar.diagnostics import TransformulaError

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
C = "config\n    d = 4\n    vocab = 5\n"


def undefined(text: str, **inputs: Any) -> None:
    with pytest.raises(TransformulaError) as caught:
        value(text, **inputs)
    assert [one.code for one in caught.value.diagnostics] == ["I801"]


def test_a_constant_place() -> None:
    close(value("model M(x[seq, d]) → [d] = x[seq = 0]\n", x=X), X[:, 0])


def test_a_table_picked_by_tokens() -> None:
    table, t = rng(2).normal(size=(1, 5, 4)), np.array([[3, 0, 3]])
    close(
        value(C + "model M(E[vocab, d], t[seq]) → [seq, d] = E[vocab = t]\n", E=table, t=t),
        table[:, [3, 0, 3]][0][None],
    )


def test_picks_are_simultaneous_and_align() -> None:
    """P[seq = t, vocab = x[seq = t]] reads one number for each t."""
    p, t = rng(2).normal(size=(2, 3, 5)), np.array([[0, 4, 1], [2, 2, 3]])
    text = C + "model M(P[seq, vocab], x[seq]) → [] = sum[t: seq](P[seq = t, vocab = x[seq = t]])\n"
    close(value(text, P=p, x=t), np.take_along_axis(p, t[..., None], 2)[..., 0].sum(1))


def test_two_picks_are_not_one_after_the_other() -> None:
    """Each place may name an axis that the other pick removes: both see the value as it was."""
    x = rng(2).normal(size=(1, 4, 4))
    text = "config\n    a = 4\n    b = 4\nmodel M(x[a, b]) → [a, b] = x[a = index(b), b = index(a)]\n"
    close(value(text, x=x), x.transpose(0, 2, 1))


def test_a_pick_by_a_value_that_shares_an_axis_is_pointwise() -> None:
    labels = np.array([[0, 3, 1], [2, 2, 0]])
    text = "config\n    d = 4\nmodel M(x[seq, d], y[seq]) → [seq] = x[d = y]\n"
    close(value(text, x=X, y=labels), np.take_along_axis(X, labels[..., None], 2)[..., 0])


def test_a_pick_with_a_new_axis() -> None:
    at = np.array([[2, 0], [1, 1]])
    close(
        value("config\n    n = 2\nmodel M(x[seq, d], at[n]) → [n, d] = x[seq = at]\n", x=X, at=at),
        X[np.arange(2)[:, None], at],
    )


def test_a_convolution_is_a_pick() -> None:
    text = (
        "config\n    off = 3\n"
        "model M(x[seq, d]) → [seq, d] = sum[off](x[seq = index(seq) + index(off) "
        "- 1 else 0])\n"
    )
    padded = np.pad(X, ((0, 0), (1, 1), (0, 0)))
    close(value(text, x=X), padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:])


def test_else_gives_the_value_outside() -> None:
    text = "config\n    d = 4\nmodel M(x[seq, d]) → [seq, d] = x[seq = index(seq) - 1 else 7]\n"
    close(value(text, x=X), np.concatenate([np.full((2, 1, 4), 7.0), X[:, :-1]], 1))


def test_else_may_be_a_value() -> None:
    text = "model M(x[seq, d]) → [seq, d] = x[seq = index(seq) + 1 else mean[seq](x)]\n"
    close(value(text, x=X), np.concatenate([X[:, 1:], X.mean(1, keepdims=True)], 1))


@pytest.mark.parametrize("bad", [-1, 5, 100, -5])
def test_a_place_out_of_range_never_wraps(bad: int) -> None:
    text = C + (
        "block B(t[seq]) → [seq, d] = E[vocab = t]\n"
        "    weights E : [vocab, d]\n"
        "model M(t[seq]) → [seq, d] = b(t)\n    uses b : B\n"
    )
    undefined(text, t=[[0, bad]])


def test_a_constant_place_out_of_range_is_told_at_once() -> None:
    assert codes(C + "model M(x[d]) → [] = x[d = 4]\n") == {"I801"}
    assert codes(C + "model M(x[d]) → [] = x[d = -1]\n") == {"I801"}
    assert codes(C + "model M(x[d]) → [] = x[d = 1 / 2]\n") == {"I802"}


def test_reading_past_the_end_is_told_at_once() -> None:
    assert codes("model M(x[seq]) → [seq] = x[seq = index(seq) + 1]\n") == {"I801"}


def test_a_place_is_a_whole_number() -> None:
    assert codes(C + "model M(x[d], y[seq]) → [seq] = x[d = y / 2]\n") == {"I802"}
    assert codes(C + "model M(x[d], y[seq]) → [seq] = x[d = y > 2]\n") == {"M503"}


def test_a_branch_that_is_not_chosen_may_be_undefined() -> None:
    text = "config\n    d = 4\nmodel M(x[seq, d], y[seq]) → [seq] = x[d = y] if y ≥ 0 else 0\n"
    labels = np.array([[-100, 3, 1], [2, -100, -1]])
    wanted = np.where(labels >= 0, np.take_along_axis(X, np.maximum(labels, 0)[..., None], 2)[..., 0], 0)
    close(value(text, x=X, y=labels), wanted)


def test_a_chosen_branch_that_is_undefined_is_an_error() -> None:
    undefined(
        "config\n    d = 4\nmodel M(x[seq, d], y[seq]) → [seq] = x[d = y] if y ≠ -100 else 0\n",
        x=X,
        y=[[-1, 3, 1]] * 2,
    )


def test_labels_outside_a_restricted_reduction_are_never_read() -> None:
    text = "config\n    d = 4\nmodel M(x[seq, d], y[seq]) → [] = sum[seq if y ≠ -100](x[d = y])\n"
    labels = np.array([[-100, 3, 1], [2, -100, -100]])
    wanted = np.where(labels >= 0, np.take_along_axis(X, np.maximum(labels, 0)[..., None], 2)[..., 0], 0).sum(
        1
    )
    close(value(text, x=X, y=labels), wanted)


def test_log_and_division_in_branches_that_are_not_chosen() -> None:
    text = "model M(x[seq, d]) → [seq, d] = log(x) if x > 0 else 1 / (x - x)^2 if x > 10 else 0\n"
    close(value(text, x=X), np.where(X > 0, np.log(np.where(X > 0, X, 1)), 0))


def test_a_pick_stays_inside_its_example() -> None:
    """The length of an example bounds a place along it, not the width of the batch."""
    text = "model M(x[seq], at[] as at) → [] = x[seq = at else -1]\n"
    x, mask = np.arange(8.0).reshape(2, 4), np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    close(value(text, x=x, at=np.array([3, 3]), attention_mask=mask), np.array([3.0, -1.0]))


def test_an_axis_may_be_picked_once() -> None:
    assert codes(C + "model M(x[d]) → [] = x[d = 0, d = 1]\n") == {"A131"}


def test_a_pick_along_an_axis_that_is_not_there() -> None:
    assert codes(C + "model M(x[d]) → [] = x[seq = 0]\n") == {"A120"}


def test_brackets_take_no_numbers_alone() -> None:
    assert codes(C + "model M(x[d]) → [] = x[0]\n") == {"A107"}


def test_a_nested_pick() -> None:
    def at(x: Array, place: Array) -> Array:
        return np.take_along_axis(x, place, 1)

    parent = np.array([[0, 0, 1, 1], [0, 1, 1, 2]])
    x = rng(3).normal(size=(2, 4))
    text = "model M(x[seq], p[seq]) → [seq] = x[seq = p[seq = p]]\n"
    close(value(text, x=x, p=parent), at(x, at(parent, parent)))
