"""Objectives from inputs to one number: the model inside, sums and counts, the places that count, logits in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler import zoo
from transformula.compiler import cost, reference
from transformula.compiler.cost import costs
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Graph, Node
from transformula.compiler.sizes import Sizes
from transformula.grammar.diagnostics import TransformulaError

SPEC = """\
from functions import nll, shift

config
    d     = 4
    vocab = 20
    wide  = 8

block Head(x[d]) → [vocab] = tanh(x @ W) @ V
    weights W : [d → wide]
            V : [wide → vocab]

block Layer(x[seq, d]) → [seq, d] = x + tanh(x @ W)
    weights W : [d → d]

uses net : Net
     head : Head

model Net(tokens[seq] as input_ids) → states[seq, d] = h[3]
    where
        h[0] = E[vocab = tokens]
        for l in 0..3:
            h[l + 1] = layer(h[l])
    uses layer : Layer
    weights E : [vocab, d]

model Writer of net → logits[seq, vocab] = head(states)

model Texts of net for side → vector[side, d] = mean[seq](states)

{objective}
"""
IDS = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])
LABELS = np.array([[1, -1, 3, -1], [-1, -1, -1, 8], [-1, -1, -1, -1]])
LOSS = "mean[batch, seq if labels ≠ -1](nll[vocab](logits, labels))"
MARKED = f"objective o of Writer(labels[batch, seq]) → loss = {LOSS}"


def graph(objective: str, entry: str = "o", until: str | None = "formula", **more: Any) -> Graph:
    return compile_graph(SPEC.format(objective=objective), entry=entry, until=until, **more).graph


def run(made: Graph, **inputs: Any) -> dict[str, Any]:
    weights = zoo.weight_values(made, 0)
    return {name: value.tolist() for name, value in reference.run(made, weights, inputs).items()}


TWO = "objective o of Texts({more}) → loss = {loss}"


def test_several_texts_of_an_example_are_one_batch_of_the_model() -> None:
    """vector[side = 1] of example b is that of text 2 b + 1."""
    made = graph(TWO.format(more="", loss="mean[batch](sum[d](vector[side = 1]))"))
    assert [axis.name for axis in made.inputs[0].axes] == ["texts", "seq"]
    ids = np.stack([IDS, IDS[::-1]], axis=1)
    single = graph("objective o of Single() → loss = mean[batch](sum[d](vector))\n"
                   "model Single of net → vector[d] = mean[seq](states)")  # fmt: skip
    np.testing.assert_allclose(run(made, input_ids=ids)["loss"], run(single, input_ids=ids[:, 1])["loss"], rtol=1e-13)


def test_masks_of_several_texts() -> None:
    """What a mask hides counts nothing, for each text by itself."""
    made = graph(TWO.format(more="", loss="mean[batch](sum[d](vector[side = 0] * vector[side = 1]))"))
    ids, mask = np.stack([IDS, IDS[::-1]], axis=1), np.ones((3, 2, 4), int)
    mask[0, 1, 2:] = 0
    other = np.where(mask == 1, ids, 17)
    assert run(made, input_ids=ids, attention_mask=mask) == run(made, input_ids=other, attention_mask=mask)


@pytest.mark.parametrize(
    ("loss", "sums"),
    [
        ("mean[batch](a)", [("a", "count")]),
        ("mean[batch](a) + 2 * mean[batch](b)", [("a", "count"), ("2b", "count")]),
        ("(mean[batch](a) - mean[batch](b)) / 4", [("a/4", "count"), ("-b/4", "count")]),
        ("sum[batch](a)", [("a", "none")]),
        ("sum[batch](a * w) / sum[batch](w)", [("aw", "w")]),
        ("sum[batch](a * w) / sum[batch](w) if sum[batch](w) > 0 else 0", [("aw", "w")]),
        ("mean[batch if w > 0](a)", [("a if w > 0", "count if w > 0")]),
    ],
)
def test_sums_and_counts(loss: str, sums: list[tuple[str, str]]) -> None:
    made = compile_graph(f"objective o(a[batch], b[batch], w[batch]) → loss = {loss}", entry="o", until="formula").graph
    a, b, w = np.array([1.0, 2, 4]), np.array([3.0, 5, 7]), np.array([0.5, 0, 2])
    read = {one.name for one in made.inputs} & {"a", "b", "w"}
    found = run(made, **{name: value for name, value in (("a", a), ("b", b), ("w", w)) if name in read})
    known = {
        "a": a.sum(), "2b": 2 * b.sum(), "a/4": a.sum() / 4, "-b/4": -b.sum() / 4, "aw": (a * w).sum(), "w": w.sum(),
        "count": 3, "none": 0, "a if w > 0": 5, "count if w > 0": 2,
    }  # fmt: skip
    assert found["loss_sum"] == pytest.approx([known[one] for one, _ in sums])
    assert found["loss_count"] == pytest.approx([known[one] for _, one in sums])
    parts = zip(found["loss_sum"], found["loss_count"], strict=True)
    assert sum(one / count if count else one for one, count in parts) == pytest.approx(found["loss"])


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ("mean[batch](a)²", "no sum of means"),
        ("mean[batch](a) * mean[batch](b)", "no sum of means"),
        ("max[batch](a)", "no sum of means"),
        ("mean[batch](sum[other](t))\n    where t[batch, other] = a * b[batch → other]", "compares the examples"),
        ("mean[batch](a - mean[batch](b))", "compares the examples"),
    ],
)
def test_what_does_not_add_up_says_so(loss: str, reason: str) -> None:
    made = compile_graph(f"objective o(a[batch], b[batch]) → loss = {loss}", entry="o", until="formula")
    assert [out.name for out in made.graph.outputs] == ["loss"]
    (line,) = [line for line in made.ledger.lines if line.rule == "loss_sum"]
    assert reason in line.reason


# ------------------------------------------------------------------------------------------- places that count alone


def products(made: Graph, sizes: Sizes) -> list[int]:
    """The rows of each product with weights, largest last."""
    price = cost.Pricer(made, sizes)
    found = [one for one in price.order if one.op == "contract" and one not in price.static]
    kernels = [one for one in price.order if one.op == "kernel" and one["name"] == "product_cross_entropy"]
    return sorted(cost.rows_of(one, price.sizes) * price.times(one) for one in (*found, *kernels))


def test_the_head_runs_on_the_rows_that_count() -> None:
    """15 % of 16 · 128 tokens are 307 rows: those of the head, and of the last layer, which is made apart for them."""
    sizes = Sizes(16, 128)
    every = products(graph(MARKED, until=None, without=("push_picks", "chunk")), sizes)
    chosen = products(graph(MARKED, until=None), sizes)
    assert every == [2048, 2048, 3 * 2048]  # the head's two products, and three layers
    assert chosen == [307, 307, 307, 2 * 2048]


def test_it_is_the_condition_that_chooses_and_no_name() -> None:
    made = compile_graph(SPEC.format(objective=MARKED.replace("labels", "ℓ").replace("-1", "7")), entry="o")
    assert any(line.rule == "restricted" and line.fired for line in made.ledger.lines)
    whole = compile_graph(SPEC.format(objective=MARKED.replace(" if labels ≠ -1", "")), entry="o")
    assert not any(line.rule == "restricted" for line in whole.ledger.lines)


def test_logits_that_somebody_else_reads_are_all_there() -> None:
    """A result besides the loss asks for all rows: the ledger says why there are no pieces."""
    every = MARKED.replace(" if labels ≠ -1", "")
    for objective, reason in ((MARKED, "no product"), (every, "read elsewhere")):
        made = compile_graph(SPEC.format(objective=f"{objective}, z[batch, seq, vocab] = logits"), entry="o")
        assert cost.rows(made.graph, Sizes(16, 128)) >= 5 * 2048
        (line,) = [line for line in made.ledger.lines if line.rule == "chunk"]
        assert not line.fired
        assert reason in line.reason


def test_places_are_those_that_the_condition_and_the_mask_let_through() -> None:
    whole, chosen = graph(MARKED), graph(MARKED, until=None)
    assert any(one.op == "selected" for one in chosen.nodes())
    weights = zoo.weight_values(whole, 0)
    for mask in (np.ones((3, 4), int), np.array([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1]]), np.zeros((3, 4), int)):
        given = {"input_ids": IDS, "labels": LABELS, "attention_mask": mask}
        wanted, found = (reference.run(one, weights, given) for one in (whole, chosen))
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-13)
        assert wanted["loss_count"].tolist() == [((LABELS != -1) & (mask == 1)).sum()]


def test_a_label_one_place_further_is_looked_up_before() -> None:
    """The labels of a causal model are moved in whole texts: an owner's rows alone would lose where each text ends."""
    loss = "mean[batch, seq if next ≠ -1](nll[vocab](logits, next))\n    where next = shift[seq](labels, 1, -1)"
    objective = f"objective o of Writer(labels[batch, seq]) → loss = {loss}"
    whole, chosen = graph(objective), graph(objective, until=None)
    weights = zoo.weight_values(whole, 0)
    given = {"input_ids": IDS, "labels": IDS, "attention_mask": np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]])}
    wanted, found = (reference.run(one, weights, given) for one in (whole, chosen))
    assert wanted["loss_count"].tolist() == [7]
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-13)


