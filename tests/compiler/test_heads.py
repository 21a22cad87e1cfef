"""Models of an instance, objectives of a model, results on demand: compiler/heads.py and compiler/showing.py."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from transformula import TransformulaError
from transformula.compiler import reference
from transformula.compiler.driver import check, check_session, compile_graph
from transformula.compiler.listing import listing

Array = NDArray[Any]
BASE = """spec base
config
    d = 3
    layers = 2
    inner = 2

block Layer(x[d]) → [d] = tanh(z)
    where z = x @ W
    weights W : [d → d]

model Net(x[seq, d] as inputs, shift[seq] = 0) → y[seq, d] = h[layers], first[d] = h[layers][seq = 0]
    where
        h[0] = x + shift
        for l in layers:
            u = layer[l](h[l])
            h[l + 1] = u
    uses layer[layers] : Layer
    shows states[seq, d] = h
          steps[seq, d]  = u.z
          both[seq, d]   = [x; u; h]

uses net : Net
"""
HEADS = """
model Sum of net → total[d] = sum[seq](y)
model Twice of net(scale) → z[seq, d] = scale * y, first[d] = first
objective square of Sum(wanted[batch, d]) → loss = mean[batch, d]((total - wanted)²)
"""


def run(text: str, entry: str, inputs: Mapping[str, Any], shows: tuple[str, ...] = ()) -> dict[str, Array]:
    graph = compile_graph(text, entry=entry, until="formula", shows=shows).formula
    draw = np.random.default_rng(1)
    known = sorted(graph.weights, key=lambda one: one.name)
    weights = {one.name: draw.standard_normal([int(str(size)) for size in one.shape]) for one in known}
    return reference.run(graph, weights, inputs)


X = np.random.default_rng(0).standard_normal((2, 4, 3))


def test_a_head_has_the_inputs_and_results() -> None:
    graph = compile_graph(BASE + HEADS, entry="Sum", until="formula").formula
    assert [(one.name, one.required) for one in graph.inputs] == [("inputs", True), ("shift", False)]
    whole, found = run(BASE + HEADS, "Net", {"inputs": X}), run(BASE + HEADS, "Sum", {"inputs": X})
    assert set(found) == {"total"}
    np.testing.assert_allclose(found["total"], whole["y"].sum(axis=1), atol=1e-14)


def test_its_own_inputs_stand_behind_those_that_must_be_given() -> None:
    graph = compile_graph(BASE + HEADS, entry="Twice", until="formula").formula
    assert [one.name for one in graph.inputs] == ["inputs", "scale", "shift"]
    whole = run(BASE + HEADS, "Net", {"inputs": X, "shift": np.ones((2, 4))})
    found = run(BASE + HEADS, "Twice", {"inputs": X, "scale": np.array([2.0, -1.0]), "shift": np.ones((2, 4))})
    np.testing.assert_allclose(found["z"], whole["y"] * [[[2.0]], [[-1.0]]], atol=1e-14)
    np.testing.assert_allclose(found["first"], whole["first"], atol=0)


def test_an_objective_of_a_model_is_that_of_its_results() -> None:
    """Compiled alone it begins with the model's inputs; beside the model, with its results."""
    wanted = np.ones((2, 3))
    whole = run(BASE + HEADS, "square", {"inputs": X, "wanted": wanted})["loss"]
    made = compile_graph(BASE + HEADS, entry="Sum", until="formula")
    (loss,) = made.losses
    assert [one.name for one in loss.formula.inputs] == ["total", "wanted"]
    total = run(BASE + HEADS, "Sum", {"inputs": X})["total"]
    apart = reference.run(loss.formula, {}, {"total": total, "wanted": wanted})["loss"]
    np.testing.assert_allclose(apart, whole, atol=1e-14)
    assert compile_graph(BASE + HEADS, entry="Net", until="formula").losses == ()


def test_one_loop_for_all_results() -> None:
    """However many results a head reads, what it stands on is computed once."""
    text = BASE + "model All of net → a[seq, d] = y + y, b[d] = first, c[d] = first + sum[seq](y)\n"
    graph = compile_graph(text, entry="All", until="formula").formula
    assert sum(one.op == "loop" for one in graph.nodes()) == 1


