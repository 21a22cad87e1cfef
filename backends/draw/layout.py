"""Places and routes of a whole picture, cluster by cluster, inner ones first: each is a box of its parent.

An edge that enters or leaves a cluster goes through a port on its border, where its pieces join.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .layered import SLOT, Level, Link, Point, Vertex
from .measure import ADVANCE, NAME, columns, size
from .picture import Box, Cluster, Edge, Picture

MARGIN, HEAD = 16.0, 30.0


@dataclass(frozen=True)
class Frame:
    """Where a box or cluster is."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Path:
    """A piece of an edge: its upright parts, between which it bends, and whether it ends in a tip."""

    source: str
    pieces: tuple[tuple[Point, Point], ...]
    tip: bool
    back: bool = False


@dataclass
class Layout:
    """All of a picture's places, from its top left corner."""

    width: float
    height: float
    boxes: dict[str, Frame] = field(default_factory=dict)
    clusters: dict[str, Frame] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)


@dataclass
class _Inner:
    """A cluster that has been laid out: its size, its ports (from the left) and what it holds."""

    width: float
    height: float
    ins: dict[str, float]
    outs: dict[str, float]
    layout: Layout


def lay_out(picture: Picture) -> Layout:
    """The places and routes of a picture."""
    inner = _cluster(picture.top, picture.edges, top=True)
    inner.layout.width, inner.layout.height = inner.width, inner.height
    return inner.layout


def title(cluster: Cluster) -> str:
    """What stands in a cluster's head."""
    return cluster.name + (f" : {cluster.block}" if cluster.block else "")


def _title_width(cluster: Cluster) -> float:
    badge = columns(cluster.times) * NAME * ADVANCE + 24 if cluster.times else 0.0
    return columns(title(cluster)) * NAME * ADVANCE + 12 + badge


def _holders(cluster: Cluster) -> dict[str, int]:
    """For each box inside, the number of the item that holds it."""
    found: dict[str, int] = {}
    for number, item in enumerate(cluster.items):
        for box in [item] if isinstance(item, Box) else item.boxes():
            found[box.ident] = number
    return found


def _cluster(cluster: Cluster, edges: Iterable[Edge], top: bool = False) -> _Inner:
    edges = tuple(edges)
    holder = _holders(cluster)
    inner = {n: _cluster(item, edges) for n, item in enumerate(cluster.items) if isinstance(item, Cluster)}
    vertices = [_vertex(item, inner.get(n)) for n, item in enumerate(cluster.items)]
    ports: dict[tuple[str, str], int] = {}

    def port(kind: str, key: str) -> int:
        if (kind, key) not in ports:
            ports[kind, key] = len(vertices)
            vertices.append(Vertex(SLOT, 0.0, kind))
        return ports[kind, key]

    links: dict[tuple[int, int, str], None] = {}
    for edge in edges:
        source, target = holder.get(edge.source), holder.get(edge.target)
        if source == target:  # both outside, or both in one item
            continue
        tail = port("in", edge.source) if source is None else source
        head = port("out", edge.source) if target is None else target
        links[tail, head, edge.source] = None
    level = Level(vertices, [Link(*one) for one in links])
    level.arrange()
    return _collect(cluster, level, inner, ports, top)


def _vertex(item: Box | Cluster, inner: _Inner | None) -> Vertex:
    if inner is None:
        assert isinstance(item, Box)
        return Vertex(*size(item))
    half = inner.width / 2
    ins, outs = ({key: x - half for key, x in ports.items()} for ports in (inner.ins, inner.outs))
    return Vertex(inner.width, inner.height, "box", ins=ins, outs=outs)


def _collect(
    cluster: Cluster, level: Level, inner: dict[int, _Inner], ports: dict[tuple[str, str], int], top: bool
) -> _Inner:
    """The cluster's frame around its level, with everything inside moved to its place."""
    head = 0.0 if top else HEAD
    wide = 0.0 if top else _title_width(cluster)
    first = min(
        (level.vertices[n].x for (kind, _), n in ports.items() if kind == "in"), default=wide + MARGIN
    )
    left = MARGIN + max(0.0, wide + 8 - (first + MARGIN))  # no edge runs through the title
    width = max(left + level.width + MARGIN, wide + 2 * MARGIN)
    left += (width - left - level.width - MARGIN) / 2
    made = Layout(width, 0.0)
    entered = any(kind == "in" for kind, _ in ports)
    above = head + (0.0 if entered else MARGIN if top else 6.0)
    left_ports = any(kind == "out" for kind, _ in ports)
    height = above + level.height + (0.0 if left_ports else MARGIN)
    for number, item in enumerate(cluster.items):
        vertex = level.vertices[number]
        frame = Frame(left + vertex.x - vertex.width / 2, above + vertex.y, vertex.width, vertex.height)
        if isinstance(item, Box):
            made.boxes[item.ident] = frame
        else:
            made.clusters[item.ident] = frame
            _move_into(made, inner[number].layout, frame.x, frame.y)
    for link in level.links:
        pieces = [tuple((left + x, above + y) for x, y in piece) for piece in level.route(link)]
        if level.vertices[link.tail].kind == "in":
            pieces[0] = ((pieces[0][0][0], 0.0), pieces[0][1])
        ends = isinstance(cluster.items[link.head], Box) if link.head < len(cluster.items) else False
        made.paths.append(Path(link.key, tuple(pieces), ends or link.back, link.back))  # type: ignore[arg-type]
    places = {spot: left + level.vertices[n].x for spot, n in ports.items()}
    ins = {key: x for (kind, key), x in places.items() if kind == "in"}
    outs = {key: x for (kind, key), x in places.items() if kind == "out"}
    return _Inner(width, height, ins, outs, made)


def _move_into(made: Layout, inner: Layout, dx: float, dy: float) -> None:
    def moved(frame: Frame) -> Frame:
        return Frame(frame.x + dx, frame.y + dy, frame.width, frame.height)

    made.boxes.update((ident, moved(frame)) for ident, frame in inner.boxes.items())
    made.clusters.update((ident, moved(frame)) for ident, frame in inner.clusters.items())
    for path in inner.paths:
        pieces = tuple(((a[0] + dx, a[1] + dy), (b[0] + dx, b[1] + dy)) for a, b in path.pieces)
        made.paths.append(Path(path.source, pieces, path.tip, path.back))
