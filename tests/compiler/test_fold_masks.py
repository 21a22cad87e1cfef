"""The pass fold_masks: what becomes a bound, what goes, what stays, and what the ledger tells of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.masked import CROSSED, MODELS, attending
from tests.compiler.spec_tools import Array, close, codes, rng, softmax, value
from transformula.backends.program import Program
from transformula.compiler import ir, kernels, masks, pipeline
from transformula.compiler.ir import Axis, Graph, Node, Output
from transformula.compiler.kernels import parts
from transformula.compiler.verify import verify
from transformula.grammar.diagnostics import InternalError

ALL = {**MODELS, **{f"two texts, {name}": text for name, text in CROSSED.items()}}


@cache
def program(name: str) -> Program:
    return zoo.compile(ALL[name])


def given_to(name: str, mask: Array = zoo.MASK) -> dict[str, Array]:
    return zoo.inputs("two" if name.startswith("two texts") else name, mask)


def attention(graph: Graph) -> Node:
    (one,) = {n for n in graph.nodes() if n.op == "kernel" and n["name"] == "attention"}
    return one


def told(name: str, rule: str = "bounds", fired: bool = True) -> list[str]:
    lines = [one for one in program(name).ledger.lines if one.pass_name == "fold_masks" and one.rule == rule]
    return [one.what if fired else one.reason for one in lines if one.fired == fired]


@pytest.mark.parametrize("name", ALL)
def test_a_mask_folded_is_the_mask(name: str) -> None:
    """In float64, with padding on either side, a hole, an empty example and one of length 1."""
    made = program(name).compiled
    stages = {stage.name: stage.graph for stage in made.stages}
    for mask in (zoo.MASK, zoo.MASK[:, :1], np.ones((2, 7), int)):
        given = given_to(name, mask)
        wanted = zoo.reference_results(made.formula, given)
        for stage in ("recognise", "fold_masks"):
            assert zoo.difference(zoo.reference_results(stages[stage], given), wanted) < 1e-12


FACTS = {
    "causal": "causal",
    "page": "causal",
    "layers": "causal",
    "groups": "causal",
    "window": "a window: 1 keys before the row to 1 after it",
    "sliding": "a window: 2 keys before the row to 0 after it",
    "ahead": "a window: -1 keys before the row to 2 after it",
    "strictly earlier": "strictly causal",
    "later": "bounds: each row has its first key",
    "prefix": "bounds: each row has its last key",
    "short prefix": "bounds: every row has the same last key",
    "blocks": "bounds: each row has its first and last key",
    "every other": "causal",
    "first and near": "causal",
    "everything": "the mask always holds: it goes",
    "nothing": "no row sees a key",
    "causal with a bias": "causal",
    "good keys, causal": "causal",
    "good keys, near": "a window: 2 keys before the row to 2 after it",
    "good rows": "bounds: each row has its last key",
    "two texts, top-left": "bounds: each row has its last key",
    "two texts, bottom-right": "bounds: each row has its last key",
    "two texts, everything": "the mask always holds: it goes",
}
LEFT = {
    "every other": "what a row sees is no single run of keys",
    "first and near": "what a row sees is no single run of keys",
    "good keys": "a part depends on the tokens of the keys",
    "good keys, causal": "a part depends on the tokens of the keys",
    "good keys, near": "a part depends on the tokens of the keys",
    "good pairs": "a part depends on the tokens of the keys",
    "like pairs": "a part depends on tokens of rows and keys",
}


@pytest.mark.parametrize("name", FACTS)
def test_the_ledger_says_what_a_mask_is(name: str) -> None:
    assert told(name) == [FACTS[name]]
    assert all(line.place for line in program(name).ledger.lines if line.pass_name == "fold_masks")


@pytest.mark.parametrize("name", ALL)
def test_what_is_no_bound_stays_and_the_ledger_says_why(name: str) -> None:
    assert told(name, fired=False) == ([LEFT[name]] if name in LEFT else [])
    stages = {stage.name: stage.graph for stage in program(name).compiled.stages}
    assert ("see" in attention(stages["fold_masks"])["roles"]) == (name in LEFT)


FULL = {
    "causal", "page", "layers", "groups", "no heads", "later", "prefix", "short prefix", "half as far",
    "first and near", "causal with a bias", "bad rows see all",
}  # fmt: skip
WITHOUT = {"everything", "two texts, everything"}


@pytest.mark.parametrize("name", ALL)
def test_rows_that_surely_see_a_key_need_no_guard(name: str) -> None:
    one = attention(program(name).graph)
    assert one.get("full") == (None if name in WITHOUT else name in FULL)
    assert len(told(name, "full")) == (name in FULL)
    assert len(told(name, "full", fired=False)) == (name not in FULL | WITHOUT)
    assert masks.never_empty(kernels.relation(parts(one), one["axis"]), one["axis"]) == "" or name not in FULL | WITHOUT
    assert ("full=True" in program(name).source) == (name in FULL and not name.startswith("two"))


def test_a_softmax_that_sees_everything_has_no_mask() -> None:
    base = "block Attn(x[seq, d]) → [seq, d] = (A @[key] V) @ W_O, A[seq, key, head] = A\n"
    base += "    where A = softmax[key if see](Q @[dk] K)\n"
    model = zoo.IDS + "h[seq, d] = a, w[seq, key, head] = a.A\n    where a = attn(E[vocab = tokens])\n"
    model += "    uses attn : Attn\n"
    for see, gone in (("j ≤ i or i ≤ j", True), ("j ≤ i", False)):
        body = base + f"          see[i: seq, j: key] = {see}" + zoo.QKV + model + zoo.EMBED
        made = zoo.compile(zoo.spec("softmax", body))
        (one,) = {n for n in made.graph.nodes() if n.op == "kernel" and n["name"] == "softmax"}
        assert ("see" not in one["roles"]) == gone
        assert one.get("full") == (None if gone else True)
        given = zoo.inputs("maps")
        wanted = zoo.reference_results(made.compiled.formula, given)
        assert zoo.difference(zoo.model(made)(**given), wanted) < 1e-12


def test_the_pass_runs_once() -> None:
    for name in ("causal", "good keys, causal", "every other", "everything"):
        again, ledger = pipeline.run(program(name).graph)
        assert again[-1].graph.roots == program(name).graph.roots
        assert not [line for line in ledger.lines if line.pass_name == "fold_masks"]


def test_attention_can_be_told_without_its_bounds() -> None:
    for name in ("sliding", "good keys, causal", "causal with a bias"):
        one = attention(program(name).graph)
        back = kernels.unbounded(one)
        assert {"first", "stop"}.isdisjoint(back["roles"])
        assert "see" in back["roles"]
        assert kernels.expanded(back) is kernels.expanded(one)
        assert kernels.unbounded(back) is back


# --- the verifier ---------------------------------------------------------------------------------------------


def broken(**changes: object) -> Graph:
    """A causal attention with one part or attribute that is not in order."""
    one = attention(program("causal").graph)
    roles = {**parts(one), **{k: v for k, v in changes.items() if isinstance(v, Node)}}
    attrs = {k: v for k, v in one.attrs.items() if k not in ("name", "roles")}
    attrs |= {k: v for k, v in changes.items() if not isinstance(v, Node)}
    made = kernels.make("attention", roles, one.axes, **attrs)
    graph = program("causal").graph
    return Graph("g", (Output("o", made, made.axes),), graph.inputs, graph.weights, {})


def test_wrong_facts_are_found() -> None:
    one = attention(program("causal").graph)
    key, head = ir.index(one["axis"]), ir.index(Axis("other", 3))
    verify(broken())
    for changes, told_ in (
        ({"stop": key}, "no whole number of its rows"),
        ({"first": ir.apply("/", parts(one)["stop"], ir.const(2))}, "no whole number of its rows"),
        ({"stop": head}, "axes of `stop` that its result lacks"),
        ({"see": key}, "sees by numbers"),
        ({"full": "perhaps"}, "perhaps"),
    ):
        with pytest.raises(InternalError, match=told_):
            verify(broken(**changes))


# --- the range of values ---------------------------------------------------------------------------------------

QK = "Q @[dk] K"
FINITE = "M[i: seq, j: key] = 0 if j < i else -600"


def roles_of(heads: str, more: str, functions: str = "softmax, causal_mask") -> tuple[str, ...]:
    made = zoo.compile(zoo.attention_spec(heads, functions, more))
    given = zoo.inputs("gpt")
    wanted = zoo.reference_results(made.compiled.formula, given)
    assert zoo.difference(zoo.model(made)(**given), wanted) < 1e-12
    roles: tuple[str, ...] = attention(made.graph)["roles"]
    return roles


def test_a_finite_mask_stays_a_bias() -> None:
    """-600 is a number: a row that has nothing else attends evenly to everything, it is not empty."""
    assert roles_of(f"softmax[key]({QK} + M) @[key] V", FINITE, "softmax") == ("query", "key", "value", "bias")
    assert roles_of(f"softmax[key](({QK} + M) / √dk) @[key] V", FINITE, "softmax")[-1] == "bias"
    assert codes(zoo.attention_spec(f"softmax[key]({QK} + M) @[key] V", "softmax", FINITE.replace("600", "1e9"))) == {
        "M501"
    }


@pytest.mark.parametrize("lowest", [-1e9, float(np.finfo(np.float32).min)])
def test_a_given_bias_of_large_numbers_empties_no_row(lowest: float) -> None:
    text = zoo.spec(
        "",
        "model M(q[seq, dk], k[key, dk], v[key, dk], m[seq, key]) → [seq, dk] = stable[key](q @[dk] k + m) @[key] v\n"
        "stable[j](x) = e / sum[j](e)\n    where e = exp(x - max[j](x))\n",
    )
    q, k, v = (rng(n).normal(size=(1, 3, 4)) for n in range(3))
    bias = np.where(np.tril(np.ones((3, 3), bool), -1), 0.0, lowest)[None]  # row 0 has nothing else
    found = value(text, q=q, k=k, v=v, m=bias)
    shares = softmax(q[0, 0] @ k[0].T + bias[0, 0])
    close(found[0, 0], shares @ v[0])
    if lowest < -1e30:  # beside it no score counts
        close(found[0, 0], v[0].mean(axis=0))
    made = zoo.compile(text)
    assert "bias" in attention(made.graph)["roles"]
    assert "see" not in attention(made.graph)["roles"]


def test_a_mask_and_a_bias_inside_the_division() -> None:
    """(QK + M + B) / √d: M is a relation, which no division changes; B is a number, which it does."""
    bias = "B[i: seq, j: key] = (j - i) / 7"
    inside = roles_of(f"softmax[key](({QK} + causal_mask + B) / √dk) @[key] V", bias)
    assert inside == ("query", "key", "value", "stop", "bias")
    outside = roles_of(f"softmax[key](({QK} + causal_mask) / √dk + B) @[key] V", bias)
    assert outside == inside
    texts = [f"softmax[key](({QK} + causal_mask {put} @[key] V" for put in ("+ B) / √dk)", ") / √dk + B)")]
    first, second = (attention(zoo.compile(zoo.attention_spec(t, "softmax, causal_mask", bias)).graph) for t in texts)
    assert parts(first)["stop"] is parts(second)["stop"]
    assert parts(first)["bias"] is not parts(second)["bias"]


def test_a_mask_that_is_no_single_run_is_told_once() -> None:
    made = zoo.compile(attending("j ≤ i and (i - j) % 2 == 0"))
    lines = [str(line.reason) for line in made.ledger.lines if line.pass_name == "fold_masks" and not line.fired]
    assert len(lines) == len(set(lines)) == 2
