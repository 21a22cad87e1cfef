"""The table of mutants is about the code as it is: each old text stands in its file exactly once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import __main__ as runner
from tests.mutants.table import MUTANTS, Mutant
from transformula.grammar.parser import parse

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_the_old_text_is_there_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text("utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
    if mutant.file.endswith(".py"):
        ast.parse(text.replace(mutant.old, mutant.new))
    else:
        parse(text.replace(mutant.old, mutant.new), mutant.file)
    assert all((ROOT / test.partition("::")[0]).is_file() for test in runner.tests_of(mutant))


def test_names_are_names() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 36
