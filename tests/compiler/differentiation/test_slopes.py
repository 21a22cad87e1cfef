"""Gradients of whole models, of random specs and of each row, against finite differences in float64."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.differentiation.slopes import evaluated, gap, with_loss, without_stops
from tests.compiler.spec_tools import Array, lowered, rng, weight_values
from tests.fuzz import oracle
from tests.fuzz.strategies import run, specs
from transformula.compiler.differentiation import differentiate, gradient_of
from transformula.compiler.driver import compile_graph

NUMBERLESS = ("nothing",)
"""Its maximum over nothing is -∞."""
QUICK = ("rope", "deberta", "history", "two_states", "crossed", "nested", "pools", "scan", "running", "shift", "two")
NAMES = [
    pytest.param(name, marks=() if name in (*QUICK, "albert", "modules") else pytest.mark.slow)
    for name in zoo.NAMES
    if name not in NUMBERLESS
]


@pytest.mark.parametrize("name", NAMES)
def test_models(name: str) -> None:
    """Of the formula, and of what is recognised in it: hidden, missing and empty texts in one batch."""
    made = zoo.whole(name).compiled
    for stage in made.stages:
        if stage.name in ("formula", "recognise"):
            assert gap(with_loss(without_stops(stage.graph)), zoo.inputs(name)) < 1e-7


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_dropout_keeps_what_the_forward_keeps(name: str) -> None:
    graph = with_loss(without_stops(zoo.whole(name).compiled.formula))
    given = zoo.inputs(name, np.ones((2, 4), int))
    assert gap(graph, given, training=True) < 1e-7
    alone, trained = (evaluated(graph, weight_values(graph), given, training=on)["loss"] for on in (False, True))
    assert alone != trained


def test_random_specs() -> None:
    counts: Counter[str] = Counter()

    def body(text: str) -> None:
        made = compile_graph(text)
        given = oracle.inputs(made.formula, oracle.MIXED, counts["specs"])
        counts["specs"] += 1
        if oracle.wanted(made.formula, given) is not None:
            stage = made.stages[counts["checked"] % 2 * 3].graph
            assert gap(with_loss(without_stops(stage)), given) < 1e-6, text
            counts["checked"] += 1

    run(specs(), body, 5, 15)
    assert counts["checked"] >= 13


MASK = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]])


def model(formula: str, more: str = "", weights: str = "W : [d]; V : [d]; U : [seven, d]") -> str:
    """A model of tokens and weights, one result."""
    lines = "\n            ".join(weights.split("; "))
    imports = ", ".join(name for name in ("softmax", "relu") if f"{name}[" in formula or f"{name}(" in formula)
    return (
        f"spec t\n{f'from functions import {imports}' if imports else ''}\nconfig\n    d = 3\n    seven = 7\n"
        f"model M(tokens[seq] as input_ids) → {formula}\n    where u = U[seven = tokens]\n{more}    weights {lines}\n"
    )


def checked(text: str, scale: float = 1.0, weights: dict[str, Array] | None = None) -> dict[str, Array]:
    """The gradients of a text's results, each checked."""
    graph = with_loss(lowered(text))
    given = {"input_ids": rng(3).integers(0, 7, MASK.shape), "attention_mask": MASK}
    if weights is None:
        assert gap(graph, given, scale=scale) < 1e-7
    values = {**weight_values(graph), **(weights or {})}
    return evaluated(differentiate(graph), values, given)


