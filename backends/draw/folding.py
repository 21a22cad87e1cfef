"""Graph → what is worth drawing: equations and results of blocks in their places; all else is folded in.

A *place* is where a node lives: the names of the blocks around it, outermost first, a loop counting as one.
Nodes with a name are shown, and so are those that leave their block unnamed (its result, or an argument on
its way into another block). What feeds a shown node through nodes that are not shown is an edge, or a weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...compiler.homes import Place, parts_of
from ...compiler.ir import Axis, Graph, Node, Origin
from ...compiler.modules import Module
from ...grammar import syntax as s

SILENT = ("const", "table", "index", "size", "counter", "weight", "loop")
TRANSPARENT = ("rename", "widen")


@dataclass(frozen=True)
class Loop:
    """A loop: the place that it is, how its steps are counted, its number and its steps (None if unknown)."""

    place: Place
    variable: str
    ident: int
    steps: range | None

    @property
    def times(self) -> str:
        """How often it runs ('' if unknown)."""
        return "" if self.steps is None else str(len(self.steps))


@dataclass
class Folded:
    """The shown nodes with their places, what feeds each, and what is known of the blocks around them."""

    graph: Graph
    places: dict[Node, Place] = field(default_factory=dict)
    sources: dict[Node, list[Node]] = field(default_factory=dict)
    weights: dict[Node, list[Node]] = field(default_factory=dict)
    chosen: dict[Node, dict[Node, list[Node]]] = field(default_factory=dict)  # what is read of each: itself, or picks
    loops: list[Loop] = field(default_factory=list)
    blocks: dict[Place, s.Definition] = field(default_factory=dict)
    aliases: dict[Place, str] = field(default_factory=dict)  # a loop that stands for the one block in it
    homes: dict[Node, Place] = field(default_factory=dict)  # the instance that a node belongs to, loops aside

    def origin(self, one: Node) -> Origin:
        """Where a node comes from; the result of a block from there, whatever its caller calls it."""
        found = self.graph.origins.get(one, Origin())
        return found.inner or found

    def given(self, one: Node) -> str:
        """The name that the caller of a block gave to its result, or nothing."""
        found = self.graph.origins.get(one, Origin())
        return found.name if found.inner else ""


def fold(graph: Graph, module: Module) -> Folded:
    """The nodes of a graph that are worth drawing."""
    return _Folder(graph, module).run()


class _Folder:
    def __init__(self, graph: Graph, module: Module) -> None:
        self.nodes = graph.nodes()
        self.made = Folded(graph)
        self.loop_nodes = {one["loop"]: one for one in self.nodes if one.op == "loop"}
        self.loop_places: dict[int, Place] = {}
        self.definitions = definitions_of(module)
        self.place: dict[Node, Place] = {}
        self.instances: dict[tuple[str, tuple[tuple[str, str], ...]], Place] = {}
        self.calls: dict[str, dict[str, int]] = {}
        for one in self.nodes:
            for path, call in self.made.origin(one).calls if one.op != "weight" else ():
                known = self.calls.setdefault(path, {})
                known.setdefault(call, len(known) + 1)

    def run(self) -> Folded:
        consumers: dict[Node, list[Node]] = {one: [] for one in self.nodes}
        for one in self.nodes:
            for below in self._made_of(one):
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
        self.made.homes = {one: home(self.place[one]) for one in shown}
        for one in shown:
            self.made.sources[one], chosen = self._feeding(one)
            self.made.chosen[one] = {}
            for weight, values in chosen.items():
                known = self.made.chosen[self._reader(weight, one)].setdefault(weight, [])
                known.extend(value for value in values if value not in known)
        self.made.weights = {one: list(chosen) for one, chosen in self.made.chosen.items()}
        self._blocks()
        self._merge_loops()
        return self.made

    def _made_of(self, one: Node) -> tuple[Node, ...]:
        return made_of(one, self.loop_nodes)

    def _loop(self, ident: int) -> None:
        node = self.loop_nodes[ident]
        outer = self._instance(self.made.origin(node))
        for other in sorted(node.free):
            outer = self._inside(other, outer)
        place = (*outer, f"for {ident}")
        self.loop_places[ident] = place
        steps = node.args[node["slots"]]
        known = range(node["start"], int(steps["value"])) if steps.op == "const" else None
        self.made.loops.append(Loop(place, node["name"], ident, known))

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
        path = self._instance(origin.inner or origin)
        for ident in sorted(one.free):
            path = self._inside(ident, path)
        return path

    def _instance(self, origin: Origin) -> Place:
        """The blocks around a node; of an instance that is called several times, each call is one: f, f~2."""
        key = origin.path, origin.calls
        if key not in self.instances:
            self.instances[key] = self._numbered(parts_of(origin.path), dict(origin.calls))
        return self.instances[key]

    def _numbered(self, names: Place, calls: Mapping[str, str]) -> Place:
        found = []
        for size, part in enumerate(names, 1):
            path = ".".join(names[:size])
            number = self.calls.get(path, {}).get(calls.get(path, ""), 1)
            found.append(f"{part}~{number}" if number > 1 else part)
        return tuple(found)

    def _shown(self, one: Node, consumers: list[Node]) -> bool:
        if one in self.made.graph.roots or one.op in ("input", "carry", "kernel"):
            return True
        if one.op in SILENT or (not one.axes and one.op in TRANSPARENT) or _of_weight(one):
            return False
        origins = self.made.graph.origins
        if one in origins and origins[one].name:  # of several nodes that a pass made for one equation, the last is it
            return not consumers or any(origins.get(user) != origins[one] for user in consumers)
        if one.op in TRANSPARENT or (all(below.op in SILENT for below in one.args) and one.op != "position"):
            return False
        return any(self.place[user] != self.place[one] for user in consumers)

    def _feeding(self, one: Node) -> tuple[list[Node], dict[Node, list[Node]]]:
        """The shown nodes that a shown node reads, each once, in order; and the weights, with what is read of each."""
        sources: dict[Node, None] = {}
        chosen: dict[Node, list[Node]] = {one: [one]} if one.op == "weight" else {}
        seen: set[Node] = set()
        stack = [(below, one) for below in reversed(self._made_of(one))]
        while stack:
            here, reader = stack.pop()
            if here.op == "weight":
                value = reader if reader.op == "pick" and reader.args[0] is here else here
                known = chosen.setdefault(here, [])
                known.extend([value] if value not in known else [])
            if here in seen:
                continue
            seen.add(here)
            if here.op == "weight":
                continue
            if self._is_shown(here) and not self._named_outside(here, one):
                sources[here] = None
            else:
                stack.extend((below, here) for below in reversed(self._made_of(here)))
        return list(sources), chosen

    def _reader(self, weight: Node, one: Node) -> Node:
        """The node that shows the weight: one of its own block, if that made what a block around it goes on with."""
        own, here = parts_of(self.made.origin(weight).path), self.made.homes[one]
        if own != here and own[: len(here)] == here:
            for source in reversed(self.made.sources[one]):
                if self.made.homes[source] == own:
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
            for origin in self._origins(one):
                found = self.definitions.get(origin.block)
                if found is not None and found.kind != "formula":
                    own = path = self._instance(origin)
                    for ident in sorted(one.free):
                        path = self._inside(ident, path)
                    self.made.blocks.setdefault(path, found)
                    self.made.blocks.setdefault(own, found)
        for loop in self.made.loops:  # weights are outside a loop, their blocks inside it
            for path, block in list(self.made.blocks.items()):
                if len(path) >= len(loop.place) and path[: len(loop.place) - 1] == loop.place[:-1]:
                    self.made.blocks.setdefault((*loop.place, *path[len(loop.place) - 1 :]), block)

    def _origins(self, one: Node) -> Iterator[Origin]:
        """A node's own place, and the one where its caller named it."""
        found = self.made.graph.origins.get(one)
        while found is not None:
            yield found
            found = found.inner

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
                replace(other, place=_without(other.place, gone)) for other in later
            ]


