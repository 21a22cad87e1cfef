"""The PyTorch modules of a spec, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from transformula.backends.program import Program
from transformula.backends.torch.loading import fill


def module(program: Program, dtype: str = "float64") -> torch.nn.Module:
    """The generated module with the zoo's weights."""
    made: torch.nn.Module = zoo.module(program.source)["Model"](dtype=getattr(torch, dtype))
    fill(program, made, zoo.weight_values(program.compiled.formula, 0))
    return made.eval()


def results(
    program: Program, compiled: bool = False, dtype: str = "float64"
) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """The module as a function of arrays, through torch.compile if that is asked for."""
    made = module(program, dtype)
    forward = torch.compile(made, fullgraph=True) if compiled else made

    def run(given: dict[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            found = forward(**{name: torch.from_numpy(np.array(value)) for name, value in given.items()})
            return {name: value.numpy() for name, value in found.items()}

    return run
