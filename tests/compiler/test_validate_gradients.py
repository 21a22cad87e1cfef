"""Gradients proved on the spot: wrong rules are caught and named, right ones are not blamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from transformula.backends.program import compile as compile_program
from transformula.compiler import ir, passes
from transformula.compiler.differentiation import GRADIENT, meanings, rules, scalars
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import Graph, Node
from transformula.compiler.ledger import Ledger
from transformula.compiler.training import AGAIN, DIFFERENTIATE, compile_gradients
from transformula.compiler.validation import proof, prove, prove_quickly, slopes
from transformula.compiler.validation.trial import Trial
from transformula.grammar.diagnostics import TransformulaError

pytestmark = pytest.mark.proved


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    """No proof of another test is remembered."""
    proof._done.clear()
    yield
    proof._done.clear()


def differentiated(spec: str, entry: str | None) -> Compiled:
    made = compile_graph(spec, entry=entry)
    return replace(made, gradients=compile_gradients(made))


def halved(rule: Callable[..., Any]) -> Callable[..., Any]:
    """What flows, at half its strength."""
    return lambda g, x, y: ir.apply("*", rule(g, x, y), ir.const(0.5))


FORMULAS = {
    "exp": "exp(h)", "sqrt": "√(h² + 1)", "tanh": "tanh(h)", "sin": "sin(h)", "erf": "erf(h)", "log": "log(h² + 1)",
    "abs": "|h|", "/": "h / (h² + 1)", "max": "max(h, 0)",
}  # fmt: skip


def objective(formula: str) -> str:
    return f"""
spec t
config
    d = 64
    vocab = 900
model M(tokens[seq] as input_ids) → states[seq, d] = {formula}
    where h = E[vocab = tokens]
    weights E : [vocab, d]
objective loss(tokens[batch, seq] as input_ids) → loss = mean[batch, seq](sum[d](m(tokens)))
    uses m : M
"""


@pytest.mark.parametrize("name", FORMULAS)
def test_a_wrong_derivative_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_quickly(differentiated(objective(FORMULAS[name]), "loss"))
    proof._done.clear()
    flows = tuple(flow and halved(flow) for flow in scalars.DERIVATIVES[name])
    monkeypatch.setitem(scalars.DERIVATIVES, name, flows)
    with pytest.raises(TransformulaError, match=r"`differentiate` changes what the gradients of loss") as caught:
        prove_quickly(differentiated(objective(FORMULAS[name]), "loss"))
    assert "Without gradients it compiles" in caught.value.diagnostics[0].help


@pytest.mark.parametrize("op", ["pick", "contract", "reduce", "kernel"])
def test_a_wrong_rule_is_caught_in_bert(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing flows through one of the operations to its first argument."""
    rule = rules.RULES[op]

    def cut(sweep: Any, one: Node, g: Node) -> Any:
        before = dict(sweep.adjoints)
        found = rule(sweep, one, g)
        if one.args and one.args[0] in sweep.adjoints:
            kept = before.get(one.args[0])
            sweep.adjoints[one.args[0]] = ir.const(0.0) if kept is None else kept
        return found

    monkeypatch.setitem(rules.RULES, op, cut)
    with pytest.raises(TransformulaError, match=r"`differentiate` changes what the gradients of mlm computes"):
        compile_program("bert", entry="mlm", gradients=True)


def test_a_wrong_slope_of_a_meaning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = meanings.SLOPES["layer_norm"]

    def larger(*args: Any) -> Iterator[tuple[str, Node]]:
        yield from ((role, ir.apply("*", flow, ir.const(1.01))) for role, flow in right(*args))

    monkeypatch.setitem(meanings.SLOPES, "layer_norm", larger)
    with pytest.raises(TransformulaError, match="`differentiate` changes what"):
        compile_program("bert", entry="mlm", gradients=True)


def test_a_pass_behind_the_differentiation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(graph: Graph, ledger: Ledger, run: Callable[[Graph, Ledger], Graph]) -> Graph:
        made = run(graph, ledger)
        outputs = [
            replace(out, node=ir.apply("neg", out.node)) if out.name.startswith(GRADIENT) else out
            for out in made.outputs
        ]
        return replace(made, outputs=tuple(outputs))

    rows = tuple(
        replace(row, run=partial(spoilt, run=row.run)) if row.name == AGAIN[0] else row
        for row in passes.PASSES
    )
    monkeypatch.setattr(passes, "PASSES", rows)
    with pytest.raises(TransformulaError, match=f"`{AGAIN[0]} again` changes what the gradients of causal_lm"):
        prove_quickly(differentiated("gpt2", "GPT2LMHeadModel"))


@pytest.mark.parametrize(
    ("spec", "entry"),
    [("bert", "pretraining"), ("sbert", "ranking"), ("llama", "LlamaForCausalLM"), *(
        pytest.param(*one, marks=pytest.mark.slow) for one in (
            ("roberta", "BertForMaskedLM"), ("t5", "T5ForConditionalGeneration"), ("deberta", "mlm"),
            ("electra", "detecting"), ("albert", "sop"))
    )],
)  # fmt: skip
def test_right_gradients_are_not_blamed(spec: str, entry: str) -> None:
    made = differentiated(spec, entry)
    runs = slopes.runs(made, proof.QUICK)
    found = [measure for run in runs for kind in run.kinds for measure in run.every(kind)]
    assert not [one for one in found if one.gap.wrong]
    assert any(one.gap.entries > 10 and one.gap.error > 0 for one in found if one.stage == DIFFERENTIATE)


def test_the_full_proof_has_the_gradients() -> None:
    made = differentiated("bert", "BertForPreTraining")
    found = prove(made, ["different"])
    assert not found.wrong
    mine = [one for one in found.measures if one.model == "the gradients of pretraining"]
    assert {DIFFERENTIATE, "simplify again"} <= {one.stage for one in mine} <= {
        DIFFERENTIATE, *(f"{name} again" for name in AGAIN)
    }  # fmt: skip
    without = prove(replace(made, gradients=None), ["different"]).measures
    assert not [one for one in without if one.stage == DIFFERENTIATE]


def test_nothing_is_said_at_a_corner() -> None:
    """Weights at the corner of |h|, and within a step of it: a difference says nothing of a slope there."""
    made = differentiated(objective("|h|"), "loss")
    (run, *_) = slopes.runs(made, {"different": ("masks",)})
    trial = run.trial(run.kinds[0])
    assert trial is not None
    case = trial.case
    for corner in (0.0, 1e-9, 1e-4, 1e-3):
        near = {name: np.where(np.abs(value) < 0.3, corner, value) for name, value in case.weights.items()}
        moved = Trial(trial.graph, replace(case, weights=near))
        assert not slopes.slope(moved, run.made.graph, "loss").wrong
