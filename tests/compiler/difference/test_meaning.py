"""The signature of a graph: what changes names, order and brackets keeps it, what changes the formula changes it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.compiler.difference.meaning import signature
from transformula.compiler.driver import compile_graph

HEAD = "spec s\nconfig\n    d = 4\n    e = 4\n    h = 3\n"
VALUES = ("x", "y", "z")


def colour(body: str) -> str:
    return signature(compile_graph(HEAD + body, until="formula").formula)


def model(value: str, weights: str = "", more: str = "") -> str:
    head = f"model M(x[seq, d], y[seq, d], z[seq, d]) → out[seq, d] = {value}\n"
    return head + (f"    where {more}\n" if more else "") + (f"    weights {weights}\n" if weights else "")


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> object:
    """A sum, difference, product or function of values."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(VALUES))
    kind = draw(st.sampled_from(("+", "-", "*", "max", "exp")))
    count = 1 if kind == "exp" else 2
    return (kind, *(draw(trees(depth - 1)) for _ in range(count)))


def text(tree: object) -> str:
    if not isinstance(tree, tuple):
        return str(tree)
    kind, *parts = tree
    inner = [text(part) for part in parts]
    return f"{kind}({', '.join(inner)})" if kind in ("max", "exp") else f"({f' {kind} '.join(inner)})"


def mirrored(tree: object) -> object:
    """The same value with the sides of sums, products and maxima swapped."""
    if not isinstance(tree, tuple):
        return tree
    kind, *parts = tree
    made = [mirrored(part) for part in parts]
    return (kind, *(made[::-1] if kind in ("+", "*", "max") else made))


@settings(max_examples=40, deadline=None)
@given(trees())
def test_swapped_sides_mean_the_same(tree: object) -> None:
    assert colour(model(f"{text(tree)} + x + y + z")) == colour(model(f"z + y + x + {text(mirrored(tree))}"))


@settings(max_examples=40, deadline=None)
@given(trees(), st.sampled_from(VALUES), st.sampled_from(VALUES))
def test_one_term_more_is_another_meaning(tree: object, one: str, other: str) -> None:
    whole = f"{text(tree)} + x + y + z"
    assert colour(model(f"{whole} + exp({one} * 3)")) != colour(model(f"{whole} + exp({other} * 5)"))


SAME = {
    "brackets": (model("(x + y) + z"), model("x + (y + z)")),
    "a difference": (model("x - y + z"), model("z + (x - y)")),
    "names of weights": (model("x @ A @ B + y + z", "A, B : [d → d]"), model("x @ B @ C + y + z", "C, B : [d → d]")),
    "a part": (model("x + t + z", more="t = y * y"), model("x + u + z", more="u = y * y")),
    "names of axes": (model("x + y + z + g", "g : [d]"), model("x + y + z + g", "g : [d]").replace("seq", "token")),
    "a contraction": (model("x + z + y * (x @[d] y)"), model("x + z + y * (y @[d] x)")),
}
OTHER = {
    "sides of a difference": (model("x - y + 0 * z"), model("y - x + 0 * z")),
    "one weight for two": (
        model("x @ A + y @ B + z", "A, B : [d → d]"),
        model("x @ A + y @ A + z", "A : [d → d]"),
    ),
    "which axis": (model("mean[d](x) + y + z"), model("mean[seq](x) + y + z")),
    "which weight goes where": (
        model("(x @ A) * exp(x @ B) + (y @ A) * exp(y @ B) + z", "A, B : [d → d]"),
        model("(x @ A) * exp(x @ B) + (y @ B) * exp(y @ A) + z", "A, B : [d → d]"),
    ),
    "a constant": (model("2 * x + y + z"), model("3 * x + y + z")),
    "which input": (model("exp(x) + y + z"), model("x + exp(y) + z")),
}


@pytest.mark.parametrize("name", SAME)
def test_same(name: str) -> None:
    one, other = SAME[name]
    assert colour(one) == colour(other)


@pytest.mark.parametrize("name", OTHER)
def test_other(name: str) -> None:
    one, other = OTHER[name]
    assert colour(one) != colour(other)


def test_a_doubling_chain_ends() -> None:
    steps = "\n          ".join(f"a{i + 1} = a{i} + a{i}" for i in range(60))
    assert colour(model("a60 + y + z", more=f"a0 = x\n          {steps}"))
