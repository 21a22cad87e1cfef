"""Cross-entropy by meaning: every spelling of -log softmax(x) at the label is one node, without a table of shares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from tests.compiler.test_recognise import names
from transformula.backends.numpy.rowwise import log_sum_exp
from transformula.backends.program import Program, compile
from transformula.backends.torch import functions
from transformula.compiler.ir import Node
from transformula.grammar.diagnostics import TransformulaError

HEAD = """spec t
config
    d = 5
model M(x[seq, d] as x, label[seq] as label) → y[seq] = {formula}
"""
P = "p = exp(x) / sum[d](exp(x))"
HOT = "hot[seq, d] = 1 if index(d) == label else 0"
NLL = [
    ("-log(p[d = label])", P),
    ("-log(p)[d = label]", P),
    ("-log(exp(x) / sum[d](exp(x)))[d = label]", ""),
    ("log(sum[d](exp(x))) - x[d = label]", ""),
    ("-(x[d = label] - log(sum[d](exp(x))))", ""),
    ("log(1 / p[d = label])", P),
    ("-log(exp(x[d = label]) / sum[d](exp(x)))", ""),
    ("top + log(sum[d](exp(x - top))) - x[d = label]", "top = max[d](x)"),
    ("log(sum[d](exp(x - x[d = label])))", ""),
]
ONE_HOT = [
    ("-sum[d](hot * log(p))", f"{P}; {HOT}"),
    ("-sum[d](log(p) ⊙ hot)", f"{P}; {HOT}"),
    ("-sum[d if at](log(p))", f"{P}; at[seq, d] = index(d) == label"),
    ("sum[d](hot * log(1 / p))", f"{P}; {HOT}"),
]
SMOOTH = [
    ("0.9 * n + 0.1 * mean[d](-log(p))", f"n = -log(p[d = label]); {P}"),
    ("n - 0.1 * n - mean[d](log(p)) / 10", f"n = -log(p[d = label]); {P}"),
    ("log(sum[d](exp(x))) - 0.9 * x[d = label] - 0.1 * mean[d](x)", ""),
]
SUITES = {"label": NLL, "one-hot": ONE_HOT, "smooth": SMOOTH}
OTHERS = {
    "ε inside the logarithm": ("-log(p[d = label] + 1e-9)", P),
    "the other probability": ("-log(1 - p[d = label])", P),
    "focal": ("-(1 - p[d = label])² * log(p[d = label])", P),
    "scaled logits in one place": ("log(sum[d](exp(2 * x))) - x[d = label]", ""),
    "a millionth larger": ("log(sum[d](exp(x))) - x[d = label] + 1e-6", ""),
    "two places": ("log(sum[d](exp(x))) - x[d = label] - x[d = 0]", ""),
    "the label's weight": ("-sum[d](hot * log(p))", f"{P}; {HOT.replace('1 if', '2 if')}"),
    "the place beside it": ("-sum[d if at](log(p))", f"{P}; at[seq, d] = index(d) == label + 1"),
    "all but the label": ("-sum[d if at](log(p))", f"{P}; at[seq, d] = index(d) ≠ label"),
}


def spec(formula: str, where: str) -> str:
    parts = [one for one in where.split("; ") if one]
    lines = "".join(f"    {'     ' if i else 'where'} {one}\n" for i, one in enumerate(parts))
    return HEAD.format(formula=formula) + lines


@cache
def program(text: str, backend: str = "numpy") -> Program:
    return compile(text, backend)


def given(*labels: int) -> dict[str, Any]:
    x = np.random.default_rng(3).normal(size=(1, len(labels), 5)) * 3
    return {"x": x, "label": np.array([labels])}


def root(text: str) -> Node:
    """The result's node, after a check that module and formula agree."""
    made = program(text)
    found, wanted = zoo.model(made)(**given(0, 3, 4)), zoo.reference_results(made.compiled.formula, given(0, 3, 4))
    assert zoo.difference(found, wanted) < 1e-12
    return made.graph.outputs[0].node


@pytest.mark.parametrize(("kind", "formula", "where"), [(kind, *one) for kind in SUITES for one in SUITES[kind]])
def test_spelling(kind: str, formula: str, where: str) -> None:
    one = root(spec(formula, where))
    assert names(one) == {"cross_entropy": 1}
    assert float(one["smoothing"]) == pytest.approx(0.1 if kind == "smooth" else 0)
    assert one["outside"] == (0 if kind == "one-hot" else None)


