"""Graph → picture: Mermaid, DOT, SVG or one HTML page.

graph     of any stage, with the origin of its nodes        compiler/ir.py
folded    the nodes worth drawing, each in its block        folding.py
picture   boxes in nested clusters, edges, a depth          picture.py
layout    places and routes, one cluster at a time          layout.py, layered.py
text      mermaid.py, dot.py, svg.py, html.py
"""

from __future__ import annotations

from importlib import import_module

from ...compiler.driver import Compiled
from ...compiler.ir import Graph
from ...grammar.diagnostics import did_you_mean, error
from .folding import fold
from .picture import Picture, make

FORMATS = ("mermaid", "dot", "svg", "html")


def draw(
    compiled: Compiled, form: str, stage: str = "formula", depth: int | None = None, full: bool = False
) -> str:
    """The picture of a compiled model as text in one of `FORMATS`.

    `stage` is `formula` (as the spec says it), `final`, or the name of a pass that ran; `depth` is how many
    levels of blocks are opened (None: all). Blocks of a single equation stay closed, unless `full`.
    """
    if form not in FORMATS:
        raise error("C622", f"there is no picture `{form}`", help=f"There are {', '.join(FORMATS)}.")
    writer = import_module(f".{form}", __package__)
    if form == "html":  # it has all stages
        stage_graph(compiled, stage)
        return str(writer.write(compiled, stage, depth, full))
    return str(writer.write(picture(compiled, stage, depth, full)))


def picture(
    compiled: Compiled, stage: str = "formula", depth: int | None = None, full: bool = False
) -> Picture:
    """The picture of a compiled model, to be written or measured."""
    return make(fold(stage_graph(compiled, stage), compiled.module), depth, full)


def stage_graph(compiled: Compiled, name: str) -> Graph:
    """The graph of a stage by its name. Raises `TransformulaError` for a name that is none, with those that are."""
    known = [stage.name for stage in compiled.stages]
    if name == "final":
        return compiled.graph
    if name not in known:
        advice = did_you_mean(name, known) or f"There are {', '.join(known)}, and final for the last."
        raise error("C623", f"no stage `{name}` in this compilation", help=advice)
    return compiled.stages[known.index(name)].graph
