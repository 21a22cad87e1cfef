"""What config.json says in more than one way, settled before any spec reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SETS = ("pos_att_type", "norm_rel_ebd")
"""Keys whose value is a set of words: a list of them, or one text with `|` between them."""

ROTATION, SCALING = "rope_parameters", "rope_scaling"

NEUTRAL: Mapping[str, tuple[Any, ...]] = {"partial_rotary_factor": (1,)}
"""Options with a value that changes nothing: it may stand where no spec reads them."""


def settled(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same keys, with `num_labels` counted from `id2label`, and sets of words as sorted texts: "c2p|p2c".

    The options of rotation are `rope_parameters`, also where the file has their older name.
    """
    found = dict(config)
    labels = config.get("id2label")
    if isinstance(labels, Mapping) and config.get("num_labels") is None:
        found["num_labels"] = len(labels)
    for key in SETS:
        words = config.get(key)
        words = words.split("|") if isinstance(words, str) else words
        if isinstance(words, list) and all(isinstance(one, str) for one in words):
            found[key] = "|".join(sorted(one.strip().lower() for one in words))
    older = found.pop(SCALING, None)
    rotation = older or found.get(ROTATION)  # the older one counts where a file has both
    if rotation is not None:
        found[ROTATION] = _typed(rotation) if isinstance(rotation, Mapping) else rotation
    return found


def _typed(rotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of rotation with their kind under its newer name."""
    kind = rotation.get("rope_type", rotation.get("type"))
    return {name: one for name, one in {**rotation, "rope_type": kind}.items() if name != "type"}


def as_written(config: Mapping[str, Any], key: tuple[str, ...]) -> str:
    """A key of the settled config as the file spells it, for messages."""
    if key[0] == ROTATION and config.get(SCALING):
        older = config[SCALING]
        typed = isinstance(older, Mapping) and "rope_type" not in older
        key = (SCALING, *("type" if part == "rope_type" and typed else part for part in key[1:]))
    return ".".join(key)
