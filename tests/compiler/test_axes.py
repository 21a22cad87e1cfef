"""Axes: aligned by name, visible or lifted, declared in results, equal only if they are one axis."""

import numpy as np
import pytest

from tests.compiler.spec_tools import close, codes, rng, value

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
D = "config\n    d = 4\n    e = 4\n    head = 2\n"


def test_elementwise_operations_align_by_name_not_by_place() -> None:
    text = "model M(x[seq, d], y[d, seq]) → [seq, d] = x + 2 * y\n"
    y = rng(2).normal(size=(2, 4, 3))
    close(value(text, x=X, y=y), X + 2 * y.transpose(0, 2, 1))


def test_a_value_with_fewer_axes_is_repeated_along_the_others() -> None:
    close(value("model M(x[seq, d], y[d]) → [seq, d] = x * y\n", x=X, y=X[:, 0]), X * X[:, :1])


def test_the_order_of_a_declared_result_is_its_layout() -> None:
    close(value("model M(x[seq, d]) → [d, seq] = x\n", x=X), X.transpose(0, 2, 1))


def test_lifted_axes_come_first_in_a_result() -> None:
    text = D + (
        "block B(x[d]) → [d] = x @ W\n    weights W : [d → d]\n"
        "model M(x[seq, d]) → [seq, d] = b(x)\n    uses b : B\n"
    )
    w = rng(3).normal(size=(4, 4))
    close(value(text, {"b.W": w}, x=X), X @ w)


def test_a_formula_carries_axes_it_does_not_name() -> None:
    text = "f[d](x) = x - mean[d](x)\nmodel M(x[seq, d]) → [seq, d] = f[d](x)\n"
    close(value(text, x=X), X - X.mean(-1, keepdims=True))
    close(
        value(
            text.replace("f[d](x)\n", "f[seq](x)\n").replace(
                "f[seq](x) = x - mean[d]", "f[d](x) = x - mean[d]"
            ),
            x=X,
        ),
        X - X.mean(-2, keepdims=True),
    )


def test_a_lifted_axis_cannot_be_named() -> None:
    assert codes("f(x[d]) = sum[seq](x)\nmodel M(x[seq, d]) → [d] = f(x)\n") == {"A109"}


def test_a_parameter_without_brackets_sees_no_axis_when_another_has_them() -> None:
    text = "f[d](x, y[d]) = sum[d](x)\nmodel M(x[seq, d]) → [seq] = f(x, x)\n"
    assert codes(text) == {"A109"}


def test_a_parameter_without_brackets_sees_the_heads_axes_when_no_other_has_them() -> None:
    text = "f[d](x, y) = sum[d](x * y)\nmodel M(x[seq, d]) → [seq] = f(x, x)\n"
    close(value(text, x=X), (X * X).sum(-1))


def test_an_undeclared_table_is_an_error() -> None:
    assert "A105" in codes("model M(x[seq, d], y[key, d]) → [seq, key, d] = x + y\n")


def test_a_selection_makes_no_table_either() -> None:
    assert "A105" in codes("model M(x[seq], y[key]) → [seq, key] = x if y > 0 else 0\n")
    assert "A105" in codes("model M(x[seq], y[key], z[seq]) → [seq, key] = x if z > 0 else y\n")
    text = "model M(x[seq], y[key]) → [seq, key] = t\n    where t[seq, key] = x if y > 0 else 0\n"
    x, y = rng(1).normal(size=(2, 3)), rng(2).normal(size=(2, 5))
    close(value(text, x=x, y=y), np.where(y[:, None, :] > 0, x[:, :, None], 0))


def test_a_declared_table_is_meant() -> None:
    text = "model M(x[seq], y[key]) → [seq, key] = t\n    where t[seq, key] = x - y\n"
    x, y = rng(1).normal(size=(2, 3)), rng(2).normal(size=(2, 5))
    close(value(text, x=x, y=y), x[:, :, None] - y[:, None, :])


def test_tables_of_places_need_no_declaration() -> None:
    text = "model M(x[seq]) → [seq, key] = index(seq) - index(seq)[seq → key]\n"
    i = np.arange(3)
    close(value(text, x=np.zeros((1, 3))), (i[:, None] - i[None, :])[None].astype(float))


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("[seq] = x", "A106"),
        ("[seq, d, head] = x", "A106"),
        ("[d] = sum[d](x)", "A106"),
        ("[seq, d] = x[d → e]", "A106"),
    ],
)
def test_results_have_exactly_the_declared_axes(result: str, code: str) -> None:
    assert codes(f"{D}model M(x[seq, d]) → {result}\n") == {code}


