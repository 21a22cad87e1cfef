"""The formula graph: interned, immutable nodes over named axes.

A `Node` is one core operation; two nodes with the same operation, arguments, attributes and axes are one object, so
common subexpressions exist once and equality is identity. Nothing here recurses: graphs may be arbitrarily deep.

Core operations and their attributes (every one is a pure function of its arguments):

    input name                 what the caller gives; an argument, if any, is the default
    weight name                a parameter; stacked instances have their stack's axis
    const value                a number or truth value
    table values axis          one number per entry of an axis (a vector from config.json)
    index axis                 0, 1, … along an axis (the order, not the position id)
    position axis              the position id along a length, index unless the caller gives position_ids
    size axis                  how many entries an axis has, one number per owner
    map fn                     a scalar function, entry by entry, aligned by axis
    contract over              sum over axes of the product of two values
    reduce kind over           sum, mean, prod, max, min, argmax, count, any, all, norm; a second argument is the condition
    pick keys                  x at the given numbers along axes (arguments after x), simultaneous, aligned
    rename pairs               the same entries under other axes
    split axis into · merge gone into
    concat along into          along an axis, into an axis of a new name; an argument without the axis is one entry
    widen axis                 repeated along a new axis
    rank axis                  how many entries along the axis are larger (ties: by order)
    random draw site steps     a draw, new at each step of the loops in `steps`; arguments are its parameters
    counter loop               the step number inside a loop
    carry loop slot            a state at the start of a step
    past loop slot             an earlier state inside a loop; the argument is its number
    loop loop slots start      runs a body; arguments: first states, then number of steps, then what the body takes from outside
    state slot · history slot  a loop's last state, or (argument 2) the state of any number
    kernel name                a recognised meaning, made by passes only
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from ..grammar.diagnostics import InternalError, Span
from . import ops


@dataclass(frozen=True)
class Length:
    """A size that is known at run time only; axes of equal length share it."""

    name: str

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

    @property
    def ragged(self) -> bool:
        """Whether the size is a length that differs from owner to owner."""
        return isinstance(self.size, Length)

    def __str__(self) -> str:
        return self.name


class Node:
    """One operation of the graph; make it with the functions below, which intern it."""

    __slots__ = ("__weakref__", "_attrs", "args", "axes", "free", "kind", "op")

    op: str
    args: tuple[Node, ...]
    axes: tuple[Axis, ...]
    kind: str
    free: frozenset[int]
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
    key = (op, args, axes, kind, tuple(sorted(attrs.items(), key=lambda item: item[0])))
    found = _table.get(key)
    if found is not None:
        return found
    made = object.__new__(Node)
    made.op, made.args, made.axes, made.kind, made._attrs = op, args, axes, kind, attrs
    made.free = _free(op, args, attrs)
    _table[key] = made
    return made


def _free(op: str, args: tuple[Node, ...], attrs: dict[str, Any]) -> frozenset[int]:
    """The loops whose step a node depends on."""
    free = frozenset[int]().union(*(one.free for one in args)) if args else frozenset[int]()
    if op in ("counter", "carry", "past"):
        return free | {attrs["loop"]}
    if op == "random":
        return free | frozenset(attrs.get("steps", ()))
    if op == "loop":
        inner = frozenset[int]().union(*(one.free for one in attrs["body"]))
        return free | (inner - {attrs["loop"]})
    return free


# ------------------------------------------------------------------------------------------------------ making


def union(nodes: Iterable[Node]) -> tuple[Axis, ...]:
    """All axes of the nodes, each once, in the order of first sight."""
    return tuple(dict.fromkeys(axis for one in nodes for axis in one.axes))


def const(value: bool | int | float | Fraction) -> Node:
    """A number or truth value without axes; fractions stay exact."""
    if isinstance(value, bool):
        return node("const", kind="bool", value=value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
        return node("const", kind="real", value=Fraction(int(value)))
    exact = Fraction(value) if isinstance(value, int) else value
    kind = "int" if isinstance(value, int) or (isinstance(value, Fraction) and value.denominator == 1) else "real"
    return node("const", kind=kind, value=exact)


def table(values: Iterable[bool | Fraction | float], axis: Axis) -> Node:
    """The given numbers (or truth values) along an axis."""
    values = tuple(values)
    whole = all(isinstance(v, Fraction) and v.denominator == 1 for v in values)
    kind = "bool" if all(isinstance(v, bool) for v in values) else "int" if whole else "real"
    return node("table", (), (axis,), kind, values=values, axis=axis)


def input_(name: str, axes: Iterable[Axis], kind: str, default: Node | None = None) -> Node:
    """What the caller gives under `name`."""
    return node("input", () if default is None else (default,), axes, kind, name=name)


def weight(name: str, axes: Iterable[Axis]) -> Node:
    """A parameter, by the path of its instance."""
    return node("weight", (), axes, name=name)


def index(axis: Axis) -> Node:
    """0, 1, … along the axis."""
    return node("index", (), (axis,), "int", axis=axis)


def position(axis: Axis) -> Node:
    """The position ids along a length."""
    return node("position", (), _owned(axis), "int", axis=axis)


def size(axis: Axis) -> Node:
    """The number of entries along the axis: a constant, or one number per owner."""
    if isinstance(axis.size, int):
        return const(axis.size)
    return node("size", (), (axis.owner,) if axis.owner else (), "int", axis=axis)


def _owned(axis: Axis) -> tuple[Axis, ...]:
    return (axis.owner, axis) if axis.owner else (axis,)


def apply(fn: str, *args: Node) -> Node:
    """The scalar function `fn` of ops.FUNCTIONS, entry by entry."""
    row = ops.FUNCTIONS[fn]
    return node("map", args, union(args), row.kind(tuple(one.kind for one in args)), fn=fn)


def where(condition: Node, value: Node, otherwise: Node) -> Node:
    """value where the condition holds, otherwise elsewhere; the other side is never looked at."""
    if condition.op == "const":
        return widen_to(value if condition["value"] else otherwise, union((value, otherwise)))
    return apply("where", condition, value, otherwise)


def _owners(over: Iterable[Axis], have: Iterable[Axis]) -> tuple[Axis, ...]:
    """Reducing a length leaves one result per owner, even where the operand does not know the owner."""
    over, have = tuple(over), tuple(have)
    return tuple(a.owner for a in over if a.owner and a.owner not in over and a.owner not in have)


def contract(left: Node, right: Node, over: Iterable[Axis]) -> Node:
    """Σ over `over` of left * right, all other common axes aligned."""
    over = tuple(over)
    both = union((left, right))
    kept = tuple(axis for axis in both if axis not in over)
    kind = "real" if "real" in (left.kind, right.kind) else "int"
    return node("contract", (left, right), _owners(over, kept) + kept, kind, over=over)


def reduce(kind: str, value: Node, over: Iterable[Axis], condition: Node | None = None) -> Node:
    """`kind` over the axes of value (and of the condition), only where the condition holds."""
    over = tuple(over)
    args = (value,) if condition is None else (value, condition)
    kept = tuple(axis for axis in union(args) if axis not in over)
    result = ops.REDUCTIONS[kind].kind(value.kind)
    return node("reduce", args, _owners(over, kept) + kept, result, reduction=kind, over=over)


def pick(value: Node, at: Mapping[Axis, Node]) -> Node:
    """value at the numbers `at`, which align with each other and with the axes that stay."""
    kept = tuple(axis for axis in value.axes if axis not in at)
    axes = tuple(dict.fromkeys((*kept, *union(at.values()))))
    return node("pick", (value, *at.values()), axes, value.kind, keys=tuple(at))


def rename(value: Node, pairs: Mapping[Axis, Axis]) -> Node:
    """The same entries under other axes; axes owned by a renamed axis change owner with it."""
    full = {old: renamed(old, pairs) for old in value.axes}
    full = {old: new for old, new in full.items() if old != new}
    if not full:
        return value
    if value.op == "index":
        return index(full[value["axis"]])
    if value.op == "rename":
        inner: dict[Axis, Axis] = dict(value["pairs"])
        base = value.args[0]
        middle = {old: inner.get(old, old) for old in base.axes}
        return rename(base, {old: full.get(axis, axis) for old, axis in middle.items()})
    axes = tuple(full.get(axis, axis) for axis in value.axes)
    if len(set(axes)) != len(axes):
        raise InternalError(f"rename makes one axis of two: {axes}")
    return node("rename", (value,), axes, value.kind, pairs=tuple(full.items()))


def renamed(axis: Axis, pairs: Mapping[Axis, Axis]) -> Axis:
    """The axis after renaming: by itself, or because its owner was."""
    if axis in pairs:
        return pairs[axis]
    if axis.owner is not None and axis.owner in pairs:
        return Axis(axis.name, axis.size, pairs[axis.owner], axis.tag)
    return axis


def split(value: Node, axis: Axis, into: Iterable[Axis]) -> Node:
    """One axis as several, the last running fastest."""
    into = tuple(into)
    axes = tuple(b for a in value.axes for b in (into if a == axis else (a,)))
    return node("split", (value,), axes, value.kind, axis=axis, into=into)


def merge(value: Node, axes: Iterable[Axis], into: Axis) -> Node:
    """Several axes as one, the last running fastest."""
    gone = tuple(axes)
    kept = tuple(a for a in value.axes if a not in gone)
    return node("merge", (value,), (*kept, into), value.kind, gone=gone, into=into)


def concat(parts: Iterable[Node], axes: Iterable[Axis | None], into: Axis) -> Node:
    """Parts one after the other along their axis (None: the part is one entry), as the axis `into`."""
    parts, axes = tuple(parts), tuple(axes)
    kept = tuple(a for a in union(parts) if a not in axes)
    kind = "real" if any(one.kind == "real" for one in parts) else parts[0].kind
    return node("concat", parts, (*kept, into), kind, along=axes, into=into)


def widen(value: Node, axis: Axis) -> Node:
    """The value repeated along a new axis."""
    return value if axis in value.axes else node("widen", (value,), (*value.axes, axis), value.kind, axis=axis)


def widen_to(value: Node, axes: Iterable[Axis]) -> Node:
    """The value with all of these axes."""
    for axis in axes:
        value = widen(value, axis)
    return value


def rank(value: Node, axis: Axis) -> Node:
    """How many entries along the axis are larger, ties by order."""
    return node("rank", (value,), value.axes, "int", axis=axis)


def counter(loop: int) -> Node:
    """The number of the step inside a loop."""
    return node("counter", kind="int", loop=loop)


def carry(loop: int, slot: int, like: Node) -> Node:
    """State `slot` at the start of a step; it has the axes and kind of its first value."""
    return node("carry", (), like.axes, like.kind, loop=loop, slot=slot)


def past(loop: int, slot: int, like: Node, number: Node) -> Node:
    """The state of another number, inside the loop."""
    return node("past", (number,), tuple(dict.fromkeys((*number.axes, *like.axes))), like.kind, loop=loop, slot=slot)


def loop(
    ident: int, axis: Axis, start: int, steps: Node, first: Iterable[Node], body: Iterable[Node], name: str = ""
) -> Node:
    """Runs `body` (the next states, over carry, counter and past nodes of this loop) `steps` times.

    All nodes of the body that do not depend on the step are arguments, and so are computed once, outside.
    """
    first, body = tuple(first), tuple(body)
    outside = tuple(one for one in invariants(body, ident) if one not in (*first, steps))
    return node(
        "loop",
        (*first, steps, *outside),
        union(first),
        loop=ident,
        axis=axis,
        start=start,
        slots=len(first),
        body=body,
        name=name,
    )


def state(made: Node, slot: int) -> Node:
    """The last state of a loop."""
    like = made.args[slot]
    return node("state", (made,), like.axes, like.kind, slot=slot)


def history(made: Node, slot: int, number: Node) -> Node:
    """The state of any number of a finished loop."""
    like = made.args[slot]
    return node("history", (made, number), tuple(dict.fromkeys((*number.axes, *like.axes))), like.kind, slot=slot)


def draw(kind: str, args: Iterable[Node], axes: Iterable[Axis], result: str, site: str, **attrs: Any) -> Node:
    """A random draw: `site` names its own stream; a map of the arguments' axes and `axes`."""
    args = tuple(args)
    full = tuple(dict.fromkeys((*union(args), *axes)))
    full = tuple(a for a in full if a != attrs.get("axis"))
    return node("random", args, full, result, draw=kind, site=site, **attrs)


