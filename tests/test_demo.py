"""`make demo` in a fresh process: no PyTorch, sensible neighbours, and a module that stands by itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 5  # sentences 1 and 2, 3 and 4, … of examples/sentences.txt say nearly the same


@pytest.fixture(scope="module")
def told() -> str:
    """What the demo prints."""
    script = (
        "import runpy\n"
        "runpy.run_path('examples/demo.py', run_name='__main__')\n"
        "import sys; assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nearest_sentences_are_sensible(told: str) -> None:
    sentences = (ROOT / "examples" / "sentences.txt").read_text("utf-8").splitlines()
    rows = told.split("Nearest to each")[1].splitlines()[2 : 2 + len(sentences)]
    for number in range(2 * PAIRS):
        other = sentences[number ^ 1]
        assert sentences[number][:40] in rows[number]
        assert rows[number].rstrip().endswith(other if len(other) <= 60 else other[:59] + "…")


def test_similarities_are_a_table(told: str) -> None:
    row = told.split("How alike they are")[1].splitlines()[2]
    assert re.findall(r"-?\d\.\d\d", row)[0] == "1.00"


def test_the_module_needs_numpy_alone(told: str) -> None:
    tree = ast.parse((ROOT / "build" / "sbert.py").read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"numpy"}


def test_the_pictures_are_there(told: str) -> None:
    ElementTree.parse(ROOT / "build" / "sbert.svg")
    assert (ROOT / "build" / "sbert.html").read_text("utf-8").startswith("<!doctype html>")
