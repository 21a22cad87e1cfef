"""What a user names as one side of a comparison: a spec, a file, a text, a config.json, or a model's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...compiler.config import read_config
from ...compiler.difference import Side, side
from ...compiler.difference.configs import shown
from ...compiler.driver import load_module
from ...compiler.modules import Module, shipped
from ...grammar.diagnostics import did_you_mean, error
from ..folder import model_types, read_model_folder
from ..numpy.files import INDEX_FILE, WEIGHTS_FILE, shard_index
from ..numpy.kernels import HEADER_LIMIT, safetensors_header

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def read_side(
    what: str | Path,
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    entry: str | None = None,
    label: str | None = None,
) -> Side:
    """The side of a shipped spec's name, a .formula file, a text, a config.json, or a folder with one.

    What `config` says goes before the file's own keys. Raises `TransformulaError` for what is none of these.
    """
    path = Path(what)
    text = isinstance(what, str) and "\n" in what
    said = ", ".join(f"{key}={shown(value)}" for key, value in (settings or {}).items())
    name = label or ("text" if text else path.name if path.name not in ("", ".") else str(path.absolute().name))
    name += f" with {said}" if said and label is None else ""
    if text or (str(what) in shipped() and not path.is_dir()):
        return side(name, what, config, settings, entry)
    if path.is_dir():
        found = read_model_folder(path, entry=entry)
        given = {**found.config, **(config or {})}
        return side(name, found.module, given, settings, entry or found.entry, tensors_of(found.weights))
    if path.suffix == ".json":
        return _config_side(path, config, settings, entry, label)
    return side(name, what, config, settings, entry)


def _config_side(
    path: Path,
    config: Mapping[str, Any] | None,
    settings: Mapping[str, Any] | None,
    entry: str | None,
    label: str | None,
) -> Side:
    """The side of a config.json: the shipped spec of its model_type, the model of its architecture."""
    given = {**read_config(path), **(config or {})}
    kind, known = given.get("model_type"), model_types()
    if not isinstance(kind, str) or kind not in known:
        unknown = f"has a model_type that no shipped spec is for: {str(kind)[:60]!r}"
        told = "has no model_type" if kind is None else unknown
        advice = did_you_mean(str(kind), known) or f"Known: {', '.join(sorted(known))}."
        raise error("C675", f"{path} {told}", help=f"{advice} A spec beside it goes with --config-a or --config-b.")
    name = label or (f"{path.parent.name}/{path.name}" if path.parent.name else path.name)
    module = load_module(known[kind])
    return side(name, module, given, settings, entry or _entry(module, given))


def _entry(module: Module, given: Mapping[str, Any]) -> str | None:
    """The model of the first architecture that the spec's checkpoint maps know."""
    kinds = given.get("architectures")
    known = {kind: one.model.name for one in module.checkpoints if one.model for kind in one.architectures}
    wanted = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    return next((known[kind] for kind in wanted if kind in known), None)


def tensors_of(folder: Path) -> Tensors | None:
    """The tensors that the headers of a folder's safetensors name: kind of numbers and shape. None if it has no such.

    Raises `TransformulaError` for a header that is none.
    """
    index = folder / INDEX_FILE
    try:
        names = [WEIGHTS_FILE] if (folder / WEIGHTS_FILE).is_file() else []
        if not names and index.is_file():
            names = sorted(set(shard_index(index).values()))
        found: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name in names:
            found.update(_header(folder / name))
    except ValueError as fault:
        advice = "The file is cut off, or no safetensors."
        raise error("C676", f"no header of safetensors: {fault}", help=advice) from None
    except OSError as fault:
        raise error("C676", f"{fault.filename} cannot be read: {fault.strerror}") from None
    return found if names else None


def _header(path: Path) -> Tensors:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > HEADER_LIMIT:
            raise ValueError(f"{path}: header of {length} bytes")
        text = file.read(length)
    if len(text) < length:
        raise ValueError(f"{path}: header of {length} bytes in a shorter file")
    found = {}
    for name, entry in safetensors_header(str(path), text).items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"{path}: tensor {name!r} has no shape")
        found[name] = (str(entry.get("dtype")), tuple(shape))
    return found
