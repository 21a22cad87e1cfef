"""What only looks like a known meaning is left alone, or keeps what makes it another one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spellings import CONCAT, SEE, Attention, B, M, S, T
from tests.compiler.test_recognise import names, point, result
from tests.compiler.test_spellings import fused, program, wanted
from transformula.compiler import kernels, reference
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import walk_all


def found(one: Attention) -> Counter[str]:
    """The kernels of a spelling; formula, optimised graph and module agree."""
    made = program(one)
    given = {
        "input_ids": np.array([[1, 4, 2, 7, 5, 3], [9, 3, 3, 1, 0, 0]]),
        "attention_mask": np.array([[1] * 6, [1, 1, 1, 1, 0, 0]]),
    }
    right = zoo.reference_results(made.compiled.formula, given)
    assert zoo.difference(zoo.model(made)(**given), right) < 1e-12
    return Counter(n["name"] for n in made.compiled.graph.nodes() if n.op == "kernel")


A = "A = softmax[key](s)"
NO_ATTENTION = {
    "softmax over the queries": ("softmax[seq](s) @[key] V", (S,)),
    "softmax over the heads": ("softmax[head](s) @[key] V", (S,)),
    "shares that are squared": ("A² @[key] V", (A, S)),
    "shares that are halved": ("(A / 2) @[key] V", (A, S)),
    "shares plus one": ("(A + 1) @[key] V", (A, S)),
    "shares masked afterwards": ("(A if see else 0) @[key] V", (A, S, SEE)),
    "shares of a masked sum alone": ("(exp(s) / sum[key if see](exp(s))) @[key] V", (S, SEE)),
    "a sum that is one larger": ("(exp(s) / (1 + sum[key](exp(s)))) @[key] V", (S,)),
    "a sum over the queries": ("(exp(s) / sum[seq](exp(s))) @[key] V", (S,)),
    "no sum": ("exp(s) @[key] V", (S,)),
    "sigmoids": ("(1 / (1 + exp(-s))) @[key] V", (S,)),
}


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_no_attention(name: str) -> None:
    formula, parts = NO_ATTENTION[name]
    assert found(Attention(name, "", formula, parts))["attention"] == 0


def test_shares_that_are_shown_are_computed() -> None:
    """Fused attention has no table of shares, so it is not made where somebody reads them."""
    one = Attention("read twice", "", "A @[key] V + A @[key] V²", (A, S))
    assert found(one) == {"softmax": 1}


def roles(formula: str, parts: tuple[str, ...] = (), weights: tuple[str, ...] = ()) -> dict[str, object]:
    one = Attention(formula, "", formula, parts, weights=weights)
    assert found(one)["attention"] == 1
    return dict(kernels.parts(fused(one)))


def test_a_finite_bias_is_divided_and_a_mask_is_not() -> None:
    outside, inside = "softmax[key](s + B) @[key] V", "softmax[key]((Q @[dk] K + B) / √dk) @[key] V"
    assert roles(outside, (S, B), T)["bias"] is not roles(inside, (B,), T)["bias"]
    divided, added = "softmax[key]((Q @[dk] K + M) / √dk) @[key] V", "softmax[key](s + M) @[key] V"
    assert roles(divided, (M,)) == roles(added, (M, S))


def test_a_mask_that_is_2_somewhere() -> None:
    """0 hides, or 1 shows: not the same where a mask has other numbers."""
    shows = "P[key] = 0 if m[seq → key] == 1 else -∞"
    hides = "P[key] = 0 if m[seq → key] ≠ 0 else -∞"
    number = "m[seq] = (2 if good else 1) if index(seq) > 0 else 0"
    first, second = (roles("softmax[key](s + P) @[key] V", (S, P, number)) for P in (shows, hides))
    assert first["see"] is not second["see"]


@pytest.mark.parametrize("low", [-1.0, -1e4, -3.4e38])
def test_a_finite_fill_is_no_mask(low: float) -> None:
    """Where nothing may be seen the shares are even: 0 would be another meaning."""
    strict = "see[i: seq, j: key] = j < i"
    one = Attention("strict", "", "softmax[key](s if see else low) @[key] V", (S, strict), weights=("low : []",))
    assert "see" not in fused(one)["roles"]
    graph = program(one).compiled.formula
    weights = {**zoo.weight_values(graph), "attn.low": np.array(low)}
    given = {"input_ids": np.array([[1, 4, 2]])}
    module = zoo.module(program(one).source)["Model"](zoo.nested(graph, weights), dtype="float64")
    first = module(**given)["y"][0, 0]  # it sees nothing; the literal formula is 0 / 0 where exp(low) is 0
    even = np.einsum("d,dhk->hk", weights["E"][[1, 4, 2]].mean(axis=0), weights["attn.W_V"])
    np.testing.assert_allclose(first, np.einsum("hk,hkd->d", even, weights["attn.W_O"]), atol=1e-12)


def test_keys_turned_on_a_square() -> None:
    """pytorch#195320: of a square K, rows are taken for columns. Names of axes tell them apart."""
    text = """spec t
from functions import softmax
config
    i = 4
    j = 4
    c = 4
    e = 4
model M(q[i, c] as q, k[j, c] as k, v[j, e] as v) → y[i, e] = softmax[j](q @[c] {k} / √c) @[j] v
"""
    draw = np.random.default_rng(0)
    given = {name: draw.normal(size=(2, 4, 4)) for name in "qkv"}
    values = []
    for k in ("k", "k[j → x][c → j][x → c]"):
        made = zoo.whole(text.replace("{k}", k))
        right = zoo.reference_results(made.compiled.formula, given)
        assert zoo.difference(zoo.model(made)(**given), right) < 1e-12
        assert names(made.graph.outputs[0].node)["attention"] == 1
        values.append(right["y"])
    scores = np.einsum("bic,bcj->bij", given["q"], given["k"]) / 2
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(values[1], shares @ given["v"], atol=1e-12)
    assert np.abs(values[0] - values[1]).max() > 0.1


