"""Index formulas, places and positions."""

import numpy as np

from tests.compiler.spec_tools import close, codes, lowered, rng, value

X = rng(1).normal(size=(2, 4, 6))  # [batch, seq, d]
PLACE = np.arange(4)
CAUSAL = PLACE[:, None] >= PLACE[None, :]
HEAD = "from functions import causal, window, sinusoidal, causal_mask\nconfig\n    d = 6\n"


def grid(formula: str, more: str = "") -> np.ndarray:
    """An index formula of seq and key as numbers."""
    text = (
        f"{HEAD}{more}model M(x[seq, d]) → [seq, key] = (1 if {formula} else 0) + 0 * (x @[d] x[seq → key])\n"
    )
    found: np.ndarray = value(text, x=X)[0]
    return found


def test_causal() -> None:
    close(grid("causal"), CAUSAL.astype(float))


def test_causal_under_other_names() -> None:
    text = (
        f"{HEAD}model M(x[tgt, d]) → [tgt, key] = (1 if causal[i = tgt] else 0) + 0 * (x @[d] x[tgt → key])\n"
    )
    close(value(text, x=X)[0], CAUSAL.astype(float))
    text = (
        f"{HEAD}model M(x[tgt, d]) → [tgt, src] = (1 if causal[seq = tgt, key = src] "
        "else 0) + 0 * (x @[d] x[tgt → src])\n"
    )
    close(value(text, x=X)[0], CAUSAL.astype(float))


def test_an_index_formula_whose_axes_are_not_known_here() -> None:
    assert codes(f"{HEAD}model M(x[seq, d]) → [seq, key] = 1 if causal else 0\n") == {"A127"}


def test_a_rename_written_later_makes_the_axis_known() -> None:
    text = (
        f"{HEAD}model M(x[seq, d]) → [seq] = sum[key if see](s)\n"
        "    where see = causal\n          s = x @[d] x[seq → key]\n"
    )
    close(value(text, x=X), np.where(CAUSAL, X @ X.transpose(0, 2, 1), 0).sum(-1))


def test_an_index_formula_with_a_parameter() -> None:
    close(
        grid("window(2)"),
        ((PLACE[:, None] - PLACE[None, :] >= 0) & (PLACE[:, None] - PLACE[None, :] < 2)).astype(float),
    )


def test_relations_of_places_are_combined() -> None:
    close(grid("causal and not window(2)"), (CAUSAL & ~(PLACE[:, None] - PLACE[None, :] < 2)).astype(float))


def test_a_chain_of_comparisons() -> None:
    close(grid("0 ≤ i - j < 2", "").sum(), 7) if False else None
    text = (
        f"{HEAD}model M(x[seq, d]) → [seq, key] = (1 if 0 ≤ i - j < 2 else 0) + 0 * "
        "(x @[d] x[seq → key])\n    where i = index(seq)\n"
        "          j = index(key)\n"
    )
    difference = PLACE[:, None] - PLACE[None, :]
    close(value(text, x=X)[0], ((difference >= 0) & (difference < 2)).astype(float))


def test_bl_08_the_sinusoidal_code() -> None:
    text = (
        "from functions import sinusoidal\nconfig\n    d = {}\n"
        "model M(x[seq, d]) → [seq, d] = 0 * x + sinusoidal\n"
    )
    odd = value(text.format(5), x=np.zeros((1, 3, 5)))[0]
    close(odd[0], [0.0, 1, 0, 1, 0])
    close(odd[1], [0.84147098, 0.54030231, 0.02511622, 0.99968454, 0.00063096], 1e-8)
    close(odd[2], [0.90929743, -0.41614684, 0.05021660, 0.99873835, 0.00126191], 1e-8)
    even = value(text.format(6), x=np.zeros((1, 4, 6)))[0]
    angle = PLACE[:, None] / 10000.0 ** (2 * np.arange(3) / 6)
    close(even[:, ::2], np.sin(angle))
    close(even[:, 1::2], np.cos(angle))


def test_an_index_formula_by_a_local_definition() -> None:
    text = f"{HEAD}model M(x[seq, d]) → [seq, d] = t\n    where t[i: seq, c: d] = x[seq = i, d = c] * c - i\n"
    close(value(text, x=X), X * np.arange(6) - PLACE[:, None])


def test_an_index_formula_over_fewer_axes_repeats() -> None:
    text = f"{HEAD}model M(x[seq, d]) → [seq, d] = t\n    where t[i: seq, c: d] = c\n"
    close(value(text, x=X), np.broadcast_to(np.arange(6.0), X.shape))


