"""Axes and nodes: the one node type of the graph, interned, and how to walk it without recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from ..grammar.diagnostics import InternalError

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Length:
    """A size that is known at run time only; axes of equal length share it. It is at most that of `within`, if any.

    `made` is the number of entries, one for each owner, of a length that the formulas make (lengths.py).
    """

    name: str
    within: Length | None = None
    made: Node | None = None

    def __str__(self) -> str:
        return self.name


Size: TypeAlias = int | Length


@dataclass(frozen=True)
class Axis:
    """An axis by identity: display name, size, owner (each entry of the owner has its own length) and tag.

    The tag tells apart axes that hygiene or a map from an axis to itself needs twice under one name.
    """

    name: str
    size: Size
    owner: Axis | None = None
    tag: int = 0

    def __post_init__(self) -> None:
        # axes are looked up everywhere: a hash of all fields each time was a fifth of a check
        object.__setattr__(self, "_hash", hash((self.name, self.size, self.owner, self.tag)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis) or self._hash != other._hash:  # type: ignore[attr-defined]
            return False
        return (self.name, self.size, self.owner, self.tag) == (other.name, other.size, other.owner, other.tag)

    @property
    def ragged(self) -> bool:
        """Whether the size is a length that differs from owner to owner."""
        return isinstance(self.size, Length)

    @property
    def counted(self) -> bool:
        """Whether each owner has entries of its own number: the tokens of an example (and not the examples)."""
        return self.owner is not None and isinstance(self.size, Length)

    def __str__(self) -> str:
        return self.name


class Node:
    """One operation of the graph; make it with the functions below, which intern it."""

    __slots__ = ("__weakref__", "_attrs", "args", "axes", "free", "home", "kind", "op")

    op: str
    args: tuple[Node, ...]
    axes: tuple[Axis, ...]
    kind: str
    free: frozenset[int]
    home: int  # the innermost loop whose step it depends on; 0: none
    _attrs: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self._attrs[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or the default."""
        return self._attrs.get(name, default)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """All attributes by name."""
        return self._attrs

    def __repr__(self) -> str:
        extra = " ".join(str(v) for k, v in self._attrs.items() if isinstance(v, str | int | Fraction | Axis))
        return f"<{self.op} {extra} [{', '.join(map(str, self.axes))}]>"

    def __reduce__(self) -> Any:
        raise InternalError("nodes are interned and not pickled; pickle the program's source instead")


_table: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()


def node(op: str, args: Iterable[Node] = (), axes: Iterable[Axis] = (), kind: str = "real", **attrs: Any) -> Node:
    """The one node with this operation, arguments, axes, kind and attributes (all hashable)."""
    args, axes = tuple(args), tuple(axes)
    items = sorted(attrs.items(), key=lambda item: item[0])
    # 0.5 and Fraction(1, 2) are equal, and yet not one number here: the second is exact
    types = [type(part) for _, value in items for part in (value if isinstance(value, tuple) else (value,))]
    key = (op, args, axes, kind, tuple(items), tuple(types))
    found = _table.get(key)
    if found is not None:
        return found
    made = object.__new__(Node)
    made.op, made.args, made.axes, made.kind, made._attrs = op, args, axes, kind, attrs
    made.free = _free(op, args, attrs)
    made.home = max(made.free, default=0)
    _table[key] = made
    return made


def _free(op: str, args: tuple[Node, ...], attrs: dict[str, Any]) -> frozenset[int]:
    """The loops whose step a node depends on."""
    free = frozenset[int]().union(*(one.free for one in args)) if args else frozenset[int]()
    if op in ("counter", "carry", "past"):
        return free | {attrs["loop"]}
    if op in ("random", "kernel"):  # a kernel that draws has a site, too
        return free | frozenset(attrs.get("steps", ()))
    if op == "loop":
        inner = frozenset[int]().union(*(one.free for one in attrs["body"]))
        return free | (inner - {attrs["loop"]})
    return free


def at_selected(one: Node, hidden: bool = False) -> bool:
    """Whether a pick or scatter is at places that surely exist, all different; `hidden`: those of all tokens."""
    return all(place.op == "selected" and (place.get("hidden") or not hidden) for place in one.args[1:])


# --------------------------------------------------------------------------------------------------- walking


_READY = object()


def ordered(roots: Iterable[T], below: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Every node that `below` leads to from the roots, once, after what is below it; without recursion."""
    done: set[T] = set()
    opened: list[T] = []
    stack: list[Any] = list(roots)  # nodes; _READY: all below the one that was opened last is done
    stack.reverse()
    while stack:
        one = stack.pop()
        if one is _READY:
            ready = opened.pop()
            done.add(ready)
            yield ready
        elif one not in done:
            opened.append(one)
            stack.append(_READY)
            stack += reversed([arg for arg in below(one) if arg not in done])


def walk(roots: Iterable[Node], enter: Callable[[Node], bool] = lambda one: True) -> Iterator[Node]:
    """Every node below the roots once, arguments first; bodies of loops are not entered."""
    return ordered(roots, lambda one: one.args if enter(one) else ())


def walk_all(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below the roots once, the bodies of loops included (before their loop)."""
    return ordered(roots, lambda one: (*one.args, *one["body"]) if one.op == "loop" else one.args)


def invariants(body: Iterable[Node], ident: int) -> tuple[Node, ...]:
    """The largest parts of a body that do not depend on the loop's step (constants left out)."""
    found: dict[Node, None] = {}
    for one in walk(body, enter=lambda n: ident in n.free):
        if ident not in one.free and one.op not in ("const",):
            found[one] = None
    return tuple(found)
