"""Objectives as modules of their own: what they compute and its gradients, by the names that the spec has."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transformula.backends.checkpoint_table import checkpoint_table
from transformula.backends.numpy.weights import assemble
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill, weights_of
from transformula.compiler import reference
from transformula.compiler.checkpoint import checkpoint_rows
from transformula.compiler.config import Config
from transformula.compiler.driver import load_module, lowered
from transformula.compiler.lower import choose_entry
from transformula.compiler.objectives import weight_rows

Array = NDArray[Any]


def class_of(made: Program) -> Any:
    """The class of a generated module."""
    module = types.ModuleType("made")
    exec(made.source, module.__dict__)
    return module.__dict__["Model"]


def spelled(spec: str, entry: str, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Array]:
    """The library's tensors (or their gradients) by the names of a model of a spec."""
    module = load_module(spec)
    settled = Config(module, config)
    graph = lowered(module, settled, choose_entry(module, entry))
    stored = {name: np.asarray(value.detach().numpy(), float) for name, value in tensors.items()}
    found = assemble(stored, checkpoint_table(checkpoint_rows(module, entry, graph, settled)), False)
    return {name: np.asarray(value) for name, value in found.items()}


def random_weights(made: Program, scale: float = 0.3) -> dict[str, Array]:
    """Weights that are all different."""
    draw = np.random.default_rng(1)
    return {one.name: draw.normal(size=_sizes(one.shape)) * scale for one in made.compiled.formula.weights}


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def torch_module(made: Program, weights: Mapping[str, Array]) -> nn.Module:
    """The generated nn.Module in float64, without dropout."""
    module: nn.Module = class_of(made)(dtype=torch.float64)
    fill(made, module, dict(weights))
    return module.eval()


def tensors(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as tensors; a seed stays what it is."""
    return {name: torch.from_numpy(np.array(one)) if np.ndim(one) else one for name, one in given.items()}


def gradients(made: Program, module: nn.Module, given: Mapping[str, Any]) -> dict[str, Array]:
    """The gradients of the loss by the names of the spec; 0 where it does not depend on a weight."""
    module.zero_grad()
    module(**tensors(given))["loss"].backward()
    kept = [one.detach().clone() for one in module.parameters()]
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.zeros_like(one) if one.grad is None else one.grad)
        found = {name: np.array(value) for name, value in weights_of(made, module).items()}
        for one, value in zip(module.parameters(), kept, strict=True):
            one.copy_(value)
    return found


def agree(
    spec: str,
    entry: str,
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    weights: Mapping[str, Array] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The results of the formulas, those of both modules compared with them, and the gradients of the nn.Module.

    The NumPy module's gradients are compared with these.
    """
    made = compile(spec, "torch", config, entry, settings, validate=False)
    formula = made.compiled.formula
    weights = random_weights(made) if weights is None else weights
    seed = int(given.get("seed", 0))
    inputs = {name: value for name, value in given.items() if name != "seed"}
    wanted = reference.run(formula, {one.name: weights[one.name] for one in formula.weights}, inputs, seed=seed)
    module = torch_module(made, weights)
    found = module(**tensors(given))
    numpy = compile(spec, "numpy", config, entry, settings, validate=False, gradients=True)
    ours = {one.name: weights[one.name] for one in numpy.compiled.formula.weights}
    model = class_of(numpy)(ours, dtype="float64")
    plain = model(**given)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].detach().numpy(), value, rtol=1e-11, atol=1e-12, err_msg=f"torch {name}")
        np.testing.assert_allclose(plain[name], value, rtol=1e-11, atol=1e-12, err_msg=f"numpy {name}")
    theirs = gradients(made, module, given)
    loss, slopes = model.loss_and_gradients(**given)
    assert abs(loss - float(wanted["loss"])) < 1e-10
    same_gradients(numpy, slopes, theirs)
    return wanted, theirs


def same_gradients(numpy: Program, slopes: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    """Gradients by stored names are those of the spec's weights."""
    compiled = numpy.compiled
    rows = weight_rows(compiled.module, compiled.config, compiled.entry, compiled.graph)
    mine = assemble(dict(slopes), checkpoint_table(rows))
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(np.asarray(mine[name]), value, rtol=1e-9, atol=1e-9, err_msg=f"numpy ∂{name}")
