"""Generated modules change by no bit unless somebody means it: the formulas of some to read, and a digest of each.

A change that should change modules writes the files anew with `--regen`; the diff shows what it does to them.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest

from tests.compiler import zoo
from transformula.backends.program import compile

GOLDEN = Path(__file__).parent / "golden"
READ = {"cls": "the last block has one query row", "gpt": "a causal model", "pools": "sums over each text"}
LAYOUTS = ("numpy", "padded", "packed")


def source(name: str, layout: str) -> str:
    """The module of a model of the zoo, for NumPy or a layout of PyTorch."""
    text, entry, settings = zoo.SHIPPED.get(name, (zoo.ZOO.get(name, name), None, {}))
    backend, more = ("numpy", None) if layout == "numpy" else ("torch", layout)
    return compile(text, backend, entry=entry, settings=settings, layout=more).source


def formulas(text: str) -> str:
    """What a module computes: the method of packed rows, of one example, or `forward`."""
    lines = text.splitlines()
    (made,) = [
        one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name in ("Model", "M", "Bert")
    ]
    methods = [one for one in made.body if isinstance(one, ast.FunctionDef)]
    wanted = [one for one in methods if one.name in ("rows", "example", "forward")]
    return "\n\n".join("\n".join(lines[one.lineno - 1 : one.end_lineno]) for one in wanted) + "\n"


def compared(path: Path, text: str, regen: bool) -> None:
    if regen:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path.name} is written anew by --regen; read the diff"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", READ)
def test_formulas(name: str, layout: str, regen: bool) -> None:
    compared(GOLDEN / f"{name}.{layout}.txt", formulas(source(name, layout)), regen)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_digests(layout: str, regen: bool) -> None:
    digests = {name: hashlib.sha256(source(name, layout).encode()).hexdigest()[:16] for name in zoo.NAMES}
    told = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    compared(GOLDEN / f"digests.{layout}.txt", told, regen)
