"""`python -m benchmarks`: every benchmark with its defaults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Runs mixed lengths, sorted and not, a full batch, one sentence, passes and masks; the first failure's status."""
    encode = (["encode"], ["encode", "--unsorted"], ["encode", "--full"], ["encode", "--one"])
    for arguments in (*encode, ["passes"], ["masks"]):
        status = subprocess.call([sys.executable, str(HERE / f"{arguments[0]}.py"), *arguments[1:]])
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
