"""A call on its way in: who is called, from where, and which axes its arguments have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, Span
from .ir import Axis
from .modules import Entry
from .values import Tensor, Value

if TYPE_CHECKING:
    from .scope import Scope


@dataclass
class Entering:
    """One call on its way in: who is called, from where, under which names, and what was found out about axes."""

    scope: Scope
    entry: Entry
    span: Span
    binds: Mapping[str, Axis | str]
    naming: Scope
    translate: tuple[Mapping[Axis, Axis], ...] = ()
    restrict: tuple[tuple[str, Tensor], ...] = ()
    args: dict[str, tuple[s.Node, Value]] = field(default_factory=dict)
    chosen: dict[str, Axis] = field(default_factory=dict)
    bound: dict[str, dict[Axis, str]] = field(default_factory=dict)
    turn: dict[str, dict[Axis, Axis]] = field(default_factory=dict)
    formals: dict[str, Axis] = field(default_factory=dict)
    back: dict[Axis, Axis] = field(default_factory=dict)
    written: s.Expr | None = None

    @property
    def name_span(self) -> Span:
        """Where the call names who is called."""
        here = self.written.function if isinstance(self.written, s.Call) else self.written
        return here.base.span if isinstance(here, s.Select) else here.span if here is not None else self.span

    def axis_span(self, formal: str) -> Span:
        """Where the call's brackets bind a formal axis, else its name."""
        here = self.written.function if isinstance(self.written, s.Call) else self.written
        bound = self.binds.get(formal)
        for item in here.items if isinstance(here, s.Select) else ():
            if isinstance(item, s.EqualItem) and formal == item.axis.name:
                return item.value.span
            axis = item.value if isinstance(item, s.PlainItem) else getattr(item, "axis", None)
            if isinstance(axis, s.Name) and axis.name == bound:
                return axis.span
        return self.name_span

    @property
    def definition(self) -> s.Definition:
        """The syntax of who is called."""
        return self.entry.definition


def declared(going: Entering, param: s.Param) -> list[s.Name]:
    """The axes that a parameter sees: those in its brackets; without any brackets in the head, the head's axes."""
    if param.axes is not None:
        return list(param.axes.names)
    if any(one.axes is not None for one in going.definition.params or ()):
        return []
    return [one.axis for one in going.definition.axes]


def known_as(axis: Axis, translate: tuple[Mapping[Axis, Axis], ...]) -> Axis:
    """The axis as the scope that passed the function knew it."""
    for step in reversed(translate):
        axis = next((old for old, new in step.items() if new == axis), axis)
    return axis


def locate(going: Entering, value: Tensor, wanted: Axis | str) -> list[Axis]:
    """The axes of an argument that the caller calls `wanted`."""
    found = []
    for axis in value.axes:
        old = known_as(axis, going.translate)
        if isinstance(wanted, Axis):
            hit = old == wanted
        else:
            hit = going.naming.visible(old) and going.naming.label(old) == wanted
        if hit:
            found.append(axis)
    return found


def tensors(going: Entering) -> Iterable[tuple[str, Tensor]]:
    return ((name, value) for name, (_, value) in going.args.items() if isinstance(value, Tensor))


def head(going: Entering) -> tuple[Note, ...]:
    definition = going.definition
    return (Note(definition.name.span, "defined here"),)
