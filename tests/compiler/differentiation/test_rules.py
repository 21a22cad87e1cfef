"""What differentiation is made of: a row for everything, loops that stay loops, a core graph out of a core graph."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.differentiation.slopes import evaluated, gap, with_loss
from tests.compiler.spec_tools import lowered, rng, weight_values
from transformula import TransformulaError
from transformula.compiler import ir, kernels, ops, verify
from transformula.compiler.cost import costs
from transformula.compiler.differentiation import GRADIENT, differentiate, gradient_of
from transformula.compiler.differentiation.activity import SLOPES as REDUCED
from transformula.compiler.differentiation.meanings import SLOPES as MEANINGS
from transformula.compiler.differentiation.rules import RULES, SLOPES
from transformula.compiler.differentiation.scalars import DERIVATIVES, PARTIAL
from transformula.compiler.driver import compile_graph
from transformula.compiler.training import compile_gradients, work

FLAT = {"argmax", "count", "any", "all"}
"""Reductions that give whole numbers or truth values."""


def test_everything_has_a_row() -> None:
    assert set(RULES) == set(verify.OPERATIONS)
    assert set(DERIVATIVES) == set(ops.FUNCTIONS)
    assert {name: len(row) for name, row in DERIVATIVES.items()} == {n: f.arity for n, f in ops.FUNCTIONS.items()}
    assert set(SLOPES) | FLAT == set(ops.REDUCTIONS)
    assert set(SLOPES) == set(REDUCED)
    assert set(MEANINGS) <= set(kernels.KERNELS)
    assert set(PARTIAL) <= set(ops.FUNCTIONS)


def both(layers: int) -> tuple[ir.Graph, ir.Graph]:
    """BERT's masked language model of that many layers: what is differentiated, and with its gradients."""
    made = compile_graph("bert", None, "BertForMaskedLM", {**zoo.BERT, "layers": layers}, without=("inference",))
    (found,) = compile_gradients(made)
    verify.verify(found.graph)
    return found.stages[-2].graph, found.graph


def losses(layers: int) -> ir.Graph:
    """The one with its gradients."""
    return both(layers)[1]


def test_a_loop_stays_a_loop_however_deep() -> None:
    """As many nodes for 5 layers as for 50; two loops, one forwards and one backwards."""
    counts = {layers: len(losses(layers).nodes()) for layers in (5, 50)}
    assert counts[5] == counts[50]
    assert sum(one.op == "loop" for one in losses(50).nodes()) == 2


def test_the_backward_costs_about_twice_the_forward() -> None:
    """Two products for each of the forward's; and no forward step is computed again but the scores of attention."""
    kept, graph = both(12)
    forward = replace(graph, outputs=tuple(out for out in graph.outputs if not out.name.startswith(GRADIENT)))
    scores = costs(forward).kinds["attention"].products // 2
    assert 1 < (work(graph)["backward"] - scores) / work(graph)["forward"] < 2.2

    def products(one: ir.Graph) -> int:
        return sum(node.op in ("contract", "total") and len(node.args) == 2 for node in one.nodes())

    expanded = sum(2 for node in kept.nodes() if node.op == "kernel" and node["name"] == "attention")
    assert products(graph) <= 3 * (products(kept) + expanded) + 2
    assert products(forward) <= products(graph)


def test_what_is_added_at_places_of_texts_knows_the_length_of_each() -> None:
    """Σ c · scatter(w): three numbers at places of two texts, of three tokens and of one; the last is in neither."""
    row, batch = ir.Axis("row", 3), ir.Axis("batch", ir.Length("batch"))
    seq = ir.Axis("seq", ir.Length("seq"), batch)
    example, place = (ir.table(map(Fraction, numbers), row) for numbers in ((0, 1, 1), (2, 0, 2)))
    put = ir.scatter(ir.weight("w", (row,)), {batch: example, seq: place}, (batch, seq))
    factor = ir.apply("+", ir.apply("*", ir.const(10), ir.index(batch)), ir.apply("+", ir.index(seq), ir.const(1)))
    loss = ir.total([put, factor], (batch, seq))
    inputs = (ir.Input("input_ids", "tokens", (batch, seq), "int", True),)
    weight = ir.Weight("w", (row,), (), (), None, "0")
    made = differentiate(ir.Graph("g", (ir.Output("loss", loss, ()),), inputs, (weight,), {}))
    given = {"input_ids": np.zeros((2, 3), int), "attention_mask": np.array([[1, 1, 1], [1, 0, 0]])}
    found = evaluated(made, {"w": np.array([0.5, 2.0, 8.0])}, given)
    assert found["loss"] == 3 * 0.5 + 11 * 2.0
    assert found[gradient_of("w")].tolist() == [3.0, 11.0, 0.0]


