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
from ..headers import NoWeights, tensors_in

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
    try:
        return {one.name: (one.dtype, one.shape) for one in tensors_in(folder)}
    except NoWeights:
        return None
    except ValueError as fault:
        advice = "The file is cut off, or no safetensors."
        raise error("C676", f"no header of safetensors: {fault}", help=advice) from None
    except OSError as fault:
        raise error("C676", f"{fault.filename} cannot be read: {fault.strerror}") from None
