"""Places and routes of a whole picture, cluster by cluster, inner ones first: each is a box of its parent.

An edge that enters or leaves a cluster goes through a port on its border, where its pieces join. Each value that
leaves a box has its label right behind it, on the edge, with room of its own. Everything is laid out downwards; a
picture to the right is laid out with widths and heights exchanged, and turned at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from .layered import SLOT, Level, Link, Point, Vertex, turning
from .measure import NAME, SMALL, label, size, subtitle, title, width
from .picture import Box, Cluster, Edge, Picture

MARGIN, HEAD, SECOND = 16.0, 30.0, 16.0
STUB, LINE, AROUND = 6.0, 15.0, 7.0  # of labels: the edge before one, its height, and the room beside it


@dataclass(frozen=True)
class Frame:
    """Where a box or cluster is."""

    x: float
    y: float
    width: float
    height: float

    def moved(self, dx: float, dy: float) -> Frame:
        """The same frame elsewhere."""
        return Frame(self.x + dx, self.y + dy, self.width, self.height)

    def turned(self) -> Frame:
        """The frame with x and y exchanged."""
        return Frame(self.y, self.x, self.height, self.width)


@dataclass(frozen=True)
class Label:
    """What stands on the edges of one value of a box, and the short line before it."""

    text: str
    frame: Frame
    stub: tuple[Point, Point]


@dataclass(frozen=True)
class Path:
    """A piece of an edge: its straight parts, between which it bends, and whether it ends in a tip.

    One that goes `back` was laid out the other way round: its tip is where it starts.
    """

    source: str
    pieces: tuple[tuple[Point, Point], ...]
    tip: bool
    back: bool = False
    ends: tuple[str, str] = ("", "")


@dataclass
class Layout:
    """All of a picture's places, from its top left corner."""

    width: float
    height: float
    boxes: dict[str, Frame] = field(default_factory=dict)
    clusters: dict[str, Frame] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    right: bool = False


@dataclass
class _Inner:
    """A cluster that has been laid out: its size, its ports (from the left) and what it holds."""

    width: float
    height: float
    ins: dict[str, float]
    outs: dict[str, float]
    layout: Layout


def lay_out(picture: Picture, right: bool = False) -> Layout:
    """The places and routes of a picture, downwards or to the right."""
    going = [(edge, False) for edge in picture.edges]
    inner = _Placer(picture.edges, right).cluster(picture.top, going, top=True)
    made = inner.layout
    made.width, made.height = inner.width, inner.height
    return _turned(made) if right else made


def head(cluster: Cluster) -> tuple[float, float]:
    """Width and height of a cluster's head: its title, and what it costs."""
    badge = width(cluster.times, NAME) + 26 if cluster.times else 0.0
    second = sum(line.width + 16 for line in subtitle(cluster))
    wide = max(width(title(cluster), NAME) + 12 + badge, second)
    return wide + 12, HEAD + (SECOND if second else 0.0)


Going: TypeAlias = tuple[Edge, bool]
"""An edge, and whether it goes back: against the direction of the picture, since its ends feed each other."""


