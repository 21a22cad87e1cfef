"""Whom a token sees: read off the condition of an attention by trying it at places, step by step of its loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .. import ops
from ..ir import Axis, Node, ordered

FAR = 1 << 20
"""A distance that no text has."""


@dataclass(frozen=True)
class Reach:
    """How far back and ahead a token sees (None: without end), in how many layers; `other`: another text."""

    back: int | None
    ahead: int | None
    layers: int = 0
    of: int = 0
    other: bool = False
    known: bool = True

    def __str__(self) -> str:
        if self.other:
            return "the tokens of another text"
        if not self.known:
            return "tokens that the formulas choose"
        some = f", in {self.layers} of {self.of} layers" if self.layers != self.of else ""
        if self.back is None and self.ahead is None:
            return f"every token sees all{some}"
        if self.ahead == 0:
            told = "itself and those before it" if self.back is None else f"itself and {self.back} before it"
            return f"a token sees {told}{some}"
        ends = [f"{self.back} before it"] if self.back is not None else ["all before it"]
        ends += [f"{self.ahead} behind it"] if self.ahead is not None else ["all behind it"]
        same = f"{self.back} tokens on either side" if self.back == self.ahead else " and ".join(ends)
        return f"a token sees {same}{some}"


def reach(one: Node, loops: Sequence[Node]) -> Iterator[Reach]:
    """The reach of an attention in the layers that it stands in: one for each that is different."""
    parts = dict(zip(one["roles"], one.args, strict=True))
    rows = _rows(parts, one["axis"])
    if rows is None or rows.size != one["axis"].size:
        yield Reach(None, None, other=True)
        return
    see, steps = parts.get("see"), _steps(one, loops)
    found: dict[tuple[int | None, int | None] | None, int] = {}
    for step in range(max(1, steps)):
        ends = (None, None) if see is None else _ends(see, rows, one["axis"], step)
        found[ends] = found.get(ends, 0) + 1
    for ends, count in found.items():
        yield Reach(None, None, known=False) if ends is None else Reach(*ends, count, max(1, steps))


def _rows(parts: Mapping[str, Node], keys: Axis) -> Axis | None:
    """The axis of the tokens that look."""
    for name in ("query", "scores"):
        if name in parts:
            return next((axis for axis in parts[name].axes if axis.counted and axis != keys), None)
    return None


def _steps(one: Node, loops: Sequence[Node]) -> int:
    """How many layers it stands in."""
    mine = [loop for loop in loops if loop["loop"] in one.free]
    numbers = [loop.args[loop["slots"]] for loop in mine]
    return max((int(number["value"]) for number in numbers if number.op == "const"), default=0)


def _ends(see: Node, rows: Axis, keys: Axis, step: int) -> tuple[int | None, int | None] | None:
    """How far it sees back and ahead; None if the condition asks for more than places."""
    order = list(ordered([see], lambda here: here.args))
    known = {"index", "position", "const", "map", "rename", "widen", "pick", "table", "counter", "size"}
    if any(here.op not in known for here in order):
        return None

    def seen(distance: int) -> bool | None:
        return _truth(order, {rows: FAR, keys: FAR + distance}, step)

    if seen(0) is None:
        return None
    return _end(seen, -1), _end(seen, 1)


def _end(seen: Callable[[int], bool | None], way: int) -> int | None:
    """The largest distance that is seen, by halving; None where there is no end."""
    if seen(way * (FAR - 1)):
        return None
    low, high = 0, FAR - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seen(way * middle) else (low, middle)
    return low


def _truth(order: Sequence[Node], at: Mapping[Axis, int], step: int) -> bool | None:
    """The condition at a row and a key; None where it is made of more than that."""
    values: dict[Node, object] = {}
    for one in order:
        made: object = None
        args = [values[arg] for arg in one.args]
        if one.op in ("index", "position"):
            made = at.get(one["axis"])
        elif one.op == "const":
            made = one["value"] if isinstance(one["value"], bool) else float(one["value"])
        elif one.op == "counter":
            made = step
        elif one.op == "table":
            made = one["values"]
        elif one.op in ("rename", "widen"):
            made = args[0]
        elif one.op == "pick" and one.args[0].op == "table" and len(args) == 2:
            entries, number = args
            made = entries[int(number)] if isinstance(entries, tuple) and isinstance(number, int | float) else None
        elif one.op == "map" and None not in args:
            made = ops.FUNCTIONS[one["fn"]].meaning(*args)
        values[one] = made
    found = values[order[-1]]
    return None if found is None else bool(found)
