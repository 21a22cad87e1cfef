"""Picture → SVG: no scripts, no outside files, colours for light and dark, and a title on everything."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from .layout import Frame, Layout, Path, lay_out, title
from .measure import NAME, PAD, lines
from .picture import Box, Cluster, Picture

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LIGHT = {
    "paper": "fill:#ffffff",
    "cluster": "fill:#f6f8fb;stroke:#cdd5e0",
    "odd": "fill:#edf1f7;stroke:#c3cddb",
    "box": "fill:#ffffff;stroke:#94a3b8",
    "block": "fill:#eef4ff;stroke:#7c9bd6",
    "input": "fill:#ecfdf3;stroke:#5fae84",
    "output": "fill:#fff7e8;stroke:#d5a24a",
    "state": "fill:#f5f0ff;stroke:#a48ad6",
    "edge": "stroke:#64748b",
    "tip": "fill:#64748b",
    "name": "fill:#0f172a",
    "formula": "fill:#1e3a8a",
    "axes": "fill:#64748b",
    "weight": "fill:#9a3412",
    "badge": "fill:#4338ca",
    "count": "fill:#ffffff",
}
DARK = {
    "paper": "fill:#0d1117",
    "cluster": "fill:#141a23;stroke:#313b4a",
    "odd": "fill:#1a212c;stroke:#3a4658",
    "box": "fill:#0f151d;stroke:#56637a",
    "block": "fill:#16233d;stroke:#4d6ba8",
    "input": "fill:#10251a;stroke:#3f8560",
    "output": "fill:#2a2110;stroke:#9a7530",
    "state": "fill:#1f1833;stroke:#7560a8",
    "edge": "stroke:#8b98ab",
    "tip": "fill:#8b98ab",
    "name": "fill:#e6edf3",
    "formula": "fill:#9ec1ff",
    "axes": "fill:#8b98ab",
    "weight": "fill:#f0a377",
    "badge": "fill:#6366f1",
    "count": "fill:#ffffff",
}


def write(picture: Picture) -> str:
    """The picture as one SVG document."""
    layout = lay_out(picture)
    wide, high = layout.width, layout.height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img" font-family="{FONT}">'
    )
    parts = [head, f"<title>{_text(picture.name)}</title>", f"<style>{_style()}</style>"]
    parts.append(f'<rect class="paper" width="{wide:.0f}" height="{high:.0f}" rx="12"/>')
    parts += _clusters(picture.top, layout, 0)
    parts += [_edge(path) for path in layout.paths]
    parts += [_box(box, layout.boxes[box.ident]) for box in picture.top.boxes()]
    return "\n".join([*parts, "</svg>", ""])


def _style() -> str:
    def rules(colours: dict[str, str]) -> str:
        return "".join(f".{name}{{{rule}}}" for name, rule in colours.items())

    shapes = ".edge{fill:none;stroke-width:1.4}.back{stroke-dasharray:4 3}"
    shapes += "text{white-space:pre}.name{font-weight:600}"
    return f"{shapes}{rules(LIGHT)}@media (prefers-color-scheme:dark){{{rules(DARK)}}}"


def _clusters(cluster: Cluster, layout: Layout, level: int) -> Iterator[str]:
    for inner in cluster.items:
        if not isinstance(inner, Cluster):
            continue
        frame = layout.clusters[inner.ident]
        named = title(inner) + (f" {inner.times}" if inner.times else "")
        yield f"<g {_about(inner)}><title>{_text(named)}</title>"
        yield _rect(frame, "odd" if level % 2 else "cluster", 12)
        yield _line("name", frame.x + 12, frame.y + 21, NAME, _text(title(inner)), "start")
        if inner.times:
            x = frame.x + 24 + len(title(inner)) * NAME * 0.61
            wide = len(inner.times) * NAME * 0.61 + 14
            yield _rect(Frame(x, frame.y + 7, wide, 20), "badge", 10)
            yield _line("count", x + wide / 2, frame.y + 21, 13, _text(inner.times))
        yield "</g>"
        yield from _clusters(inner, layout, level + 1)


def _box(box: Box, frame: Frame) -> str:
    told = [f"<g {_about(box)}><title>{_text(_told(box))}</title>"]
    kind = "box" if box.kind == "equation" else box.kind
    told.append(_rect(frame, kind, 14 if box.kind in ("input", "output", "state") else 7))
    y = frame.y + PAD / 2 + 1
    for line in lines(box):
        y += line.height
        base = y - line.size * 0.38
        after = (
            f'<tspan class="axes" font-size="11" font-weight="400" dx="8">{_text(line.after)}</tspan>'
            if line.after
            else ""
        )
        told.append(_line(line.kind, frame.x + frame.width / 2, base, line.size, _text(line.text) + after))
    return "\n".join([*told, "</g>"])


def _told(box: Box) -> str:
    axes = f" : [{', '.join(box.axes)}]" if box.axes else ""
    formula = f" = {box.formula}" if box.formula and box.name else box.formula
    place = f"\n{box.span.source.name}:{box.span.line}" if box.span else ""
    return "\n".join([f"{box.name}{formula}{axes}", *box.weights]) + place


def _about(one: Box | Cluster) -> str:
    """Id and source place, for scripts of a page and for links."""
    place = (
        f' data-file={quoteattr(_clean(one.span.source.name))} data-line="{one.span.line}"'
        if one.span
        else ""
    )
    return f"id={quoteattr(_clean(one.ident))}{place}"


def _line(kind: str, x: float, y: float, size: float, markup: str, anchor: str = "middle") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{markup}</text>'


def _rect(frame: Frame, kind: str, round_: int) -> str:
    return (
        f'<rect class="{kind}" x="{frame.x:.1f}" y="{frame.y:.1f}" '
        f'width="{frame.width:.1f}" height="{frame.height:.1f}" rx="{round_}"/>'
    )


def _edge(path: Path) -> str:
    (x, y), (_, low) = path.pieces[0]
    drawn = [f"M{x:.1f} {y:.1f}"]
    if low > y:
        drawn.append(f"V{low:.1f}")
    y = low
    for (to, top), (_, bottom) in path.pieces[1:]:
        last = path.tip and (to, top) == path.pieces[-1][0]
        end = top - 6 if last else top
        if abs(to - x) < 0.5:
            drawn.append(f"L{to:.1f} {end:.1f}")
        else:
            bend = (end - y) * 0.55
            drawn.append(f"C{x:.1f} {y + bend:.1f} {to:.1f} {end - bend:.1f} {to:.1f} {end:.1f}")
        if bottom > top:
            drawn.append(f"V{bottom:.1f}")
        x, y = to, bottom
    line = f'<path class="edge{" back" if path.back else ""}" d="{"".join(drawn)}"/>'
    tip = f'<path class="tip" d="M{x:.1f} {y:.1f}l-4 -8h8z"/>' if path.tip else ""
    return line + tip


def _clean(text: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(c if c >= " " or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _text(text: str) -> str:
    return escape(_clean(text))
