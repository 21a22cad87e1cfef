"""Corrupting texts from Python: `transformula.corrupt("bert", "masking", input_ids=…, seed=…)`."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler import corruptions
from ..compiler.driver import load_module
from ..grammar.diagnostics import did_you_mean, error
from .numpy.corrupting import python_names
from .program import Program, compile

ALWAYS = ("seed", "example", "pad_token_id")
SPECIAL = "special_tokens_mask"


def corrupt(
    spec: str | Path,
    name: str | None = None,
    backend: str = "numpy",
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    all_special_ids: Iterable[int] | None = None,
    **inputs: Any,
) -> dict[str, Any]:
    """Corrupted texts with their labels, by the names that models take: input_ids, attention_mask, labels, ….

    `name` is a corruption of the spec (by default its first), `config` holds keys of config.json, `settings` entries of
    the spec's own config. Inputs are those of the corruption: texts [batch, length] with attention_mask, or lists;
    numbers (mask_token_id, rates), one for all texts or one for each; and `seed`, `example` (the number of each text,
    by default from 0) and `pad_token_id`. Instead of special_tokens_mask the ids of the special tokens will do, as a
    tokenizer's `all_special_ids`. A text depends on its tokens, the seed and its number only.
    Raises `TransformulaError` for what does not fit: unknown corruptions and inputs, rates that are no shares, ….
    """
    chosen = [json.dumps(dict(one or {}), sort_keys=True) for one in (config, settings)]
    make = _made if Path(spec).is_file() else _program  # a file may have changed
    program = make(str(spec), name, backend, chosen[0], chosen[1])
    if all_special_ids is not None and inputs.get(SPECIAL) is None and SPECIAL in _names(program):
        inputs[SPECIAL] = special_tokens_mask(inputs.get("input_ids", ()), all_special_ids)
    return program.corrupt(**inputs)


def special_tokens_mask(input_ids: Any, all_special_ids: Iterable[int]) -> Any:
    """1 where a token is special, 0 elsewhere; of an array [batch, length], or of lists."""
    ids = sorted(set(all_special_ids))
    if hasattr(input_ids, "shape"):
        return np.isin(np.asarray(input_ids), ids).astype(np.int64)
    return [np.isin(np.asarray(row, np.int64), ids).astype(np.int64).tolist() for row in input_ids]


def corrupter(program: Program) -> Callable[..., dict[str, Any]]:
    """The function `corrupt` of a compiled corruption; what does not fit is a `TransformulaError`."""
    if program.compiled.kind != "corruption":
        known = corruptions.names(program.compiled.module)
        told = f"Corruptions of {program.compiled.module.name}: {', '.join(known)}." if known else ""
        raise error("N235", f"`{program.name}` is a {program.compiled.kind} and corrupts nothing", help=told)
    made = types.ModuleType(f"transformula_{program.name}")
    exec(_compile(program), made.__dict__)
    names = _names(program)

    def call(**inputs: Any) -> dict[str, Any]:
        for one in inputs:
            if one not in names:
                advice = did_you_mean(one, names) or f"It takes {', '.join(names)}."
                raise error("R901", f"{program.name} has no input `{one}`", help=advice)
        lacking = [name for name, _, needed in edge.inputs if needed and inputs.get(name) is None]
        if lacking:
            told = "All ids of special tokens will do, too: all_special_ids=…." if lacking == [SPECIAL] else ""
            raise error("R902", f"{program.name} needs the input `{lacking[0]}`", help=told or _advice(lacking[0]))
        given = {python.get(one, one): value for one, value in inputs.items() if value is not None}
        try:
            found: dict[str, Any] = made.__dict__["corrupt"](**given)
        except ValueError as fault:
            raise error("R911", f"{program.name}: {fault}") from fault
        return found

    edge = corruptions.border(program.compiled.formula, program.compiled.config)
    python = python_names(edge)
    return call


def _compile(program: Program) -> types.CodeType:
    import builtins

    return builtins.compile(program.source, f"<{program.name}: generated>", "exec")


def _advice(name: str) -> str:
    token = name.removesuffix("_token_id")
    return f"It is the id of the {token} token: {name}=…; a tokenizer knows it." if token != name else f"Give {name}=…."


def _names(program: Program) -> list[str]:
    edge = corruptions.border(program.compiled.formula, program.compiled.config)
    return [*(row[0] for row in edge.inputs), *(row[0] for row in edge.masks), *ALWAYS]


@lru_cache(maxsize=64)
def _program(spec: str, name: str | None, backend: str, config: str, settings: str) -> Program:
    return _made(spec, name, backend, config, settings)


def _made(spec: str, name: str | None, backend: str, config: str, settings: str) -> Program:
    entry = corruptions.choose(load_module(spec), name).name
    return compile(spec, backend, json.loads(config), entry, json.loads(settings))
