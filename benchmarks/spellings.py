"""Who recognises which spelling: 35 ways to write attention, 8 of LayerNorm and 8 of GELU, by four systems.

    python benchmarks/spellings.py [--only SYSTEM] [--suite SUITE] [--markdown]

A cell is the number of fused nodes that the system made of a spelling (– for none). The last line of a suite has the
largest error of its results, in float32, relative to the largest value by the formula in float64. Systems that are not
installed (the extra `bench`) are left out by name.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.recognisers import SYSTEMS, UNCOUNTED, Result
from tests.compiler import spellings

SUITES: dict[str, tuple[str, ...]] = {
    "attention": tuple(one.name for one in spellings.ATTENTION),
    "LayerNorm": tuple(spellings.LAYER_NORM),
    "GELU": tuple(spellings.GELU),
}
PACKAGES = {"transformula": "transformula", "Inductor": "torch", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}

Found = dict[str, Result | str]  # by system; a text says why there is no result


def judged(systems: Sequence[str], suite: str, name: str) -> Found:
    """What each system makes of one spelling; one that fails says with what."""
    found: Found = {}
    for system in systems:
        if (system, suite) in UNCOUNTED:
            continue
        try:
            found[system] = SYSTEMS[system](suite, name)
        except ImportError:
            raise
        except Exception as fault:  # another system's fault is a result
            found[system] = type(fault).__name__
    return found


def installed(wanted: Sequence[str]) -> list[str]:
    """The systems that can be asked; the others are told."""
    there = []
    for system in wanted:
        try:
            SYSTEMS[system]("GELU", "x*Φ(x)")
        except ImportError as missing:
            print(f"{system} is left out: {missing}", file=sys.stderr)
            continue
        except Exception:  # it is there; what it fails at is told row by row
            pass
        there.append(system)
    return there


def version(system: str) -> str:
    """The installed version of a system's package."""
    try:
        return metadata.version(PACKAGES[system])
    except metadata.PackageNotFoundError:
        return "of this folder"


def cell(found: Found, system: str) -> str:
    """One cell of the table."""
    result = found.get(system)
    if result is None:
        return ""
    return result if isinstance(result, str) else str(result[0] or "–")


def counted(rows: dict[str, Found], system: str) -> tuple[str, str]:
    """How many spellings a system fuses, and its largest error."""
    results = [found[system] for found in rows.values() if system in found]
    right = [one for one in results if not isinstance(one, str)]
    if not results:
        return "", ""
    return f"{sum(one[0] > 0 for one in right)} of {len(rows)}", f"{max((one[1] for one in right), default=0.0):.0e}"


def table(suite: str, rows: dict[str, Found], systems: Sequence[str], markdown: bool) -> str:
    """The rows of a suite as text, or as a table of Markdown."""
    totals = [counted(rows, system) for system in systems]
    lines = [[name, *(cell(found, system) for system in systems)] for name, found in rows.items()]
    lines += [["fused", *(one[0] for one in totals)], ["largest error", *(one[1] for one in totals)]]
    head = [suite, *systems]
    if markdown:
        told = [[f"`{line[0]}`" if line[0] in rows else f"**{line[0]}**", *line[1:]] for line in lines]
        return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *told))
    return "\n".join(f"{line[0]:26}" + "".join(f"{one:>14}" for one in line[1:]) for line in (head, *lines))


def main() -> None:
    """Prints the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", choices=SYSTEMS, help="this system; may be given several times")
    options.add_argument("--suite", action="append", choices=SUITES, help="this suite; may be given several times")
    options.add_argument("--markdown", action="store_true", help="tables of Markdown")
    chosen = options.parse_args()
    logging.disable(logging.WARNING)
    systems = installed(chosen.only or list(SYSTEMS))
    if not systems:
        return
    print(", ".join(f"{system} {version(system)}" for system in systems))
    for suite in chosen.suite or SUITES:
        rows = {name: judged(systems, suite, name) for name in SUITES[suite]}
        print("\n" + table(suite, rows, systems, chosen.markdown))


if __name__ == "__main__":
    main()
