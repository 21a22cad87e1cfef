"""One side of a comparison: a spec with its config, and what is made of it when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...grammar import syntax as s
from ...grammar.comments import head
from ...grammar.diagnostics import TransformulaError
from ..checkpoint import CheckpointMap, checkpoint_rows
from ..config import Config
from ..driver import Compiled, compile_graph, known_settings, load_module, lowered, lowered_objective
from ..homes import Place, homes, parts_of
from ..ir import Graph
from ..lower import choose_entry
from ..modules import Entry, Module
from .blocks import Block, tree

RECOGNISED = "recognise"
MEANT = {"layer_norm": "norm", "rms_norm": "norm", "attention": "attention"}
MEANT |= dict.fromkeys(("gelu", "gelu_tanh", "quick_gelu", "silu", "relu", "leaky_relu"), "activation")
"""What a recognised meaning is to a layer, whichever of its kind it is."""


@dataclass(eq=False)
class Side:
    """A spec with its config; `entry` is the model that is compared, `tensors` those of a folder by name."""

    label: str
    module: Module
    config: Config
    entry: str
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None = field(default=None, repr=False)
    given: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def title(self) -> str:
        """The first line of the comment that its file begins with."""
        return next(iter(head(self.module.file.span.source)), "")

    @cached_property
    def compiled(self) -> Compiled:
        """The compared model in its stages."""
        return compile_graph(self.module, self.given, self.entry, self.settings)

    @cached_property
    def tree(self) -> Block:
        """The blocks of the compared model."""
        return tree(self.module, self.config, self.module.entries[self.entry])

    @cached_property
    def models(self) -> list[str]:
        """The models of the spec, the compared one first."""
        found = [one.name for one in self.module.of_kind("model") if one.name != self.entry]
        return [self.entry, *found] if self.definition(self.entry).kind == "model" else [self.entry]

    def definition(self, name: str) -> s.Definition:
        """A definition as it was written: what stands `of` a model without what it has from that."""
        return self.module.written.get(name, self.module.entries[name].definition)

    def graph(self, name: str) -> Graph | None:
        """The formula graph of a model or objective; None where this config has none."""
        if name not in self._graphs:
            try:
                self._graphs[name] = formula(self.module, self.config, self.module.entries[name])
            except TransformulaError:
                self._graphs[name] = None
        return self._graphs[name]

    @cached_property
    def _graphs(self) -> dict[str, Graph | None]:
        return {}

    @cached_property
    def recognised(self) -> Graph:
        """The graph of the compared model in which meanings are recognised."""
        return next(stage.graph for stage in self.compiled.stages if stage.name == RECOGNISED)

    @cached_property
    def _meanings(self) -> dict[Place, set[str]]:
        found: dict[Place, set[str]] = {}
        for one, home in homes(self.recognised).items():
            if one.op == "kernel" and one["name"] in MEANT:
                found.setdefault(home, set()).add(MEANT[one["name"]])
        return found

    def meant(self, block: Block) -> frozenset[str]:
        """What is recognised in a block and all in it: a norm, attention, an activation."""
        place = parts_of(block.path)
        homes_inside = [home for home in self._meanings if home[: len(place)] == place]
        return frozenset(name for home in homes_inside for name in self._meanings[home])

    def rows(self, name: str) -> CheckpointMap | None:
        """The checkpoint map of a model; None where there is none for this config."""
        graph = self.graph(name)
        try:
            return None if graph is None else checkpoint_rows(self.module, name, graph, self.config)
        except TransformulaError:
            return None


def side(
    label: str,
    spec: str | Path | Module,
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    entry: str | None = None,
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] | None = None,
) -> Side:
    """A side; raises `TransformulaError` for a spec, an entry or a setting that is none."""
    module = spec if isinstance(spec, Module) else load_module(spec)
    chosen = choose_entry(module, entry)
    given, settings = config or {}, known_settings(module, settings or {})
    made = Config(module, given, settings)
    found = Side(label, module, made, chosen.name, tensors, given, settings)
    found._graphs[chosen.name] = formula(module, made, chosen)  # its mistakes are the user's
    return found


def formula(module: Module, config: Config, entry: Entry) -> Graph:
    """The formula graph of anything that has one. Raises `TransformulaError` for all mistakes in it."""
    make = lowered_objective if entry.definition.kind == "objective" else lowered
    return make(module, config, entry)
