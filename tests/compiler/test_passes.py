"""Passes: each keeps every result, each can be left out, loops stay loops, and the ledger tells where and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from transformula.backends.program import compile
from transformula.compiler import kernels, pipeline
from transformula.compiler.decoding import DERIVED
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import Graph, walk_all
from transformula.grammar.diagnostics import TransformulaError

PASSES = [row.name for row in pipeline.table()]
FEW = ["gpt", "rope", "deberta", "norms", "sbert"]
MASKS = {"all kinds": zoo.MASK, "length 1": zoo.MASK[:2, :1], "nobody": zoo.MASK[:0]}


def kernel_names(graph: Graph) -> Counter[str]:
    """How many kernel nodes of each meaning the graph has."""
    return Counter(one["name"] for one in walk_all(graph.roots) if one.op == "kernel")


# --- the value -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.NAMES)
def test_every_stage_keeps_every_result(name: str) -> None:
    made = zoo.whole(name).compiled
    for mask in MASKS.values():
        given = zoo.inputs(name, mask)
        wanted = zoo.reference_results(made.formula, given)
        told = {made.formula.roots}
        for stage in made.stages[1:]:
            if stage.graph.roots not in told:
                told.add(stage.graph.roots)
                found = zoo.reference_results(stage.graph, given)
                assert zoo.difference(found, wanted) < 1e-12, stage.name


@pytest.mark.parametrize("left_out", PASSES)
@pytest.mark.parametrize("name", [*zoo.ZOO, "bert", "sbert"])
def test_any_pass_can_be_left_out(name: str, left_out: str) -> None:
    made = zoo.program(name, without=(left_out,))
    assert left_out not in [stage.name for stage in made.compiled.stages]
    assert zoo.difference(zoo.model(made)(**zoo.inputs(name)), zoo.wanted(name)) < 1e-12


@pytest.mark.parametrize("passes", [{kind: one} for one in PASSES for kind in ("only", "until")], ids=str)
@pytest.mark.parametrize("name", FEW)
def test_any_pass_can_be_alone_or_last(name: str, passes: dict[str, str]) -> None:
    kind, one = next(iter(passes.items()))
    made = zoo.program(name, **{kind: (one,) if kind == "only" else one})
    stages = [stage.name for stage in made.compiled.stages]
    assert stages == (["formula", one] if kind == "only" else ["formula", *PASSES[: PASSES.index(one) + 1]])
    assert zoo.difference(zoo.model(made)(**zoo.inputs(name)), zoo.wanted(name)) < 1e-12


@pytest.mark.parametrize("name", zoo.NAMES)
def test_no_pass_at_all(name: str) -> None:
    made = zoo.program(name, until="formula")
    assert zoo.difference(zoo.model(made)(**zoo.inputs(name)), zoo.wanted(name)) < 1e-12


def test_compiling_the_result_again_changes_nothing() -> None:
    for name in FEW:
        made = zoo.whole(name).graph
        again, ledger = pipeline.run(made)
        assert [one.node for one in again[-1].graph.outputs] == [one.node for one in made.outputs], name
        assert not [line for line in ledger.lines if line.fired], name


# --- choosing passes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{"without": ("recognize",)}, {"only": ("recognize",)}, {"until": "recognize"}], ids=str
)
def test_unknown_pass_is_refused_with_advice(how: dict[str, Any]) -> None:
    with pytest.raises(TransformulaError) as caught:
        compile_graph(zoo.ZOO["gpt"], **how)
    (found,) = caught.value.diagnostics
    assert found.code == "C620"
    assert "did you mean" in str(caught.value).lower()
    assert "recognise" in str(caught.value)


def test_formula_is_a_stage_to_stop_at_but_no_pass_to_leave_out() -> None:
    assert len(compile_graph(zoo.ZOO["gpt"], until="formula").stages) == 1
    with pytest.raises(TransformulaError, match="formula"):
        compile_graph(zoo.ZOO["gpt"], without=("formula",))


def test_the_last_pass_may_itself_be_left_out() -> None:
    made = compile_graph(zoo.ZOO["gpt"], until="recognise", without=("recognise",))
    assert [stage.name for stage in made.stages] == ["formula", "inference", "simplify"]


def test_each_pass_says_what_it_does_and_why_it_stands_there() -> None:
    rows = pipeline.table()
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.does and row.because and "\n" not in row.does + row.because for row in rows)


# --- what is read elsewhere stays ----------------------------------------------------------------------------


def subsets(made: Compiled) -> list[list[str]]:
    names = [out.name for out in made.formula.outputs]
    return [[n for i, n in enumerate(names) if bits >> i & 1] for bits in range(1, 1 << len(names))]


BOTH = zoo.spec(
    "softmax, layer_norm, gelu",
    """
