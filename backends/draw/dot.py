"""Picture → DOT, the language of Graphviz. Text only: Graphviz itself is never called."""

from __future__ import annotations

from collections.abc import Iterator

from .look import USUAL_LOOK, Look
from .measure import SHARED, cut, figures, label, title
from .picture import Box, Cluster, Picture

HEAD = """    graph [fontname="Helvetica", labeljust=l]
    node [shape=box, style=rounded, fontname="monospace", fontsize=11]
    edge [fontname="monospace", fontsize=9]"""
STYLES = {
    "input": "rounded,bold",
    "output": "rounded,bold",
    "state": "rounded,dashed",
    "block": "rounded,filled",
}
LONG = 240
"""Characters of a line of a label."""


def write(picture: Picture, look: Look = USUAL_LOOK) -> str:
    """The picture as a directed graph with a cluster for each block."""
    number = {one.ident: f"n{i}" for i, one in enumerate(picture.top.boxes())}
    clusters = {one.ident: f"cluster_{i}" for i, one in enumerate(picture.top.clusters())}
    lines = [f"digraph {quoted([picture.name])} {{", HEAD]
    lines += [f"    rankdir={'LR' if look.right else 'TB'}"]
    lines += [f"    label={quoted(list(picture.notes))}"] if picture.notes else []
    lines += _items(picture.top, number, clusters, "    ")
    for edge in picture.edges:
        lines.append(f"    {number[edge.source]} -> {number[edge.target]} [label={quoted([label(edge)])}]")
    return "\n".join([*lines, "}", ""])


def _items(cluster: Cluster, number: dict[str, str], clusters: dict[str, str], indent: str) -> Iterator[str]:
    for item in cluster.items:
        shared = [f"{SHARED} {text}" for text in item.shared]
        if isinstance(item, Box):
            style = f', style="{STYLES[item.kind]}"' if item.kind in STYLES else ""
            told = quoted([item.name, item.formula, *item.weights, *shared, figures(item.figures)])
            yield f"{indent}{number[item.ident]} [label={told}{style}]"
        else:
            named = title(item) + (f" {item.times}" if item.times else "")
            yield f"{indent}subgraph {clusters[item.ident]} {{"
            yield f"{indent}    label={quoted([named, *shared, figures(item.figures)])}"
            yield from _items(item, number, clusters, f"{indent}    ")
            yield f"{indent}}}"


def quoted(rows: list[str]) -> str:
    """Lines as one quoted DOT string."""
    clean = (_clean(row).replace("\\", "\\\\").replace('"', '\\"') for row in rows if row)
    return '"' + "\\n".join(clean) + '"'


def _clean(text: str) -> str:
    """On one line, at a bearable length, without characters that no reader prints; & starts no entity of Graphviz."""
    line = cut(" ".join(text[: 8 * LONG].split()), LONG).replace("&", "&amp;")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
