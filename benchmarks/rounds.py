"""Contenders measured in turn: every round runs each once, in a new order."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Contender = Callable[[], Array | None]


def measure(
    found: dict[str, Contender], runs: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Milliseconds of each contender in each round, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for run in range(runs + 1):
        for name in random.Random(run).sample(list(found), len(found)):
            start = clock()
            found[name]()
            if run:
                times[name].append((clock() - start) * 1e3)
    return times


def show(title: str, table: dict[str, dict[str, float]], last: str, cell: Callable[[str], str]) -> None:
    """Prints a row for each contender; the last column, of this name, is what `cell` says of it."""
    print(f"{title}; ms")
    print(f"{'':28}{'median':>9}{'min':>9}{'max':>9}{'ratio':>8}{last:>12}")
    for name, row in table.items():
        numbers = "".join(f"{row[kind]:9.2f}" for kind in ("median", "min", "max"))
        print(f"{name:28}{numbers}{row['ratio']:8.2f}{cell(name):>12}")


def summary(times: dict[str, list[float]], results: dict[str, Array | None]) -> dict[str, dict[str, float]]:
    """Median, fastest, slowest (ms), the median ratio to the products, the distance from the first result."""
    base = times["products alone"]
    hand = next((one for one in results.values() if one is not None), None)
    table = {}
    for name, mine in times.items():
        result = results[name]
        table[name] = {
            "median": statistics.median(mine),
            "min": min(mine),
            "max": max(mine),
            "ratio": statistics.median(a / b for a, b in zip(mine, base, strict=True)),
        }
        if result is not None and hand is not None:
            table[name]["difference"] = float(np.abs(result - hand).max())
    return table
