"""A derived step, fed any pieces of a text, gives what the whole text gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler import decoders
from tests.compiler.spec_tools import Array, rng, weight_values
from transformula.compiler.cost import costs, rows
from transformula.compiler.decoding import Decoding, derived
from transformula.compiler.decoding.session import Session
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import walk_all
from transformula.compiler.ledger import Ledger
from transformula.compiler.sizes import Sizes

LENGTH = 9


class Fed:
    """A session of the naive evaluator, as `decoders.in_pieces` feeds it; examples that are done stay in it."""

    def __init__(self, made: Compiled, decoding: Decoding, batch: int) -> None:
        weights, more = weight_values(made.formula), decoders.others(made.formula, batch)
        self.session = Session(decoding, weights, more)
        self.rows = np.arange(batch)
        self.batch = batch

    def feed(self, ids: Array, counts: Array, hidden: Array) -> Array:
        tokens, new = np.zeros((self.batch, ids.shape[1]), int), np.zeros(self.batch, int)
        seen = np.ones(tokens.shape, bool)
        tokens[self.rows], new[self.rows], seen[self.rows] = ids, counts, ~hidden
        made: Array = self.session.feed(tokens, new, seen)["logits"]
        return made[self.rows]

    def take(self, rows: Array) -> None:
        self.rows = self.rows[rows]


def pieces() -> st.SearchStrategy[list[list[int]]]:
    """For each of three examples, the numbers of tokens that it is given at a time."""
    one = st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda part: sum(part) <= LENGTH)
    return st.lists(one, min_size=3, max_size=3)


def text(seed: int) -> tuple[Array, Array]:
    """Random tokens, and which of them may be seen: all but the second and the fourth of the first example."""
    visible = np.ones((3, LENGTH), bool)
    visible[0, [1, 3]] = False
    return rng(seed).integers(0, decoders.VOCABULARY, (3, LENGTH)), visible


@pytest.mark.parametrize("name", decoders.CAUSAL)
@settings(max_examples=12, deadline=None)
@given(parts=pieces(), seed=st.integers(0, 99))
def test_any_pieces_give_what_the_whole_text_gives(name: str, parts: list[list[int]], seed: int) -> None:
    made = decoders.program(name).compiled
    assert made.decoding is not None
    tokens, visible = text(seed)
    inside = np.arange(LENGTH) < np.array([[sum(part)] for part in parts])
    wanted = decoders.full(made.formula, tokens, visible & inside, decoders.others(made.formula, 3))
    found = decoders.in_pieces(Fed(made, made.decoding, 3), tokens, visible, parts)
    assert decoders.worst(found, wanted, visible) < 1e-10


@pytest.mark.parametrize("name", decoders.CAUSAL)
def test_every_row_of_a_step_before_any_pass(name: str) -> None:
    """The step as it is derived, of all its new rows and not the last alone."""
    made = compile_graph(decoders.CAUSAL[name], until="formula")
    tokens = "decoder_input_ids" if name == "crossed" else "input_ids"
    step = derived(made.formula, tokens, "logits", Ledger())
    assert step is not None
    more = decoders.others(made.formula, 3)
    ids, _ = text(1)
    wanted = decoders.full(made.formula, ids, np.ones_like(ids, bool), more)
    session = Session(step, weight_values(made.formula), more)
    cuts = [0, 4, 5, 6, 9]
    found = [session.feed(ids[:, a:b])["logits"] for a, b in pairwise(cuts)]
    assert np.abs(np.concatenate(found, 1) - wanted).max() / max(1, np.abs(wanted).max()) < 1e-10


def step_costs(name: str, length: int) -> tuple[int, int]:
    """Scalar operations, and rows through weights, of one token behind `length` others."""
    decoding = decoders.program(name).compiled.decoding
    assert decoding is not None
    sizes = Sizes(1, length, lengths={decoding.new.name: 1})
    return costs(decoding.step, sizes).total.flops, rows(decoding.step, sizes)


def test_the_cost_of_a_step_grows_linearly_with_the_text() -> None:
    counts = [step_costs("gpt", length)[0] for length in (100, 200, 300, 400)]
    growth = np.diff(counts)
    assert len(set(growth)) == 1  # nothing grows with its square
    keys = 2 * 3 * 4 * 2 * 2  # two layers, three heads of width 4, two products, 2 operations each
    assert keys <= growth[0] / 100 < 1.5 * keys  # and the shares of each
    assert step_costs("gpt", 100)[1] == step_costs("gpt", 400)[1]  # rows through weights


def test_the_last_positions_logits_alone() -> None:
    made = decoders.program("gpt").compiled
    assert made.decoding is not None
    (out,) = made.decoding.step.outputs
    assert [str(axis) for axis in out.axes] == ["batch", "vocab"]
    wide = [one for one in walk_all([out.node]) if one.op == "contract" and any(str(a) == "vocab" for a in one.axes)]
    assert wide
    assert all(not any(axis.counted for axis in one.axes) for one in wide)


def test_what_is_kept_is_named_and_told() -> None:
    decoding = decoders.program("rope").compiled.decoding
    assert decoding is not None
    kept = {row.name: (tuple(map(str, row.axes)), row.steps) for row in decoding.kept}
    assert kept == dict.fromkeys(("attn.K", "attn.V"), (("batch", "key", "kv", "dk"), (2,)))  # kv heads, rotated
    told = [line.what for line in decoders.program("rope").compiled.ledger.lines if line.rule == "append"]
    often = "[batch, key, kv, dk] is kept in each step of layers: its rows never change"
    assert told == [f"attn.K{often}", f"attn.V{often}"]


def test_a_window_of_w_needs_the_w_before_less_one() -> None:
    windows = {"window": (2, 2), "own_window": (2, 2), "alternating": (1, 1), "layers_apart": (2, None)}
    for name, wanted in windows.items():
        decoding = decoders.program(name).compiled.decoding
        assert decoding is not None
        assert {row.window for row in decoding.kept} == {wanted}
    for name in ("gpt", "blocks", "stripes", "alibi"):
        decoding = decoders.program(name).compiled.decoding
        assert decoding is not None
        assert {row.window for row in decoding.kept} == {()}


def test_cross_attention_is_computed_once() -> None:
    made = decoders.program("crossed").compiled
    decoding = made.decoding
    assert decoding is not None
    assert decoding.begin is not None
    inputs = [one.name for one in decoding.begin.inputs], [one.name for one in decoding.step.inputs]
    assert inputs == (["input_ids"], ["decoder_input_ids"])
    once = {row.name for row in decoding.kept if row.along is None}
    assert once == {"cross.K", "cross.V", "shared.W"}
    before = rows(decoding.step, Sizes(1, 8, lengths={decoding.new.name: 1, "src": 8}))
    assert before == rows(decoding.step, Sizes(1, 8, lengths={decoding.new.name: 1, "src": 800}))


def test_a_value_that_several_layers_read_is_kept_once() -> None:
    kept = decoders.program("token_mask").compiled.decoding
    assert kept is not None
    assert [row.steps for row in kept.kept if row.kind == "bool"] == [()]


def test_an_input_that_every_token_needs_is_told() -> None:
    given = decoders.CAUSAL["gpt"].replace("as input_ids)", "as input_ids, w[seq] as weights)")
    made = compile_graph(given.replace("E[vocab = tokens]", "w * E[vocab = tokens]"))
    assert made.decoding is None
    assert "each of them needs its weights, too" in str(made.ledger)


def test_a_wrong_step_is_seen() -> None:
    """The law is no tautology: with keys counted from the first new token, results differ."""
    made = decoders.program("gpt").compiled
    assert made.decoding is not None
    from transformula.compiler import ir

    def change(one: ir.Node) -> ir.Node:
        past = one.op == "map" and one["fn"] == "-" and all(arg.op == "size" for arg in one.args)
        return ir.widen_to(ir.const(0), one.axes) if past else one

    wrong = replace(made.decoding, step=made.decoding.step.rewrite(change))
    tokens, visible = text(0)
    wanted = decoders.full(made.formula, tokens, np.ones_like(visible), {})
    found = decoders.in_pieces(Fed(made, wrong, 3), tokens, np.ones_like(visible), [[4, 5]] * 3)
    assert decoders.worst(found, wanted, np.ones_like(visible)) > 1e-3
