"""An objective that joins several models: a folder of the ecosystem for each, with what they share in all of them.

Which models these are, the checkpoint map of the objective says, a row for each instance:

    checkpoint huggingface of joint
        generator     : BertForMaskedLM "generator/"
        discriminator : ElectraForPreTraining "discriminator/"

The weights below `generator` are those of a BertForMaskedLM, whose folder is `generator`; its config.json has the sizes
that the instance has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler.checkpoint import find_block
from ..compiler.config import Config
from ..compiler.driver import lowered
from ..compiler.instances import use_config
from ..compiler.modules import Entry, Module
from ..grammar import syntax as s
from ..grammar.diagnostics import error
from ..grammar.printer import expression as printed
from .fresh import written_config
from .numpy.weights import Weights
from .saving import Origin

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESERVED = re.compile(r"checkpoint-[0-9]+")
"""What checkpoints of a training are called."""


@dataclass(frozen=True)
class Part:
    """A model of an objective: its folder's name, the model, its sizes, and the objective's name of each weight.

    A part that is `whole` has the sizes of the spec itself.
    """

    name: str
    model: Entry
    config: Config
    homes: Mapping[str, str]
    whole: bool


@dataclass(frozen=True)
class Joined:
    """Where the weights of an objective of several models are, and how to get them as they are now."""

    parts: tuple[tuple[Part, Origin], ...]
    weights: Callable[[], Weights]

    def save(self, target: str | Path) -> Path:
        """Writes the folder of each model, as `Origin.save` does; a weight that models share is written to all."""
        now = self.weights()
        for part, origin in self.parts:
            own = {name: now.get(part.homes[name], value) for name, value in origin.weights().items()}
            replace(origin, weights=partial(dict, own)).save(Path(target) / part.name)
        return Path(target)


def folder_rows(module: Module, objective: str) -> list[tuple[str, str, str]]:
    """(instance, model, folder) of each row of an objective's checkpoint map that is a model with its own folder."""
    block = find_block(module, objective)
    mine = block is not None and block.model is not None and block.model.name == objective
    rows = [one for one in block.rows if isinstance(one, s.Mapping)] if block is not None and mine else []
    return list(_folders(module, rows))


def _folders(module: Module, rows: list[s.Mapping]) -> Iterator[tuple[str, str, str]]:
    known: set[str] = set()
    for row in rows:
        model = module.entries.get(row.include.name) if row.include is not None else None
        if model is None or model.definition.kind != "model" or not row.stored.endswith("/"):
            continue
        name, instance = row.stored[:-1], ".".join(part for part, _ in row.paths[0].parts)
        if not PLAIN.fullmatch(name) or RESERVED.fullmatch(name) or name in known:
            advice = "Letters, digits, - and _, each name once."
            raise error("T021", f'"{row.stored}" is no name of a folder', help=advice)
        known.add(name)
        yield instance, model.name, name


def parts_of(module: Module, config: Config, objective: Entry) -> tuple[Part, ...]:
    """The models of an objective. Raises `TransformulaError` for sizes that a model's config.json cannot say."""
    graph = lowered(module, config, objective)
    shapes = {one.name: one.shape for one in graph.weights}
    ties = {printed(tie.left): printed(tie.right) for tie in module.ties}
    made = []
    for instance, model, name in folder_rows(module, objective.name):
        entry, inner = module.entries[model], use_config(module, config, instance)
        own = _said(module, inner, entry, name)
        found = {one.name: one.shape for one in lowered(module, own, entry).weights}
        homes = {weight: _home(f"{instance}.{weight}", shapes, ties) for weight in found}
        _check(instance, model, {homes[weight]: shape for weight, shape in found.items()}, shapes)
        made.append(Part(name, entry, own, homes, inner is config))
    return tuple(made)


def _check(instance: str, model: str, found: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    """The weights of an instance are those of the model that its row names."""
    lacking = [name for name in shapes if name.startswith(f"{instance}.") and name not in found]
    other = [name for name, shape in found.items() if shapes.get(name, shape) != shape]
    if lacking or other:
        told = f"{model} has nothing like {lacking[0]}" if lacking else f"{other[0]} has another shape in {model}"
        raise error("T022", f"{instance} is no {model}: {told}", help="Its row should name the model that it is.")


def _said(module: Module, inner: Config, model: Entry, folder: str) -> Config:
    """The config of an instance, as config.json says it."""
    said = Config(module, written_config(module, inner, model))
    wanted, found = inner.effective(), said.effective()
    other = [name for name in wanted if wanted[name] != found[name] and name in inner.overrides]
    if other:
        told = f"config.json of {folder} cannot say `{other[0]}` = {wanted[other[0]]}"
        raise error("T022", told, help=f"Give it a key in the spec:  {other[0]} = … as KEY")
    return said


def _home(name: str, known: Mapping[str, Any], ties: Mapping[str, str]) -> str:
    """The name that the objective has for a weight of a model: its own, or that which it is tied to."""
    seen = {name}
    while name not in known and name in ties and ties[name] not in seen:
        name = ties[name]
        seen.add(name)
    return name


def joined(found: tuple[tuple[Part, Origin], ...]) -> Joined:
    """The weights of an objective out of its models' folders. Raises `TransformulaError` where these contradict."""
    weights: Weights = {}
    first: dict[str, str] = {}
    for part, origin in found:
        for name, value in origin.weights().items():
            home = part.homes[name]
            if home in weights and not same(weights[home], value):
                told = f"{first[home]} and {part.name} hold different numbers for {home}, which is one weight"
                raise error("T023", told, help="Give folders of models that were trained together.")
            weights.setdefault(home, value)
            first.setdefault(home, part.name)
    return Joined(found, lambda: weights)


def same(one: Any, other: Any) -> bool:
    """Whether two weights (or lists of such) hold the same numbers."""
    return bool(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True))


def whole_folder(place: Path, module: Module, objective: str) -> Path:
    """The folder inside `place` whose config.json has the sizes of the whole.

    Raises `TransformulaError` where there is none.
    """
    for instance, _, name in folder_rows(module, objective):
        use = module.uses.get(instance)
        if use is not None and not use.args and not use.binds and (place / name / "config.json").is_file():
            return place / name
    names = [name for _, _, name in folder_rows(module, objective)]
    told = f"{place} holds no folder with the sizes of {objective}"
    raise error("T024", told, help=f"Its models are {' and '.join(names)}." if names else "")
