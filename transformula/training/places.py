"""Where a training's weights begin and are kept: a model's folder, or a folder for each model of an objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ..backends.checkpoint_table import checkpoint_table
from ..backends.folder import SENTENCE, ModelFolder, read_model_folder
from ..backends.fresh import drawn, write_fresh, write_sentence, written_config
from ..backends.joined import Joined, Part, folder_rows, joined, parts_of
from ..backends.load import decided, load, weights_in
from ..backends.numpy.files import WEIGHTS_FILE, read_stored
from ..backends.numpy.weights import assemble, other_names
from ..backends.saving import Origin, replace_file
from ..backends.sentence import MODEL
from ..compiler.checkpoint import checkpoint_rows
from ..compiler.config import Config, read_config
from ..compiler.driver import load_module, lowered
from ..compiler.modules import Entry, Module, shipped
from ..grammar.diagnostics import error
from .job import Settings
from .vocabulary import KEYS, Tokens

ENCODER = "bert"
"""What is under a Sentence-BERT whose weights are drawn."""


@dataclass(frozen=True)
class Begun:
    """What a training begins with: its spec, the keys of a config.json, the folder whose weights are gone on with."""

    asked: Settings
    module: Module
    keys: Mapping[str, Any]
    stored: Path | None
    tokens: Tokens

    @property
    def spec(self) -> str | None:
        """The spec that a folder is read as, where it does not say so itself."""
        return None if self.asked.spec in shipped() or self.stored is not None else self.asked.spec

    @property
    def config(self) -> Config:
        """The sizes of the spec's models."""
        return config_of(self.asked, self.module, {**self.keys, **self.asked.config}, self.tokens)


@dataclass(frozen=True)
class One:
    """A model's folder is all of --out."""

    begun: Begun
    model: str

    def begin(self) -> None:
        """Writes the folder with config, tokenizer and the weights that the training begins with."""
        asked, module, stored = self.begun.asked, self.begun.module, self.begun.stored
        if _is_sentence(module) and stored is not None:
            load(stored, validate=False).save_pretrained(asked.out)
        elif _is_sentence(module):
            self._sentence()
        else:
            write_fresh(asked.out, module, self.begun.config, self.model, asked.seed, asked.stored)
            if stored is not None:
                _go_on(asked.out, stored, module, self.model)
        self.begun.tokens.save(asked.out)

    def _sentence(self) -> None:
        asked, base = self.begun.asked, load_module(ENCODER)
        keys = {**self.begun.keys, **asked.config, **_more_keys(asked, self.begun.module, base)}
        config = config_of(asked, base, keys, self.begun.tokens)
        write_fresh(asked.out, base, config, None, asked.seed, asked.stored)
        width = config.axis("d")
        assert width is not None
        write_sentence(asked.out, int(str(width.size)), asked.length)

    def read(self) -> tuple[Module, Mapping[str, Any], list[tuple[str, ModelFolder]]]:
        """(the spec, its config's keys, the model that is trained and its folder)."""
        model = None if _is_sentence(self.begun.module) else self.model
        found = read_model_folder(self.begun.asked.out, self.begun.spec, model)
        return found.module, found.config, [(self.model, found)]

    def origin(self, place: Path) -> Origin:
        """Where the weights came from, and go back to: --out, or a checkpoint of it."""
        found = self.read()[2][0][1]
        out = self.begun.asked.out
        return origin_of(found if place == out else replace(found, path=place, weights=place))


