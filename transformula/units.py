"""Costs in words: what a pass changed, what a model costs in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .compiler.units import flops, number, size

if TYPE_CHECKING:
    from .compiler.explain import Figures


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
