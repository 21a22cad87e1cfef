"""Nodes and axes: the walk gives each node once, after what it is made of; axes are equal if all of them is."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.compiler import ir
from transformula.compiler.ir import Axis, Length, ordered

BELOW = st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(BELOW, st.lists(st.integers(0, 30), max_size=4))
def test_each_node_once_after_what_is_below_it(lists: list[list[int]], roots: list[int]) -> None:
    """Node n leads to lower numbers only; the order is that of the textbook's recursion."""
    below = {n: [m % n for m in some] if n else [] for n, some in enumerate(lists)}
    starts = [root % len(below) for root in roots]
    expected: list[int] = []

    def visit(n: int) -> None:
        if n not in expected:
            for one in below[n]:
                visit(one)
            expected.append(n)

    for start in starts:
        visit(start)
    assert list(ordered(starts, lambda n: below[n])) == expected


def test_a_long_chain_needs_no_recursion() -> None:
    assert list(ordered([100_000], lambda n: [n - 1] if n else [])) == list(range(100_001))


def test_axes_are_equal_if_name_size_owner_and_tag_are() -> None:
    length, batch = Length("seq"), Axis("batch", Length("batch"))
    other, owner = Length("seq"), Axis("batch", Length("batch"))
    every = [Axis(a, b, c, d) for a in "ab" for b in (3, 4, length) for c in (None, batch) for d in (0, 1)]
    again = [Axis(a, b, c, d) for a in "ab" for b in (3, 4, other) for c in (None, owner) for d in (0, 1)]
    for (i, one), (j, two) in product(enumerate(every), enumerate(again)):
        assert (one == two) == (i == j)
        assert hash(one) == hash(two) or i != j
    assert every[0] != "a"


def test_a_node_s_home_is_the_innermost_loop_that_it_depends_on() -> None:
    axis = Axis("l", 3)
    first = ir.const(1)
    step = ir.node("counter", (), (), "int", loop=5)
    inner = ir.node("counter", (), (), "int", loop=7)
    assert (first.home, step.home, inner.home, ir.apply("+", step, inner).home) == (0, 5, 7, 7)
    whole = ir.loop(7, axis, 0, ir.const(3), (first,), (ir.apply("+", step, inner),), "h")
    assert whole.home == 5
