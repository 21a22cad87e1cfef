"""Generated modules in training: the reference's values for the reference's draws, and draws that are independent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.backends.torch.test_module import tensors
from tests.compiler import test_dropout, zoo
from tests.compiler.spec_tools import Array, rng
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill
from transformula.compiler import reference
from transformula.compiler.evaluate import Evaluator, align
from transformula.compiler.ir import Node

WHOLE = np.ones((2, 7), int)
SPECS = [*test_dropout.SPECS, *test_dropout.SHIPPED]


def compiled(name: str) -> Program:
    """A model of tests/compiler/test_dropout.py, or a text, for torch."""
    if name not in SPECS:
        return compile(name, "torch")
    if name in test_dropout.SPECS:
        return compile(test_dropout.SPECS[name], "torch")
    config = test_dropout.RELATIVE if "deberta" in name else {}
    return compile(name, "torch", config, "Bert", {**test_dropout.SHIPPED[name], **test_dropout.SMALL})


def module(made: Program, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The generated module with the zoo's weights, in training."""
    found: nn.Module = zoo.module(made.source)["Model"](dtype=dtype)
    fill(made, found, zoo.weight_values(made.compiled.formula, 0))
    assert found.training
    return found


def called(one: nn.Module, given: dict[str, Array], seed: int | None = None) -> dict[str, Array]:
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        return {name: value.numpy() for name, value in one(**tensors(given)).items()}


# --- the reference's draws -----------------------------------------------------------------------------------

Kept = tuple[Node, Array]
"""A draw of the reference, and which entries it keeps."""


@contextmanager
def noted(found: list[Kept]) -> Iterator[None]:
    """Notes each draw that the evaluator makes."""
    drawn = Evaluator._random

    def note(self: Evaluator, one: Node, args: list[Array]) -> Array:
        rate = align(args[1], one.args[1].axes, one.axes)
        found.append((one, self._numbers(one, one.axes) >= rate))
        return drawn(self, one, args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluator, "_random", note)
        yield


@contextmanager
def given_draws(left: list[Kept]) -> Iterator[None]:
    """Functions of torch that keep what the reference kept, in the same order."""

    def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        _, kept = left.pop(0)
        assert training
        if tuple(x.shape) != kept.shape:  # other dimensions first: all have sizes of their own
            assert sorted(x.shape) == sorted(set(kept.shape))
            kept = kept.transpose([kept.shape.index(size) for size in x.shape])
        return x * torch.from_numpy(np.array(kept)) / (1 - p)

    fused = F.scaled_dot_product_attention

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **how: Any) -> torch.Tensor:
        if "dropout_p" not in how:
            return fused(q, k, v, **how)
        one, kept = left.pop(0)
        batch, *rest = (axis.name for axis in one.axes)
        order = [batch, *(name for name in rest if name not in ("seq", "key")), "seq", "key"]
        mask = np.array(kept).transpose([[batch, *rest].index(name) for name in order])
        bias = how.get("attn_mask")
        if how.get("is_causal"):
            assert bias is None
            bias = torch.ones((q.shape[-2], k.shape[-2]), dtype=torch.bool).tril()
        scores = q @ k.mT * how["scale"]
        if bias is not None:
            scores = scores.masked_fill(~bias, -torch.inf) if bias.dtype == torch.bool else scores + bias
        assert mask.shape == scores.shape
        weights = scores.softmax(-1) * torch.from_numpy(mask) / (1 - how["dropout_p"])
        return torch.matmul(weights, v)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "dropout", dropout)
        patch.setattr(F, "scaled_dot_product_attention", attention)
        yield


@pytest.mark.parametrize("name", SPECS)
def test_for_the_same_draws_the_values_are_those_of_the_formulas(name: str) -> None:
    """Sites, rates, scales and what each draw goes into, in loops and inside attention."""
    made, given = compiled(name), {"input_ids": zoo.inputs(name)["input_ids"][:2, :7]}
    found: list[Kept] = []
    with noted(found):
        wanted = reference.run(made.compiled.formula, zoo.weight_values(made.compiled.formula), given, 3, True)
    assert found
    with given_draws(found):
        assert zoo.difference(called(module(made), given), wanted) < 1e-11
    assert not found


@pytest.mark.parametrize("name", SPECS)
def test_in_eval_mode_nothing_is_drawn(name: str) -> None:
    made, given = compiled(name), zoo.inputs(name)
    one = module(made).eval()
    wanted = zoo.reference_results(made.compiled.formula, given)
    assert zoo.difference(called(one, given), wanted) < 1e-11
    assert zoo.difference(called(one, given), called(one, given)) == 0
    assert zoo.difference(called(one.train(), given), wanted) > 1e-3


