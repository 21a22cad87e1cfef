"""`make fuzz N=10000 SEED=0`: random specs over all cores; what fails is made small and written to a folder.

Every portion of the work is decided by one number, which is printed with what it found: the same number gives the same
specs again. A file that is moved to tests/fuzz/found becomes a test.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.fuzz import oracle
from tests.fuzz.strategies import LOSES, pairs, run, specs

PORTION = 50
FOLDER = Path("fuzz-found")


def portion(number: int, count: int) -> tuple[int, Counter[str], list[str]]:
    """Checks `count` random specs, and a third as many respelled ones; the faults, each as a text."""
    counts: Counter[str] = Counter()
    faults: list[str] = []

    def whole(text: str) -> None:
        oracle.check(text, number + sum(counts.values()), counts)

    def respelled(pair: tuple[str, str]) -> None:
        if pair[0] != pair[1]:
            oracle.check_respelled(*pair, seed=number, counts=counts, keeps=not LOSES)

    for strategy, body, times in ((specs(), whole, count), (pairs(), respelled, max(count // 3, 1))):
        try:
            run(strategy, body, number, times)  # type: ignore[arg-type]
        except Exception as fault:
            faults.append(f"{type(fault).__name__}: {fault}")
    return number, counts, faults


def write(number: int, fault: str) -> Path:
    """A file with the spec that fails; its first line says how, and from which number it came."""
    FOLDER.mkdir(exist_ok=True)
    head, _, text = fault.partition("\n")
    start = text.find("spec fuzz")
    found = FOLDER / f"{number}-{len(list(FOLDER.iterdir()))}.formula"
    found.write_text(f"# {head} (number {number})\n{text[max(start, 0) :]}", "utf-8")
    return found


def main() -> int:
    """Runs the specs of as many numbers as it takes, from the first one on; 1 if any of them fails."""
    parser = argparse.ArgumentParser(description="random specs through every pass and backend")
    parser.add_argument("specs", type=int, nargs="?", default=200, help="how many (200)")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first number (0)")
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + -(-chosen.specs // PORTION))
    counts: Counter[str] = Counter()
    failed = 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor() as pool:
        waiting = [pool.submit(portion, number, min(PORTION, chosen.specs)) for number in numbers]
        for place, done in enumerate(as_completed(waiting), 1):
            number, more, faults = done.result()
            counts.update(more)
            failed += len(faults)
            for fault in faults:
                print(f"number {number}: {fault.splitlines()[0]}\n    {write(number, fault)}", flush=True)
            print(f"{place} of {len(numbers)} portions, {counts['graphs']} graphs", flush=True)
    print("\n".join(f"{count:8,} {name}" for name, count in counts.most_common()))
    print(f"{failed} faults; numbers {numbers[0]} to {numbers[-1]}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