def test_equal_names_of_other_sizes_do_not_align() -> None:
    text = "config\n    d = 4\n    e = 3\nmodel M(x[d], y[e]) → [d] = x + y[e → d]\n"
    assert codes(text) == {"A114"}


def test_a_length_is_never_another_length() -> None:
    assert codes("model M(x[seq], y[src]) → [seq] = x + y[src → seq]\n") == {"A114"}


def test_renaming_takes_owner_and_extent_along() -> None:
    text = "model M(x[seq, d]) → [seq, key] = x @[d] x[seq → key]\n"
    close(value(text, x=X), X @ X.transpose(0, 2, 1))


def test_renaming_back_is_the_same_axis() -> None:
    close(value("model M(x[seq, d]) → [seq, d] = x[seq → key][key → seq] + x\n", x=X), 2 * X)


def test_renaming_onto_an_axis_of_the_value_is_an_error() -> None:
    assert codes(D + "model M(x[d, e]) → [d] = x[e → d]\n") == {"A122"}


def test_split_and_merge_run_the_last_name_fastest() -> None:
    x = rng(4).normal(size=(1, 4))
    text = "config\n    d = 4\n    head = 2\nmodel M(x[d]) → [dk, head] = x[d → head dk]\n"
    close(value(text, x=x), x.reshape(1, 2, 2).transpose(0, 2, 1))
    text = (
        "config\n    d = 4\n    head = 2\n    dk = 2\n"
        "model M(x[d]) → [d] = x[d → head dk][head dk → d] - x[d → head dk][dk head → d]\n"
    )
    close(value(text, x=x), x - x[:, [0, 2, 1, 3]])


def test_split_and_merge_demand_sizes_that_fit() -> None:
    assert codes("config\n    d = 5\n    head = 2\nmodel M(x[d]) → [head, dk] = x[d → head dk]\n") == {"C612"}
    assert codes(
        "config\n    d = 5\n    head = 2\n    dk = 2\nmodel M(x[head, dk]) → [d] = x[head dk → d]\n"
    ) == {"C612"}
    assert codes("config\n    head = 2\nmodel M(x[seq]) → [head, r] = x[seq → head r]\n") == {"A123"}


def test_contraction_aligns_all_axes_it_does_not_sum() -> None:
    text = "config\n    d = 4\n    head = 3\nmodel M(q[head, d], k[seq, head, d]) → [head, seq] = q @[d] k\n"
    q, k = rng(1).normal(size=(2, 3, 4)), rng(2).normal(size=(2, 5, 3, 4))
    close(value(text, q=q, k=k), np.einsum("bhd,bshd->bhs", q, k))


def test_a_bare_product_needs_one_common_axis() -> None:
    one = "model M(x[seq, d], y[d]) → [seq] = x @ y\n"
    close(value(one, x=X, y=X[:, 1]), np.einsum("bsd,bd->bs", X, X[:, 1]))
    assert codes("model M(x[seq, d], y[seq, d]) → [seq] = x @ y\n") == {"A103"}
    assert codes("model M(x[seq], y[d]) → [seq, d] = x @ y\n") == {"A113"}


def test_a_contraction_over_several_axes() -> None:
    close(value("model M(x[seq, d], y[seq, d]) → [] = x @[seq, d] y\n", x=X, y=X), (X * X).sum((1, 2)))


def test_a_contraction_over_an_axis_that_a_side_lacks() -> None:
    assert codes("model M(x[seq, d], y[d]) → [d] = x @[seq] y\n") == {"A101"}
    assert codes("model M(x[seq, d], y[d]) → [d] = x @[dk] y\n") == {"A104"}


def test_brackets_with_names_alone_state_all_visible_axes() -> None:
    close(value("model M(x[seq, d]) → [seq, d] = x[d, seq]\n", x=X), X)
    assert codes("model M(x[seq, d]) → [seq, d] = x[seq]\n") == {"A106"}


def test_sizes_and_places_as_numbers() -> None:
    text = "config\n    d = 4\nmodel M(x[seq, d]) → [seq, d] = x * d / seq + index(seq) - index(d)\n"
    close(value(text, x=X), X * 4 / 3 + np.arange(3)[:, None] - np.arange(4))


def test_an_axis_that_is_not_in_scope_has_no_places() -> None:
    assert codes("f(x[d]) = x * index(seq)\nmodel M(x[seq, d]) → [seq, d] = f(x)\n") == {"A110"}


def test_a_new_axis_repeats() -> None:
    text = "config\n    stream = 3\nmodel M(x[seq, d]) → [stream, seq, d] = x[→ stream]\n"
    close(value(text, x=X), np.broadcast_to(X[:, None], (2, 3, 3, 4)))
