"""Random draws that depend on nothing but the seed, the site and the logical place of each entry.

The generator is counter-based (the splitmix64 finaliser over a hash of seed, site and indices; Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014), so padding, batch order and the machine change no draw.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
GOLDEN = 0x9E3779B97F4A7C15
_TAKEN = re.compile(r"(@\d+)+$")


def _mix(value: Array) -> Array:
    """The finaliser of splitmix64, in memory of its own."""
    value, beside = np.array(value), np.empty_like(value)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            np.bitwise_xor(value, np.right_shift(value, np.uint64(shift), out=beside), out=value)
            if factor != 1:
                np.multiply(value, np.uint64(factor), out=value)
    return value


def key(site: str) -> int:
    """The number of a site: the first 64 bits of its hash."""
    return int.from_bytes(hashlib.sha256(site.encode()).digest()[:8], "little")


def apart(site: str) -> tuple[str, list[int]]:
    """A site, and the steps that were taken out of their loops: ("drop", [3]) of "drop@3"."""
    taken = _TAKEN.search(site)
    if taken is None:
        return site, []
    return site[: taken.start()], [int(step) for step in taken[0].split("@")[1:]]


def uniform(seed: int, site: str, places: Sequence[int | Array]) -> Array:
    """Numbers in (0, 1), one per entry; an entry's number depends on seed, site and its own places only.

    `places` are, for each axis, the places of its entries, or their number for 0, 1, …: an example that stands alone
    has the place that it has among all. A step that was taken out of its loop stands at the end of the site: `site@3`.
    """
    site, taken = apart(site)
    if taken:
        found = uniform(seed, site, (*(np.array([step]) for step in taken), *places))
        return found.reshape(found.shape[len(taken) :])
    start = _mix(np.array((seed % 2**64 + GOLDEN) % 2**64, np.uint64)) ^ np.uint64(key(site))
    state: Array = np.full((1,) * len(places), start)
    for axis, place in enumerate(places):
        at = np.arange(place, dtype=np.uint64) if isinstance(place, int) else np.asarray(place).astype(np.uint64)
        with np.errstate(over="ignore"):
            step = (at + np.uint64(1)) * np.uint64(GOLDEN)
            state = _mix(state + step.reshape([-1 if a == axis else 1 for a in range(len(places))]))
    result: Array = ((_mix(state) >> np.uint64(12)).astype(float) + 0.5) / 2.0**52  # exact: never 0, never 1
    return result


def draw(kind: str, args: Sequence[Array], u: Array) -> Array:
    """A draw of `kind` from uniform numbers `u`.

    bernoulli(p): u < p · uniform(a, b): a + u (b - a) · randint(a, b): a, …, b - 1 · sample(logits): the last axis of
    logits + Gumbel noise has its maximum there · dropout(x, p): x / (1 - p) with probability 1 - p, else 0.
    """
    match kind:
        case "bernoulli":
            return np.asarray(u < args[0])
        case "uniform":
            return np.asarray(args[0] + u * (args[1] - args[0]))
        case "randint":
            return np.asarray(args[0] + np.floor(u * (args[1] - args[0])))
        case "sample":
            scores = args[0] - np.log(-np.log(u))  # one that is undefined leaves the draw so
            return np.where(np.isnan(scores).any(axis=-1), np.nan, scores.argmax(axis=-1))
        case "dropout":
            return np.where(u < args[1], 0.0, args[0] / np.maximum(1.0 - args[1], 1e-300))
    raise ValueError(f"no draw is called {kind}")