class _Placer:
    def __init__(self, edges: Iterable[Edge], right: bool) -> None:
        self.right = right
        self.texts: dict[str, dict[str, str]] = {}
        for edge in edges:
            self.texts.setdefault(edge.source, {}).setdefault(_key(edge), label(edge))

    def cluster(self, cluster: Cluster, edges: Iterable[Going], top: bool = False) -> _Inner:
        """A cluster with all that is in it; edges that go back leave at its top and enter at its bottom."""
        going = tuple(edges)
        holder = _holders(cluster)
        ends = [(holder.get(edge.source), holder.get(edge.target)) for edge, _ in going]
        pairs = [(a, b) for a, b in ends if a is not None and b is not None and a != b]
        turned = turning(len(cluster.items), pairs)
        going = tuple((edge, back or pair in turned) for (edge, back), pair in zip(going, ends, strict=True))
        touching = _touching(ends, going)
        inner = {
            n: self.cluster(item, touching.get(n, ()))
            for n, item in enumerate(cluster.items)
            if isinstance(item, Cluster)
        }
        vertices = [
            self._vertex(item) if isinstance(item, Box) else _outer(inner[n])
            for n, item in enumerate(cluster.items)
        ]
        ports: dict[tuple[str, str], int] = {}

        def port(kind: str, key: str) -> int:
            if (kind, key) not in ports:
                ports[kind, key] = len(vertices)
                vertices.append(Vertex(SLOT, 0.0, kind))
            return ports[kind, key]

        links: dict[tuple[int, int, str, bool], tuple[str, str]] = {}
        for (edge, back), (source, target) in zip(going, ends, strict=True):
            if source == target:  # both outside, or both in one item
                continue
            key = _key(edge)
            tail = port("out" if back else "in", key) if source is None else source
            end = port("in" if back else "out", key) if target is None else target
            found = (end, tail, key, True) if back else (tail, end, key, False)
            links.setdefault(found, (edge.source, edge.target))
        level = Level(vertices, [Link(*one) for one in links])
        level.arrange()
        return self._collect(cluster, level, inner, ports, top, list(links.values()))

    def _vertex(self, box: Box) -> Vertex:
        """A box with the labels of what leaves it, each behind a port of its own."""
        wide, high = size(box)
        if self.right:
            wide, high = high, wide
        keys, outs, room = [], {}, 0.0
        texts = self.texts.get(box.ident, {})
        for key, text in texts.items():
            across, along = self._label(text)
            outs[key], room = room + across / 2, room + across
            keys.append((key, along))
        long = max((along for _, along in keys), default=0.0)
        return Vertex(
            max(wide, room), high + long, "box", outs={key: x - room / 2 for key, x in outs.items()}
        )

    def _label(self, text: str) -> tuple[float, float]:
        """Room of a label across and along the edge."""
        if not text:
            return 2 * AROUND, 0.0
        wide = width(text, SMALL) + 2 * AROUND
        return (LINE + 4, STUB + wide) if self.right else (wide, STUB + LINE)

    def _collect(
        self,
        cluster: Cluster,
        level: Level,
        inner: dict[int, _Inner],
        ports: dict[tuple[str, str], int],
        top: bool,
        ends: list[tuple[str, str]],
    ) -> _Inner:
        """The cluster's frame around its level, with everything inside moved to its place."""
        kinds = {kind for kind, _ in ports}
        ports_x = [level.vertices[n].x for (kind, _), n in ports.items() if kind == "in"]
        left, above, wide, high = self._room(cluster, level, ports_x, "out" in kinds, top)
        made = Layout(wide, 0.0)
        for number, item in enumerate(cluster.items):
            vertex = level.vertices[number]
            frame = Frame(left + vertex.x - vertex.width / 2, above + vertex.y, vertex.width, vertex.height)
            if isinstance(item, Box):
                self._place(made, item, frame, vertex)
            else:
                made.clusters[item.ident] = frame
                _move_into(made, inner[number].layout, frame.x, frame.y)
        for link, between in zip(level.links, ends, strict=True):
            pieces = [((left + a, above + b), (left + c, above + d)) for (a, b), (c, d) in level.route(link)]
            if level.vertices[link.tail].kind == "in":
                pieces[0] = ((pieces[0][0][0], 0.0), pieces[0][1])
            if level.vertices[link.head].kind == "out":
                pieces[-1] = (pieces[-1][0], (pieces[-1][1][0], high))
            last = link.tail if link.back else link.head
            if link.back and last < len(cluster.items) and isinstance(cluster.items[last], Box):
                frame = made.boxes[cluster.items[last].ident]
                pieces[0] = ((pieces[0][0][0], frame.y + frame.height), pieces[0][1])
            tip = last < len(cluster.items) and isinstance(cluster.items[last], Box)
            made.paths.append(Path(link.key, tuple(pieces), tip, link.back, between))
        places = {spot: left + level.vertices[n].x for spot, n in ports.items()}
        ins = {key: x for (kind, key), x in places.items() if kind == "in"}
        outs = {key: x for (kind, key), x in places.items() if kind == "out"}
        return _Inner(wide, high, ins, outs, made)

    def _room(
        self, cluster: Cluster, level: Level, ins: list[float], leaves: bool, top: bool
    ) -> tuple[float, float, float, float]:
        """Where the level starts in its cluster, and the cluster's size; no edge runs through the title."""
        wide, high = (0.0, 0.0) if top else head(cluster)
        above = 0.0 if ins else MARGIN
        below = 0.0 if leaves else MARGIN
        if self.right:
            left = (MARGIN if top else high) + 2
            length = above + level.height + below
            return left, above, left + level.width + MARGIN, max(length, wide + MARGIN)
        above += high - (0.0 if top else 10.0 * (not ins))
        first = min(ins, default=wide + MARGIN)
        left = MARGIN + (max(0.0, wide + 8 - (first + MARGIN)) if not top else 0.0)
        full = max(left + level.width + MARGIN, wide + 2 * MARGIN)
        left += (full - left - level.width - MARGIN) / 2
        return left, above, full, above + level.height + below

    def _place(self, made: Layout, box: Box, frame: Frame, vertex: Vertex) -> None:
        """A box and its labels within the room of its vertex."""
        high = size(box)[0 if self.right else 1]
        made.boxes[box.ident] = Frame(frame.x, frame.y, frame.width, high)
        for key, text in self.texts.get(box.ident, {}).items():
            across, along = self._label(text)
            middle, end = frame.x + frame.width / 2 + vertex.outs[key], frame.y + high
            if text:
                place = Frame(
                    middle - across / 2 + AROUND / 2, end + STUB, across - AROUND, along - STUB
                )
                made.labels.append(Label(text, place, ((middle, end), (middle, end + STUB))))
            if frame.y + frame.height > end + along:  # a longer label stands beside this one
                line = ((middle, end + along), (middle, frame.y + frame.height))
                made.paths.append(Path(key, (line,), False, ends=(box.ident, "")))


