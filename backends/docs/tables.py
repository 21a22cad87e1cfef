"""The tables of a spec's page: parameters with their shapes, counts and stored names; config with defaults and keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...compiler.config import Config, show
from ...compiler.ir import Graph, Weight
from ...compiler.layouts import axes_text
from ...compiler.modules import Module
from ...compiler.objectives import weight_rows
from ...compiler.stored import Row
from ...compiler.values import Choice, Formula, Record
from ...grammar import syntax as s
from ...grammar.diagnostics import TransformulaError
from ...grammar.printer import expression as printed


@dataclass(frozen=True)
class Parameter:
    """A weight of a model: how many of it there are, its axes and shape, and where files keep it."""

    name: str
    axes: str
    shape: str
    count: int
    stored: tuple[str, ...]
    init: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """An entry of config."""

    name: str
    default: str
    value: str
    keys: tuple[str, ...]


def parameters(module: Module, graph: Graph, config: Config) -> list[Parameter]:
    """The weights of a model in their order, with the names of a file that hold them."""
    rows = weight_rows(module, config, graph.name, graph).of_weights()
    return [_parameter(one, rows.get(one.name, ())) for one in graph.weights]


def _parameter(weight: Weight, rows: tuple[Row, ...]) -> Parameter:
    first = [row for row in rows if not row.also]
    notes = [f"also as {row.stored}" for row in rows if row.also]
    for row in first:
        others = [one.name for one in row.weights if one.name != weight.name]
        if others:
            notes.append(f"in one tensor with {', '.join(others)}")
    return Parameter(
        weight.name,
        axes_text(weight, stacked=True),
        " × ".join(str(axis.size) for axis in weight.axes) or "1",
        count(weight),
        tuple(row.stored for row in first),
        weight.init,
        tuple(notes),
    )


def count(weight: Weight) -> int:
    """How many numbers a weight holds, all of its stack together."""
    return math.prod(axis.size for axis in weight.axes if isinstance(axis.size, int))


def entries(module: Module, config: Config) -> Iterator[Entry]:
    """The entries of config as the spec writes them, with what their defaults come to."""
    for option in module.options.values():
        default = printed(option.value)
        yield Entry(_name(option), default, _value(option, config, default), _keys(option))


def _name(option: s.Option) -> str:
    if option.index is None:
        return option.name.name
    index = option.index.index
    return f"{option.name.name}[{f'{index.name}: ' if index else ''}{option.index.axis.name}]"


def _keys(option: s.Option) -> tuple[str, ...]:
    return tuple(".".join(key) for key in option.keys)


def _value(option: s.Option, config: Config, default: str) -> str:
    """The value by default, where it is not what stands there; nothing where only a file can give one."""
    if option.index is not None:
        return ""
    try:
        found = config.value(option.name.name)
    except TransformulaError:
        return ""
    if isinstance(found, Record):
        found = found.value
    if not isinstance(found, bool | Fraction | float | Formula | Choice):
        return ""
    value = show(found)
    text = {True: "true", False: "false", None: "none"}.get(value) if isinstance(value, bool | None) else str(value)
    return "" if text == default or text is None else text


def ties(module: Module) -> list[str]:
    """Weights that are one, as the spec says it."""
    return [f"{printed(one.left)} = {printed(one.right)}" for one in module.ties]


def total(found: list[Parameter]) -> int:
    """How many numbers a model has."""
    return sum(one.count for one in found)