@pytest.mark.parametrize("name", SPECS)
def test_each_call_draws_anew(name: str) -> None:
    one, given = module(compiled(name)), zoo.inputs(name)
    first, second = called(one, given, seed=1), called(one, given)
    assert zoo.difference(first, second) > 1e-3
    assert zoo.difference(called(one, given, seed=1), first) == 0
    assert zoo.difference(called(copy.deepcopy(one), given, seed=1), first) == 0


@pytest.mark.parametrize("name", ["layers", "loop in a loop", "same each step", "bert", "deberta"])
def test_each_site_and_each_layer_has_its_own_draw(name: str) -> None:
    made, dropout = compiled(name), F.dropout
    found: list[Array] = []
    drawn: list[Kept] = []

    def note(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        kept = dropout(torch.ones_like(x), p, training)
        found.append(kept.numpy() > 0)
        return x * kept

    with noted(drawn):
        given = {"input_ids": zoo.inputs(name)["input_ids"][:2, :7]}
        reference.run(made.compiled.formula, zoo.weight_values(made.compiled.formula), given, 0, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "dropout", note)
        called(module(made), given)
    fused = made.source.count("dropout_p=")
    assert len(found) >= 3
    assert (len(found) < len(drawn)) == (fused > 0)
    for place, one in enumerate(found):
        assert not any(one.shape == other.shape and (one == other).all() for other in found[:place])


# --- how much is dropped -------------------------------------------------------------------------------------

SQUARE = """spec s
from functions import attention
config
    d = 64
    dk = d
model M(x[seq, d] as inputs, v[seq, d] as values) → y[seq, d] = {}
"""
ATTEND = SQUARE.format("attention[key, dk](x[d → dk], x[d → dk][seq → key], v[seq → key], drop = {})")
"""Over 64 equal keys and the unit vectors as values, the results are the weights."""


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("inside", [False, True], ids=["dropout", "attention"])
def test_share_and_scale(p: float, inside: bool) -> None:
    """The share of zeros lies within 5 standard deviations of p, and what is left is divided by 1 - p."""
    text = ATTEND.format(p) if inside else SQUARE.format(f"dropout(x + v, {p})")
    eye = np.broadcast_to(np.eye(64), (50, 64, 64)).copy()
    given = {"inputs": np.zeros_like(eye), "values": eye if inside else np.ones_like(eye)}
    assert ("dropout_p=" in compile(text, "torch").source) == inside
    found = called(module(compile(text, "torch")), given, seed=0)["y"]
    share = (found == 0).mean()
    assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / found.size)
    np.testing.assert_allclose(found[found != 0], (1 / 64 if inside else 1) / (1 - p), rtol=1e-12)
    assert abs((found == 0).mean(axis=(1, 2)).std() - np.sqrt(p * (1 - p) / 64**2)) < 0.003  # example by example


# --- gradients -----------------------------------------------------------------------------------------------


def test_the_gradient_has_the_mask_of_the_values() -> None:
    one = module(compile(SQUARE.format("dropout(x * v, 0.3)"), "torch"))
    x = torch.from_numpy(rng(1).normal(size=(3, 5, 64)) + 9).requires_grad_()
    v = torch.from_numpy(rng(2).normal(size=(3, 5, 64)) + 9)
    y = one(inputs=x, values=v)["y"]
    torch.autograd.backward([y.sum()])
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (y / x).detach())
    assert 0 < (x.grad == 0).double().mean() < 1


def test_the_gradient_of_attention_has_the_mask_of_the_values() -> None:
    """y = A v with v = 1 at the diagonal shows A; the gradient of v is Aᵀ times what comes in."""
    one = module(compile(ATTEND.format(0.4), "torch"))
    x, coming = torch.from_numpy(rng(1).normal(size=(2, 64, 64))), torch.from_numpy(rng(2).normal(size=(2, 64, 64)))
    v = torch.eye(64, dtype=torch.float64).expand(2, 64, 64).clone().requires_grad_()
    weights = one(inputs=x, values=v)["y"]
    torch.autograd.backward([(weights * coming).sum()])
    assert v.grad is not None
    torch.testing.assert_close(v.grad, weights.detach().mT @ coming)
    assert 0.35 < (weights == 0).double().mean() < 0.45


