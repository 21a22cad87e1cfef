"""Picture → DOT, the language of Graphviz. Text only: Graphviz itself is never called."""

from __future__ import annotations

from collections.abc import Iterator

from .layout import title
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


def write(picture: Picture) -> str:
    """The picture as a directed graph with a cluster for each block."""
    number = {one.ident: f"n{i}" for i, one in enumerate(picture.top.boxes())}
    clusters = {one.ident: f"cluster_{i}" for i, one in enumerate(picture.top.clusters())}
    lines = [f"digraph {quoted([picture.name])} {{", HEAD, *_items(picture.top, number, clusters, "    ")]
    for edge in picture.edges:
        lines.append(
            f"    {number[edge.source]} -> {number[edge.target]} [label={quoted([', '.join(edge.axes)])}]"
        )
    return "\n".join([*lines, "}", ""])


def _items(cluster: Cluster, number: dict[str, str], clusters: dict[str, str], indent: str) -> Iterator[str]:
    for item in cluster.items:
        if isinstance(item, Box):
            style = f', style="{STYLES[item.kind]}"' if item.kind in STYLES else ""
            label = quoted([item.name, item.formula, *item.weights])
            yield f"{indent}{number[item.ident]} [label={label}{style}]"
        else:
            yield f"{indent}subgraph {clusters[item.ident]} {{"
            yield f"{indent}    label={quoted([title(item) + (f' {item.times}' if item.times else '')])}"
            yield from _items(item, number, clusters, f"{indent}    ")
            yield f"{indent}}}"


def quoted(rows: list[str]) -> str:
    """Lines as one quoted DOT string."""
    clean = (" ".join(row.split()).replace("\\", "\\\\").replace('"', '\\"') for row in rows if row)
    return '"' + "\\n".join(clean) + '"'
