"""What a notebook shows of programs, graphs, pictures and specs: small HTML that needs nothing from outside.

Every text is escaped; a picture is an image of its own, in which no script runs and whose colours and names touch
nothing around it. It has its own paper, light or dark, and so reads in dark notebooks, too.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from math import prod
from typing import TYPE_CHECKING

from ..compiler.config import Config
from ..compiler.driver import Compiled
from ..compiler.graphs import Graph, Input, Output
from ..compiler.ledger import Ledger
from ..compiler.modules import Module
from ..compiler.pipeline import Stage
from ..grammar.parser import parse
from .draw import picture, svg
from .draw.picture import Picture

if TYPE_CHECKING:
    from .program import Program

MOST_BOXES = 24
"""A picture in a notebook opens its blocks as far as it stays below so many boxes."""
DEEPEST = 6


def small_picture(compiled: Compiled, stage: str = "formula", depth: int | None = None) -> Picture:
    """The picture of a compiled model to a depth; without one, to the last that has few boxes."""
    if depth is not None:
        return picture(compiled, stage, depth)
    whole = picture(compiled, stage)
    for level in (None, *range(DEEPEST, 0, -1)):
        made = whole if level is None else picture(compiled, stage, level)
        if sum(1 for _ in made.top.boxes()) <= MOST_BOXES:
            return made
    return picture(compiled, stage, 0)


def picture_html(made: Picture) -> str:
    """A picture as an image that is no wider than its cell; one that is high is scrolled."""
    data = b64encode(svg.write(made).encode("utf-8")).decode("ascii")
    image = f'<img alt="{escape(made.name)} as a picture" src="data:image/svg+xml;base64,{data}"'
    return f'<div style="max-height:36em;overflow:auto">{image} style="max-width:100%;height:auto"></div>'


def program_html(program: Program) -> str:
    """A program: what goes in and comes out, its weights, its picture."""
    layout = f", {program.layout}" if program.layout else ""
    return compiled_html(program.compiled, f", for {program.backend}{layout}")


def compiled_html(compiled: Compiled, more: str = "") -> str:
    """A model in all its stages, as the spec says it."""
    head = f"{compiled.kind} of {compiled.module.name}{more}"
    return _card(compiled.entry, head, _facts(compiled.formula), picture_html(small_picture(compiled)))


def graph_html(graph: Graph) -> str:
    """A graph: how large it is, what goes in and comes out, its picture."""
    module = Module(graph.name, parse("same(x) = x\n", graph.name))  # a picture asks for a spec, which a graph has not
    alone = Compiled(module, Config(module), graph.name, (Stage("formula", graph),), Ledger())
    head = f"{len(graph.nodes())} nodes"
    return _card(graph.name, head, _facts(graph), picture_html(small_picture(alone)))


def module_html(module: Module) -> str:
    """A spec: its own definitions, and its text to unfold."""
    kinds: dict[str, list[str]] = {}
    for name in module.own:
        if name in module.entries:
            kinds.setdefault(module.entries[name].definition.kind, []).append(name)
    facts = [(f"{kind}s", ", ".join(names)) for kind, names in kinds.items()]
    config = ", ".join(module.options)
    text = escape(module.file.span.source.text)
    source = f"<details><summary>the spec</summary><pre>{text}</pre></details>"
    return _card(module.name, "a spec", [*facts, *([("config", config)] if config else [])], source)


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table of texts; the columns of `right` hold numbers. Spaces that a text begins with stay."""

    def cell(tag: str, place: int, text: str) -> str:
        align = "right" if place in right else "left"
        return f'<{tag} style="text-align:{align};white-space:pre-wrap">{escape(text)}</{tag}>'

    def line(tag: str, row: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, place, text) for place, text in enumerate(row))}</tr>"

    return f"<table>{line('th', heads)}{''.join(line('td', row) for row in rows)}</table>"


def _card(title: str, head: str, facts: Sequence[tuple[str, str]], below: str) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in facts
    )
    return f"<div><b>{escape(title)}</b> — {escape(head)}<table>{rows}</table>{below}</div>"


def _facts(graph: Graph) -> list[tuple[str, str]]:
    """What a graph reads, gives and holds."""
    inputs = [f"{_told(one)}{'' if one.required else ' (optional)'}" for one in graph.inputs]
    outputs = [_told(one) for one in graph.outputs]
    count = sum(prod(size for size in one.shape if isinstance(size, int)) for one in graph.weights)
    held = [("weights", f"{len(graph.weights)} with {count:,} numbers")] if graph.weights else []
    return [("in", ", ".join(inputs)), ("out", ", ".join(outputs)), *held]


def _told(one: Input | Output) -> str:
    return f"{one.name}[{', '.join(map(str, one.axes))}]"
