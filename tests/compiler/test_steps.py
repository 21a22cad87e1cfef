"""What the number of a step decides: conditions, the nodes of one decision, an attention for each kind of layer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import lowered
from transformula.compiler import steps
from transformula.compiler.cost import costs
from transformula.compiler.ir import Graph, Node, walk_all
from transformula.compiler.kernels import parts

CHOSEN = """
config
    d = 8
    layers = 6
    local[l: layers] = l % 3 == 1
model M(x[seq, d]) → [seq, d] = h[layers]
    where
        h[{start}] = x
        for l in {start}..layers:
            h[l + 1] = h[l] @ W if {condition} else h[l]
    weights W : [d → d]
"""


def chosen(condition: str, start: int = 0) -> Graph:
    return lowered(CHOSEN.format(start=start, condition=condition))


def found(condition: str, start: int = 0) -> tuple[bool, ...] | None:
    graph = chosen(condition, start)
    ((loop, truths),) = steps.selections(graph.nodes()).values() or ((None, None),)
    assert loop is None or loop.op == "loop"
    return truths


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("local[l]", "010010"),
        ("not local[l]", "101101"),
        ("l == 0 or l > 3", "100011"),
        ("local[l] and l > 1", "000010"),
        ("l // 2 % 2 == 1", "001100"),
    ],
)
def test_truths(condition: str, wanted: str) -> None:
    assert found(condition) == tuple(one == "1" for one in wanted)


def test_what_is_no_decision_of_the_step() -> None:
    """What depends on values, or on a loop whose number of steps is a length, or has no value at some step."""
    assert found("mean[d](h[l]) > l") is None
    assert found("local[l - 1]", 1) == (False, False, True, False, False, True)
    assert found("local[l - 1]") is None
    text = "model M(x[seq]) → [] = h[seq]\n    where\n        h[0] = 0 * x[seq = 0]\n        for t in seq:\n"
    graph = lowered(f"{text}            h[t + 1] = h[t] + (x[seq = t] if t > 2 else 0)\n")
    assert not steps.selections(graph.nodes())
    assert any(steps.selects(one) for one in walk_all(graph.roots))


def kernels(graph: Graph) -> list[Node]:
    return [one for one in walk_all(graph.roots) if one.op == "kernel" and one["name"] == "attention"]


def test_each_kind_of_layer_has_its_attention() -> None:
    program = zoo.program("kinds")
    full, near = sorted(kernels(program.graph), key=lambda one: len(one.args))
    assert {"first", "stop", "see"}.isdisjoint(parts(full))
    assert {"first", "stop"} <= set(parts(near))
    lines = [line for line in program.ledger.lines if line.rule == "steps"]
    assert [line.fired for line in lines] == [True]


def test_of_two_sides_only_the_chosen_one_is_computed() -> None:
    """All that one side needs goes with it, what both need does not, and nesting is one path after the other."""
    graph = zoo.whole("kinds").compiled.formula
    selections = steps.selections(graph.nodes())
    paths = steps.paths(graph.nodes(), graph.roots, selections)
    tanh = next(one for one in paths if one.op == "map" and one["fn"] == "tanh")
    assert [side for _, side in paths[tanh]] == [1, 2]
    ((outer, _), (inner, _)) = paths[tanh]
    assert paths[outer] == ()
    assert paths[inner] == paths[tanh][:1]
    assert paths[tanh.args[0]] == (), "both sides read it"
    assert all(paths[root] == () for root in graph.roots)


@pytest.mark.parametrize(("condition", "share"), [("l == 0", 1), ("local[l]", 2), ("l > 0", 5), ("l ≥ 0", 6)])
def test_a_side_costs_the_steps_that_choose_it(condition: str, share: int) -> None:
    rare, always = (costs(chosen(one)).total.products for one in (condition, "l < 9"))
    assert rare * 6 == always * share
    started = costs(chosen(condition, 1)).total.products
    assert started * 6 == always * (share - (condition in ("l == 0", "l ≥ 0")))


def test_numbers_of_both_sides_in_any_order() -> None:
    """The module computes each step's own side, whichever comes first."""
    rows = np.arange(12.0).reshape(1, 2, 6)
    for condition, wanted in (("l == 1", 2.0), ("l ≠ 1", 4.0)):
        text = (
            "config\n    d = 6\n    layers = 3\nmodel M(x[seq, d] as x) → h[seq, d] = h[layers]\n    where\n"
            "        h[0] = x\n        for l in layers:\n"
            f"            h[l + 1] = h[l] * 2 if {condition} else h[l][d = d - 1 - index(d)]\n"
        )
        made = zoo.module(zoo.compile(text).source)["Model"]({}, dtype="float64")
        flipped = rows if wanted == 2.0 else rows[..., ::-1]
        np.testing.assert_allclose(made(x=rows)["h"], wanted * flipped, rtol=0, atol=0)


@pytest.mark.parametrize(("every", "last"), [(2, ["stop"]), (5, [])])
def test_the_last_step_by_itself_is_of_one_kind(every: int, last: list[str]) -> None:
    """Where it is made apart for the first token, its number decides: of a local layer the token sees those before."""
    settings = {**zoo.MODERNBERT, "layers": 6, "pooled": "cls", "every": every}
    made = zoo.compile("modernbert", entry="BertForSequenceClassification", settings=settings)
    found = [sorted({"first", "stop", "see"} & set(parts(one))) for one in kernels(made.graph)]
    assert sorted(found) == sorted([[], [], ["first", "stop"], last])
