"""Every backend against the naive evaluator: on the small models of validation, and on a folder's real weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler import pipeline, reference
from ..compiler.driver import Compiled, compile_defaults, compile_losses, staged
from ..compiler.ir import Graph, Length, Weight
from ..compiler.numeric import UNIT
from ..compiler.reference import Places, length_names, mask_names
from ..compiler.validation import cases
from ..compiler.validation.cases import OWN, Case, case
from ..compiler.validation.fitting import fitting
from ..compiler.validation.proof import EVERY
from ..compiler.validation.rounding import Noisy, allowed
from ..compiler.validation.sizes import Shrinker, Small, Subject, subjects
from ..compiler.validation.trial import WRONG_ID, Gap, Measure, far, gap
from ..grammar.diagnostics import TransformulaError
from .defaults import default_rows, inputs_of, makers
from .limits import input_rows, limit_rows, mask_rows
from .load import REFERENCE, load
from .numpy.border import check_call, completed
from .objectives import loss_rows, over_batch, own_inputs
from .program import BACKENDS, Program, passes_left_out

Array = npt.NDArray[Any]

UNITS = {"float64": UNIT, "float32": 2.0**-24}
"""The rounding of each kind of number."""

ULPS = 64
"""Roundings that one operation of a backend may differ by: exp, erf and tanh are approximated there."""


@dataclass(frozen=True)
class Way:
    """A backend with a layout and a kind of number."""

    backend: str
    layout: str | None
    dtype: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.backend, self.layout, self.dtype)))

    @property
    def unit(self) -> float:
        """By how much one operation may err."""
        return ULPS * UNITS[self.dtype]


def ways(backends: Sequence[str] = ()) -> Iterator[Way]:
    """Every backend (or those named) in every layout and kind of number; one that is not here is an error."""
    for name in backends or BACKENDS:
        emit = import_module(BACKENDS[name], __package__)
        import_module(f".{name}.loading", __package__)
        for layout in getattr(emit, "LAYOUTS", (None,)):
            yield from (Way(name, layout, dtype) for dtype in UNITS)


def prove_backends(made: Compiled, chosen: Sequence[Way]) -> Iterator[Measure]:
    """Each way on every case of the model at small sizes."""
    subject = subjects(made)[0]
    if subject.graph.batch is None and not subject.graph.selects:
        return  # a function of a model's results, which is proved with its model
    ran = tuple(stage.name for stage in made.stages[1:])
    without = tuple(row.name for row in pipeline.table() if row.name not in ran)
    shrinker = Shrinker(subject)
    for profile, names in EVERY.items():
        for small, kinds in fitting(shrinker, profile, names):
            made_up = [case(small.graph, kind) for kind in kinds if not kind.training]
            wanted = [(one, found) for one in made_up if (found := _wanted(small.graph, one)) is not None]
            beside = staged(small.config.module, small.config, small.graph, {}, False, until="formula")
            more = [(one, loss) for one, found in wanted for loss in _losses(beside, one, found)]
            more += [(one, made) for one, found in wanted for made in _made(beside, one, found)]
            for way in chosen:
                yield from _proved(subject, small, way, without, [*wanted, *more])


@dataclass(frozen=True)
class Wanted:
    """What the naive evaluator makes of a case, and how far noise moves it; `inputs` as a caller gives them."""

    inputs: Mapping[str, Array]
    values: Mapping[str, Array]
    moved: Mapping[str, Array]


def _wanted(graph: Graph, one: Case) -> Wanted | None:
    """None where the formula has no value: beyond exp, or in a text that is longer than its table."""
    inputs = _called(graph, one)
    if graph.selects and not _taken(graph, inputs):
        return None
    try:
        values = reference.run(graph, one.weights, inputs)
        return Wanted(inputs, values, reference.run(graph, one.weights, inputs, evaluator=Noisy))
    except TransformulaError:
        return None


def _taken(graph: Graph, inputs: Mapping[str, Array]) -> bool:
    """Whether a call of an objective is one that modules take: its loss may say nothing of a text that is too long."""
    limits = limit_rows(over_batch(graph))
    try:
        check_call(
            inputs, input_rows(graph), mask_rows(graph), limits, each=graph.each, own=own_inputs(graph)
        )
    except ValueError:
        return False
    return True


def _losses(beside: Compiled, one: Case, found: Wanted) -> Iterator[Wanted]:
    """The losses that labels beside the inputs ask for; those of ordinary numbers, whose results all exist."""
    if beside.formula.each or one.kind.scale != 1:
        return
    for loss in beside.losses:
        graph = loss.formula
        given = {**found.inputs, **_labels(beside, graph, one, found)}
        values = inputs_of(beside.formula, graph, {**given, **found.values})
        moved = {name: found.moved.get(name, value) for name, value in values.items()}
        try:
            made = reference.run(graph, {}, values)
            yield Wanted(given, made, reference.run(graph, {}, moved, evaluator=Noisy))
        except TransformulaError:
            continue  # an example that has nothing to label


def _labels(beside: Compiled, graph: Graph, one: Case, found: Wanted) -> dict[str, Array]:
    """The inputs of an objective that are none of its model's, as long as the model's are."""
    known = {*found.inputs, *found.values, *(row.name for row in beside.formula.inputs)}
    names = {row.name for row in graph.inputs} - known
    examples = len(next(iter(found.values.values())))
    return cases.labels(graph, one.kind, examples, names, length_names(beside.formula))


def _made(beside: Compiled, one: Case, found: Wanted) -> Iterator[Wanted]:
    """The results where an input is left out and made of others: of labels, or of another input."""
    graph = beside.formula
    objectives = {loss.entry: loss.formula for loss in beside.losses}
    for default in beside.defaults if one.kind.scale == 1 and not one.kind.given else ():
        partly = {name: value for name, value in found.inputs.items() if name != default.name}
        if default.loss:
            partly |= _labels(beside, objectives[default.loss], one, found)
        else:
            partly.pop(next((mask for mask, masked in mask_rows(graph) if masked == default.name), ""), None)
        rows = default_rows(beside), makers(beside), input_rows(graph), mask_rows(graph), loss_rows(beside)
        try:
            whole = completed(partly, *rows)
            given = {name: value for name, value in whole.items() if name in reference.allowed_inputs(graph)}
            values = reference.run(graph, one.weights, given)
            yield Wanted(partly, values, reference.run(graph, one.weights, given, evaluator=Noisy))
        except (TransformulaError, ValueError):
            continue  # a text that is longer than a table, or an input that config does not make


def _proved(
    subject: Subject, small: Small, way: Way, without: tuple[str, ...], wanted: Sequence[tuple[Case, Wanted]]
) -> Iterator[Measure]:
    left = (*without, *passes_left_out(way.backend))
    stages, ledger = pipeline.run(small.graph, left)
    module, config = small.config.module, small.config
    objectives = compile_losses(module, config, small.graph, left)
    others = compile_defaults(module, config, small.graph, objectives)
    compiled = Compiled(module, config, subject.entry.name, stages, ledger, objectives, defaults=others)
    program = Program(compiled, way.backend, way.layout)
    names = [out.name for out in small.graph.outputs]
    calls: dict[float, Any] = {}
    for one, found in wanted:
        try:
            if one.kind.scale not in calls:  # cases of one scale have one set of weights
                calls[one.kind.scale] = _loaded(program, way, one.weights)
            told = worst(found, calls[one.kind.scale](dict(found.inputs), names), way.unit)
        except TransformulaError as fault:
            told = far("", f"it fails: {fault.diagnostics[0].message}")
        yield Measure(subject.entry.name, str(way), way.dtype, one.kind.name, str(small), told)


def _loaded(program: Program, way: Way, values: Mapping[str, Array]) -> Any:
    """The function of a generated module with these weights."""
    loading = import_module(f".{way.backend}.loading", __package__)
    weights = {weight.name: _nested(weight, values[weight.name]) for weight in program.compiled.formula.weights}
    return loading.forward(program, weights, way.dtype, None, None)[0]


def worst(wanted: Wanted, found: Mapping[str, Any], unit: float) -> Gap:
    """The result that is furthest from what it should be."""
    gaps = []
    for name, value in wanted.values.items():
        here = found[name] if isinstance(found[name], np.ndarray) else np.asarray(found[name].cpu())
        if here.shape != value.shape:
            gaps.append(far(name, f"`{name}` is {list(here.shape)}, not {list(value.shape)}"))
            continue
        value, here = value.astype(float), here.astype(float)
        limit = allowed(value, wanted.moved[name].astype(float), unit)
        gaps.append(gap(name, value, here, np.isfinite(value), limit))
    return replace(max(gaps, key=lambda one: one.excess), entries=sum(one.entries for one in gaps))


def _nested(weight: Weight, value: Array) -> Any:
    """Weights as a checkpoint gives them: a list for each axis of the stack."""

    def unstacked(array: Array, depth: int) -> Any:
        return [unstacked(one, depth - 1) for one in array] if depth else array

    return unstacked(value, len(weight.stack))


def _called(graph: Graph, one: Case) -> dict[str, Array]:
    """The inputs as a caller gives them: what stands in for another one alone, NaN in padding, groups of texts."""
    given = dict(one.inputs)
    for row in graph.inputs:
        if row.instead in given:
            given.pop(row.name, None)
    if one.kind.poison:
        given = {name: _padded(graph, name, value, given) for name, value in given.items()}
    own = {row.name for row in graph.inputs if graph.groups is not None and graph.groups[0] in row.axes}
    return {name: one if name in own else one[None] for name, one in given.items()} if graph.each else given


def _padded(graph: Graph, name: str, value: Array, given: Mapping[str, Array]) -> Array:
    """The input with NaN, or a wrong id, before the first and behind the last entry that the mask shows."""
    axes = next((row.axes for row in graph.inputs if row.name == name), ())
    masks = {length: given.get(mask) for length, mask in mask_names(graph).items()}
    for place, axis in enumerate(axes):
        mask = masks.get(axis.size.name) if isinstance(axis.size, Length) else None
        if mask is None or value.dtype.kind == "b":
            continue
        places = Places(mask)
        real = places.put(np.ones((*places.real.shape,), bool))
        real = np.expand_dims(real, tuple(range(1, place)) + tuple(range(place + 1, value.ndim)))
        value = np.where(real, value, np.nan if value.dtype.kind == "f" else WRONG_ID)
    return value


# ----------------------------------------------------------------------------------------------- a model's folder

def prove_folder(folder: Path, chosen: Sequence[Way], entry: str | None = None) -> Iterator[Measure]:
    """Each way on the folder's own weights, over a few short texts of random ids.

    One naive evaluation in float64, one with noise, and one call of each way: some seconds for a model of 100 million
    weights.
    """
    formulas = load(folder, REFERENCE, entry=entry)
    graph, weights = formulas.program.compiled.formula, formulas.weights
    kind = replace(OWN, width=min(OWN.width, formulas.max_length or OWN.width))
    inputs = _called(graph, Case(kind, cases.inputs(graph, kind), {}))
    values = reference.run(graph, _lookup(weights), inputs)
    wanted = Wanted(inputs, values, reference.run(graph, _lookup(weights), inputs, evaluator=Noisy))
    sizes = ", ".join(f"{name}{list(value.shape)}" for name, value in inputs.items())
    for way in chosen:
        try:
            model = load(folder, way.backend, way.dtype, formulas.entry, layout=way.layout, validate=False)
            told = worst(wanted, model(**inputs), way.unit)
        except TransformulaError as fault:
            told = far("", f"it fails: {fault.diagnostics[0].message}")
        yield Measure(formulas.entry, str(way), way.dtype, kind.name, sizes, told)


def _lookup(weights: Mapping[str, Any]) -> reference.Weights:
    return lambda name, axes: np.asarray(weights[name], np.float64)
