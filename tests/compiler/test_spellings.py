"""The scoreboard's suites: every spelling of a meaning ends as the same fused node, with the values of its formula."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import torch_spellings
from tests.backends.torch.test_module import results as torch_results
from tests.compiler import spellings, zoo
from tests.compiler.spellings import ATTENTION, MORE, Attention
from tests.compiler.test_recognise import is_one, point
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill
from transformula.compiler import kernels, pipeline
from transformula.compiler.ir import Node

GIVEN = {
    "input_ids": np.random.default_rng(3).integers(0, 20, (3, 4)),
    "attention_mask": np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]]),
}
every = pytest.mark.parametrize("one", [*ATTENTION, *MORE], ids=lambda one: one.name)
COMMUTED = ("padding, then causal", "(r+k)q", "(tq)K")
"""Their mask, bias or query has its terms in another order: another node with the same values."""


@cache
def program(one: Attention, backend: str = "numpy") -> Program:
    return compile(one.text, backend, entry="M")


@cache
def fused(one: Attention) -> Node:
    """The one attention node of a spelling as it is recognised."""
    stages, ledger = pipeline.run(program(one).compiled.formula, until="recognise")
    found = [node for node in stages[-1].graph.nodes() if node.op == "kernel"]
    assert [node["name"] for node in found] == ["attention"], f"{found}\n{ledger}"
    return found[0]


def given(one: Attention) -> dict[str, Any]:
    return GIVEN if one.shape != "2-D" else {"x": np.random.default_rng(3).normal(size=(7, 16))}


def wanted(one: Attention) -> dict[str, Any]:
    return zoo.reference_results(program(one).compiled.formula, given(one))


def test_the_suites_are_whole() -> None:
    names = [one.name for one in (*ATTENTION, *MORE)]
    assert len(set(names)) == len(names)
    assert (len(ATTENTION), len(spellings.LAYER_NORM), len(spellings.GELU)) == (35, 8, 8)
    assert list(torch_spellings.ATTENTION) == [one.name for one in ATTENTION]
    assert list(torch_spellings.LAYER_NORM) == list(spellings.LAYER_NORM)
    assert list(torch_spellings.GELU) == list(spellings.GELU)


@every
def test_attention_is_one_node(one: Attention) -> None:
    """One attention after all passes too, and nothing left of its exponentials."""
    roles = fused(one)["roles"]
    assert ("see" in roles) == ("masked" in one.meaning)
    assert ("bias" in roles) == ("biased" in one.meaning or one.meaning == "relative")
    assert ("scores" in roles) == (one.meaning in ("filled", "scores"))
    graph = program(one).compiled.graph
    left = Counter(n["name"] if n.op == "kernel" else n["fn"] for n in graph.nodes() if n.op in ("kernel", "map"))
    assert left["attention"] == 1
    assert not {"exp", "softmax"} & set(left), left


def meanings() -> list[tuple[str, tuple[Attention, ...]]]:
    found: dict[str, list[Attention]] = {}
    for one in (*ATTENTION, *MORE):
        found.setdefault(one.meaning, []).append(one)
    return [(name, tuple(all_of)) for name, all_of in found.items() if len(all_of) > 1]


@pytest.mark.parametrize(("name", "same"), meanings(), ids=[name for name, _ in meanings()])
def test_spellings_of_one_meaning_are_one_normal_form(name: str, same: tuple[Attention, ...]) -> None:
    """Equal roles and scale; where Q, K and V come alike, each part is the very same node."""
    first, *others = [one for one in same if one.shape in ("heads", "grouped")]
    for one in others:
        if one.name in COMMUTED:
            continue
        here, there = kernels.parts(fused(one)), kernels.parts(fused(first))
        renamed = "einsum" in one.name  # another name for the keys: the same but for that
        for role in here:
            assert here[role] is there[role] or (renamed and role != "query"), f"{role} of {one.name}"
    scale = fused(first)["scale"] if name != "plain" else None
    for one in same:
        assert fused(one)["roles"] == fused(first)["roles"], one.name
        if one.shape != "2-D":  # its d is not dk
            assert float(fused(one)["scale"]) == pytest.approx(float(scale or 0.5), rel=1e-14), one.name


@every
def test_values(one: Attention) -> None:
    """Formula, optimised graph, NumPy module and PyTorch module agree."""
    right = wanted(one)
    assert zoo.difference(zoo.reference_results(program(one).compiled.graph, given(one)), right) < 1e-12
    if one.shape == "2-D":  # an objective has no module of its own
        return
    assert zoo.difference(zoo.model(program(one))(**given(one)), right) < 1e-12
    made = program(one, "torch")
    module = zoo.module(made.source)["Model"](dtype=torch.float64)
    fill(made, module, zoo.weight_values(made.compiled.formula, 0))
    assert zoo.difference(torch_results(module.eval(), given(one)), right) < 1e-11


@pytest.mark.parametrize("name", spellings.LAYER_NORM)
def test_layer_norm(name: str) -> None:
    formula, parts = spellings.LAYER_NORM[name]
    root = is_one(point(formula, parts), "layer_norm")
    assert root["roles"] == ("x", "gain", "shift")
    assert float(root["eps"]) == (0 if name == "without ε" else 1e-12)


@pytest.mark.parametrize("name", spellings.GELU)
def test_gelu(name: str) -> None:
    formula, meaning = spellings.GELU[name]
    is_one(point(formula), meaning)
