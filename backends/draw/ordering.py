"""Orders within layers: neighbours change places as long as that uncrosses edges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

Segment: TypeAlias = tuple[int, int, str]
Ends: TypeAlias = Callable[[Segment, Mapping[int, int]], tuple[float, float]]

ROUNDS = 8


def untangle(order: list[list[int]], gaps: Sequence[Iterable[Segment]], ends: Ends) -> None:
    """Lets neighbours in layers change places while edges cross less.

    `gaps` are the segments between each layer and the next, `ends` says where one starts and ends in given orders.
    """
    around: dict[int, tuple[list[Segment], list[Segment]]] = {}
    for gap in gaps:
        for segment in gap:
            around.setdefault(segment[0], ([], []))[1].append(segment)
            around.setdefault(segment[1], ([], []))[0].append(segment)
    place = {one: i for row in order for i, one in enumerate(row)}
    for _ in range(ROUNDS):
        if not sum(_pass(row, place, around, ends) for row in order):
            return


def _pass(
    row: list[int],
    place: dict[int, int],
    around: Mapping[int, tuple[list[Segment], list[Segment]]],
    ends: Ends,
) -> int:
    """One walk along a layer; how many pairs changed places."""
    changed = 0
    for i in range(len(row) - 1):
        one, other = row[i], row[i + 1]
        mine, theirs = around.get(one), around.get(other)
        if mine is None or theirs is None:
            continue
        now = later = 0
        for side in (0, 1):
            a = sorted(ends(segment, place)[side] for segment in mine[side])
            b = sorted(ends(segment, place)[side] for segment in theirs[side])
            now += _larger(a, b)
            later += _larger(b, a)
        if later < now:
            row[i], row[i + 1] = other, one
            place[one], place[other] = i + 1, i
            changed += 1
    return changed


def _larger(a: list[float], b: list[float]) -> int:
    """Pairs of which the first is larger: edges that cross if it stands on the left."""
    if len(a) < len(b):
        return sum(bisect_left(b, x) for x in a)
    return sum(len(a) - bisect_right(a, y) for y in b)
