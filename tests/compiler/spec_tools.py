"""Small specs for tests: lowers a text, runs the reference evaluator, gives arrays back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pytest

from transformula.compiler import reference
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Graph
from transformula.grammar.diagnostics import TransformulaError

Array = npt.NDArray[Any]


def rng(seed: int = 0) -> np.random.Generator:
    """A generator of one seed."""
    return np.random.default_rng(seed)


def lowered(
    text: str, entry: str | None = None, config: Mapping[str, Any] | None = None, **settings: Any
) -> Graph:
    """The formula graph of a text (or of a shipped spec's name), before any pass."""
    return compile_graph(text, config, entry, settings, until="formula").formula


def weight_values(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Random weights by path; each path has its own stream, so adding one leaves the others alone."""
    return {
        one.name: rng(crc32(one.name.encode()) + seed).normal(size=one.shape) * 0.5  # type: ignore[arg-type]
        for one in graph.weights
    }


def run(
    text: str | Graph,
    weights: Mapping[str, Any] | None = None,
    *,
    entry: str | None = None,
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    training: bool = False,
    **inputs: Any,
) -> dict[str, Array]:
    """All results by name; weights that are not given are random."""
    graph = text if isinstance(text, Graph) else lowered(text, entry, config, **(settings or {}))
    unknown = set(weights or {}) - {one.name for one in graph.weights}
    assert not unknown, f"{unknown} are no weights of the graph, which has {[w.name for w in graph.weights]}"
    full = {**weight_values(graph), **{k: np.asarray(v, float) for k, v in (weights or {}).items()}}
    return reference.run(graph, full, inputs, seed, training)


def value(text: str | Graph, weights: Mapping[str, Any] | None = None, **more: Any) -> Array:
    """The first result."""
    return next(iter(run(text, weights, **more).values()))


def codes(
    text: str, entry: str | None = None, config: Mapping[str, Any] | None = None, **settings: Any
) -> set[str]:
    """The codes of all mistakes that compiling the text meets."""
    with pytest.raises(TransformulaError) as caught:
        lowered(text, entry, config, **settings)
    return {one.code for one in caught.value.diagnostics}


def close(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    """Asserts that two arrays have one shape and agree."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"{found.shape} is not {wanted.shape}"
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def softmax(x: Array, axis: int = -1) -> Array:
    """The textbook softmax."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    result: Array = e / e.sum(axis=axis, keepdims=True)
    return result
