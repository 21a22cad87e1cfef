"""merge_projections: products of one value are one at no more operations, whichever of them has a bias."""

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
    return merged(zoo.spec("attention", BLOCK.format(biases=biases, **parts) + zoo.LM))


def merged(text: str, *left_out: str) -> Program:
    """Without deadness, which takes biases out before they are put together."""
    return zoo.program(text, without=("deadness", *left_out))


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
def test_a_bias_that_not_all_have_is_added_behind(which: str) -> None:
    """The operations are those of three products and their sums, whoever has a bias; rows are read once."""
    biases = ", ".join(ALL[one] for one in which)
    made = model(f"{biases} : [head, dk]" if which else "", **{one: ALL[one] for one in which})
    assert right(made)
    assert products(made) == 3  # Q, K and V, the output, the logits
    (told,) = lines(made, fired=True)
    assert told.startswith("3 products of one value are one, which reads each row's 12 numbers once")
    assert told.endswith("a bias that not all of them have is added behind it") == (0 < len(which) < 3)
    before = merged(made.compiled.module.file.span.source.text, "merge_projections")
    assert cost.flops(made.graph) == cost.flops(before.graph)
    assert cost.costs(made.graph).total.read < cost.costs(before.graph).total.read


def test_biases_of_different_axes_are_added_behind() -> None:
    made = model("b_Q : [head, dk]\n            b_K, b_V : [dk]", **ALL)
    assert right(made)
    assert products(made) == 3
    assert "behind" in lines(made, fired=True)[0]


def test_weights_of_different_shapes_stay_apart() -> None:
    text = zoo.spec("", zoo.IDS + "y[seq, d] = u @ A, z[seq, head] = u @ B\n    where u = E[vocab = tokens]\n"
                    "    weights E : [vocab, d]\n            A : [d → d]\n            B : [d → head]\n")  # fmt: skip
    made = merged(text)
    assert right(made)
    assert products(made) == 2
    assert lines(made, fired=False) == ["the products have different axes: [d] and [head]"]
