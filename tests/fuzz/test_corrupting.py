"""Random corruptions: each backend gives what the formulas make of each text alone, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import transformula
from tests.fuzz.corrupting import Author
from transformula.backends.proving_corruptions import batch, compared
from transformula.compiler.corruptions import border, corrupted
from transformula.grammar.diagnostics import TransformulaError

FAST, MANY = range(3), range(3, 300)
FOUND = (33, 38, 71)
"""Numbers that showed a fault: lengths of sizes alone, a length that was made twice, a key without its examples."""

SEEDS = [*(pytest.param(seed) for seed in (*FAST, *FOUND)), *(pytest.param(s, marks=pytest.mark.slow) for s in MANY)]
LARGE = 200_000


@pytest.mark.parametrize("seed", SEEDS)
def test_backends_give_what_the_formulas_say(seed: int) -> None:
    text = Author(seed).text()
    made = transformula.compile(text).compiled
    edge = border(made.formula, made.config)
    one = batch(made.formula, edge, seed)
    try:
        wanted = [corrupted(made.formula, row, seed, number) for number, row in enumerate(one.alone)]
    except TransformulaError as fault:  # repetitions of repetitions
        if "are the most" not in str(fault):
            raise
        return
    if sum(np.size(row["out"]) for row in wanted) > LARGE:
        return
    for backend in ("numpy", "torch"):
        gap = compared(edge, one.given, wanted, transformula.compile(text, backend).corrupt(**one.given, seed=seed))
        assert not gap.wrong, f"{backend}: {gap.reason}\n{text}"
