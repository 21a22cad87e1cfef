"""Objectives as nn.Modules: memory of a long vocabulary, compilation and export, draws, layouts."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.specs.configs import TINY
from tests.specs.objectives import class_of, random_weights, tensors, torch_module
from transformula.backends.program import compile
from transformula.backends.torch.chunked import product_cross_entropy
from transformula.compiler import reference

BERT = {**TINY, "num_hidden_layers": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]])


def batch(vocab: int, rate: float = 0.5) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    ids = draw.integers(0, vocab, MASK.shape)
    return {"input_ids": ids, "attention_mask": MASK, "labels": np.where(draw.random(MASK.shape) < rate, ids, -100)}


# ------------------------------------------------------------------------------------------------ logits in pieces


def naive(x: Any, table: Any, bias: Any, label: Any, smoothing: float) -> Any:
    z = x @ table.T + (0 if bias is None else bias)
    z, label = z.flatten(0, -2), label.flatten()
    return torch.nn.functional.cross_entropy(z, label, label_smoothing=smoothing, reduction="none")


@pytest.mark.parametrize("most", [1, 40, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("biased", [True, False])
def test_pieces_are_the_whole(most: int, smoothing: float, biased: bool) -> None:
    """Value and gradient, one row at a time, some, and all at once; twice through one graph, too."""
    torch.manual_seed(0)
    made = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4, 5), (13, 5), (13,))]
    x, table, bias = made[0], made[1], made[2] if biased else None
    label, weight = torch.randint(0, 13, (3, 4)), torch.rand(12, dtype=torch.float64)
    given = [one for one in (x, table, bias) if one is not None]
    found = product_cross_entropy(x, table, bias, label, smoothing, most)
    wanted = naive(x, table, bias, label, smoothing)
    torch.testing.assert_close(found.flatten(), wanted, rtol=1e-13, atol=1e-13)
    first = torch.autograd.grad((found.flatten() * weight).sum(), given, retain_graph=True)
    again = torch.autograd.grad((found.flatten() * weight).sum(), given)
    theirs = torch.autograd.grad((wanted * weight).sum(), given)
    for one, two, three in zip(first, again, theirs, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_a_label_that_is_no_place_is_nan_and_no_rows_are_none() -> None:
    x, table = torch.randn(3, 2), torch.randn(5, 2)
    found = product_cross_entropy(x, table, None, torch.tensor([4, 5, -1]))
    assert found.isnan().tolist() == [False, True, True]
    assert product_cross_entropy(x[:0], table, None, torch.zeros(0, dtype=torch.long)).shape == (0,)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the largest tensor along a vocabulary of 997 that an operation makes, the table itself left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, torch.Tensor) and one.shape[-1:] == (997,) and one.shape != (TINY["hidden_size"], 997):
                self.entries = max(self.entries, one.numel())
        return made


def test_logits_of_all_rows_are_never_there() -> None:
    """Forward and backward: 13 rows of 997 words each, at most 2000 numbers of them at a time."""
    made = compile("bert", "torch", {**BERT, "vocab_size": 997}, "mlm", validate=False)
    names = types.ModuleType("made")
    exec(made.source, names.__dict__)
    assert names.__dict__["LOGITS"] == 1 << 24
    names.__dict__["LOGITS"] = 2000
    module = names.__dict__["Model"](dtype=torch.float64)
    given = tensors({**batch(997), "labels": batch(997)["input_ids"]})
    with Largest() as seen:
        module(**given)["loss"].backward()
    assert 997 <= seen.entries <= 2000
    names.__dict__["LOGITS"] = 1 << 24
    with Largest() as seen:
        module(**given)["loss"].backward()
    assert seen.entries == 13 * 997  # the rows that the mask shows


# ---------------------------------------------------------------------------------------------- compiled, exported


@pytest.mark.parametrize("entry", ["mlm", pytest.param("pretraining", marks=pytest.mark.slow)])
def test_one_graph(entry: str) -> None:
    """What an eager call selects, a compiled graph weighs: it cannot know how many rows there are."""
    made = compile("bert", "torch", BERT, entry, validate=False)
    module = torch_module(made, random_weights(made))
    more = {"next_sentence_label": np.array([0, 1, 1])} if entry == "pretraining" else {}
    given = tensors({**batch(31), **more})
    wanted = module(**given)
    compiled = torch.compile(module, fullgraph=True, backend="eager")(**given)
    exported = torch.export.export(module, (), given).module()(**given)
    for name, value in wanted.items():
        torch.testing.assert_close(compiled[name], value, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(exported[name], value, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_a_compiled_graph_has_the_same_gradients() -> None:
    made = compile("bert", "torch", BERT, "mlm", validate=False)
    module = torch_module(made, random_weights(made))
    given = tensors(batch(31))
    module(**given)["loss"].backward()
    wanted = [one.grad.clone() for one in module.parameters() if one.grad is not None]
    module.zero_grad()
    torch.compile(module, fullgraph=True, backend="aot_eager")(**given)["loss"].backward()
    found = [one.grad for one in module.parameters() if one.grad is not None]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_an_objective_is_padded_in_either_layout() -> None:
    """The ledger says why."""
    made = compile("bert", "torch", BERT, "mlm", layout="packed", validate=False)
    assert made.source == compile("bert", "torch", BERT, "mlm", validate=False).source
    assert any("rows of an objective" in line.reason for line in made.ledger.lines if line.rule == "packed")


def test_the_parameters_are_those_of_the_model() -> None:
    """A model's state_dict is the objective's: train the one, use the other."""
    objective = class_of(compile("bert", "torch", BERT, "mlm", validate=False))()
    model = class_of(compile("bert", "torch", BERT, "BertForMaskedLM", validate=False))()
    model.load_state_dict(objective.state_dict())


# ----------------------------------------------------------------------------------------------------------- draws

DRAWS = """\
config
    class = 7

