"""Graph → what is worth drawing: equations and results of blocks in their places; all else is folded in.

A *place* is where a node lives: the names of the blocks around it, outermost first, a loop counting as one.
Nodes with a name are shown, and so are those that leave their block unnamed (its result, or an argument on
its way into another block). What feeds a shown node through nodes that are not shown is an edge, or a weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ...compiler.ir import Axis, Graph, Node, Origin
from ...compiler.modules import Module
from ...grammar import syntax as s

Place: TypeAlias = tuple[str, ...]

SILENT = ("const", "table", "index", "size", "counter", "weight", "loop")
TRANSPARENT = ("rename", "widen")
PART = re.compile(r"(?:[^.\[]|\[[^\]]*\])+")


@dataclass(frozen=True)
class Loop:
    """A loop: the place that it is, how its steps are counted, and how often it runs ('' if unknown)."""

    place: Place
    variable: str
    times: str


@dataclass
class Folded:
    """The shown nodes with their places, what feeds each, and what is known of the blocks around them."""

    graph: Graph
    places: dict[Node, Place] = field(default_factory=dict)
    sources: dict[Node, list[Node]] = field(default_factory=dict)
    weights: dict[Node, list[Node]] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    blocks: dict[Place, s.Definition] = field(default_factory=dict)
    aliases: dict[Place, str] = field(default_factory=dict)  # a loop that stands for the one block in it
    homes: dict[Node, Place] = field(default_factory=dict)  # the instance that a node belongs to, loops aside

    def origin(self, one: Node) -> Origin:
        """Where a node comes from."""
        return self.graph.origins.get(one, Origin())


def fold(graph: Graph, module: Module) -> Folded:
    """The nodes of a graph that are worth drawing."""
    return _Folder(graph, module).run()


class _Folder:
    def __init__(self, graph: Graph, module: Module) -> None:
        self.nodes = graph.nodes()
        self.made = Folded(graph)
        self.loop_nodes = {one["loop"]: one for one in self.nodes if one.op == "loop"}
        self.loop_places: dict[int, Place] = {}
        self.definitions = _definitions(module)
        self.place: dict[Node, Place] = {}

    def run(self) -> Folded:
        consumers: dict[Node, list[Node]] = {one: [] for one in self.nodes}
        for one in self.nodes:
            for below in self.below(one):
                consumers[below].append(one)
        for ident in sorted(self.loop_nodes):
            self._loop(ident)
        for one in reversed(self.nodes):
            own = self._own_place(one)
            self.place[one] = (
                own if own is not None else self.place[consumers[one][0]] if consumers[one] else ()
            )
        shown = [one for one in self.nodes if self._shown(one, consumers[one])]
        self.made.places = {one: self.place[one] for one in shown}
        self.made.homes = {
            one: tuple(part for part in self.place[one] if not part.startswith("for ")) for one in shown
        }
        for one in shown:
            self.made.sources[one], weights = self._feeding(one)
            self.made.weights[one] = []
            for weight in weights:
                self.made.weights[self._reader(weight, one)].append(weight)
        self._blocks()
        self._merge_loops()
        return self.made

    def below(self, one: Node) -> tuple[Node, ...]:
        """What a node is made of: a loop's first state goes into its step, its last step is the result."""
        match one.op:
            case "carry":
                return (self.loop_nodes[one["loop"]].args[one["slot"]],)
            case "state":
                return (one.args[0]["body"][one["slot"]],)
            case "history":
                return (one.args[0]["body"][one["slot"]], one.args[1])
            case "loop":
                return ()
        return one.args

    def _loop(self, ident: int) -> None:
        node = self.loop_nodes[ident]
        outer = parts(self.made.origin(node).path)
        for other in sorted(node.free):
            outer = self._inside(other, outer)
        place = (*outer, f"for {ident}")
        self.loop_places[ident] = place
        steps = node.args[node["slots"]]
        times = str(int(steps["value"]) - node["start"]) if steps.op == "const" else ""
        self.made.loops.append(Loop(place, node["name"], times))

    def _inside(self, ident: int, path: Place) -> Place:
        """A place that is known to be inside a loop."""
        if ident not in self.loop_places:
            return path
        loop = self.loop_places[ident]
        outer = loop[:-1]
        return (*loop, *path[len(outer) :]) if path[: len(outer)] == outer else (*loop, *path)

    def _own_place(self, one: Node) -> Place | None:
        origin = self.made.graph.origins.get(one)
        if one.op == "input":
            return ()
        if one.op == "carry":
            return self.loop_places[one["loop"]]
        if origin is None:
            return None
        path = parts(origin.path)
        for ident in sorted(one.free):
            path = self._inside(ident, path)
        return path

    def _shown(self, one: Node, consumers: list[Node]) -> bool:
        if one in self.made.graph.roots or one.op in ("input", "carry", "kernel"):
            return one.op not in SILENT
        if one.op in SILENT or (not one.axes and one.op in TRANSPARENT):
            return False
        if self.made.origin(one).name:  # of several nodes that a pass made for one equation, the last is it
            return not consumers or any(self.made.origin(user) != self.made.origin(one) for user in consumers)
        if one.op in TRANSPARENT or (all(below.op in SILENT for below in one.args) and one.op != "position"):
            return False
        return any(self.place[user] != self.place[one] for user in consumers)

    def _feeding(self, one: Node) -> tuple[list[Node], list[Node]]:
        """The shown nodes and the weights that a shown node reads, each once, in order."""
        sources: dict[Node, None] = {}
        weights: dict[Node, None] = {}
        seen: set[Node] = set()
        stack = list(reversed(self.below(one)))
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            if here.op == "weight":
                weights[here] = None
            elif self._is_shown(here) and not self._named_outside(here, one):
                sources[here] = None
            else:
                stack.extend(reversed(self.below(here)))
        return list(sources), list(weights)

    def _reader(self, weight: Node, one: Node) -> Node:
        """The node that shows the weight: a block's last operation may bear a name that its caller gave."""
        home = parts(self.made.origin(weight).path)
        if home != self.made.homes[one]:
            for source in reversed(self.made.sources[one]):
                if self.made.homes[source] == home:
                    return source
        return one

    def _named_outside(self, state: Node, reader: Node) -> bool:
        """Whether a loop's result has its name from outside the block that reads it: a step, there."""
        if state.op != "state":
            return False
        home = self.loop_places[state.args[0]["loop"]][:-1]
        return self.place[state][: len(home)] != home and self.place[reader][: len(home)] == home

    def _is_shown(self, one: Node) -> bool:
        return one in self.made.places

    def _blocks(self) -> None:
        """Which definition each place is a call of."""
        for one in self.nodes:
            origin = self.made.graph.origins.get(one)
            found = self.definitions.get(origin.block) if origin else None
            if origin and found is not None and found.kind != "formula":
                path = parts(origin.path)
                for ident in sorted(one.free):
                    path = self._inside(ident, path)
                self.made.blocks.setdefault(path, found)
                self.made.blocks.setdefault(parts(origin.path), found)
        for loop in self.made.loops:  # weights are outside a loop, their blocks inside it
            for path, block in list(self.made.blocks.items()):
                if len(path) >= len(loop.place) and path[: len(loop.place) - 1] == loop.place[:-1]:
                    self.made.blocks.setdefault((*loop.place, *path[len(loop.place) - 1 :]), block)

    def _merge_loops(self) -> None:
        """A loop around a single block is one cluster with it."""
        for number, loop in enumerate(self.made.loops):
            size = len(loop.place)
            inner = {
                place[size]
                for place in self.made.places.values()
                if place[:size] == loop.place and len(place) > size
            }
            if len(inner) != 1:
                continue
            (child,) = inner
            gone = (*loop.place, child)
            self.made.aliases[loop.place] = child
            self.made.places = {one: _without(place, gone) for one, place in self.made.places.items()}
            self.made.blocks = {_without(place, gone): block for place, block in self.made.blocks.items()}
            later = self.made.loops[number + 1 :]
            self.made.loops[number + 1 :] = [
                Loop(_without(other.place, gone), other.variable, other.times) for other in later
            ]


def _without(place: Place, gone: Place) -> Place:
    """The place with the last part of `gone` taken out."""
    return (*gone[:-1], *place[len(gone) :]) if place[: len(gone)] == gone else place


def parts(path: str) -> Place:
    return tuple(PART.findall(path))


def _definitions(module: Module) -> dict[str, s.Definition]:
    """Every definition that the module's formulas can reach, the module's own first."""
    found: dict[str, s.Definition] = {}
    seen: set[int] = set()
    queue = [module]
    for here in queue:
        if id(here) not in seen:
            seen.add(id(here))
            for name, entry in here.entries.items():
                found.setdefault(name, entry.definition)
                queue.append(entry.module)
    return found


def shape(axes: Iterator[Axis] | tuple[Axis, ...]) -> tuple[str, ...]:
    """The names of axes, lengths first, as people read them."""
    return tuple(axis.name for axis in sorted(axes, key=lambda axis: isinstance(axis.size, int)))
