"""tie A = B: one storage, both uses."""

from __future__ import annotations

import numpy as np
import pytest

from transformula.backends.program import compile as compile_program
from transformula.compiler import reference
from transformula.compiler.driver import compile_graph
from transformula.grammar.diagnostics import TransformulaError

SPEC = """
spec tied
config
    vocab = 5
    d = 3
block Table(tokens[seq]) → [seq, d] = E[vocab = tokens]
    weights E : [vocab, d]
block Head(x[seq, d]) → [seq, vocab] = x @ U
    weights U : [d → vocab]
uses table : Table
     head : Head
tie head.U = table.E
model M(tokens[seq] as input_ids) → logits[seq, vocab] = head(table(tokens))
"""


def test_a_tied_weight_is_one_weight() -> None:
    """V = 3 … logits = h Eᵀ, with E stored once (BL-16)."""
    graph = compile_graph(SPEC).formula
    assert [weight.name for weight in graph.weights] == ["table.E"]
    table = np.arange(15.0).reshape(5, 3)
    ids = np.array([[1, 4]])
    made = reference.run(graph, {"table.E": table}, {"input_ids": ids})
    np.testing.assert_allclose(made["logits"], table[ids] @ table.T)


def test_the_numpy_module_holds_it_once() -> None:
    """The generated module reads one stored weight for both uses."""
    source = compile_program(SPEC).source
    assert "head.U" not in source.split("class M", 1)[1].split("Model = M", 1)[0]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("tie head = table.E", "U710"),
        ("tie other.b = table.E", "U711"),
    ],
)
def test_what_cannot_be_tied_is_refused(line: str, code: str) -> None:
    """Only weights, and only of the same axes."""
    other = "block Other(x[d]) → [d] = x + b\n    weights b : [d]\nuses other : Other\n"
    text = SPEC.replace("tie head.U = table.E\n", other + line + "\n")
    text = text.replace("head(table(tokens))\n", "head(other(table(tokens)))\n")
    with pytest.raises(TransformulaError) as fault:
        compile_graph(text)
    assert [one.code for one in fault.value.diagnostics] == [code]
