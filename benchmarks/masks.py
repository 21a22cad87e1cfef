"""What a causal mask and a window cost beside attention to everything: attention alone, NumPy and PyTorch, one thread.

    python benchmarks/masks.py --runs 15
    python benchmarks/masks.py --seq 512 --masks causal

Every round runs each contender once, in a new order. A number is the median over the rounds of the processor's time
beside that of attention without a mask in the same round. `folded` is what the compiler makes, `table` the same module
without the pass fold_masks: it masks a table of all queries and keys.
"""

import argparse
import random
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transformula.backends.program import compile as compile_spec

HEADS, DK = 12, 64
SPEC = """spec masks
from functions import attention
config
    head = {heads}
    dk = {dk}
    d = head * dk

model M(x[seq, d] as inputs_embeds) → y[seq, head, dk] = attention[key{see}](Q, Q[seq → key], Q[seq → key])
    where Q = x[d → head dk]
          see[i: seq, j: key] = {relation}
"""
MASKS = {"none": "", "causal": "j ≤ i", "window": "0 ≤ i - j < 128"}
FORMS: tuple[tuple[str, tuple[str, ...]], ...] = (("folded", ()), ("table", ("fold_masks",)))
Contender = Callable[[], Any]


def source(mask: str, backend: str, layout: str | None, without: tuple[str, ...]) -> str:
    """The text of a module that is one attention."""
    text = SPEC.format(heads=HEADS, dk=DK, see=" if see" if MASKS[mask] else "", relation=MASKS[mask] or "i ≥ 0")
    if not MASKS[mask]:
        text = "\n".join(line for line in text.splitlines() if "see[" not in line) + "\n"
    return compile_spec(text, backend, without=without, layout=layout).source


def contender(mask: str, way: str, without: tuple[str, ...], count: int, seq: int) -> Contender:
    """A module on `count` examples of `seq` random vectors."""
    backend, _, layout = way.partition(" ")
    module = types.ModuleType("generated")
    exec(compile(source(mask, backend, layout or None, without), f"<{mask} {way}>", "exec"), module.__dict__)
    x = np.random.default_rng(0).standard_normal((count, seq, HEADS * DK)).astype(np.float32)
    if backend == "numpy":
        model = module.__dict__["Model"]({}, dtype="float32", threads=1)
        return lambda: model(inputs_embeds=x)
    import torch

    torch.set_num_threads(1)
    one, given = module.__dict__["Model"]().eval(), torch.from_numpy(x)

    def run() -> Any:
        with torch.no_grad():
            return one(inputs_embeds=given)

    return run


def measured(contenders: dict[str, Contender], runs: int) -> dict[str, float]:
    """For each contender the median over the rounds of its time by that of the first."""
    first, *_ = contenders
    ratios: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs + 1):
        order = random.Random(number).sample(list(contenders), len(contenders))
        times = {}
        for name in order:
            begin = time.process_time()
            contenders[name]()
            times[name] = time.process_time() - begin
        if number:  # the first round warms up
            for name, seconds in times.items():
                ratios[name].append(seconds / times[first])
    return {name: statistics.median(found) for name, found in ratios.items()}


def contenders(way: str, masks: list[str], count: int, seq: int) -> dict[str, Contender]:
    """Attention to everything, and for each mask what the compiler makes and the table, on `count` texts of `seq`."""
    made = {"none": contender("none", way, (), count, seq)}
    for mask in masks:
        for form, without in FORMS:
            made[f"{mask} {form}"] = contender(mask, way, without, count, seq)
    return made


def main() -> int:
    """One line for each way of computing and each length."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seq", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--masks", nargs="+", choices=[m for m in MASKS if m != "none"], default=["causal", "window"])
    parser.add_argument("--ways", nargs="+", default=["numpy", "torch packed", "torch padded"])
    given = parser.parse_args()
    print(f"{'':14}{'seq':>6}" + "".join(f"{f'{mask} {form}':>18}" for mask in given.masks for form, _ in FORMS))
    for way in given.ways:
        for seq in given.seq:
            found = measured(contenders(way, given.masks, max(1, 2048 // seq), seq), given.runs)
            print(f"{way:14}{seq:6}" + "".join(f"{ratio:18.2f}" for name, ratio in found.items() if name != "none"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
