"""One query of an example reads the tokens themselves; what does not fit keeps its projections, and says why."""

from __future__ import annotations

import pytest

from tests.compiler import zoo
from transformula.compiler import cost, ir, kernels
from transformula.compiler.ir import Graph
from transformula.compiler.sizes import Sizes

CLS = "h[d] = x[layers][seq = 0]"
HEADS = "attention[key](Q, K, V)"


def told(text: str) -> list[str]:
    """'' for each attention that was turned, or the reason."""
    return [one.reason for one in zoo.whole(text).ledger.lines if one.rule == "one_query"]


def after(text: str) -> Graph:
    """The graph after the pass, once module and formula are found to agree."""
    made = zoo.whole(text)
    given = zoo.inputs("cls")
    difference = zoo.difference(zoo.model(made)(**given), zoo.reference_results(made.compiled.formula, given))
    assert difference < 1e-12
    return next(stage.graph for stage in made.compiled.stages if stage.name == "reassociate")


@pytest.mark.parametrize("name", ["cls", "last", "last_alibi"])
def test_no_token_is_projected_to_keys_and_values(name: str) -> None:
    """In the last block the only products with weights are of single rows."""
    if name == "last_alibi":  # its bias is the same for all heads
        assert told(zoo.ZOO[name]) == [""]
    graph = after(zoo.ZOO[name])
    products = [one for one in ir.walk(graph.roots) if one.op == "contract" and graph.batch in one.axes]
    assert not [one for one in products if any(axis.counted for axis in one.axes)]
    asked = [one for one in ir.walk(graph.roots) if one.op == "kernel" and one["name"] == "attention"]
    assert asked
    for one in asked:
        at = kernels.parts(one)
        assert at["key"] is at["value"]
        assert {str(axis) for axis in at["key"].axes} == {"batch", "key", "d"}


def test_operations_of_a_token_do_not_grow_with_the_square_of_the_width() -> None:
    """What a longer text costs beyond the blocks before: head * d for scores and as much for values, no d * d."""
    text = zoo.ZOO["cls"].replace("layers = 2", "layers = 1")
    few, many = (cost.costs(after(text), Sizes(1, length)).total.products for length in (10, 110))
    assert many - few == 100 * 2 * (2 * 3 * 12)


KEPT = {
    "every token asks": (zoo.encoder("h[seq, d] = x[layers]", HEADS), []),
    "the keys are read elsewhere": (
        zoo.encoder(CLS, "attention[key](Q, K, V) + mean[key](K)"),
        ["keys or values are not products with weights alone"],
    ),
    "a bias for each head": (
        zoo.encoder(CLS, "attention[key](Q, K, V, (index(key) - index(seq)) / (index(head) + 2))"),
        ["its bias or mask differs from head to head"],
    ),
    "two queries read the same keys": (
        zoo.ZOO["ends"], ["keys or values are not products with weights alone"],
    ),
    "a query that may see nothing": (
        zoo.encoder(CLS, "attention[key if index(key) > index(seq)](Q, K, V)"),
        ["keys or values are not products with weights alone"],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_its_projections(name: str) -> None:
    text, reasons = KEPT[name]
    assert told(text) == reasons
    after(text)