# ----------------------------------------------------------------------------------------------- logits in pieces


def kernels_of(made: Graph) -> list[Node]:
    return [one for one in made.nodes() if one.op == "kernel"]


def test_logits_of_a_long_axis_are_no_value_of_the_graph() -> None:
    made = graph(MARKED, until=None)
    (one,) = [one for one in kernels_of(made) if one["name"] == "product_cross_entropy"]
    assert not any(one["axis"] in node.axes and len(node.axes) > 2 for node in made.nodes())
    sizes = Sizes(16, 128)
    whole = costs(graph(MARKED, until=None, without=("chunk",)), sizes).total
    pieces = costs(made, sizes).total
    assert whole.flops == pieces.flops
    assert whole.written - pieces.written >= 307 * 20 * cost.WORD


def test_a_short_axis_stays_as_it_is() -> None:
    made = compile_graph(SPEC.format(objective=MARKED), entry="o", settings={"wide": 30})
    (line,) = [line for line in made.ledger.lines if line.rule == "chunk"]
    assert "no larger" in line.reason


def test_what_an_objective_is_asked_for() -> None:
    """Some of its results; it has none on demand, and its loss has no rows."""
    text = SPEC.format(objective=MARKED)
    assert [out.name for out in compile_graph(text, entry="o", results=["loss"]).graph.outputs] == ["loss"]
    for more in ({"shows": ["hidden_states"]}, {"rows": {"loss": "last"}}, {"results": ["logits"]}):
        with pytest.raises(TransformulaError):
            compile_graph(text, entry="o", **more)
