"""Graphs: named results over nodes, with what is known of inputs, weights and where each node comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..grammar.diagnostics import Span
from .nodes import Axis, Node, Size, walk_all
from .rewriting import Rewrite, transform


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: the place in a spec, the instance it belongs to and the name it has there.

    `calls` are the calls of instances around it, each as (path, place of the call). The result of a block that its
    caller gave a name has the caller's place, and `inner` is its own.
    """

    span: Span | None = None
    path: str = ""
    name: str = ""
    block: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    inner: Origin | None = None

    @property
    def home(self) -> str:
        """The instance whose formula made the node."""
        return (self.inner or self).path

    def over(self, theirs: Origin | None) -> Origin:
        """The same place for a node that has been made elsewhere."""
        if theirs is None:
            return self
        return replace(self, inner=None if theirs.home == self.path else theirs.inner or theirs)


def take_origin(origins: dict[Node, Origin], old: Node, new: Node) -> None:
    """A node that stands for another one comes from the same place; a named place wins over an unnamed one."""
    mine, theirs = origins.get(old), origins.get(new)
    if mine is not None and (theirs is None or (mine.name and not theirs.name)):
        origins[new] = mine.over(theirs)


@dataclass(frozen=True)
class Input:
    """An input of the compiled model: the ecosystem's name, the spec's name, axes as declared, kind, whether needed.

    Where the optional input called `instead` is given, a needed one may be left out: its entries are then -1.
    """

    name: str
    spec_name: str
    axes: tuple[Axis, ...]
    kind: str
    required: bool
    instead: str = ""


@dataclass(frozen=True)
class Output:
    """A named result and the order of its axes (lifted axes first).

    `listed` axes after the batch are steps of loops: whoever calls gets one value for each, as a tuple.
    """

    name: str
    node: Node
    axes: tuple[Axis, ...]
    listed: int = 0


@dataclass(frozen=True)
class Weight:
    """A parameter: path with `[]` for stacks, axes (stack axes first), in- and out-axes if a map, initialiser."""

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

    `plan` names the passes that a backend carries out while it writes (packed rows, memory that is used again). `each`
    is an axis that the caller's inputs and results have behind the batch, and the graph has not: its batch is both.
    `groups` are the examples of an objective over such a model and their texts (`each`): its labels have these. A graph
    that `selects` may compute a mean at the places that count alone, however many they are in a call.
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...]
    weights: tuple[Weight, ...]
    origins: Mapping[Node, Origin] = field(compare=False, repr=False)
    batch: Axis | None = None
    plan: frozenset[str] = frozenset()
    each: str = ""
    groups: tuple[Axis, Axis] | None = None
    selects: bool = False

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes of the results."""
        return tuple(one.node for one in self.outputs)

    def nodes(self) -> list[Node]:
        """All nodes, arguments first, bodies of loops included."""
        return list(self._nodes)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(walk_all(self.roots))

    def rewrite(self, change: Rewrite, origins: dict[Node, Origin] | None = None) -> Graph:
        """The graph after `change` of every node; origins go along (in the given table, or a copy of this graph's)."""
        origins = dict(self.origins) if origins is None else origins

        def moved(old: Node, new: Node) -> None:
            take_origin(origins, old, new)

        roots = transform(self.roots, change, moved)
        outputs = tuple(replace(o, node=r) for o, r in zip(self.outputs, roots, strict=True))
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


def restricted(graph: Graph, outputs: Collection[str]) -> Graph:
    """The graph with some of its results only, and the weights that they need."""
    kept = tuple(out for out in graph.outputs if out.name in outputs)
    names = frozenset[str]().union(*(used(graph, name) for name in outputs))
    return replace(graph, outputs=kept, weights=tuple(one for one in graph.weights if one.name in names))


def used(graph: Graph, output: str) -> set[str]:
    """The weights that a result needs, by name."""
    roots = [out.node for out in graph.outputs if out.name == output]
    return {str(one["name"]) for one in walk_all(roots) if one.op == "weight"}
