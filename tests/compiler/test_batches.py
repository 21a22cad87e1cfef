"""The law: an example in any batch, padded on any side, gives what it gives alone."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.spec_tools import Array, close, lowered, rng, run, value, weight_values
from transformula.compiler.ir import Graph

SMALL = {"vocab": 11, "d": 8, "layers": 2, "head": 2, "ffn": 12, "place": 16}
CAUSAL = """\
from functions import attention, causal, softmax
config
    vocab = 11
    d = 4
    head = 2
    dk = 2
    layers = 2
    place = 16
block Attention(x[seq, d]) → [seq, d] = attention[key if causal](x @ W_Q, m @ W_K, m @ W_V) @ W_O
    where m = x[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]
block Layer(x[seq, d]) → [seq, d] = x + attn(x / (1 + ‖x‖[d]))
    uses attn : Attention
model Gpt(tokens[seq] as input_ids) → logits[seq, vocab] = y @[d] E, last[d] = y[seq = seq - 1]
    where
        h[0] = E[vocab = tokens] + P[place = position(seq)]
        for l in layers:
            h[l + 1] = layer[l](h[l])
        y = h[layers]
    uses layer[layers] : Layer
    weights E : [vocab, d]
            P : [place, d]
"""
POOLED = """\
from functions import softmax
config
    vocab = 11
    d = 4
model Pool(t[seq] as input_ids) → m[d] = m, z[d] = z, c[d] = c, u[d] = u, n[] = seq, r[seq] = r, y[seq, d] = y
    where m = mean[seq](x)
          z = max[seq](x)
          c = x[seq = 0]
          u = sum[seq](a ⊙ x)
          r = rank[seq](x[d = 0])
          y = sum[k: k](x[seq = index(seq) + k - 1 else 0])
          x = E[vocab = t]
          a = softmax[seq](x @[d] w)
    weights E : [vocab, d]
            w : [d]
