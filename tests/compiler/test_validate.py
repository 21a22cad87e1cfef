"""Translation validation: planted faults are caught, right passes are not blamed, and it takes a moment at any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.compiler import planted, zoo
from tests.compiler.test_passes import counted
from transformula.backends.program import compile as compile_program
from transformula.compiler import ir, numeric, passes, pipeline, rules
from transformula.compiler.driver import Compiled, compile_graph, load_module
from transformula.compiler.evaluate import Evaluator
from transformula.compiler.ir import Axis, Graph
from transformula.compiler.ledger import Ledger
from transformula.compiler.lower import choose_entry, entries
from transformula.compiler.modules import shipped
from transformula.compiler.pipeline import Pass
from transformula.compiler.validation import cases, proof, prove, prove_quickly, rounding, sizes
from transformula.compiler.validation.fitting import fitting
from transformula.compiler.validation.trial import Trial
from transformula.grammar.diagnostics import TransformulaError

pytestmark = pytest.mark.proved
FAULTS = [pytest.param(one, id=one.name) for one in planted.FAULTS]


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    """No proof of another test is remembered."""
    proof._done.clear()
    yield
    proof._done.clear()


def compiled(name: str, **how: Any) -> Compiled:
    """A model of the zoo (or the text of one), with the passes that there are now."""
    text, entry, settings = zoo.SHIPPED.get(name, (zoo.ZOO.get(name, name), None, None))
    return compile_graph(text, entry=entry, settings={**(settings or {}), **how.pop("settings", {})}, **how)


# --- wrong passes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught_and_named(fault: planted.Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, fault)
    made = compiled(fault.model)
    with pytest.raises(TransformulaError) as caught:
        prove_quickly(made)
    (found,) = caught.value.diagnostics
    assert found.code == "X993"
    assert f"the pass `{fault.stage}` changes what" in found.message
    assert f"--without {fault.stage}" in found.help
    assert "report" in found.help
    assert any(line.startswith("the case: ") for line in found.because)
    assert any(line.startswith("the sizes: ") and " = " in line for line in found.because)
    prove_quickly(compiled(fault.model, without=(fault.stage,)))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_in_the_full_proof(fault: planted.Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, fault)
    wrong = prove(compiled(fault.model), ["different"]).wrong
    assert wrong
    assert {one.stage for one in wrong} == {fault.stage}, "a pass is blamed for what another one did"


def test_only_nan_shows_what_a_product_with_zero_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = [one for one in planted.FAULTS if one.name == "NaN leaks out of padding"]
    planted.plant(monkeypatch, fault)
    wrong = {one.case for one in prove(compiled(fault.model), ["different", "equal"]).wrong}
    assert wrong == {one.name for one in cases.KINDS if one.poison and one.name != "huge"}


def test_an_error_below_the_probe_is_seen_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """recognise may err by 1e-11; what a later pass adds is held to units in the last place."""

    def drifted(one: ir.Node) -> ir.Node:
        scaled = one.op == "contract" and one.args[1].op == "concat"
        return ir.apply("*", one, ir.const(1 + 1e-13)) if scaled else one

    fault = planted.Fault("drift", "merge_projections", planted.everywhere(drifted))
    planted.plant(monkeypatch, fault)
    wrong = prove(compiled("bert"), ["different"]).wrong
    assert {one.stage for one in wrong} == {"merge_projections"}
    assert min(one.gap.relative for one in wrong) < 1e-11


def test_a_pass_that_fails_at_small_sizes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(graph: Graph, ledger: Ledger) -> Graph:
        if any(axis.size == 768 for weight in graph.weights for axis in weight.axes):
            return graph
        raise ZeroDivisionError("sizes")

    rows = tuple(replace(row, run=failing) if row.name == "fuse" else row for row in passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", rows)
    with pytest.raises(TransformulaError, match=r"`fuse` changes.*it fails: ZeroDivisionError: sizes"):
        prove_quickly(compile_graph("bert"))


# --- right passes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.NAMES)
def test_right_passes_are_not_blamed(name: str) -> None:
    prove_quickly(compiled(name))


@pytest.mark.parametrize("name", [name for name in shipped() if not name.startswith("lib/")])
def test_shipped_specs_are_not_blamed(name: str) -> None:
    made = load_module(name)
    entry = choose_entry(made, None).name
    prove_quickly(compile_graph(made, entry=entry))
    if name == "bert":
        for head in entries(made):
            prove_quickly(compile_graph(made, entry=head))
    if name == "deberta_v2":
        terms = {"relative": True, "pairs": "c2p|p2c", "buckets": 256, "tap": 3}
        prove_quickly(compile_graph(made, entry=entry, settings=terms))


@pytest.mark.parametrize("name", ["gpt", "two", "running", "norms", "similarities", "pools"])
def test_right_passes_are_far_from_the_bound(name: str) -> None:
    found = prove(compiled(name))
    assert not found.skipped
    assert not found.untried
    assert {one.case for one in found.measures if one.gap.entries} >= {"masks", "padding", "tiny", "one", "given"}
    assert max(one.gap.excess for one in found.measures) < 0.2
    exact = [one for one in found.measures if one.numeric == numeric.EXACT]
    assert all(one.gap.error == 0 or one.gap.relative < 1e-14 for one in exact)


def test_training_is_proved_where_draws_stay() -> None:
    stays = prove(compiled("bert", without=("inference",)), ["equal"])
    assert any(one.case == "training" and one.gap.entries for one in stays.measures)
    assert not any(one.case == "training" for one in prove(compiled("bert"), ["equal"]).measures)


def test_losses_are_proved_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {one.model for one in prove(compiled("mlm"), ["different"]).measures}
    assert models == {"BertForMaskedLM", "mlm"}
    fault = planted.Fault("loss", "simplify", planted.everywhere(_other_mean))
    planted.plant(monkeypatch, fault)
    assert {one.model for one in prove(compiled("mlm"), ["different"]).wrong} == {"mlm"}


def _other_mean(one: ir.Node) -> ir.Node:
    """A mean over what counts that counts everything."""
    restricted = one.op == "reduce" and one["reduction"] == "mean" and len(one.args) > 1
    return ir.reduce("mean", ir.where(one.args[1], one.args[0], ir.const(0)), one["over"]) if restricted else one


def test_time_depends_neither_on_layers_nor_on_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "BUDGET", float("inf"))  # a slow machine would count a part of the calls
    made = {layers: compile_graph("bert", settings={"layers": layers}) for layers in (12, 768)}
    prove_quickly(made[12])  # what is computed once
    calls = {}
    for layers, one in made.items():
        proof._done.clear()
        calls[layers] = counted(lambda one=one: prove_quickly(one))  # type: ignore[misc]
    assert calls[768] <= 1.02 * calls[12]


def test_what_is_proved_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {name: compile_graph("bert", settings={"d": d}) for name, d in (("once", 48), ("other", 96))}
    again = compile_graph("bert", settings={"d": 48})
    fewer = compile_graph("bert", settings={"d": 48}, until="simplify")
    prove_quickly(made["once"])
    monkeypatch.setattr(pipeline, "run", None)
    prove_quickly(again)
    for one in (made["other"], fewer):
        with pytest.raises(TypeError):
            prove_quickly(one)


def test_compile_proves_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, planted.FAULTS[1])
    with pytest.raises(TransformulaError, match="X993"):
        compile_program(zoo.ZOO["gpt"])
    assert compile_program(zoo.ZOO["gpt"], validate=False).source


@pytest.mark.parametrize(("least", "told"), [(30, ()), (500, ("fuse large",))])
def test_a_rule_that_fires_at_larger_sizes_is_tried_there(
    least: int, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes ask what pays: wider models are tried, and what fires in none of them is told."""

    def choosy(graph: Graph, ledger: Ledger) -> Graph:
        widths = [axis.size for axis in sizes.axes_of(graph) if axis.name == "d"]
        if any(isinstance(size, int) and size >= least for size in widths):
            ledger.fired("fuse", "large", "large weights are one")
        return graph

    rows = tuple(replace(row, run=choosy) if row.name == "fuse" else row for row in passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", rows)
    assert prove(compile_graph("bert", settings={"layers": 1}), ["ones"]).untried == told


# --- small sizes ---------------------------------------------------------------------------------------------


def small(made: Compiled, profile: str) -> sizes.Small:
    found = sizes.Shrinker(sizes.subjects(made)[0]).small(profile)
    assert found is not None
    return found


def test_sizes_are_different_equal_or_one() -> None:
    made = compile_graph("bert")
    different, equal, ones = (small(made, name) for name in proof.EVERY)
    axes: dict[str, Any] = {axis.name: axis.size for axis in sizes.axes_of(different.graph)}
    assert axes["dk"] * axes["head"] == axes["d"]
    own = [axes[name] for name in ("d", "head", "dk", "ffn", "vocab", "place", "segment")]
    assert len(set(own)) == len(own)
    assert set(equal.sizes.values()) == {2, 4}
    assert equal.sizes["d"] == equal.sizes["vocab"] == equal.sizes["ffn"] == 4
    assert set(ones.sizes.values()) == {1}
    assert {one.sizes["layers"] for one in (different, equal, ones)} == {1, 2, 3}


def test_sizes_have_the_parts_that_instances_ask_for() -> None:
    """A generator of a quarter of ELECTRA's width, heads and feed-forward: small sizes are multiples of four."""
    made = compile_graph("electra", entry="joint")
    for profile in (*proof.EVERY, "wide"):
        found = small(made, profile)
        assert all(found.sizes[name] % 4 == 0 for name in ("d", "head", "ffn"))
        assert max(found.sizes.values()) < 1000
    own: dict[str, Any] = {axis.name: axis.size for axis in sizes.axes_of(small(made, "different").graph)}
    assert own["generator.d"] * 4 == own["d"]
    proof.prove_quickly(compile_graph("electra", entry="joint"))


def test_choices_and_rates_stay_as_the_user_has_them() -> None:
    given = {"hidden_act": "relu", "layer_norm_eps": 1e-3, "hidden_dropout_prob": 0.25, "hidden_size": 96}
    made = small(compile_graph("bert", given), "different")
    told = made.config.effective()
    assert (told["act"], told["ε"], told["p"]) == ("relu", 1e-3, 0.25)
    assert told["d"] != 96


def test_a_computed_size_that_was_given_follows_again() -> None:
    given = {"hidden_size": 768, "num_attention_heads": 12, "attention_head_size": 64}
    made = small(compile_graph("deberta_v2", given), "different")
    told = made.config.effective()
    assert told["dk"] * told["head"] == told["d"] < 64


def test_a_size_that_was_given_another_value_than_its_formula_s_is_free() -> None:
    """Grouped heads stay groups, and a head of another width stays one."""
    keys = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    for width, apart in ((None, ("kv",)), (256, ("kv", "dk")), (128, ("kv",))):
        made = compile_graph("llama", {**keys, "head_dim": width}, entry="Llama")
        for profile in ("different", "equal", "wide"):
            told = small(made, profile).config.effective()
            assert told["head"] == told["kv"] * told["group"]
            assert told["group"] > 1
            assert told["d"] < 100
            assert (told["dk"] * told["head"] == told["d"]) == ("dk" not in apart)
            assert all(name in small(made, profile).sizes for name in apart)


def test_sizes_that_switch_something_stay() -> None:
    made = small(compile_graph("deberta_v2", settings={"segment": 0, "buckets": -1}), "different")
    assert made.config.effective()["segment"] == 0
    assert "buckets" not in made.sizes
    scored = compile_graph("bert", entry="BertForSequenceClassification", settings={"label": 1})
    assert small(scored, "equal").config.effective()["label"] == 1


VECTOR = (
    "spec t\nconfig\n    layers = 6\n    local[l: layers] = l % 2 == 0 as layer_types\n"
    "model M(x[seq] as x) → [seq] = h[layers]\n    where\n"
    "        h[0] = x\n        for l in layers:\n"
    "            h[l + 1] = 2 * h[l] if local[layers = l] else h[l] + 1\n"
)


def test_a_list_of_a_value_per_layer_has_as_many_as_there_are_layers() -> None:
    made = compile_graph(VECTOR, {"layer_types": [True, True, False, False, True, True]})
    for profile in sizes.PROFILES:
        found = small(made, profile)
        tables = [one for one in found.graph.nodes() if one.op == "table"]
        assert {len(one["values"]) for one in tables} <= {found.sizes["layers"]}
    prove_quickly(made)


def test_what_a_spec_refuses_falls_back_entry_by_entry() -> None:
    text = zoo.ZOO["history"].replace("x[layers - 1]", "x[layers - 3]")
    made = compiled(text, settings={"layers": 5})
    found = small(made, "ones")
    assert found.sizes["layers"] == 3, "with one layer there is no x[layers - 3]"
    assert found.sizes["d"] == 1
    assert not prove(made).wrong


def test_texts_get_a_table_that_they_fit_into() -> None:
    """RoBERTa's places begin at 2: a text of one token needs three, of five tokens seven; BERT's need one and five."""
    for name, least in (("roberta", {"masks": 7, "one": 3}), ("bert", {"masks": 5, "one": 1})):
        shrinker = sizes.Shrinker(sizes.subjects(compile_graph(name, entry="Bert"))[0])
        given = {}
        for one, kinds in fitting(shrinker, "ones", ["masks", "one"]):
            for kind in kinds:
                given[kind.name] = one.sizes["place"]
                assert Trial(one.graph, cases.case(one.graph, kind)).whole(one.graph), (name, kind.name)
        assert all(given[kind] >= places for kind, places in least.items())
    assert given["one"] == 1


def test_a_model_without_sizes_is_proved_as_it_is() -> None:
    text = "spec t\nmodel M(x[seq] as x) → [seq] = (x + 0) * 1 / sum[seq](x ^ 2)\n"
    found = prove(compile_graph(text))
    assert found.measures
    assert not found.wrong
    assert not found.skipped


# --- cases ---------------------------------------------------------------------------------------------------


def test_masks_have_every_kind() -> None:
    found = cases.masks(5).astype(bool)
    assert found[0].all()
    assert not found.any(axis=1).all(), "a text without a token"
    assert (found.sum(axis=1) == 1).any()
    assert any(row[0] and not row[-1] for row in found), "padding right"
    assert any(not row[0] and row[-1] for row in found), "padding left"
    assert any(np.diff(np.flatnonzero(row)).max(initial=1) > 1 for row in found), "a hole"


@pytest.mark.parametrize("name", ["bert", "two", "pools", "rope", "mlm"])
@pytest.mark.parametrize("kind", cases.KINDS, ids=lambda kind: kind.name)
def test_ids_lie_inside_their_tables(name: str, kind: cases.Kind) -> None:
    graph = small(compiled(name), "different").graph
    made = cases.case(graph, kind)
    for one, limit in cases.bounds(graph, 1).items():
        if one in made.inputs and (made.inputs[one] >= 0).any():
            assert made.inputs[one].min() >= 0
            assert made.inputs[one].max() < limit


def test_inputs_that_may_be_left_out_are_given_in_a_case_of_their_own() -> None:
    graph = small(compiled("bert"), "different").graph
    given = cases.case(graph, cases.BY_NAME["given"]).inputs
    assert {"token_type_ids", "inputs_embeds", "position_ids"} <= set(given)
    assert (given["input_ids"] == -1).all(), "embeddings stand in for ids"
    assert set(cases.case(graph, cases.BY_NAME["masks"]).inputs) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("name", ["gpt", "bert", "two", "pools", "norms", "sbert", "nothing"])
def test_what_padding_holds_reaches_no_result_of_the_formula(name: str) -> None:
    """But where a token that the mask hides between others is asked for itself."""
    graph = small(compiled(name), "different").graph
    clean, poisoned = (Trial(graph, cases.case(graph, cases.BY_NAME[kind])) for kind in ("masks", "padding"))
    for out in graph.outputs:
        left, right = clean.values(graph)[out.name], poisoned.values(graph)[out.name]
        seen = clean.shown(out.axes, left) & np.isfinite(right)
        assert seen.any()
        np.testing.assert_array_equal(left[seen], right[seen])


# --- rounding ------------------------------------------------------------------------------------------------

A = Axis("a", 6)
X = ir.input_("x", (A,), "real")


def bound(root: ir.Node, x: Any) -> Any:
    how = ({"x": np.asarray(x, float)}, lambda name, axes: np.zeros(0))
    value, moved = Evaluator(*how)(root), rounding.Noisy(*how)(root)
    return float(rounding.allowed(value, moved, numeric.UNIT).max())


def test_the_bound_follows_the_condition() -> None:
    values = np.linspace(1, 2, 6)
    total = ir.reduce("sum", X, (A,))
    plain = bound(total, values)
    assert 1e-16 < plain < 1e-13
    near = ir.apply("-", ir.apply("+", total, ir.const(10**8)), ir.const(10**8))
    assert bound(near, values) > 1e6 * plain, "cancellation"
    assert bound(ir.apply("exp", ir.apply("*", X, ir.const(100))), values) > 1e60 * plain, "large numbers"


def test_what_rounds_nothing_has_no_noise() -> None:
    n = ir.input_("n", (A,), "int")
    for one in (ir.apply("max", X, X), ir.apply("neg", X), ir.apply("+", n, n), ir.reduce("max", X, (A,))):
        assert not rounding.rounds(one)
    for one in (ir.apply("+", X, X), ir.reduce("mean", X, (A,)), ir.contract(X, X, (A,)), X):
        assert rounding.rounds(one)


# --- numeric classes -----------------------------------------------------------------------------------------


def test_the_class_of_a_pass_is_that_of_what_fired() -> None:
    made = compiled("bert")
    rows = {row.name: row for row in pipeline.table()}
    told = {name: pipeline.numeric_class(row, made.ledger) for name, row in rows.items()}
    assert told["inference"] == told["simplify"] == told["unpad"] == numeric.EXACT
    assert told["recognise"] == told["fold_scales"] == told["fuse"] == numeric.REASSOCIATING
    assert pipeline.numeric_class(rows["fuse"], Ledger()) == numeric.EXACT, "what did nothing moves nothing"


def test_rows_have_a_class() -> None:
    for row in pipeline.table():
        assert row.numeric in numeric.CLASSES
        assert row.numeric != numeric.APPROXIMATING, "never by default"
        assert row.bound <= 1e-11
    assert set(rules.NUMERIC.values()) <= {numeric.EXACT, numeric.REASSOCIATING}


def test_an_approximating_pass_runs_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def rough(graph: Graph, ledger: Ledger) -> Graph:
        ledger.fired("rough", "rough", "x is 0")
        return graph.rewrite(lambda one: ir.apply("*", one, ir.const(0)) if one.op == "contract" else one)

    row = Pass("rough", "everything is 0", "last", rough, numeric.APPROXIMATING)
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, row))
    made = compiled("gpt")
    assert "rough" not in [stage.name for stage in made.stages]
    (line,) = [line for line in made.ledger.lines if line.pass_name == "rough"]
    assert not line.fired
    assert "--only rough" in line.reason
    assert compiled("gpt", only=("rough",)).stages[-1].name == "rough"
