"""What config.json says in more than one way, settled before any spec reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SETS = ("pos_att_type", "norm_rel_ebd")
"""Keys whose value is a set of words: a list of them, or one text with `|` between them."""


def settled(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same keys, with `num_labels` counted from `id2label`, and sets of words as sorted texts: "c2p|p2c"."""
    found = dict(config)
    labels = config.get("id2label")
    if isinstance(labels, Mapping) and config.get("num_labels") is None:
        found["num_labels"] = len(labels)
    for key in SETS:
        words = config.get(key)
        words = words.split("|") if isinstance(words, str) else words
        if isinstance(words, list) and all(isinstance(one, str) for one in words):
            found[key] = "|".join(sorted(one.strip().lower() for one in words))
    return found
