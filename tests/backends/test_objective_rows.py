"""Objectives on rows of tokens in both backends: what is multiplied, forwards and backwards; padding is nothing."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.specs.configs import TINY
from tests.specs.objectives import gradients, random_weights, tensors, torch_module
from transformula.backends.program import Program, compile
from transformula.compiler import reference

PLAIN = {**TINY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LLAMA = {**TINY, "num_key_value_heads": 1, "head_dim": 4}
SEQ2SEQ = {"vocab_size": 31, "d_model": 16, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
BART = {
    **{"vocab_size": 31, "d_model": 12, "max_position_embeddings": 16, "pad_token_id": 1, "dropout": 0.0},
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 3 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 20 for side in ("encoder", "decoder")},
}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "mlm", PLAIN),
    "llama": ("llama", "causal_lm", LLAMA),
    "answering": ("bert", "answering", PLAIN),
    "window": ("mistral", "causal_lm", {**LLAMA, "sliding_window": 2}),
    "deberta": ("deberta", "mlm", {**PLAIN, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "t5": ("t5", "seq2seq", SEQ2SEQ),
    "bart": ("bart", "denoising", BART),
    "siamese": ("sbert", "regression", PLAIN),
}
LENGTHS = (6, 1, 4, 0)


@cache
def program(name: str, backend: str) -> Program:
    spec, entry, config = CASES[name]
    return compile(spec, backend, config, entry, gradients=backend == "numpy", validate=False)


def numpy_module(name: str) -> tuple[types.ModuleType, Any]:
    names = types.ModuleType("made")
    exec(program(name, "numpy").source, names.__dict__)
    return names, names.__dict__["Model"](random_weights(program(name, "numpy")), dtype="float64", threads=1)


def text(width: int, left: bool, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """ids and mask of four texts, one with a hole and one of nothing, in a batch this wide."""
    draw = np.random.default_rng(shift)
    ids, mask = np.full((4, width), 30), np.zeros((4, width), int)
    for row, count in enumerate(LENGTHS):
        at = slice(width - count, width) if left else slice(0, count)
        ids[row, at], mask[row, at] = draw.integers(1, 30, count), 1
        if count == 4:
            mask[row, at.start + 1] = 0
    return ids, mask


def batch(name: str, width: int = 6, left: bool = False) -> dict[str, Any]:
    ids, mask = text(width, left)
    if name == "siamese":
        other, more = text(width, left, 1)
        return {
            "input_ids": np.stack([ids, other], axis=1),
            "attention_mask": np.stack([mask, more], axis=1),
            "labels": np.array([0.5, 1.0, 0.0, 0.25]),
        }
    if name in ("t5", "bart"):
        labels, seen = text(width, False, 2)
        before = np.concatenate([np.zeros((4, 1), int), np.where(seen == 1, labels, 0)[:, :-1]], axis=1)
        labels = np.where(seen == 1, labels, -100)
        return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": before, "labels": labels}
    if name == "answering":
        first, last = np.array([1, 0, 2, 0]), np.array([4, 0, 3, 0])  # from an example's first token on
        return {"input_ids": ids, "attention_mask": mask, "start_positions": first, "end_positions": last}
    return {"input_ids": ids, "attention_mask": mask, "labels": np.where((mask == 1) & (ids % 2 == 0), ids, -100)}


# ------------------------------------------------------------------------------------------------------- what is there


class Rows(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many rows each matrix product has, weights aside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            left, right = args[-2:]
            self.found.update((left.shape[0], left.shape[1], right.shape[1]))
        return func(*args, **(kwargs or {}))


def multiplied_by_torch(name: str) -> set[int]:
    made = program(name, "torch")
    module = torch_module(made, random_weights(made))
    with Rows() as seen:
        module(**tensors(batch(name)))["loss"].backward()
    found: set[int] = seen.found
    return found


def multiplied_by_numpy(name: str) -> set[int]:
    names, model = numpy_module(name)
    found: set[int] = set()
    product_of = names.__dict__["product_of"]

    def counted(left: Any, right: Any, text: str, threads: int | None = None) -> Any:
        if left.ndim + right.ndim <= 5:  # those of attention have heads on both sides
            found.update((*left.shape, *right.shape))
        return product_of(left, right, text, threads)

    names.__dict__["product_of"] = counted
    model.loss_and_gradients(**batch(name))
    return found


@pytest.mark.parametrize("multiplied", [multiplied_by_torch, multiplied_by_numpy])
@pytest.mark.parametrize(("name", "tokens", "others"), [("mlm", 11, {24}), ("siamese", 22, {48, 24, 11})])
def test_real_tokens_are_multiplied(
    name: str, tokens: int, others: set[int], multiplied: Callable[[str], set[int]]
) -> None:
    """Of 24 places 11 are tokens (a hole is one that nobody sees); of both sides of 4 pairs 22, in one batch."""
    found = multiplied(name)
    assert tokens in found
    assert not found & others


def test_a_batch_without_padding_is_not_copied() -> None:
    """Rows are a view of it there, and it of them."""
    for backend in ("numpy", "torch"):
        names = types.ModuleType("made")
        exec(program("mlm", backend).source, names.__dict__)
        kind: Any = np if backend == "numpy" else torch
        x, rows, columns = kind.arange(24).reshape(2, 3, 4), kind.arange(6) // 3, kind.arange(6) % 3
        taken = names.__dict__["rows_at"](x, rows, columns)
        again = names.__dict__["rows_put_back"](taken, (2, 3), rows, columns)
        assert taken.shape == (6, 4)
        assert again.shape == (2, 3, 4)
        first = np.asarray(x)
        assert np.shares_memory(first, np.asarray(taken))
        assert np.shares_memory(first, np.asarray(again))
        some = names.__dict__["rows_at"](x, rows[[0, 5]], columns[[0, 5]])
        assert np.asarray(some).tolist() == [[0, 1, 2, 3], [20, 21, 22, 23]]
        back = np.asarray(names.__dict__["rows_put_back"](some, (2, 3), rows[[0, 5]], columns[[0, 5]]))
        assert back[0, 0].tolist() == [0, 1, 2, 3]
        assert back.sum() == np.asarray(some).sum()


PAIRED = """spec t
from functions import attention, nll
config
    vocab = 11
    d = 8
    side = 2
    head = 2
    dk = 2
    dv = 3
