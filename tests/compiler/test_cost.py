"""Costs: entries are those of the arrays, products what a textbook counts, loops and lengths as they run."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.compiler import zoo
from transformula.compiler import cost, ir, memory
from transformula.compiler.driver import compile_graph
from transformula.compiler.evaluate import Evaluator
from transformula.compiler.ir import Axis, Graph, Length, Node
from transformula.compiler.sizes import Sizes, spread

COUNTS = {"seq": (9, 5, 6, 5, 0, 1), "tgt": (4, 4, 1, 3, 0, 0), "src": (4, 0, 4, 1, 0, 1)}
D, HEAD, DK, FFN, LAYERS, VOCAB = 12, 3, 4, 10, 2, 20


def graph_of(name: str, **passes: Any) -> Graph:
    """A model of the zoo after the chosen passes."""
    return zoo.program(name, **passes).graph


def named(graph: Graph, name: str) -> Node:
    """The kernel of a name."""
    (found,) = [one for one in graph.nodes() if one.op == "kernel" and one["name"] == name]
    return found


# --- sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.NAMES)
def test_entries_are_those_of_the_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the evaluator computes has as many entries as told: padded as stored, packed as visible."""
    graph = zoo.whole(name).compiled.formula
    sizes = Sizes(batch=len(zoo.MASK), lengths=COUNTS)
    seen = 0

    def compared(self: Evaluator, one: Node, made: Any = Evaluator._evaluate) -> Any:
        nonlocal seen
        value = made(self, one)
        if one.op != "loop":
            full = sizes.entries(one.axes, packed=False)
            assert math.prod(self.extent(axis) for axis in one.axes) == full
            assert sizes.entries(one.axes, packed=True) == packed_entries(one)
            seen += 1
        return value

    monkeypatch.setattr(Evaluator, "_evaluate", compared)
    zoo.reference_results(graph, zoo.inputs(name))
    assert seen


def packed_entries(one: Node) -> int:
    """Counted example by example."""
    batch = next((a for a in one.axes if str(a.size) == "batch"), None)
    total = 0
    for example in range(len(zoo.MASK) if batch else 1):
        count = 1
        for axis in one.axes:
            if isinstance(axis.size, int):
                count *= axis.size
            elif axis != batch:
                each = COUNTS[axis.size.name]
                count *= each[example] if axis.owner == batch and batch else max(each)
        total += count
    return total


@pytest.mark.parametrize(("fill", "batch"), [(1.0, 8), (0.46, 8), (0.7, 5), (0.46, 64)])
def test_a_fill_is_the_mean_of_the_lengths(fill: float, batch: int) -> None:
    lengths = spread(128, fill, batch)
    assert len(lengths) == batch
    assert max(lengths) == 128
    assert sum(lengths) / (128 * batch) == pytest.approx(fill, abs=0.01)


def test_sizes_in_words() -> None:
    assert str(Sizes()) == "8 examples of 128 tokens"
    assert str(Sizes(1, 5)) == "1 example of 5 tokens"
    assert str(Sizes(fill=0.46)) == "8 examples of 128 tokens, 46% of them real"
    assert Sizes(lengths={"seq": (3, 4)}).batch == 2
    with pytest.raises(ValueError, match="2 and 3 examples"):
        Sizes(lengths={"seq": (1, 2), "tgt": (1, 2, 3)})


# --- operations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("until", ["formula", "recognise", "schedule"])
def test_products_are_those_of_the_textbook(until: str) -> None:
    """2·m·n·k for each product of an encoder layer, before and after attention is a kernel."""
    n, length = 4, 7
    rows = n * length
    layer = 2 * rows * D * (4 * HEAD * DK + 2 * FFN) + 4 * n * length * length * HEAD * DK
    found = cost.costs(graph_of("bert", until=until), Sizes(n, length)).total
    assert found.products == LAYERS * layer + 2 * n * D * D  # the pooler sees one row of each
    assert found.products < found.flops < 3 * found.products


