"""One level of a picture in layers: ranks, an order with few crossings, places without overlaps, and routes.

Every long edge gets a slot of its own in each layer that it passes, so no route ever runs through a box. All
choices are deterministic: the same picture gives the same coordinates.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .ordering import Segment, untangle

GAP_X, GAP_Y = 22.0, 30.0
SLOT = 10.0
LARGE = 5000  # pieces of edges from which on fewer rounds must do


@dataclass
class Vertex:
    """A box, a port on the border, or the slot (`lane`) of an edge that passes by."""

    width: float
    height: float
    kind: str = "box"
    rank: int = 0
    x: float = 0.0
    y: float = 0.0
    ins: Mapping[str, float] = field(default_factory=dict)  # where an edge arrives, from the middle
    outs: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Link:
    """An edge of one level: from vertex to vertex, by number; `key` names what is carried.

    One that goes `back` leads from its reader to its source: links never go round in a circle (see `turning`).
    """

    tail: int
    head: int
    key: str
    back: bool = False
    chain: list[int] = field(default_factory=list)


Point = tuple[float, float]


@dataclass
class Level:
    """Vertices and links of one level; `arrange` gives them places, `route` the points of a link."""

    vertices: list[Vertex]
    links: list[Link]
    width: float = 0.0
    height: float = 0.0
    order: list[list[int]] = field(default_factory=list)
    tops: list[float] = field(default_factory=list)
    sweeps: int = 12
    arrivals: dict[tuple[int, str], float] = field(default_factory=dict)
    gaps: list[list[Segment]] = field(default_factory=list)  # what runs from each layer to the next

    def arrange(self) -> None:
        """Ranks, lanes, order, places."""
        self._rank()
        self._lanes()
        self._sort()
        self._place_x()
        self._arrive()
        self._place_y()

    # ------------------------------------------------------------------------------------------------- ranks

    def _rank(self) -> None:
        waiting = [0] * len(self.vertices)
        for link in self.links:
            waiting[link.head] += 1
        for vertex in self.vertices:
            vertex.rank = 0 if vertex.kind == "in" else 1
        queue = [i for i, count in enumerate(waiting) if not count]
        fed = set(range(len(self.vertices))) - set(queue)
        after: dict[int, list[int]] = {}
        for link in self.links:
            after.setdefault(link.tail, []).append(link.head)
        for here in queue:
            for head in after.get(here, ()):
                self.vertices[head].rank = max(self.vertices[head].rank, self.vertices[here].rank + 1)
                waiting[head] -= 1
                if not waiting[head]:
                    queue.append(head)
        for here in reversed(queue):  # what nothing feeds stands just above its first reader
            readers = [self.vertices[head].rank for head in after.get(here, ())]
            if here not in fed and readers and self.vertices[here].kind == "box":
                self.vertices[here].rank = max(1, min(readers) - 1)
        last = max((v.rank for v in self.vertices if v.kind != "out"), default=0) + 1
        for vertex in self.vertices:
            if vertex.kind == "out":
                vertex.rank = last

    def _lanes(self) -> None:
        shared: dict[tuple[int, str, int], int] = {}
        for link in self.links:
            link.chain = [link.tail]
            for rank in range(self.vertices[link.tail].rank + 1, self.vertices[link.head].rank):
                spot = (link.tail, link.key, rank)  # one value that goes to several places runs in one lane
                if spot not in shared:
                    shared[spot] = len(self.vertices)
                    self.vertices.append(Vertex(SLOT, 0.0, "lane", rank))
                link.chain.append(shared[spot])
            link.chain.append(link.head)

    # ------------------------------------------------------------------------------------------------- order

    def _sort(self) -> None:
        ranks = max((v.rank for v in self.vertices), default=-1) + 1
        self.order = [[] for _ in range(ranks)]
        for number, vertex in enumerate(self.vertices):
            self.order[vertex.rank].append(number)
        found = dict.fromkeys((a, b, link.key) for link in self.links for a, b in pairwise(link.chain))
        self.gaps = [[] for _ in range(ranks)]
        for segment in found:
            self.gaps[self.vertices[segment[0]].rank].append(segment)
        self.sweeps = 12 if len(found) < LARGE else 4
        best, fewest = self.order, math.inf
        for start in (self.order, [row[::-1] for row in self.order]):
            self.order = [list(row) for row in start]
            for sweep in range(self.sweeps if fewest else 0):
                down = sweep % 2 == 0
                for rank in range(1, ranks) if down else range(ranks - 2, -1, -1):
                    self._sort_rank(rank, rank - 1 if down else rank + 1)
                tried = self.order
                if sweep >= self.sweeps - 3 and len(found) < LARGE:
                    self.order = [list(row) for row in tried]
                    untangle(self.order, self.gaps, self._ends)
                count = self._crossings()
                if count < fewest:
                    best, fewest = [list(row) for row in self.order], count
                self.order = tried
        self.order = best

    def _sort_rank(self, rank: int, other: int) -> None:
        place = {one: i for i, one in enumerate(self.order[other])}
        total: dict[int, list[float]] = {}
        for a, b, key in self.gaps[min(rank, other)]:
            here, there = (b, a) if other < rank else (a, b)
            end = self.vertices[there].outs if there == a else self.vertices[there].ins
            shift = end.get(key, 0.0) / max(self.vertices[there].width, 1.0)
            total.setdefault(here, []).append(place[there] + shift)
        means = {one: sum(found) / len(found) for one, found in total.items()}
        own = {one: float(i) for i, one in enumerate(self.order[rank])}
        self.order[rank].sort(key=lambda one: (means.get(one, own[one]), own[one]))

    def _crossings(self) -> int:
        place = {one: i for row in self.order for i, one in enumerate(row)}
        count = 0
        for gap in self.gaps:
            ends: list[float] = []
            for _, end in sorted(self._ends(segment, place) for segment in gap):
                at = bisect_right(ends, end)
                count += len(ends) - at
                ends.insert(at, end)
        return count

    def _ends(self, segment: Segment, place: Mapping[int, int]) -> Point:
        """Where a segment starts and ends in the orders of its layers, ports of one box told apart."""
        a, b, key = segment
        above, below = self.vertices[a], self.vertices[b]
        start = place[a] + above.outs.get(key, 0.0) / max(above.width, 1.0) * 0.9
        return start, place[b] + below.ins.get(key, 0.0) / max(below.width, 1.0) * 0.9

    # ------------------------------------------------------------------------------------------------ places

    def _place_x(self) -> None:
        for row in self.order:
            spread(self.vertices, row, [0.0] * len(row), [1.0] * len(row))
        for sweep in range(2 * self.sweeps):
            down = sweep % 2 == 0
            both = sweep >= self.sweeps * 4 // 3
            for rank in range(len(self.order)) if down else range(len(self.order) - 1, -1, -1):
                self._pull(rank, up=down or both, below=not down or both)
        self._straighten()
        left = min((v.x - v.width / 2 for v in self.vertices), default=0.0)
        for vertex in self.vertices:
            vertex.x -= left
        self.width = max((v.x + v.width / 2 for v in self.vertices), default=0.0)

    def _pull(self, rank: int, up: bool, below: bool) -> None:
        """Moves a layer towards its neighbours above and below, in order and without overlap."""
        row = self.order[rank]
        wish: dict[int, list[tuple[float, float]]] = {one: [] for one in row}
        near = [*(self.gaps[rank - 1] if up and rank else ()), *(self.gaps[rank] if below else ())]
        for a, b, key in near:
            one, other = self.vertices[a], self.vertices[b]
            start, end = one.outs.get(key, 0.0), other.ins.get(key, 0.0)
            weight = {0: 1.0, 1: 2.0, 2: 8.0}[(one.kind == "lane") + (other.kind == "lane")]
            if other.rank == rank:
                wish[b].append((one.x + start - end, weight))
            else:
                wish[a].append((other.x + end - start, weight))
        wanted = [
            sum(x * w for x, w in wish[i]) / sum(w for _, w in wish[i]) if wish[i] else self.vertices[i].x
            for i in row
        ]
        spread(self.vertices, row, wanted, [sum(w for _, w in wish[i]) or 0.1 for i in row])

    def _straighten(self) -> None:
        """Lanes of one edge stand in line as far as their neighbours leave room."""
        for link in self.links:
            lanes = link.chain[1:-1]
            while lanes:
                low, high, count = -math.inf, math.inf, 0
                for number in lanes:
                    start, end = self._room(number)
                    if max(low, start) > min(high, end):
                        break
                    low, high, count = max(low, start), min(high, end), count + 1
                line, lanes = lanes[: max(count, 1)], lanes[max(count, 1) :]
                middle = sum(self.vertices[number].x for number in line) / len(line)
                for number in line:
                    self.vertices[number].x = min(max(middle, low), high)

    def _room(self, number: int) -> tuple[float, float]:
        """From where to where a lane may stand between its neighbours."""
        row = self.order[self.vertices[number].rank]
        place = row.index(number)
        half = self.vertices[number].width / 2 + GAP_X / 2
        before = self.vertices[row[place - 1]] if place else None
        after = self.vertices[row[place + 1]] if place + 1 < len(row) else None
        low = before.x + before.width / 2 + half if before else -math.inf
        return low, max(low, after.x - after.width / 2 - half) if after else math.inf

    def _arrive(self) -> None:
        """Several edges into one box arrive side by side, in the order in which they come."""
        into: dict[int, dict[str, float]] = {}
        for link in self.links:
            head = self.vertices[link.head]
            if head.kind == "box" and link.key not in head.ins:
                before = self.vertices[link.chain[-2]]
                into.setdefault(link.head, {})[link.key] = before.x + before.outs.get(link.key, 0.0)
        for number, found in into.items():
            step = min(26.0, (self.vertices[number].width - 24) / len(found))
            for i, key in enumerate(sorted(found, key=lambda k: (found[k], k))):
                self.arrivals[number, key] = (i - (len(found) - 1) / 2) * step

    def _place_y(self) -> None:
        y = 0.0
        for rank, row in enumerate(self.order):
            self.tops.append(y)
            tall = max((self.vertices[one].height for one in row), default=0.0)
            for one in row:
                self.vertices[one].y = y
            y += tall + (self._gap(rank) if rank + 1 < len(self.order) and row else 0.0)
        self.height = y
        self.tops.append(y)

    def _gap(self, rank: int) -> float:
        reach = [abs(self.vertices[a].x - self.vertices[b].x) for a, b, _ in self.gaps[rank]]
        ports = self.order[rank] and all(
            self.vertices[one].kind in ("in", "lane") for one in self.order[rank]
        )
        return min(64.0, (16.0 if ports else GAP_Y) + 0.05 * max(reach, default=0.0))

    def bottom(self, rank: int) -> float:
        """Where a layer ends: the gap below it is free for curves."""
        return self.tops[rank] + max((self.vertices[one].height for one in self.order[rank]), default=0.0)

    def route(self, link: Link) -> list[tuple[Point, Point]]:
        """The upright pieces of a link, layer by layer; between them it may bend, as the gaps are free."""
        found: list[tuple[Point, Point]] = []
        for number in link.chain:
            vertex = self.vertices[number]
            low = self.bottom(vertex.rank)
            if number == link.tail:
                beside = link.back and vertex.kind == "box"  # the labels of what leaves the box
                corner = 3.0 - vertex.width / 2 if beside else 0.0
                x = vertex.x + vertex.outs.get(link.key, corner)
                found.append(((x, vertex.y + vertex.height), (x, low)))
            elif number == link.head:
                x = vertex.x + vertex.ins.get(link.key, self.arrivals.get((number, link.key), 0.0))
                found.append(((x, vertex.y), (x, vertex.y)))
            else:
                found.append(((vertex.x, vertex.y), (vertex.x, low)))
        return found


def spread(
    vertices: Sequence[Vertex], row: Sequence[int], wanted: Sequence[float], weights: Sequence[float]
) -> None:
    """Places as near as possible to the wanted ones (least squares), in order, with room between."""
    shift = [0.0]
    for a, b in pairwise(row):
        gap = GAP_X if "lane" not in (vertices[a].kind, vertices[b].kind) else GAP_X / 2
        shift.append(shift[-1] + (vertices[a].width + vertices[b].width) / 2 + gap)
    pools: list[list[float]] = []  # weighted sum, weight, count
    for want, weight, moved in zip(wanted, weights, shift, strict=False):
        pools.append([(want - moved) * weight, weight, 1.0])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last, strict=True)]
    flat = [pool[0] / pool[1] for pool in pools for _ in range(int(pool[2]))]
    for number, x, moved in zip(row, flat, shift, strict=False):
        vertices[number].x = x + moved


def turning(count: int, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Which of the pairs of vertices have to be turned round, so that no circle is left."""
    after: dict[int, list[int]] = {}
    for tail, head in dict.fromkeys(pairs):
        after.setdefault(tail, []).append(head)
    state = [0] * count
    found: set[tuple[int, int]] = set()
    for root in range(count):
        stack = [(root, iter(after.get(root, ())))] if not state[root] else []
        state[root] = state[root] or 1
        while stack:
            here, rest = stack[-1]
            head = next(rest, -1)
            if head < 0:
                state[here] = 2
                stack.pop()
            elif state[head] == 1:
                found.add((here, head))
            elif state[head] == 0:
                state[head] = 1
                stack.append((head, iter(after.get(head, ()))))
    return found
