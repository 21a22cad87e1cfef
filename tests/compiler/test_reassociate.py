"""reassociate: chains of products in the cheapest order, no bigger weights, tied ones untouched, nothing between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import rng
from transformula.backends.program import Program
from transformula.compiler import cost, ir, pipeline, reference
from transformula.compiler.ir import Axis, Graph, Length, Node
from transformula.compiler.sizes import Sizes

SPEC = """spec albert_like
config
    vocab = {vocab}
    e = {e}
    d = {d}
    p = 0.5

model M(tokens[seq] as input_ids) → {results}
    where T = E @ M
          u = {u}
{more}    weights E : [vocab, e]
            M : [e → d]
"""
HEAD = "logits[seq, vocab] = tanh(u) @[d] T"
PICK = "T[vocab = tokens]"


def model(results: str = HEAD, u: str = PICK, more: str = "", vocab: int = 2000, e: int = 2, d: int = 12) -> Program:
    return zoo.whole(SPEC.format(results=results, u=u, more=more, vocab=vocab, e=e, d=d))


def told(made: Program, fired: bool) -> list[str]:
    lines = [one for one in made.ledger.lines if one.pass_name == "reassociate" and one.fired == fired]
    return sorted(one.rule if fired else one.reason for one in lines)


def right(made: Program) -> bool:
    given = zoo.inputs("reassociate")
    wanted = zoo.reference_results(made.compiled.formula, given)
    found = [zoo.reference_results(made.graph, given), zoo.model(made)(**given)]
    return max(zoo.difference(one, wanted) for one in found) < 1e-12


def stage(made: Program, name: str) -> Graph:
    (found,) = [one.graph for one in made.compiled.stages if one.name == name]
    return found


# --- what it does --------------------------------------------------------------------------------------------


def test_a_factored_embedding_is_never_multiplied_out() -> None:
    """(E @ M)[vocab = t] and h @ (E @ M): both read the factors, and E @ M is gone."""
    made = model()
    assert right(made)
    assert told(made, fired=True) == ["chain", "pick"]
    before, after = (cost.costs(stage(made, name)) for name in ("recognise", "reassociate"))
    rows = 8 * 128
    assert before.prepared_bytes == 4 * 2000 * 12
    assert after.prepared_bytes == 4 * (2000 * 2 + 2 * 12) == after.parameter_bytes
    assert before.total.products == 2 * rows * 12 * 2000
    assert after.total.products == 2 * rows * (2 * 12 + 12 * 2 + 2 * 2000)
    assert after.prepared.flops == 0


def test_the_library_of_passes_does_it_for_torch_too() -> None:
    torch = pytest.importorskip("torch")
    from transformula.backends.torch.loading import forward

    text = SPEC.format(results=HEAD, u=PICK, more="", vocab=2000, e=2, d=12)
    made = zoo.compile(text, backend="torch")
    given = zoo.inputs("reassociate")
    weights = zoo.nested(made.compiled.formula, zoo.weight_values(made.compiled.formula))
    call, _ = forward(made, weights, "float64", None, None)
    found = {name: np.asarray(torch.as_tensor(one)) for name, one in call(given, ["logits"]).items()}
    assert zoo.difference(found, zoo.reference_results(made.compiled.formula, given)) < 1e-12
    assert sum(one.op == "contract" for one in made.graph.nodes()) == 3


def test_values_are_multiplied_in_the_cheaper_order() -> None:
    """x @ (A @ B) of values: (x @ A) @ B where A @ B has more numbers than both."""
    made = zoo.whole(
        "spec s\naxes n = 9\naxes m = 2\naxes k = 8\nmodel M(x[k] as x, A[k, m] as a, B[m, n] as b) → y[n] = x @[k] C\n"
        "    where C = A @[m] B\n"
    )
    assert told(made, fired=True) == ["chain"]
    given = {"x": rng(1).normal(size=(3, 8)), "a": rng(2).normal(size=(3, 8, 2)), "b": rng(3).normal(size=(3, 2, 9))}
    wanted = np.einsum("bk,bkm,bmn->bn", given["x"], given["a"], given["b"])
    for found in (reference.run(made.graph, {}, given), zoo.model(made)(**given)):
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-12)
    assert cost.flops(made.graph, Sizes(1)) == 2 * (8 * 2 + 2 * 9)


def test_a_long_chain_is_turned_link_by_link() -> None:
    a, b, c, d = (Axis(name, size) for name, size in zip("abcd", (50, 40, 30, 20), strict=True))
    x = ir.input_("x", (Axis("batch", Length("batch")), a), "real")
    A, B, C = ir.input_("A", (a, b), "real"), ir.input_("B", (b, c), "real"), ir.input_("C", (c, d), "real")
    product = ir.contract(x, ir.contract(A, ir.contract(B, C, (c,)), (b,)), (a,))
    graph = Graph("G", (ir.Output("y", product, product.axes),), (), (), {}, x.axes[0])
    after = pipeline.run(graph, only=("reassociate",))[0][-1].graph
    assert after.roots[0] is ir.contract(ir.contract(ir.contract(x, A, (a,)), B, (b,)), C, (c,))


# --- what it leaves ------------------------------------------------------------------------------------------


def kept(made: Program, reason: str | None) -> None:
    """The product stays, for a reason that is told or because it costs less."""
    assert right(made)
    assert told(made, fired=True) == []
    assert told(made, fired=False) == ([reason] if reason else [])
    assert stage(made, "reassociate").roots == stage(made, "recognise").roots


def test_a_product_that_is_no_bigger_stays() -> None:
    """e = 13, d = 12: E @ M has fewer numbers than E, and is made once."""
    kept(model(e=13), None)
    assert cost.costs(model(e=13).graph).prepared.flops == 2 * 2000 * 13 * 12


def test_a_product_beside_a_tied_factor_is_one_more_weight() -> None:
    """The same sizes, but E is read elsewhere: what is picked is made of the factors, and E itself is as it was."""
    made = model("h[seq, d] = u, v[seq, e] = E[vocab = tokens]", e=13)
    assert right(made)
    assert told(made, fired=True) == ["pick"]
    weights = [one for one in made.graph.nodes() if one.op == "weight"]
    assert {one["name"] for one in weights} == {"E", "M"}
    assert all(one.op in ("weight", "contract", "pick", "input") for one in made.graph.nodes())
    kept(model("h[seq, d] = u", e=13), None)


def test_a_table_with_fewer_rows_than_are_picked_is_multiplied_out() -> None:
    kept(model("h[seq, d] = u", vocab=200), None)


def test_a_result_is_needed_as_it_is() -> None:
    kept(model(f"{HEAD}, table[vocab, d] = T"), "the product is read as a whole")


def test_another_reader_needs_the_product() -> None:
    kept(model(f"{HEAD}, size[d] = norm[vocab](T)"), "`norm` stands between the products")


@pytest.mark.parametrize("between", ["dropout(T, p)", "stop(T)", "tanh(T)"])
def test_nothing_may_stand_between(between: str) -> None:
    """A draw or a stop acts on the product itself; in a module that trains it would act on something else."""
    text = SPEC.format(results="logits[seq, vocab] = tanh(u) @[d] S", u="S[vocab = tokens]", vocab=2000, e=2, d=12,
                       more=f"          S = {between}\n")  # fmt: skip
    if "p)" not in between:
        text = text.replace("    p = 0.5\n", "")
    made = zoo.program(text, without=("inference",))
    name = between.partition("(")[0]
    assert told(made, fired=True) == []
    assert told(made, fired=False) == [f"`{name}` stands between the products"]


def graph_of(root: Node) -> Graph:
    weights = [one for one in ir.walk([root]) if one.op == "weight"]
    table = tuple(ir.Weight(one["name"], one.axes, (), one.axes, None, "") for one in weights)
    return Graph("G", (ir.Output("y", root, root.axes),), (), table, {}, Axis("batch", Length("batch")))


def refused(root: Node) -> list[str]:
    stages, ledger = pipeline.run(graph_of(root), only=("reassociate",))
    assert stages[-1].graph.roots == (root,)
    return [one.reason for one in ledger.lines if not one.fired]


A, M, N = Axis("a", 30), Axis("m", 2), Axis("n", 40)


def test_a_product_that_is_itself_a_result_stays() -> None:
    x = ir.input_("x", (Axis("batch", Length("batch")), A), "real")
    inner = ir.contract(ir.weight("A", (A, M)), ir.weight("B", (M, N)), (M,))
    graph = graph_of(ir.contract(x, inner, (A,)))
    graph = replace(graph, outputs=(*graph.outputs, ir.Output("table", inner, inner.axes)))
    stages, ledger = pipeline.run(graph, only=("reassociate",))
    assert stages[-1].graph.roots == graph.roots
    assert [one.reason for one in ledger.lines] == ["the product is a result"]


def test_the_other_value_may_not_have_the_inner_axis() -> None:
    """x[m, a] @[a] (A @[m] B): x's own m is carried along, and would be summed."""
    x = ir.input_("x", (Axis("batch", Length("batch")), M, A), "real")
    inner = ir.contract(ir.weight("A", (A, M)), ir.weight("B", (M, N)), (M,))
    told = "the other value has the axis over which the factors are multiplied"
    assert refused(ir.contract(x, inner, (A,))) == [told]


