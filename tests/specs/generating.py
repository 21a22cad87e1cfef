"""What tests of generation share: a folder's model of the library, and ours of every backend."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

import transformula

Array = NDArray[np.int64]
BACKENDS = ("numpy", "torch", "reference")


@lru_cache(maxsize=4)
def theirs(folder: Path, kind: str) -> Any:
    """The library's model in float64."""
    kwargs = {"dtype": torch.float64, "attn_implementation": "eager"}
    return getattr(transformers, kind).from_pretrained(folder, **kwargs).eval()


@lru_cache(maxsize=8)
def ours(folder: Path, backend: str) -> Any:
    """Our model in float64."""
    return transformula.load(folder, backend=backend, dtype="float64", validate=False)


def asked(model: Any, ids: Array, mask: Array | None, **options: Any) -> Array:
    """What the library's `generate` returns."""
    given = {} if mask is None else {"attention_mask": torch.tensor(mask)}
    with torch.inference_mode():
        found: Array = model.generate(torch.tensor(ids), **given, **options).numpy()
    return found


def plain(found: Any) -> Array:
    """Tokens as an array, of whatever backend."""
    return np.asarray(found)


def without_padding(row: Array, mask: Array) -> Array:
    """[1, tokens] of a row that its mask shows."""
    return np.asarray(row[mask != 0][None])
