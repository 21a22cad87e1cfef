"""merge_projections: products of one value are one where that costs nothing, a bias that is missing is zeros."""

from __future__ import annotations

import pytest

from tests.compiler import zoo
from transformula.backends.program import Program
from transformula.compiler import cost

BLOCK = """
block Attn(x[seq, d]) → [seq, d] = attention[key](Q, K, V) @ W_O
    where Q = {Q}
          K = ({K})[seq → key]
          V = ({V})[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
            {biases}
"""
PLAIN = {"Q": "x @ W_Q", "K": "x @ W_K", "V": "x @ W_V"}


def model(biases: str = "", **sums: str) -> Program:
    parts = {name: text + (f" + {sums[name]}" if name in sums else "") for name, text in PLAIN.items()}
    return zoo.whole(zoo.spec("attention", BLOCK.format(biases=biases, **parts) + zoo.LM))


def lines(made: Program, fired: bool) -> list[str]:
    found = [one for one in made.ledger.lines if one.pass_name == "merge_projections" and one.fired == fired]
    return [one.what if fired else one.reason for one in found]


def right(made: Program) -> bool:
    given = zoo.inputs("merge")
    wanted = zoo.reference_results(made.compiled.formula, given)
    return max(
        zoo.difference(zoo.reference_results(made.graph, given), wanted),
        zoo.difference(zoo.model(made)(**given), wanted),
    ) < 1e-12  # fmt: skip


def products(made: Program) -> int:
    return sum(one.op == "contract" for one in made.graph.nodes())


ALL = {"Q": "b_Q", "K": "b_K", "V": "b_V"}


@pytest.mark.parametrize("which", ["", "Q", "K", "QV", "KV", "QKV"])
def test_a_missing_bias_is_zeros(which: str) -> None:
    """With no bias at all none is added; the operations are those of the products, plus the zeros."""
    biases = ", ".join(ALL[one] for one in which)
    made = model(f"{biases} : [head, dk]" if which else "", **{one: ALL[one] for one in which})
    assert right(made)
    assert products(made) == 3  # Q, K and V, the output, the logits
    (told,) = lines(made, fired=True)
    assert ("zeros" in told) == (0 < len(which) < 3)
    before = zoo.program(made.compiled.module.file.span.source.text, without=("merge_projections",))
    added = cost.flops(made.graph) - cost.flops(before.graph)
    assert added == (8 * 128 * 12 * (3 - len(which)) if which else 0)


def test_zeros_that_cost_too_much_are_not_added() -> None:
    """d = 4: two products of three would add zeros, 2 operations of 24."""
    text = BLOCK.format(biases="b_Q : [head, dk]", **PLAIN | {"Q": "x @ W_Q + b_Q"}) + zoo.LM
    made = zoo.whole(zoo.spec("attention", text).replace("d = 12", "d = 4").replace("head = 3", "head = 2"))
    assert right(made)
    assert products(made) == 5
    assert lines(made, fired=True) == []
    told = "only some of the products have a bias, and adding zeros would be 8% of the operations"
    assert lines(made, fired=False) == [told]


def test_biases_of_different_axes_are_not_put_together() -> None:
    made = model("b_Q : [head, dk]\n            b_K : [dk]", Q="b_Q", K="b_K")
    assert right(made)
    assert products(made) == 5
    assert lines(made, fired=False) == ["the biases have different axes"]
