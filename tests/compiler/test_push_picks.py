"""push_picks: rows that nobody reads are not computed, counted in rows; what is read whole stays whole, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from transformula.backends.program import compile
from transformula.compiler import ir, kernels, pipeline, reference
from transformula.compiler.ir import Axis, Graph, Length, Node
from transformula.compiler.passes.demand import Demand, against, picked_rows

BATCH = Axis("batch", Length("batch"))
SEQ = Axis("seq", Length("seq"), BATCH)
D, E, SPOT = Axis("d", 4), Axis("e", 3), Axis("spot", 2)
FIRST = ((SEQ, ir.const(0)),)


def x(*axes: Axis) -> Node:
    return ir.input_("x", axes or (BATCH, SEQ, D), "real")


def lines(text: str, rule: str, **options: object) -> list[tuple[bool, str]]:
    """What the pass did or refused by a rule, with the reason."""
    ledger = compile(text, **options).ledger  # type: ignore[arg-type]
    return [(one.fired, one.reason) for one in ledger.lines if (one.pass_name, one.rule) == ("push_picks", rule)]


def on_rows(graph: Graph, op: str = "contract") -> tuple[int, int]:
    """How many products (kernels …) of the top level are of rows of a length, and how many of single rows."""
    found = [one for one in ir.walk(graph.roots) if one.op == op and BATCH.name in map(str, one.axes)]
    whole = [one for one in found if any(axis.ragged and axis.owner is not None for axis in one.axes)]
    return len(whole), len(found) - len(whole)


# --- did it fire ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cls", "last", "last_alibi"])
def test_the_last_block_computes_one_query_row(name: str) -> None:
    """Keys and values are products of all rows; query, both of the network, the output and the result are of one."""
    graph = zoo.program(name, until="push_picks").graph
    assert on_rows(graph) == (2, 5 if name == "last" or name == "last_alibi" else 4)
    attentions = [one for one in ir.walk(graph.roots) if one.op == "kernel" and one["name"] == "attention"]
    (last,) = [one for one in attentions if not one.free]
    query, key = (kernels.parts(last)[role] for role in ("query", "key"))
    assert not any(axis.ragged and axis.owner for axis in query.axes)
    assert last["axis"] in key.axes


def test_rows_that_the_module_multiplies_are_counted() -> None:
    """Of 26 tokens of 5 examples: the block before multiplies all rows, the last one 5, of keys none."""
    seen: dict[str, list[tuple[int, int]]] = {}
    for without in ((), ("push_picks",)):
        made = zoo.program("cls", without=without)
        names = zoo.module(made.source)
        rows = seen.setdefault("".join(without), [])

        def counted(x: Any, *more: Any, before: Any = names["linear"], to: Any = rows, **out: Any) -> Any:
            to.append((len(x), x.shape[1]))
            return before(x, *more, **out)

        names["linear"] = counted
        given = zoo.inputs("cls")
        weights = zoo.nested(made.compiled.formula, zoo.weight_values(made.compiled.formula))
        names["M"](weights, dtype="float64", threads=1)(**given)
    n, examples = 26, 5
    assert [count for count, _ in seen["push_picks"]] == [n] * 8
    assert sorted(count for count, _ in seen[""]) == [examples] * 4 + [n] * 4


def test_each_selection_is_computed_by_itself() -> None:
    graph = zoo.program("ends", until="push_picks").graph
    assert on_rows(graph) == (2, 8)


def test_places_of_a_text_are_rows_of_the_head() -> None:
    """gelu(x @ U)[seq = at] @ E: the head is of four rows, and so is all of the last block but keys and values."""
    graph = zoo.program("spots", until="push_picks").graph
    assert on_rows(graph) == (2, 6)
    assert lines(zoo.ZOO["spots"], "rows") == [(True, "")]


def test_given_places_of_causal_attention_stay_behind_it() -> None:
    """Its mask would be a table of given rows and keys: the network after it is of the rows, its queries of all."""
    text = zoo.encoder("h[d] = x[layers][seq = min(at, seq - 1)]", "attention[key if causal](Q, K, V)", "causal")
    text = text.replace("input_ids)", "input_ids, at as spots)")
    graph = compile(text, until="push_picks").graph
    assert on_rows(graph) == (3, 3)
    assert lines(text, "last_step") == [(True, "")]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("entry", ["BertForSequenceClassification", "BertForNextSentencePrediction"])
def test_heads_of_bert_read_one_row(entry: str, backend: str) -> None:
    told = lines("bert", "last_step", entry=entry, settings=zoo.BERT, backend=backend)
    assert told == [(True, "")]


def test_sbert_with_cls_pooling() -> None:
    alone = {"results": ("sentence_embedding",)}
    assert lines("sbert", "last_step", settings={**zoo.BERT, "pool_tokens": "cls"}, **alone) == [(True, "")]
    assert lines("sbert", "last_step", settings={**zoo.BERT, "pool_tokens": "lasttoken"}, **alone) == [(True, "")]
    assert lines("sbert", "last_step", settings={**zoo.BERT, "pool_tokens": "mean"}, **alone) == []
    assert lines("sbert", "rows", settings={**zoo.BERT, "pool_tokens": "cls"}) == [(False, "it is a result")]


def test_a_mean_of_products_is_the_product_of_the_mean() -> None:
    """Three products are of one row for each example, the one that is read elsewhere of each token."""
    assert lines(zoo.ZOO["means"], "mean") == [(True, ""), (False, "the product is read elsewhere, too")]
    assert on_rows(zoo.program("means", until="push_picks").graph) == (1, 3)


@pytest.mark.parametrize("weights", ["mean[seq](u @ W[place = index(seq)])", "mean[seq](gelu(u @ W))"])
def test_means_that_stay(weights: str) -> None:
    shape = "[place, d → dk]" if "place" in weights else "[d → dk]"
    text = zoo.spec(
        "gelu" if "gelu" in weights else "",
        zoo.IDS + f"a[dk] = {weights}\n    where u = E[vocab = tokens]\n{zoo.EMBED}            W : {shape}\n",
    )
    assert not [fired for fired, _ in lines(text, "mean") if fired]


@pytest.mark.parametrize("name", ["cls", "ends", "spots", "last", "albert"])
def test_draws_are_those_of_the_whole(name: str) -> None:
    """Dropout of some rows drops what dropout of all would drop there, in the step that was peeled, too."""
    formula = zoo.whole(name).compiled.formula
    stages, _ = pipeline.run(formula, without=("inference",), until="push_picks")
    weights, given = zoo.weight_values(formula), zoo.inputs(name)
    wanted = reference.run(formula, weights, given, seed=5, training=True)
    found = reference.run(stages[-1].graph, weights, given, seed=5, training=True)
    assert zoo.difference(found, wanted) < 1e-12
    assert name == "last" or zoo.difference(reference.run(formula, weights, given), wanted) > 1e-3


def test_an_encoder_that_the_last_step_reads_stays_one() -> None:
    """Each layer of the decoder reads it: made again for the one by itself, it would be computed and drawn twice."""
    sizes = {"layers": 3, "steps": 2, "p": 0.125, "p_attn": 0.25}
    graph = compile("bart", entry="BartForSequenceClassification", settings=sizes, until="push_picks").graph
    loops = [one for one in ir.walk_all(graph.roots) if one.op == "loop"]
    assert [one.args[one["slots"]]["value"] for one in loops] == [3, 1]
    sites = [one["site"] for one in ir.walk_all(graph.roots) if one.op == "random"]
    assert len(sites) == len(set(sites))


# --- did it rightly not fire ---------------------------------------------------------------------------------


def test_what_is_read_whole_too_stays() -> None:
    text = zoo.ZOO["whole_and_cls"]
    assert lines(text, "rows") == [(False, "it is a result")]
    assert on_rows(zoo.program("whole_and_cls", until="push_picks").graph) == (0, 0)


def test_a_stack_that_is_read_by_another_loop_keeps_its_steps() -> None:
    text = zoo.encoder("h[d] = x[layers][seq = 0] + x[layers // 2][seq = 0] + x[layers - 1][seq = 0]")
    assert lines(text, "last_step") == [(True, "")]
    assert zoo.difference(zoo.model(zoo.whole(text))(**zoo.inputs("cls")), wanted(text)) < 1e-12
    text = zoo.encoder("h[d] = sum[layers](x[index(layers)][seq = 0])")
    told = lines(text, "last_step")
    assert told in ([], [(False, "states of computed numbers are read")])
    assert zoo.difference(zoo.model(zoo.whole(text))(**zoo.inputs("cls")), wanted(text)) < 1e-12


def test_a_loop_of_two_states_one_of_which_is_read_whole_keeps_its_steps() -> None:
    body = """block FF(x[d]) → [d] = tanh(x @ W)
    weights W : [d → d]