def test_rotate_by_an_index_formula() -> None:
    text = (
        f"{HEAD}model M(x[seq, d]) → [seq, d] = turned\n"
        "    where turned[c: d] = -x[d = c + d // 2] if c < d // 2 else x[d = c - d // 2]\n"
    )
    close(value(text, x=X), np.concatenate([-X[..., 3:], X[..., :3]], -1))


def test_printed_cases() -> None:
    text = (
        "three[i: seq, j: key] =\n    1 if i > j\n    2 if i == j\n"
        "    3 otherwise\n"
        f"{HEAD}model M(x[seq, d]) → [seq, key] = three + 0 * (x @[d] x[seq → key])\n"
    )
    close(
        value(text, x=X)[0],
        np.where(PLACE[:, None] > PLACE, 1.0, np.where(PLACE[:, None] == PLACE, 2.0, 3.0)),
    )


def test_size_and_index_of_an_example_not_of_the_batch() -> None:
    text = "model M(x[seq]) → [seq] = x * seq + (1 if index(seq) + 1 < seq else 0)\n"
    mask = np.array([[1, 1, 1, 1], [0, 0, 1, 1]])
    found = value(text, x=np.ones((2, 4)), attention_mask=mask)
    close(found, [[5.0, 5, 5, 4], [0, 0, 3, 2]])


def test_position_is_replaced_by_position_ids_and_index_is_not() -> None:
    text = "model M(x[seq]) → [seq] = 0 * x + position(seq) + 100 * index(seq)\n"
    close(value(text, x=np.zeros((1, 4))), [[0.0, 101, 202, 303]])
    close(value(text, x=np.zeros((1, 4)), position_ids=[[5, 4, 3, 2]]), [[5.0, 104, 203, 302]])


def test_positions_start_at_the_first_real_token() -> None:
    text = "model M(x[seq]) → [seq] = 0 * x + position(seq)\n"
    mask = np.array([[0, 0, 1, 1], [1, 1, 1, 0]])
    close(value(text, x=np.zeros((2, 4)), attention_mask=mask), [[0.0, 0, 0, 1], [0, 1, 2, 0]])
    close(
        value(text, x=np.zeros((2, 4)), attention_mask=mask, position_ids=[[9, 9, 7, 8], [5, 6, 7, 9]]),
        [[0.0, 0, 7, 8], [5, 6, 7, 0]],
    )


def test_positions_of_a_renamed_axis() -> None:
    text = (
        f"{HEAD}model M(x[seq, d]) → [seq, key] = position(seq) - position(seq)[seq "
        "→ key] + 0 * (x @[d] x[seq → key])\n"
    )
    ids = np.array([[3.0, 1, 4, 1]] * 2)
    close(value(text, x=X, position_ids=ids), ids[:, :, None] - ids[:, None, :])


def test_bl_06_positions_that_skip_padding() -> None:
    """RoBERTa: one more than the pad id, counted over real tokens; a pad token keeps the pad id."""
    text = (
        "config\n    pad = 1\n"
        "model M(t[seq]) → [seq] = pad + count[r: seq if r ≤ index(seq)](t[seq = r] "
        "≠ pad) if t ≠ pad else pad\n"
    )
    close(value(text, t=[[0, 5, 6, 2], [0, 5, 2, 1]]), [[2.0, 3, 4, 5], [2, 3, 4, 1]])


def test_an_index_is_no_length_of_the_batch_in_a_pick() -> None:
    text = "model M(x[seq]) → [seq] = x[seq = seq - 1 - index(seq)]\n"
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1]])
    x = np.arange(8.0).reshape(2, 4)
    close(value(text, x=x, attention_mask=mask), [[3.0, 2, 1, 0], [0, 7, 6, 5]])


def test_index_tables_are_made_of_places_only() -> None:
    graph = lowered(f"{HEAD}model M(x[seq, d]) → [seq] = sum[key if causal](x @[d] x[seq → key])\n")
    assert [one for one in graph.nodes() if one.op == "index"]


def test_bl_41_precedence() -> None:
    def number(formula: str) -> float:
        return float(value(f"model M(x[seq], y[seq]) → [seq] = {formula}\n", x=[[3.0]], y=[[2.0]])[0, 0])

    assert number("-x^2") == -9
    assert number("-x²") == -9
    assert number("y^3^2") == 512
    assert number("10 / -y") == -5
    assert number("x - y - 1") == 0
    assert number("12 / x / y") == 2
    assert number("-x * y") == -6
    assert number("x + 2 * y^2") == 11
    assert number("√x^2") == 3