axes k = 3
"""
MODELS: dict[str, Callable[[], Graph]] = {
    "bert": lambda: lowered("bert", "Bert", None, **SMALL),
    "sbert": lambda: lowered("sbert", "SentenceBert", None, **SMALL),
    "causal": lambda: lowered(CAUSAL),
    "pooled": lambda: lowered(POOLED),
}
_made: dict[str, tuple[Graph, dict[str, Array]]] = {}


def model(name: str) -> tuple[Graph, dict[str, Array]]:
    if name not in _made:
        graph = MODELS[name]()
        _made[name] = graph, weight_values(graph)
    return _made[name]


def law(name: str, mask: Array) -> None:
    """Each example of a random batch under this mask equals itself alone, its hidden edges cut off."""
    graph, weights = model(name)
    tokens = rng(7).integers(0, 11, mask.shape)
    found = run(graph, weights, input_ids=tokens, attention_mask=mask)
    for row, seen in enumerate(mask.astype(bool)):
        if not seen.any():
            assert all((v[row] == 0).all() for v in found.values())
            continue
        first, last = seen.argmax(), len(seen) - seen[::-1].argmax()
        alone = run(
            graph,
            weights,
            input_ids=tokens[row : row + 1, first:last],
            attention_mask=mask[row : row + 1, first:last],
        )
        for key, wanted in alone.items():
            whole = found[key][row]
            if whole.shape[:1] == seen.shape:
                assert (np.delete(whole, np.arange(first, last), 0) == 0).all()
                whole = whole[first:last]
            close(whole, wanted[0], 1e-10)


CASES = {
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]],
    "mixed": [[0, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 1]],
    "holes": [[1, 0, 1, 1, 1], [0, 1, 0, 0, 1], [1, 1, 1, 0, 1]],
    "empty": [[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0]],
    "all empty": [[0, 0], [0, 0], [0, 0]],
    "length one": [[1], [1], [1]],
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mask", CASES.values(), ids=CASES)
def test_an_example_in_a_batch_is_the_example_alone(name: str, mask: list[list[int]]) -> None:
    law(name, np.array(mask))


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_under_any_mask(mask: list[list[bool]]) -> None:
    law("causal", np.array(mask))
    law("pooled", np.array(mask))


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_the_batch_is_the_order_of_the_results(name: str) -> None:
    graph, weights = model(name)
    tokens, mask, order = rng(7).integers(0, 11, (3, 5)), np.array(CASES["mixed"]), [2, 0, 1]
    found = run(graph, weights, input_ids=tokens, attention_mask=mask)
    again = run(graph, weights, input_ids=tokens[order], attention_mask=mask[order])
    for key, wanted in found.items():
        close(again[key], wanted[order], 1e-12)


def test_what_stands_under_padding_does_not_matter() -> None:
    graph, weights = model("bert")
    tokens, mask = rng(7).integers(0, 11, (3, 5)), np.array(CASES["right"])
    other = np.where(mask == 1, tokens, 10)
    for key, wanted in run(graph, weights, input_ids=tokens, attention_mask=mask).items():
        close(run(graph, weights, input_ids=other, attention_mask=mask)[key], wanted, 0)


def test_a_hole_is_a_key_that_nobody_may_see() -> None:
    """Not the same as cutting it out: the positions behind it keep their numbers."""
    text = (
        "from functions import softmax\n"
        "model M(x[seq]) → [seq] = sum[key](softmax[key](0 * x[seq → key] + 0 * x) "
        "* x[seq → key]) + 100 * position(seq)\n"
    )
    text = text.replace(
        "sum[key](softmax[key](0 * x[seq → key] + 0 * x) * x[seq → key])", "mean[key](x[seq → key]) + 0 * x"
    )
    found = value(text, x=[[1.0, 50, 3]], attention_mask=[[1, 0, 1]])
    close(found, [[2.0, 102, 202]])


def test_cls_under_left_padding() -> None:
    """BL-31"""
    text = "config\n    d = 1\nmodel M(x[seq]) → [] = x[seq = 0]\n"
    close(
        value(text, x=[[9.0, 9, 5, 6], [1, 2, 3, 4]], attention_mask=[[0, 0, 1, 1], [1, 1, 1, 1]]), [5.0, 1.0]
    )


def test_a_mean_over_padding_and_over_nothing() -> None:
    """BL-30"""
    text = "config\n    d = 2\nmodel M(x[seq, d]) → [d] = mean[seq](x)\n"
    x = np.array([[[1.0, 2], [3, 4], [9, 9]], [[9, 9], [9, 9], [9, 9]]])
    close(value(text, x=x, attention_mask=[[1, 1, 0], [0, 0, 0]]), [[2.0, 3.0], [0.0, 0.0]])


def test_two_lengths_have_two_masks() -> None:
    text = (
        "model M(x[seq] as input_ids, y[tgt] as decoder_input_ids) → x[] = mean[seq](x), "
        "y[tgt] = y - mean[tgt](y)\n"
    )
    found = run(
        text,
        input_ids=[[1.0, 3, 9], [5, 5, 5]],
        attention_mask=[[1, 1, 0], [1, 1, 1]],
        decoder_input_ids=[[2.0, 4], [7, 9]],
        decoder_attention_mask=[[1, 1], [1, 0]],
    )
    close(found["x"], [2.0, 5.0])
    close(found["y"], [[-1.0, 1.0], [0.0, 0.0]])


def test_position_ids_belong_to_the_first_length() -> None:
    text = (
        "model M(x[seq] as input_ids, y[tgt] as decoder_input_ids) → "
        "x[seq] = 0 * x + position(seq), y[tgt] = 0 * y + position(tgt)\n"
    )
    found = run(text, input_ids=[[0, 0, 0]], decoder_input_ids=[[0, 0]], position_ids=[[5, 6, 7]])
    close(found["x"], [[5.0, 6, 7]])
    close(found["y"], [[0.0, 1]])


def test_an_empty_sequence() -> None:
    text = "model M(x[seq] as input_ids) → mean[] = mean[seq](x), same[seq] = x + 1\n"
    found = run(text, input_ids=np.zeros((2, 0)))
    close(found["mean"], [0.0, 0.0])
    assert found["same"].shape == (2, 0)


OBJECTIVE = """\
from functions import nll
config
    vocab = 11
    d = 4
    ignore = -100
block Head(t[seq]) → [seq, vocab] = E[vocab = t] @ W
    weights E : [vocab, d]
            W : [d → vocab]
objective lm(tokens[batch, seq] as input_ids, labels[batch, seq]) → loss = mean[batch, seq if use](losses)
    where use = labels ≠ ignore
          losses = nll[vocab](head(tokens), labels)
    uses head : Head
