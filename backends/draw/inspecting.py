"""All that the inspector knows of a model, as plain values for one JSON text: each thing once, the rest are numbers.

Boxes that two stages have in common are one entry of `boxes`, so a stage is a list of numbers. Keys (stops.py) tell
which box of a stage is which of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...compiler import pipeline
from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Node, Origin
from ...compiler.ledger import Line
from ...compiler.objectives import weight_rows
from ...compiler.sizes import USUAL, Sizes
from ...grammar.diagnostics import Source, Span, TransformulaError
from .figures import Figures
from .folding import Folded
from .generated import Finder, Generated, found_lines, modules
from .maths import Maths
from .picture import Box, Cluster, Picture, make
from .stops import Stop, stops

MOST = 6000
"""Boxes of a stage that a page holds; blocks deeper inside stay closed."""


def inspected(
    compiled: Compiled,
    stage: str = "formula",
    depth: int | None = None,
    full: bool = False,
    sizes: Sizes | None = USUAL,
) -> dict[str, Any]:
    """The values for the page; it opens at a stage, with blocks opened to a depth (None: as many as are readable).

    Figures are for `sizes`; None: there are none.
    """
    return _Book(compiled, sizes).written(stage, depth, full)


class _Book:
    """Tables of what the page mentions, and numbers for each entry."""

    def __init__(self, compiled: Compiled, sizes: Sizes | None) -> None:
        self.compiled, self.sizes = compiled, sizes
        self.keys, self.files, self.clusters, self.axes = _Table(), _Table(), _Table(), _Table()
        self.weights, self.boxes = _Table(), _Table()
        self.cluster_rows: dict[str, dict[str, Any]] = {}
        self.origins: dict[str, Origin] = {}
        self.reads: dict[str, dict[str, None]] = {}
        self.hidden = False
        self.stored = _stored(compiled)

    def written(self, stage: str, depth: int | None, full: bool) -> dict[str, Any]:
        """Everything, once all stages have been seen."""
        made = modules(self.compiled)
        ledger = made[0].ledger or self.compiled.ledger
        all_stops = stops(self.compiled)
        self.maths = Maths(self.compiled, (origin.span for stop in all_stops for origin in stop.graph.origins.values()))
        rows: list[dict[str, Any]] = []
        for stop in all_stops:
            rows.append(self._stop(stop, rows[-1] if rows and stop.stands else None))
        names = [stop.name for stop in all_stops]
        told = [self._line(line, names) for line in ledger.lines]
        return {
            "name": self.compiled.entry,
            "spec": self.compiled.module.name,
            "sizes": str(self.sizes or ""),
            "start": len(names) - 1 if stage == "final" else names.index(stage),
            "depth": depth,
            "full": full,
            "most": MOST if self.hidden else 0,
            "stops": rows,
            "ledger": told,
            "modules": [_module(one) for one in made],
            "lines": self._lines(made),
            "boxes": [json.loads(text) for text in self.boxes.entries],
            "clusters": [self.cluster_rows[key] for key in self.clusters.entries],
            "weights": [self._weight(name) for name in self.weights.entries],
            "axes": [list(axis) for axis in self.axes.entries],
            "keys": self.keys.entries,
            "files": [[source.name, source.text.rstrip("\n")] for source in self.files.entries],
        }

    # ------------------------------------------------------------------------------------------------------ stages

    def _stop(self, stop: Stop, same: Mapping[str, Any] | None) -> dict[str, Any]:
        row = next((row for row in pipeline.table() if row.name == stop.name), None)
        told = {"name": stop.name, "does": row.does if row else "the graph as the spec says it"}
        if same is not None:
            return {**told, **{key: same[key] for key in ("nodes", "p", "f", "b")}}
        drawn = make(stop.folded, None, full=True, sizes=self.sizes, most=MOST)
        self.hidden |= bool(drawn.notes)
        return {
            **told,
            "nodes": len(stop.graph.nodes()),
            **_numbers(drawn.top.figures or Figures()),
            "boxes": self._picture(stop, drawn),
            "new": [self.keys(key) for key in stop.new],
            "gone": [self.keys(key) for key in stop.gone],
            "changed": [self.keys(key) for key in stop.changed],
        }

    def _picture(self, stop: Stop, drawn: Picture) -> list[int]:
        nodes = {f"n{number}": one for number, one in enumerate(drawn.folded.places)}
        homes = self._clusters(drawn)
        key_of = {box.ident: self._key(box, nodes, stop, homes) for box in drawn.top.boxes()}
        sources: dict[str, list[int]] = {}
        for edge in drawn.edges:
            sources.setdefault(edge.target, []).append(self.keys(key_of[edge.source]))
            self.reads.setdefault(key_of[edge.target], {})[key_of[edge.source]] = None
        found = []
        for box in drawn.top.boxes():
            node = nodes.get(box.ident)
            if node is not None:
                self.origins[key_of[box.ident]] = stop.folded.origin(node)
            row = self._box(box, node, stop.folded)
            row |= {"k": self.keys(key_of[box.ident]), "c": homes[box.ident], "u": sources.get(box.ident, [])}
            found.append(self.boxes(json.dumps(_filled(row))))
        return found

    def _key(self, box: Box, nodes: Mapping[str, Node], stop: Stop, homes: Mapping[str, int]) -> str:
        if box.ident in nodes:
            return stop.keys[nodes[box.ident]]
        if box.kind == "output":
            return f"output {box.name}"
        return f"{self.clusters.entries[homes[box.ident]]}/{box.name}"

    def _clusters(self, drawn: Picture) -> dict[str, int]:
        """The number of the cluster around each box; clusters are known by the titles on the way to them."""
        simple = {one.ident for one in drawn.top.clusters()} if not drawn.notes else set()
        simple -= {one.ident for one in make(drawn.folded, drawn.depth, most=MOST).top.clusters()} if simple else set()
        homes: dict[str, int] = {}
        formulas = {block.span: block.outputs[0].value.span for block in drawn.folded.blocks.values()}
        queue: list[tuple[Cluster, str, int]] = [(drawn.top, drawn.top.name, -1)]
        for cluster, key, parent in queue:
            number = self.clusters(key)
            if key not in self.cluster_rows:
                row = {"k": key, "t": cluster.name, "b": cluster.block, "x": cluster.times, **self._place(cluster.span)}
                row |= {"p": parent, "simple": cluster.ident in simple}
                value = formulas.get(cluster.span) if cluster.span else None
                row |= {"f": _line(value.text) if value else "", "m": self.maths(value)}
                self.cluster_rows[key] = _filled(row)
            seen: dict[str, int] = {}
            for item in cluster.items:
                if isinstance(item, Box):
                    homes[item.ident] = number
                    continue
                inner = f"{key}/{item.name.replace('/', '∕')}"
                seen[inner] = seen.get(inner, 0) + 1
                queue.append((item, inner if seen[inner] == 1 else f"{inner}~{seen[inner] - 1}", number))
        return homes

    # ------------------------------------------------------------------------------------------------------- boxes

    def _box(self, box: Box, node: Node | None, folded: Folded) -> dict[str, Any]:
        axes: Iterable[Axis] = node.axes if node is not None else ()
        sizes = {axis.name: axis for axis in axes}
        row: dict[str, Any] = {
            "t": box.kind,
            "n": box.name,
            "e": box.formula,
            "m": self.maths(box.span),
            "a": [self.axes((name, str(sizes[name].size) if name in sizes else "")) for name in box.axes],
            **self._place(box.span),
            **(_numbers(box.figures) if box.figures is not None else {}),
            "g": box.given,
            "r": list(box.shared),
        }
        if node is not None:
            row["o"] = str(node["name"]) if node.op == "kernel" else _operation(node)
            row["w"] = [self.weights(str(one["name"])) for one in folded.weights[node]]
        row["l"] = list(box.weights)
        return row

    def _place(self, span: Span | None) -> dict[str, int]:
        """File, first and last line."""
        if span is None:
            return {}
        last = span.line + span.source.text.count("\n", span.start, max(span.start, span.end - 1))
        return {"s": self.files(span.source), "i": span.line, **({"j": last} if last > span.line else {})}

    def _weight(self, name: str) -> list[Any]:
        """Path, its axes with sizes, initial value, stored names, how many numbers."""
        known = next((one for one in self.compiled.formula.weights if one.name == name), None)
        if known is None:
            return [name, [], "", [], 0]
        count = 1
        for size in known.shape:
            count *= size if isinstance(size, int) else 1
        axes = [self.axes((axis.name, str(axis.size))) for axis in known.axes]
        return [name, axes, known.init, list(self.stored.get(name, ())), count]

    def _line(self, line: Line, names: list[str]) -> list[Any]:
        """A line of the ledger: stage (-1: beside them), whether it fired, rule, what, reason, count, file, line."""
        place = [self.files(line.span.source), line.span.line] if line.span else [-1, 0]
        stop = names.index(line.pass_name) if line.pass_name in names else -1
        return [stop, int(line.fired), line.rule, line.what, line.reason, line.count, *place, line.pass_name]

    def _lines(self, made: list[Generated]) -> list[dict[int, list[Any]]]:
        tables = [found_lines(Finder(one), self.origins, self.reads) for one in made]
        return [
            {self.keys(key): [near, lines, self.keys(via) if via else -1] for key, (near, lines, via) in table.items()}
            for table in tables
        ]


class _Table:
    """Entries in the order in which they come; called with one it gives its number."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}

    def __call__(self, entry: Any) -> int:
        return self.number.setdefault(entry, len(self.number))

    @property
    def entries(self) -> list[Any]:
        """All, by number."""
        return list(self.number)


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    """The entries that say something; a number always does."""
    return {name: value for name, value in row.items() if value or (value == 0 and value is not False)}


def _line(text: str) -> str:
    return " ".join(text.split())


def _operation(one: Node) -> str:
    """What a node is, in a word or two."""
    more = {"map": "fn", "reduce": "reduction", "random": "draw"}.get(one.op)
    return f"{one.op} {one.get(more, '')}".strip() if more else one.op


def _numbers(cost: Figures) -> dict[str, int]:
    return {"p": cost.parameters, "f": cost.flops, "b": cost.bytes}


def _module(made: Generated) -> dict[str, Any]:
    from .generated import NAMES

    return {"name": NAMES.get(made.backend, made.backend), "why": made.refused, "lines": made.shown()}


def _stored(compiled: Compiled) -> dict[str, tuple[str, ...]]:
    """The names under which files hold each weight; none if the map has mistakes."""
    try:
        return weight_rows(compiled.module, compiled.config, compiled.entry, compiled.formula).names()
    except TransformulaError:
        return {}


def sources(data: Mapping[str, Any]) -> list[Source]:
    """The files that the page shows."""
    return [Source(name, text) for name, text in data["files"]]
