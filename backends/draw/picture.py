"""The picture: boxes in nested clusters and the edges between them, opened to some depth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from ...compiler.homes import Place
from ...compiler.ir import Node
from ...compiler.layouts import axes_text
from ...compiler.sizes import Sizes
from ...compiler.units import number
from ...grammar.diagnostics import Span
from .figures import Figures, figures, total
from .folding import Folded, Loop, home, shape, sized
from .large import BOXES, condensed, fitting
from .sharing import sharing, told

EQUATION = re.compile(r"\s*([^\W\d]\w*'*(?:\s*\[[^\]]*\])?(?:\([^)]*\))?)\s*=(?!=)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Box:
    """One thing: `kind` is input, output, equation, state or block; the formula is the text of the spec.

    `given` is the name that a block's caller gave to its result, `shared` says which weights others read, too.
    """

    ident: str
    kind: str
    name: str
    formula: str = ""
    axes: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    span: Span | None = None
    given: str = ""
    shared: tuple[str, ...] = ()
    figures: Figures | None = None


@dataclass
class Cluster:
    """A block that is drawn open: its name, its definition's name, how often it runs, and what is in it."""

    ident: str
    name: str
    block: str = ""
    times: str = ""
    span: Span | None = None
    items: list[Box | Cluster] = field(default_factory=list)
    shared: tuple[str, ...] = ()

    @property
    def figures(self) -> Figures | None:
        """What all that is in it costs, if that was asked for."""
        found = [box.figures for box in self.boxes() if box.figures is not None]
        return total(found) if found else None

    def boxes(self) -> Iterator[Box]:
        """All boxes, those of inner clusters included."""
        for item in self.items:
            if isinstance(item, Box):
                yield item
            else:
                yield from item.boxes()

    def clusters(self) -> Iterator[Cluster]:
        """This cluster and all in it, outer ones first."""
        yield self
        for item in self.items:
            if isinstance(item, Cluster):
                yield from item.clusters()


@dataclass(frozen=True)
class Edge:
    """From a box to one that reads it, with the axes of what is read, and their sizes: d=768.

    `name` is that of the value, where the box does not bear it; `value` tells apart several values of one box.
    """

    source: str
    target: str
    axes: tuple[str, ...] = ()
    name: str = ""
    value: str = ""


@dataclass(frozen=True)
class Picture:
    """A model as boxes, clusters and edges; `depth` says how many levels are open (None: all).

    `sizes` are those for which figures are told; None: no figures. `notes` say what had to be left out.
    """

    name: str
    top: Cluster
    edges: tuple[Edge, ...]
    folded: Folded = field(repr=False, compare=False)
    depth: int | None = None
    full: bool = False
    sizes: Sizes | None = None
    costs: Mapping[Node, Figures] | None = field(default=None, repr=False, compare=False)
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ..display import picture_html

        return picture_html(self)

    def to_depth(self, depth: int) -> Picture:
        """The same model opened to another depth."""
        made = _Maker(self.folded, depth, self.full, self.sizes, self.costs).run()
        return replace(made, notes=self.notes)


def make(
    folded: Folded, depth: int | None = None, full: bool = False, sizes: Sizes | None = None, most: int = BOXES
) -> Picture:
    """The picture of a folded graph, opened to a depth; `full` opens blocks of a single equation, too.

    With `sizes`, boxes and clusters have figures for them. It has at most so many boxes, whatever the depth.
    """
    costs = None if sizes is None else figures(folded, sizes)
    folded = condensed(folded)
    fits = fitting(folded, depth, most)
    made = _Maker(folded, fits, full, sizes, costs).run()
    if fits == depth:
        return made
    return replace(made, notes=(f"Drawn {fits} levels deep: all of it is {len(folded.places):,} boxes.",))


