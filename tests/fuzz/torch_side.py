"""The PyTorch modules of a spec, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from transformula.backends.program import Program
from transformula.backends.torch.loading import fill


def module(program: Program, seed: int = 0) -> torch.nn.Module:
    """The generated module with the zoo's weights, in float64."""
    made: torch.nn.Module = zoo.module(program.source)["Model"](dtype=torch.float64)
    fill(program, made, zoo.weight_values(program.compiled.formula, seed))
    return made.eval()


def results(program: Program, seed: int = 0) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """The module as a function of arrays."""
    made = module(program, seed)

    def run(given: dict[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            found = made(**{name: torch.from_numpy(np.array(value)) for name, value in given.items()})
            return {name: value.numpy() for name, value in found.items()}

    return run