def made_of(one: Node, loops: Mapping[int, Node]) -> tuple[Node, ...]:
    """What a node is made of: a loop's first state goes into its step, its last step is the result."""
    match one.op:
        case "carry":
            return (loops[one["loop"]].args[one["slot"]],)
        case "state":
            return (one.args[0]["body"][one["slot"]],)
        case "history":
            return (one.args[0]["body"][one["slot"]], one.args[1])
        case "loop":
            return ()
    return one.args


def _without(place: Place, gone: Place) -> Place:
    """The place with the last part of `gone` taken out."""
    return (*gone[:-1], *place[len(gone) :]) if place[: len(gone)] == gone else place


def _of_weight(one: Node) -> bool:
    """Whether a node is a weight, or one of a stack of weights, as it is or under other axes."""
    while one.op in TRANSPARENT or (one.op == "pick" and not any(number.axes for number in one.args[1:])):
        one = one.args[0]
    return one.op == "weight"


def home(place: Place) -> Place:
    """The instance that a place belongs to: without loops, all calls alike."""
    return tuple(part.partition("~")[0] for part in place if not part.startswith("for "))


def definitions_of(module: Module) -> dict[str, s.Definition]:
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


def sized(axes: Iterator[Axis] | tuple[Axis, ...]) -> tuple[str, ...]:
    """The same, each known size told: batch, seq, d=768."""
    ordered = sorted(axes, key=lambda axis: isinstance(axis.size, int))
    return tuple(f"{axis.name}={axis.size}" if isinstance(axis.size, int) else axis.name for axis in ordered)
