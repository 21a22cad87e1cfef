"""`python -m benchmarks`: every benchmark with its defaults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Mixed lengths, sorted or not, full, one sentence, passes, masks, decoding, spellings, training, pages."""
    runs = [["encode", *more] for more in ([], ["--unsorted"], ["--full"], ["--one"])]
    runs += [["passes"], ["masks"], ["decode"], ["decode", "--batch", "8"], ["spellings"], ["train_step"]]
    runs += [["inspector"]]
    for arguments in runs:
        status = subprocess.call([sys.executable, str(HERE / f"{arguments[0]}.py"), *arguments[1:]])
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
