"""The stages of a compilation one after the other: what each pass added to the picture, took away, and changed.

Graphs of two stages share the nodes that are equal, but a node is equal only if all below it is: a pass that touches
the first layer makes all others anew. So shown nodes are known by where they come from (instance, name or line), and
each has a *recipe*: what it computes from the shown nodes that it reads, which stand in it by their keys. A node has
changed where its recipe has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Graph, Node, ordered
from .folding import Folded, fold, made_of

UNSAID = ("body", "loop", "site", "steps")
"""Attributes of nodes that are numbers without a meaning, or nodes."""


@dataclass(frozen=True)
class Stop:
    """A stage: its shown nodes by key, and the keys that came, went and changed since the stop before.

    `stands` tells that nothing in the picture differs from the stop before.
    """

    name: str
    graph: Graph
    folded: Folded
    keys: Mapping[Node, str]
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    first: bool = False

    @property
    def stands(self) -> bool:
        """Whether the picture is that of the stop before."""
        return not (self.first or self.new or self.gone or self.changed)


def stops(compiled: Compiled) -> tuple[Stop, ...]:
    """Each stage with what it changed; a stage whose graph is the same shares the work of the one before."""
    made: list[Stop] = []
    for stage in compiled.stages:
        before = made[-1] if made else None
        if before is not None and before.graph.roots == stage.graph.roots:
            made.append(Stop(stage.name, stage.graph, before.folded, before.keys))
            continue
        folded = fold(stage.graph, compiled.module)
        keys = keyed(folded, before.keys if before else {})
        if before is None:
            made.append(Stop(stage.name, stage.graph, folded, keys, first=True))
        else:
            new, gone, changed = _changes(before, folded, keys)
            made.append(Stop(stage.name, stage.graph, folded, keys, new, gone, changed))
    return tuple(made)


Keys: TypeAlias = tuple[str, ...]


def _changes(before: Stop, folded: Folded, keys: Mapping[Node, str]) -> tuple[Keys, Keys, Keys]:
    """The keys that are new, gone, and changed. An equal node is the same whatever is shown of what it reads."""
    old, now = ({key: one for one, key in found.items()} for found in (before.keys, keys))
    old_loops, loops = (_loops(one.graph) for one in (before.folded, folded))
    new = tuple(key for key in now if key not in old)
    gone = tuple(key for key in old if key not in now)
    differ = [key for key in now if key in old and old[key] is not now[key]]
    changed = tuple(
        key for key in differ if recipe(old[key], before.keys, old_loops) != recipe(now[key], keys, loops)
    )
    return new, gone, changed


def keyed(folded: Folded, before: Mapping[Node, str]) -> dict[Node, str]:
    """A key for each shown node: where it comes from; of several from one place, equal nodes keep the key they had."""
    groups: dict[str, list[Node]] = {}
    for one in folded.places:
        groups.setdefault(_place(folded, one), []).append(one)
    found: dict[Node, str] = {}
    for place, members in groups.items():
        kept = {one: before[one] for one in members if one in before and _place_of(before[one]) == place}
        free = iter([f"{place}~{number}" if number else place for number in range(len(members) + len(kept))])
        taken = set(kept.values())
        for one in members:
            found[one] = kept.get(one) or next(key for key in free if key not in taken)
    return {one: found[one] for one in folded.places}


def _place_of(key: str) -> str:
    return key.rpartition("~")[0] if "~" in key else key


def _place(folded: Folded, one: Node) -> str:
    """`layer[layers].attn.Q`, `layer[layers].attn:46` without a name, an input's name in the spec."""
    if one.op == "input":
        return "input " + str(one["name"])
    origin = folded.origin(one)
    path = origin.path or folded.graph.name
    if one.op == "carry":
        return f"{path}:{origin.span.text if origin.span else one['slot']} before"
    if origin.name:
        return f"{path}.{origin.name}"
    return f"{path}:{origin.block}:{origin.span.line}" if origin.span else f"{path}:{one.op}"


# --------------------------------------------------------------------------------------------------------- recipes


def _loops(graph: Graph) -> dict[int, Node]:
    return {one["loop"]: one for one in graph.nodes() if one.op == "loop"}


def recipe(one: Node, keys: Mapping[Node, str], loops: Mapping[int, Node]) -> tuple[Any, ...]:
    """What a shown node computes from other shown ones: its operations, arguments first; equal where it is the same."""

    def inside(part: Node) -> Sequence[Node]:
        return () if part is not one and part in keys else made_of(part, loops)

    number: dict[Node, int] = {}
    rows: list[Any] = []
    for part in ordered([one], inside):
        number[part] = len(rows)
        if part is not one and part in keys:
            rows.append(keys[part])
        else:
            args = tuple(number[arg] for arg in inside(part))
            rows.append((part.op, frozenset(map(plain, part.axes)), tuple(_said(part)), args))
    return tuple(rows)


def _said(one: Node) -> Iterable[tuple[str, Any]]:
    return sorted((name, plain(value)) for name, value in one.attrs.items() if name not in UNSAID)


def plain(value: Any) -> Any:
    """An attribute as texts, in which an axis is its name and size."""
    if isinstance(value, Axis):
        return f"{value.name}:{value.size}"
    if isinstance(value, tuple | list | frozenset):
        return tuple(plain(part) for part in value)
    return str(value) if not isinstance(value, Node) else value.op
