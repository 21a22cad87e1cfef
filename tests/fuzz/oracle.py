"""The oracle: one spec, every way to compute it, one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula import TransformulaError
from transformula.backends.program import Program, passes_left_out
from transformula.compiler import pipeline
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import Graph, walk_all

TOLERANCE = 1e-9
LARGEST = 1e9
"""Results beyond are not compared: what is subtracted from them has lost its digits."""

MIXED = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
OTHERS = (
    np.ones((2, 4), int),
    np.array([[1], [0]]),
    np.array([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0, 0]]),
    np.ones((1, 2), int),
    np.ones((0, 3), int),
    np.zeros((2, 0), int),
    np.array([[0, 0, 0], [0, 1, 1]]),
)
"""Whole, padded right and left, with a hole, empty, of length 1 and 0; batches of several, one and none."""

Run = Callable[[dict[str, Array]], dict[str, Array]]
Counts = Counter[str]


class Fault(AssertionError):
    """Two ways to compute a spec that do not agree."""


def inputs(graph: Graph, mask: Array, seed: int) -> dict[str, Array]:
    """Token ids for a mask, as many as the model has."""
    vocab = next((axis.size for one in graph.weights for axis in one.axes if axis.name == "vocab"), 2)
    return {"input_ids": rng(seed).integers(0, vocab, mask.shape), "attention_mask": mask}  # type: ignore[arg-type]


def wanted(graph: Graph, given: dict[str, Array]) -> dict[str, Array] | None:
    """The meaning; None where the naive formula overflows, or grows beyond what can be compared."""
    try:
        found = zoo.reference_results(graph, given)
    except TransformulaError as fault:
        if fault.diagnostics[0].code == "I801":
            return None
        raise
    size = max((float(np.abs(value).max(initial=0)) for value in found.values()), default=0.0)
    return found if np.isfinite(size) and size < LARGEST else None


def same(what: str, found: dict[str, Array], right: dict[str, Array], text: str) -> None:
    """Raises `Fault` unless the results agree."""
    try:
        gap = zoo.difference(found, right)
    except AssertionError as fault:
        raise Fault(f"{what}: {fault}\n{text}") from None
    if gap > TOLERANCE:
        raise Fault(f"{what} differs by {gap:.1e}\n{text}")


def programs(made: Compiled) -> list[tuple[str, Program]]:
    """The model for each backend and layout."""
    stages, ledger = pipeline.run(made.formula, without=passes_left_out("torch"))
    other = replace(made, stages=stages, ledger=ledger)
    found = [("numpy", Program(made, "numpy"))]
    return found + [(f"torch {layout}", Program(other, "torch", layout)) for layout in ("padded", "packed")]


def expressed(program: Program) -> bool:
    """Whether the backend has a form for the model; that it has none is told by X992."""
    try:
        return bool(program.source)
    except TransformulaError as fault:
        if fault.diagnostics[0].code != "X992":
            raise
        return False


def runner(program: Program, compiled: bool = False, dtype: str = "float64") -> Run:
    """The module with the zoo's weights, as a function of inputs."""
    if program.backend == "numpy":
        model = zoo.model(program, dtype)
        return lambda given: dict(model(**given))
    from tests.fuzz.torch_side import results

    return results(program, compiled, dtype)


def check(text: str, seed: int = 0, counts: Counts | None = None, masks: Sequence[Array] = ()) -> bool:
    """Every stage and every backend gives the formula's results; False where there is nothing to compare.

    Without `masks` the batch of all kinds and two others, which the seed chooses, are tried.
    """
    counts = Counter() if counts is None else counts
    made = compile_graph(text)
    graph = made.formula
    chosen = masks or (MIXED, OTHERS[seed % len(OTHERS)], OTHERS[(seed // 7 + 3) % len(OTHERS)])
    given = [inputs(graph, mask, seed) for mask in chosen]
    right = [(one, found) for one in given if (found := wanted(graph, one)) is not None]
    if not right:
        counts["overflows"] += 1
        return False
    told = {graph.roots}
    for stage in made.stages[1:]:
        if stage.graph.roots not in told:
            told.add(stage.graph.roots)
            for one, found in right[:2]:
                same(f"after {stage.name}", zoo.reference_results(stage.graph, one), found, text)
            counts["stages"] += 1
    for name, program in programs(made):
        if not expressed(program):
            counts[f"{name} has no form"] += 1
            continue
        run = runner(program)
        for one, found in right:
            same(name, run(one), found, text)
        counts[name] += 1
    counts["graphs"] += 1
    return True


def kernels(graph: Graph) -> Counts:
    """How many recognised meanings a graph has."""
    return Counter(one["name"] for one in walk_all(graph.roots) if one.op == "kernel")


def check_respelled(first: str, second: str, seed: int = 0, counts: Counts | None = None, keeps: bool = True) -> bool:
    """Both spellings have the same results, and as many recognised meanings; False where nothing is compared."""
    counts = Counter() if counts is None else counts
    one, other = compile_graph(first), compile_graph(second)
    given = inputs(one.formula, MIXED, seed)
    right = wanted(one.formula, given)
    if right is None:
        counts["overflows"] += 1
        return False
    same("the respelled formula", zoo.reference_results(other.formula, given), right, f"{first}\n{second}")
    same("the respelled module", zoo.model(Program(other, "numpy"))(**given), right, f"{first}\n{second}")
    before, after = kernels(one.graph), kernels(other.graph)
    lost = {name: (count, after[name]) for name, count in before.items() if after[name] < count}
    if lost and keeps:
        raise Fault(f"meanings lost {lost}\n{first}\n{second}")
    counts["meanings lost"] += bool(lost)
    counts["respelled"] += 1
    return True