def test_unpadded_rows_are_real_tokens_and_attention_is_a_sum_of_squares() -> None:
    each = (7, 3, 1)
    sizes = Sizes(lengths={"seq": each})
    packed, padded = graph_of("bert"), graph_of("bert", without=("unpad",))
    row, pair = 2 * D * (4 * HEAD * DK + 2 * FFN), 4 * HEAD * DK
    pooler = 2 * 3 * D * D
    squares = sum(length * length for length in each)
    assert cost.costs(packed, sizes).total.products == LAYERS * (sum(each) * row + squares * pair) + pooler
    assert cost.costs(padded, sizes).total.products == LAYERS * (21 * row + 147 * pair) + pooler


def test_a_loop_costs_its_body_times_its_steps_and_the_rest_once() -> None:
    def costs(layers: int) -> cost.Costs:
        return cost.costs(compile_graph("bert", settings={**zoo.BERT, "layers": layers}).graph)

    two, five, many = costs(2), costs(5), costs(768)
    assert len(two.nodes) == len(many.nodes)
    step = (five.total.flops - two.total.flops) / 3
    assert step == (many.total.flops - two.total.flops) / 766 > 0
    assert (five.parameters - two.parameters) / 3 == (many.parameters - two.parameters) / 766


def test_a_loop_over_a_length_has_its_steps() -> None:
    """scan: one average of d numbers at each of the steps; the mean over seq outside is made once."""
    graph = graph_of("scan")
    kinds = {n: cost.costs(graph, Sizes(2, n)).kinds for n in (10, 20)}
    assert kinds[20]["map"].flops - kinds[10]["map"].flops == 10 * 2 * D * 2  # + and /
    reductions = [one for one in graph.nodes() if one.op == "reduce"]
    assert sum(cost.costs(graph, Sizes(2, 10)).nodes[one].flops for one in reductions) == 2 * 10 * D


def test_a_recognised_meaning_costs_what_it_computes() -> None:
    """With a causal mask as a relation it looks at all pairs; with the bounds that fold_masks makes, at half."""
    graph = graph_of("gpt", without=("fold_masks",))
    attention = named(graph, "attention")
    bounded = cost.costs(graph_of("gpt"), Sizes(2, 6)).nodes[named(graph_of("gpt"), "attention")]
    assert bounded.products == LAYERS * 4 * 2 * 21 * HEAD * DK
    found = cost.costs(graph, Sizes(2, 6)).nodes[attention]
    assert found.products == LAYERS * 4 * 2 * 36 * HEAD * DK
    reads = sum(math.prod(Sizes(2, 6).extent(a) for a in arg.axes) * (1 if arg.kind == "bool" else 4)
                for arg in attention.args)  # fmt: skip
    assert found.read == LAYERS * reads
    assert found.written == LAYERS * 2 * 6 * HEAD * DK * 4


def attention_with(first: int | None, stop: int | None) -> Graph:
    """Attention in which row i sees the keys from i + first to i + stop, the last one left out."""
    batch = Axis("batch", Length("batch"))
    seq, key, dk = Axis("seq", Length("seq"), batch), Axis("key", Length("seq"), batch), Axis("dk", 5)
    q = ir.input_("q", (batch, seq, dk), "real")
    k, v = (ir.input_(name, (batch, key, dk), "real") for name in "kv")
    parts = {"query": q, "key": k, "value": v}
    for role, offset in (("first", first), ("stop", stop)):
        if offset is not None:
            parts[role] = ir.apply("+", ir.index(seq), ir.const(offset))
    made = ir.kernel("attention", parts.values(), (batch, seq, dk), roles=tuple(parts), axis=key, width=dk, scale=1)
    return Graph("A", (ir.Output("y", made, made.axes),), (), (), {}, batch, frozenset({"unpad"}))


@pytest.mark.parametrize("bounds", [(None, None), (None, 1), (-2, 1), (-1, 2), (0, None)], ids=str)
def test_bounds_of_attention_leave_pairs_out(bounds: tuple[int | None, int | None]) -> None:
    each = (6, 1, 0, 4)
    first, stop = bounds

    def seen(i: int, j: int) -> bool:
        return (first is None or j >= i + first) and (stop is None or j < i + stop)

    pairs = [sum(seen(i, j) for i in range(n) for j in range(n)) for n in each]
    graph = attention_with(first, stop)
    assert cost.costs(graph, Sizes(lengths={"seq": each})).total.products == 4 * 5 * sum(pairs)
    padded = replace(graph, plan=frozenset())
    assert cost.costs(padded, Sizes(lengths={"seq": each})).total.products == 4 * 5 * 4 * pairs[0]