block Attn(x[seq, d]) → [seq, d] = (A @[key] V) @ W_O, A[seq, key, head] = A, S[seq, key, head] = S
    where S = Q @[dk] K / √dk
          A = softmax[key](S)"""
    + zoo.QKV
    + "model M(tokens[seq] as input_ids) → y[seq, d] = n, weights[seq, key, head] = a.A, scores[seq, key, head] = a.S, "
    + "before[seq, d] = s, up[seq, d] = g, act[seq, d] = gelu(g)\n"
    + """    where a = attn(E[vocab = tokens])
          s = a + E[vocab = tokens] + b
          n = layer_norm[d](s, γ, b, 1e-5)
          g = n @ W + b
    uses attn : Attn
    weights E : [vocab, d]
            γ, b : [d]
            W : [d → d]
""",
)


def test_fusion_swallows_no_result() -> None:
    """BL-37: attention weights, scores, the sum before a norm and the input of an activation are results, too."""
    made = zoo.whole(BOTH)
    given = zoo.inputs("both")
    wanted = zoo.reference_results(made.compiled.formula, given)
    model = zoo.model(made)
    assert list(model(**given)) == list(wanted) == [out.name for out in made.graph.outputs]
    for names in subsets(made.compiled):
        found = model(**given, outputs=names)
        assert zoo.difference(found, {name: wanted[name] for name in wanted if name in names}) < 1e-12
    rows = wanted["weights"][0].sum(axis=1)
    np.testing.assert_allclose(rows, 1)
    products = [one for one in made.graph.nodes() if one.op == "contract"]
    assert len(products) == len({(one.args, one["over"]) for one in products})
    assert kernel_names(made.graph)["attention"] == 0
    refused = {(one.rule, one.reason) for one in made.ledger.lines if one.pass_name == "fuse" and not one.fired}
    assert refused == {(name, "the sum is read elsewhere, too") for name in ("layer_norm", "gelu")}


ACROSS = zoo.spec(
    "layer_norm",
    """
model M(tokens[seq] as input_ids) → y[seq, head, dk] = layer_norm[dk]((E[vocab = tokens])[d → head dk] + c, γ, γ, 1e-5)
    weights E : [vocab, d]
            c : [head]
            γ : [dk]
