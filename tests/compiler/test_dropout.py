"""Dropout through the passes: in training, every stage draws what the formulas draw; outside it, nothing is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula.compiler import ir, kernels, pipeline
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.evaluate import Evaluator
from transformula.compiler.ir import Axis, Graph, Node, walk_all
from transformula.compiler.ledger import Ledger
from transformula.compiler.passes import attention, recognise
from transformula.compiler.passes.parameters import is_parameter
from transformula.compiler.verify import verify
from transformula.grammar.diagnostics import InternalError

TRAINING = [row.name for row in pipeline.table() if row.name != "inference"]


def attending(heads: str, more: str = "", body: str = "y[seq, d] = attn(E[vocab = tokens])\n", **uses: str) -> str:
    """A spec with one block of attention that computes `heads`, with softmax, attention and layer_norm at hand."""
    functions = "softmax, attention, layer_norm, gelu"
    used = [one for one in functions.split(", ") if f"{one}[" in heads + more + body or f"{one}(" in more + body]
    uses = uses or {"attn": "Attn"}
    model = zoo.IDS + body + "".join(f"    uses {name} : {kind}\n" for name, kind in uses.items()) + zoo.EMBED
    return zoo.attention_spec(heads, ", ".join(used), more, model)


LOOP = "y[seq, d] = h[layers]\n    where h[0] = dropout(E[vocab = tokens], 0.3)\n          for l in layers:\n"
SPECS = {
    "one": attending("attention[key](Q, K, V, drop = 0.4)"),
    "causal": attending("attention[key if index(key) ≤ index(seq)](Q, K, V, drop = 0.4)"),
    "scaled": attending("V @[key] dropout(softmax[key](Q @[dk] (K / √dk) + (index(key) - index(seq)) / 7), 0.4)"),
    "two sites": attending("attention[key](Q, K, V, drop = 0.4) - attention[key](Q, K, V, drop = 0.4)"),
    "layers": attending("attention[key](Q, K, V, drop = 0.4)", "", LOOP + (
        "              h[l + 1] = layer_norm[d](h[l] + dropout(attn[l](h[l]), 0.5))\n"), **{"attn[layers]": "Attn"}),
    "same each step": attending("attention[key](Q, K, V, drop = 0.4)", "", LOOP + (
        "              h[l + 1] = h[l] + attn(E[vocab = tokens])\n")),
    "loop in a loop": attending("attention[key](Q, K, V, drop = 0.4)", "", LOOP + (
        "              g[0] = h[l]\n              for k in 0..3:\n"
        "                  g[k + 1] = g[k] + dropout(attn(g[k]), 0.2) / 9\n              h[l + 1] = g[3]\n")),
    "growing rate": attending("attention[key](Q, K, V)", "", LOOP + (
        "              h[l + 1] = h[l] + dropout(attn(h[l]), 0.2 * l)\n")),
    "talking": attending("T @[key] V", "T = dropout(softmax[key](Q @[dk] K), 0.4) * 2"),
}  # fmt: skip
"""Attention with dropout, outside and in loops; several sites; rates that a step decides."""

RATES = {"p": 0.2, "p_attn": 0.3}
SHIPPED: dict[str, dict[str, Any]] = {
    "bert": {**RATES, "head": 3, "d": 12},
    "mpnet": {**RATES, "head": 3, "d": 12},
    "albert": {**RATES, "head": 3, "d": 12, "emb": 5},
    "electra": {**RATES, "head": 3, "d": 12, "emb": 5},
    "deberta": {**RATES, "head": 3, "d": 12},
    "deberta_v2": {**RATES, "head": 3, "d": 12},
}
SMALL = {"layers": 2, "vocab": 20, "ffn": 7, "place": 16}
RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": "c2p|p2c"}


def made(name: str, **how: Any) -> Compiled:
    if name in SPECS:
        return compile_graph(SPECS[name], **how)
    return compile_graph(name, RELATIVE if "deberta" in name else {}, "Bert", {**SHIPPED[name], **SMALL}, **how)


def drawn(graph: Graph, given: Mapping[str, Any], seed: int = 3) -> dict[str, Array]:
    """The results in training."""
    return zoo.reference.run(graph, zoo.weight_values(graph, 0), given, seed, training=True)


def kernels_of(graph: Graph, name: str = "attention") -> list[Node]:
    return [one for one in walk_all(graph.roots) if one.op == "kernel" and one["name"] == name]


def randoms(graph: Graph) -> list[Node]:
    return [one for one in walk_all(graph.roots) if one.op == "random"]


# --- the value -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SPECS, *SHIPPED])
def test_every_stage_draws_what_the_formulas_draw(name: str) -> None:
    """Another draw at a single entry would show at once: rates are large, and the bound is that of rounding."""
    compiled, given = made(name, without=("inference",)), zoo.inputs(name)
    assert [stage.name for stage in compiled.stages] == ["formula", *TRAINING]
    wanted = drawn(compiled.formula, given)
    assert zoo.difference(zoo.reference_results(compiled.formula, given), wanted) > 1e-3
    assert zoo.difference(drawn(compiled.formula, given, seed=4), wanted) > 1e-3
    for stage in compiled.stages[1:]:
        assert zoo.difference(drawn(stage.graph, given), wanted) < 1e-12, stage.name
        assert zoo.difference(
            zoo.reference_results(stage.graph, given), zoo.reference_results(compiled.formula, given)
        ) < 1e-12, stage.name


@pytest.mark.parametrize("name", [*SPECS, *SHIPPED])
def test_outside_training_no_draw_is_left(name: str) -> None:
    graph = made(name).graph
    assert not any(kernels.is_draw(one) for one in graph.nodes())
    assert not any("drop" in one["roles"] for one in kernels_of(graph))
    plain = compile_graph(SPECS["one"].replace(", drop = 0.4", "")).graph
    assert made("one").graph.roots == plain.roots


@pytest.mark.parametrize("name", ["one", "causal", "scaled", "layers", "loop in a loop", *SHIPPED])
def test_attention_holds_its_draw(name: str) -> None:
    """One kernel, with site, steps and axes of the draw that the formula has."""
    graph = made(name, without=("inference",)).graph
    found = kernels_of(graph)
    assert len(found) == 1
    assert not kernels_of(graph, "softmax")
    sites = {one["site"]: one for one in randoms(made(name, until="formula").graph)}
    for one in found:
        assert "drop" in one["roles"]
        old, core = sites[one["site"]], kernels.expanded(one)
        (new,) = (part for part in core.args if part.op == "random")
        assert (new["site"], new.get("steps"), new.free) == (old["site"], old.get("steps"), old.free)
        assert [str(axis.size) for axis in new.axes] == [str(axis.size) for axis in old.axes]
        assert new.args[1] is old.args[1]


def test_the_meaning_of_the_kernel_is_the_graph_that_it_stands_for() -> None:
    graph = made("one", until="simplify", without=("inference",)).graph
    before = recognise._functions(graph, Ledger())
    (one,) = kernels_of(attention.run(before, Ledger()))
    (product,) = (node for node in before.nodes() if node.op == "contract" and randoms(before)[0] in node.args)
    assert kernels.expanded(one) is product


# --- no pass takes two draws for one -------------------------------------------------------------------------


def test_two_attentions_of_the_same_values_are_drawn_twice() -> None:
    """Their shares are one softmax, which both read."""
    compiled = made("two sites", without=("inference",))
    assert len(randoms(compiled.graph)) == 2
    assert len(kernels_of(compiled.graph, "softmax")) == 1
    given = zoo.inputs("two sites")
    assert np.abs(drawn(compiled.graph, given)["y"]).max() > 1e-3
    assert np.abs(zoo.reference_results(compiled.graph, given)["y"]).max() == 0


def test_draws_of_the_same_values_at_each_step_stay_in_the_loop() -> None:
    graph = made("same each step", without=("inference",)).graph
    (loop,) = (node for node in graph.nodes() if node.op == "loop")
    (inside,) = (one for one in randoms(graph) if one.free)
    assert inside.free == {loop["loop"]}
    assert inside not in loop.args
    assert kernels_of(graph, "softmax")[0] in loop.args
    assert kernels_of(made("same each step").graph)[0].free == frozenset()


def test_a_kernel_that_draws_is_its_own_at_each_site_and_step() -> None:
    d, key = Axis("d", 4), Axis("key", 3)
    q, k = ir.input_("q", (d,), "real"), ir.input_("k", (key, d), "real")
    roles = {"query": q, "key": k, "value": k, "drop": ir.const(0.5)}

    def attend(**site: Any) -> Node:
        return kernels.make("attention", roles, (d,), axis=key, width=d, scale=1, drawn=(key,), **site)

    assert attend(site="a") is attend(site="a")
    assert attend(site="a") is not attend(site="b")
    inner, outer = attend(site="a", steps=(3, 7)), attend(site="a", steps=(3,))
    assert [sorted(one.free) for one in (inner, outer, attend(site="a"))] == [[3, 7], [3], []]
    assert ir.invariants([ir.apply("exp", inner)], 7) == (q, k)
    assert ir.invariants([ir.apply("exp", outer)], 7) == (ir.apply("exp", outer),)


def test_every_site_is_one_node() -> None:
    """So what is drawn once in the formulas is written once in a module."""
    for name in [*SPECS, *SHIPPED]:
        graph = made(name, without=("inference", "fuse")).graph
        sites = [(one["site"], one.free) for one in graph.nodes() if kernels.is_draw(one)]
        assert len(set(sites)) == len(sites)


@pytest.mark.parametrize(
    ("heads", "more", "reason"),
    [
        ("A @[key] V + (A @[key] V)²", "A = dropout(softmax[key](Q @[dk] K), 0.1)", ""),
        ("A @[key] V + A @[key] (V²)", "A = dropout(softmax[key](Q @[dk] K), 0.1)", "read elsewhere"),
        ("dropout(A, 0.1) @[key] V + A @[key] V", "A = softmax[key](Q @[dk] K)", "read elsewhere"),
        ("dropout(dropout(softmax[key](Q @[dk] K), 0.1), 0.2) @[key] V", "", "changed before it weighs"),
        ("(dropout(softmax[key](Q @[dk] K), 0.1) / 2) @[key] V", "", "changed before it weighs"),
        ("dropout(softmax[key](Q @[dk] K), rate) @[key] V", "rate = dk / 10 + 0 * W_O[d = 0][dk = 0]", ""),
    ],
)
def test_what_is_no_attention_with_dropout_says_so(heads: str, more: str, reason: str) -> None:
    compiled = compile_graph(attending(heads, more), without=("inference",))
    reasons = [line.reason for line in compiled.ledger.lines if line.rule == "attention" and not line.fired]
    assert len(kernels_of(compiled.graph)) == (reason == "")
    assert all(reason in one for one in reasons)
    assert bool(reasons) == bool(reason)
    given = zoo.inputs("no attention")
    assert zoo.difference(drawn(compiled.graph, given), drawn(compiled.formula, given)) < 1e-12


def test_a_draw_that_is_read_elsewhere_is_not_moved_past_a_selection() -> None:
    """It would be made twice."""
    more = "A = dropout(softmax[key](Q @[dk] K), 0.1)\nB = A if index(key) ≤ index(seq) else 0"
    for heads, alone in (("B @[key] V", True), ("B @[key] V + A @[key] V", False)):
        compiled, given = compile_graph(attending(heads, more), without=("inference",)), zoo.inputs("moved")
        assert len([one for one in compiled.graph.nodes() if kernels.is_draw(one)]) == 1
        assert [line.fired for line in compiled.ledger.lines if line.rule == "selected"] == [True] * alone
        assert zoo.difference(drawn(compiled.graph, given), drawn(compiled.formula, given)) < 1e-12


def test_a_selection_along_more_axes_than_the_draw_stays_behind_it() -> None:
    """What was drawn once for all queries would be drawn for each, or along axes that the draw does not have."""
    more = "w = dropout(exp(sum[dk](Q)), 0.5)\nB[seq, key, head] = w if index(key) ≤ index(seq) else 0"
    compiled, given = compile_graph(attending("B @[key] V", more), without=("inference",)), zoo.inputs("wide")
    assert not [line for line in compiled.ledger.lines if line.rule == "selected"]
    for stage in compiled.stages:
        assert zoo.difference(drawn(stage.graph, given), drawn(compiled.formula, given)) < 1e-12


@pytest.mark.parametrize("wet", [False, True])
def test_axes_of_the_draw_that_scores_lack_are_no_attention(wet: bool) -> None:
    """What each head adds is added where nobody looks: the weights differ by their draws alone, one for each head."""
    seq, key, d, head = Axis("seq", 3), Axis("key", 3), Axis("d", 4), Axis("head", 2)
    q, k = ir.input_("q", (seq, d), "real"), ir.input_("k", (key, d), "real")
    see = ir.apply("<=", ir.index(key), ir.index(seq))
    scores = ir.apply("+", ir.contract(q, k, (d,)), ir.where(see, ir.const(0), ir.index(head)))
    one = kernels.make("softmax", {"x": scores, "see": see}, (seq, key, head), axis=key)
    one = ir.draw("dropout", (one, ir.const(0.5)), (), "real", "s") if wet else one
    made = ir.contract(one, k, (key,))
    ledger = Ledger()
    graph = attention.run(Graph("g", (ir.Output("y", made, made.axes),), (), (), {}), ledger)
    assert bool(kernels_of(graph)) != wet
    reasons = ["weights are dropped along axes that query, key and bias do not have"] if wet else [""]
    assert [line.reason for line in ledger.lines] == reasons


# --- what others ask of a node -------------------------------------------------------------------------------


def test_no_draw_is_a_parameter() -> None:
    """What is prepared once when a model is loaded is not drawn at each call."""
    d, key, out = Axis("d", 4), Axis("key", 3), Axis("out", 2)
    q, k, v = ir.weight("q", (d,)), ir.weight("k", (key, d)), ir.weight("v", (key, out))
    roles = {"query": q, "key": k, "value": v}
    plain = kernels.make("attention", roles, (out,), axis=key, width=d, scale=1)
    rate = {**roles, "drop": ir.const(0.5)}
    wet = kernels.make("attention", rate, (out,), axis=key, width=d, scale=1, site="s", drawn=(key,))
    assert is_parameter(plain)
    assert not is_parameter(wet)
    assert not is_parameter(ir.apply("exp", wet))
    assert not is_parameter(ir.draw("dropout", (q, ir.const(0.5)), (), "real", "s"))


@pytest.mark.parametrize("broken", [{"drop": ir.const(0.5)}, {"site": "s"}], ids=["no site", "no rate"])
def test_a_rate_has_a_site(broken: dict[str, Any]) -> None:
    d, key = Axis("d", 4), Axis("key", 3)
    q, k = ir.input_("q", (d,), "real"), ir.input_("k", (key, d), "real")
    roles = {"query": q, "key": k, "value": k, **{name: part for name, part in broken.items() if name == "drop"}}
    site = {name: part for name, part in broken.items() if name == "site"}
    one = kernels.make("attention", roles, (d,), axis=key, width=d, scale=1, **site)
    with pytest.raises(InternalError, match="rate"):
        verify(Graph("g", (ir.Output("y", one, (d,)),), (), (), {}))


@pytest.mark.parametrize("training", [False, True])
def test_axes_of_a_draw_are_in_its_own_order(training: bool) -> None:
    """An argument that is rebuilt may have its axes in another order than the draw, and fewer."""
    a, b = Axis("a", 30), Axis("b", 2)
    x = ir.input_("x", (b, a), "real")
    value = rng(1).normal(size=(2, 30))
    one = ir.node("random", (x, ir.const(0.25)), (a, b), "real", draw="dropout", site="s")
    found = Evaluator({"x": value}, lambda name, axes: value, training=training)(one)
    assert found.shape == (30, 2)
    kept = found != 0
    np.testing.assert_allclose(found[kept], value.T[kept] / (0.75 if training else 1))
    assert kept.all() != training
    wide = ir.node("random", (x, ir.const(0.25)), (a, b, Axis("c", 50)), "real", draw="dropout", site="s")
    found = Evaluator({"x": value}, lambda name, axes: value, training=training)(wide)
    assert found.shape == (30, 2, 50)
    assert (len(np.unique(found[0, 0])) == 2) == training


# --- stop ----------------------------------------------------------------------------------------------------

STOPS = {
    "exp(x - stop(max[d](x))) / sum[d](exp(x - stop(max[d](x))))": ["softmax"],
    "exp(stop(x)) / sum[d](exp(stop(x)))": ["softmax"],
    "stop(exp(x) / sum[d](exp(x)))": ["softmax"],
    "exp(x) / stop(sum[d](exp(x)))": [],
    "exp(x - stop(mean[d](x))) / sum[d](exp(x))": [],
    "x * Φ(stop(x))": [],
    "stop(x * Φ(x))": ["gelu"],
    "(x - stop(mean[d](x))) / √(mean[d]((x - mean[d](x))²) + 1e-5)": [],
    "(x - mean[d](x)) / √(stop(mean[d]((x - mean[d](x))²)) + 1e-5)": [],
    "(x - mean[d](x)) / √(mean[d]((x - mean[d](x))²) + 1e-5)": ["layer_norm"],
}


@pytest.mark.parametrize("formula", STOPS)
def test_a_meaning_has_the_gradient_too(formula: str) -> None:
    """What a stop cuts off is cut off of no kernel: such a part stays as it is written."""
    text = f"spec s\nfrom functions import Φ\nconfig\n    d = 5\nmodel M(x[seq, d] as inputs) → y[seq, d] = {formula}\n"
    graph = compile_graph(text, without=("inference",)).graph
    found = [one["name"] for one in graph.nodes() if one.op == "kernel"]
    assert found == STOPS[formula]
    if found:
        (one,) = [one for one in graph.nodes() if one.op == "kernel"]
        inside = kernels.parts(one)["x"]
        assert (inside.get("fn") == "stop") == formula.startswith("exp(stop")
        assert (graph.roots[0].get("fn") == "stop") == formula.startswith("stop")
    quiet = compile_graph(text).graph
    assert not any(one.get("fn") == "stop" for one in quiet.nodes())
    assert len([one for one in quiet.nodes() if one.op == "kernel"]) >= len(found)
