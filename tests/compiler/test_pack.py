"""pack: an objective's work on tokens runs on rows of tokens, forwards and backwards; counted in rows, and refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.specs.configs import TINY
from transformula.compiler import cost, ir, pipeline, reference, training
from transformula.compiler.differentiation import GRADIENT, differentiate
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import Axis, Graph, Length, Node, Output
from transformula.compiler.ledger import Ledger
from transformula.compiler.passes import pack
from transformula.compiler.passes.parameters import has_weight, is_parameter
from transformula.compiler.sizes import Sizes

DECODER = {"vocab_size": 31, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 32}
LLAMA = {**TINY, "num_key_value_heads": 1, "head_dim": 4}
SEQ2SEQ = {"vocab_size": 31, "d_model": 16, "d_kv": 4, "d_ff": 12, "num_layers": 3, "num_heads": 4}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "mlm", TINY),
    "gpt2": ("gpt2", "causal_lm", DECODER),
    "llama": ("llama", "causal_lm", LLAMA),
    "deberta": ("deberta", "mlm", {**TINY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "t5": ("t5", "seq2seq", SEQ2SEQ),
    "siamese": ("sbert", "regression", TINY),
    "ranking": ("sbert", "ranking", TINY),
    "joint": ("electra", "joint", {**TINY, "num_attention_heads": 4}),
}


@cache
def compiled(name: str) -> Compiled:
    """The objective, with its gradients."""
    spec, entry, config = CASES[name]
    made = compile_graph(spec, {**config, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}, entry)
    return replace(made, gradients=training.compile_gradients(made))


def stage(made: Compiled, name: str) -> Graph:
    return next(one.graph for one in made.stages if one.name == name)


def products(graph: Graph) -> list[Node]:
    """The products of values and weights."""
    found = (one for one in graph.nodes() if one.op in ("contract", "total"))
    return [one for one in found if any(map(_of_weights, one.args)) and not is_parameter(one)]


def _of_weights(one: Node) -> bool:
    return is_parameter(one) and has_weight(one)


def on_padding(nodes: list[Node]) -> list[Node]:
    """Those that have an entry for each place of a padded batch."""
    return [one for one in nodes if any(axis.counted for axis in (*one.axes, *one["over"]))]


@pytest.mark.parametrize("name", CASES)
def test_weights_multiply_rows_of_tokens_and_nothing_else(name: str) -> None:
    """Of the forward; of the backward, where the adjoints of values are products with weights, too."""
    made = compiled(name)
    assert on_padding(products(stage(made, "chunk")))
    packed = stage(made, "pack")
    assert len(products(packed)) == len(products(stage(made, "chunk")))
    assert not on_padding(products(packed))
    assert made.gradients is not None
    assert not on_padding(products(made.gradients[0].graph))


@pytest.mark.parametrize("name", CASES)
def test_the_gradients_of_weights_are_sums_over_rows(name: str) -> None:
    """No gradient of a matrix is a sum of products over a padded batch."""
    (done,) = compiled(name).gradients or ()
    matrices = {w.name for w in done.graph.weights if w.outs is not None and len(w.axes) - len(w.stack) > 1}
    made = [out.node for out in done.graph.outputs if out.name.removeprefix(GRADIENT) in matrices]
    sums = [one for one in ir.walk_all(made) if one.op in ("contract", "total") and any(map(_is_row, one["over"]))]
    assert sums
    assert not [one for one in sums if any(str(axis.size) in ("seq", "tgt") for axis in one["over"])]


def _is_row(axis: Axis) -> bool:
    return axis.ragged and axis.owner is None


def test_rows_are_those_of_real_tokens() -> None:
    """Of a batch half of which is padding half goes through weights, forwards; backwards, twice as much."""
    sizes = Sizes(4, 32, 0.5)
    made = compiled("gpt2")
    real = sum(sizes.each(Length("seq")))
    assert 0.45 < real / (4 * 32) < 0.55
    padded, packed = (cost.rows(stage(made, name), sizes) for name in ("chunk", "pack"))
    (done,) = made.gradients or ()
    chosen = round(sizes.chosen * real)  # rows with a label: the last layer behind its attention, and the head
    per_token = 2 * 4 + 1  # query, key and value are one product
    assert packed == per_token * real + 3 * chosen
    assert padded == per_token * 4 * 32 + 3 * chosen
    again = [cost.costs(stage(done, name), sizes).total.products for name in ("chunk", "pack")]
    assert again[1] < 0.7 * again[0]


@pytest.mark.parametrize("name", ["mlm", "siamese", pytest.param("t5", marks=pytest.mark.slow)])
def test_the_states_of_layers_are_rows(name: str) -> None:
    """A loop over layers carries one row for each token, forwards and backwards."""
    (done,) = compiled(name).gradients or ()
    for graph in (stage(compiled(name), "pack"), done.graph):
        loops = [one for one in graph.nodes() if one.op == "loop"]
        carried = [one for one in graph.nodes() if one.op == "carry" and "d" in map(str, one.axes)]
        assert loops
        assert carried
        assert not [one for one in carried if any(axis.counted for axis in one.axes)]


def test_each_length_has_rows_of_its_own() -> None:
    """The texts of an encoder and of its decoder; those of all sides of siamese towers together."""
    for name, wanted in (("t5", ["tokens of seq", "tokens of tgt"]), ("ranking", ["tokens of seq"])):
        rows = {str(one["into"].size) for one in stage(compiled(name), "pack").nodes() if one.get("hidden")}
        assert sorted(rows) == wanted
        lines = [one for one in compiled(name).ledger.lines if one.pass_name == "pack"]
        assert [one.fired for one in lines] == [True] * len(wanted)


# ------------------------------------------------------------------------------------------- what is left as it is


def test_the_graph_of_a_model_stays() -> None:
    """Its module packs while it is written."""
    made = compile_graph("bert", TINY)
    assert stage(made, "pack") is stage(made, "chunk")


def test_without_it_the_batch_is_padded() -> None:
    """Backwards, too."""
    made = compile_graph("bert", TINY, "mlm", without=("pack",))
    assert on_padding(products(made.graph))
    (done,) = training.compile_gradients(made)
    assert "pack" not in {one.name for one in done.stages}
    assert on_padding(products(done.graph))


BATCH = Axis("batch", Length("batch"))
SEQ, TO = Axis("seq", Length("seq"), BATCH), Axis("to", Length("seq"), BATCH)
D = Axis("d", 4)
X = ir.input_("x", (BATCH, SEQ, D), "real")
W = ir.weight("W", (D, Axis("e", 3)))
E = W.axes[1]


def graph(node: Node, *inputs: ir.Input) -> Graph:
    given = inputs or (ir.Input("x", "x", X.axes, "real", True),)
    used = (one for one in ir.walk_all([node]) if one.op == "weight")
    weights = tuple(ir.Weight(one["name"], one.axes, (), (), None, "0") for one in used)
    loss = ir.reduce("sum", node, node.axes)
    return Graph("g", (Output("loss", loss, ()),), given, weights, {}, selects=True)


def packed(node: Node) -> tuple[Graph, Ledger]:
    ledger = Ledger()
    return pack.run(graph(node), ledger), ledger


def test_what_no_weight_multiplies_is_not_moved() -> None:
    made, ledger = packed(ir.apply("exp", X))
    assert made.roots == graph(ir.apply("exp", X)).roots
    (line,) = ledger.lines
    assert (line.fired, line.reason) == (False, "no product with weights is made token by token")


def test_a_product_of_two_lengths_has_no_rows() -> None:
    """Scores have two lengths of one example; what they are made of has rows."""
    y = ir.contract(X, W, (D,))
    scores = ir.contract(y, ir.rename(y, {SEQ: TO}), (E,))
    made, _ = packed(ir.apply("exp", scores))
    (found,) = [one for one in made.nodes() if one.op == "contract" and TO in one.axes]
    assert set(found.axes) == {BATCH, SEQ, TO}
    assert [arg.op for arg in found.args] == ["scatter", "scatter"]
    (product,) = [one for one in made.nodes() if one.op == "contract" and one is not found]
    assert [str(axis) for axis in product.axes] == ["token", "e"]


def test_whole_numbers_and_truth_values_are_not_put_back() -> None:
    """A test of a product is made again of its rows, or of the product put back: rows hold real numbers."""
    y = ir.contract(X, W, (D,))
    made, _ = packed(ir.where(ir.apply("<", ir.const(0), y), ir.reduce("sum", y, (SEQ,)), ir.const(0)))
    put_back = [one.args[0] for one in made.nodes() if one.op == "scatter"]
    assert put_back
    assert all(one.kind not in ("int", "bool") for one in put_back)


@pytest.mark.parametrize("steps", ["all", "each"])
def test_a_loop_carries_rows_where_all_examples_make_all_steps(steps: str) -> None:
    """A loop over the length stops for each example at its own end: its state keeps the batch."""
    square = ir.weight("R", (D, Axis("d", 4, tag=1)))
    carry = ir.carry(1, 0, X)
    step = ir.rename(ir.contract(carry, square, (D,)), {square.axes[1]: D})
    count = ir.const(3) if steps == "all" else ir.size(SEQ)
    made = ir.state(ir.loop(1, Axis("step", 3), 0, count, [X], [step]), 0)
    found, _ = packed(made)
    (state,) = [one for one in found.nodes() if one.op == "carry"]
    assert (BATCH in state.axes) == (steps == "each")


def test_a_draw_is_made_once() -> None:
    """Dropout before a product and before a sum over the length: one draw, of rows, and never two."""
    x = ir.draw("dropout", (X, ir.const(0.5)), X.axes, "real", "here", steps=())
    y = ir.apply("+", ir.contract(x, W, (D,)), ir.reduce("sum", x, (SEQ, D)))
    made, _ = packed(y)
    assert len([one for one in made.nodes() if one.op == "random"]) == 1


def test_a_table_along_the_length_is_picked_from_whole() -> None:
    """f(seq)[seq = n] for numbers n of each token: the rows are those of n, and not of the table."""
    table = ir.apply("*", ir.index(SEQ), ir.weight("w", (D,)))
    number = ir.input_("n", (BATCH, SEQ), "int")
    node = ir.contract(ir.pick(table, {SEQ: number}), W, (D,))
    whole = graph(node, ir.Input("n", "n", number.axes, "int", True))
    made = pack.run(whole, Ledger())
    (found,) = [one for one in made.nodes() if one.op == "pick" and SEQ in one["keys"] and one.args[0] is table]
    assert [str(axis) for axis in found.args[1].axes] == ["token"]
    weights = {"w": np.arange(1.0, 5.0), "W": np.arange(12.0).reshape(4, 3)}
    given = {"n": np.array([[2, 0, 1], [0, 0, 0]]), "attention_mask": np.array([[1, 1, 1], [1, 0, 0]])}
    for name, value in reference.run(whole, weights, given).items():
        np.testing.assert_allclose(reference.run(made, weights, given)[name], value)


# ------------------------------------------------------------------------------------------------------------ values


def batch(name: str, left: bool, width: int) -> dict[str, Any]:
    """Four texts of 6, 1, 4 and no tokens, one with a hole, at the left or right of a batch this wide."""
    draw = np.random.default_rng(0)
    ids, mask = np.full((4, width), 30), np.zeros((4, width), int)
    labels = np.full((4, width), -100)
    for row, count in enumerate((6, 1, 4, 0)):
        at = slice(width - count, width) if left else slice(0, count)
        text = draw.integers(1, 30, count)
        ids[row, at], mask[row, at] = text, 1
        labels[row, at] = np.where(np.arange(count) % 2 == 0, text, -100)
        if count == 4:
            mask[row, at.start + 1] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@pytest.mark.parametrize("name", ["mlm", "llama", "deberta"])
def test_nothing_of_the_loss_or_of_a_gradient_changes(name: str) -> None:
    """With and without rows, and wherever the padding is: by the evaluator."""
    made = compiled(name)
    (done,) = made.gradients or ()
    draw = np.random.default_rng(1)
    weights = {one.name: draw.normal(size=[int(str(size)) for size in one.shape]) * 0.3 for one in done.graph.weights}
    padded = replace(made, gradients=None)
    whole = training.totalled(padded.formula)
    stages, _ = pipeline.run(whole, only=tuple(one for one in training.PASSES if one != "pack"))
    wanted = reference.run(differentiate(stages[-1].graph), weights, batch(name, False, 6))
    for left, width in ((False, 6), (True, 6), (True, 9)):
        found = reference.run(done.graph, weights, batch(name, left, width))
        assert set(found) == set(wanted)
        for key, value in wanted.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12, err_msg=key)