""",
)


def test_a_bias_of_a_norm_lies_along_its_axis() -> None:
    """One number for each head, of which there are as many as entries of a head, is no bias of the norm over those."""
    for sizes in ({"d": 9, "head": 3}, {"d": 12, "head": 3}):
        made = compile(ACROSS, settings=sizes)
        (kernel,) = [one for one in made.graph.nodes() if one.op == "kernel"]
        assert "bias" not in kernel["roles"]
        told = [line.reason for line in made.ledger.lines if line.pass_name == "fuse" and not line.fired]
        assert "a parameter does not lie along the axis of the kernel" in told
        given = zoo.inputs("across")
        assert zoo.difference(zoo.model(made)(**given), zoo.reference_results(made.compiled.formula, given)) < 1e-12


@pytest.mark.parametrize("result", ["y", "weights", "scores", "before", "up", "act"])
def test_each_result_alone(result: str) -> None:
    text = BOTH.replace("→ y[seq, d]", "→ first[seq, d]").split("model M")[0]
    head = {
        "y": "y[seq, d] = n", "weights": "weights[seq, key, head] = a.A", "scores": "scores[seq, key, head] = a.S",
        "before": "before[seq, d] = s", "up": "up[seq, d] = g", "act": "act[seq, d] = gelu(g)",
    }  # fmt: skip
    body = BOTH.split("gelu(g)\n")[1]
    used = "n g" if result in ("up", "act") else "n" if result == "y" else ""
    lines = [line for line in body.split("\n") if not (line.strip().startswith("n =") and "n" not in used)]
    lines = [line for line in lines if not (line.strip().startswith("g =") and "g" not in used)]
    lines = [
        line for line in lines if not (line.strip().startswith("s =") and result in ("weights", "scores"))
    ]
    keep = {"γ, b : [d]": result not in ("weights", "scores"), "W : [d → d]": result in ("up", "act")}
    lines = [line for line in lines if keep.get(line.strip(), True)]
    joined = "\n".join(lines)
    if result == "before":
        joined = joined.replace("γ, b : [d]", "b : [d]")
    made = zoo.program(f"{text}model M(tokens[seq] as input_ids) → {head[result]}\n{joined}")
    given = zoo.inputs("both")
    wanted = zoo.reference_results(made.compiled.formula, given)
    assert zoo.difference(zoo.model(made)(**given), wanted) < 1e-12
    assert kernel_names(made.graph)["attention"] == (result in ("y", "before", "up", "act"))


def test_a_query_that_is_read_elsewhere_is_not_scaled() -> None:
    text = zoo.ZOO["gpt"].replace("heads @ W_O", "heads @ W_O, q[seq, head, dk] = Q", 1)
    text = text.replace("→ logits[seq, vocab] = x[layers] @[d] E", "→ h[seq, d] = a, q[seq, head, dk] = a.q")
    text = (
        text[: text.index("    where x[0]")]
        + "    where a = attn(E[vocab = tokens])\n    uses attn : Attn\n"
        + zoo.EMBED
    )
    made = zoo.whole(text)
    given = zoo.inputs("q")
    assert (
        zoo.difference(zoo.model(made)(**given), zoo.reference_results(made.compiled.formula, given)) < 1e-12
    )
    reasons = [
        line.reason for line in made.ledger.lines if line.pass_name == "fold_scales" and not line.fired
    ]
    assert reasons == ["somebody else reads the query, which would be scaled for them, too"]


def test_lengths_go_with_their_owner() -> None:
    """Late interaction: the lengths of the documents belong to `candidate`, and stay with it as renames are moved."""
    made = compile_graph(
        "config\n    d = 2\nobjective O(q[batch, left, d], p[batch, right, d]) → [batch, candidate] = "
        "sum[left](max[right](s))\n    where s = q @[d] p[batch → candidate]\n"
    )
    draw = np.random.default_rng(1)
    given = {
        "q": draw.normal(size=(2, 3, 2)),
        "p": draw.normal(size=(2, 4, 2)),
        "attention_mask": np.array([[1, 1, 0], [1, 1, 1]]),
        "decoder_attention_mask": np.array([[1, 1, 1, 1], [1, 0, 0, 0]]),
    }
    wanted = zoo.reference_results(made.formula, given)
    for stage in made.stages:
        assert zoo.difference(zoo.reference_results(stage.graph, given), wanted) < 1e-12


# --- the ledger ----------------------------------------------------------------------------------------------


def test_lines_carry_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "page.formula"
    path.write_text(zoo.ZOO["maps"], "utf-8")
    lines = [line for line in compile_graph(path).ledger.lines if line.pass_name == "recognise"]
    text = zoo.ZOO["maps"].splitlines()
    assert {line.rule for line in lines if line.fired} == {"softmax"}
    (refused,) = [line for line in lines if not line.fired]
    for line in lines:
        name, _, number = line.place.rpartition(":")
        assert name.endswith("page.formula")
        assert number.isdigit()
    assert "A @[key] V" in text[int(refused.place.rpartition(":")[2]) - 1]
    assert refused.reason == "the attention weights are read elsewhere, too"


@pytest.mark.parametrize("name", zoo.NAMES)
def test_every_refusal_has_a_reason_on_one_line(name: str) -> None:
    made = zoo.whole(name)
    assert made.source
    for line in made.ledger.lines:
        assert line.pass_name in (*PASSES, DERIVED)
        assert line.what
        assert line.fired == (not line.reason), line
        assert "\n" not in line.what + line.reason


# --- loops ---------------------------------------------------------------------------------------------------


def sized(layers: int) -> Callable[[], Compiled]:
    return lambda: compile_graph("bert", entry="Bert", settings={**zoo.BERT, "layers": layers})


def counted(run: Callable[[], Any]) -> int:
    """How many functions are called: a measure of time without noise."""
    calls = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


def test_layers_stay_one_loop_at_any_number() -> None:
    made = {layers: sized(layers)() for layers in (2, 12, 768)}
    for stage in range(len(made[2].stages)):
        graphs = {layers: one.stages[stage].graph for layers, one in made.items()}
        counts = {
            layers: Counter(one.op for one in graph.nodes() if one.op != "const")
            for layers, graph in graphs.items()
        }
        assert counts[2] == counts[12] == counts[768]
        assert counts[2]["loop"] == 1
    assert kernel_names(made[768].graph) == {"layer_norm": 3, "attention": 1, "gelu": 1}
    assert [str(line) for line in made[2].ledger.lines] == [str(line) for line in made[768].ledger.lines]


def test_compile_time_does_not_grow_with_layers() -> None:
    sized(3)()  # what is computed once
    calls = {layers: counted(sized(layers)) for layers in (2, 768)}
    assert calls[768] <= 1.2 * calls[2]


def test_a_loop_of_a_thousand_layers_still_computes() -> None:
    made = {n: zoo.compile(zoo.ZOO["history"], settings={"layers": n, "d": 2, "head": 1}) for n in (7, 1000)}
    assert len(made[1000].graph.nodes()) == len(made[7].graph.nodes())
    assert made[1000].source.count("\n") == made[7].source.count("\n")
    given = zoo.inputs("history")
    wanted = zoo.reference_results(made[7].graph, given)
    assert zoo.difference(zoo.model(made[7])(**given), wanted) < 1e-12
    assert all(
        np.isfinite(value).all() for value in zoo.model(made[1000])(**given, outputs=["first"]).values()
    )


# --- numbers that fusion gets wrong elsewhere ----------------------------------------------------------------

TWO_KEYS = """spec t
config
    dk = 4
    n = 2
