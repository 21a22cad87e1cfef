"""The AdamW of generated NumPy modules against torch.optim.AdamW and clip_grad_norm_."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from transformula.backends.numpy.adamw import AdamW
from transformula.backends.numpy.kernels import BLOCK
from transformula.backends.program import compile

SHAPES = {"W": (7, 5), "long": (BLOCK + 3,), "b": (5,), "one": ()}


def arrays(seed: int, dtype: str = "float64", scale: float = 1.0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {name: np.asarray(draw.normal(size=shape) * scale, dtype) for name, shape in SHAPES.items()}


def one_of(draw: np.random.Generator, shape: Any) -> Any:
    return draw.normal(size=shape) * 0.3


def theirs(dtype: Any, decays: set[str], decay: float, **options: Any) -> tuple[dict[str, Any], torch.optim.Optimizer]:
    parameters = {name: torch.nn.Parameter(torch.from_numpy(one.copy())) for name, one in arrays(0, dtype).items()}
    groups = [
        {"params": [parameters[name] for name in SHAPES if (name in decays) == wanted], "weight_decay": decay * wanted}
        for wanted in (True, False)
    ]
    return parameters, torch.optim.AdamW(groups, lr=0.0, **options)


@pytest.mark.parametrize(("dtype", "close"), [("float64", 1e-14), ("float32", 1e-6)])
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_are_those_of_torch(dtype: str, close: float, threads: int) -> None:
    """Rates that change, gradients above and below the norm that they are cut to, a set of names that decays."""
    tensors = arrays(0, dtype)
    own = AdamW(tensors, ["W", "long"], 0.3, (0.8, 0.95), 1e-6, 2.0, threads)
    parameters, other = theirs(dtype, {"W", "long"}, 0.3, betas=(0.8, 0.95), eps=1e-6)
    for step in range(12):
        gradients = arrays(step + 1, dtype, 10.0 ** (-step % 4 - 3))
        for name, one in parameters.items():
            one.grad = torch.from_numpy(gradients[name].copy())
        wanted = torch.nn.utils.clip_grad_norm_(list(parameters.values()), 2.0)
        for group in other.param_groups:
            group["lr"] = 0.01 / (step + 1)
        other.step()
        assert own.update(gradients, 0.01 / (step + 1)) == pytest.approx(float(wanted), rel=1e-5)
        for name, value in tensors.items():
            assert value.dtype == dtype
            np.testing.assert_allclose(value, parameters[name].detach().numpy(), rtol=close, atol=close)


def test_gradients_stay_as_they_are() -> None:
    """Clipping happens on the way: what the caller holds is not scaled."""
    gradients = arrays(1)
    before = {name: one.copy() for name, one in gradients.items()}
    AdamW(arrays(0), clip=1e-3).update(gradients, 0.1)
    for name, one in before.items():
        assert np.array_equal(gradients[name], one)


def test_going_on_changes_no_bit() -> None:
    whole, first, second = arrays(0), arrays(0), arrays(9)
    one, other = AdamW(whole, ["W"]), AdamW(first, ["W"])
    for step in range(3):
        one.update(arrays(step), 0.1)
        other.update(arrays(step), 0.1)
    assert AdamW(arrays(0)).state() == {}
    again = AdamW(second, ["W"])
    again.restore({name: value.copy() for name, value in other.state().items()})
    for name, value in first.items():
        second[name][...] = value
    one.update(arrays(7), 0.1)
    again.update(arrays(7), 0.1)
    assert all(np.array_equal(whole[name], second[name]) for name in whole)


def test_a_module_holds_it_only_with_gradients() -> None:
    """In the generated file, on `tensors`, whose changes the next gradient sees."""
    plain = compile("bert", "numpy", entry="mlm", settings=zoo.BERT, validate=False).source
    assert "class AdamW" not in plain
    assert "loss_and_gradients" not in plain
    program = compile("bert", "numpy", entry="mlm", settings=zoo.BERT, gradients=True)
    found, draw = zoo.module(program.source), np.random.default_rng(0)
    weights = {one.name: one_of(draw, one.shape) for one in program.compiled.formula.weights}
    model = found["Model"](weights, dtype="float64")
    ids = draw.integers(1, 20, (4, 6))
    optimiser, losses = found["AdamW"](model.tensors, model.tensors), []
    for _ in range(5):
        loss, gradients = model.loss_and_gradients(input_ids=ids, labels=ids)
        optimiser.update(gradients, 0.01)
        losses.append(loss)
    assert losses == sorted(losses, reverse=True)
    model.refresh()
    assert float(model(input_ids=ids, labels=ids)["loss"]) < losses[-1]
