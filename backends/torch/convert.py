"""Pickled weights → safetensors: the only place where pickles are read, and only as tensors (weights_only)."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

from ...grammar.diagnostics import error
from ..numpy.files import MODULES_FILE, WEIGHTS_FILE, inside, module_rows
from ..saving import copy_beside, replace_file

try:
    import torch
    from safetensors.torch import save_file
except ImportError:
    raise error("C627", "convert needs PyTorch", help="pip install torch") from None

NAMES = ("pytorch_model.bin", "pytorch_model-*-of-*.bin", "*.ckpt", "*.pt")
"""Files of weights, the first kind that a folder has; other pickles (training_args.bin) are let be."""


def convert(folder: Path, target: Path) -> Path:
    """Writes a folder's pickled weights to target/model.safetensors, and config and tokenizer beside it.

    In a folder of sentence-transformers each module that has a pickle gets such a file, the weights of the others are
    copied. Only tensors are taken from a pickle: what would run code is refused. Tensors that share memory are each
    written. Raises `TransformulaError` for a folder without such a file, and for a file that holds anything else.
    """
    if not folder.is_dir():
        raise error("C630", f"no model's folder here: {folder}", help="Give the folder that holds pytorch_model.bin.")
    parts = _parts(folder)
    pickles = {part: found for part in parts if (found := _pickles(part))}
    if not pickles:
        raise error("K013", f"{folder} holds no pickled weights", help=f"They are called {NAMES[0]}.")
    written = []
    try:
        for part, files in pickles.items():
            tensors = {name: tensor for file in files for name, tensor in _read(file).items()}
            written.append(target / part.relative_to(folder) / WEIGHTS_FILE)
            replace_file(written[-1], partial(save_file, tensors, metadata={"format": "pt"}))
        copy_beside(folder, parts, target)
        copy_beside(folder, [part for part in parts if part not in pickles], target, ("*.safetensors*",))
    except OSError as fault:
        raise error("K012", f"{target} cannot be written: {fault.strerror or fault}") from None
    return written[0]


def _parts(folder: Path) -> list[Path]:
    """The folder, and those of its modules if it is one of sentence-transformers."""
    if not (folder / MODULES_FILE).is_file():
        return [folder]
    try:
        places = [inside(folder, path) for _, path in module_rows(folder / MODULES_FILE)]
    except ValueError as fault:
        raise error("C634", str(fault)) from None
    return list(dict.fromkeys((folder, *places)))


def _pickles(folder: Path) -> list[Path]:
    """The files of weights of the first kind that a folder has."""
    return next((found for name in NAMES if (found := sorted(folder.glob(name)))), [])


def _read(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, each with memory of its own."""
    try:
        found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as fault:
        more = "Unsupported" in str(fault) or "global" in str(fault).lower()
        reason = "it holds more than tensors" if more else "it is damaged"
        raise error("K014", f"{file} is refused: {reason}", help="Nothing of it was run.") from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as fault:
        told = str(fault).splitlines()[0] if str(fault) else "it ends early"
        raise error("K011", f"{file} cannot be read: {told}") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) for name in found):
        raise error("K014", f"{file} is refused: it is no table of named tensors")
    wrong = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if wrong:
        raise error("K014", f"{file} is refused: {wrong[0]!r} is no tensor")
    return {name: value.detach().clone().contiguous() for name, value in found.items()}