@pytest.mark.parametrize("kind", SUITES)
def test_spellings_are_one_node(kind: str) -> None:
    assert len({root(spec(*one)) for one in SUITES[kind]}) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_left_alone(name: str) -> None:
    found = names(root(spec(*OTHERS[name])))
    assert found["core"], found


def test_a_place_that_is_shifted_is_a_label_of_its_own() -> None:
    """-log p at label + 1 is the cross-entropy of the label plus one, and of no other."""
    one = root(spec("-sum[d if at](log(p))", f"{P}; at[seq, d] = index(d) == label + 1"))
    assert one["name"] == "cross_entropy"
    assert names(one)["core"] == 1


def test_a_label_that_is_no_place() -> None:
    """As a place it has no value, which is an error; as a one-hot vector it is zeros, whose loss is 0."""
    picked, hot = spec(*NLL[0]), spec(*ONE_HOT[0])
    with pytest.raises(TransformulaError):
        zoo.reference_results(program(picked).compiled.graph, given(0, -100, 5))
    found = zoo.model(program(hot))(**given(0, -100, 5))["y"][0]
    assert found[0] > 0
    assert not found[1:].any()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_large_logits(backend: str) -> None:
    """The literal formula overflows; the kernel gives the difference of the logits."""
    x = np.array([[[1000.0, -1000, 0, 10, 999], [-1e5, -1e5, -1e5, -1e5, -1e5]]])
    labels = np.array([[1, 2]])
    made = program(spec(*NLL[0]), backend)
    if backend == "numpy":
        found = zoo.model(made)(x=x, label=labels)["y"]
    else:
        module = zoo.module(made.source)["Model"](dtype=torch.float64)
        found = module(torch.from_numpy(x), torch.from_numpy(labels))["y"].numpy()
    np.testing.assert_allclose(found, [[2000 + np.log1p(np.exp(-1.0)), np.log(5)]], rtol=1e-12)


def test_log_sum_exp_in_blocks() -> None:
    """Rows beyond one block, rows that see nothing, a row of nothing but -∞; the argument stays as it is."""
    draw = np.random.default_rng(0)
    types: list[tuple[Any, float]] = [(np.float64, 1e-13), (np.float32, 1e-5)]
    for dtype, tolerance in types:
        x = (draw.normal(size=(3, 70, 1000)) * 50).astype(dtype)
        see = draw.random(x.shape) < 0.5
        see[1, 5] = False
        before = x.copy()
        with np.errstate(divide="ignore"):
            top = x.max(-1, keepdims=True)
            e = np.exp(x.astype(float) - top)
            np.testing.assert_allclose(log_sum_exp(x), np.log(e.sum(-1)) + top[..., 0], rtol=tolerance)
            right = np.log(np.where(see, e, 0).sum(-1)) + top[..., 0]
        np.testing.assert_allclose(log_sum_exp(x, see), right, rtol=tolerance)
        assert np.isneginf(log_sum_exp(x, see)[1, 5])
        np.testing.assert_array_equal(x, before)
        less = x[..., 3]
        right = np.log(e.sum(-1)) + (top[..., 0].astype(float) - less)
        np.testing.assert_allclose(log_sum_exp(x, less=less), right, rtol=tolerance, atol=tolerance)
    assert np.isneginf(log_sum_exp(np.full((2, 3), -np.inf))).all()
    assert log_sum_exp(np.zeros((0, 3))).shape == (0,)


def test_an_empty_row_has_no_gradient() -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    see = torch.tensor([[True, False, True], [False, False, False]])
    total = functions.log_sum_exp(x, see)
    assert total[1] == -float("inf")
    torch.where(see.any(dim=1), total, 0.0).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert not x.grad[1].any()
    assert not x.grad[0, 1]


@pytest.mark.parametrize("name", ["MaskedLM", "PreTraining", "TokenClassification", "QuestionAnswering"])
def test_the_losses_of_bert(name: str) -> None:
    """The page's L_MLM, L_NSP and their kin: no table of log-shares is made."""
    losses = compile("bert", entry=f"BertFor{name}").compiled.losses
    assert losses
    for loss in losses:
        found = names(loss.graph.outputs[0].node)
        assert found["cross_entropy"] == {"pretraining": 2, "answering": 2}.get(loss.entry, 1)
        assert not found["log_softmax"] + found["softmax"]
