"""What a name can stand for while a spec is lowered: tensors, exact numbers, formulas, instances, results of calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from ..grammar import syntax as s
from ..grammar.diagnostics import Span
from . import ir
from .ir import Axis, Node

if TYPE_CHECKING:
    from .modules import Entry
    from .scope import Scope

Static: TypeAlias = bool | Fraction | float
"""A number known at compile time: whole and rational numbers are exact."""


@dataclass(frozen=True)
class MapAxes:
    """How a weight is read as a map: carried axes align, `ins` are consumed, `outs` come out."""

    carried: tuple[Axis, ...]
    ins: tuple[Axis, ...]
    outs: tuple[Axis, ...]

    def renamed(self, pairs: Mapping[Axis, Axis]) -> MapAxes:
        """The same map under other axes."""
        return MapAxes(*(tuple(ir.renamed(a, pairs) for a in part) for part in (self.carried, self.ins, self.outs)))

    def plain(self, out: Axis) -> Axis:
        """The axis that an out-axis becomes in a result: W : [d → d] brings the d that it consumes."""
        if out.tag >= 0:
            return out
        same = [axis for axis in self.ins if (axis.name, axis.size, axis.owner) == (out.name, out.size, out.owner)]
        return same[0] if same else Axis(out.name, out.size, out.owner)

    def turned(self) -> MapAxes:
        """Wᵀ."""
        return MapAxes(self.carried, self.outs, self.ins)


@dataclass(frozen=True)
class Tensor:
    """A value of the graph.

    `bottom` is a relation outside which the value is -∞, `zero` one outside which it is 0 (design, masks): both are
    facts that the printed masks of papers carry, so that an empty row has a meaning.
    """

    node: Node
    bottom: Node | None = None
    zero: Node | None = None
    map: MapAxes | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the node."""
        return self.node.axes

    def rename(self, pairs: Mapping[Axis, Axis]) -> Tensor:
        """The same value under other axes, its facts included."""
        if not any(ir.renamed(axis, pairs) != axis for axis in self.axes):
            return self
        return Tensor(
            ir.rename(self.node, pairs),
            self.bottom and ir.rename(self.bottom, pairs),
            self.zero and ir.rename(self.zero, pairs),
            self.map and self.map.renamed(pairs),
        )


@dataclass(frozen=True)
class Counter:
    """scale * l + offset for the step number l of a loop: recognised as a state's number, a node elsewhere."""

    loop: int
    scale: Fraction
    offset: Fraction

    @property
    def node(self) -> Node:
        """The number as a node."""
        made = ir.counter(self.loop)
        if self.scale != 1:
            made = ir.apply("*", made, ir.const(self.scale))
        if self.offset == 0:
            return made
        return ir.apply("+" if self.offset > 0 else "-", made, ir.const(abs(self.offset)))


@dataclass(frozen=True)
class Formula:
    """A formula by name, with the axes bound so far and the conditions on restricted axes."""

    entry: Entry
    binds: Mapping[str, Axis | str] = field(default_factory=dict)
    restrict: tuple[tuple[str, Tensor], ...] = ()
    scope: Scope | None = None  # where a local function was defined, or whence an argument was passed
    translate: tuple[Mapping[Axis, Axis], ...] = ()  # how calls on the way renamed the axes of `scope`


@dataclass(frozen=True)
class Instance:
    """A block with its own weights: `path` names them, `stack` are the axes of its numbers, `at` the chosen numbers."""

    entry: Entry
    path: str
    owner: Scope
    decl: s.UseDecl
    stack: tuple[Axis, ...] = ()
    at: tuple[Static | Counter | Tensor, ...] = ()
    binds: Mapping[str, Axis | str] = field(default_factory=dict)
    outer: tuple[tuple[Axis, Static | Counter | Tensor], ...] = ()
    naming: Scope | None = None  # whence it was passed as an argument
    translate: tuple[Mapping[Axis, Axis], ...] = ()

    @property
    def waiting(self) -> bool:
        """Whether numbers of the stack are still to be given."""
        return len(self.at) < len(self.stack)

    def picks(self) -> tuple[tuple[Axis, Static | Counter | Tensor], ...]:
        """All stack axes with their chosen numbers, outermost first."""
        return (*self.outer, *zip(self.stack, self.at, strict=False))


@dataclass(frozen=True)
class Builtin:
    """A reduction, draw or function of the core, with bracketed axes and their conditions."""

    name: str
    axes: tuple[Axis, ...] = ()
    restrict: tuple[tuple[Axis, Tensor], ...] = ()
    index: tuple[tuple[str, Axis], ...] = ()
    written: tuple[s.Name, ...] = ()
    new: s.Name | None = None  # of repeat[seq → out]


@dataclass(frozen=True)
class Record:
    """The result of a call: its outputs (the first is the value) and, on demand, its named parts."""

    outputs: Mapping[str, Value]
    part: Callable[[str, Span], Value] = field(compare=False)
    name: str = ""

    @property
    def value(self) -> Value:
        """The first output."""
        return next(iter(self.outputs.values()))


@dataclass(frozen=True)
class States:
    """A recurrence x[0], x[l + 1] by name; brackets choose a state."""

    name: str
    scope: Scope


@dataclass(frozen=True)
class Opaque:
    """A function known by name only, while a definition is checked by itself."""

    name: str


@dataclass(frozen=True)
class Choice:
    """A text of config that no choice table translates, and `none`."""

    text: str | None


Value: TypeAlias = (
    Tensor | bool | Fraction | float | Counter | Formula | Instance | Builtin | Record | States | Choice | Opaque
)


class Poisoned(Exception):
    """A value whose mistake has been told already: whoever needs it stays silent."""


def is_static(value: Value) -> bool:
    """Whether the value is a number known at compile time."""
    return isinstance(value, bool | Fraction | float)


def static_node(value: Static) -> Node:
    """A compile-time number as a node."""
    return ir.const(value)


def as_static(value: float) -> Static:
    """Floats that are whole become exact."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
        return Fraction(int(value))
    return value


def describe(value: Value) -> str:
    """What kind of thing a value is, for messages."""
    match value:
        case bool():
            return "a truth value"
        case Fraction() | float():
            return "a number"
        case Tensor() | Counter():
            return "a value"
        case Formula(entry=entry):
            return f"the {entry.definition.kind} {entry.definition.name.name}"
        case Instance(entry=entry):
            return f"an instance of {entry.definition.name.name}"
        case Builtin(name=name):
            return f"the function {name}"
        case Record(name=name):
            return f"the result of {name}"
        case States(name=name):
            return f"the recurrence {name}"
        case Opaque(name=name):
            return f"the function {name}"
        case Choice(text=text):
            return "none" if text is None else f'the text "{text}"'


def fact(tensor: Tensor, **changes: object) -> Tensor:
    """The tensor with other facts."""
    return replace(tensor, **changes)  # type: ignore[arg-type]
