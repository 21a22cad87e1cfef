"""`python -m benchmarks`: every benchmark with its defaults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Runs mixed lengths, sorted and not, a full batch, and a single sentence; the first failure's status."""
    for arguments in ([], ["--unsorted"], ["--full"], ["--one"]):
        status = subprocess.call([sys.executable, str(HERE / "encode.py"), *arguments])
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
