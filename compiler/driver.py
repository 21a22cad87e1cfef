"""From a spec to an optimised formula graph, in stages:

    source      text                                    modules.read_source (a shipped name, a path, or the text)
    module      syntax of the spec and all it imports   modules.Loader
    config      sizes and choices, exact                config.Config (defaults, config.json, settings)
    formula     the graph of one model                  lower.lower_entry (names, axes, facts of masks)
    <pass>      the graph after each pass               pipeline.run (verified after each, explained in the ledger)

Backends take the last graph from here (backends/program.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..grammar.diagnostics import Diagnostic, Diagnostics, Source, TransformulaError, did_you_mean, error
from . import checking, heads, lower, objectives, pipeline, showing, wanted
from .config import Config
from .decoding import Decoding, decoding_of
from .defaults import Default, defaults
from .ir import Graph
from .ledger import Ledger
from .modules import Entry, Loader, Module, read_source
from .scope import Session


@dataclass(frozen=True)
class Compiled:
    """A model in all its stages."""

    module: Module
    config: Config
    entry: str
    stages: tuple[pipeline.Stage, ...]
    ledger: Ledger
    losses: tuple[Compiled, ...] = ()  # its objectives, as functions of its results
    decoding: Decoding | None = None  # the step that computes new tokens alone, of a causal model over tokens
    rows: Mapping[str, str] = field(default_factory=dict)  # which rows of its results were asked for
    generation: Mapping[str, Any] | None = None  # generation_config.json; None: config.json speaks for it
    defaults: tuple[Default, ...] = ()  # inputs that are made of others where a call leaves them out
    gradients: tuple[Compiled, ...] | None = None  # its objectives from inputs on, differentiated, if asked for

    @property
    def kind(self) -> str:
        """What it is: a model, an objective or a corruption."""
        return self.module.entries[self.entry].definition.kind if self.entry in self.module.entries else "objective"

    @property
    def formula(self) -> Graph:
        """The graph as the spec says it, before any pass: its meaning."""
        return self.stages[0].graph

    @property
    def graph(self) -> Graph:
        """The graph after the last pass."""
        return self.stages[-1].graph


def load_module(spec: str | Path | Source, over: tuple[str, str] | None = None) -> Module:
    """The module of a shipped spec's name, a path, a text, or a source; raises all its mistakes at once.

    With over = ("bert", "roberta") what extends bert is taken over roberta instead.
    """
    module, found = _load(spec, over)
    found.check()
    return module


def _load(spec: str | Path | Source, over: tuple[str, str] | None = None) -> tuple[Module, Diagnostics]:
    source = spec if isinstance(spec, Source) else read_source(spec)
    path = Path(source.name)
    loader = Loader(path.parent if path.is_file() else None, over)
    module = loader.load(source)
    heads.complete(module, loader.diagnostics)
    return module, loader.diagnostics


def compile_graph(
    spec: str | Path | Module,
    config: Mapping[str, Any] | None = None,
    entry: str | None = None,
    settings: Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
    until: str | None = None,
    shows: Sequence[str] = (),
    results: Sequence[str] = (),
    rows: Mapping[str, str] | None = None,
) -> Compiled:
    """The stages of one model of a spec. `config` are keys of config.json, `settings` names of the spec.

    `shows` are results on demand, which are left out otherwise; `results` are the only ones wanted, `rows` says which
    rows of them (wanted.py). Raises `TransformulaError` with every mistake found.
    """
    module = spec if isinstance(spec, Module) else load_module(spec)
    made = Config(module, config or {}, known_settings(module, settings or {}))
    chosen = lower.choose_entry(module, entry)
    if chosen.definition.kind == "objective":
        known_shows(chosen, made, shows)
        return _objective(module, made, chosen, results, rows or {}, without, only, until)
    if chosen.definition.kind == "corruption":  # its numbers decide draws: no pass may round them another way
        only_one = pipeline.Stage("formula", lowered(module, made, chosen))
        return Compiled(module, made, chosen.name, (only_one,), Ledger())
    graph = wanted.wanted(lowered(module, made, chosen, known_shows(chosen, made, shows)), results, rows)
    return staged(module, made, graph, rows or {}, not shows, without, only, until)


def _objective(
    module: Module,
    config: Config,
    entry: Entry,
    results: Sequence[str],
    rows: Mapping[str, str],
    without: Sequence[str],
    only: Sequence[str] | None,
    until: str | None,
) -> Compiled:
    """An objective in its stages, from the inputs of its model; its loss as sums and counts, too."""
    graph, reason = selecting(module, config, entry)
    stages, ledger = pipeline.run(wanted.wanted(graph, results, rows), without, only, until)
    if reason:
        ledger.refused("schedule", objectives.SUM, "parts of a batch add up, as sums and counts", reason)
    return Compiled(module, config, graph.name, stages, ledger)


def selecting(module: Module, config: Config, entry: Entry) -> tuple[Graph, str]:
    """An objective as a module has it: with sums and counts (or why it has none), computed where labels count alone."""
    graph, reason = objectives.with_counts(lowered_objective(module, config, entry))
    return replace(graph, selects=True), reason


def lowered_objective(module: Module, config: Config, entry: Entry) -> Graph:
    """The formula graph of an objective, from the inputs of its model to the loss."""
    if not objectives.is_of_results(module, entry):
        return lowered(module, config, entry)
    with checking.deep():
        try:
            return objectives.whole(module, config, entry)
        except TransformulaError as fault:
            raise TransformulaError(checking.settled(fault.diagnostics, module.file.span.source.name)) from None


def staged(
    module: Module,
    config: Config,
    graph: Graph,
    rows: Mapping[str, str],
    decodes: bool,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
    until: str | None = None,
) -> Compiled:
    """A model in its stages, with what stands beside it: objectives, its step if it `decodes`, inputs that are made."""
    stages, ledger = pipeline.run(graph, without, only, until)
    losses = () if rows else compile_losses(module, config, graph, without, only, until)  # they are of all tokens
    decoding = compile_decoding(graph, ledger, without, only, until) if decodes and not rows else None
    others = compile_defaults(module, config, graph, losses)
    return Compiled(module, config, graph.name, stages, ledger, losses, decoding, rows, defaults=others)


def compile_decoding(
    graph: Graph,
    ledger: Ledger,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
    until: str | None = None,
) -> Decoding | None:
    """The decoding of a model that predicts its own tokens, after the same passes; None if it has none."""
    if pipeline.DERIVED in without or until is not None:
        return None

    def optimised(one: Graph) -> Graph:
        stages, _ = pipeline.run(one, without, only, until)
        return stages[-1].graph

    return decoding_of(graph, ledger, optimised)


def compile_losses(
    module: Module,
    config: Config,
    graph: Graph,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
    until: str | None = None,
) -> tuple[Compiled, ...]:
    """The objectives of a model as functions of its results, each in its stages; those whose results all exist.

    A call asks for one by its labels: what has none, or the same as one before it, is a module of its own only, and so
    is what has weights of its own.
    """
    made, known = [], {*(one.name for one in graph.inputs), *(out.name for out in graph.outputs)}
    asked: set[frozenset[tuple[str, int]]] = set()
    for entry in heads.losses(module, graph.name, [one.name for one in graph.outputs]):
        loss = lowered(module, config, entry)
        labels = frozenset((one.name, len(one.axes)) for one in loss.inputs if one.name not in known)
        if not labels or labels in asked or loss.weights:
            continue
        asked.add(labels)
        stages, ledger = pipeline.run(loss, without, only, until)
        made.append(Compiled(module, config, entry.name, stages, ledger))
    return tuple(made)


def compile_defaults(
    module: Module, config: Config, graph: Graph, losses: Sequence[Compiled]
) -> tuple[Default, ...]:
    """The inputs of a model that are made of others where a call leaves them out, as functions of a batch."""
    found = () if graph.batch is None or graph.each else defaults(module, config, graph, [one.entry for one in losses])
    return tuple(one if one.reason else replace(one, graph=lowered(module, config, one.entry)) for one in found)


def known_shows(entry: Entry, config: Config, wanted: Sequence[str]) -> tuple[str, ...]:
    """The names of results on demand; one that is unknown, or none in this config, is an error."""
    known = list(showing.present(entry.definition, config))
    for name in wanted:
        if name not in known:
            advice = did_you_mean(name, known) or (f"It shows {', '.join(known)}." if known else "It shows none.")
            raise error("C629", f"{entry.name} has no result on demand `{name}`", help=advice)
    return tuple(wanted)


def lowered(module: Module, config: Config, entry: Entry, shows: Sequence[str] = ()) -> Graph:
    """The formula graph of a model; mistakes are told where the reader's own file goes wrong, as `check` does."""
    with checking.deep():
        try:
            return lower.lower_entry(entry, config, shows=shows)
        except TransformulaError as fault:
            raise TransformulaError(checking.settled(fault.diagnostics, module.file.span.source.name)) from None


def known_settings(module: Module, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, each of which is an entry of the spec's config. Raises `TransformulaError` for another one."""
    for name in settings:
        if name not in module.options:
            advice = did_you_mean(name, module.options) or f"It has {', '.join(module.options)}."
            raise error("C616", f"{module.name} has no config entry `{name}`", help=advice)
    return settings


def check(spec: str | Path, config: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    """The warnings of a spec; raises `TransformulaError` with all errors of the file at once."""
    session = check_session(spec, config)
    session.diagnostics.check()
    return session.diagnostics.warnings


def check_session(spec: str | Path | Source, config: Mapping[str, Any] | None = None, trace: bool = False) -> Session:
    """Everything that a check finds out, errors not raised yet; with `trace`, the axes of every expression."""
    module, found = _load(spec)
    return checking.check_module(module, Config(module, config or {}), trace, found.found)
