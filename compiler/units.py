"""Numbers in words: operations in thousands, memory in units of 1024 bytes."""

from __future__ import annotations


def flops(count: float) -> str:
    """Operations of floating point: 22.5 GFLOP."""
    return scaled(count, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def size(count: float) -> str:
    """Memory: 417.6 MiB."""
    return scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def number(count: float) -> str:
    """How many: 109.5 M."""
    return scaled(count, 1000, ("", "k", "M", "G", "T")).strip()


def scaled(count: float, step: int, names: tuple[str, ...]) -> str:
    """The number in the largest unit of which it holds at least one, with a decimal unless it is whole."""
    place = 0
    while place < len(names) - 1 and round(count / step**place, 1) >= step:
        place += 1
    text = f"{count / step**place:.1f}" if place else f"{count:g}"
    return f"{text} {names[place]}"