@pytest.mark.parametrize(
    "formula",
    [
        *("exp(u)", "log(u² + 1)", "√(u² + 0.1)", "erf(u)", "tanh(u)", "sin(u)", "cos(u)", "|u|", "-u", "u * floor(u)"),
        *("u * ceil(u)", "u * sign(u)", "u + V", "u - V", "u * V", "u / (V² + 1)", "W / (u² + 1)", "u % 3"),
        *("u // 2 + u", "u^3", "(u² + 1)^V", "u^-2", "max(u, V)", "min(u, V)", "u if u < V else V * u"),
        *("u * (1 if u ≤ V and not u > 2 * V or u == W else 2)", "u * (1 if u ≥ V or u ≠ V else 2)"),
    ],
)
def test_each_function(formula: str) -> None:
    used = {name for name in "WV" if name in formula}
    checked(model(f"y[seq, d] = {formula}", weights="; ".join([*(f"{one} : [d]" for one in used), "U : [seven, d]"])))


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min", "norm"])
@pytest.mark.parametrize("condition", ["", " if tokens > 3", " if tokens > 9"])
def test_each_reduction(kind: str, condition: str) -> None:
    found = f"{kind}[seq{condition}](u)"
    found = {"max": f"max({found}, -5)", "min": f"min({found}, 5)"}.get(kind, found)  # of nothing: ∓∞
    checked(model(f"y[d] = {found} if tokens[seq = 0] < 9 else 0, z[seq] = {kind}[d](u)", weights="U : [seven, d]"))


def test_a_product_with_zeros() -> None:
    """One zero leaves the product of the others to itself; two leave nothing to anybody."""
    text = "spec t\nconfig\n    d = 3\nmodel M(x[one] as x) → y = prod[d](W)\n    weights W : [d]\n"
    for value, right in (([2, 0, 3], [0, 6, 0]), ([0, 0, 3], [0, 0, 0]), ([2, 5, 3], [15, 6, 10])):
        graph = lowered(text.replace("y = prod[d](W)", "y = prod[d](W) + 0 * sum[one](x)"))
        graph = with_loss(graph)
        found = evaluated(differentiate(graph), {"W": np.array(value, float)}, {"x": np.ones((1, 1))})
        np.testing.assert_allclose(found[gradient_of("W")] / np.cos(0.3), right)


def test_corners() -> None:
    """max(x, 0) has the slope 0 at 0, |x| and √x and ‖x‖ have 0 there, equal maxima share evenly."""
    zeros = {"U": np.zeros((7, 3))}
    for formula in ("relu(u)", "|u|", "√u", "norm[d](u)[→ d] * V", "√(sum[d](u²))[→ d] * V"):
        used = "V : [d]; U : [seven, d]" if "V" in formula else "U : [seven, d]"
        found = checked(model(f"y[seq, d] = {formula}", weights=used), weights=zeros)
        assert not found[gradient_of("U")].any(), formula
    found = checked(model("y[d] = max[seq](U[seven = 0 * tokens]) if seq > 0 else 0", weights="U : [seven, d]"))
    assert np.isfinite(found[gradient_of("U")]).all()


@pytest.mark.parametrize(
    "formula",
    [
        *("log(u) if u > 99 else u", "√(u - 99) if u > 99 else u", "1 / (u - u) if u > 99 else u"),
        *("exp(1000 * u) * u if u > 99 else u", "(u - 99)^0.5 if u > 99 else u"),
        "u[seq = index(seq) - 1] if index(seq) > 0 else u",
        *("(log(u - 99) if u > 99 else 0) * V", "(log(u) * V if u > 99 else 0) + u"),
    ],
)
def test_a_branch_that_is_not_selected_has_no_gradient(formula: str) -> None:
    weights = "V : [d]; U : [seven, d]" if "V" in formula else "U : [seven, d]"
    checked(model(f"y[seq, d] = {formula}", weights=weights))


def test_rows_that_see_nothing_have_no_gradient() -> None:
    """A softmax over nothing gives 0 and passes 0 on, by the naive formula and by what is recognised in it."""
    text = model("y[seq, d] = softmax[key if tokens[seq → key] > 99](u @[d] u[seq → key]) @[key] u[seq → key]",
                 weights="U : [seven, d]")  # fmt: skip
    for stage in compile_graph(text).stages[:4]:
        graph = with_loss(stage.graph)
        given = {"input_ids": rng(3).integers(0, 7, MASK.shape), "attention_mask": MASK}
        found = evaluated(differentiate(graph), weight_values(graph), given)
        assert not found[gradient_of("U")].any()


def test_stop_cuts() -> None:
    found = checked(model("y[seq, d] = u * stop(u * V)", weights="V : [d]; U : [seven, d]"), weights={})
    assert not found[gradient_of("V")].any()
    assert found[gradient_of("U")].any()
