"""Dropout in NumPy's training: the draws of the reference, by seed, site, step and place, forwards and backwards."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.compiler.differentiation.slopes import evaluated
from tests.specs.objectives import class_of, random_weights
from tests.training.test_numpy import RATES, SIZES, given, totals
from transformula.backends.checkpoint_table import checkpoint_table
from transformula.backends.numpy.fitting import Fit
from transformula.backends.numpy.weights import assemble
from transformula.backends.optimising import AdamW, seed_of
from transformula.backends.program import Program, compile
from transformula.compiler import reference
from transformula.compiler.differentiation import gradient_of
from transformula.compiler.objectives import COUNT, weight_rows

Array = Any
RATE = dict.fromkeys((*RATES, "dropout_rate", "dropout"), 0.3)
KINDS = (
    *(("bert", "mlm"), ("bert", "pretraining"), ("bert", "choosing"), ("gpt2", "causal_lm"), ("t5", "seq2seq")),
    *(("sbert", "ranking"), ("electra", "joint"), ("albert", "mlm"), ("gpt2", "labelling"), ("bart", "denoising")),
)
STOPPED = {"bart": {"lm_head.c"}}
"""Weights whose gradient the formulas stop."""
QUICK = (("bert", "mlm"), ("gpt2", "causal_lm"), ("sbert", "ranking"), ("electra", "joint"), ("albert", "mlm"))


@cache
def program(spec: str, entry: str) -> Program:
    """An objective at small sizes that drops out three in ten."""
    names = compile(spec, "numpy", entry=entry, validate=False).compiled.module.options
    joint = {"d": 16, "head": 4, "ffn": 16, "emb": 6, "layers": 1, "vocab": 20}
    own = joint if entry == "joint" else {**SIZES, "head_dec": 2}
    own |= {"layers": 5, "inner": 2, "groups": 2} if spec == "albert" else {}  # loops of several steps, one in another
    settings = {name: size for name, size in own.items() if name in names}
    return compile(spec, "numpy", RATE, entry, settings, validate=False, gradients=True)


def by_weight(made: Program, slopes: dict[str, Array]) -> dict[str, Array]:
    """Gradients by the names of the spec."""
    compiled = made.compiled
    rows = weight_rows(compiled.module, compiled.config, compiled.entry, compiled.graph)
    return {name: np.asarray(one) for name, one in assemble(slopes, checkpoint_table(rows)).items()}


@pytest.mark.parametrize(
    ("spec", "entry"), [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in KINDS]
)
def test_loss_and_slopes_are_those_of_the_formulas(spec: str, entry: str) -> None:
    """The loss of a seed is the naive formulas' with this seed, and so is its change along some directions."""
    made = program(spec, entry)
    batch, weights, formula = given(made), random_weights(made), made.compiled.formula
    model, seed = class_of(made)(weights, dtype="float64"), 11

    def right(moved: dict[str, Array]) -> float:
        return float(reference.run(formula, moved, batch, seed=seed, training=True)["loss"])

    loss, slopes = model.loss_and_gradients(**batch, seed=seed)
    mine = by_weight(made, slopes)
    assert abs(loss - right(weights)) < 1e-11
    assert abs(loss - model.loss_and_gradients(**batch, seed=seed + 1)[0]) > 1e-6
    assert abs(loss - model.loss_and_gradients(**batch)[0]) > 1e-6  # without a seed nothing is dropped out
    draw = np.random.default_rng(0)
    for _ in range(4):
        way = {name: draw.normal(size=value.shape) for name, value in weights.items()}
        way |= {name: np.zeros_like(way[name]) for name in STOPPED.get(spec, ())}
        ends = [right({name: value + step * way[name] for name, value in weights.items()}) for step in (1e-6, -1e-6)]
        told = sum(float((mine[name] * way[name]).sum()) for name in weights)
        assert abs((ends[0] - ends[1]) / 2e-6 - told) < 1e-6 * max(1.0, abs(told))


def test_only_rows_that_count_are_computed_and_drop_what_they_would_among_all() -> None:
    (made,) = program("bert", "mlm").compiled.gradients or ()
    picked = [one for one in made.graph.nodes() if one.op in ("random", "kernel") and one.get("picked") is not None]
    assert any(isinstance(one["picked"], tuple) for one in picked)
    assert any(one.op == "selected" for one in made.graph.nodes())


def test_a_site_is_drawn_once_for_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedding, and three sites in each of two layers: the backward has the numbers of the forward."""
    made = program("bert", "mlm")
    model = class_of(made)(random_weights(made), dtype="float64")
    space, sites = model.loss_and_gradients.__func__.__globals__, list[str]()
    real = space["drawn"]

    def noted(seed: int, site: str, *rest: Any) -> Array:
        sites.append(site)
        return real(seed, site, *rest)

    monkeypatch.setitem(space, "drawn", noted)
    model.loss_and_gradients(**given(made), seed=1)
    assert len(sites) == len(set(sites)) == 1 + 2 * 3


@pytest.mark.parametrize("entry", ["mlm", "joint"])
def test_each_part_of_each_step_draws_by_itself(entry: str) -> None:
    """Two parts with the same examples, and two steps, drop out otherwise; the same part of a step does not."""
    made = program("electra" if entry == "joint" else "bert", entry)
    batch = given(made)
    counts = totals(made, [batch, batch])
    fit = Fit(made, random_weights(made), "float64", AdamW(), None, 3)
    found = [fit.accumulate(batch, counts, step, part) for step, part in ((1, 0), (1, 1), (2, 0), (1, 0))]
    assert found[0] == found[3]
    assert len({round(one, 9) for one in found}) == 3
    whole = fit.model.loss_and_gradients(**batch, totals=counts, seed=seed_of(3, 1, 1))[0]
    assert found[1] == pytest.approx(whole, abs=1e-14)


def test_what_is_held_out_drops_nothing() -> None:
    made = program("bert", "mlm")
    fit = Fit(made, random_weights(made), "float64", AdamW(), None, 3)
    sums, counts = fit.value(given(made))
    right = reference.run(made.compiled.formula, random_weights(made), given(made))
    assert sums[0] / counts[0] == pytest.approx(float(right["loss"]), abs=1e-12)
    assert counts[0] == right[COUNT]


@pytest.mark.parametrize(("spec", "entry"), [("bert", "mlm"), ("albert", "mlm")])
def test_the_differentiated_graph_draws_the_same(spec: str, entry: str) -> None:
    """In a loop inside of another one, too (ALBERT), whose inner one runs again backwards."""
    made = program(spec, entry)
    assert made.compiled.gradients is not None
    batch, weights = given(made), random_weights(made)
    right = evaluated(made.compiled.gradients[0].graph, weights, batch, training=True)
    loss, slopes = class_of(made)(weights, dtype="float64").loss_and_gradients(**batch, seed=0)
    assert abs(loss - float(right["loss"])) < 1e-11
    for name, mine in by_weight(made, slopes).items():
        np.testing.assert_allclose(mine, right[gradient_of(name)], rtol=0, atol=1e-11, err_msg=name)
