"""Memory of loss_and_gradients: what is read no more is written over or let go, and nothing else is touched."""

from __future__ import annotations

import ast
import re
import textwrap
import tracemalloc
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn_from
from hypothesis import settings
from hypothesis import strategies as st

from tests.backends.numpy.test_gradients import BERT, CASES, QUICK, from_losses, labelled, model, module_of
from tests.backends.numpy.test_gradients import program as cases
from tests.compiler import zoo
from tests.compiler.differentiation.slopes import evaluated, with_loss
from tests.compiler.spec_tools import Array, weight_values
from tests.fuzz import oracle
from transformula.backends.numpy.slopes import gelu_slope, gelu_tanh_slope, silu_slope
from transformula.backends.program import Program, compile
from transformula.compiler import kernels
from transformula.compiler.differentiation import differentiate, gradient_of
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Graph

WIDE = {**BERT, "layers": 4, "d": 32, "head": 2, "ffn": 128, "vocab": 300, "place": 64}


@cache
def program(spec: str, entry: str, without: tuple[str, ...] = ()) -> Program:
    """A model with its gradients."""
    return compile(spec, settings=WIDE, entry=entry, without=without, gradients=True, validate=False)


def method(source: str) -> str:
    """The lines of the loss and its gradients."""
    found = re.search(r" {4}def _gradients_.*?return loss, gradients", source, re.DOTALL)
    assert found is not None
    return found[0]


def batch(count: int = 16, length: int = 64) -> dict[str, Array]:
    """A batch of masked-LM training."""
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 300, (count, length))
    return {"input_ids": ids, "labels": np.where(draw.random(ids.shape) < 0.15, ids, -100)}


def loaded(one: Program) -> Any:
    """The module, with weights of the zoo."""
    graph = one.compiled.formula
    return zoo.module(one.source)["Model"](zoo.nested(graph, weight_values(graph)), dtype="float32", threads=1)


def peak(one: Program) -> int:
    """The most bytes that a step takes up beside the weights."""
    made, given = loaded(one), batch()
    made.loss_and_gradients(**given)
    tracemalloc.start()
    try:
        made.loss_and_gradients(**given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_step_of_four_layers_takes_less() -> None:
    """Less memory at once, and fewer copies: a norm alone keeps what it is of, for its slope."""
    plain, planned = program("bert", "BertForMaskedLM", ("schedule",)), program("bert", "BertForMaskedLM")
    assert peak(planned) < 0.7 * peak(plain)
    before, after = (method(one.source).count("fresh(") for one in (plain, planned))
    assert after <= before / 2
    assert "softmax, self.threads, fresh(" not in method(planned.source)


def test_without_the_pass_nothing_is_written_over() -> None:
    """And the numbers are the same, to rounding."""
    plain, planned = program("bert", "BertForMaskedLM", ("schedule",)), program("bert", "BertForMaskedLM")
    assert not re.search(r"^ *(del |\w+ [-+*/]= )", method(plain.source), re.MULTILINE)
    assert re.search(r"^ *(del |\w+ [-+*/]= )", method(planned.source), re.MULTILINE)
    (first, wanted), (second, found) = (loaded(one).loss_and_gradients(**batch()) for one in (plain, planned))
    assert abs(first - second) < 1e-6
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6 * float(np.abs(value).max()), err_msg=name)


def test_the_ledger_tells() -> None:
    def told(one: Program) -> str:
        assert one.source
        (loss,) = one.compiled.gradients or ()
        assert ("schedule" in loss.graph.plan) == any(stage.name == "schedule" for stage in loss.stages)
        return str(loss.ledger)

    planned = told(program("bert", "BertForMaskedLM"))
    for text in ("values are written over one that is read no more", "values are let go before the end",
                 "copies are made of what is read again", "copies are made of what lies in another order",
                 "activations are computed with their derivative"):  # fmt: skip
        assert re.search(rf"\+ schedule memory: \d+ {text}", planned)
    assert "schedule" not in told(program("bert", "BertForMaskedLM", ("schedule",)))


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES])
def test_a_call_changes_nothing(name: str) -> None:
    """Neither weights nor inputs nor what an earlier call gave; the next call gives the same."""

    @drawn_from(mask=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=2))
    @settings(max_examples=4, deadline=None, database=None)
    def check(mask: list[list[bool]]) -> None:
        given, one = labelled(name, np.array([[1] * 4, *mask], int)), model(name)
        kept = {key: value.copy() for key, value in given.items()}
        weights = {key: value.copy() for key, value in one.tensors.items()}
        for value in given.values():
            value.flags.writeable = False
        loss, gradients = one.loss_and_gradients(**given, seed=1)
        first = {key: value.copy() for key, value in gradients.items()}
        every = [*gradients.values(), *given.values(), *one.tensors.values()]
        assert not any(np.may_share_memory(a, b) for a, b in combinations(every, 2))
        again, second = one.loss_and_gradients(**given, seed=1)
        np.testing.assert_array_equal(again, loss)
        for before, after in ((kept, given), (weights, one.tensors), (first, gradients), (first, second)):
            for key, value in before.items():
                np.testing.assert_array_equal(after[key], value, err_msg=key)

    check()


