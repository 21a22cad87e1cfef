"""What a model's files say about generation: the options that stand where a caller says nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..compiler.driver import Compiled
from .numpy.options import NEUTRAL, SEARCH

FILE = "generation_config.json"
HARMLESS = frozenset((
    "_commit_hash", "_from_model_config", "assistant_confidence_threshold", "assistant_lookbehind", "cache_config",
    "cache_implementation", "compile_config", "disable_compile", "is_assistant", "max_cache_len",
    "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "prefill_chunk_size",
    "target_lookbehind", "transformers_version", "use_mtp",
))  # fmt: skip
"""Keys of generation_config.json that say nothing about which tokens come."""


def generation_defaults(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The options among the keys of generation_config.json or config.json, and requests for what is not supported."""
    known = {name: value for name, value in keys.items() if name in SEARCH or name in NEUTRAL}
    asked = {name: value for name, value in known.items() if value is not None}
    return {name: _plain(value) for name, value in asked.items() if not (name in NEUTRAL and value == NEUTRAL[name])}


def unused_generation_keys(keys: Mapping[str, Any]) -> list[str]:
    """The keys of generation_config.json that nothing reads."""
    return [name for name in keys if name not in SEARCH and name not in NEUTRAL and name not in HARMLESS]


def defaults_of(compiled: Compiled) -> dict[str, Any]:
    """The options of a compiled model: those of generation_config.json, or, where there is none, of config.json."""
    given = compiled.config.given if compiled.generation is None else compiled.generation
    return generation_defaults(given)


def _plain(value: Any) -> Any:
    """The value as a literal can hold it; a number that is none becomes a text, which no option takes."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value
