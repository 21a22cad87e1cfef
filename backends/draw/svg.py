"""Picture → SVG: no scripts, no outside files, colours for light and dark, and a title on everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from ...compiler.units import flops, number, size
from .figures import Figures
from .layered import Point
from .layout import Frame, Label, Layout, Path, lay_out
from .look import USUAL_LOOK, Look
from .measure import NAME, SHARED, SMALL, lines, subtitle, title, width
from .palette import style
from .picture import Box, Cluster, Picture

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
FOOT = 18.0


def write(picture: Picture, look: Look = USUAL_LOOK) -> str:
    """The picture as one SVG document."""
    return painted(picture, lay_out(picture, look.right), look.theme)


def painted(picture: Picture, layout: Layout, theme: str = "auto") -> str:
    """The SVG of a picture that has been laid out."""
    foot = caption(picture)
    wide = max(layout.width, max(width(line, SMALL) for line in foot) + 32)
    high = layout.height + FOOT * len(foot) + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img" font-family="{FONT}">'
    )
    parts = [head, f"<title>{_text(picture.name)}</title>", f"<desc>{_text(' '.join(foot))}</desc>"]
    parts.append(f"<style>{style(theme)}</style>")
    parts.append(f'<rect class="paper" width="{wide:.0f}" height="{high:.0f}" rx="12"/>')
    parts += _clusters(picture.top, layout, 0)
    parts += [_edge(path, layout.right) for path in layout.paths]
    parts += [_box(box, layout.boxes[box.ident]) for box in picture.top.boxes()]
    parts += [_label(label) for label in layout.labels]
    for row, line in enumerate(foot):
        parts.append(_line("label", 16, layout.height + FOOT * row + 12, SMALL, _text(line), "start"))
    return "\n".join([*parts, "</svg>", ""])


def caption(picture: Picture) -> list[str]:
    """What the picture shows: the model, what it costs and for which sizes; and whether blocks had to be closed."""
    found = picture.top.figures
    told = [picture.name]
    if found is not None and picture.sizes is not None:
        told.append(f"{spelled(found)} for {picture.sizes}")
    return [": ".join(told), *picture.notes]


def spelled(found: Figures) -> str:
    """109.5 M parameters, 179.4 GFLOP, 5.9 GB moved."""
    return f"{number(found.parameters)} parameters, {flops(found.flops)}, {size(found.bytes)} moved"


def _clusters(cluster: Cluster, layout: Layout, level: int) -> Iterator[str]:
    for inner in cluster.items:
        if not isinstance(inner, Cluster):
            continue
        frame = layout.clusters[inner.ident]
        yield f"<g {_about(inner)}><title>{_text(about(inner))}</title>"
        yield _rect(frame, "odd" if level % 2 else "cluster", 12)
        yield _line("name", frame.x + 12, frame.y + 20, NAME, _text(title(inner)), "start")
        if inner.times:
            x = frame.x + 20 + width(title(inner), NAME)
            wide = width(inner.times, NAME) + 12
            yield _rect(Frame(x, frame.y + 6, wide, 20), "badge", 10)
            yield _line("count", x + wide / 2, frame.y + 20, 13, _text(inner.times))
        x = frame.x + 12
        for line in subtitle(inner):
            yield _line(line.kind, x, frame.y + 38, line.size, _text(line.text), "start")
            x += line.width + 16
        yield "</g>"
        yield from _clusters(inner, layout, level + 1)


def _box(box: Box, frame: Frame) -> str:
    told = [f"<g {_about(box)}><title>{_text(about(box))}</title>"]
    kind = "box" if box.kind == "equation" else box.kind
    pill = box.kind in ("input", "output", "state")
    told.append(_rect(frame, kind, 16 if pill else 5))
    if kind == "block":
        told += [_bar(frame.x + 5, frame), _bar(frame.x + frame.width - 5, frame)]
    written = lines(box)
    y = frame.y + (frame.height - sum(line.height for line in written)) / 2
    for line in written:
        y += line.height
        told.append(
            _line(
                line.kind, frame.x + frame.width / 2, y - line.size * 0.38, line.size, _text(line.text)
            )
        )
    return "\n".join([*told, "</g>"])


def about(one: Box | Cluster) -> str:
    """All there is to know of a box or cluster, a line each: what a hover shows."""
    if isinstance(one, Cluster):
        rows = [title(one) + (f" {one.times}" if one.times else "")]
    else:
        axes = f" : [{', '.join(one.axes)}]" if one.axes else ""
        formula = f" = {one.formula}" if one.formula and one.name else one.formula
        rows = [f"{one.name}{formula}{axes}", *([f"called {one.given}"] if one.given else []), *one.weights]
    rows += [f"{SHARED} {text}" for text in one.shared]
    rows += [spelled(one.figures)] if one.figures is not None else []
    rows += [f"{one.span.source.name}:{one.span.line}"] if one.span else []
    return "\n".join(row[:MOST] for row in rows)


MOST = 2000
"""Characters of a line of a title: a formula may be of any length."""


def _about(one: Box | Cluster) -> str:
    """Id and source place, for scripts of a page and for links."""
    place = (
        f' data-file={quoteattr(clean(one.span.source.name))} data-line="{one.span.line}"' if one.span else ""
    )
    return f"id={quoteattr(clean(one.ident))}{place}"


def _line(kind: str, x: float, y: float, size: float, markup: str, anchor: str = "middle") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{markup}</text>'


def _rect(frame: Frame, kind: str, round_: int) -> str:
    return (
        f'<rect class="{kind}" x="{frame.x:.1f}" y="{frame.y:.1f}" '
        f'width="{frame.width:.1f}" height="{frame.height:.1f}" rx="{round_}"/>'
    )


def _bar(x: float, frame: Frame) -> str:
    return f'<path class="bar" d="M{x:.1f} {frame.y:.1f}V{frame.y + frame.height:.1f}"/>'


def _label(label: Label) -> str:
    (x0, y0), (x1, y1) = label.stub
    frame = label.frame
    middle, base = frame.x + frame.width / 2, frame.y + frame.height / 2 + SMALL * 0.36
    return (
        f'<path class="edge" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/>'
        f"{_line('label', middle, base, SMALL, _text(label.text))}"
    )


def _edge(path: Path, right: bool) -> str:
    drawn = "".join(_drawn(bends(path), right))
    line = f'<path class="edge{" back" if path.back else ""}" d="{drawn}"/>'
    if not path.tip:
        return line
    (x, y) = path.pieces[0][0] if path.back else path.pieces[-1][-1]
    way = -1 if path.back else 1
    if right:
        return f'{line}<path class="tip" d="M{x:.1f} {y:.1f}l{-8 * way} -4v8z"/>'
    return f'{line}<path class="tip" d="M{x:.1f} {y:.1f}l-4 {-8 * way}h8z"/>'


Curve = tuple[Point, ...]
"""A straight line (its two ends) or a bend (its end points and, between, its two handles)."""


def bends(path: Path) -> Iterator[Curve]:
    """The lines and bends of an edge, in order."""
    last = path.pieces[0][0]
    for start, end in path.pieces:
        if start != last:
            yield (last, start)
        if end != start:
            yield (start, end)
        last = end


def _drawn(curves: Iterable[Curve], right: bool) -> Iterator[str]:
    """The commands of an SVG path; a line that is not straight ahead is a bend."""
    here: Point | None = None
    for (x0, y0), (x1, y1) in curves:
        if here is None:
            yield f"M{x0:.1f} {y0:.1f}"
        here = (x1, y1)
        (a, b), (c, d) = handles((x0, y0), (x1, y1), right)
        straight = abs(y1 - y0) < 0.5 if right else abs(x1 - x0) < 0.5
        yield f"L{x1:.1f} {y1:.1f}" if straight else f"C{a:.1f} {b:.1f} {c:.1f} {d:.1f} {x1:.1f} {y1:.1f}"


def handles(start: Point, end: Point, right: bool) -> tuple[Point, Point]:
    """The two middle points of a bend, which leaves and arrives straight ahead."""
    (x0, y0), (x1, y1) = start, end
    if right:
        bend = (x1 - x0) * 0.55
        return (x0 + bend, y0), (x1 - bend, y1)
    bend = (y1 - y0) * 0.55
    return (x0, y0 + bend), (x1, y1 - bend)


def clean(text: str) -> str:
    """Without the characters that XML forbids."""
    return "".join(c if _allowed(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _allowed(c: str) -> bool:
    return c in "\n\t" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"


def _text(text: str) -> str:
    return escape(clean(text))
