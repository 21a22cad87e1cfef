"""Regions: a node as a function of the one value through which all its inputs pass, seen from the node inwards.

Inside are scalar functions, reductions over one axis, renames (the same entries under other axes) and picks by labels,
which are numbers that the function takes beside the value. Weights and one relation may go in, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..ir import Axis, Node
from ..rules.algebra import is_map

MOST = 40
"""Nodes that a meaning may be made of."""


@dataclass(frozen=True)
class Region:
    """A node as a function of x (and a relation, a label, and weights)."""

    root: Node
    x: Node
    see: Node | None
    label: Node | None
    weights: tuple[Node, ...]
    inside: tuple[Node, ...]

    @property
    def given(self) -> tuple[Node, ...]:
        """Everything that goes in."""
        return tuple(one for one in (self.x, self.see, self.label, *self.weights) if one is not None)


def regions(root: Node, order: Mapping[Node, int], static: frozenset[Node]) -> Iterator[Region]:
    """The ways to see the node as a function of one value: its frontier is opened, latest node first."""
    at = _Frontier(root, order, static)
    while len(at.inside) < MOST:
        values, relations = at.values(), at.relations()
        if len(values) == 1 and len(relations) <= 1 and len(at.labels) <= 1:
            see, label = next(iter(relations), None), next(iter(at.labels), None)
            yield Region(root, values[0], see, label, at.weights(), tuple(at.inside))
        if not at.open(values, relations):
            return


@dataclass
class _Frontier:
    """What a part reads, while it is opened node by node."""

    root: Node
    order: Mapping[Node, int]
    static: frozenset[Node]
    inside: list[Node] = field(default_factory=list)
    reads: set[Node] = field(default_factory=set)
    labels: dict[Node, None] = field(default_factory=dict)
    axes: set[Axis] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._enter(self.root)

    def _data(self) -> Iterable[Node]:
        return (one for one in self.reads if one not in self.static and one not in self.labels)

    def values(self) -> list[Node]:
        """Numbers that come from inputs."""
        return [one for one in self._data() if one.kind != "bool"]

    def relations(self) -> list[Node]:
        """Truth values that come from inputs."""
        return [one for one in self._data() if one.kind == "bool"]

    def weights(self) -> tuple[Node, ...]:
        """Parameters in the order of the graph; numbers and places along an axis are part of the function."""
        found = (one for one in self.reads if one in self.static and one.op not in ("const", "index"))
        return tuple(sorted(found, key=self.order.__getitem__))

    def open(self, values: list[Node], relations: list[Node]) -> bool:
        """Takes one more node inside; False if none can be."""
        opened = max((one for one in values if self._opens(one)), key=self.order.__getitem__, default=None)
        if opened is None:  # a condition on x itself, as in x if x > 0 else 0, or on a label
            opened = max((one for one in relations if one.op == "map"), key=self.order.__getitem__, default=None)
        if opened is None:
            return False
        self.reads.remove(opened)
        self._enter(opened)
        return True

    def _opens(self, one: Node) -> bool:
        if one.op == "map" or one.op == "rename":
            return True
        if one.op == "pick":
            return is_labelled(one, self.static)
        return one.op == "reduce" and len(one["over"]) == 1 and (not self.axes or one["over"][0] in self.axes)

    def _enter(self, one: Node) -> None:
        self.inside.append(one)
        args = one.args
        if one.op == "pick":
            args = one.args[:1]
            self.labels[one.args[1]] = None
        elif is_map(one, "=="):  # the label as a vector: 1 at its place, 0 elsewhere
            for place, label in (one.args, one.args[::-1]):
                if place.op == "index" and label not in self.static:
                    args = ()
                    self.labels[label] = None
        elif one.op == "reduce":
            self.axes.update(one["over"])
        self.reads.update(args)


def is_labelled(one: Node, static: frozenset[Node]) -> bool:
    """Whether a node reads a value at numbers that are data, along one axis."""
    return (
        one.op == "pick"
        and len(one["keys"]) == 1
        and one.args[1] not in static
        and one.args[0] not in static
        and one["keys"][0] not in one.args[1].axes
    )