class _Maker:
    def __init__(
        self,
        folded: Folded,
        depth: int | None,
        full: bool,
        sizes: Sizes | None,
        costs: Mapping[Node, Figures] | None,
    ) -> None:
        self.folded, self.depth, self.full, self.sizes, self.costs = folded, depth, full, sizes, costs
        self.loops: dict[Place, list[Loop]] = {}
        for loop in folded.loops:
            self.loops.setdefault(loop.place, []).append(loop)
        self.number = {one: f"n{i}" for i, one in enumerate(folded.places)}
        self.stacked = {weight.name: weight for weight in folded.graph.weights}
        self.shared = sharing(folded)
        self.inner: dict[Place, set[Place]] = {}
        self.members: dict[Place, list[Node]] = {}
        for one, place in folded.places.items():
            self.members.setdefault(place, []).append(one)
        for place in self.members:
            for size in range(len(place)):
                self.inner.setdefault(place[:size], set()).add(place[: size + 1])
        self.shut: dict[Place, Place | None] = {}
        self.roots = set(folded.graph.roots)
        self.readers: dict[Node, list[Node]] = {}
        for one, sources in folded.sources.items():
            for source in sources:
                self.readers.setdefault(source, []).append(one)

    def run(self) -> Picture:
        folded = self.folded
        definition = folded.blocks.get(())
        top = Cluster("model", folded.graph.name, span=definition.span if definition else None)
        open_: dict[Place, Cluster] = {(): top}
        where: dict[Node, str] = {}
        closed: dict[Place, list[Node]] = {}
        for one, place in folded.places.items():
            shut = self._shut(place)
            if shut is None:
                self._cluster(open_, place).items.append(self._box(one))
                where[one] = self.number[one]
            else:
                if shut not in closed:
                    self._cluster(open_, shut[:-1]).items.append(Box(_ident(shut), "block", ""))
                closed.setdefault(shut, []).append(one)
                where[one] = _ident(shut)
        blocks = {_ident(place): self._block(place, inside) for place, inside in closed.items()}
        for cluster in open_.values():
            cluster.items = [
                blocks.get(item.ident, item) if isinstance(item, Box) else item for item in cluster.items
            ]
        edges = dict.fromkeys(
            self._edge(a, where[a], where[b])
            for b, sources in folded.sources.items()
            for a in sources
            if where[a] != where[b]
        )
        for output in folded.graph.outputs:
            if output.node in where:
                ident = f"out{len(top.items)}"
                top.items.append(Box(ident, "output", output.name, axes=shape(output.axes)))
                edges[self._edge(output.node, where[output.node], ident)] = None
        return Picture(
            folded.graph.name, top, tuple(edges), folded, self.depth, self.full, self.sizes, self.costs
        )

    def _edge(self, one: Node, source: str, target: str) -> Edge:
        name = self.folded.given(one)
        if not name and source != self.number[one]:
            name = self.folded.origin(one).name
        return Edge(source, target, sized(one.axes), name, self.number[one])

    # ---------------------------------------------------------------------------------------------- clusters

    def _shut(self, place: Place) -> Place | None:
        """The outermost block around a place that is drawn as one box."""
        if place not in self.shut:
            self.shut[place] = self._outermost_shut(place)
        return self.shut[place]

    def _outermost_shut(self, place: Place) -> Place | None:
        for size in range(1, len(place) + 1):
            too_deep = self.depth is not None and size > self.depth
            if too_deep or (not self.full and self._simple(place[:size])):
                return place[:size]
        return None

    def _simple(self, place: Place) -> bool:
        """Whether a block is one equation: nothing inside, no named part of its own."""
        if place in self.inner or place in self.loops:
            return False
        block = self.folded.blocks.get(place)
        own = self.members.get(place, [])
        named = [one for one in own if self.folded.origin(one).name]
        return len(own) < 2 or (
            block is not None and not any(self.folded.origin(one).block == block.name.name for one in named)
        )

    def _cluster(self, open_: dict[Place, Cluster], place: Place) -> Cluster:
        if place not in open_:
            block = self.folded.blocks.get(place)
            name = block.name.name if block else ""
            made = Cluster(
                _ident(place),
                self._title(place),
                name,
                self._times(place),
                block.span if block else None,
                shared=self.shared.places.get(place, ()),
            )
            open_[place] = made
            self._cluster(open_, place[:-1]).items.append(made)
        return open_[place]

    def _title(self, place: Place) -> str:
        """`attn`, `layer[l]`, or `for l` where a loop stands for no single block."""
        loops = self.loops.get(place)
        name = self.folded.aliases.get(place, place[-1]).partition("~")[0]
        if not loops:
            return name
        variables = ", ".join(loop.variable for loop in loops)
        if name.startswith("for "):
            return f"for {variables}"
        return re.sub(r"\[\w+\]$", f"[{variables}]", name)

    def _times(self, place: Place) -> str:
        """×12, ×12×2 of two loops that are one cluster, × of a number that is not known."""
        counts = [loop.times for loop in self.loops.get(place, ())]
        told = [count for count in counts if count != "1"] or counts[:1]
        return "".join(f"×{count}" for count in told)

    def _block(self, place: Place, inside: list[Node]) -> Box:
        """A block as one box: its name, its formula, its weights (or how many there are)."""
        block = self.folded.blocks.get(place)
        times = self._times(place)
        name = (
            self._title(place) + (f" : {block.name.name}" if block else "") + (f" {times}" if times else "")
        )
        formula = _line(block.outputs[0].value.span.text) if block else ""
        within = set(inside)
        out = [one for one in inside if one in self.roots or not within.issuperset(self.readers.get(one, ()))]
        weights = dict.fromkeys(w for one in inside for w in self.folded.weights[one])
        axes = shape(out[0].axes) if len({one.axes for one in out}) == 1 else ()
        also = (
            also
            for one in inside
            for also in self.shared.readers.get(one, ())
            if also.place[: len(place)] != place
        )
        return Box(
            _ident(place),
            "block",
            name,
            formula,
            axes,
            self._counted(list(weights), place),
            block.span if block else None,
            self.folded.given(out[0]) if len(out) == 1 else "",
            (*self.shared.places.get(place, ()), *told(also)),
            self._figures(inside),
        )

    def _figures(self, nodes: Iterable[Node]) -> Figures | None:
        return None if self.costs is None else total(self.costs[one] for one in nodes)

    def _counted(self, weights: list[Node], place: Place) -> tuple[str, ...]:
        if len(weights) <= 4:
            home = self._home(place)
            return tuple(self._weight(one, home) for one in weights)
        count = sum(prod(a.size for a in one.axes if isinstance(a.size, int)) for one in weights)
        return (f"{len(weights)} weights, {number(count)} numbers",)

    def _home(self, place: Place) -> Place:
        """The instance path of a block: its place without loops, but with the blocks that loops stand for."""
        return home(
            tuple(self.folded.aliases.get(place[: size + 1], part) for size, part in enumerate(place))
        )

    # ------------------------------------------------------------------------------------------------- boxes

    def _box(self, one: Node) -> Box:
        """A node that is drawn by itself."""
        made = self._input(one) if one.op == "input" else self._equation(one)
        return replace(
            made,
            axes=shape(one.axes),
            weights=tuple(self._weight(w, self.folded.homes[one]) for w in self.folded.weights[one]),
            given=self.folded.given(one),
            shared=told(self.shared.readers.get(one, ())),
            figures=self._figures([one]),
        )

    def _input(self, one: Node) -> Box:
        spec_name = next(
            (i.spec_name for i in self.folded.graph.inputs if i.name == one["name"]), one["name"]
        )
        alias = one["name"] if spec_name != one["name"] else ""
        if one.args and one.args[0].op != "const":
            default = self.folded.origin(one.args[0])
            alias += f" = {_line(default.span.text)}" if default.span else ""
        return Box(self.number[one], "input", spec_name, alias)

    def _equation(self, one: Node) -> Box:
        origin = self.folded.origin(one)
        name, formula = origin.name, _line(origin.span.text) if origin.span else ""
        if one.op == "carry":
            return Box(self.number[one], "state", formula or "state", span=origin.span)
        if origin.name and origin.span:
            match = EQUATION.fullmatch(origin.span.text)
            if match and match[1].startswith(origin.name):
                name, formula = _line(match[1]), _line(match[2])
        if one.op == "kernel" and not name:
            name = str(one["name"])
        return Box(self.number[one], "equation", name, formula or one.op, span=origin.span)

    def _weight(self, one: Node, home: Place) -> str:
        """`W_Q : [d → head dk]`, by the name that the block has for it."""
        path = str(one["name"])
        owner, _, last = path.rpartition(".")
        name = last if owner == ".".join(home) else path.removeprefix(f"{'.'.join(home)}.") if home else path
        known = self.stacked.get(path)
        if known is None:
            return f"{name} : [{', '.join(a.name for a in one.axes)}]"
        return f"{name} : {axes_text(known)}"


def _ident(place: Iterable[str]) -> str:
    return "b:" + "/".join(place)


def _line(text: str) -> str:
    return " ".join(text.split())

