"""`make mutants`: edits the compiler in one way at a time and asks the tests whether they see it.

Each mutant is tried in a copy of the tree: first by its own tests, then by those of its file's folder, until one fails.
The unedited copy must pass the same tests before, and 95 % of the mutants must be seen.

    make mutants                 all of them, over all cores
    make mutants ONLY=bias       those whose name or file holds the word
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
RATE = 0.95
SECONDS = 300
"""Of one run of tests: a mutant that hangs is seen, too."""

LEFT_OUT = (
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "fuzz-found",
    "build",
    "dist",
)
COMPILER = (
    "tests/compiler/test_rules.py", "tests/compiler/test_dropout.py", "tests/compiler/test_recognise_attention.py",
    "tests/compiler/test_passes.py", "tests/fuzz/test_fuzz.py",
)  # fmt: skip
FOLDERS = {  # where a file is -> the tests that follow a mutant's own, fast ones first
    "compiler": COMPILER,
    "specs": ("tests/backends/test_corruptions.py", "tests/backends/test_corrupting.py"),
    "backends/numpy": (
        "tests/backends/numpy/test_kernels.py", "tests/backends/numpy/test_module.py", "tests/fuzz/test_wholes.py",
        "tests/backends/numpy/test_random.py", "tests/fuzz/test_fuzz.py",
    ),
    "backends/torch": (
        "tests/backends/torch/test_module.py", "tests/fuzz/test_wholes.py", "tests/backends/torch/test_packed.py",
        "tests/fuzz/test_fuzz.py",
    ),
    "backends": ("tests/backends/test_load.py", "tests/backends/test_generation.py"),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Which test saw a mutant (nothing: it survived), and how long that took."""

    mutant: Mutant
    seen: str
    seconds: float


class Copy:
    """A copy of the tree in which one file at a time is edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edits = 0
        shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def write(self, file: str, text: str) -> None:
        """The file with another text, and a time that no cached bytecode has."""
        path = self.folder / file
        path.write_text(text, "utf-8")
        self.edits += 1
        at = int(time.time()) + 10 * self.edits
        os.utime(path, (at, at))

    def failing(self, test: str) -> str:
        """The first test of a file that fails here, or why there is none; nothing if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", test]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{test}: no end after {SECONDS} seconds"
        if done.returncode == 0:
            return ""
        told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return told[0].partition(" ")[2].partition(" - ")[0] if told else f"{test}: exit status {done.returncode}"

    def outcome(self, mutant: Mutant) -> Outcome:
        """Tries one mutant."""
        whole, begun = (ROOT / mutant.file).read_text("utf-8"), time.monotonic()
        if whole.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.name}: its old text does not stand once in {mutant.file}")
        self.write(mutant.file, whole.replace(mutant.old, mutant.new))
        try:
            seen = next(filter(None, map(self.failing, tests_of(mutant))), "")
        finally:
            self.write(mutant.file, whole)
        return Outcome(mutant, seen, time.monotonic() - begun)


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    """Files of tests in the order in which they are tried."""
    more = next(tests for folder, tests in FOLDERS.items() if mutant.file.startswith(folder))
    return tuple(dict.fromkeys((*mutant.tests, *more)))


def all_outcomes(mutants: list[Mutant], jobs: int, folder: Path, trusted: bool = False) -> list[Outcome]:
    """Every mutant's outcome, each told as it is known; copies are shared among `jobs` threads.

    Unless the tree is `trusted`, the tests must pass without any mutant first.
    """
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(jobs):
        copies.put(Copy(folder / str(number)))

    def in_a_copy(work: str | Mutant) -> str | Outcome:
        copy = copies.get()
        try:
            return copy.failing(work) if isinstance(work, str) else copy.outcome(work)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        tests = [] if trusted else sorted({test for one in mutants for test in tests_of(one)})
        broken = [str(fault) for fault in pool.map(in_a_copy, tests) if fault]
        if broken:
            raise SystemExit(f"the tests fail without any mutant: {', '.join(broken)}")
        found = []
        for number, outcome in enumerate(pool.map(in_a_copy, mutants), 1):
            assert isinstance(outcome, Outcome)
            seen = outcome.seen or "SURVIVED"
            print(f"{number:3} {outcome.seconds:4.0f} s  {outcome.mutant.name:40} {seen}", flush=True)
            found.append(outcome)
    return found


def main() -> int:
    """Runs the chosen mutants; 1 if fewer than 95 % of them are seen."""
    parser = argparse.ArgumentParser(description="mutation testing of the compiler")
    parser.add_argument("--only", default="", help="mutants whose name or file holds this word")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trusted", action="store_true", help="the tests are known to pass without a mutant")
    chosen = parser.parse_args()
    mutants = [one for one in MUTANTS if chosen.only in f"{one.name} {one.file}"]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = all_outcomes(mutants, chosen.jobs, Path(folder), chosen.trusted)
    survived = [one.mutant for one in found if not one.seen]
    killed = len(found) - len(survived)
    print(
        f"{killed} of {len(found)} mutants are seen ({killed / max(len(found), 1):.0%}) "
        f"in {time.monotonic() - begun:.0f} s"
    )
    for one in survived:
        print(f"survived: {one.name} in {one.file}: {one.why}")
    return int(killed < RATE * len(found))


if __name__ == "__main__":
    sys.exit(main())
