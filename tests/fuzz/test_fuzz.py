"""Random specs: every pass, every backend and every spelling gives the results of the formula."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.differentiation.slopes import evaluated, with_loss, without_stops
from tests.compiler.spec_tools import weight_values
from tests.fuzz import oracle
from tests.fuzz.respell import RULES
from tests.fuzz.strategies import LOSES, pairs, run, specs
from transformula.compiler import pipeline
from transformula.compiler.differentiation import differentiate
from transformula.compiler.driver import compile_graph
from transformula.compiler.ledger import Ledger
from transformula.compiler.passes import pack
from transformula.compiler.verify import verify

SELDOM = ("squared", "distributed", "turned", "scalar_moved", "reassociated", "mirrored", "mean_as_sum")
"""Rules that few specs have a place for."""

FOUND = sorted((Path(__file__).parent / "found").glob("*.formula"))
"""What a run of `make fuzz` has found, each reduced; the first line says what was wrong."""


@pytest.mark.parametrize("number", range(4))
def test_random_specs(number: int) -> None:
    """Two hundred, a quarter at a time."""
    counts: oracle.Counts = Counter()
    run(specs(), lambda text: assert_checked(text, counts), number, 50)
    assert counts["graphs"] >= 48
    assert counts["numpy"] >= 45
    assert counts["torch padded"] >= 45


def assert_checked(text: str, counts: oracle.Counts) -> None:
    """The check of one spec, with a seed of its own."""
    oracle.check(text, sum(counts.values()), counts)


@pytest.mark.parametrize("rules", [*((rule,) for rule in RULES if rule not in SELDOM), SELDOM], ids=" ".join)
def test_respelled(rules: tuple[str, ...]) -> None:
    """Rules wherever they fit: the results stay, and so do the meanings that are recognised."""
    counts: oracle.Counts = Counter()

    def body(pair: tuple[str, str]) -> None:
        if pair[0] != pair[1] and counts["respelled"] < 8:
            oracle.check_respelled(*pair, counts=counts, keeps=not LOSES.keys() & set(rules))

    run(pairs(*rules), body, 1, 80)
    assert counts["respelled"] == 8


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    assert oracle.check(path.read_text("utf-8"), masks=(oracle.MIXED, *oracle.OTHERS))


def test_the_oracle_sees_a_difference() -> None:
    """A spec whose results are wrong is a fault, and so is a meaning that got lost."""
    text = zoo.ZOO["gpt"]
    with pytest.raises(oracle.Fault, match="differs by"):
        oracle.check_respelled(text, text.replace("x[l] + attn[l](x[l])", "x[l] - attn[l](x[l])"))
    hidden = zoo.ZOO["shares"].replace("a[seq] = softmax[seq](u @[d] w)", "a[seq] = exp(u @[d] w) / (Z + 0 * Z²)")
    hidden = hidden.replace("    where u", "    where Z = sum[seq](exp(u @[d] w))\n          u")
    assert oracle.check_respelled(zoo.ZOO["shares"], zoo.ZOO["shares"])
    assert hidden != zoo.ZOO["shares"]


def test_compiling_again_changes_nothing() -> None:
    """What is simplified and recognised is the same when it is looked at again; all passes twice keep every result."""

    def body(text: str) -> None:
        made = compile_graph(text)
        (graph,) = [stage.graph for stage in made.stages if stage.name == "recognise"]
        again, ledger = pipeline.run(graph, only=("inference", "simplify", "recognise"))
        assert again[-1].graph.roots == graph.roots, f"{ledger}\n{text}"
        given = oracle.inputs(made.formula, oracle.MIXED, 0)
        right = oracle.wanted(made.formula, given)
        if right is not None:
            twice = pipeline.run(made.graph)[0][-1].graph
            oracle.same("compiled twice", zoo.reference_results(twice, given), right, text)

    run(specs(), body, 11, 30)


def test_rows_of_tokens_change_nothing() -> None:
    """Whatever is made token by token may be made on rows of tokens: before its meanings are known, and after."""
    counts: oracle.Counts = Counter()

    def body(text: str) -> None:
        made = compile_graph(text, until="recognise")
        given = oracle.inputs(made.formula, oracle.MIXED, counts["specs"])
        right = oracle.wanted(made.formula, given)
        counts["specs"] += 1
        if right is None:
            return
        for graph in (made.formula, made.graph):
            packed = pack.run(replace(graph, selects=True), Ledger())
            verify(packed)
            counts["packed"] += packed.roots != graph.roots
            oracle.same("rows of tokens", zoo.reference_results(packed, given), right, text)

    run(specs(), body, 21, 100)
    assert counts["packed"] >= 80


def test_rows_of_tokens_change_no_gradient() -> None:
    """Of one number made of every entry of every result, hidden ones too."""
    counts: oracle.Counts = Counter()

    def body(text: str) -> None:
        made = compile_graph(text, until="recognise")
        given = oracle.inputs(made.formula, oracle.MIXED, counts["specs"])
        counts["specs"] += 1
        if oracle.wanted(made.formula, given) is None:
            return
        loss = with_loss(without_stops(made.graph))
        packed = pack.run(replace(loss, selects=True), Ledger())
        counts["packed"] += packed.roots != loss.roots
        values = weight_values(made.formula)
        right, found = (evaluated(differentiate(graph), values, given) for graph in (loss, packed))
        for name, value in right.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-8 * max(1, np.abs(value).max(initial=0)))

    run(specs(), body, 22, 40)
    assert counts["packed"] >= 20


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_torch_compile(number: int) -> None:
    """The padded module as one graph of torch.compile."""

    def body(text: str) -> None:
        made = compile_graph(text)
        program = dict(oracle.programs(made))["torch padded"]
        given = oracle.inputs(made.formula, oracle.MIXED, number)
        right = oracle.wanted(made.formula, given)
        if right is not None and oracle.expressed(program):
            oracle.same("torch.compile", oracle.runner(program, compiled=True)(given), right, text)

    run(specs(), body, 100 + number, 3, shrink=False)
