"""Layouts by measure: nothing overlaps, no edge runs through a box, a label or a title, and texts fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File

import graphlay
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler import zoo
from transformula.backends.draw import picture
from transformula.backends.draw.layout import Frame, Layout, Path, head, lay_out
from transformula.backends.draw.measure import cut, lines, width, wrap
from transformula.backends.draw.picture import Box, Cluster, Picture
from transformula.backends.draw.svg import bends, handles

SPECS = sorted(path.stem for path in (File(__file__).resolve().parents[3] / "specs").glob("*.formula"))
MORE = [
    ("bert", "BertForMaskedLM"),
    ("bert", "pretraining"),
    ("electra", "joint"),
    ("gpt2", "GPT2LMHeadModel"),
    ("llama", "LlamaForCausalLM"),
    ("sbert", "AttentionPooledBert"),
    ("sbert", "Similarities"),
    ("sbert", "classification"),
    ("t5", "T5ForConditionalGeneration"),
]
ALL: list[tuple[str, str | None]] = [*((spec, None) for spec in SPECS), *MORE]
QUICK = [("albert", None), ("bert", None), ("electra", "joint"), ("modernbert", None), ("sbert", None), *MORE[-1:]]
DEPTHS = (0, 1, 2, None)

Floats = NDArray[np.float64]
Point = tuple[float, float]
T = np.arange(1, 17)[:, None] / 16
SHARES = np.hstack([(1 - T) ** 3, 3 * T * (1 - T) ** 2, 3 * T * T * (1 - T), T**3])
"""How much each of the four points of a bend counts, at 16 places along it."""


def pictures(spec: str, entry: str | None) -> Iterator[tuple[Picture, Layout]]:
    """A model at several depths and stages, in both directions."""
    for stage in ("formula", "final"):
        for depth in DEPTHS:
            made = picture(zoo.shipped(spec, entry), stage, depth)
            for right in (False, True):
                yield made, lay_out(made, right)
    made = picture(zoo.shipped(spec, entry), full=True)
    yield made, lay_out(made)


def table(frames: list[Frame]) -> Floats:
    """Frames as rows of left, top, right, bottom."""
    return np.array([(f.x, f.y, f.x + f.width, f.y + f.height) for f in frames]).reshape(-1, 4)


def touching(frames: Floats, others: Floats, room: float) -> list[tuple[int, int]]:
    """Pairs of a frame and another one with less room between them."""
    a, b = frames[:, None, :], others[None, :, :]
    apart = (a[..., 2] + room <= b[..., 0]) | (b[..., 2] + room <= a[..., 0])
    apart |= (a[..., 3] + room <= b[..., 1]) | (b[..., 3] + room <= a[..., 1])
    return [(int(i), int(j)) for i, j in np.argwhere(~apart)]


def points(path: Path, right: bool) -> Floats:
    """An edge as many points, its bends sampled as the SVG draws them."""
    found = [np.array([path.pieces[0][0]])]
    for start, end in bends(path):
        one, other = handles(start, end, right)
        found.append(SHARES @ np.array([start, one, other, end]))
    return np.concatenate(found)


def hits(frames: Floats, layout: Layout) -> list[int]:
    """The frames that an edge runs through (more than on their border)."""
    at = np.concatenate([np.zeros((0, 2)), *(points(path, layout.right) for path in layout.paths)])
    x, y = at[:, 0][:, None], at[:, 1][:, None]
    inside = (x > frames[:, 0] + 1) & (x < frames[:, 2] - 1) & (y > frames[:, 1] + 1) & (y < frames[:, 3] - 1)
    return sorted({int(i) for i in np.argwhere(inside)[:, 1]})


def siblings(cluster: Cluster, layout: Layout) -> Iterator[tuple[Frame | None, list[Frame]]]:
    frames = [
        layout.boxes[one.ident] if isinstance(one, Box) else layout.clusters[one.ident] for one in cluster.items
    ]
    yield layout.clusters.get(cluster.ident), frames
    for item in cluster.items:
        if isinstance(item, Cluster):
            yield from siblings(item, layout)


def titles(made: Picture, layout: Layout) -> list[Frame]:
    """Where the texts in the heads of clusters stand."""
    found = []
    for cluster in made.top.clusters():
        if cluster.ident in layout.clusters:
            frame, (wide, high) = layout.clusters[cluster.ident], head(cluster)
            found.append(Frame(frame.x + 10, frame.y + 4, wide - 10, high - 8))
    return found


@pytest.mark.parametrize(("spec", "entry"), ALL)
def test_boxes_labels_and_edges_keep_apart(spec: str, entry: str | None) -> None:
    for made, layout in pictures(spec, entry):
        nothing_overlaps(made, layout)
        no_edge_runs_through_a_box_a_label_or_a_title(made, layout)
        texts_fit_their_boxes_and_labels(made, layout)
        every_edge_arrives(made, layout)


def nothing_overlaps(made: Picture, layout: Layout) -> None:
    whole = Frame(0, 0, layout.width, layout.height)
    for outer, frames in siblings(made.top, layout):
        rows, around = table(frames), table([outer or whole])[0]
        assert [(i, j) for i, j in touching(rows, rows, 8) if i != j] == []
        assert (rows[:, :2] >= around[:2] - 0.01).all()
        assert (rows[:, 2:] <= around[2:] + 0.01).all()
    boxes, labels = table(list(layout.boxes.values())), table([one.frame for one in layout.labels])
    heads = table(titles(made, layout))
    assert touching(boxes, labels, 2) == touching(boxes, heads, 0) == touching(labels, heads, 0) == []
    assert [(i, j) for i, j in touching(labels, labels, 1) if i != j] == []


def no_edge_runs_through_a_box_a_label_or_a_title(made: Picture, layout: Layout) -> None:
    frames = [*layout.boxes.values(), *(one.frame for one in layout.labels), *titles(made, layout)]
    if layout.paths:
        assert hits(table(frames), layout) == []


def texts_fit_their_boxes_and_labels(made: Picture, layout: Layout) -> None:
    for box in made.top.boxes():
        frame = layout.boxes[box.ident]
        assert all(line.width + 12 <= frame.width for line in lines(box))
        assert sum(line.height for line in lines(box)) + 8 <= frame.height
    assert all(width(one.text, 11) <= one.frame.width for one in layout.labels)


def every_edge_arrives(made: Picture, layout: Layout) -> None:
    for edge, row in zip(made.edges, whole_edges(made, layout), strict=True):
        assert row, edge


# --- another program's measure --------------------------------------------------------------------


def whole_edges(made: Picture, layout: Layout) -> list[list[Point]]:
    """Each edge of a picture from its box to the reader, through the borders of clusters."""
    by_start: dict[tuple[str, int, int], list[Path]] = {}
    for path in layout.paths:
        x, y = path.pieces[-1][-1] if path.back else path.pieces[0][0]
        by_start.setdefault((path.source, round(x), round(y)), []).append(path)
    return [
        _follow(edge.target, f"{edge.source} {edge.value}", edge.source, layout, by_start) for edge in made.edges
    ]


def _follow(
    target: str, key: str, source: str, layout: Layout, by_start: dict[tuple[str, int, int], list[Path]]
) -> list[Point]:
    aim = layout.boxes[target]
    starts = [spot for spot in by_start if spot[0] == key]
    box = layout.boxes[source]
    beside = [one.frame for one in layout.labels if touches(one.stub[0], box)]
    begun = [spot for spot in starts if any(touches((spot[1], spot[2]), one, 5) for one in (box, *beside))]
    stack = [(spot, [(float(spot[1]), float(spot[2]))]) for spot in begun]
    while stack:
        spot, row = stack.pop()
        for path in by_start.get(spot, ()):
            drawn: list[Point] = [(x, y) for x, y in points(path, layout.right).tolist()]
            drawn = drawn[::-1] if path.back else drawn
            x, y = drawn[-1]
            more = [*row, *drawn]
            if touches((x, y), aim):
                return more
            if len(more) < 3000:
                stack.append(((key, round(x), round(y)), more))
    return []


def touches(point: Point, frame: Frame, room: float = 1) -> bool:
    """Whether a point is in a frame or on its border."""
    x, y = point
    return (
        frame.x - room <= x <= frame.x + frame.width + room and frame.y - room <= y <= frame.y + frame.height + room
    )


def judged(made: Picture, layout: Layout) -> dict[str, float]:
    """What graphlay measures of our layout."""
    graph, raw = asked(made, layout)
    return dict(graphlay.Layout(raw, _request(graph), graph.ids).metrics())


def asked(made: Picture, layout: Layout) -> tuple[graphlay.Graph, dict[str, object]]:
    graph = graphlay.Graph()
    nodes, edges = [], []
    for ident, frame in layout.boxes.items():
        graph.node(ident, width=frame.width, height=frame.height)
        nodes.append(_node(frame))
    for edge, row in zip(made.edges, whole_edges(made, layout), strict=True):
        graph.edge(edge.source, edge.target)
        edges.append({"points": [{"x": x, "y": y} for x, y in row], "kind": "direct", "label_anchor": None})
    bounds = {"min": {"x": 0.0, "y": 0.0}, "max": {"x": layout.width, "y": layout.height}}
    rest = {"bounds": bounds, "layer_count": 1, "reversed": [], "stats": {"dummy_count": 0}}
    return graph, {"nodes": nodes, "edges": edges, **rest}


def _node(frame: Frame) -> dict[str, object]:
    centre = {"x": frame.x + frame.width / 2, "y": frame.y + frame.height / 2}
    return {"center": centre, "size": {"width": frame.width, "height": frame.height}, "rank": 0, "order": 0}


def _request(graph: graphlay.Graph) -> str:
    return str(graphlay.layout(graph)._request)


@pytest.mark.parametrize(
    ("spec", "entry"), [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in ALL]
)
def test_another_program_finds_no_fault(spec: str, entry: str | None) -> None:
    for depth in DEPTHS:
        made = picture(zoo.shipped(spec, entry), depth=depth)
        for right in (False, True):
            found = judged(made, lay_out(made, right))
            assert (found["node_overlaps"], found["node_edge_hits"]) == (0, 0)


@pytest.mark.slow
def test_edges_cross_about_as_rarely_as_another_program_draws_them() -> None:
    """Graphlay lays out the same boxes without clusters; edges of one value are counted each, though drawn as one."""
    ours = theirs = 0.0
    for spec, entry in ALL:
        for depth in (1, None):
            made = picture(zoo.shipped(spec, entry), depth=depth)
            layout = lay_out(made)
            ours += judged(made, layout)["crossings"]
            theirs += graphlay.layout(asked(made, layout)[0], options={"direction": "topbottom"}).metrics()["crossings"]
    assert ours <= 3.5 * theirs


def test_long_formulas_are_broken_and_cut() -> None:
    assert wrap("a + b") == ["a + b"]
    assert wrap(" + ".join(["term"] * 60))[-1].endswith("…")
    assert max(map(len, wrap("f(" * 60))) <= 46
    assert cut("y\N{COMBINING CIRCUMFLEX ACCENT}" * 10, 5) == "y\N{COMBINING CIRCUMFLEX ACCENT}" * 4 + "…"