model M(tokens[seq] as input_ids) → logits[seq, vocab] = (x + heads @ W_O) @[d] E
    where x = E[vocab = tokens]
          heads = attention[key](x @ W_Q, (x @ W_K)[seq → key], (x @ W_V)[seq → key])
    weights E : [vocab, d]
            W_Q : [d → {axes} dk]
            W_K : [d → {axes} dk]
            W_V : [d → {axes} dv]
            W_O : [{axes} dv → d]
objective o of M(labels[batch, seq]) → loss = mean[batch, seq if labels ≠ -100](nll[vocab](logits, labels))
"""


@pytest.mark.parametrize("axes", ["head", "side head", ""])
def test_heads_of_any_axes(axes: str) -> None:
    """One axis of heads, two of them, none: a call on rows, or over the batch, with the same loss and gradients."""
    text = PAIRED.format(axes=axes)
    given = batch("mlm", 6)
    given = {**given, "input_ids": given["input_ids"] % 11, "labels": np.where(given["labels"] < 0, -100, 3)}
    made = compile(text, "torch", entry="o", validate=False)
    assert ("= attention_of_tokens(" in made.source) == (axes == "head")
    weights = random_weights(made)
    module = torch_module(made, weights)
    other = compile(text, "numpy", entry="o", gradients=True)
    names = types.ModuleType("made")
    exec(other.source, names.__dict__)
    loss, _ = names.__dict__["Model"](weights, dtype="float64").loss_and_gradients(**given)
    right = reference.run(made.compiled.formula, weights, given)["loss"]
    np.testing.assert_allclose(float(module(**tensors(given))["loss"].detach()), right, rtol=1e-12)
    np.testing.assert_allclose(loss, right, rtol=1e-12)


# ------------------------------------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize("name", CASES)
def test_padding_is_nothing(name: str) -> None:
    """Left or right, wide or narrow: one loss and one gradient, in PyTorch as in NumPy."""
    made = program(name, "torch")
    module = torch_module(made, random_weights(made))
    _, model = numpy_module(name)
    wanted = gradients(made, module, batch(name))
    loss, stored = model.loss_and_gradients(**batch(name))
    for left, width in ((False, 6), (True, 6), (True, 9), (False, 9)):
        given = batch(name, width, left)
        found = gradients(made, module, given)
        mine, again = model.loss_and_gradients(**given)
        np.testing.assert_allclose(float(module(**tensors(given))["loss"].detach()), loss, rtol=1e-12)
        np.testing.assert_allclose(mine, loss, rtol=1e-12)
        np.testing.assert_allclose(float(model(**given)["loss"]), loss, rtol=1e-12)
        for key, value in wanted.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-13, err_msg=key)
        for key, value in stored.items():
            np.testing.assert_allclose(again[key], value, rtol=1e-9, atol=1e-13, err_msg=key)


@pytest.mark.parametrize("texts", [3, 0])
@pytest.mark.parametrize("name", ["mlm", "answering", "llama", "siamese"])
def test_over_nothing_a_loss_is_nothing(name: str, texts: int) -> None:
    """Texts without a token, and no text at all: 0, and gradients of 0."""
    mask = np.zeros((texts, 2, 4) if name == "siamese" else (texts, 4), int)
    given = {"input_ids": np.ones_like(mask), "attention_mask": mask}
    match name:
        case "siamese":
            given["labels"] = np.zeros(texts)
        case "answering":
            given |= {"start_positions": np.zeros(texts, int), "end_positions": np.zeros(texts, int)}
        case _:
            given["labels"] = np.zeros_like(mask)
    made = program(name, "torch")
    module = torch_module(made, random_weights(made))
    _, model = numpy_module(name)
    loss, stored = model.loss_and_gradients(**given)
    found = module(**tensors(given))["loss"]
    assert float(found.detach()) == float(model(**given)["loss"]) == loss == 0
    assert not any(one.any() for one in stored.values())
    assert not found.requires_grad or not any(one.any() for one in gradients(made, module, given).values())


@pytest.mark.parametrize("name", ["mlm", pytest.param("siamese", marks=pytest.mark.slow)])
def test_dropout_draws_for_tokens(name: str) -> None:
    """In training mode PyTorch draws for rows: what stands at padding draws nothing, so seeds give the same losses."""
    spec, entry, config = CASES[name]
    made = compile(spec, "torch", {**config, "hidden_dropout_prob": 0.3}, entry, validate=False)
    module = torch_module(made, random_weights(made)).train()

    def loss(seed: int, width: int, left: bool) -> float:
        torch.manual_seed(seed)
        return round(float(module(**tensors(batch(name, width, left)))["loss"].detach()), 10)

    assert len({loss(0, *where) for where in ((6, False), (6, True), (9, True))}) == 1
    assert loss(0, 6, False) != loss(1, 6, False)


@pytest.mark.parametrize("name", ["mlm", "siamese"])
def test_a_compiled_graph_has_all_places_and_the_same_gradients(name: str) -> None:
    """It cannot know how many tokens there are."""
    made = program(name, "torch")
    module = torch_module(made, random_weights(made))
    wanted = gradients(made, module, batch(name))
    found = gradients(made, torch.compile(module, fullgraph=True, backend="aot_eager"), batch(name))  # type: ignore[arg-type]
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12, err_msg=key)
