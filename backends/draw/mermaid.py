"""Picture → Mermaid flowchart, within the limits of its renderers: deep blocks are closed until it fits."""

from __future__ import annotations

from collections.abc import Iterator

from .layout import title
from .picture import Box, Cluster, Picture

MAX_EDGES, MAX_CHARACTERS = 500, 50_000
SHAPES = {"input": ("([", "])"), "output": ("([", "])"), "state": ("([", "])"), "block": ("[[", "]]")}
SAFE = frozenset(" .,:;=+-_/()[]{}'~!?")


def write(picture: Picture) -> str:
    """The picture as a flowchart; a picture that is too large is drawn less deep."""
    text = _flowchart(picture)
    depth = max(cluster.ident.count("/") for cluster in picture.top.clusters()) + 1
    while depth > 0 and not _fits(picture, text):
        depth -= 1
        picture = picture.to_depth(depth)
        text = _flowchart(picture)
    return text


def _fits(picture: Picture, text: str) -> bool:
    return len(picture.edges) < MAX_EDGES and len(text) < MAX_CHARACTERS


def _flowchart(picture: Picture) -> str:
    number = {one.ident: f"n{i}" for i, one in enumerate(picture.top.boxes())}
    lines = ["flowchart TB", *_items(picture.top, number, "    ")]
    for edge in picture.edges:
        label = f'|"{quoted(", ".join(edge.axes))}"|' if edge.axes else ""
        lines.append(f"    {number[edge.source]} -->{label} {number[edge.target]}")
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
            named = title(item) + (f" {item.times}" if item.times else "")
            yield f'{indent}subgraph g{ident}["{quoted(named)}"]'
            yield from _items(item, number, f"{indent}    ")
            yield f"{indent}end"


def _label(box: Box) -> str:
    name = f"<b>{quoted(box.name)}</b>" if box.name else ""
    rows = [name, quoted(box.formula), *(quoted(one) for one in box.weights)]
    return "<br/>".join(row for row in rows if row)


def quoted(text: str) -> str:
    """The text for a label in quotes: whatever could be markup, or end the quotes, as a character code."""
    return "".join(c if c.isalnum() or c in SAFE else f"#{ord(c)};" for c in " ".join(text.split()))
