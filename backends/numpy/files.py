"""Run-time text of the NumPy backend that reads stored tensors; the emitter copies it into modules.

As in kernels.py everything is a small top-level function, an UPPER_CASE constant or a type alias, and needs
nothing but numpy, the standard library and kernels.py.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .kernels import read_npz, read_safetensors

Stored = Mapping[str, NDArray[Any]]

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
MODULES_FILE = "modules.json"
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.ckpt*")  # what files of weights are called
PICKLED = (
    "holds pickled weights only, which can run any code when they are read, so they are refused. Save it "
    "as safetensors: transformula convert FOLDER"
)


def read_stored(path: str | Path) -> Stored:
    """Stored name -> array, mapped from the file, of a folder, a .safetensors file or an .npz."""
    path = Path(path)
    if path.is_dir():
        return read_folder(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"):
        raise ValueError(f"{path} {PICKLED}")
    return read_safetensors(path)


def read_folder(folder: Path) -> Stored:
    """The weights of a folder: of one model, of all modules of a sentence model, or of a folder for each of several.

    In a sentence model the transformer's tensors have their own names, those of another module begin with its folder:
    2_Dense/…. Of several models all begin so: generator/….
    """
    stored: dict[str, NDArray[Any]] = {}
    if not (folder / MODULES_FILE).is_file():
        if not (folder / WEIGHTS_FILE).is_file() and not (folder / INDEX_FILE).is_file():
            for file in sorted(folder.glob(f"*/{WEIGHTS_FILE}")):
                place = file.parent
                stored.update({f"{place.name}/{name}": array for name, array in read_files(place).items()})
        return stored or read_files(folder)
    for kind, path in module_rows(folder / MODULES_FILE):
        place = inside(folder, path)
        if kind == "Transformer":
            stored.update(read_files(place))
        elif path and any(True for pattern in WEIGHTS for _ in place.glob(pattern)):
            stored.update({f"{path}/{name}": array for name, array in read_files(place).items()})
    return stored


def module_rows(path: Path) -> list[tuple[str, str]]:
    """(last part of the type, path) of each module in a modules.json."""
    try:
        rows = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{path} is not valid JSON: {fault}") from None
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("type"), str) and isinstance(row.get("path"), str)
        for row in rows
    ):
        raise ValueError(f"{path} should be a list of modules, each with type and path")
    return [(row["type"].rpartition(".")[2], row["path"]) for row in rows]


def inside(folder: Path, path: str) -> Path:
    """The place that a module's path leads to: the folder or one inside it."""
    if Path(path).is_absolute() or ".." in Path(path).parts or "\0" in path:
        raise ValueError(f"the path {path!r} leads out of the folder")
    return folder / path


def read_files(folder: Path) -> Stored:
    """The weights of one folder: a file, or shards by their index."""
    if (folder / WEIGHTS_FILE).is_file():
        return read_safetensors(folder / WEIGHTS_FILE)
    if (folder / INDEX_FILE).is_file():
        return read_shards(folder)
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.ckpt*")):
        raise ValueError(f"{folder} {PICKLED}")
    raise ValueError(f"{folder} holds neither {WEIGHTS_FILE} nor {INDEX_FILE}")


def read_shards(folder: Path) -> Stored:
    """All shards that the index names, which are files of the folder itself; index and shards must agree."""
    index = folder / INDEX_FILE
    homes = shard_index(index)
    stored: dict[str, NDArray[Any]] = {}
    where: dict[str, str] = {}
    for file in sorted(set(homes.values())):
        if not (folder / file).is_file():
            raise ValueError(f"{index} names the shard {file}, which does not exist")
        for name, array in read_safetensors(folder / file).items():
            if name in where:
                raise ValueError(f"{name!r} is in two shards, {where[name]} and {file}")
            stored[name], where[name] = array, file
    wrong = [name for name, file in homes.items() if where.get(name) != file]
    if wrong:
        raise ValueError(
            f"{index}: the shard {homes[wrong[0]]} does not hold {wrong[0]!r} ({len(wrong)} such names)"
        )
    return stored


def shard_index(index: Path) -> dict[str, str]:
    """Stored name -> file of an index; plain names only, so nothing outside the folder is opened."""
    try:
        homes = json.loads(index.read_bytes())["weight_map"]
        plain = all(isinstance(f, str) and f.endswith(".safetensors") for f in homes.values())
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f'{index} is no index: it should be JSON with "weight_map": {{name: file}}'
        ) from None
    for file in homes.values():
        if not plain or re.search(r"[/\\:\0]", file):
            raise ValueError(f"{index} names {file!r}, which is no .safetensors file of this folder")
    return dict(homes)
