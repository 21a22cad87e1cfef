"""Graph → picture: Mermaid, DOT, SVG, PNG or one HTML page.

graph     of any stage, with the origin of its nodes        compiler/ir.py
folded    the nodes worth drawing, each in its block        folding.py
figures   what each of them costs; which weights are shared figures.py, sharing.py
picture   boxes in nested clusters, edges, a depth          picture.py; of large graphs large.py
layout    places and routes, one cluster at a time          layout.py, layered.py, measure.py
text      mermaid.py, dot.py, svg.py, html.py; png.py       colours and shapes in palette.py
"""

from __future__ import annotations

from importlib import import_module

from ...compiler.driver import Compiled
from ...compiler.ir import Graph
from ...compiler.sizes import USUAL, Sizes
from ...grammar.diagnostics import did_you_mean, error
from .folding import fold
from .look import USUAL_LOOK, Look
from .picture import Picture, make

FORMATS = ("mermaid", "dot", "svg", "html")
ENDINGS = {
    ".svg": "svg", ".html": "html", ".htm": "html", ".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid",
}  # fmt: skip


def draw(
    compiled: Compiled,
    form: str,
    stage: str = "formula",
    depth: int | None = None,
    full: bool = False,
    sizes: Sizes | None = USUAL,
    look: Look = USUAL_LOOK,
) -> str:
    """The picture of a compiled model as text in one of `FORMATS`.

    `stage` is `formula` (as the spec says it), `final`, or the name of a pass that ran; `depth` is how many
    levels of blocks are opened (None: all). Blocks of a single equation stay closed, unless `full`. Figures are for
    `sizes` (None: no figures).
    """
    if form not in FORMATS:
        known = (*FORMATS, "png")
        advice = did_you_mean(form, known) or f"There are {', '.join(known)}."
        raise error("C622", f"there is no picture `{form}`" + " as text" * (form == "png"), help=advice)
    writer = import_module(f".{form}", __package__)
    if form == "html":  # it has all stages
        stage_graph(compiled, stage)
        return str(writer.write(compiled, stage, depth, full, sizes, look))
    return str(writer.write(picture(compiled, stage, depth, full, sizes), look))


def draw_bytes(
    compiled: Compiled,
    form: str,
    stage: str = "formula",
    depth: int | None = None,
    full: bool = False,
    sizes: Sizes | None = USUAL,
    look: Look = USUAL_LOOK,
) -> bytes:
    """The same as the bytes of a file, which may be a PNG, too."""
    if form != "png":
        return draw(compiled, form, stage, depth, full, sizes, look).encode("utf-8")
    from . import png

    return png.write(picture(compiled, stage, depth, full, sizes), look)


def form_of(ending: str) -> str:
    """The kind of picture that a file's ending stands for: .svg, .png …; mermaid for others."""
    return ENDINGS.get(ending.lower(), "mermaid")


def picture(
    compiled: Compiled,
    stage: str = "formula",
    depth: int | None = None,
    full: bool = False,
    sizes: Sizes | None = USUAL,
) -> Picture:
    """The picture of a compiled model, to be written or measured; figures are for `sizes` (None: no figures)."""
    return make(fold(stage_graph(compiled, stage), compiled.module), depth, full, sizes)


def stage_graph(compiled: Compiled, name: str) -> Graph:
    """The graph of a stage by its name. Raises `TransformulaError` for a name that is none, with those that are."""
    known = [stage.name for stage in compiled.stages]
    if name == "final":
        return compiled.graph
    if name not in known:
        advice = did_you_mean(name, known) or f"There are {', '.join(known)}, and final for the last."
        raise error("C623", f"no stage `{name}` in this compilation", help=advice)
    return compiled.stages[known.index(name)].graph