@pytest.mark.parametrize("name", ["pools", "history", "scan", "deberta"])
def test_a_gradient_can_be_differentiated(name: str) -> None:
    """The graph is closed: the gradients' own gradients hold to finite differences."""
    first = differentiate(with_loss(zoo.whole(name).compiled.formula))
    slopes = [out for out in first.outputs if out.name.startswith(GRADIENT)]
    squares = [ir.reduce("sum", ir.apply("tanh", out.node), out.axes) for out in slopes]
    total = squares[0]
    for one in squares[1:]:
        total = ir.apply("+", total, one)
    second = replace(first, outputs=(ir.Output("loss", total, ()),))
    assert gap(second, zoo.inputs(name)) < 1e-6


TWO_LOOPS = """
spec t
config
    vocab = 20
    d = 3
    layers = 4
block L(x[d]) → [d] = x + tanh(x @ W)
    weights W : [d → d]
model M(tokens[seq] as input_ids) → y[seq, d] = g[layers], z[seq, d] = h[1]
    where h[0] = E[vocab = tokens]
          for l in layers:
              h[l + 1] = down[l](h[l])
          g[0] = h[layers]
          for l in 1..layers:
              g[l + 1] = up[l](g[l] + 2 * h[layers - l]) + (g[1] if l > 2 else 0)
    uses down[layers], up[layers] : L
    weights E : [vocab, d]
""".replace("g[0] = h[layers]", "g[1] = h[layers]")


def test_a_loop_may_read_the_states_of_another() -> None:
    """What a step reads of a finished loop reaches the state of that number, in each of its orders."""
    graph = with_loss(lowered(TWO_LOOPS))
    assert gap(graph, zoo.inputs("gpt")) < 1e-7
    made = differentiate(graph)
    assert sum(one.op == "loop" for one in made.nodes()) == 4


def test_an_input_of_real_numbers_has_a_gradient() -> None:
    text = "spec t\nconfig\n    d = 3\nmodel M(x[seq, d] as x) → y[d] = sum[seq](tanh(x) * index(seq))\n"
    graph = with_loss(lowered(text))
    made = differentiate(graph, wanted=["x"])
    x, mask = rng(0).normal(size=(2, 4, 3)), np.array([[1, 1, 1, 0], [0, 1, 0, 1]])
    found = evaluated(made, {}, {"x": x, "attention_mask": mask})[gradient_of("x")]
    assert found.shape == (2, 3, 3)
    assert not found[1, 1].any()
    moved = x.copy()
    moved[0, 2, 1] += 1e-6
    change = [float(evaluated(graph, {}, {"x": one, "attention_mask": mask})["loss"]) for one in (x, moved)]
    assert abs((change[1] - change[0]) / 1e-6 - found[0, 2, 1]) < 1e-4


@pytest.mark.parametrize(("loss", "wanted", "told"), [
    ("logits", None, "has axes"), ("nothing", None, "does not exist"), ("loss", ["V"], "no weight and no input `V`"),
])  # fmt: skip
def test_what_cannot_be_differentiated_is_told(loss: str, wanted: list[str] | None, told: str) -> None:
    graph = zoo.whole("gpt").compiled.formula
    graph = graph if loss != "loss" else with_loss(graph)
    with pytest.raises(TransformulaError, match=told) as caught:
        differentiate(graph, loss, wanted)
    assert caught.value.diagnostics[0].code == "X994"


def test_a_weight_that_the_loss_does_not_read_has_the_gradient_0() -> None:
    graph = with_loss(zoo.whole("gpt").compiled.formula)
    extra = ir.Weight("spare", (zoo.whole("gpt").compiled.formula.weights[0].axes[0],), (), (), None, "")
    made = differentiate(replace(graph, weights=(*graph.weights, extra)))
    given = {**weight_values(graph), "spare": np.ones(20)}
    assert not evaluated(made, given, zoo.inputs("gpt"))[gradient_of("spare")].any()