model M(q[dk] as query, K[n, dk] as keys, bias[n] as bias) → w[n] = A @[n] eye
    where A = exp(s) / sum[n](exp(s))
          s = {scores}
          eye[i: n, j: out] = 1 if i == j else 0
axes out = 2
"""


def weights_of(scores: str, bias: tuple[float, float] = (0.0, 0.0)) -> Array:
    made = zoo.program(TWO_KEYS.replace("→ w[n]", "→ w[out]").replace("{scores}", scores))
    given = {
        "query": np.array([[2.0, 0, 0, 0]]),
        "keys": np.array([[[1.0, 0, 0, 0], [0, 1, 0, 0]]]),
        "bias": np.array([bias]),
    }
    found: Array = zoo.model(made)(**given)["w"][0]
    np.testing.assert_allclose(found, zoo.reference_results(made.graph, given)["w"][0], rtol=1e-14)
    return found


@pytest.mark.parametrize(
    ("scores", "first"),
    [
        ("q @[dk] K + bias", 0.88079708),
        ("q @[dk] K / √dk + bias", 0.73105858),
        ("(q @[dk] K) / √(3 * dk) + bias", 0.64045748),
        ("3 * (q @[dk] K) * (1 / (3 * √dk)) + bias", 0.73105858),
    ],
)
def test_scale_is_kept(scores: str, first: float) -> None:
    """BL-36: q = [2, 0, 0, 0]; the weight of key 0 is sigmoid(2c)."""
    np.testing.assert_allclose(weights_of(scores), [first, 1 - first], atol=1e-8)


def test_bias_before_and_after_the_scale_are_different() -> None:
    """BL-04."""
    before = weights_of("(q @[dk] K + bias) / √dk", (0.0, -3.0))
    after = weights_of("q @[dk] K / √dk + bias", (0.0, -3.0))
    np.testing.assert_allclose(before, [0.92414182, 0.07585818], atol=1e-8)
    np.testing.assert_allclose(after, [0.98201379, 0.01798621], atol=1e-8)


def test_every_kernel_is_met_in_the_zoo() -> None:
    """So each meaning goes through every test of this file; one is made in objectives alone (test_objectives.py)."""
    met = {name for one in zoo.NAMES for name in kernel_names(zoo.whole(one).graph)}
    met |= set(kernel_names(compile_graph("bert", entry="mlm", settings=zoo.BERT).graph))
    assert set(kernels.KERNELS) <= {*met, *kernels.BACKWARD}  # those are met in tests/backends/numpy/test_gradients