def test_kinds_add_up_to_the_total() -> None:
    found = cost.costs(graph_of("mlm"))
    total = found.total
    assert sum(one.flops for one in found.kinds.values()) == total.flops == cost.flops(graph_of("mlm"))
    assert sum(one.bytes for one in found.kinds.values()) == total.bytes
    assert {"contract", "attention", "gelu", "layer_norm"} <= set(found.kinds)


def test_views_cost_nothing() -> None:
    graph = graph_of("turned", until="formula")
    assert all(cost.costs(graph).nodes[one] == cost.NOTHING for one in graph.nodes() if one.op in cost.VIEWS)
    split = next(one for one in graph.nodes() if one.op == "split")
    assert not memory.Scan(cost.Pricer(graph), False).size(split)


# --- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*zoo.NAMES])
def test_parameters_are_the_weights_that_are_read(name: str) -> None:
    graph = graph_of(name, until="formula")
    assert cost.costs(graph).parameters == sum(math.prod(map(int, one.shape)) for one in graph.weights)  # type: ignore[arg-type, misc]


def test_a_tied_weight_counts_once() -> None:
    tied = cost.costs(graph_of("mlm"))  # its head stands on the table of tokens
    head = D * D + D + 2 * D + VOCAB
    assert tied.parameters == cost.costs(graph_of("bert")).parameters - (D * D + D) + head


def test_what_only_weights_go_into_is_done_at_load() -> None:
    stages = ("recognise", "fold_scales")
    before, after = (cost.costs(graph_of("bert", until=name, without=("deadness",))) for name in stages)
    assert before.prepared.flops == 0
    assert after.prepared.flops == LAYERS * (D * HEAD * DK + HEAD * DK)  # weights and bias of the query
    assert after.total.flops == before.total.flops - LAYERS * 8 * 128 * 128 * HEAD
    assert before.prepared_bytes == after.prepared_bytes == before.parameter_bytes


def test_a_layer_made_apart_reads_the_weights_of_its_stack() -> None:
    """push_picks peels the last step: W[l] and W[1] lie in one list, and are no more memory than before."""
    made = compile_graph("bert", entry="BertForSequenceClassification", settings=zoo.BERT)
    before, after = (cost.costs(one.graph) for one in made.stages if one.name in ("recognise", "push_picks"))
    assert after.total.products < before.total.products
    assert after.prepared_bytes == before.prepared_bytes == before.parameter_bytes


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.NAMES)
def test_the_peak_holds_every_value_and_its_arguments(name: str) -> None:
    """At every stage; a schedule and packing never need more."""
    made = zoo.whole(name).compiled
    for stage in made.stages:
        price = cost.Pricer(stage.graph)
        scan = memory.Scan(price, True)
        peak = memory.peak_bytes(stage.graph)
        inputs = {one for one in price.order if one.op == "input"}
        for one in price.order:
            parts = {memory.base_of(arg) for arg in one.args} & inputs
            assert peak >= scan.size(one) + sum(scan.size(part) for part in parts)
    peaks = [memory.peak_bytes(one.graph, Sizes(fill=0.3)) for one in made.stages[-3:]]
    assert peaks[0] >= peaks[1] >= peaks[2]


def chain(scheduled: bool, *functions: str) -> int:
    """The peak of functions one after the other over 10 numbers."""
    one: Node = ir.input_("x", (Axis("a", 10),), "real")
    for fn in functions:
        one = ir.apply(fn, one)
    plan = frozenset({"schedule"} if scheduled else ())
    return memory.peak_bytes(Graph("C", (ir.Output("y", one, one.axes),), (), (), {}, None, plan))


def test_a_value_lives_to_its_last_reader() -> None:
    assert chain(False, "exp") == 2 * 40
    assert chain(False, "exp", "tanh", "sin", "cos") == 2 * 40
    assert chain(True, "exp", "tanh", "sin", "cos") == 2 * 40  # the caller's input is not written over
    x = ir.input_("x", (Axis("a", 10),), "real")
    late = ir.apply("+", ir.apply("sin", ir.apply("exp", ir.apply("tanh", x))), ir.apply("cos", x))
    assert memory.peak_bytes(Graph("C", (ir.Output("y", late, late.axes),), (), (), {})) == 3 * 40