def kernel(name: str, args: Iterable[Node], axes: Iterable[Axis], kind: str = "real", **attrs: Any) -> Node:
    """A recognised meaning (see compiler/kernels.py), which backends may have a fast form for."""
    return node("kernel", args, axes, kind, name=name, **attrs)


# --------------------------------------------------------------------------------------------------- walking


def walk(roots: Iterable[Node], enter: Callable[[Node], bool] = lambda one: True) -> Iterator[Node]:
    """Every node below the roots once, arguments first; bodies of loops are not entered."""
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(one, False) for one in reversed(tuple(roots))]
    while stack:
        one, ready = stack.pop()
        if one in done:
            continue
        if ready:
            done.add(one)
            yield one
        else:
            stack.append((one, True))
            if enter(one):
                stack.extend((arg, False) for arg in reversed(one.args) if arg not in done)


def walk_all(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below the roots once, the bodies of loops included (before their loop)."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(one, False) for one in reversed(tuple(roots))]
    while stack:
        one, ready = stack.pop()
        if one in seen:
            continue
        if ready:
            seen.add(one)
            yield one
        else:
            stack.append((one, True))
            below = (*one.args, *one["body"]) if one.op == "loop" else one.args
            stack.extend((arg, False) for arg in reversed(below) if arg not in seen)


def invariants(body: Iterable[Node], ident: int) -> tuple[Node, ...]:
    """The largest parts of a body that do not depend on the loop's step (constants left out)."""
    found: dict[Node, None] = {}
    for one in walk(body, enter=lambda n: ident in n.free):
        if ident not in one.free and one.op not in ("const",):
            found[one] = None
    return tuple(found)


Rewrite: TypeAlias = Callable[[Node], Node]


def rebuild(one: Node, args: tuple[Node, ...], body: tuple[Node, ...] | None = None) -> Node:
    """The same operation on other arguments (and another body); axes follow from the arguments."""
    if one.args == args and (body is None or one["body"] == body):
        return one
    match one.op:
        case "map":
            return where(*args) if one["fn"] == "where" else apply(one["fn"], *args)
        case "contract":
            return contract(args[0], args[1], one["over"])
        case "reduce":
            return reduce(one["reduction"], args[0], one["over"], args[1] if len(args) > 1 else None)
        case "pick":
            return pick(args[0], dict(zip(one["keys"], args[1:], strict=True)))
        case "rename":
            return rename(args[0], dict(one["pairs"]))
        case "split":
            return split(args[0], one["axis"], one["into"])
        case "merge":
            return merge(args[0], one["gone"], one["into"])
        case "concat":
            return concat(args, one["along"], one["into"])
        case "widen":
            return widen(args[0], one["axis"])
        case "state":
            return state(args[0], one["slot"])
        case "history":
            return history(args[0], one["slot"], args[1])
        case "loop":
            count = one["slots"]
            return loop(
                one["loop"], one["axis"], one["start"], args[count], args[:count], body or one["body"], one["name"]
            )
        case _:
            return node(one.op, args, one.axes, one.kind, **one.attrs)


def transform(roots: Iterable[Node], change: Rewrite, moved: Callable[[Node, Node], None] | None = None) -> list[Node]:
    """Rebuilds the graph bottom-up: each node, its arguments already rebuilt, goes through `change`.

    `moved(old, new)` is told of every node that became another one. Bodies of loops are rebuilt too.
    """
    roots = list(roots)
    done: dict[Node, Node] = {}
    for one in walk_all(roots):
        body = tuple(done[part] for part in one["body"]) if one.op == "loop" else None
        same = rebuild(one, _loop_args(one, done), body)
        if moved is not None and same is not one:
            moved(one, same)
        made = done[one] = change(same)
        if moved is not None and made is not same:
            moved(same, made)
    return [done[one] for one in roots]


def _loop_args(one: Node, done: Mapping[Node, Node]) -> tuple[Node, ...]:
    args = one.args[: one["slots"] + 1] if one.op == "loop" else one.args
    new = tuple(done[arg] for arg in args)
    if one.op == "loop" and new == args and all(done[part] is part for part in one["body"]):
        return one.args
    return new


# ----------------------------------------------------------------------------------------------------- graphs


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: the place in a spec, the instance it belongs to and the name it has there."""

    span: Span | None = None
    path: str = ""
    name: str = ""
    block: str = ""


def take_origin(origins: dict[Node, Origin], old: Node, new: Node) -> None:
    """A node that stands for another one comes from the same place; a named place wins over an unnamed one."""
    mine, theirs = origins.get(old), origins.get(new)
    if mine is not None and (theirs is None or (mine.name and not theirs.name)):
        origins[new] = mine


@dataclass(frozen=True)
class Input:
    """An input of the compiled model: the ecosystem's name, the spec's name, axes as declared, kind, whether needed."""

    name: str
    spec_name: str
    axes: tuple[Axis, ...]
    kind: str
    required: bool


@dataclass(frozen=True)
class Output:
    """A named result and the order of its axes (lifted axes first)."""

    name: str
    node: Node
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Weight:
    """A parameter: path with `[]` for stacks, axes (stack axes first), in- and out-axes if a map, initialiser as text."""

    name: str
    axes: tuple[Axis, ...]
    stack: tuple[Axis, ...]
    ins: tuple[Axis, ...]
    outs: tuple[Axis, ...] | None
    init: str
    span: Span | None = field(compare=False, default=None)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the axes."""
        return tuple(axis.size for axis in self.axes)


@dataclass(frozen=True)
class Graph:
    """What a stage hands to the next: named results over interned nodes, with inputs, weights and origins.

    `plan` names the passes that a backend carries out while it writes (how rows are packed, which memory is used again).
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...]
    weights: tuple[Weight, ...]
    origins: Mapping[Node, Origin] = field(compare=False, repr=False)
    batch: Axis | None = None
    plan: frozenset[str] = frozenset()

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes of the results."""
        return tuple(one.node for one in self.outputs)

    def nodes(self) -> list[Node]:
        """All nodes, arguments first, bodies of loops included."""
        return list(walk_all(self.roots))

    def rewrite(self, change: Rewrite, origins: dict[Node, Origin] | None = None) -> Graph:
        """The graph after `change` of every node; origins go along (in the given table, or a copy of this graph's)."""
        origins = dict(self.origins) if origins is None else origins

        def moved(old: Node, new: Node) -> None:
            take_origin(origins, old, new)

        roots = transform(self.roots, change, moved)
        outputs = tuple(Output(o.name, r, o.axes) for o, r in zip(self.outputs, roots, strict=True))
        return replace(self, outputs=outputs, origins=origins)

    def networkx(self) -> Any:
        """The graph as a networkx.DiGraph: nodes keyed by number, with the attributes op, label, axes and body."""
        import networkx

        made: Any = networkx.DiGraph(name=self.name)
        number = {one: i for i, one in enumerate(self.nodes())}
        for one, i in number.items():
            origin = self.origins.get(one, Origin())
            made.add_node(i, op=one.op, label=origin.name or one.op, axes=[str(a) for a in one.axes], path=origin.path)
            below = (*one.args, *one["body"]) if one.op == "loop" else one.args
            made.add_edges_from((number[arg], i) for arg in below)
        return made
