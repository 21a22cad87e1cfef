"""Config: sizes and choices of a spec, from its defaults, a config.json and `--set`, in exact arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, InternalError, Note, TransformulaError, did_you_mean, error
from . import given as files
from . import ir
from .ecosystem import as_written, settled
from .ir import Axis
from .modules import Module
from .values import Choice, Formula, Static, Tensor, Value, as_static

MAX_SIZE = 2**40
_KINDS = {
    "number": "a number",
    "text": "a text",
    "truth": "true or false",
    "": "a number, a text, or true or false",
}


@dataclass(eq=False)
class Config:
    """The entries of one spec (or of one instance of it), each evaluated once, on demand."""

    module: Module
    given: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Value] = field(default_factory=dict)
    own_axes: Mapping[str, Axis] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    lenient: list[Diagnostic] | None = None  # while a file is checked, sizes that are none are told here
    file: Mapping[str, Any] = field(init=False)  # what is given, as it stands
    _values: dict[str, Value] = field(default_factory=dict)
    _busy: list[str] = field(default_factory=list)
    _failed: dict[str, TransformulaError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file, self.given = self.given, settled(self.given)

    def __contains__(self, name: object) -> bool:
        return name in self.module.options or name in self.module.axes

    def names(self) -> Iterator[str]:
        """All entries."""
        yield from self.module.options
        yield from self.module.axes

    def value(self, name: str) -> Value:
        """The value of an entry: an override, the config file's, or the default."""
        if name in self.overrides:
            return self.overrides[name]
        if name in self._failed:
            raise self._failed[name]
        if name not in self._values:
            if name in self._busy:
                raise self._circle(name)
            self._busy.append(name)
            try:
                self._values[name] = self._find(name)
            except TransformulaError as fault:
                self._failed[name] = fault
                raise
            finally:
                self._busy.remove(name)
        return self._values[name]

    def _circle(self, name: str) -> TransformulaError:
        ring = self._busy[self._busy.index(name) :]
        first = min(ring, key=lambda one: self._written(one).span.start)  # told once, wherever it is entered
        ring = [*ring[ring.index(first) :], *ring[: ring.index(first)]]
        notes = tuple(Note(self._written(one).span, "and back again here") for one in ring[1:4])
        ways = " → ".join([*ring, first] if len(ring) < 6 else [*ring[:5], "…", first])
        return error(
            "C603",
            f"config goes in a circle: {ways}",
            self._written(first).value.span,
            notes=notes,
            help="Give one of them a number.",
        )

    def _written(self, name: str) -> s.Option | s.AxisDecl:
        return self.module.options.get(name) or self.module.axes[name]

    def axis(self, name: str) -> Axis | None:
        """The axis of an entry whose value is a size, or None."""
        if name in self.own_axes:
            return self.own_axes[name]
        if name not in self:
            return None
        value = self.value(name)
        if isinstance(value, Fraction):
            return Axis(name, self.whole(name, value))
        return None

    def whole(self, name: str, value: Fraction) -> int:
        """The value as a size, or an error that names what it was made of."""
        if value.denominator == 1 and 0 <= value < MAX_SIZE:
            return int(value)
        option = self.module.options.get(name)
        span = option.value.span if option else self.module.axes[name].value.span
        if value.denominator == 1:
            where = self._given_note(option) if option else ""
            wrong = error(
                "C604",
                f"{name} = {_cut(value)} is no size",
                option.name.span if option and where else span,
                because=(where,) if where else (),
                help="A size is a whole number from 0 up." if value < 0 else f"A size is less than {MAX_SIZE:,}.",
            )
        else:
            wrong = self._not_whole(name, value, span, option)
        if self.lenient is None:
            raise wrong
        self.lenient += wrong.diagnostics
        return max(1, min(int(value), 4096))

    def _not_whole(self, name: str, value: Fraction, span: Any, option: s.Option | None) -> TransformulaError:
        if option is None or self._has_given(option):
            return error(
                "C601",
                f"{name} = {float(value):.6g} is a size and must be a whole number",
                option.name.span if option else span,
                because=(self._given_note(option),) if option else (),
                help="Sizes are counted in whole entries.",
            )
        parts = list(dict.fromkeys(n.name for n in _names(option.value) if n.name in self))
        told = [f"{part} = {self.value(part)}" for part in parts if isinstance(self.value(part), Fraction)]
        options = [self.module.options[p] for p in parts if p in self.module.options]
        values = [f"{one.name.name} is {show(self.value(one.name.name))}" for one in options]
        notes = tuple(Note(one.span, self._given_note(one) or told) for one, told in zip(options, values, strict=True))
        message = f"{name} = {float(value):.6g} is a size and must be a whole number"
        advice = f"Change one of {', '.join(parts)} so that the division has no remainder." if parts else ""
        because = [f"it is {option.value.span.text}, with {' and '.join(told)}"] if told else []
        division = self._division(option.value)
        if division is not None:
            top, bottom, many, few = division
            message = f"{top} = {many} is not a multiple of {bottom} = {few}"
            because = [f"{name} = {top} / {bottom} = {float(value):.6g}, and {name} is a size: a whole number"]
            near = " or ".join(str(n) for n in (many // few * few, many // few * few + few) if n > 0)
            advice = f"{top} = {near} would do."
        return TransformulaError(Diagnostic("C601", message, span, "", notes, tuple(because), advice))

    def _division(self, value: s.Expr) -> tuple[str, str, int, int] | None:
        """a / b of two whole entries."""
        factors = value.factors if isinstance(value, s.Product) else ()
        if len(factors) != 2 or factors[1][0] != "/" or not all(isinstance(one, s.Name) for _, one in factors):
            return None
        names = [one.name for _, one in factors if isinstance(one, s.Name)]
        found = [self.value(name) for name in names if name in self]
        whole = [int(one) for one in found if isinstance(one, Fraction) and one.denominator == 1]
        return (names[0], names[1], whole[0], whole[1]) if len(whole) == 2 and whole[1] > 0 else None

    def _has_given(self, option: s.Option) -> bool:
        return bool(self._given_note(option))

    def _given_note(self, option: s.Option) -> str:
        """Where a value that is not the default comes from."""
        if option.name.name in self.settings:
            return f"set to {self.settings[option.name.name]}"
        for key in option.keys:
            found, value = files.reach(self.given, key)
            if found and value is not None:
                return f"{as_written(self.file, key)} in config.json is {json.dumps(value)[:40]}"
        return ""

    def overlay(self, overrides: Mapping[str, Value], own_axes: Mapping[str, Axis]) -> Config:
        """The same entries with some replaced; what is derived from them is evaluated anew."""
        if not overrides and not own_axes:
            return self
        # a value from config.json belongs to the whole spec; inside the instance derived entries follow the override
        return Config(
            self.module,
            self.file,
            self.settings,
            {**self.overrides, **overrides},
            {**self.own_axes, **own_axes},
            self.read,
            self.lenient,
        )

    def effective(self) -> dict[str, Any]:
        """Every entry with its value, as it is used (printable)."""
        return {name: self._shown(name) for name in self.names()}

    def _shown(self, name: str) -> Any:
        try:
            return show(self.value(name))
        except TransformulaError as fault:
            if fault.diagnostics[0].code != "C617":
                raise
            return None  # only the file can give it, and a model that needs it is not compiled

    def unread(self) -> list[str]:
        """The keys of config.json that say something and that no entry of the spec reads."""
        self.effective()
        return [key for key, value in self.given.items() if key not in self.read and value is not None]

    def _find(self, name: str) -> Value:
        from . import expressions, vectors  # the expression language evaluates config, too
        from .scope import config_scope

        if name in self.module.axes:
            return expressions.lower(config_scope(self), self.module.axes[name].value)
        option = self.module.options.get(name)
        if option is None:
            raise InternalError(f"no config entry {name}")
        if name in self.settings:
            return self._convert(option, self.settings[name], name)
        for key in option.keys:
            if len(key) > 1:
                files.refuse_unknown_parts(self.given, self.file, self.module.options.values(), key[:-1])
            found, value = files.reach(self.given, key)
            if found:
                self.read.add(key[0])
                if value is None and option.null is not None:
                    return expressions.lower_raw(config_scope(self), option.null)
                if value is not None or files.is_constant(option.value, "none"):
                    return self._convert(option, value, as_written(self.file, key))
        if files.is_constant(option.value, "required"):
            return self._required(option)
        if option.index is not None:
            return vectors.by_formula(config_scope(self), option)
        if option.choice is not None and isinstance(option.value, s.Text):
            return self._choose(option, option.value.value, "")
        return expressions.lower_raw(config_scope(self), option.value)

    def formula(self, name: str) -> s.Expr:
        """What an entry is computed by where nobody gives it a number: its default, or what null in the file means."""
        option = self.module.options.get(name)
        if option is None:
            return self.module.axes[name].value
        told = [value for found, value in (files.reach(self.given, key) for key in option.keys) if found]
        return option.null if option.null is not None and told[:1] == [None] else option.value

    def _required(self, option: s.Option) -> Value:
        if self.lenient is None:
            raise files.required(option)
        number = files.stand_in(option, self.module.options.values())
        axis = self.axis(option.index.axis.name) if option.index else None
        return number if axis is None else Tensor(ir.widen(ir.const(number), axis))

    def _convert(self, option: s.Option, value: Any, key: str) -> Value:
        if value is None:
            return Choice(None)
        if isinstance(value, str) and option.choice is not None:
            return self._choose(option, value, key)
        if isinstance(value, list):
            return self._vector(option, value, key)
        default = self._default_kind(option)
        if isinstance(value, bool):
            if default in ("number", "text"):
                raise self._wrong(option, value, key, _KINDS[default])
            return value
        if isinstance(value, int | float):
            if default in ("text", "truth"):
                raise self._wrong(option, value, key, _KINDS[default])
            return Fraction(value) if isinstance(value, int) else _exact(value)
        if isinstance(value, str):
            if default in ("number", "truth"):
                raise self._wrong(option, value, key, _KINDS[default])
            return Choice(value)
        raise self._wrong(option, value, key, _KINDS[default])

    def _default_kind(self, option: s.Option) -> str:
        if option.choice is not None or isinstance(option.value, s.Text):
            return "text"
        if isinstance(option.value, s.Name) and option.value.name in ("true", "false"):
            return "truth"
        return "number" if isinstance(option.value, s.Number) else ""

    def _wrong(self, option: s.Option, value: Any, key: str, wanted: str) -> TransformulaError:
        told = json.dumps(value)
        return error(
            "C605",
            f"config: {key} = {told if len(told) < 60 else told[:59] + '…'} should be {wanted}",
            option.name.span,
            because=(f"its default is {option.value.span.text}",) if option.index is None else (),
            help=f"`{option.name.name}` is read from there: change the value, or the key after `as`."
            if option.keys
            else f"Give `{option.name.name}` another value.",
        )

    def _vector(self, option: s.Option, value: list[Any], key: str) -> Value:
        from . import vectors
        from .scope import config_scope

        if option.index is None:
            kind = _KINDS[self._default_kind(option)]
            raise self._wrong(option, value, key, f"{kind}, not a list")
        parts = [self._convert(option, one, f"{key}[{i}]") for i, one in enumerate(value)]
        return vectors.given(config_scope(self), option, parts, key)

    def _choose(self, option: s.Option, text: str, key: str) -> Value:
        from . import expressions
        from .scope import config_scope, module_scope

        assert option.choice is not None
        row = self.module.choices.get(option.choice.name)
        if row is None:
            raise error(
                "C606",
                f"there is no choice table `{option.choice.name}`",
                option.choice.span,
                help=did_you_mean(option.choice.name, self.module.choices),
            )
        table, home = row
        for texts, value in table.rows:
            if text in texts:
                found = expressions.lower_raw(config_scope(self) if home is self.module else module_scope(home), value)
                return found
        known = [one for texts, _ in table.rows for one in texts]
        raise error(
            "C602",
            f'config: {key or option.name.name} = "{text}" is not a known {option.choice.name}',
            option.name.span if key else option.value.span,
            notes=(Note(table.name.span, "the table of what is known"),),
            help=f"{did_you_mean(text, known)} This spec knows {', '.join(known)}.".strip(),
        )


def _cut(value: Fraction) -> str:
    short = value.denominator < 10**15 and abs(value) < 10**15
    return str(value) if short else f"{float(max(min(value, Fraction(10**300)), Fraction(-(10**300)))):.3g}"


def _exact(value: float) -> Static:
    exact = as_static(value)
    finite = isinstance(exact, float) and math.isfinite(value)
    return Fraction(repr(value)) if finite else exact


def _names(value: s.Expr) -> Iterator[s.Name]:
    from .names import names_in

    return names_in(value)


def show(value: Value) -> Any:
    """A config value as JSON: numbers, truth values, texts, and formulas by their name."""
    match value:
        case bool():
            return value
        case Fraction():
            return int(value) if value.denominator == 1 else float(value)
        case float():
            return value
        case Formula(entry=entry):
            return entry.name
        case Choice(text=text):
            return text
        case _:
            return str(value)


def read_config(path: Path) -> dict[str, Any]:
    """config.json as a mapping; anything else is an error that names the file and the place."""
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise error("C607", f"{path} does not exist", help="A model's folder holds its config.json.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as fault:
        raise error("C608", f"{path} is not valid JSON: {fault}") from None
    except RecursionError:
        raise error("C608", f"{path} is nested too deeply") from None
    if not isinstance(found, dict):
        raise error("C608", f"{path} should hold an object with keys, not {type(found).__name__}")
    return found
