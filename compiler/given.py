"""What a config.json gives an entry of config: its keys, options that no entry knows, and entries that it must give."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError, did_you_mean, error
from .ecosystem import NEUTRAL, as_written

Key = tuple[str, ...]


def reach(given: Mapping[str, Any], key: Key) -> tuple[bool, Any]:
    """Whether the file has such a key, nested ones too, and its value."""
    value: Any = given
    for part in key:
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value


def is_constant(value: s.Expr, name: str) -> bool:
    """Whether a default is just this constant: none, required."""
    return isinstance(value, s.Name) and value.name == name


def refuse_unknown_parts(
    given: Mapping[str, Any], file: Mapping[str, Any], options: Iterable[s.Option], home: Key
) -> None:
    """An error unless the spec reads each part of an object of the file that it reads some parts of.

    Such an object holds the options of one thing, rope_parameters, say: one that is let be makes another model.
    `given` is what the file says, settled; `file` the file as it stands.
    """
    found, value = reach(given, home)
    if not found or value is None:
        return
    readers = [(one, key) for one in options for key in one.keys if key[: len(home)] == home]
    span = readers[0][0].name.span
    if not isinstance(value, Mapping):
        raise error(
            "C605",
            f"config: {as_written(file, home)} = {_short(value)} should be an object",
            span,
            help="It has options, each with a name: {…}.",
        )
    known = dict.fromkeys(key[len(home)] for _, key in readers)
    for part, one in value.items():
        if part not in known and one is not None and one not in NEUTRAL.get(part, ()):
            raise error(
                "C618",
                f"config: {as_written(file, (*home, part))} = {_short(one)} is not supported",
                span,
                because=("an option that is let be makes another model",),
                help=did_you_mean(part, known) or f"Of {as_written(file, home)} this spec reads {', '.join(known)}.",
            )


def _short(value: Any) -> str:
    told = json.dumps(value)
    return told if len(told) < 60 else told[:59] + "…"


def required(option: s.Option) -> TransformulaError:
    """The error for an entry that only the file can give, and does not."""
    keys = [".".join(key) for key in option.keys]
    name = option.name.name
    where = f"`{keys[-1]}` in config.json" if keys else f"the setting `{name}`"
    also = f" (or {', '.join(keys[:-1])})" if len(keys) > 1 else ""
    return error("C617", f"config: {name} is required here", option.name.span, help=f"Give {where}{also} a value.")


def stand_in(option: s.Option, options: Collection[s.Option]) -> Fraction:
    """A number for a required entry while a file is checked without a config.json: from 2 up, another for each."""
    return Fraction(2 + list(options).index(option))
