"""What a checkpoint map is made of: rows, and how they call weights, axes and sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..grammar import syntax as s
from ..grammar.diagnostics import InternalError, Span
from ..grammar.printer import expression as printed
from .config import Config, show
from .ir import Axis, Graph, Weight
from .layouts import Layout, label


@dataclass(frozen=True)
class Row:
    """A stored tensor and the weights in it.

    `places` says of each axis of the weights' stack whether it is a letter in the stored name, one number of
    the stack, or (empty) an axis of the stored tensor. `layouts` are, for each weight, groups of its axes per
    stored dimension; `part` is where the parts of a fused tensor stand: stored dimension and place in its
    group. `merged` rows have the default layout of a weight without an arrow: the file may merge neighbours.
    `also` rows are second homes; where one holds other numbers, the entry `decides` of config is false.
    `absent` is the number that the weight has where the file lacks it.
    """

    weights: tuple[Weight, ...]
    stored: str
    places: tuple[str, ...]
    layouts: tuple[Layout, ...]
    part: tuple[int, int] | None = None
    merged: bool = False
    also: bool = False
    span: Span | None = field(compare=False, default=None)
    decides: str = ""
    absent: float | None = None


@dataclass(frozen=True)
class CheckpointMap:
    """All rows of a model, in the order of the file.

    `skips` are stored names that nobody reads, `prefixes` what base models' names begin with inside head
    models, `sizes` tells for each axis where its size came from.
    """

    name: str
    rows: tuple[Row, ...]
    skips: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()

    def of_weights(self) -> dict[str, tuple[Row, ...]]:
        """The rows that hold each weight, by its name; the first is its home."""
        found: dict[str, tuple[Row, ...]] = {}
        for row in self.rows:
            for weight in row.weights:
                found[weight.name] = (*found.get(weight.name, ()), row)
        return found

    def names(self) -> dict[str, tuple[str, ...]]:
        """The stored names of each weight."""
        return {name: tuple(row.stored for row in rows) for name, rows in self.of_weights().items()}


def brackets(name: str) -> list[tuple[str, ...]]:
    """The stack axes of each part of a weight's name: layer[layers].attn.W → [("layers",), (), ()]."""
    found = []
    for part in re.split(r"\.(?![^\[]*\])", name):
        inside = part.partition("[")[2].rstrip("]")
        found.append(tuple(one.strip() for one in inside.split(",")) if inside else ())
    return found


def plain_name(name: str) -> str:
    """A weight's name without the brackets of its stacks."""
    return re.sub(r"\[[^\]]*\]", "", name)


def plain(name: str) -> tuple[str, ...]:
    """A weight's name as a path."""
    return tuple(plain_name(name).split("."))


def number(axis: Axis) -> int:
    """The size of a weight's axis, which is known."""
    if not isinstance(axis.size, int):
        raise InternalError(f"a weight has the length {axis}")
    return axis.size


def size_sources(graph: Graph, config: Config) -> tuple[tuple[str, str], ...]:
    """For each axis of the weights: its size and the place in config where it came from."""
    found: dict[str, str] = {}
    for weight in graph.weights:
        for axis in weight.axes:
            found.setdefault(label(axis), f"{number(axis)} ({_source(axis, config)})")
    return tuple(found.items())


def _source(axis: Axis, config: Config) -> str:
    owner, _, name = axis.name.rpartition(".")
    option = config.module.options.get(name)
    if owner:
        return f"of the instance {owner}"
    if option is None:
        return "of the spec"
    if name in config.settings:
        return f"set as {name}"
    for key in option.keys:
        if config.given.get(key[0]) is not None:
            return ".".join(key)
    if isinstance(option.value, s.Number):
        return f"the default of {'.'.join(option.keys[0])}" if option.keys else "the spec's default"
    return "of the spec" if isinstance(show(config.value(name)), str) else printed(option.value)