objective o(x[batch, seq], z[batch, seq, class], p[batch]) → loss = mean[batch](s[3]), hit[batch, seq] = h, \
level[batch, seq] = u, whole[batch, seq] = r, chosen[batch, seq] = c
    where h = bernoulli[batch, seq](p)
          u = uniform[batch, seq](x, x + 2)
          r = randint[batch, seq](3, 9)
          c = sample[class](z)
          s[0] = 0 * p
          for t in 0..3:
              s[t + 1] = s[t] + (p if bernoulli[batch](0.5) else 2 * t)
"""


@pytest.mark.parametrize("seed", [0, 7])
def test_draws_are_those_of_the_reference(seed: int) -> None:
    """Each kind, new in each step of a loop, decided by the place in an example, wherever padding stands."""
    draw = np.random.default_rng(1)
    given = {"x": draw.normal(size=MASK.shape), "z": draw.normal(size=(*MASK.shape, 7)), "p": draw.random(3)}
    given["attention_mask"] = MASK
    made = compile(DRAWS, "torch", entry="o", validate=False)
    wanted = reference.run(made.compiled.formula, {}, given, seed=seed)
    found = class_of(made)()(**tensors(given), seed=seed)
    plain = class_of(compile(DRAWS, "numpy", entry="o", validate=False))({}, dtype="float64")(**given, seed=seed)
    assert set(found) == set(plain) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-14, err_msg=name)
        np.testing.assert_allclose(plain[name], value, rtol=1e-14, err_msg=name)
    first = MASK.argmax(axis=1)
    moved = {name: np.stack([np.roll(one, -at, axis=0) for one, at in zip(value, first, strict=True)])
             for name, value in given.items() if name != "p"} | {"p": given["p"]}  # fmt: skip
    again = class_of(made)()(**tensors(moved), seed=seed)
    for row, place in enumerate(first):
        count = int(MASK[row].sum())
        for name in ("hit", "level", "whole", "chosen"):
            torch.testing.assert_close(again[name][row, :count], found[name][row, place : place + count])
