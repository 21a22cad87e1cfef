"""The axes of every equation of a spec, line by line, from the trace of a check, for `check --axes`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..grammar import syntax as s
from ..grammar.diagnostics import Span
from .ir import Axis
from .modules import Module
from .scope import Scope, Session
from .values import Record, Tensor, Value


@dataclass(frozen=True)
class Shape:
    """A name with its axes as its definition calls them: `lifted` ones are carried along, `seen` ones not."""

    name: str
    lifted: tuple[str, ...]
    seen: tuple[str, ...]

    def __str__(self) -> str:
        carried = f"({', '.join(self.lifted)})" if self.lifted else ""
        return f"{self.name} : [{', '.join(filter(None, (carried, *self.seen)))}]"


@dataclass(frozen=True)
class Row:
    """A line of the spec that defines something, with the shape of each thing that it defines."""

    line: int
    text: str
    shapes: tuple[Shape, ...]


def listing(session: Session) -> list[Row]:
    """One row per line with an equation, as far as the check got.

    A definition that is used in several places is shown at its fullest: with the most axes of any use.
    """
    best: dict[int, tuple[Value, Scope]] = {}
    for expr, value, scope in session.trace or ():
        if id(expr) not in best or _rank(value) > _rank(best[id(expr)][0]):
            best[id(expr)] = (value, scope)
    rows: dict[int, list[Shape]] = {}
    for name, expr, span in equations(session.module):
        if id(expr) in best:
            rows.setdefault(span.line, []).extend(_shapes(name, *best[id(expr)]))
    source = session.module.file.span.source
    return [
        Row(line, source.line(line).strip(), tuple(dict.fromkeys(found)))
        for line, found in sorted(rows.items())
        if found
    ]


def ordered(axes: Iterable[Axis]) -> list[Axis]:
    """Axes in the order in which people read them: lengths first, sizes after."""
    return sorted(axes, key=lambda axis: isinstance(axis.size, int))


def equations(module: Module) -> Iterator[tuple[str, s.Expr, Span]]:
    """Name, right side and place of every equation that the module's own file writes."""
    for entry in (module.entries[name] for name in module.own if name in module.entries):
        definition = entry.definition
        for output in definition.outputs:
            yield output.name or definition.name.name, output.value, output.value.span
        written = module.written.get(definition.name.name, definition)  # without what a head takes over
        yield from _statements(written.body.where)


def _statements(where: Iterable[s.Statement]) -> Iterator[tuple[str, s.Expr, Span]]:
    for statement in where:
        if isinstance(statement, s.Loop):
            yield from _statements(statement.body)
        elif any(
            isinstance(item, s.PlainItem) and not isinstance(item.value, s.Name)
            for item in statement.brackets
        ):
            index = ", ".join(item.span.text for item in statement.brackets)
            yield f"{statement.name.name}[{index}]", statement.value, statement.span
        else:
            yield statement.name.name, statement.value, statement.span


def _rank(value: Value) -> int:
    found = value.value if isinstance(value, Record) else value
    return len(found.axes) + 1 if isinstance(found, Tensor) else 0


def _shapes(name: str, value: Value, scope: Scope) -> Iterator[Shape]:
    found = value.value if isinstance(value, Record) else value
    if isinstance(found, Tensor):
        axes = ordered(found.axes)
        lifted = tuple(axis.name for axis in axes if not scope.visible(axis))
        yield Shape(name, lifted, tuple(scope.label(axis) for axis in axes if scope.visible(axis)))
