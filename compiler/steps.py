"""What the number of a step decides: conditions like local[l] or l == 0, and what one decision alone needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from . import ir
from .ir import Node, walk
from .ops import FUNCTIONS

Path: TypeAlias = tuple[tuple[Node, int], ...]
"""The selections around a node, each with the argument below which it stands: 1 if the condition holds, 2 if not."""

LEAVES = ("counter", "const", "table")


def decided(one: Node) -> bool:
    """Whether a truth value depends on the number of one loop's step alone."""
    if one.kind != "bool" or one.axes or len(one.free) != 1:
        return False
    return all(leaf.op in LEAVES for leaf in walk([one]) if not leaf.args)


def conditions(one: Node) -> Iterator[Node]:
    """Those that a value is made of, the largest of each; what `not` says of one is the other decision."""
    stack = [one]
    while stack:
        part = stack.pop()
        if decided(part) and not (part.op == "map" and part["fn"] == "not"):
            yield part
        else:
            stack.extend(part.args)


def selects(one: Node) -> bool:
    """Whether the number of a step chooses one of two values."""
    return one.op == "map" and one["fn"] == "where" and decided(one.args[0])


def truths(one: Node, loop: Node) -> tuple[bool, ...] | None:
    """What a condition is at each step of its loop, from 0; None where that is not known, or there is no value."""
    import numpy as np

    from .evaluate import Evaluator  # it computes with arrays, and most models ask for none

    stop = loop.args[loop["slots"]]
    if stop.op != "const":
        return None
    found = []
    for step in range(int(stop["value"])):
        number = ir.const(step)
        (settled,) = ir.transform([one], lambda n, at=number: at if n.op == "counter" else n)  # type: ignore[misc]
        value = Evaluator({}, lambda name, axes: np.zeros(0))(settled)
        if step >= loop["start"] and not np.isfinite(value):
            return None
        found.append(bool(value) and step >= loop["start"])
    return tuple(found)


def selections(nodes: Iterable[Node]) -> dict[Node, tuple[Node, tuple[bool, ...]]]:
    """The selections of a graph by the step of a loop: the loop, and what the condition is at each of its steps."""
    nodes = list(nodes)
    loops = {one["loop"]: one for one in nodes if one.op == "loop"}
    found = {}
    for one in nodes:
        loop = loops.get(next(iter(one.args[0].free))) if selects(one) else None
        known = None if loop is None else truths(one.args[0], loop)
        if loop is not None and known is not None:
            found[one] = loop, known
    return found


def below(one: Node) -> tuple[Node, ...]:
    """The arguments of a node, and what a loop's body makes."""
    return (*one.args, *one["body"]) if one.op == "loop" else one.args


def computed(one: Node) -> Node:
    """What a node is where that is known: an entry of a table, a function of numbers, the side that is chosen."""
    if one.op == "pick" and one.args[0].op == "table" and one.args[1].op == "const":
        place = one.args[1]["value"]
        entries = one.args[0]["values"]
        return ir.const(entries[int(place)]) if 0 <= place < len(entries) else one
    if one.op != "map" or not one.args:
        return one
    if one["fn"] == "where" and one.args[0].op == "const":
        return ir.widen_to(one.args[1 if one.args[0]["value"] else 2], one.axes)
    if all(arg.op == "const" for arg in one.args):
        values = [arg["value"] for arg in one.args]
        if all(isinstance(value, bool) or (isinstance(value, Fraction) and value.denominator == 1) for value in values):
            made = FUNCTIONS[one["fn"]].meaning(*(v if isinstance(v, bool) else int(v) for v in values))
            return ir.const(bool(made)) if one.kind == "bool" else ir.const(int(made)) if one.kind == "int" else one
    return one


def paths(
    order: Sequence[Node],
    roots: Iterable[Node],
    selections: Collection[Node],
    reads: Callable[[Node], Sequence[Node]] = below,
) -> Mapping[Node, Path]:
    """The selections that all readers of a node stand below, for each that is read; an order has arguments first."""
    uses: dict[Node, list[Path]] = {root: [()] for root in roots}
    found: dict[Node, Path] = {}
    for one in reversed(order):
        if one not in uses:
            continue
        path = found[one] = _common(uses[one])
        for side, arg in enumerate(reads(one)):
            chosen = one in selections
            if not chosen or side:  # what the condition is made of is known
                uses.setdefault(arg, []).append((*path, (one, side)) if chosen else path)
    return found


def _common(paths: Sequence[Path]) -> Path:
    """How far all paths are one."""
    first, *others = paths
    length = min(map(len, paths))
    while any(other[:length] != first[:length] for other in others):
        length -= 1
    return first[:length]
