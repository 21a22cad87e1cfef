"""Names in the text of a definition: what it mentions, what it renames, what it defines and never uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache, wraps
from typing import Any, TypeVar

from ..grammar import syntax as s
from ..grammar.diagnostics import Span

T = TypeVar("T")
R = TypeVar("R")

MAKERS = ("repeat", "sort")
"""Functions whose brackets may give an axis a new name."""


def parts(root: Any) -> Iterator[Any]:
    """Every syntax object below a syntax object, itself first, without recursion."""
    stack = [root]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack.extend(reversed(one))
        elif isinstance(one, s.Node):
            yield one
            kind: Any = type(one)
            stack.extend(getattr(one, name) for name in _inner(kind))


@cache
def _inner(kind: Any) -> tuple[str, ...]:
    """The fields that may hold other objects, last first."""
    return tuple(f.name for f in reversed(fields(kind)) if f.name not in ("span", "sign"))


def names_in(root: Any) -> Iterator[s.Name]:
    """All names in a text."""
    return (one for one in parts(root) if isinstance(one, s.Name))


REMEMBERED = 4096
"""Objects of which a function knows what it has found."""


def by_identity(find: Callable[[T], R]) -> Callable[[T], R]:
    """The function, remembered by which object it is given: to hash a tree of syntax takes as long as to walk it."""
    known: dict[int, tuple[T, R]] = {}

    @wraps(find)
    def found(one: T) -> R:
        kept = known.get(id(one))  # what is kept lives, so that no other object has its number
        if kept is None:
            if len(known) >= REMEMBERED:
                known.clear()
            kept = known[id(one)] = one, find(one)
        return kept[1]

    return found


@by_identity
def mentioned(definition: s.Definition) -> frozenset[str]:
    """Every name that the text of a definition contains (its own name left out)."""
    inside = (definition.axes, definition.params or (), definition.outputs, definition.body)
    found = {one.name for part in inside for one in names_in(part)}
    found |= {axis.name for one in parts(inside) if isinstance(one, s.Output) for axis in one.axes or ()}
    return frozenset(found)


@by_identity
def renames(definition: s.Definition) -> tuple[s.RenameItem, ...]:
    """The renames [a → b] of a definition's text; [u; v][a → b] and repeat[a → b](…) make another size and are none."""
    found = tuple(parts((definition.outputs, definition.body)))
    makers = [one.items[0] for one in found if isinstance(one, s.Select) and _makes(one.base)]
    return tuple(one for one in found if isinstance(one, s.RenameItem) and not any(one is item for item in makers))


def _makes(base: s.Expr) -> bool:
    return isinstance(base, s.Concat) or (isinstance(base, s.Name) and base.name == "repeat")


@by_identity
def members(file: s.File) -> frozenset[str]:
    """The names after a dot anywhere in a file: parts of calls that are read from outside."""
    return frozenset(one.name for one in parts(file.items) if isinstance(one, s.Member))


def declared_names(body: s.Body) -> list[s.Name]:
    """The names of a definition's weights and instances, in order."""
    found = [name for declared in body.weights for name in declared.names]
    return found + [name for declared in body.uses for name in declared.names]


def used_names(roots: Iterable[Any]) -> set[str]:
    """The names that expressions read."""
    return {one.name for root in roots for one in names_in(root)}


def is_none(one: s.Expr | None) -> bool:
    """Whether the text is `none`."""
    return isinstance(one, s.Name) and one.name == "none"


def place_of(equation: s.Assign | s.Expr, name: str) -> Span:
    """Where an equation reads a name."""
    value = equation.value if isinstance(equation, s.Assign) else equation
    return next((one.span for one in names_in(value) if one.name == name), equation.span)