def test_states_and_steps() -> None:
    found = run(BASE + HEADS, "Net", {"inputs": X}, ("states", "steps", "both"))
    assert found["states"].shape == (2, 3, 4, 3)
    np.testing.assert_allclose(found["states"][:, 0], X, atol=0)
    np.testing.assert_allclose(found["states"][:, -1], found["y"], atol=0)
    np.testing.assert_allclose(np.tanh(found["steps"]), found["states"][:, 1:], atol=1e-14)
    parts = [X[:, None], found["states"][:, 1:], found["states"]]
    np.testing.assert_allclose(found["both"], np.concatenate(parts, axis=1), atol=0)


def test_a_call_inside_shows() -> None:
    """What a part of a model shows, under a name of the model's own; the other part computes nothing for it."""
    text = BASE + """
model Both(x[seq, d] as inputs) → z[seq, d] = second, y[seq, d] = first
    where first  = one(x)
          second = two(first)
    uses one, two : Net
    shows first_states[seq, d] = first.states
          last_steps[seq, d]   = second.steps
"""
    given = {"inputs": np.ones((1, 2, 3))}
    both = run(text, "Both", given, ("first_states", "last_steps"))
    assert both["first_states"].shape == (1, 3, 2, 3)
    np.testing.assert_array_equal(both["first_states"][:, 0], given["inputs"])
    np.testing.assert_array_equal(both["first_states"][:, -1], both["y"])
    np.testing.assert_allclose(np.tanh(both["last_steps"][:, -1]), both["z"], rtol=0, atol=1e-15)
    assert set(run(text, "Both", given)) == {"z", "y"}


def test_a_head_shows_what_it_stands_on() -> None:
    whole = run(BASE + HEADS, "Net", {"inputs": X}, ("steps",))
    found = run(BASE + HEADS, "Sum", {"inputs": X}, ("steps",))
    np.testing.assert_allclose(found["steps"], whole["steps"], atol=0)
    assert set(found) == {"total", "steps"}


def test_what_is_only_shown_is_used() -> None:
    text = BASE.replace("        for l in layers:\n", "        for l in layers:\n            before = h[l]\n")
    with pytest.raises(TransformulaError, match="`before` is defined and never used"):
        check(text)
    text = text.replace("[x; u; h]", "[before; h[layers]]")
    check(text)
    found = run(text, "Net", {"inputs": X}, ("both", "states"))
    np.testing.assert_allclose(found["both"], found["states"], atol=0)


def test_nobody_pays_for_what_is_not_asked_for() -> None:
    plain = compile_graph(BASE, until="formula").formula
    shown = compile_graph(BASE, until="formula", shows=["steps"]).formula
    assert not any(one.op == "history" for one in plain.nodes())
    assert sum(one.op == "history" for one in shown.nodes()) == 1
    (loop,) = (one for one in shown.nodes() if one.op == "loop")
    assert loop["slots"] == 2


NESTED = """spec nested
config
    d = 3
    layers = 2
    inner = 3

block Layer(x[d]) → [d] = tanh(x @ W)
    weights W : [d → d]

model Net(x[seq, d] as inputs) → y[seq, d] = h[layers]
    where
        h[0] = x
        for l in layers:
            g[0] = h[l]
            for k in inner:
                u = layer[l, k](g[k])
                g[k + 1] = u
            h[l + 1] = g[inner]
    uses layer[layers, inner] : Layer
    shows steps[seq, d] = u
          flat[seq, d]  = [x; u]
"""


def test_steps_of_nested_loops() -> None:
    found = run(NESTED, "Net", {"inputs": X}, ("steps", "flat"))
    assert found["steps"].shape == (2, 2, 3, 4, 3)
    np.testing.assert_allclose(found["steps"][:, -1, -1], found["y"], atol=0)
    flat = found["steps"].reshape(2, 6, 4, 3)
    np.testing.assert_allclose(found["flat"], np.concatenate([X[:, None], flat], axis=1), atol=0)
    for step in range(5):
        assert np.abs(flat[:, step] - flat[:, step + 1]).max() > 1e-3


