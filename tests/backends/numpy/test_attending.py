"""Attention by examples, and what flows back through it, beside torch: masks, groups, empty texts, dropout, memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.specs.configs import TINY
from tests.specs.objectives import class_of, random_weights
from transformula.backends.numpy import attending
from transformula.backends.numpy.kernels import SCRATCH
from transformula.backends.program import Program, compile

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=3)


def arrays(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape) * 2 for shape in shapes]


def naive(Q: Any, K: Any, V: Any, there: Any, scale: float, bias: Any, kept: Any) -> Any:
    """The formula over all pairs; a row that sees nothing is 0."""
    s = scale * torch.einsum("bqhgd,bkhd->bhgqk", Q, K) + bias
    some = there.any(dim=-1, keepdim=True)
    shares = s.masked_fill(~there & some, float("-inf")).softmax(dim=-1).masked_fill(~there, 0.0)
    return torch.einsum("bhgqk,bkhd->bqhgd", shares * kept, V)


@given(LENGTHS, st.lists(st.integers(0, 5), min_size=3, max_size=3), st.integers(1, 3), st.integers(1, 2), st.data())
def test_heads_and_slopes_are_those_of_the_formula(
    queries: list[int], keys: list[int], heads: int, groups: int, data: st.DataObject
) -> None:
    """Whatever stands at places that are no tokens, numbers or none."""
    count = len(queries)
    n, m, dk, dv = max(queries), max(keys), 3, 2
    shapes = (count, n, heads, groups, dk), (count, m, heads, dk), (count, m, heads, dv), (count, n, heads, groups, dv)
    Q, K, V, g = arrays(data.draw(st.integers(0, 99)), *shapes)
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    seen = draw.random((count, m)) < 0.8
    dims = count, heads, groups, n, m
    part = tuple(data.draw(st.sampled_from((1, size))) if size else size for size in dims)
    see = draw.random((1, 1, 1, *dims[3:])) < 0.7 if data.draw(st.booleans()) else None
    bias = draw.normal(size=part) if data.draw(st.booleans()) else None
    kept = (draw.random(dims) < 0.5) / 0.5 if data.draw(st.booleans()) else None
    own, others = np.array(queries), np.array(keys[:count])
    here, there = (np.arange(size) < lengths[:, None] for size, lengths in ((n, own), (m, others)))
    related = (seen & there)[:, None, None, None] & here[:, None, None, :, None] & (True if see is None else see)
    sides = [torch.tensor(one, requires_grad=True) for one in (Q, K, V)]
    added, dropped = (torch.tensor(value if one is None else one) for one, value in ((bias, 0.0), (kept, 1.0)))
    wanted = naive(sides[0], sides[1], sides[2], torch.tensor(np.broadcast_to(related, dims)), 0.5, added, dropped)
    (wanted * torch.tensor(g * here[:, :, None, None, None])).sum().backward()
    for one, rows in ((Q, ~here), (g, ~here), (K, ~there), (V, ~there)):
        one[rows] = np.nan
    more: dict[str, Any] = {"scale": 0.5, "seen": seen & there, "see": see, "bias": bias, "kept": kept, "threads": 1}
    found = attending.attended(Q, K, V, own, others, **more)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-10, atol=1e-12)
    for slope, side in zip(attending.attended_slopes(g, Q, K, V, own, others, **more), sides, strict=True):
        assert side.grad is not None
        np.testing.assert_allclose(slope, side.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_large_scores_do_not_overflow() -> None:
    """Scores of ±10^4 in single precision, and a row that sees nothing."""
    shapes = (1, 4, 2, 1, 3), (1, 4, 2, 3), (1, 4, 2, 2), (1, 4, 2, 1, 2)
    Q, K, V, g = (one.astype(np.float32) for one in arrays(0, *shapes))
    count = np.array([4])
    see = np.tril(np.ones((4, 4), bool), -1)[None, None, None]
    found = attending.attended(100 * Q, 100 * K, V, count, count, see=see, threads=1)
    slopes = attending.attended_slopes(g, 100 * Q, 100 * K, V, count, count, see=see, threads=1)
    assert all(np.isfinite(one).all() for one in (found, *slopes))
    assert not found[0, 0].any()
    assert not slopes[0][0, 0].any()


def test_any_number_of_threads_gives_the_same() -> None:
    Q, K, V, g = arrays(1, (5, 7, 2, 2, 4), (5, 7, 2, 4), (5, 7, 2, 3), (5, 7, 2, 2, 3))
    count = np.array([7, 0, 3, 1, 6])
    one, three = (attending.attended_slopes(g, Q, K, V, count, count, threads=threads) for threads in (1, 3))
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_pairs_are_never_there() -> None:
    """Of 6 texts of 256 tokens and 8 heads all scores are 12 MB; both ways take 5 at most, beside their results."""
    queries, keys = (6, 256, 8, 1, 8), (6, 256, 8, 8)
    Q, K, V, g = (one.astype(np.float32) for one in arrays(2, queries, keys, keys, queries))
    count = np.full(6, 256)
    SCRATCH.__dict__.clear()
    tracemalloc.start()
    try:
        attending.attended(Q, K, V, count, count, threads=1)
        attending.attended_slopes(g, Q, K, V, count, count, threads=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * Q.nbytes + 5e6 < 6 * 8 * 256 * 256 * 4


# ------------------------------------------------------------------------------------------------- in generated modules

PLAIN = {**TINY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LLAMA = {**TINY, "num_key_value_heads": 1, "head_dim": 4}
GPT2 = {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "mlm", PLAIN),
    "dropout": ("bert", "mlm", {**PLAIN, "attention_probs_dropout_prob": 0.3}),
    "causal": ("gpt2", "causal_lm", GPT2),
    "grouped": ("llama", "causal_lm", LLAMA),
    "window": ("mistral", "causal_lm", {**LLAMA, "sliding_window": 2}),
    "one query": ("bert", "nsp", PLAIN),
    "two lengths": ("bart", "denoising", {"vocab_size": 31, "d_model": 12, "max_position_embeddings": 16,
        **{f"{side}_{name}": value for side in ("encoder", "decoder")
           for name, value in (("layers", 2), ("attention_heads", 3), ("ffn_dim", 20))}}),
}  # fmt: skip


def program(name: str, *without: str) -> Program:
    spec, entry, config = CASES[name]
    return compile(spec, "numpy", config, entry, without=without, gradients=True, validate=False)


def batch(name: str) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    ids = draw.integers(3, 31, mask.shape)
    labels = np.where(draw.random(mask.shape) < 0.6, ids, -100)
    labels = np.array([0, 1, 1, 0]) if name == "one query" else labels
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {**given, "decoder_input_ids": draw.integers(3, 31, mask.shape)} if name == "two lengths" else given


@pytest.mark.parametrize("name", CASES)
def test_by_examples_or_over_the_batch(name: str) -> None:
    """`--without unpad` computes all pairs of a padded batch: the same loss and gradients; the ledger tells both."""
    found = []
    for without in ((), ("unpad",)):
        made = program(name, *without)
        (done,) = made.compiled.gradients or ()
        calls = "attended_slopes(" in made.source.partition("def _gradients")[2].partition("\n    def ")[0]
        told = [line for line in done.ledger.lines if line.rule == "attention" and line.pass_name == "unpad"]
        assert calls == (not without)
        assert [line.fired for line in told] == [True] * (not without)
        model = class_of(made)(random_weights(made), dtype="float64", threads=1)
        found.append(model.loss_and_gradients(**batch(name), **({"seed": 4} if name == "dropout" else {})))
    (loss, gradients), (other, others) = found
    np.testing.assert_allclose(loss, other, rtol=1e-12)
    for key, value in gradients.items():
        np.testing.assert_allclose(value, others[key], rtol=1e-9, atol=1e-13, err_msg=key)


def test_a_bias_that_learns_is_no_such_attention() -> None:
    """What flows to it is of all pairs: T5's distances go through the core graph."""
    config = {"vocab_size": 31, "d_model": 12, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 3}
    made = compile("t5", "numpy", config, "seq2seq", gradients=True, validate=False)
    (done,) = made.compiled.gradients or ()
    slopes = [one for one in done.graph.nodes() if one.op == "kernel" and one["name"] == "attention_slope"]
    assert len({one.args for one in slopes}) == 1  # the decoder's attention to the encoder, which has none