def test_a_schedule_writes_over_dead_arguments() -> None:
    before, after = (memory.peak_bytes(graph_of("bert", until=name)) for name in ("unpad", "schedule"))
    assert after < before


def test_a_loop_keeps_one_state_or_all_that_are_read_later() -> None:
    text = zoo.ZOO["history"]
    last = text.replace(" + x[layers - 1] + x[0], first[d] = x[1][seq = 0]", "").replace(" + x[l // 2]", "")
    peaks = {
        (kept, layers): memory.peak_bytes(compile_graph(text if kept else last, settings={"layers": layers}).graph)
        for kept in (True, False)
        for layers in (4, 9)
    }
    state = 8 * 128 * D * 4
    assert peaks[False, 9] == peaks[False, 4]
    assert peaks[True, 9] - peaks[True, 4] == 5 * state


def test_attention_holds_no_scores() -> None:
    def peak(length: int, until: str) -> int:
        return memory.peak_bytes(graph_of("bert", until=until), Sizes(2, length))

    assert peak(4096, "simplify") > 2 * HEAD * 4096 * 4096 * 4
    assert peak(4096, "schedule") == pytest.approx(4 * peak(1024, "schedule"), rel=0.01)


# --- did the passes do it? -----------------------------------------------------------------------------------


def products_of(graph: Graph) -> list[Node]:
    static = cost.Pricer(graph).static
    return [one for one in graph.nodes() if one.op == "contract" and one not in static]


def test_merged_projections_are_one_product_of_the_same_cost() -> None:
    before, after = graph_of("bert", without=("merge_projections",)), graph_of("bert")
    assert len(products_of(before)) == 7  # Q, K, V, O, two of the feed-forward part, the pooler
    assert len(products_of(after)) == 5
    assert cost.costs(before).total.products == cost.costs(after).total.products
    assert cost.costs(after).total.read == cost.costs(before).total.read - LAYERS * 2 * 8 * 128 * D * 4


def test_rows_of_values() -> None:
    graph = graph_of("bert")
    sizes = Sizes(lengths={"seq": (7, 3, 1)})
    attention = named(graph, "attention")
    (pooled,) = [one for one in graph.nodes() if one.op == "map" and one["fn"] == "tanh"]
    assert cost.rows_of(attention, sizes) == 21
    assert cost.rows_of(attention, sizes, packed=True) == 11
    assert cost.rows_of(pooled, sizes) == 3
    assert cost.rows_of(ir.const(1)) == 1
    assert cost.rows(graph, sizes) == LAYERS * 4 * 11 + 3  # QKV, O and two of the feed-forward part; the pooler
    assert cost.rows(graph_of("bert", without=("unpad",)), sizes) == LAYERS * 4 * 21 + 3


def test_folded_scales_multiply_no_scores() -> None:
    """One multiplication for each score goes; those of the weights come at load."""
    graphs = {left: graph_of("bert", without=left) for left in ((), ("fold_scales",))}
    scores = LAYERS * 8 * 128 * 128 * HEAD
    assert cost.flops(graphs[("fold_scales",)]) - cost.flops(graphs[()]) == scores


def test_fused_sums_move_fewer_bytes_for_the_same_operations() -> None:
    before, after = (cost.costs(graph_of("bert", without=left)).total for left in (("fuse",), ()))
    assert after.flops == before.flops
    assert after.bytes < before.bytes


def test_what_trains_alone_costs_nothing_after_inference() -> None:
    before, after = (graph_of("bert", until=name) for name in ("formula", "inference"))
    draws = Counter(one.op for one in before.nodes())["random"]
    assert draws == 4
    assert cost.flops(before) > cost.flops(after)


def test_entries_do_not_depend_on_the_order_of_axes() -> None:
    batch = Axis("batch", Length("batch"))
    seq, key = Axis("seq", Length("seq"), batch), Axis("key", Length("seq"), batch)
    sizes = Sizes(lengths={"seq": (2, 5)})
    assert sizes.entries((key, batch, seq), True) == sizes.entries((batch, seq, key), True) == 4 + 25
    assert sizes.entries((seq,), True) == 5  # without its owner: the longest