@dataclass(frozen=True)
class Several:
    """An objective joins several models: --out has a folder for each."""

    begun: Begun
    objective: Entry

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The models."""
        return parts_of(self.begun.module, self.begun.config, self.objective)

    def begin(self) -> None:
        """Writes the folder of each model with config, tokenizer and weights; those that they share are the same."""
        asked, module, parts = self.begun.asked, self.begun.module, self.parts
        for part in parts:
            if (asked.out / part.name).exists():
                told = f"{asked.out} holds {part.name}, and no checkpoint to go on from"
                raise error("T012", told, help="Choose another --out: its weights would be lost.")
        sources = {part.name: self._source(part) for part in parts}
        for part in parts:
            place, source = asked.out / part.name, sources[part.name]
            write_fresh(place, module, part.config, part.model.name, asked.seed, asked.stored)
            if source is not None:
                _go_on(place, source, module, part.model.name)
            self.begun.tokens.save(place)
        origins = self._origins(asked.out)
        graph = lowered(module, self.begun.config, self.objective)
        fresh = {one.name: drawn(one, asked.seed, asked.stored) for one in graph.weights}
        given = joined(tuple(one for one in origins if sources[one[0].name] is not None))
        weights = {**fresh, **given.weights()}
        Joined(origins, lambda: weights).save(asked.out)

    def _source(self, part: Part) -> Path | None:
        """The folder that a model's weights are gone on from: its own; the only one, for a model of the whole size."""
        stored = self.begun.stored
        if stored is None:
            return None
        if (stored / "config.json").is_file():
            return stored if part.whole else None
        return stored / part.name if (stored / part.name / WEIGHTS_FILE).is_file() else None

    def _origins(self, place: Path) -> tuple[tuple[Part, Origin], ...]:
        return tuple(
            (part, origin_of(read_model_folder(place / part.name, self.begun.spec, part.model.name)))
            for part in self.parts
        )

    def read(self) -> tuple[Module, Mapping[str, Any], list[tuple[str, ModelFolder]]]:
        """(the spec, its config's keys, each model that is trained and its folder)."""
        out, module = self.begun.asked.out, self.begun.module
        found = [
            (one.model.name, read_model_folder(out / one.name, self.begun.spec, one.model.name)) for one in self.parts
        ]
        return module, written_config(module, self.begun.config, self.objective), found

    def origin(self, place: Path) -> Joined:
        """Where the weights came from, and go back to: --out, or a checkpoint of it."""
        return joined(self._origins(place))


def place_of(begun: Begun, objective: Entry) -> One | Several:
    """Where the weights of an objective are kept."""
    of = begun.module.written[objective.name].of if objective.name in begun.module.written else None
    return Several(begun, objective) if of is None else One(begun, of.name)


def folders_of(module: Module, objective: Entry) -> list[str]:
    """The names of the folders inside --out; none where it is a model's folder itself."""
    return [name for _, _, name in folder_rows(module, objective.name)]


def _is_sentence(module: Module) -> bool:
    return module.name == SENTENCE or (module.base is not None and module.base.name == SENTENCE)


def _more_keys(asked: Settings, module: Module, base: Module) -> dict[str, Any]:
    """The settings that a spec has beside its encoder's, by their keys in config.json."""
    return {module.options[name].keys[0][0]: one for name, one in asked.settings.items() if name not in base.options}


def config_of(asked: Settings, module: Module, keys: Mapping[str, Any], tokens: Tokens) -> Config:
    """The sizes: what the user says, then what the tokenizer says, then the spec's defaults."""
    told = dict(keys)
    named = {**KEYS, "vocab_size": ""}
    for name, option in module.options.items():
        for key in option.keys:
            if len(key) == 1 and key[0] in named and name not in asked.settings and told.get(key[0]) is None:
                if key[0] == "vocab_size":
                    told["vocab_size"] = tokens.size
                elif named[key[0]] in tokens.ids:
                    told[key[0]] = tokens.ids[named[key[0]]]
    config = Config(module, told, {name: one for name, one in asked.settings.items() if name in module.options})
    vocabulary = next((name for name, one in module.options.items() if ("vocab_size",) in one.keys), None)
    size = config.axis(vocabulary) if vocabulary else None
    if size is not None and isinstance(size.size, int) and size.size < tokens.size:
        told_text = f"the tokenizer has {tokens.size} tokens, the model {vocabulary} = {size.size}"
        raise error("T014", told_text, help=f"Say --set {vocabulary}={tokens.size}, or give its tokenizer.")
    return config


def _go_on(out: Path, stored: Path, module: Module, model: str) -> None:
    """Puts the stored tensors of a folder over those that were drawn, where names and shapes agree."""
    mine, theirs = read_stored(out), read_stored(stored)
    config = Config(module, read_config(out / "config.json"))
    graph = lowered(module, config, module.entries[model])
    prefixes = checkpoint_table(checkpoint_rows(module, graph.name, graph, config))[2]
    made = {}
    for name, array in mine.items():
        same = [one for one in other_names(name, prefixes) if one in theirs and theirs[one].shape == array.shape]
        made[name] = np.ascontiguousarray(theirs[same[0]].astype(array.dtype) if same else array)
    replace_file(out / WEIGHTS_FILE, partial(save_file, made, metadata={"format": "pt"}))


def origin_of(found: ModelFolder) -> Origin:
    """Where the weights came from, and go back to."""
    chosen = found.module.entries[found.entry or MODEL]
    config, graph = decided(found, Config(found.module, found.config), chosen)
    stored, table, _, _ = weights_in(found, graph, config, True)
    weights = assemble(stored, table)
    return Origin(found, stored, table, lambda: weights)
