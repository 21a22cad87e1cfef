"""`compile`: mistakes told as `check` tells them, and a ledger that people can print."""

from __future__ import annotations

import pytest

import transformula
from transformula import TransformulaError

SPEC = """
spec s
from functions import attention

config
    d    = 12
    head = 3
    dk   = d / head

model M(x[seq, d] as inputs_embeds) → y[seq, d] = heads @ W_O
    where m = x[seq → key]
          heads = attention[key](x @ W_Q, m @ W_K, m @ W_V{more})
    weights W_Q, W_K, W_V : [d → head dk] ~ 0
            W_O : [head dk → d] ~ 0
"""


def test_a_mistake_that_a_caller_brings_in_is_told_at_the_caller() -> None:
    """A relation where attention takes numbers: not the library's line is wrong, but the argument."""
    with pytest.raises(TransformulaError) as caught:
        transformula.compile(SPEC.format(more=", index(key) ≤ index(seq)"))
    (one,) = caught.value.diagnostics
    assert one.code == "M503"
    assert one.span is not None
    assert one.span.source.name == "<text>"
    assert one.span.text == "index(key) ≤ index(seq)"
    assert "inside `attention`" in str(caught.value)


def test_the_ledger_prints_a_line_for_each_rewrite() -> None:
    made = transformula.compile(SPEC.format(more=""))
    lines = str(made.ledger).splitlines()
    assert len(lines) == len(made.ledger.lines)
    assert any(line.startswith("+ recognise attention: ") and "<text>:12" in line for line in lines)
    refused = transformula.compile(SPEC.format(more=""), without=["unpad"])
    _ = refused.source
    (line,) = [line for line in str(refused.ledger).splitlines() if line.startswith("- unpad packed: ")]
    assert line.endswith("not done, the pass was left out")


def test_the_repr_of_what_is_compiled_is_short() -> None:
    made = transformula.compile(SPEC.format(more=""))
    assert "weights W_Q" not in repr(made.ledger)
