"""Scratch memory: which value lies in which buffer of its thread, and when a buffer is free again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ...compiler.ir import Node, walk


@dataclass
class Buffers:
    """Buffers by name; a buffer is free when the last reader of everything in it has been written."""

    free: list[str] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)  # buffer -> place of the last reader of what it holds
    known: list[str] = field(default_factory=list)

    def take(self, until: int, preferred: str | None = None, avoid: Collection[str] = ()) -> str:
        """A buffer for a value that is read until a place: the preferred one if free, the last freed one, or a new one.

        Buffers to `avoid` are wanted by a later value.
        """
        others = [name for name in self.free if name not in avoid]
        if preferred is not None and preferred in self.free:
            self.free.remove(preferred)
            name = preferred
        elif others:
            name = others[-1]
            self.free.remove(name)
        else:
            name = f"{chr(ord('A') + len(self.known) % 26)}{len(self.known) // 26 or ''}"
            self.known.append(name)
        self.held[name] = until
        return name

    def hold(self, name: str, until: int) -> None:
        """What lies in the buffer is read until a place."""
        self.held[name] = max(self.held.get(name, -1), until)

    def pass_on(self, name: str, until: int) -> None:
        """The buffer's value has been overwritten by one that is read until a place."""
        self.held[name] = until

    def release(self, place: int) -> None:
        """Frees every buffer whose last reader stands at or before the place."""
        for name in [name for name, until in self.held.items() if until <= place]:
            del self.held[name]
            self.free.append(name)


def last_reads(order: list[Node], roots: Iterable[Node], flows: set[Node]) -> dict[Node, int]:
    """For each node the place of its last reader; through `flows` (text and views) a value is read further on."""
    end = len(order)
    last: dict[Node, int] = dict.fromkeys(roots, end)
    place = {one: number for number, one in enumerate(order)}
    for one in reversed(order):
        at = last.get(one, place[one]) if one in flows else place[one]
        for arg in reads(one):
            last[arg] = max(last.get(arg, -1), at)
    return last


def reads(one: Node) -> list[Node]:
    """What a node reads: its arguments, and for a loop all that its body takes from outside."""
    if one.op != "loop":
        return list(one.args)
    inside = [part for part in walk(one["body"]) if one["loop"] not in part.free]
    return [*one.args, *inside]
