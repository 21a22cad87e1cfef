"""Picture → Mermaid flowchart, within the limits of its renderers: deep blocks are closed until it fits."""

from __future__ import annotations

from collections.abc import Iterator

from .look import USUAL_LOOK, Look
from .measure import SHARED, cut, figures, label, title
from .picture import Box, Cluster, Picture

MAX_EDGES, MAX_CHARACTERS = 500, 50_000
SHAPES = {"input": ("([", "])"), "output": ("([", "])"), "state": ("([", "])"), "block": ("[[", "]]")}
SAFE = frozenset(" .,:;=+-_/()[]{}'~!?")
LONG = 120
"""Characters of a line of a label."""


def write(picture: Picture, look: Look = USUAL_LOOK) -> str:
    """The picture as a flowchart; a picture that is too large is drawn less deep, and without formulas if it must."""
    text = _flowchart(picture, look)
    depth = max(cluster.ident.count("/") for cluster in picture.top.clusters()) + 1
    while depth > 0 and not _fits(picture, text):
        depth -= 1
        picture = picture.to_depth(depth)
        text = _flowchart(picture, look, f"drawn {depth} levels deep to stay within Mermaid's limits")
    if not _fits(picture, text):
        text = _names(picture, look)
    return text


def _fits(picture: Picture, text: str) -> bool:
    return len(picture.edges) < MAX_EDGES and len(text) < MAX_CHARACTERS


def _flowchart(picture: Picture, look: Look, note: str = "") -> str:
    number = {one.ident: f"n{i}" for i, one in enumerate(picture.top.boxes())}
    notes = [f"    %% {_comment(text)}" for text in (*picture.notes, note) if text]
    lines = [f"flowchart {'LR' if look.right else 'TB'}", *notes, *_items(picture.top, number, "    ")]
    for edge in picture.edges:
        told = f'|"{quoted(label(edge))}"|' if label(edge) else ""
        lines.append(f"    {number[edge.source]} -->{told} {number[edge.target]}")
    return "\n".join([*lines, ""])


def _names(picture: Picture, look: Look) -> str:
    """As many boxes as fit, in the order of the picture, each by its name alone."""
    boxes = list(picture.top.boxes())
    most, kept = min(len(boxes), 400), set[str]()
    lines = [f"flowchart {'LR' if look.right else 'TB'}", ""]
    for number, box in enumerate(boxes[:most]):
        kept.add(box.ident)
        lines.append(f'    n{number}["{quoted(cut(box.name or box.formula, 20))}"]')
    number_of = {box.ident: f"n{i}" for i, box in enumerate(boxes[:most])}
    edges = [edge for edge in picture.edges if edge.source in kept and edge.target in kept][: MAX_EDGES - 1]
    lines += [f"    {number_of[edge.source]} --> {number_of[edge.target]}" for edge in edges]
    lines[1] = f"    %% the first {most} of {len(boxes)} boxes, to stay within Mermaid's limits"
    while len("\n".join(lines)) >= MAX_CHARACTERS - 1:
        lines.pop()
    return "\n".join([*lines, ""])


def _items(cluster: Cluster, number: dict[str, str], indent: str) -> Iterator[str]:
    for place, item in enumerate(cluster.items):
        if isinstance(item, Box):
            left, right = SHAPES.get(item.kind, ("[", "]"))
            yield f'{indent}{number[item.ident]}{left}"{_label(item)}"{right}'
        else:
            ident = (
                f"{indent.count('    ')}_{place}_{next((number[box.ident] for box in item.boxes()), 'empty')}"
            )
            yield f'{indent}subgraph g{ident}["{_head(item)}"]'
            yield from _items(item, number, f"{indent}    ")
            yield f"{indent}end"


def _head(cluster: Cluster) -> str:
    """A cluster's title, how often it runs, what it costs, what it shares."""
    told = [title(cluster) + (f" {cluster.times}" if cluster.times else ""), figures(cluster.figures)]
    told += [f"{SHARED} {text}" for text in cluster.shared]
    return " · ".join(quoted(part) for part in told if part)


def _label(box: Box) -> str:
    name = f"<b>{quoted(box.name)}</b>" if box.name else ""
    shared = (quoted(f"{SHARED} {one}") for one in box.shared)
    rows = [
        name, quoted(box.formula), *(quoted(one) for one in box.weights), *shared, quoted(figures(box.figures))
    ]  # fmt: skip
    return "<br/>".join(row for row in rows if row)


def _comment(text: str) -> str:
    return "".join(c if c.isalnum() or c in " .,:'" else " " for c in text)


def quoted(text: str) -> str:
    """The text for a label in quotes: whatever could be markup, or end the quotes, as a character code."""
    shown = cut(" ".join(text[: 8 * LONG].split()), LONG)
    return "".join(_safe(c) for c in shown)


def _safe(c: str) -> str:
    if c.isalnum() or c in SAFE:
        return c
    return f"#{ord(c)};" if c.isprintable() else "#65533;"
