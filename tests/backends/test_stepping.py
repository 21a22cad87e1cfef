"""The steps of generated modules: any pieces of a text give what the whole text gives, alone or in a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler import decoders, zoo
from tests.compiler.decoding.test_derive import LENGTH, pieces, text
from tests.compiler.spec_tools import Array, weight_values
from transformula.backends.program import Program
from transformula.backends.torch.loading import fill

LAYOUTS = ("numpy", "padded", "packed")
WRITTEN = [(name, layout) for name in decoders.CAUSAL for layout in LAYOUTS[:2]]
WRITTEN += [("gpt", "packed"), ("crossed", "packed")]
"""The two layouts of torch have one step."""
Feeding = Callable[[int], decoders.Feeds]


class Tensors:
    """A torch decoder that is fed arrays."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder

    def feed(self, ids: Array, counts: Array | None, hidden: Array | None) -> Array:
        whole = counts is None or (counts == ids.shape[1]).all()
        gone = None if hidden is None or not hidden.any() else torch.from_numpy(hidden)
        made: torch.Tensor = self.decoder.feed(torch.from_numpy(ids), None if whole else torch.from_numpy(counts), gone)
        return np.asarray(made.numpy())

    def take(self, rows: Array) -> None:
        self.decoder.take(torch.from_numpy(rows))


@cache
def built(name: str, layout: str) -> tuple[Program, Any]:
    """A program and its module in float64."""
    made = decoders.program(name, "numpy" if layout == "numpy" else "torch", None if layout == "numpy" else layout)
    if layout == "numpy":
        return made, zoo.model(made)
    module = zoo.module(made.source)["Model"](dtype=torch.float64)
    fill(made, module, weight_values(made.compiled.formula))
    return made, module.eval()


def decoder(name: str, layout: str, batch: int, room: int) -> decoders.Feeds:
    """A batch to decode, with room for few tokens at first."""
    made, module = built(name, layout)
    more: dict[str, Any] = decoders.others(made.compiled.formula, batch)
    if layout != "numpy":
        tensors = {name: torch.from_numpy(value) for name, value in more.items()}
        return Tensors(module.decoder(**tensors, room=room))
    found: decoders.Feeds = module.decoder(**more, **({} if more else {"examples": batch}), room=room)
    return found


@pytest.mark.parametrize(("name", "layout"), WRITTEN)
@settings(max_examples=5, deadline=None)
@given(parts=pieces(), room=st.integers(1, 12))
def test_any_pieces_give_what_the_whole_text_gives(name: str, layout: str, parts: list[list[int]], room: int) -> None:
    formula = built(name, layout)[0].compiled.formula
    tokens, visible = text(room)
    inside = np.arange(LENGTH) < np.array([[sum(part)] for part in parts])
    wanted = decoders.full(formula, tokens, visible & inside, decoders.others(formula, 3))
    found = decoders.in_pieces(decoder(name, layout, 3, room), tokens, visible, parts)
    assert decoders.worst(found, wanted, visible) < 1e-10


@pytest.mark.parametrize(("name", "layout"), WRITTEN)
def test_texts_of_one_length(name: str, layout: str) -> None:
    """Where all examples are alike there is no mask; one example alone gives the same."""
    formula = built(name, layout)[0].compiled.formula
    tokens, visible = text(2)[0], np.ones((3, LENGTH), bool)
    wanted = decoders.full(formula, tokens, visible, decoders.others(formula, 3))
    for cuts in ([4, 1, 1, 3], [1] * LENGTH, [LENGTH]):
        found = decoders.in_pieces(decoder(name, layout, 3, 4), tokens, visible, [cuts] * 3)
        assert decoders.worst(found, wanted, visible) < 1e-10
    made = decoder(name, layout, 1, 4)
    found = decoders.in_pieces(made, tokens[:1], visible[:1], [[5, 1, 3]])
    assert decoders.worst(found, wanted[:1], visible[:1]) < 1e-10


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["gpt", "window", "crossed", "shaw"])
def test_examples_that_are_taken_several_times(name: str, layout: str) -> None:
    """As beams are: each goes on by itself."""
    formula = built(name, layout)[0].compiled.formula
    tokens, _ = text(4)
    made = decoder(name, layout, 3, 4)
    made.feed(tokens[:, :4], np.array([4, 4, 4]), np.zeros((3, 4), bool))
    rows = np.array([2, 0, 2])
    made.take(rows)
    other = np.concatenate([tokens[rows, :4], tokens[:, 4:6]], axis=1)
    more = {key: value[rows] for key, value in decoders.others(formula, 3).items()}
    wanted = decoders.full(formula, other, np.ones_like(other, bool), more)
    found = made.feed(other[:, 4:5], np.ones(3, int), np.zeros((3, 1), bool))
    assert np.abs(found - wanted[:, 4]).max() / max(1, np.abs(wanted).max()) < 1e-10
    found = made.feed(other[:, 5:6], np.ones(3, int), np.zeros((3, 1), bool))
    assert np.abs(found - wanted[:, 5]).max() / max(1, np.abs(wanted).max()) < 1e-10


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_a_window_of_three_keeps_two_old_rows(layout: str) -> None:
    """Those before are gone as soon as their place is needed; layers that see all keep all."""
    for name, windows in (("window", {2}), ("layers_apart", {2})):
        made = decoder(name, layout, 2, 64)
        tokens = text(7)[0][:2]
        for place in range(LENGTH):
            made.feed(tokens[:, place : place + 1], np.ones(2, int), np.zeros((2, 1), bool))
        inner: Any = made.decoder if isinstance(made, Tensors) else made
        rows = inner.rows
        assert set(rows.bands) == windows
        band = rows.bands[2]
        assert band.room <= 2 * 2 + 1
        assert int(band.stored.max()) <= band.room
        assert band.values
        kept = {key[1] for key in rows.values}  # layers whose rows are all there
        assert kept == (set() if name == "window" else {1})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_token_outside_the_table_is_told(layout: str) -> None:
    with pytest.raises(ValueError, match=r"a new token .*19"):
        decoder("gpt", layout, 1, 4).feed(np.array([[3, 20]]), np.array([2]), np.zeros((1, 2), bool))


def test_steps_are_packed_where_attention_is_known() -> None:
    packed = {"gpt", "page", "rope", "window", "own_window", "alternating", "blocks", "alibi", "token_mask", "crossed"}
    for name in decoders.CAUSAL:
        made = decoders.program(name)
        assert made.source
        (line,) = [one for one in made.ledger.lines if one.rule == "step"]
        if name in packed:
            assert line.fired, name
        assert line.fired or line.reason
        assert ("def step_of" in made.source) == (not line.fired)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_that_looks_ahead_has_no_step(layout: str) -> None:
    made = decoders.compile(decoders.AHEAD["all"][0], "numpy" if layout == "numpy" else "torch")
    assert "def step" not in made.source
    assert "Cache" not in made.source