@pytest.mark.parametrize(("name", "dtype"), [*((name, torch.float64) for name in SPECS), ("bert", torch.bfloat16)])
def test_gradients_are_numbers_though_a_row_is_empty(name: str, dtype: torch.dtype) -> None:
    one = module(compiled(name), dtype)
    torch.manual_seed(0)
    found = one(**tensors(zoo.inputs(name)))
    torch.autograd.backward([value.square().sum() for value in found.values()])
    for weight, parameter in one.named_parameters():
        if parameter.grad is not None:
            assert torch.isfinite(parameter.grad).all(), weight
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in one.parameters())


WEIGHTED = """spec s
from functions import Φ
config
    d = 5
model M(x[seq, d] as inputs) → y[seq, d] = {}
    weights w : [d]
"""
STOPPED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "w * stop(w * x)": lambda x, w: w * (w * x).detach(),
    "stop(w) * x + w": lambda x, w: w.detach() * x + w,
    "u * Φ(stop(u))\n    where u = w * x": lambda x, w: x * w * (1 + torch.erf((x * w).detach() / 2**0.5)) / 2,
    "exp(u - stop(max[d](u))) / sum[d](exp(u - stop(max[d](u))))\n    where u = w * x": (
        lambda x, w: (x * w).softmax(-1)),
    "exp(u) / stop(sum[d](exp(u)))\n    where u = w * x": (
        lambda x, w: (x * w).exp() / (x * w).exp().sum(-1, True).detach()),
    "w * stop(d) * x": lambda x, w: w * 5 * x,
}  # fmt: skip


@pytest.mark.parametrize("formula", STOPPED)
def test_no_gradient_passes_a_stop(formula: str) -> None:
    made = compile(WEIGHTED.format(formula), "torch")
    one = module(made)
    assert made.source.count(".detach()") == ("stop" in formula and "stop(d)" not in formula and "max" not in formula)
    x, coming = torch.from_numpy(rng(1).normal(size=(2, 3, 5))), torch.from_numpy(rng(2).normal(size=(2, 3, 5)))
    found = one(inputs=x)["y"]
    torch.autograd.backward([(found * coming).sum()])
    (w,) = one.parameters()
    other = w.detach().clone().requires_grad_()
    wanted = STOPPED[formula](x, other)
    torch.autograd.backward([(wanted * coming).sum()])
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(w.grad, other.grad)


# --- what is dropped, and by what ----------------------------------------------------------------------------

SHAPES = """spec s
config
    d = 6
    stream = 40
    layers = 3
model M(x[seq, d] as inputs) → {}
    weights w : [d]
"""


def shown(result: str, rows: int = 4) -> Array:
    """The first result for ones."""
    one = module(compile(SHAPES.format(result).replace("weights w : [d]", "weights w : [d] ~ 1"), "torch"))
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.fill_(1.0)
    return next(iter(called(one, {"inputs": np.ones((rows, 9, 6))}, seed=2).values()))


def test_a_parameter_is_dropped_once_for_all() -> None:
    found = shown("y[seq, d] = x * dropout(w, 0.5)")
    assert set(np.unique(found)) == {0.0, 2.0}
    assert (found == found[:1, :1]).all()


def test_what_is_the_same_along_an_axis_is_drawn_along_it() -> None:
    found = shown("y[seq, d, stream] = dropout(x[→ stream], 0.5)")
    assert set(np.unique(found)) == {0.0, 2.0}
    assert found.std(axis=-1).min() > 0.5


def test_whole_numbers_and_plain_numbers_are_dropped() -> None:
    found = shown("y[seq] = dropout(index(seq) + 1, 0.5)")
    assert ((found == 0) | (found == 2 * np.arange(1, 10))).all()
    assert 0 < (found == 0).mean() < 1
    assert set(np.unique(shown("y[seq, d] = x * dropout(3, 0.5)"))) in ({0.0}, {6.0})


def test_a_draw_that_is_read_twice_is_one() -> None:
    """Under another name of its axis, too."""
    assert np.abs(shown("y[seq, d] = u - u\n    where u = dropout(x, 0.5)")).max() == 0
    here, there = "index(key) == index(seq)", "index(key) ≤ index(seq) and index(key) ≥ index(seq)"
    text = f"y[seq, d] = sum[key if {here}](k) - sum[key if {there}](k)\n    where k = dropout(x, 0.5)[seq → key]"
    assert np.abs(shown(text)).max() == 0
    two = shown("y[seq, d] = dropout(x, 0.5) - dropout(x, 0.5)")
    assert set(np.unique(two)) == {-2.0, 0.0, 2.0}