def named(line: ast.stmt, kind: type[ast.expr_context]) -> set[str]:
    """The names that a line itself reads, binds or deletes; of a block its first line."""
    parts: list[ast.AST] = [] if isinstance(line, ast.With) else [line]
    if isinstance(line, ast.If):
        parts = [line.test]
    if isinstance(line, ast.For):
        parts = [line.iter, line.target]
    every = [one for part in parts for one in ast.walk(part)]
    inner = {one.id for part in every if isinstance(part, ast.comprehension) for one in ast.walk(part.target)
             if isinstance(one, ast.Name)}  # fmt: skip
    found = {one.id for one in every if isinstance(one, ast.Name) and isinstance(one.ctx, kind)} - inner
    if kind is ast.Load and isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name):  # it is read, too
        found.add(line.target.id)
    return found


def unbound(body: list[ast.stmt], known: set[str], own: set[str]) -> list[str]:
    """Names that on some way through the lines are read where they are not bound; `known` is brought on."""
    found: list[str] = []
    for line in body:
        found += sorted(((named(line, ast.Load) | named(line, ast.Del)) & own) - known)
        known |= named(line, ast.Store)
        known -= named(line, ast.Del)
        if isinstance(line, ast.If):
            one, other = set(known), set(known)
            found += [*unbound(line.body, one, own), *unbound(line.orelse, other, own)]
            known.clear()
            known.update(one & other)
        elif isinstance(line, ast.For):  # at least one step, and another behind it
            found += [*unbound(line.body, known, own), *unbound(line.body, known, own)]
        elif isinstance(line, ast.With):
            found += unbound(line.body, known, own)
    return found


SIDES = ("gemma2", "qwen3", "modernbert")
"""Models whose steps choose sides."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in (*QUICK, *SIDES) else pytest.mark.slow) for n in CASES]
)
def test_no_name_is_read_behind_its_end(name: str) -> None:
    """On no way through the lines, whatever steps choose and inputs are left out."""
    (function,) = ast.parse(textwrap.dedent(method(cases(name, "numpy").source))).body
    assert isinstance(function, ast.FunctionDef)
    own = {part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    assert not unbound(function.body, set(), own)


PARTS = """
spec parts
config
    vocab = 20
    d = 4
    half = 2
model M(tokens[seq] as input_ids) → y[d] = h[seq = 0] + w, u[seq, half] = stop(h[d = index(half)]) * v, z[seq, d] = g
    where h = E[vocab = tokens] * w
          g = h @ W
    weights E : [vocab, d]
            W : [d → d]
            v : [half]
            w : [d]
"""


def apart(done: Graph, text: str) -> float:
    """How far the loss and the gradients of a graph, by its module, are from the reference's."""
    made, given = compile_graph(text), zoo.inputs("gpt")
    right = evaluated(done, weight_values(made.formula), given)
    loss, gradients, found = module_of(made, done, replace(done, plan=frozenset({"schedule"})), given, False)
    gaps = [abs(loss - float(right["loss"]))]
    for name, value in found["weight_views"](gradients, found["CHECKPOINT"]).items():
        if gradient_of(name) in right:
            gaps.append(float(np.abs(value - right[gradient_of(name)]).max()))
    return max(gaps)


def test_a_part_of_a_value_is_not_written_over() -> None:
    """One place of a value, and what a gradient stops at, are that value: others read it later."""
    assert apart(differentiate(with_loss(compile_graph(PARTS).formula)), PARTS) < 1e-12


def test_what_is_written_over_is_no_other_argument() -> None:
    """A slope whose two arguments are one value works on a copy of it."""
    made = compile_graph(PARTS)
    h = next(out.node for out in made.formula.outputs if out.name == "z")
    axis = next(a for a in h.axes if not a.ragged)
    y = kernels.make("softmax", {"x": h}, h.axes, axis=axis)
    slope = kernels.make("softmax_slope", {"g": y, "y": y}, h.axes, axis=axis)
    graph = with_loss(replace(made.formula, outputs=(replace(made.formula.outputs[2], node=slope),)))
    assert apart(graph, PARTS) < 1e-12


def test_factors_that_know_their_axes_in_other_orders() -> None:
    """Whichever of them comes first in a product of many matrices."""
    text = (Path(oracle.__file__).parent / "found" / "crossed_factors.formula").read_text("utf-8")
    given = oracle.inputs(compile_graph(text, until="formula").formula, oracle.MIXED, 92)
    assert from_losses(text, "formula", given) < 1e-9


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("slope", [gelu_slope, gelu_tanh_slope, silu_slope])
def test_a_derivative_with_its_result(slope: Any, kind: Any) -> None:
    """In one pass: the derivative is what it is alone, the result its integral, from the middle of each step."""
    x = np.linspace(-6, 6, 4002).reshape(3, 1334).astype(kind)
    alone, both, result = slope(x.copy()), x.copy(), np.empty_like(x)
    assert slope(both, result) is both
    np.testing.assert_allclose(both.astype(float), alone.astype(float), rtol=4 * float(np.finfo(kind).eps), atol=1e-6)
    if kind is np.float64:
        flat, step = x.reshape(-1), 12 / 4001
        wanted = np.cumsum(slope(flat[:-1] + step / 2)) * step + result.reshape(-1)[0]
        np.testing.assert_allclose(result.reshape(-1)[1:], wanted, atol=1e-6)
