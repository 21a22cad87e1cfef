"""deadness: what no result feels goes, and each side condition keeps what it must keep."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.compiler import zoo
from transformula.compiler import ir, kernels, masks
from transformula.compiler.ir import Axis, Graph, Node
from transformula.compiler.passes.homogeneous import degree

D, B, C = Axis("d", 4), Axis("b", 3), Axis("c", 3)


def told(text: str) -> list[tuple[str, str]]:
    """(rule, reason or '') of each line of the pass."""
    return [(one.rule, one.reason) for one in zoo.whole(text).ledger.lines if one.pass_name == "deadness"]


def after(text: str) -> Graph:
    """The graph after the pass, once module and formula are found to agree."""
    made = zoo.whole(text)
    given = zoo.inputs("cls")
    difference = zoo.difference(zoo.model(made)(**given), zoo.reference_results(made.compiled.formula, given))
    assert difference < 1e-12
    return next(stage.graph for stage in made.compiled.stages if stage.name == "deadness")


def weights_read(graph: Graph) -> set[str]:
    return {one["name"].split(".")[-1] for one in graph.nodes() if one.op == "weight"}


def attention(graph: Graph) -> list[Node]:
    return [one for one in graph.nodes() if one.op == "kernel" and one["name"] == "attention"]


# --- keys and values -----------------------------------------------------------------------------------------

SPEC = zoo.encoder("h[seq, d] = x[layers]", "attention[key](Q, K, V)")


def test_the_bias_of_keys_is_dead() -> None:
    graph = after(SPEC)
    assert "b_K" not in weights_read(graph)
    assert ("key_bias", "") in told(SPEC)
    assert "b_K" in [name.split(".")[-1] for name in (one.name for one in graph.weights)]  # the checkpoint has it


def test_the_bias_of_values_goes_into_the_next_bias() -> None:
    graph = after(SPEC)
    assert {("value_bias", ""), ("moved_bias", "")} <= set(told(SPEC))
    for one in attention(graph):
        value = ir.walk([kernels.parts(one)["value"]])
        assert not [part for part in value if part.op == "weight" and "b_V" in part["name"]]
    assert "b_V" in weights_read(graph)


def test_a_query_that_may_see_nothing_keeps_the_bias_of_values() -> None:
    text = zoo.encoder("h[seq, d] = x[layers]", "attention[key if index(key) > index(seq)](Q, K, V)")
    assert [reason for rule, reason in told(text) if rule == "value_bias"] == [masks.NO_KEY_OF_ALL]
    assert ("key_bias", "") in told(text)
    after(text)


def test_a_causal_query_sees_itself() -> None:
    text = zoo.encoder("h[seq, d] = x[layers]", "attention[key if causal](Q, K, V)", "causal")
    assert ("value_bias", "") in told(text)
    after(text)


def test_a_text_that_may_be_empty_keeps_the_bias_of_values() -> None:
    """Of the keys of another text there may be none; of its own there is one where there is a query."""
    found = [(one.what, one.reason) for one in zoo.whole("bart").ledger.lines if one.rule == "value_bias"]
    assert sorted(reason for _, reason in found) == ["", masks.OF_ANOTHER]
    graph = next(stage.graph for stage in zoo.whole("bart").compiled.stages if stage.name == "deadness")
    values = [ir.walk([kernels.parts(one)["value"]]) for one in attention(graph)]
    kept = {part["name"] for one in values for part in one if part.op == "weight" and "b_V" in part["name"]}
    assert {name for name in kept if "layer[steps]" in name} == {"bart.decoder.layer[steps].cross.b_V"}


def test_dropped_weights_keep_the_bias_of_values() -> None:
    made = zoo.program("cls", without=("inference",), until="deadness")
    lines = [(one.rule, one.reason) for one in made.ledger.lines if one.pass_name == "deadness"]
    assert ("value_bias", "weights are dropped, so they do not sum to 1") in lines


def test_keys_that_are_read_elsewhere_keep_their_bias() -> None:
    text = SPEC.replace("heads = attention[key](Q, K, V)", "heads = attention[key](Q, K, V) + mean[key](K)")
    assert [reason for rule, reason in told(text) if rule == "key_bias"] == ["the keys are read elsewhere, too"]
    after(text)


def test_a_bias_that_differs_from_key_to_key_stays() -> None:
    text = zoo.encoder("h[seq, d] = x[layers]", "attention[key](Q, K, V)").replace(
        "K = (x @ W_K + b_K)[seq → key]", "K = (x @ W_K)[seq → key] + b_K[kind = index(key) % 2]"
    ).replace("b_Q, b_K, b_V : [head, dk]", "b_Q, b_V : [head, dk]\n            b_K : [kind, head, dk]").replace(
        "axes ffn = 5", "axes ffn = 5\naxes kind = 2"
    )  # fmt: skip
    assert not [rule for rule, _ in told(text) if rule == "key_bias"]
    after(text)


# --- argmax --------------------------------------------------------------------------------------------------

ARGMAX = {
    "argmax[d](softmax[d](x))": True,
    "argmax[d](log_softmax[d](x))": True,
    "argmax[d](exp(x) + 3)": True,
    "argmax[d](tanh(x))": True,
    "argmax[d](softmax[seq](x))": False,
    "argmax[d](softmax[d if index(d) > 2](x))": False,
    "argmax[d](-x)": False,
    "argmax[d](x²)": False,
}


@pytest.mark.parametrize("formula", ARGMAX)
def test_argmax(formula: str) -> None:
    used = "log_softmax" if "log_" in formula else "softmax" if "softmax" in formula else ""
    text = zoo.spec(used, zoo.IDS + f"k[seq] = {formula}\n    where x = E[vocab = tokens]\n" + zoo.EMBED)
    assert (("argmax", "") in told(text)) == ARGMAX[formula]
    after(text)


# --- divisors ------------------------------------------------------------------------------------------------

MEAN = "    where u = mean[seq](E[vocab = tokens])\n"
FELT = {
    "u / norm[d](u)": "",
    "u @[d] w / (norm[d](u) * norm[d](w))": "",
    "u / √(u @[d] u)": "",
    "(u @[d] w if u @[d] w > 0 else 0) / norm[d](u)": "",
    "u / max(norm[d](u), 1e-12)": "ε",
    "u": "silent",
    "u / (norm[d](u) + 1)": "silent",
    "tanh(u) / norm[d](tanh(u))": "silent",
    "u / norm[d](u) + mean[d](u)": "silent",
}


@pytest.mark.parametrize("formula", FELT)
def test_a_divisor_that_nobody_feels(formula: str) -> None:
    axes = "" if "w)" in formula or formula.startswith("(") else "[d]"
    more = "            w : [d]\n" if " w" in formula else ""
    text = zoo.spec("", zoo.IDS + f"y{axes} = {formula}\n" + MEAN + zoo.EMBED + more)
    found = [reason for rule, reason in told(text) if rule == "divisor"]
    expected = FELT[formula]
    assert found == ([] if expected == "silent" else [""]) or (expected == "ε" and "ε" in found[0])
    means = [one for one in after(text).nodes() if one.op == "reduce" and one["reduction"] == "mean"]
    assert bool([one for one in means if one.kind == "real" and "seq" in map(str, one["over"])]) == bool(expected)


def test_degrees() -> None:
    x, other = ir.input_("x", (B, D), "real"), ir.input_("y", (B, D), "real")
    one = {x: Fraction(1)}
    assert degree(ir.apply("*", x, x), one, (B,)) == 2
    assert degree(ir.apply("/", x, other), one, (B,)) == 1
    assert degree(ir.reduce("norm", x, (D,)), one, (B,)) == 1
    square = ir.apply("*", x, x)
    assert degree(ir.apply("sqrt", square), {square: Fraction(2)}, (B,)) == 1
    assert degree(ir.apply("max", x, ir.const(0)), one, (B,)) == 1
    assert "another size" in str(degree(ir.apply("+", x, other), one, (B,)))
    assert "several factors" in str(degree(ir.reduce("sum", x, (B,)), one, (B,)))
    assert "two examples" in str(degree(ir.rename(x, {B: C}), one, (B,)))
    assert "no power" in str(degree(ir.apply("exp", x), one, (B,)))
    assert "condition" in str(degree(ir.reduce("sum", other, (D,), x), one, (B,)))
