"""Matching of trees: by name, by definition, by what is recognised, by likeness; it ends, and it mirrors."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.compiler.config import Config
from transformula.compiler.difference.blocks import MOST, Block, tree
from transformula.compiler.difference.matching import matched, paired, shared
from transformula.compiler.driver import load_module

ENTRY = load_module("bert").entries["LayerNorm"]
NAMES = st.sampled_from(("a", "b", "c", "d"))
WEIGHTS = st.lists(st.tuples(NAMES, st.sampled_from(("[d]", "[d → d]"))), max_size=3).map(tuple)


def block(name: str, *parts: Block, weights: tuple[tuple[str, str], ...] = ()) -> Block:
    return Block(name, name, ENTRY, weights=weights, parts=parts)


TREES = st.recursive(
    st.builds(lambda name, weights: block(name, weights=weights), NAMES, WEIGHTS),
    lambda inner: st.builds(lambda name, parts: block(name, *parts), NAMES, st.lists(inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(TREES, TREES)
def test_every_block_is_matched_once_or_left_over(one: Block, other: Block) -> None:
    found = matched(one, other)
    for side, lost in ((0, found.gone), (1, found.new)):
        placed = Counter(id(part) for pair in found.pairs for part in [pair[side]])
        left = Counter(id(part) for whole in lost for part in whole.walk())
        every = Counter(id(part) for part in (one, other)[side].walk())
        assert placed + left == every or found.moved


@settings(max_examples=100, deadline=None)
@given(TREES, TREES)
def test_matching_mirrors(one: Block, other: Block) -> None:
    there, back = matched(one, other), matched(other, one)
    assert sorted((id(a), id(b)) for a, b in there.pairs) == sorted((id(b), id(a)) for a, b in back.pairs)
    assert sorted(map(id, there.gone)) == sorted(map(id, back.new))


def test_a_tree_matches_itself() -> None:
    one = block("M", block("x", block("y")), block("z"))
    found = matched(one, one)
    assert (found.gone, found.new, found.moved) == ([], [], [])
    assert all(a is b for a, b in found.pairs)


def test_the_same_name_comes_before_likeness() -> None:
    weights = (("W", "[d → d]"),)
    one = block("M", block("x", weights=weights), block("y"))
    other = block("M", block("y", weights=weights), block("z", weights=weights))
    pairs = {a.name: b.name for a, b in matched(one, other).pairs}
    assert pairs["y"] == "y"


def test_what_is_recognised_stands_for_each_other() -> None:
    kinds = {"LN": frozenset({"norm"}), "N": frozenset({"norm"}), "attn": frozenset({"attention"})}
    other_entry = load_module("bert").entries["Pooler"]
    one = Block("M", "", ENTRY, parts=(block("LN"),))
    parts = (Block("attn", "attn", other_entry), Block("N", "N", other_entry))
    other = Block("M", "", ENTRY, parts=parts)
    meant = lambda part: kinds.get(part.name, frozenset())  # noqa: E731
    assert [(a.name, b.name) for a, b in matched(one, other, meant, meant).pairs[1:]] == [("LN", "N")]


def test_many_blocks_take_little_time() -> None:
    weights = tuple((f"W{i}", "[d → d]") for i in range(20))
    one = block("M", *(block(f"a{i}", weights=weights) for i in range(2000)))
    other = block("M", *(block(f"b{i}", weights=weights) for i in range(2000)))
    start = time.monotonic()
    matched(one, other)
    assert time.monotonic() - start < 10


def test_pairs_of_numbers() -> None:
    pairs, gone, new = paired([1, 2, 3], [2, 3, 4], (lambda n: n,), None)
    assert (pairs, gone, new) == ([(2, 2), (3, 3)], [1], [4])
    assert shared(Counter("ab"), Counter("bc")) == 1 / 3


def test_a_tree_that_doubles_at_each_level_ends() -> None:
    kinds = "".join(
        f"block B{i}(x[d]) → [d] = a(x) + x\n    uses a, b : B{i + 1}\n" if i < 30 else f"block B{i}(x[d]) → [d] = x\n"
        for i in range(31)
    )
    text = f"spec s\nconfig\n    d = 4\n{kinds}model M(x[seq, d]) → [seq, d] = a(x)\n    uses a : B0\n"
    start = time.monotonic()
    module = load_module(text)
    blocks = list(tree(module, Config(module), module.entries["M"]).walk())
    assert len(blocks) <= MOST + 1
    assert time.monotonic() - start < 30
