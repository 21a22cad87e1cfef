"""The oracle: one spec, every way to compute it, one result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula import TransformulaError
from transformula.backends.program import Program, compile
from transformula.compiler.ir import Graph, walk_all

TOLERANCE = 1e-9
BACKENDS = (("numpy", None), ("torch", "padded"), ("torch", "packed"))
FULL, SHORT = np.ones((2, 4), int), np.array([[1], [0]])
MIXED = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
LONG = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0, 0]])
MASKS = (MIXED, FULL, SHORT, LONG, np.ones((1, 2), int), np.ones((0, 3), int), np.zeros((2, 0), int))
"""Whole, padded right and left, with a hole, empty, of length 1; batches of several, one and none."""


class Fault(AssertionError):
    """Two ways to compute a spec that do not agree."""


@dataclass
class Seen:
    """What a run has compared, so that it may be told how much it was."""

    counts: Counter[str] = field(default_factory=Counter)


def inputs(vocab: int, mask: Array, seed: int) -> dict[str, Array]:
    """Token ids for a mask."""
    return {"input_ids": rng(seed).integers(0, vocab, mask.shape), "attention_mask": mask}


def wanted(graph: Graph, given: dict[str, Array]) -> dict[str, Array] | None:
    """The meaning; None where the naive formula overflows, or grows beyond what can be compared."""
    try:
        found = zoo.reference_results(graph, given)
    except TransformulaError as fault:
        if fault.diagnostics[0].code == "I801":
            return None
        raise
    size = max((float(np.abs(value).max(initial=0)) for value in found.values()), default=0.0)
    return found if np.isfinite(size) and size < 1e9 else None


def same(what: str, found: dict[str, Array], right: dict[str, Array], text: str) -> None:
    """Raises `Fault` unless the results agree."""
    try:
        gap = zoo.difference(found, right)
    except AssertionError as fault:
        raise Fault(f"{what}: {fault}\n{text}") from None
    if gap > TOLERANCE:
        raise Fault(f"{what} differs by {gap:.1e}\n{text}")


def programs(text: str, seen: Seen) -> list[tuple[str, Program]]:
    """The spec for each backend and layout that can express it."""
    made = []
    for backend, layout in BACKENDS:
        program = compile(text, backend, layout=layout)
        name = f"{backend} {layout or ''}".strip()
        try:
            program.source  # noqa: B018
        except TransformulaError as fault:
            if fault.diagnostics[0].code != "X992":
                raise
            seen.counts[f"{name}: not expressed"] += 1
            continue
        made.append((name, program))
    return made


def runner(program: Program, seed: int):  # type: ignore[no-untyped-def]
    """The module with the zoo's weights, as a function of inputs."""
    if program.backend == "numpy":
        model = zoo.model(program, seed=seed)
        return lambda given: model(**given)
    from tests.fuzz.torch_side import results

    return results(program, seed)


def check(text: str, seed: int = 0, seen: Seen | None = None, masks: tuple[Array, ...] = MASKS) -> bool:
    """Every stage and every backend gives the formula's results; False where there is nothing to compare."""
    seen = seen or Seen()
    first = compile(text)
    graph = first.compiled.formula
    vocab = next(a.size for w in graph.weights for a in w.axes if a.name == "vocab")
    assert isinstance(vocab, int)
    cases = [(inputs(vocab, mask, seed), mask) for mask in masks]
    right = [(given, wanted(graph, given)) for given, _ in cases]
    right = [(given, found) for given, found in right if found is not None]
    if not right:
        seen.counts["overflows"] += 1
        return False
    told = {graph.roots}
    for stage in first.compiled.stages[1:]:
        if stage.graph.roots in told:
            continue
        told.add(stage.graph.roots)
        for given, found in right:
            same(f"after {stage.name}", zoo.reference_results(stage.graph, given), found, text)
            seen.counts["stages"] += 1
    for name, program in programs(text, seen):
        run = runner(program, 0)
        for given, found in right:
            same(name, run(given), found, text)
            seen.counts[name] += 1
    seen.counts["graphs"] += 1
    return True


def kernels(graph: Graph) -> Counter[str]:
    """How many recognised meanings a graph has."""
    return Counter(one["name"] for one in walk_all(graph.roots) if one.op == "kernel")