def _key(edge: Edge) -> str:
    """What is carried: a value of a box."""
    return f"{edge.source} {edge.value}"


def _holders(cluster: Cluster) -> dict[str, int]:
    """For each box inside, the number of the item that holds it."""
    found: dict[str, int] = {}
    for number, item in enumerate(cluster.items):
        for box in [item] if isinstance(item, Box) else item.boxes():
            found[box.ident] = number
    return found


def _touching(
    ends: Iterable[tuple[int | None, int | None]], going: Iterable[Going]
) -> dict[int, list[Going]]:
    """The edges that start or end in each item."""
    found: dict[int, list[Going]] = {}
    for one, pair in zip(going, ends, strict=True):
        for item in dict.fromkeys(pair):
            if item is not None:
                found.setdefault(item, []).append(one)
    return found


def _outer(inner: _Inner) -> Vertex:
    half = inner.width / 2
    ins, outs = ({key: x - half for key, x in ports.items()} for ports in (inner.ins, inner.outs))
    return Vertex(inner.width, inner.height, "box", ins=ins, outs=outs)


def _move_into(made: Layout, inner: Layout, dx: float, dy: float) -> None:
    def moved(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    made.boxes.update((ident, frame.moved(dx, dy)) for ident, frame in inner.boxes.items())
    made.clusters.update((ident, frame.moved(dx, dy)) for ident, frame in inner.clusters.items())
    for path in inner.paths:
        pieces = tuple((moved(a), moved(b)) for a, b in path.pieces)
        made.paths.append(Path(path.source, pieces, path.tip, path.back, path.ends))
    for one in inner.labels:
        stub = moved(one.stub[0]), moved(one.stub[1])
        made.labels.append(Label(one.text, one.frame.moved(dx, dy), stub))


def _turned(one: Layout) -> Layout:
    """The picture with x and y exchanged: what ran down runs to the right."""

    def turn(point: Point) -> Point:
        return point[1], point[0]

    paths = [
        Path(path.source, tuple((turn(a), turn(b)) for a, b in path.pieces), path.tip, path.back, path.ends)
        for path in one.paths
    ]
    labels = [
        Label(each.text, each.frame.turned(), (turn(each.stub[0]), turn(each.stub[1]))) for each in one.labels
    ]
    boxes, clusters = (
        {ident: frame.turned() for ident, frame in found.items()} for found in (one.boxes, one.clusters)
    )
    return Layout(one.height, one.width, boxes, clusters, paths, labels, right=True)
