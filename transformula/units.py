"""Costs in words: operations in thousands, memory in units of 1024 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compiler.explain import Figures


def flops(count: float) -> str:
    """Operations of floating point: 22.5 GFLOP."""
    return scaled(count, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))


def size(count: float) -> str:
    """Memory: 417.6 MiB."""
    return scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def number(count: float) -> str:
    """How many: 109.5 M."""
    return scaled(count, 1000, ("", "k", "M", "G")).strip()


def scaled(count: float, step: int, names: tuple[str, ...]) -> str:
    """The number in the largest unit of which it holds at least one, with a decimal unless it is whole."""
    place = 0
    while place < len(names) - 1 and round(count / step**place, 1) >= step:
        place += 1
    text = f"{count / step**place:.1f}" if place else f"{count:g}"
    return f"{text} {names[place]}"


def change(before: Figures, after: Figures) -> str:
    """What a pass changed, as 45.0 MiB → 33.0 MiB; nothing of what reads the same before and after."""
    pairs = (
        (flops(before.flops), flops(after.flops), ""),
        (number(before.rows), number(after.rows), " rows through weights"),
        (size(before.bytes), size(after.bytes), " moved"),
        (size(before.peak_bytes), size(after.peak_bytes), " at peak"),
        (number(before.parameters), number(after.parameters), " parameters"),
        (flops(before.load_flops), flops(after.load_flops), " once, at load"),
        (size(before.load_bytes), size(after.load_bytes), " of prepared weights"),
    )
    return ", ".join(f"{old} → {new}{what}" for old, new, what in pairs if old != new)


def total(before: Figures, after: Figures) -> str:
    """What all passes made of the formula, and the parameters."""
    told = [
        f"{_moved(flops(before.flops), flops(after.flops))} ({flops(after.product_flops)} in products)",
        f"{_moved(size(before.bytes), size(after.bytes))} moved",
        f"{_moved(size(before.peak_bytes), size(after.peak_bytes))} at peak",
        f"{number(after.parameters)} parameters ({size(after.parameter_bytes)})",
    ]
    if after.load_flops:
        told.append(f"{flops(after.load_flops)} once, at load ({size(after.load_bytes)} of prepared weights)")
    return ", ".join(told)


def step(one: Figures, every: Figures) -> str:
    """What a token of each example costs beside all tokens at once."""
    return f"{flops(one.flops)} (all at once: {flops(every.flops)}), {size(one.bytes)} moved"


def by_kind(kinds: Mapping[str, int]) -> str:
    """The operations of each kind, the most first."""
    found = sorted(((count, kind) for kind, count in kinds.items() if count), reverse=True)
    return ", ".join(f"{kind} {flops(count)}" for count, kind in found)


def _moved(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"
