"""A generated NumPy module with its weights, as a function from named inputs to named results."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...grammar.diagnostics import error
from .weights import Weights

if TYPE_CHECKING:
    from ..program import Program

Array = npt.NDArray[Any]
DTYPES = ("float32", "float64")


def forward(
    program: Program, weights: Weights, dtype: str, threads: int | None, device: str | None, like: Any = None
) -> tuple[Callable[[dict[str, Array], Sequence[str]], Mapping[str, Any]], Any]:
    """(the function, the model of the generated class), the class run from its source as the file would be."""
    if device not in (None, "cpu"):
        raise error("C626", f"device = {device!r}: NumPy computes on the CPU", help='backend="torch" has devices.')
    made = types.ModuleType(f"transformula_{program.name}")
    exec(compile(program.source, f"<{program.name}: generated>", "exec"), made.__dict__)
    model = made.__dict__["Model"](weights, dtype=dtype, threads=threads)

    def call(given: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        try:
            found: Mapping[str, Array] = model(**given, outputs=list(outputs))
        except ValueError as fault:
            raise error("R911", f"{program.name}: {fault}") from fault
        return found

    return call, model


def weights_of(program: Program, model: Any) -> Weights:
    """Weights that have changed since they were loaded: a NumPy module has none."""
    return {}
