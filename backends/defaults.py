"""What a call may leave out because it is made of what it gives: decoder ids, from labels or from the ids of a source.

A generated module makes it by a method of its own; here the naive evaluator does, for whatever backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler import reference
from ..compiler.driver import Compiled
from ..compiler.ir import Graph
from .numpy.border import DefaultRow

Array = npt.NDArray[Any]
Maker = Callable[[Mapping[str, Any]], Array]


def default_rows(compiled: Compiled) -> tuple[DefaultRow, ...]:
    """(input, objective, inputs that it is made of, why it cannot be made) of each default, in their order."""
    return tuple((one.name, one.loss, one.sources, one.reason) for one in compiled.defaults)


def makers(compiled: Compiled) -> tuple[Maker, ...]:
    """A function of what is given for each default."""
    return tuple(_maker(compiled.formula, one.name, one.graph) for one in compiled.defaults)


def _maker(formula: Graph, name: str, graph: Graph | None) -> Maker:
    def make(given: Mapping[str, Any]) -> Array:
        assert graph is not None
        return reference.run(graph, {}, inputs_of(formula, graph, given))[name].astype(np.int64)

    return make


def inputs_of(formula: Graph, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a function beside a model takes of a call: its inputs, and the model's masks of its lengths."""
    found = {one.name: given[one.name] for one in graph.inputs if one.name in given}
    masks = reference.mask_names(formula)
    for length, mask in reference.mask_names(graph).items():  # of the model's second length, perhaps, and its own first
        if masks.get(length, "") in given:
            found[mask] = given[masks[length]]
    return found


__all__ = ["Maker", "default_rows", "inputs_of", "makers"]
