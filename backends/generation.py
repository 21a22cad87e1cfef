"""Generation by a loaded model, and what its files say about it: the options that stand where a caller says nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..compiler.driver import Compiled, compile_decoding
from ..compiler.ledger import Ledger
from ..grammar.diagnostics import error
from .decoding import Decodes, decodes
from .numpy.generation import Recomputed, generate_tokens, stream_tokens
from .numpy.options import NEUTRAL, SEARCH
from .program import Program

HARMLESS = frozenset((
    "_commit_hash", "_from_model_config", "assistant_confidence_threshold", "assistant_lookbehind", "cache_config",
    "cache_implementation", "compile_config", "disable_compile", "is_assistant", "max_cache_len",
    "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "prefill_chunk_size",
    "target_lookbehind", "transformers_version", "use_mtp",
))  # fmt: skip
"""Keys of generation_config.json that say nothing about which tokens come."""


def generation_defaults(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The options among the keys of generation_config.json or config.json, and requests for what is not supported."""
    known = {name: value for name, value in keys.items() if name != "use_cache" and (name in SEARCH or name in NEUTRAL)}
    asked = {name: value for name, value in known.items() if value is not None}
    return {name: _plain(value) for name, value in asked.items() if not (name in NEUTRAL and value == NEUTRAL[name])}


def unused_generation_keys(keys: Mapping[str, Any]) -> list[str]:
    """The keys of generation_config.json that nothing reads."""
    return [name for name in keys if name not in SEARCH and name not in NEUTRAL and name not in HARMLESS]


def defaults_of(compiled: Compiled) -> dict[str, Any]:
    """The options of a compiled model: those of generation_config.json, or, where there is none, of config.json."""
    given = compiled.config.given if compiled.generation is None else compiled.generation
    return generation_defaults(given)


def _contiguous(value: Any) -> Any:
    """An array as every backend takes it; all else as it is."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


def _plain(value: Any) -> Any:
    """The value as a literal can hold it; a number that is none becomes a text, which no option takes."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value


class Generates:
    """What a loaded model has that decodes: `generate` and `stream`, on any backend."""

    program: Program
    module: Any
    backend: str
    entry: str

    @cached_property
    def generation(self) -> dict[str, Any]:
        """The options of `generate` where a caller says nothing: those of the folder's files. May be changed."""
        own: dict[str, Any] | None = getattr(self.module, "generation", None)
        return defaults_of(self.program.compiled) if own is None else own

    def generate(
        self, input_ids: Any = None, attention_mask: Any = None, max_new_tokens: int | None = None, **options: Any
    ) -> Any:
        """The prompts [batch, seq], padded on either side, with the new tokens of each behind them.

        Of an encoder-decoder the decoder's tokens, the start token first. Options have the names and the meaning that
        `generate` of transformers gives them; `seed` makes draws repeatable. Rows that have ended are filled with the
        pad token. Raises `TransformulaError` for what cannot be done.
        """
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "max_new_tokens": max_new_tokens, **options}
        given = {name: _contiguous(value) for name, value in given.items()}
        parts = self._decodes()
        with self._told():
            if self.backend != "reference":
                return self.module.generate(**given)
            return generate_tokens(self._recomputed, parts.literal(), self.generation, given)

    def stream(
        self, input_ids: Any = None, attention_mask: Any = None, max_new_tokens: int | None = None, **options: Any
    ) -> Iterator[Any]:
        """The new tokens [batch] of one step after the other, as soon as they are known; options as of `generate`."""
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "max_new_tokens": max_new_tokens, **options}
        given = {name: _contiguous(value) for name, value in given.items()}
        parts = self._decodes()
        with self._told():
            if self.backend != "reference":
                steps = self.module.stream(**given)
            else:
                steps = stream_tokens(self._recomputed, parts.literal(), self.generation, given)
        return self._steps(steps)

    def _steps(self, steps: Iterator[Any]) -> Iterator[Any]:
        with self._told():
            yield from steps

    def _recomputed(self, examples: int = 1, room: int = 0, **source: Any) -> Recomputed:
        return Recomputed(self, self._decodes().literal(), source)

    def _decodes(self) -> Decodes:
        found = self.decoding
        if found is None:
            raise error(
                "R931",
                f"{self.entry} generates no tokens",
                help="A model that does has logits over the tokens that it reads, and no token sees a later one:"
                " `transformula explain` says which does.",
            )
        return found

    @cached_property
    def decoding(self) -> Decodes | None:
        """The parts of a model that decodes, by name; None if this one does not."""
        made = self.program.compiled
        found = made.decoding
        if self.backend == "reference" and not made.rows:
            found = compile_decoding(made.formula, Ledger())
        return decodes(made.formula, found)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What cannot be done as an error for people."""
        try:
            yield
        except ValueError as fault:
            raise error("R930", f"{self.entry}: {fault}") from None