PICK = "[head = #]"
ONE_BY_ONE = f"softmax[key](Q{PICK} @[dk] K{PICK} / √dk) @[key] V{PICK}"


def heads(*formulas: str, after: str = CONCAT) -> Attention:
    parts = tuple(f"o_{i} = {formula.replace('#', str(i))}" for i, formula in enumerate(formulas))
    return Attention(str(hash(formulas)) + after, "", after, parts, "joined")


def test_heads_of_different_forms_stay_apart() -> None:
    others = (ONE_BY_ONE, ONE_BY_ONE, ONE_BY_ONE, ONE_BY_ONE.replace("√dk", "2 / √dk"))
    assert found(heads(*others))["attention"] == 4
    (reason,) = {line.reason for line in program(heads(*others)).compiled.ledger.lines if line.rule == "heads"}
    assert reason == "the heads are not one formula"


def test_heads_that_are_read_elsewhere_stay_apart() -> None:
    one = heads(*[ONE_BY_ONE] * 4, after="[o_0; o_1; o_2; o_3][dk → wide] + [o_0; o_0; o_0; o_0][dk → wide]")
    assert found(one)["attention"] == 4


def test_a_head_that_is_projected_and_shown_stays_apart() -> None:
    """The head itself is a result, so it would be computed once more."""
    text = heads(*[ONE_BY_ONE] * 4).text
    text = text.replace("→ [seq, d] = heads @ W_O", "→ [seq, d] = heads @ W_O, first[seq, dk] = o_0")
    text = text.replace("→ y[seq, d] = attn(E[vocab = tokens], tokens ≠ 3)", "→ y[seq, d] = a, h[seq, dk] = a.first")
    text = text.replace("    uses attn", "    where a = attn(E[vocab = tokens], tokens ≠ 3)\n    uses attn")
    made = zoo.whole(text)
    kinds = Counter(one["name"] for one in made.graph.nodes() if one.op == "kernel")
    assert kinds == {"attention": 4}


def test_heads_in_another_order_are_joined_in_that_order() -> None:
    """The order is the concatenation's, whatever the heads are called."""
    one = heads(*[ONE_BY_ONE] * 4, after="[o_2; o_0; o_3; o_1][dk → wide]")
    assert found(one) == {"attention": 1}


def test_keys_that_are_tiled_are_not_grouped() -> None:
    """repeat is not repeat_interleave: head h reads key head h % 2, not h // 2."""
    tiled = ("k = K[kv = index(head) % group]", "v = V[kv = index(head) % group]")
    one = Attention("tiled", "grouped", "softmax[key](Q @[dk] k / √dk) @[key] v", tiled, "grouped")
    assert found(one) == {"attention": 1}
    at = kernels.parts(fused(one))
    assert "head" in {str(axis) for axis in at["key"].axes}
    mixed = Attention("mixed", "grouped", one.formula, (tiled[0].replace("%", "//"), tiled[1]), "grouped")
    found(mixed)
    reasons = {line.reason for line in program(mixed).compiled.ledger.lines if line.rule == "grouped"}
    assert reasons == {"the values are not repeated like the keys"}


def test_a_softmax_of_base_2_is_one_of_scaled_scores() -> None:
    root = result(point("2^x / sum[d](2^x)"))
    assert names(root) == {"softmax": 1, "core": 1}
    assert names(result(point("2^x / sum[d](3^x)")))["softmax"] == 0
    assert len([one for one in walk_all([root]) if one.op == "map"]) == 1


def test_wanted_is_not_the_plain_one() -> None:
    """The tests above compare values that differ: two heads swapped are another result."""
    orders = ("o_0; o_1; o_2; o_3", "o_1; o_0; o_2; o_3")
    plain, swapped = (heads(*[ONE_BY_ONE] * 4, after=f"[{order}][dk → wide]") for order in orders)
    assert np.abs(wanted(plain)["y"] - wanted(swapped)["y"]).max() > 0.01


def test_a_number_that_stands_for_another_one_is_no_activation() -> None:
    """1 if y == -100 else y is the identity wherever a random number falls, and no leaky ReLU of slope 1."""
    text = "model M(y[seq] as labels) → [seq] = sum[r: seq if r == i](z[seq = r])\n"
    text += "    where z = 1 if y == -100 else y\n          i = index(seq)\n"
    made = compile_graph(text)
    assert not any(one.op == "kernel" for one in walk_all(made.graph.roots))
    given = {"labels": np.array([[5.0, -100, 2]])}
    for graph in (made.formula, made.graph):
        assert reference.run(graph, {}, given)["output"].tolist() == [[5, 1, 2]]
