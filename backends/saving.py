"""`save_pretrained`: the weights of a loaded model, back in the tensors and files that they came from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from ..grammar.diagnostics import error
from .folder import ModelFolder
from .numpy.weights import WEIGHTS_FILE, Stored, Table, Weights, other_names, part_of, table_entries

Array = npt.NDArray[Any]
BESIDE = (
    *("config.json", "modules.json", "generation_config.json", "config_sentence_transformers.json"),
    *("sentence_*_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "[0-9]*_*/config.json"),
)
"""Files of a model's folder, other than weights, that a copy needs."""


@dataclass(frozen=True)
class Origin:
    """Where a model's weights came from, and how to get them as they are now."""

    folder: ModelFolder
    stored: Stored
    table: Table
    weights: Callable[[], Weights]

    def save(self, target: str | Path) -> Path:
        """Writes config, tokenizer and model.safetensors; tensors have the names, shapes and ties of the source.

        Tensors that the model does not use are kept. Each file is there wholly or not at all. Raises
        `TransformulaError` if the target is a file or cannot be written.
        """
        place = Path(target)
        try:
            place.mkdir(parents=True, exist_ok=True)
            tensors = back_in_place(self.stored, self.table, self.weights())
            inside = self.folder.weights.relative_to(self.folder.path)
            replace_file(place / inside / WEIGHTS_FILE, partial(save_file, tensors, metadata={"format": "pt"}))
            copy_beside(self.folder.path, self.folder.weights, place)
        except OSError as fault:
            raise error("K012", f"{place} cannot be written: {fault.strerror or fault}") from None
        return place


def back_in_place(stored: Stored, table: Table, weights: Mapping[str, Any]) -> dict[str, Array]:
    """The stored tensors with the weights' present numbers: the inverse of `assemble`.

    A weight with several homes is written to each that the file has, so ties stay ties.
    """
    made = {name: np.array(array, order="C") for name, array in stored.items()}
    for row, index, name in table_entries(table):
        value = weights[row[0]]
        for i in index:
            value = value[i]
        for one in other_names(name, table[2]):
            if one in made:
                part_of(row, index, made[one])[...] = value
    return made


def copy_beside(folder: Path, weights: Path, place: Path) -> None:
    """Copies config and tokenizer of a folder whose weights lie in `weights`, to the same places in another."""
    for pattern in BESIDE:
        for source in sorted({*folder.glob(pattern), *weights.glob(pattern)}):
            copy = place / source.relative_to(folder)
            if source.is_file() and not (copy.exists() and copy.samefile(source)):
                replace_file(copy, partial(shutil.copyfile, source))


def replace_file(path: Path, write: Callable[[str], Any]) -> None:
    """Writes beside the place, then renames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
