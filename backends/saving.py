"""`save_pretrained`: the weights of a loaded model, back in the tensors and files that they came from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from ..grammar.diagnostics import error
from .folder import ModelFolder
from .numpy.files import WEIGHTS_FILE, Stored
from .numpy.gradients import view_of
from .numpy.weights import Table, Weights, other_names, row_shape, table_entries

Array = npt.NDArray[Any]
TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "*.model"),
)
"""Files that a tokenizer may have."""

BESIDE = (
    *("config.json", "modules.json", "generation_config.json", "config_sentence_transformers.json"),
    *("sentence_*_config.json", *TOKENIZER, "[0-9]*_*/config.json"),
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
        """Writes config, tokenizer and model.safetensors; tensors have the files, names, shapes and ties of the source.

        Tensors that the model does not use are kept. Each file is there wholly or not at all. Raises
        `TransformulaError` if the target is a file or cannot be written.
        """
        place = Path(target)
        try:
            place.mkdir(parents=True, exist_ok=True)
            tensors = back_in_place(self.stored, self.table, self.weights())
            for inside, own in self._files(tensors).items():
                replace_file(place / inside / WEIGHTS_FILE, partial(save_file, own, metadata={"format": "pt"}))
            beside = [self.folder.path / part for part in self.folder.parts]
            copy_beside(self.folder.path, [self.folder.path, self.folder.weights, *beside], place)
        except OSError as fault:
            raise error("K012", f"{place} cannot be written: {fault.strerror or fault}") from None
        return place

    def _files(self, tensors: Mapping[str, Array]) -> dict[Path, dict[str, Array]]:
        """Folder inside the model's → tensors by their names in it: those of a part have its name before theirs."""
        main = self.folder.weights.relative_to(self.folder.path)
        files: dict[Path, dict[str, Array]] = {main: {}}
        for name, array in tensors.items():
            part = next((one for one in self.folder.parts if name.startswith(f"{one}/")), None)
            own = files.setdefault(Path(part) if part is not None else main, {})
            own[name if part is None else name.removeprefix(f"{part}/")] = array
        return files


def back_in_place(stored: Stored, table: Table, weights: Mapping[str, Any]) -> dict[str, Array]:
    """The stored tensors with the weights' present numbers: the inverse of `assemble`.

    A weight with several homes is written to each that the file has, so ties stay ties. One that the file lacks is
    written if it is no longer the number that it then has.
    """
    made = {name: np.array(array, order="C") for name, array in stored.items()}
    absent = dict(table[4])
    for row, _, name in table_entries(table):
        there = any(one in made for one in other_names(name, table[2]))
        if row[0] in absent and not there and np.any(np.asarray(weights[row[0]]) != absent[row[0]]):
            made[name] = np.full(row_shape(row), absent[row[0]], np.asarray(weights[row[0]]).dtype)
    for row, index, name in table_entries(table):
        value = weights[row[0]]
        for i in index:
            value = value[i]
        for one in other_names(name, table[2]):
            if one in made:
                view_of(row, index, made[one])[...] = value
    return made


def copy_beside(folder: Path, parts: Sequence[Path], place: Path, patterns: Sequence[str] = BESIDE) -> None:
    """Copies config and tokenizer of a folder, which lie in these parts of it, to the same places in another."""
    for pattern in patterns:
        for source in sorted({one for part in parts for one in part.glob(pattern)}):
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