def test_a_rate_may_grow_from_step_to_step() -> None:
    text = "y[seq, d] = h[layers]\n    where h[0] = x\n          for l in layers:\n              h[l + 1] = {}"
    kept = shown(text.format("h[l] * (1 if dropout(x, l / 3) > 0 else 0)"), 2000)
    assert abs(kept.mean() - 2 / 3 * 1 / 3) < 5 * np.sqrt(2 / 9 / kept.size)


def test_a_rate_may_differ_from_entry_to_entry() -> None:
    text = "y[seq, d] = dropout(x, index(d) / 5)"
    found = shown(text, 3000)
    share = (found == 0).mean(axis=(0, 1))
    rates = np.arange(6) / 5
    assert (np.abs(share - rates) <= 5 * np.sqrt(rates * (1 - rates) / 27000)).all()
    np.testing.assert_allclose(found[..., 2][found[..., 2] > 0], 1 / 0.6)
    x = torch.ones(2, 3, 6, dtype=torch.float64).requires_grad_()
    one = module(compile(SHAPES.format(text).replace("    weights w : [d]\n", ""), "torch"))
    torch.autograd.backward([one(inputs=x)["y"].sum()])
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert (x.grad[..., 5] == 0).all()


def test_rates_along_an_axis_that_the_value_lacks() -> None:
    found = shown("y[seq, d] = x * dropout(w, index(seq) / 8)", 3000)
    share = (found == 0).mean(axis=(0, 2))
    rates = np.arange(9) / 8
    assert (np.abs(share - rates) <= 5 * np.sqrt(rates * (1 - rates) / 18000)).all()
    found = shown("y[seq, d, stream] = dropout(x, index(stream) / 39)", 300)
    assert (np.abs((found == 0).mean(axis=(0, 1, 2)) - np.arange(40) / 39) < 0.03).all()


def test_rates_of_attention_that_are_computed() -> None:
    """It is written out, since the fused call takes one rate for all entries."""
    made = compile(ATTEND.format("index(seq) / 128"), "torch")
    assert "dropped(" in made.source
    assert "scaled_dot_product_attention(" not in made.source
    eye = np.broadcast_to(np.eye(64), (50, 64, 64)).copy()
    share = (called(module(made), {"inputs": 0 * eye, "values": eye}, seed=1)["y"] == 0).mean(axis=(0, 2))
    rates = np.arange(64) / 128
    assert (np.abs(share - rates) <= 5 * np.sqrt(rates * (1 - rates) / 3200)).all()
    one = module(made)
    v = torch.from_numpy(eye).requires_grad_()
    torch.autograd.backward([one(inputs=torch.zeros(50, 64, 64, dtype=torch.float64), values=v)["y"].sum()])
    assert v.grad is not None
    assert torch.isfinite(v.grad).all()


# --- what torch asks of a module -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layers", "deberta"])
def test_compiles_as_one_graph_in_training(name: str) -> None:
    one, given = module(compiled(name)), zoo.inputs(name)
    fast: Any = torch.compile(one, fullgraph=True, backend="aot_eager")
    first = fast(**tensors(given))
    torch.autograd.backward([value.square().sum() for value in first.values()])
    assert all(torch.isfinite(value).all() for value in first.values())
    assert any(not torch.equal(first[key], value) for key, value in fast(**tensors(given)).items())
    one.eval()
    assert zoo.difference(called(fast, given), called(one, given)) < 1e-12


def test_a_module_that_trains_learns() -> None:
    """Thirty steps of Adam on one batch, with dropout: the loss of eval mode falls to less than a half."""
    torch.manual_seed(0)
    settings = {**zoo.BERT, "layers": 1, "p": 0.1}
    made = compile("bert", "torch", entry="BertForSequenceClassification", settings=settings)
    one, given = zoo.module(made.source)["Model"](), tensors(zoo.inputs("bert"))
    labels, optimiser = torch.tensor([0, 1, 1, 0, 0, 1]), torch.optim.Adam(one.parameters(), 1e-2)

    def loss() -> torch.Tensor:
        return F.cross_entropy(one(**given)["logits"], labels)

    one.eval()
    before = loss().item()
    one.train()
    for _ in range(30):
        optimiser.zero_grad()
        torch.autograd.backward([loss()])
        optimiser.step()
    one.eval()
    assert loss().item() < before / 2
