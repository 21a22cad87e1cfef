"""A generated nn.Module with its weights, as a function from named inputs to named results."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...grammar.diagnostics import error
from ..numpy.weights import Weights
from .emit import parameter_names
from .weights import WeightNames

if TYPE_CHECKING:
    from ...compiler.ir import Weight
    from ..program import Program

try:
    import torch
except ImportError:
    raise error("C627", 'backend="torch" needs PyTorch', help="pip install torch") from None

Array = npt.NDArray[Any]
DTYPES = ("float32", "float64", "bfloat16", "float16")
LAYOUT = "packed"
"""What a loaded model computes with, unless the caller says otherwise: it is called eagerly."""


def forward(
    program: Program, weights: Weights, dtype: str, threads: int | None, device: str | None, like: Any = None
) -> tuple[Callable[[dict[str, Array], Sequence[str]], Mapping[str, Any]], torch.nn.Module]:
    """(the function, the nn.Module in eval mode); with `like`, over the parameters of that module.

    Raises `TransformulaError` for a device that is not here."""
    if threads is not None:
        raise error("C626", "threads belongs to the NumPy backend", help="Use torch.set_num_threads(…).")
    place = device_of(device)
    made = types.ModuleType(f"transformula_{program.name}")
    exec(compile(program.source, f"<{program.name}: generated>", "exec"), made.__dict__)
    model: torch.nn.Module = made.__dict__["Model"](dtype=getattr(torch, dtype), device="meta")
    if like is None:
        model = model.to_empty(device=place)
        fill(program, model, weights)
    else:
        model.load_state_dict(like.state_dict(keep_vars=True), assign=True)
    model.eval()
    graphs = [program.compiled.formula, *(one.formula for one in program.compiled.losses)]
    floats = {one.name for graph in graphs for one in graph.inputs if one.kind == "real"}

    known = [out.name for out in program.compiled.formula.outputs]

    def call(given: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:
        tensors = {name: torch.from_numpy(np.array(value)).to(place) for name, value in given.items()}
        tensors = {n: t.to(getattr(torch, dtype)) if n in floats else t for n, t in tensors.items()}
        with torch.inference_mode():
            found = model(**tensors)
        return {name: value for name, value in found.items() if name in outputs or name not in known}

    return call, model


def device_of(name: str | None) -> torch.device:
    """The device of a name, by default the CPU. Raises `TransformulaError` for one that is not here."""
    try:
        place = torch.device(name or "cpu")
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, ValueError) as fault:
        raise error("C626", f"device = {name!r}: {str(fault).splitlines()[0]}") from None
    return place


def fill(program: Program, model: torch.nn.Module, weights: Weights) -> None:
    """Copies weights in the spec's layout into the parameters of a generated module."""
    names = parameter_names(program.graph)
    with torch.no_grad():
        for weight in program.graph.weights:
            _copy(getattr(model, names.attribute[weight.name]), stored(weight, weights[weight.name], names))


def weights_of(program: Program, model: torch.nn.Module) -> Weights:
    """The parameters as they are now, in the spec's layout, in float32 or float64."""
    names = parameter_names(program.graph)
    found: Weights = {}
    for weight in program.graph.weights:
        array = _gathered(getattr(model, names.attribute[weight.name]))
        depth, sizes = len(weight.stack), [int(axis.size) for axis in weight.axes if isinstance(axis.size, int)]
        if names.is_matrix(weight):
            order = [*range(depth), *(weight.axes.index(axis) for axis in (*(weight.outs or ()), *weight.ins))]
            array = array.reshape([sizes[place] for place in order]).transpose(np.argsort(order))
        found[weight.name] = array
    return found


def _gathered(source: Any) -> Array:
    if not isinstance(source, torch.nn.Parameter):
        return np.stack([_gathered(one) for one in source])
    value = source.detach().cpu()
    return np.asarray((value if value.dtype == torch.float64 else value.float()).numpy())


def _copy(target: Any, value: Array) -> None:
    if isinstance(target, torch.nn.Parameter):
        target.copy_(torch.from_numpy(np.array(value)))
        return
    for one, part in zip(target, value, strict=True):
        _copy(one, part)


def stored(weight: Weight, value: Any, names: WeightNames) -> Array:
    """[stack…, axes as the spec declares them] → [stack…, out, in] for a map, else as it is."""
    array = np.asarray(value)
    if not names.is_matrix(weight):
        return array
    outs, depth = weight.outs or (), len(weight.stack)
    order = [*range(depth), *(weight.axes.index(axis) for axis in (*outs, *weight.ins))]
    moved = array.transpose(order)
    rows = int(np.prod(moved.shape[depth : depth + len(outs)], dtype=np.int64))
    return moved.reshape(*moved.shape[:depth], rows, -1)
