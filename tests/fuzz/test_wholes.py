"""Whole numbers and lengths of 0 in every function and reduction: backends have other types for them than for reals."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from tests.fuzz import oracle
from tests.fuzz.torch_side import module

MASKS = (oracle.MIXED, np.ones((2, 3), int), np.ones((2, 0), int), np.ones((0, 0), int), np.ones((0, 3), int))
PARTS = {
    "u": "u = E[vocab = tokens]",
    "n": "n[seq, d] = (tokens - 2) * index(d)",
    "r": "r[seq, d] = index(d) < tokens",
    "s": "s[seq, key] = tokens[seq → key] + 0 * index(seq)",
    "q": "q[seq, key] = tokens[seq → key] > 1 and index(key) ≤ index(seq)",
}
REDUCED = ("sum", "prod", "max", "min", "mean", "norm")
POINTWISE = ("gelu", "silu", "relu", "sigmoid", "gelu_tanh", "tanh", "erf", "exp", "sin")
FORMULAS: dict[str, list[str]] = {  # by the axes of the result
    "": [
        *(f"{kind}[seq](tokens)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[seq if tokens > 2](tokens - 3)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[seq, d](u)" for kind in REDUCED),
        *(f"{kind}[seq, d if tokens > 2](u)" for kind in REDUCED),
        "1 if any[seq, d](u > -1) else 0", "1 if all[seq, d](u > -1) else 0", "count[seq, d](u > -1)",
        "tokens @[seq] tokens", "argmax[seq](tokens // 10)",
    ],
    "d": [
        *(f"{kind}[seq](u)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[seq if tokens > 2](u)" for kind in (*REDUCED, "argmax")),
        "1 if any[seq](u > -1) else 0", "1 if all[seq](u > -1) else 0", "count[seq](u > -1)", "tokens @[seq] u",
    ],
    "seq": [
        *(f"{kind}[d](n)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[d](u)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[d if r](u)" for kind in (*REDUCED, "argmax")),
        *(f"{kind}[key if q](s)" for kind in (*REDUCED, "argmax")),
        "1 if any[d if r](u > -1) else 0", "1 if all[d if r](u > -1) else 0", "count[d if r](u > -1)",
        *(f"{fn}(tokens)" for fn in POINTWISE),
        *(f"{fn}(tokens + 1)" for fn in ("sqrt", "log", "floor", "ceil", "sign")),
        "softmax[seq](tokens)", "log_softmax[seq](tokens)", "rank[seq](tokens)", "rank[seq](tokens // 10)", "n @[d] n",
        "n @[d] u",
        "tokens[seq = index(seq) - 1 else 7]", "(tokens - 3) // 2", "(tokens - 3) % 2", "tokens / 2", "2^tokens",
        "tokens if tokens > 2 else 0.5",
    ],
    "seq, d": [
        *(f"{fn}(n)" for fn in POINTWISE),
        "softmax[d](n)", "softmax[d if r](n)", "softmax[seq](n)", "log_softmax[d](n)", "layer_norm[d](n, ε = 0.1)",
        "rms_norm[d](n + n, u, ε = 0.1)", "rank[d](n)", "rank[d](u)", "dropout(n, 0.1)",
        "E[vocab = max(tokens - 1, 0)]", "softmax[head](u[d → head dk])[head dk → d]",
        "(softmax[head](u[d → head dk]) + 0 * max[key if q](s))[head dk → d]",
    ],
}  # fmt: skip
LIBRARY = "softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "gelu_tanh", "silu", "relu", "sigmoid"


def written(formula: str, axes: str) -> str:
    """A spec with the formula as its result, and another result beside it."""
    words = set(re.findall(r"\w+", formula))
    lines = [line for name, line in PARTS.items() if name in {"u", *words}] + [f"a = {formula}"]
    where = "\n".join(f"    {'where' if i == 0 else '     '} {line}" for i, line in enumerate(lines))
    head = f"model M(tokens[seq] as input_ids) → first[d] = u[seq = 0], y[{axes}] = a\n"
    imports = ", ".join(name for name in LIBRARY if name in words)
    return zoo.spec(imports, f"{head}{where}\n    weights E : [vocab, d]\n")


@pytest.mark.parametrize(("axes", "formula"), [(axes, one) for axes, some in FORMULAS.items() for one in some])
def test_whole_numbers(axes: str, formula: str) -> None:
    assert oracle.check(written(formula, axes), masks=MASKS)


@pytest.mark.parametrize("backend", ["numpy", "torch padded", "torch packed"])
def test_places_of_a_table_are_not_rounded(backend: str) -> None:
    """max(tokens, 0) is a ReLU by its meaning; in half precision its places beyond 2048 would be other ones."""
    text = (
        "spec t\nconfig\n    vocab = 5000\n    d = 2\n"
        "model M(tokens[seq] as input_ids) → y[seq, d] = E[vocab = n]\n"
        "    where n = max(min(tokens, vocab - 1), 0)\n    weights E : [vocab, d]\n"
    )
    given: dict[str, Array] = {"input_ids": np.array([[4999, 4097, 2049]])}
    program = dict(oracle.programs(zoo.whole(text).compiled))[backend]
    wanted = zoo.reference_results(program.compiled.formula, given)["y"]
    found = oracle.runner(program, dtype="float16")(given)["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_an_empty_row_has_a_gradient() -> None:
    """A softmax of nothing is 0, and so is its gradient: no NaN reaches the weights."""
    text = written("softmax[d if r](u)", "seq, d")  # token 0 lets no entry through
    made = module(dict(oracle.programs(zoo.whole(text).compiled))["torch padded"])
    made(torch.tensor([[0, 1, 5]]))["y"].square().sum().backward()
    assert all(one.grad is not None and torch.isfinite(one.grad).all() for one in made.parameters())