"""


@pytest.mark.parametrize(
    "mask",
    [v for k, v in CASES.items() if k not in ("all empty",)],
    ids=[k for k in CASES if k != "all empty"],
)
def test_an_objective_is_the_mean_over_all_real_tokens(mask: list[list[int]]) -> None:
    seen = np.array(mask, bool)
    tokens, labels = rng(1).integers(0, 11, seen.shape), rng(2).integers(0, 11, seen.shape)
    labels = np.where(rng(3).random(seen.shape) < 0.3, -100, labels)
    graph = lowered(OBJECTIVE, "lm")
    w = weight_values(graph)
    z = w["head.E"][tokens] @ w["head.W"]
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    use = seen & (labels != -100)
    losses = -np.take_along_axis(log_p, np.maximum(labels, 0)[..., None], 2)[..., 0]
    close(
        value(graph, w, input_ids=tokens, labels=labels, attention_mask=seen),
        losses[use].sum() / max(use.sum(), 1),
    )


def test_the_size_of_a_length_is_one_per_example_in_an_objective() -> None:
    """position + 1 < seq with the padded width would count one place too many in each short example."""
    text = "objective O(x[batch, seq] as input_ids) → = sum[batch, seq if index(seq) + 1 < seq](x)\n"
    x = np.array([[1.0, 2, 4], [8, 16, 99]])
    close(value(text, input_ids=x, attention_mask=[[1, 1, 1], [1, 1, 0]]), 1.0 + 2 + 8)


def test_the_next_token_of_an_example() -> None:
    text = (
        "from functions import shift\n"
        "objective O(x[batch, seq] as input_ids) → [batch, seq] = shift[seq](x, 1, -100)\n"
    )
    x = np.array([[1, 2, 3, 4], [5, 6, 0, 0]])
    found = value(text, input_ids=x, attention_mask=[[1, 1, 1, 1], [1, 1, 0, 0]])
    close(found[0], [2.0, 3, 4, -100])
    close(found[1, :2], [6.0, -100])


def test_renaming_the_batch_takes_the_lengths_along() -> None:
    """In-batch negatives: the lengths of the documents belong to `candidate` then."""
    text = (
        "objective O(x[batch, seq] as input_ids) → [batch, candidate] = mean[seq](x) "
        "- m[batch → candidate]\n    where m = mean[seq](x)\n"
    )
    text = text.replace(
        "[batch, candidate] = mean[seq](x) - m[batch → candidate]", "[batch, candidate] = t"
    ).replace("    where m", "    where t[batch, candidate] = m - m[batch → candidate]\n          m")
    x, mask = np.array([[1.0, 3, 9], [5, 9, 9]]), np.array([[1, 1, 0], [1, 0, 0]])
    close(value(text, input_ids=x, attention_mask=mask), [[0.0, -3.0], [3.0, 0.0]])


def test_late_interaction_over_all_pairs() -> None:
    """For each pair (batch, candidate): the sum over query tokens of the best match in the document."""
    text = (
        "config\n    d = 2\n"
        "objective O(q[batch, left, d], p[batch, right, d]) → [batch, candidate] = "
        "sum[left](max[right](s))\n"
        "    where s = q @[d] p[batch → candidate]\n"
    )
    q, p = rng(1).normal(size=(2, 3, 2)), rng(2).normal(size=(2, 4, 2))
    pm, qm = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool), np.array([[1, 1, 0], [1, 1, 1]], bool)
    s = np.einsum("bld,crd->bclr", q, p)
    best = np.where(pm[None, :, None, :], s, -np.inf).max(-1)
    close(
        value(text, q=q, p=p, attention_mask=qm, decoder_attention_mask=pm),
        np.where(qm[:, None], best, 0).sum(-1),
    )


def test_a_scan_keeps_the_law() -> None:
    text = (
        "model M(x[seq] as input_ids) → [] = s[seq]\n    where\n"
        "        s[0] = 0 * x[seq = 0]\n        for t in seq:\n"
        "            s[t + 1] = s[t] / 2 + x[seq = t]\n"
    )
    x, mask = rng(1).normal(size=(2, 4)), np.array([[1, 1, 1, 1], [0, 1, 1, 0]])
    found = value(text, input_ids=x, attention_mask=mask)
    close(found[1:], value(text, input_ids=x[1:, 1:3]))


def test_wrong_inputs_are_told_by_name() -> None:
    from transformula.grammar.diagnostics import TransformulaError

    graph, weights = model("bert")
    ids = np.zeros((1, 3), int)
    for inputs, code in (
        ({"input_ids": ids, "foo": ids}, "R901"),
        ({}, "R902"),
        ({"input_ids": ids[0]}, "R903"),
        ({"input_ids": ids, "attention_mask": ids[:, :2]}, "R903"),
        ({"input_ids": ids, "token_type_ids": ids[:, :2]}, "R903"),
        ({"input_ids": ids + 11}, "I801"),
        ({"input_ids": np.zeros((1, 17), int)}, "I801"),
    ):
        with pytest.raises(TransformulaError) as caught:
            run(graph, weights, **inputs)
        assert caught.value.diagnostics[0].code == code
