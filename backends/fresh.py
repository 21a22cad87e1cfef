"""A model's folder with weights that are drawn as its spec says: where a training from nothing begins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from ..compiler.checkpoint import checkpoint_rows, find_block
from ..compiler.config import Config, show
from ..compiler.driver import lowered
from ..compiler.graphs import Graph, Weight
from ..compiler.lower import choose_entry
from ..compiler.modules import Entry, Module
from ..compiler.values import Choice
from ..grammar.diagnostics import TransformulaError, error
from ..grammar.syntax import Name, Text
from .checkpoint_table import checkpoint_table
from .folder import model_types
from .initial import first_values
from .numpy.files import WEIGHTS_FILE
from .numpy.gradients import stored_zeros
from .numpy.weights import Table, Weights, table_entries
from .optimising import decaying
from .program import write_text
from .saving import back_in_place, replace_file

Array = npt.NDArray[Any]


def write_fresh(place: Path, module: Module, config: Config, entry: str | None, seed: int, dtype: str) -> Entry:
    """Writes config.json and model.safetensors of a model of a spec: weights are drawn by `seed` and their own names.

    The config holds every entry that has a key, so that the ecosystem's library builds the same model. Returns the
    model. Raises `TransformulaError` for one without a checkpoint map, or whose initialiser is no distribution.
    """
    chosen = choose_entry(module, entry)
    graph = lowered(module, config, chosen)
    table = checkpoint_table(checkpoint_rows(module, graph.name, graph, config))
    weights = {one.name: drawn(one, seed, dtype) for one in graph.weights}
    tensors = _stored(graph, table, weights, dtype)
    keys = written_config(module, config, chosen)
    place.mkdir(parents=True, exist_ok=True)
    replace_file(place / WEIGHTS_FILE, partial(save_file, tensors, metadata={"format": "pt"}))
    write_text(place / "config.json", json.dumps(keys, indent=2, sort_keys=True) + "\n")
    return chosen


def write_sentence(place: Path, width: int, length: int) -> None:
    """Makes the folder of an encoder one of sentence-transformers, with the mean over the tokens."""
    kind = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"},
    ]
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    for name, told in (
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False}),
    ):
        write_text(place / name, json.dumps(told, indent=2) + "\n")


def _stored(graph: Graph, table: Table, weights: Weights, dtype: str) -> dict[str, Array]:
    """The tensors of a file: of a weight with several homes the first, none of what a file may lack."""
    absent = dict(table[4])
    lacking = {name for name in weights if name in absent and np.all(np.asarray(weights[name]) == absent[name])}
    rows = tuple(row for row in table[0] if row[0] not in lacking)
    made = back_in_place(stored_zeros((rows, *table[1:]), dtype), table, weights)
    vectors = {weight.name for weight in graph.weights} - decaying(graph)
    flat = {name for row, _, name in table_entries(table) if row[0] in vectors}
    return {name: array.reshape(-1) if name in flat and array.ndim > 1 else array for name, array in made.items()}


def drawn(weight: Weight, seed: int, dtype: str) -> Array:
    """The first values of a weight [stack…, axes…]: N(0, σ²) or one number, as its `~` says; N(0, 0.02²) without.

    They depend on the seed and the weight's name alone.
    """
    sizes = [axis.size for axis in weight.axes]
    shape = tuple(int(size) for size in sizes if isinstance(size, int))
    found = first_values(weight)
    if found is None:
        raise error("T010", f"the initial value {weight.init} of {weight.name} is no number and no normal(σ)")
    middle, spread = found
    if not spread:
        return np.full(shape, middle, dtype)
    digest = hashlib.sha256(f"{seed}/{weight.name}".encode()).digest()
    draws = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    return np.asarray(middle + draws.standard_normal(shape) * spread, dtype)


def written_config(module: Module, config: Config, entry: Entry) -> dict[str, Any]:
    """config.json: what was given, then each entry of the spec under its key, with model_type and architectures.

    An entry inside of another object (options of rotation) is written where it is given or set: a default means none.
    """
    keys: dict[str, Any] = json.loads(json.dumps(dict(config.file)))
    for name, option in module.options.items():
        if option.keys and option.index is None:
            said = name in config.settings or name in config.overrides
            given = any(_holds(keys, key) for key in option.keys) and not said
            value = _NOTHING if given or (len(option.keys[0]) > 1 and not said) else _plain(config, name)
            if value is not _NOTHING:
                _put(keys, option.keys[0], value)
    kind = next((kind for kind, name in model_types().items() if name == module.name), None)
    maps = [one for one in module.checkpoints if one.model and find_block(module, one.model.name) is one]
    kinds = [kind for one in maps if one.model and one.model.name == entry.name for kind in one.architectures]
    keys |= {"model_type": kind} if kind else {}
    return keys | ({"architectures": kinds[:1]} if kinds else {})


_NOTHING = object()


def _plain(config: Config, name: str) -> Any:
    """The value of an entry as JSON, or nothing where it is none that a file holds."""
    try:
        value = config.value(name)
    except TransformulaError:
        return _NOTHING
    if config.module.options[name].choice is not None:
        return _chosen(config, name)
    return show(value) if isinstance(value, bool | Fraction | float | Choice) else _NOTHING


def _chosen(config: Config, name: str) -> Any:
    """The text of an entry that a table of choices has: as it was set, or that of the default's row."""
    option = config.module.options[name]
    if name in config.settings:
        return config.settings[name]
    if isinstance(option.value, Text):
        return option.value.value
    table = config.module.choices[option.choice.name][0] if option.choice else None
    named = option.value.name if isinstance(option.value, Name) else ""
    rows = table.rows if table else ()
    texts = [texts[0] for texts, value in rows if isinstance(value, Name) and value.name == named]
    return texts[0] if texts else _NOTHING


def _holds(keys: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    for part in key:
        if not isinstance(keys, Mapping) or part not in keys:
            return False
        keys = keys[part]
    return True


def _put(keys: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    for part in key[:-1]:
        inner = keys.setdefault(part, {})
        if not isinstance(inner, dict):
            inner = keys[part] = {}
        keys = inner
    keys[key[-1]] = value
