"""Picks that are slices: places that count from a number in equal steps, as x[dk = half + index(half)]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from ...compiler.affine import form
from ...compiler.ir import Axis, Node, walk
from .values import Value

Run: TypeAlias = tuple[Axis | None, int, int]
"""Along which axis places count (None: it is one place), the first of them, and the step."""


def runs(one: Node) -> dict[Axis, Run] | None:
    """For each axis that is picked along the run of its places; None if they are no such runs, or may lie outside."""
    found: dict[Axis, Run] = {}
    for key, place in zip(one["keys"], one.args[1:], strict=True):
        run = _run(place) if isinstance(key.size, int) else None
        if run is None or not _inside(run, key):
            return None
        found[key] = run
    made = [axis for axis, _, _ in found.values() if axis is not None]
    kept = set(one.args[0].axes) - set(found)
    return found if len(set(made)) == len(made) and not kept.intersection(made) else None


def _run(place: Node) -> Run | None:
    if not place.axes and place.op == "const":
        return None, int(place["value"]), 0
    known = form(place)
    if known is None or len(known.terms) != 1 or len(place.axes) != 1:
        return None
    ((atom, step),) = known.terms.items()
    return (atom["axis"], known.constant, step) if atom.op == "index" else None


def _inside(run: Run, key: Axis) -> bool:
    axis, first, step = run
    count = 1 if axis is None else axis.size
    if not isinstance(count, int) or not isinstance(key.size, int) or count == 0:
        return False
    return 0 <= first < key.size and 0 <= first + step * (count - 1) < key.size


def sliced(base: Value, found: Mapping[Axis, Run], backwards: bool = True) -> Value:
    """The pick as plain indexing; where a target cannot count backwards, what is picked is turned round."""
    marks, turned = [":"] * bool(base.lead), []
    dims: list[Axis] = []
    for old in base.dims:
        run = found.get(old, (old, 0, 1))
        if run[2] < 0 and not backwards:
            turned.append(len(dims) + bool(base.lead))
            run = _turned(run)
        marks.append(_mark(run, old) if old in found else ":")
        if run[0] is not None:
            dims.append(run[0])
    while marks and marks[-1] == ":":
        marks.pop()
    text = f"{base.wrapped}[{', '.join(marks)}]" if marks else base.text
    if turned:
        text = f"{text if marks else base.wrapped}.flip({', '.join(map(str, turned))})"
    atom = base.atom or bool(marks or turned)
    return replace(base, text=text, dims=tuple(dims), atom=atom, owned=False, number=False)


def _turned(run: Run) -> Run:
    """The same places from the other end."""
    axis, first, step = run
    assert axis is not None
    assert isinstance(axis.size, int)
    return axis, first + step * (axis.size - 1), -step


def _mark(run: Run, key: Axis) -> str:
    """The run as it is written between brackets: 3, 3:6, 5::-1, or : for all of the axis."""
    axis, first, step = run
    if axis is None:
        return str(first)
    assert isinstance(axis.size, int)
    assert isinstance(key.size, int)
    last = first + step * (axis.size - 1)
    start = "" if first == (0 if step > 0 else key.size - 1) else str(first)
    stop = "" if last == (key.size - 1 if step > 0 else 0) else str(last + (1 if step > 0 else -1))
    return f"{start}:{stop}" if step == 1 else f"{start}:{stop}:{step}"


def read(order: Iterable[Node], roots: Iterable[Node]) -> list[Node]:
    """What of an order is read at all: a slice says its places itself."""
    order, wanted = list(order), set(roots)
    for one in reversed(order):
        if one in wanted:
            wanted.update(reads(one))
    return [one for one in order if one in wanted]


def reads(one: Node) -> tuple[Node, ...]:
    """The arguments of which a node reads the values."""
    if one.op == "pick" and runs(one) is not None:
        return one.args[:1]
    if one.op != "loop":
        return one.args
    inside = {arg for part in read(walk(one["body"]), one["body"]) for arg in reads(part)}
    count = one["slots"] + 1
    return (*one.args[:count], *(arg for arg in one.args[count:] if arg in inside))