TINY = {"vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}


def test_heads_follow_a_change() -> None:
    """What changes in the model underneath changes every head, and nothing has to be said about them."""
    ids = {"input_ids": [[1, 2, 3]]}

    def logits(text: str) -> Array:
        graph = compile_graph(text, TINY, "BertForMaskedLM", until="formula").formula
        draw = np.random.default_rng(1)
        known = sorted(graph.weights, key=lambda one: one.name)
        weights = {one.name: draw.standard_normal([int(str(size)) for size in one.shape]) for one in known}
        return reference.run(graph, weights, ids)["logits"]

    base = "spec mine extends bert\n"
    same = logits(base)
    np.testing.assert_allclose(logits(base + "change Layer\n    where z = LN_1(dropout(a, p) + x)\n"), same, atol=1e-12)
    other = logits(base + "change Layer\n    where z = LN_1(x - dropout(a, p))\n")
    assert np.abs(other - same).max() > 1e-3


def test_what_stands_on_a_model_that_is_made_anew_stays() -> None:
    """A name that is removed and defined again is there, behind what stands on it."""
    text = "spec mine extends bert\nremove BertForTokenClassification\n"
    again = "model BertForTokenClassification of bert → logits[seq, label] = classifier(2 * last_hidden_state)\n"
    check(text + again)
    graph = compile_graph(text + again, TINY, "tagging", until="formula").formula
    assert [one.name for one in graph.inputs] == ["input_ids", "labels", "token_type_ids", "inputs_embeds"]
    (loss,) = compile_graph(text + again, TINY, "BertForTokenClassification", until="formula").losses
    assert loss.entry == "tagging"


def test_an_objective_of_a_model_with_weights_is_a_function_of_its_results_and_of_its_inputs() -> None:
    """Beside the model it begins with the results, by itself with the inputs."""
    text = BASE + "objective far of Net(goal[batch, d]) → loss = mean[batch, d]((first - goal)²)\n"
    check(text)
    graph = compile_graph(text, entry="far", until="formula").formula
    assert [one.name for one in graph.inputs] == ["inputs", "shift", "goal"]
    (loss,) = compile_graph(text, entry="Net", until="formula").losses
    assert loss.entry == "far"
    assert [one.name for one in loss.formula.inputs] == ["first", "goal"]


def test_a_changed_model_has_other_inputs_in_all_heads() -> None:
    text = "spec mine extends bert\nchange Bert(words[seq, d] as vectors = embed.E[vocab = tokens])\n"
    for entry in ("Bert", "BertForMaskedLM", "BertForQuestionAnswering"):
        names = [one.name for one in compile_graph(text, entry=entry, until="formula").formula.inputs]
        assert names == ["input_ids", "token_type_ids", "vectors"]


def test_what_stands_on_a_removed_model_goes() -> None:
    text = "spec mine extends bert\nremove BertForMaskedLM, BertLMHeadModel, lm_head, BertForPreTraining, MaskedHead\n"
    check(text)
    with pytest.raises(TransformulaError, match="no model or objective `mlm`"):
        compile_graph(text, entry="mlm")


def test_so_it_does_where_a_spec_between_removes_it() -> None:
    """deberta takes over deberta_v2, which removes the language model of bert."""
    check("spec mine extends deberta\n")
    with pytest.raises(TransformulaError, match="no model or objective `causal_lm`"):
        compile_graph("deberta", entry="causal_lm")


SOME = """spec some
config
    d      = 3
    layers = 2
    more   = false as more

block Layer(x[d]) → [d] = tanh(x @ W)
    weights W : [d → d]

block Look(x[seq, d], m[src, d]) → [seq, d] = see @[src] m
    where see = x @[d] m

model Net(x[seq, d] as inputs, memory[src, d] as encoder_states = none) → y[seq, d] = h[layers]
    where
        h[0] = x
        for l in layers:
            u = layer[l](h[l])
            v = look(u, memory) if more else 0
            h[l + 1] = u + v if more else u
    uses layer[layers] : Layer
         look : Look
    shows steps[seq, d] = u
          looks[seq, src] = v.see if more else none

uses net : Net
model Sum of net → total[d] = sum[seq](y)
"""


def test_an_input_that_only_some_configs_read() -> None:
    """It is needed where it is read, and unknown elsewhere; its length has a mask of its own."""
    check(SOME)
    weights = {"layer[layers].W": np.ones((2, 3, 3)) / 3}
    for entry in ("Net", "Sum"):
        plain, more = (compile_graph(SOME, {"more": one}, entry, until="formula").formula for one in (False, True))
        assert [one.name for one in plain.inputs] == ["inputs"]
        assert [(one.name, one.required) for one in more.inputs] == [("inputs", True), ("encoder_states", True)]
        assert reference.allowed_inputs(more)[2:] == ["attention_mask", "encoder_attention_mask"]
    graph = compile_graph(SOME, {"more": True}, until="formula").formula
    memory = np.arange(12.0).reshape(1, 4, 3)
    given = {"inputs": X[:1], "encoder_states": memory, "encoder_attention_mask": [[1, 1, 0, 0]]}
    found = reference.run(graph, weights, given)["y"]
    short = {"inputs": X[:1], "encoder_states": memory[:, :2]}
    np.testing.assert_allclose(found, reference.run(graph, weights, short)["y"], atol=1e-12)
    with pytest.raises(TransformulaError, match="needs the input `encoder_states`"):
        reference.run(graph, weights, {"inputs": X[:1]})


def test_an_input_that_a_call_leaves_out() -> None:
    text = SOME + "model Twice(x[seq, d] as inputs) → y[seq, d] = net(net(x).y).y\n"
    compile_graph(text, entry="Twice", until="formula")
    with pytest.raises(TransformulaError, match=r"`memory` is none(.|\n)*give it in the call"):
        compile_graph(text.replace("look(u, memory)", "look(u, memory[src, d])"), {"more": True}, "Twice")


def test_a_result_on_demand_that_only_some_configs_have() -> None:
    for entry in ("Net", "Sum"):
        with pytest.raises(TransformulaError, match=r"no result on demand `looks`(.|\n)*It shows steps"):
            compile_graph(SOME, entry=entry, shows=["looks"])
        graph = compile_graph(SOME, {"more": True}, entry, shows=["looks", "steps"], until="formula").formula
        assert [out.name for out in graph.outputs][1:] == ["steps", "looks"]


WRONG = {
    "no instance": ("model M of nett → z[d] = first\n", "N232", "cannot stand on `nett`"),
    "a model itself": ("model M of Net → z[d] = first\n", "N232", "declared at the top of the file"),
    "a block": ("uses part : Layer\nmodel M of part → z[d] = first\n", "N232", "cannot stand on `part`"),
    "an objective of an instance": ("objective o of net(w[batch]) → loss = mean[batch](w)\n", "N232", "`of` a model"),
    "an unknown result": (
        "model M of net → z[d] = last\n",
        "N201",
        "unknown name `last`",
    ),
    "no part": (
        "model M(x[seq, d] as inputs) → z[seq, d] = x\n    shows s[seq, d] = nothing\n",
        "N201",
        "unknown name `nothing`",
    ),
    "other axes": (
        "model M(x[seq, d] as inputs) → z[seq, d] = g[2]\n    where\n        g[0] = x\n        for t in 2:\n"
        "            g[t + 1] = 2 * g[t]\n    shows s[d] = g\n",
        "A106",
        "the result has axes [seq, d], but [d] is declared",
    ),
    "a length": (
        "model M(x[seq] as inputs) → z = g[seq]\n    where\n        g[0] = 0\n        for t in seq:\n"
        "            g[t + 1] = g[t] + x[seq = t]\n    shows s[] = g\n",
        "I803",
        "as many values as the text is long",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told(name: str) -> None:
    text, code, told = WRONG[name]
    with pytest.raises(TransformulaError) as caught:
        check(BASE + text)
    found = {one.code: f"{one.message} {one.because} {one.help}" for one in caught.value.diagnostics}
    assert code in found, found
    assert told in found[code]


def test_an_unknown_result_on_demand_is_told() -> None:
    with pytest.raises(TransformulaError, match=r"C629.*step.*\n.*steps"):
        compile_graph(BASE, shows=["step"])


def test_the_listing_shows_what_is_written() -> None:
    """Equations that a head takes over are not listed at its line."""
    session = check_session(BASE + HEADS, trace=True)
    (row,) = (row for row in listing(session) if row.text.startswith("model Sum"))
    assert [shape.name for shape in row.shapes] == ["total"]
