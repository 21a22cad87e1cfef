"""Which line of a generated module computes what: each line's node, told by the writer itself and by no match of texts.

While `traced` runs an emitter, every line that a writer writes for a node ends in a mark, which no text of a module can
hold. Marks go with their lines through templates and white space; in the end they are taken off and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeVar

from ..compiler.ir import Graph, Node, Origin

MARK = re.compile("\0(\\d+)\0")
_origins: ContextVar[list[Origin] | None] = ContextVar("origins", default=None)


@dataclass(frozen=True)
class Traced:
    """The text of a module, and for the number of each line that a formula became where it comes from."""

    text: str
    lines: Mapping[int, Origin]


class Placed(Protocol):
    """A writer, which knows the place of the node whose lines it writes."""

    graph: Graph
    source: Origin | None


W = TypeVar("W", bound=Placed)
R = TypeVar("R")


def placed(make: Callable[[W, Node], R]) -> Callable[[W, Node], R]:
    """A writer's method that writes a node: the lines meanwhile come from there (or from its reader, if unknown)."""

    @wraps(make)
    def made(writer: W, one: Node) -> R:
        outer, writer.source = writer.source, writer.graph.origins.get(one, writer.source)
        try:
            return make(writer, one)
        finally:
            writer.source = outer

    return made


def marked(line: str, source: Origin | None) -> str:
    """The line with a mark of where it comes from, while somebody traces; else the line."""
    found = _origins.get()
    if found is None or source is None or source.span is None:
        return line
    found.append(source)
    return f"{line}\0{len(found) - 1}\0"


def traced(emit: Callable[[], str]) -> Traced:
    """The text that `emit` writes, with the origin of its lines; the text is the same as without tracing."""
    origins: list[Origin] = []
    token = _origins.set(origins)
    try:
        marked = emit()
    finally:
        _origins.reset(token)
    texts, lines = [], {}
    for number, line in enumerate(marked.split("\n"), 1):
        found = MARK.findall(line)
        if found:
            lines[number] = origins[int(found[-1])]
        texts.append(MARK.sub("", line).rstrip() if found else line)
    return Traced("\n".join(texts), lines)