model M(tokens[seq] as input_ids) → h[d] = x[layers][seq = 0], k[seq, d] = y[layers]
    where x[0] = E[vocab = tokens]
          y[0] = E[vocab = tokens]
          for l in layers:
              x[l + 1] = f[l](x[l]) + y[l]
              y[l + 1] = y[l] + f[l](x[l])
    uses f[layers] : FF
    weights E : [vocab, d]
"""
    text = zoo.spec("", body)
    assert lines(text, "last_step") == [(False, "the last state is read whole, too")]
    assert zoo.difference(zoo.model(zoo.whole(text))(**zoo.inputs("cls")), wanted(text)) < 1e-12


def wanted(text: str) -> dict[str, Array]:
    return zoo.reference_results(zoo.whole(text).compiled.formula, zoo.inputs("cls"))


def test_tables_by_distance_are_no_selection() -> None:
    """(Q @ R)[bucket = at(i, j)] has more rows than Q @ R: pushed down it would be the product for each pair."""
    assert lines(zoo.ZOO["deberta"], "rows") == []
    assert lines(zoo.ZOO["shift"], "rows") == []


def test_one_layer_has_no_loop_left() -> None:
    source = compile(zoo.ZOO["cls"], settings={"layers": 1}).source
    assert not re.search(r"for l in range\(\d+\):\n +#.*\n +Q", source)
    made = zoo.whole(zoo.ZOO["cls"].replace("layers = 2", "layers = 1"))
    formula = made.compiled.formula
    found = zoo.model(made)(**zoo.inputs("cls"))
    assert zoo.difference(found, zoo.reference_results(formula, zoo.inputs("cls"))) < 1e-12
    assert not [one for one in made.graph.nodes() if one.op == "loop"]


def test_compile_time_does_not_grow_with_depth() -> None:
    few, many = (len(compile(zoo.ZOO["cls"], settings={"layers": n}).graph.nodes()) for n in (12, 768))
    assert few == many


MIXING = {
    "a sum over the rows": (ir.reduce("sum", x(), (D,)), FIRST, ""),
    "softmax along the rows": (
        kernels.make("softmax", {"x": x()}, x().axes, axis=SEQ), FIRST, "softmax mixes the rows",
    ),
    "ranks along the rows": (ir.rank(x(), SEQ), FIRST, "rank mixes the rows"),
    "a sum over the batch": (
        ir.reduce("mean", ir.apply("*", x(), ir.index(SEQ)), (BATCH,)), FIRST,
        "the sum over all examples leaves out rows that are not there",
    ),
    "numbers along a summed axis": (
        ir.contract(x(BATCH, SEQ, SPOT), ir.weight("w", (SPOT, D)), (SPOT,)),
        ((SEQ, ir.table((0, 1), SPOT)),), "the numbers lie along an axis that it sums over",
    ),
    "another draw": (
        ir.draw("bernoulli", (x(),), (), "bool", "s"), FIRST, "a draw is made for all rows at once",
    ),
    "examples of their own length": (
        ir.apply("exp", x()), ((BATCH, ir.const(0)),), "another length belongs to the picked axis",
    ),
    "a concatenation along the rows": (
        ir.concat((x(SEQ, D), x(SEQ, D)), (D, D), Axis("two", 8)), ((Axis("two", 8), ir.const(0)),),
        "concat mixes the rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXING)
def test_precondition(name: str) -> None:
    node, rows, reason = MIXING[name]
    assert against(node, [rows]) == reason


def test_selections_of_a_known_axis_that_are_all_of_it() -> None:
    value = ir.apply("exp", x(BATCH, E))
    asked = [((E, ir.const(number)),) for number in range(3)]
    assert against(value, asked[:2]) == ""
    assert against(value, asked) == "the selections are together all of it"
    assert against(value, [((SEQ, ir.const(n)),) for n in range(5)]) == "more than 4 selections of it are read"


def test_which_picks_are_fewer_rows() -> None:
    place = ir.input_("at", (BATCH,), "int")
    several = ir.input_("at", (BATCH, SPOT), "int")
    key = Axis("key", Length("seq"), BATCH)
    assert picked_rows(ir.pick(x(), {SEQ: ir.const(0)}))
    assert picked_rows(ir.pick(x(), {SEQ: place}))
    assert picked_rows(ir.pick(x(), {SEQ: several}))
    assert picked_rows(ir.pick(x(), {D: ir.index(SEQ)}))
    assert not picked_rows(ir.pick(x(BATCH, E), {E: ir.input_("at", (BATCH, D), "int")}))  # 4 of 3
    assert not picked_rows(ir.pick(x(), {SEQ: ir.index(SEQ)}))
    assert not picked_rows(ir.pick(x(), {D: ir.index(key)}))
    assert not picked_rows(x())


def test_a_draw_is_not_read_by_two_selections() -> None:
    drawn = ir.draw("dropout", (x(), ir.const(0.5)), (), "real", "s")
    assert against(drawn, [FIRST]) == ""
    two = [FIRST, ((SEQ, ir.const(1)),)]
    assert against(drawn, two) == "several selections of one draw would be drawn apart"


def test_demand_of_a_value_nobody_wants_whole() -> None:
    value = ir.apply("exp", x())
    demand = Demand([ir.pick(value, {SEQ: ir.const(0)})])
    assert demand.partial(value)
    assert demand.at(value, FIRST) is ir.apply("exp", ir.pick(x(), {SEQ: ir.const(0)}))
    both = Demand([ir.pick(value, {SEQ: ir.const(0)}), ir.reduce("sum", value, (SEQ,))])
    assert both.whole[value] == "another reader takes all of it"
