"""Results of another length: filter, repeat, sort, lengths one after the other; and what evaluates them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.spec_tools import Array, codes, lowered
from transformula.compiler import corruptions, ir
from transformula.compiler.driver import check, compile_graph
from transformula.compiler.evaluate import Evaluator, Lengths
from transformula.compiler.ir import Graph
from transformula.grammar import syntax as s
from transformula.grammar.parser import parse

HEAD = "corruption C(x[seq] as input_ids, u[seq], v[other], n = 2) → out[{axis}] = {body}\n"


CASES = {
    "filter": ("x[seq if x > 2 → out]", [3, 4, 5]),
    "filter of nothing": ("x[seq if x > 9 → out]", []),
    "filter by config": ("x[seq if 1 < 2 → out]", [3, 1, 4, 1, 5]),
    "repeat": ("repeat[seq → out](x, u % 3)", [3, 3, 1, 4, 1, 1, 5, 5]),
    "repeat by a number": ("repeat[seq → out](x, n)", [3, 3, 1, 1, 4, 4, 1, 1, 5, 5]),
    "repeat less than nothing": ("repeat[seq → out](x, x - 3)", [4, 5, 5]),
    "sort": ("sort[seq](x, by = u)[seq → out]", [4, 3, 5, 1, 1]),
    "sort under a new name": ("sort[seq → out](x, by = -u)", [1, 1, 3, 5, 4]),
    "parts": ("[7; x; 8; v; 9][seq other → out]", [7, 3, 1, 4, 1, 5, 8, 9, 8, 9]),
    "parts of one text": ("[x; u][seq → out]", [3, 1, 4, 1, 5, 2, 7, 1, 8, 2]),
    "the order": ("index(out) + 0 * x[seq if x > 2 → out]", [0, 1, 2]),
    "a filter of a filter": ("y[some if y < 5 → out]\n    where y = x[seq if x > 2 → some]", [3, 4]),
    "a filter of a repetition": ("y[more if y > 3 → out]\n    where y = repeat[seq → more](x, u % 3)", [4, 5, 5]),
    "two texts by one condition": (
        "a + 10 * b\n    where keep = x > 2\n          a = x[seq if keep → out]\n          b = u[seq if keep → out]",
        [23, 14, 25],
    ),
    "a length as a number": ("a * out\n    where a = x[seq if x > 2 → out]", [9, 12, 15]),
    "the length of another text": ("repeat[other → out](v, n) + 0 * sum[seq](x)", [9, 9, 8, 8]),
    "a pick from a new length": ("a[out = out - 1 - index(out)]\n    where a = x[seq if x > 2 → out]", [5, 4, 3]),
    "an index of its own": (
        "sum[r: out if r ≤ index(out)](a[out = r])\n    where a = x[seq if x > 2 → out]", [3, 7, 12],
    ),
    "of a formula": ("index(ab) + 0 * one_of[seq, other](x, v, n > 1)[chosen → ab]", [0, 1, 2, 3, 4]),
    "back to the text": ("x + a\n    where a = sum[some](x[seq if x > 2 → some])", [15, 13, 16, 13, 17]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_each_makes(name: str) -> None:
    body, wanted = CASES[name]
    unused = [one for one in ("u", "v", "n") if f"{one}" not in body]
    head = HEAD
    for one, written in (("u", ", u[seq]"), ("v", ", v[other]"), ("n", ", n = 2")):
        if one in unused:
            head = head.replace(written, "")
    axis = "seq" if name == "back to the text" else "out"
    axis = "ab" if name == "of a formula" else axis
    text = ("from corruptions import one_of\n" if "one_of" in body else "") + head.format(axis=axis, body=body)
    assert check(text) == []
    graph = lowered(text)
    full = {"input_ids": [3, 1, 4, 1, 5], "u": [2, 7, 1, 8, 2], "v": [9, 8]}
    names = {one.name for one in graph.inputs}
    found = corruptions.corrupted(graph, {name: row for name, row in full.items() if name in names})
    assert found["out"].tolist() == wanted


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=12))
def test_each_is_what_numpy_makes(rows: list[tuple[int, int]]) -> None:
    x, u = (np.array([row[k] for row in rows], int) for k in (0, 1))
    for graph, wanted in (
        (FILTER, x[u > 0]),
        (REPEAT, np.repeat(x, u)),
        (SORT, x[np.argsort(u, kind="stable")]),
        (PARTS, np.concatenate([x, [7], u])),
    ):
        found = corruptions.corrupted(graph, {"input_ids": x, "u": u})["out"]
        np.testing.assert_array_equal(found, wanted)


TWO = "corruption C(x[seq] as input_ids, u[seq]) → out[out] = {}\n"
FILTER = lowered(TWO.format("x[seq if u > 0 → out]"))
REPEAT = lowered(TWO.format("repeat[seq → out](x, u)"))
SORT = lowered(TWO.format("sort[seq → out](x, by = u)"))
PARTS = lowered(TWO.format("[x; 7; u][seq → out]"))
NESTED = lowered(
    TWO.format(
        "sort[more → out](y + 100 * index(more), by = z)\n"
        "    where y = repeat[some → more](x[seq if u > 0 → some], u[seq if u > 0 → some])\n"
        "          z = uniform[more](0, 1) + count[more](y > 4)"
    )
)


GRAPHS = {"filter": FILTER, "repeat": REPEAT, "sort": SORT, "parts": PARTS, "all": NESTED}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_examples_of_a_batch_do_not_mix(graph: Graph) -> None:
    """On a padded batch the evaluator gives what it gives for each example: lengths, sums and draws are its own."""
    rng = np.random.default_rng(1)
    counts = np.array([4, 0, 6, 1])
    x, u = rng.integers(0, 9, (4, 6)), rng.integers(0, 4, (4, 6))
    real = np.arange(6) < counts[:, None]
    assert graph.batch is not None
    lengths = Lengths(
        {"batch": 4, "seq": 6}, {"seq": counts}, {"seq": real}, numbers={graph.batch: np.array([5, 1, 2, 9])}
    )
    given = {"input_ids": np.where(real, x, 99), "u": np.where(real, u, 77)}
    evaluator = Evaluator(given, lambda name, axes: np.zeros(()), lengths, seed=3)
    (out,) = graph.outputs
    found = evaluator(out.node).transpose([out.node.axes.index(axis) for axis in out.axes])
    for row, (count, number) in enumerate(zip(counts, (5, 1, 2, 9), strict=True)):
        one = {name: values[row, :count] for name, values in given.items()}
        wanted = corruptions.corrupted(graph, one, 3, number)["out"]
        np.testing.assert_array_equal(found[row, : len(wanted)], wanted)


def test_running_sums_of_corruptions_are_no_loops() -> None:
    graph, counts = corruptions.planned(compile_graph("t5", entry="span_corruption").formula)
    nodes = [*graph.nodes(), *ir.walk_all(counts.values())]
    assert not [one for one in nodes if one.op == "loop"]
    assert len(counts) == 3  # the input, the runs, and the target with what follows them


def test_a_model_may_not_make_a_length_by_what_it_calls() -> None:
    text = "shorter(x[seq]) = x[seq if x > 0 → out]\nmodel M(x[seq]) → [] = sum[out](shorter(x))\n"
    assert codes(text) == {"X990"}


def test_a_corruption_is_a_kind_of_definition_and_its_word_is_free() -> None:
    file = parse("corruption Same(corruption[seq] as input_ids) → input_ids[seq] = corruption\n", "t.formula")
    (one,) = file.items
    assert isinstance(one, s.Definition)
    assert (one.kind, one.name.name) == ("corruption", "Same")
    assert lowered("f(corruption) = corruption\nmodel M(x) → [] = f(x)\n").outputs


def test_a_variant_changes_a_corruption() -> None:
    text = "spec mine extends bert\n\nchange masking\n    where hit = not special and index(seq) % 2 == 1\n"
    graph = compile_graph(text, entry="masking").formula
    found = corruptions.corrupted(
        graph, {"input_ids": range(5, 11), "special_tokens_mask": [0] * 6, "mask_token_id": 3}
    )
    assert (found["labels"] != -100).tolist() == [False, True] * 3


def test_a_file_of_corruptions_alone_is_compiled() -> None:
    assert compile_graph(TWO.format("x[seq if u > 0 → out]")).kind == "corruption"


def test_shares_are_known_by_their_use() -> None:
    text = (
        "corruption C(x[seq] as input_ids, a, b, c, d, e) → input_ids[seq] = x + (1 if hit else 0)\n"
        "    where hit = bernoulli[seq](a) or uniform[seq](0, 1) < b + c or count[seq](x > 0) * d > e\n"
    )
    made = compile_graph(text)
    assert corruptions.border(made.formula, made.config).shares == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("corruption C(x[seq, d] as input_ids) → input_ids[seq, d] = x\nconfig\n    d = 3\n", "has axes [seq, d]"),
        ("corruption C(a, x[seq] as input_ids = 0) → out = a + sum[seq](x)\n", "nothing but the optional input"),
    ],
)
def test_what_no_call_can_hold(text: str, told: str) -> None:
    made = compile_graph(text)
    with pytest.raises(Exception, match="X992") as caught:
        corruptions.border(made.formula, made.config)
    assert told in str(caught.value)


def drawn(graph: Graph, count: int) -> Array:
    return corruptions.corrupted(graph, {"input_ids": np.arange(count)})["out"]


def test_draws_of_a_new_length_go_by_its_places() -> None:
    body = "floor(100 * uniform[out](0, 1)) + 0 * repeat[seq → out](x, 2)"
    text = f"corruption C(x[seq] as input_ids) → out[out] = {body}\n"
    short, long = drawn(lowered(text), 2), drawn(lowered(text), 5)
    np.testing.assert_array_equal(long[:4], short)
    assert len(set(long.tolist())) > 5
