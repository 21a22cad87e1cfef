"""What the checker knows of expressions: the axes of each, and which are weights with an arrow.

The trace of a check has the axes of every expression that it evaluated. A branch that this config does not choose has
none there: its axes follow from what is declared, as far as they can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...compiler.listing import ordered
from ...compiler.modules import Module
from ...compiler.scope import Scope, Session
from ...compiler.values import Record, Tensor, Value
from ...grammar import syntax as s
from .signs import REDUCTION

Names = tuple[str, ...]
DEEPEST = 400  # parts that are looked through, each by the one before, for axes that no check has found


@dataclass(frozen=True)
class Home:
    """What a definition declares: its parameters, weights and parts, by name."""

    definition: s.Definition
    axes: dict[str, Names] = field(default_factory=dict)
    maps: dict[str, s.Axes] = field(default_factory=dict)
    parts: dict[str, s.Expr] = field(default_factory=dict)
    formal: frozenset[str] = frozenset()  # axes that it names in its head, or anywhere
    bare: frozenset[str] = frozenset()  # names that stand for a place: the i of causal[i: seq]
    counters: frozenset[str] = frozenset()  # the l of `for l in layers`
    stacks: frozenset[str] = frozenset()  # instances that are numbered, and states
    tables: frozenset[str] = frozenset()  # parts that are declared with their axes
    plain: frozenset[str] = frozenset()  # parameters of an index formula without brackets: they have no axes

    @property
    def rows(self) -> set[str]:
        """Axes that stand before another one: along them stand vectors, not numbers."""
        return {axis for axes in self.axes.values() for axis in axes[:-1]}

    @property
    def names(self) -> set[str]:
        """Every name that it gives a meaning: no index may be called so."""
        params = {one.name for one in self.definition.params or ()}
        return {*params, *self.axes, *self.maps, *self.parts, *self.bare, *self.counters}


def home(definition: s.Definition) -> Home:
    """What the definition declares."""
    params, body = definition.params or (), definition.body
    index = {one.index.name for one in definition.axes if one.index is not None}
    axes = {one.name: tuple(a.name for a in one.axes.names) for one in params if one.axes is not None}
    maps = {}
    for decl in body.weights:
        for name in decl.names:
            axes[name.name] = tuple(axis.name for axis in decl.axes.names)
            if decl.axes.outs is not None:
                maps[name.name] = decl.axes
    plain = {one.name for one in params if one.axes is None} if index else set()
    named = {one.axis.name for one in definition.axes} | {axis for names in axes.values() for axis in names}
    parts = dict(_parts(body.where))
    stacks = {name.name for use in body.uses if use.indices for name in use.names} | set(_states(body.where))
    counters = frozenset(one.variable.name for one in _loops(body.where))
    tables = frozenset(one.name.name for one in body.where if isinstance(one, s.Assign) and one.brackets) - stacks
    return Home(
        definition,
        axes,
        maps,
        parts,
        frozenset(named),
        frozenset(index),
        counters,
        frozenset(stacks),
        tables,
        frozenset(plain),
    )


def _loops(where: Iterable[s.Statement]) -> Iterable[s.Loop]:
    for one in where:
        if isinstance(one, s.Loop):
            yield one
            yield from _loops(one.body)


def _states(where: Iterable[s.Statement]) -> Iterable[str]:
    """The names of recurrences: x[0] = …, x[l + 1] = …"""
    for one in where:
        if isinstance(one, s.Loop):
            yield from _states(one.body)
        elif any(isinstance(item, s.PlainItem) and not isinstance(item.value, s.Name) for item in one.brackets):
            yield one.name.name


def _parts(where: Iterable[s.Statement]) -> Iterable[tuple[str, s.Expr]]:
    for one in where:
        if isinstance(one, s.Loop):
            yield from _parts(one.body)
        else:
            yield one.name.name, one.value


class Facts:
    """The axes of expressions, from a check of the spec that holds them."""

    def __init__(self, session: Session) -> None:
        self.session = session  # keeps the expressions alive, by whose identity facts are found
        self.found: dict[int, tuple[Names, bool]] = {}
        self.guessed: dict[int, tuple[s.Expr, Names]] = {}
        for expr, value, scope in session.trace or ():
            self._take(expr, value, scope)

    @property
    def module(self) -> Module:
        """The spec that was checked."""
        return self.session.module

    def _take(self, expr: s.Expr, value: Value, scope: Scope) -> None:
        """The axes at the fullest use: a definition may be called with more of them here than there."""
        found = value.value if isinstance(value, Record) else value
        if not isinstance(found, Tensor):
            return
        names = tuple(scope.label(axis) for axis in ordered(found.axes) if scope.visible(axis))
        old = self.found.get(id(expr))
        if old is None or len(names) > len(old[0]):
            self.found[id(expr)] = names, found.map is not None
        if isinstance(expr, s.Select):
            self._base(expr, names)

    def _base(self, expr: s.Select, names: Names) -> None:
        """What stands before brackets that rename, or pick a number, has the same axes before they did."""
        for item in reversed(expr.items):
            if isinstance(item, s.RenameItem) and len(item.old) == len(item.new) == 1:
                names = tuple(item.old[0].name if one == item.new[0].name else one for one in names)
            elif isinstance(item, s.EqualItem) and isinstance(item.value, s.Number):
                names = (*names, item.axis.name)
            else:
                return
        self.found.setdefault(id(expr.base), (names, False))
        if isinstance(expr.base, s.Select):
            self._base(expr.base, names)

    def axes(self, expr: s.Expr, here: Home, deep: int = 0) -> Names:
        """The axes of an expression that its definition may name."""
        if isinstance(expr, s.Name) and expr.name in here.plain:
            return ()
        known = self.found.get(id(expr))
        if known is not None:
            return known[0]
        if id(expr) not in self.guessed:  # which holds the expression, so that its place is no other's
            self.guessed[id(expr)] = expr, ()  # what a recurrence finds of itself on its way
            self.guessed[id(expr)] = expr, self._guessed(expr, here, deep)
        return self.guessed[id(expr)][1]

    def is_map(self, expr: s.Expr, here: Home) -> bool:
        """Whether it is a weight with an arrow, or one of an instance, or turned round."""
        if isinstance(expr, s.Unary) and expr.op == "transpose":
            return True
        if isinstance(expr, s.Name) and expr.name in here.maps:
            return True
        known = self.found.get(id(expr))
        return known is not None and known[1]

    def is_stack(self, name: str, here: Home) -> bool:
        """Whether brackets behind the name hold the number of an instance or of a state."""
        use = self.module.uses.get(name)
        return name in here.stacks or (use is not None and bool(use.indices))

    def _guessed(self, expr: s.Expr, here: Home, deep: int) -> Names:
        match expr:
            case s.Name(name=name):
                return self._declared(name, here, deep)
            case s.Contract(left=left, right=right, axes=axes):
                return self._contracted(left, right, axes, here, deep)
            case s.Select(base=base, items=items):
                return self._selected(self.axes(base, here, deep), items, here, deep)
            case s.Call(function=s.Select(base=s.Name(name=name), items=items), args=args) if name in REDUCTION:
                gone = {axis for axis in map(reduced, items) if axis is not None}
                return tuple(a for a in self._union((one.value for one in args), here, deep) if a not in gone)
            case s.Call(args=args):
                return self._union((one.value for one in args), here, deep)
            case _:
                return self._union(operands(expr), here, deep)

    def _declared(self, name: str, here: Home, deep: int) -> Names:
        if name in here.axes:
            return here.axes[name]
        return self.axes(here.parts[name], here, deep + 1) if name in here.parts and deep < DEEPEST else ()

    def _contracted(
        self, left: s.Expr, right: s.Expr, axes: tuple[s.Name, ...] | None, here: Home, deep: int
    ) -> Names:
        a, b = self.axes(left, here, deep), self.axes(right, here, deep)
        gone = {one.name for one in axes} if axes is not None else set(a) & set(b)
        if isinstance(right, s.Name) and right.name in here.maps:
            weight = here.maps[right.name]
            outs = tuple(one.name for one in weight.outs or ())
            return (*(one for one in a if one not in {i.name for i in weight.ins}), *outs)
        return tuple(dict.fromkeys(one for one in (*a, *b) if one not in gone))

    def _selected(self, base: Names, items: tuple[s.Item, ...], here: Home, deep: int) -> Names:
        for item in items:
            if isinstance(item, s.EqualItem):
                base = tuple(one for one in base if one != item.axis.name)
                base = tuple(dict.fromkeys((*base, *self.axes(item.value, here, deep))))
            elif isinstance(item, s.RenameItem):
                old, new = {one.name for one in item.old}, tuple(one.name for one in item.new)
                base = (*(one for one in base if one not in old), *new)
        return base

    def _union(self, parts: Iterable[s.Expr], here: Home, deep: int) -> Names:
        return tuple(dict.fromkeys(axis for one in parts for axis in self.axes(one, here, deep)))


def reduced(item: s.Item) -> str | None:
    """The axis that an item in the brackets of a function names."""
    if isinstance(item, s.RestrictItem):
        return item.axis.name
    return item.value.name if isinstance(item, s.PlainItem) and isinstance(item.value, s.Name) else None


def operands(expr: s.Expr) -> Iterable[s.Expr]:
    """What an elementwise expression is made of."""
    match expr:
        case s.Unary(operand=operand):
            return (operand,)
        case s.Sum(terms=pairs) | s.Product(factors=pairs):
            return (one for _, one in pairs)
        case s.Power(base=base, exponent=exponent):
            return (base, exponent)
        case s.Compare(operands=parts) | s.Logic(operands=parts) | s.Concat(parts=parts):
            return parts
        case s.Cases(cases=cases):
            return (one for pair in cases for one in pair if one is not None)
        case _:
            return ()