def test_an_axis_of_both_factors_is_not_summed_alone() -> None:
    x = ir.input_("x", (Axis("batch", Length("batch")), A), "real")
    inner = ir.contract(ir.weight("A", (A, M, Axis("c", 9))), ir.weight("B", (M, A, N)), (M,))
    assert refused(ir.contract(x, inner, (A,))) == ["both factors have an axis that is summed"]
    t = ir.input_("t", (Axis("batch", Length("batch")),), "int")
    assert refused(ir.pick(inner, {A: t})) == ["both factors have an axis that is picked"]


def test_no_weight_is_made_of_others() -> None:
    """(x @ A) @ B with a wide middle takes fewer operations as x @ (A @ B), but that is one more weight."""
    a, wide, b = Axis("a", 1), Axis("w", 5000), Axis("b", 1)
    x = ir.input_("x", (Axis("batch", Length("batch")), a), "real")
    inner = ir.contract(x, ir.weight("A", (a, wide)), (a,))
    assert refused(ir.contract(inner, ir.weight("B", (wide, b)), (wide,))) == []


def test_places_may_not_have_the_inner_axis() -> None:
    t = ir.input_("t", (Axis("batch", Length("batch")), M), "int")
    inner = ir.contract(ir.weight("A", (A, M)), ir.weight("B", (M, N)), (M,))
    assert refused(ir.pick(inner, {A: t})) == ["the places have the axis over which the factors are multiplied"]


def test_sums_over_a_length_stay_where_they_are() -> None:
    """Q @ (Kᵀ @ V) would cost less than (Q @ Kᵀ) @ V, but each sum over keys is over those of one example."""
    batch = Axis("batch", Length("batch"))
    seq, key, d = Axis("seq", Length("seq"), batch), Axis("key", Length("seq"), batch), Axis("d", 4)
    q, k = ir.input_("q", (batch, seq, d), "real"), ir.input_("k", (batch, key, d), "real")
    v = ir.input_("v", (batch, key, Axis("w", 4)), "real")
    refused(ir.contract(ir.contract(q, k, (d,)), v, (key,)))
