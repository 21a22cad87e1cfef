"""Running sums as recurrences over a length, and positions that a spec computes."""

import numpy as np
import pytest

import transformula
from tests.compiler.spec_tools import codes
from transformula.compiler import reference
from transformula.compiler.driver import compile_graph, load_module

MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0]])
IDS = np.random.default_rng(0).integers(0, 4, MASK.shape)
RUN = """\
model M(tokens[seq] as input_ids) → [seq] = {result}
    where
        n[0] = {first}
        for t in seq:
            n[t + 1] = {step}
"""
SUMS = [
    ("n[index(seq) + 1]", "n[t] + (1 if tokens[seq = t] ≠ 1 else 0)"),
    ("n[1 + index(seq)] / 2", "tokens[seq = t] ^ 2 / 3 + n[t]"),
    ("0 if tokens == 1 else n[index(seq) + 1]", "n[t] + max(tokens[seq = t], 2)"),
]
OTHERS = [
    ("n[index(seq)]", "0", "n[t] + tokens[seq = t]"),
    ("n[index(seq) + 1]", "1", "n[t] + tokens[seq = t]"),
    ("n[index(seq) + 1]", "0", "n[t] / 2 + tokens[seq = t]"),
    ("n[index(seq) + 1]", "0", "n[t] + tokens[seq = t] * t"),
    ("n[index(seq) + 1]", "0", "n[t] - tokens[seq = t]"),
    ("n[index(seq) + 1]", "0", "n[t] + tokens[seq = 0]"),
]


def both(text: str, **given: np.ndarray) -> np.ndarray:
    """The result of the formulas, after a check that the module agrees."""
    program = transformula.compile(text)
    wanted = reference.run(program.compiled.formula, {}, given)["output"]
    made: dict[str, type] = {"__name__": "made"}  # type: ignore[dict-item]
    exec(compile(program.source, "<made>", "exec"), made)
    found = made["M"]({}, dtype="float64")(**given)["output"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    return wanted


def fired(text: str) -> bool:
    return any(line.rule == "running_sum" for line in transformula.compile(text).ledger.lines)


@pytest.mark.parametrize(("result", "step"), SUMS)
def test_running_sums(result: str, step: str) -> None:
    text = RUN.format(result=result, first="0", step=step)
    assert fired(text)
    both(text, input_ids=IDS, attention_mask=MASK)
    both(text, input_ids=IDS)


@pytest.mark.parametrize(("result", "first", "step"), OTHERS)
def test_what_is_no_running_sum(result: str, first: str, step: str) -> None:
    text = RUN.format(result=result, first=first, step=step)
    assert not fired(text) or step.endswith("[seq = 0]")
    both(text, input_ids=IDS, attention_mask=MASK)


def test_hidden_entries_count() -> None:
    text = RUN.format(result="n[index(seq) + 1]", first="0", step="n[t] + 1")
    found = both(text, input_ids=IDS, attention_mask=MASK)
    assert found.tolist() == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 0, 0, 0], [0, 0, 1, 2, 3, 0], [1, 2, 3, 4, 5, 6], [0] * 6]


def test_first_states_are_widened_along_lifted_axes() -> None:
    """What the caller carries along (the batch, and here `head`) cannot be named where the recurrence is written."""
    text = """
config
    head = 2
total(x[seq]) → = s[seq]
    where
        s[0] = 0
        for t in seq:
            s[t + 1] = s[t] + x[seq = t]
model M(x[seq, head] as x) → [head] = total(x)
""".replace(" → = s[seq]", " = s[seq]")
    x = np.random.default_rng(1).normal(size=(5, 6, 2))
    graph = compile_graph(text, entry="M").formula
    found = reference.run(graph, {}, {"x": x})["output"]
    np.testing.assert_allclose(found, x.sum(axis=1), rtol=0, atol=1e-12)


# --- positions ----------------------------------------------------------------------------------------------

ELSE = "model M(tokens[seq] as input_ids) → [seq] = position(seq, {p})\n"


def test_positions_of_the_spec() -> None:
    text = ELSE.format(p="tokens + 2 * index(seq)")
    steps = np.arange(6) - MASK.argmax(axis=1)[:, None]
    shown = np.array([[1] * 6, [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1] * 6, [0] * 6])
    found = both(text, input_ids=IDS, attention_mask=MASK)
    assert (found == np.where(shown == 1, IDS + 2 * steps, 0)).all()
    given = np.random.default_rng(1).integers(0, 9, MASK.shape)
    assert (both(text, input_ids=IDS, attention_mask=MASK, position_ids=given) == given * shown).all()


def test_positions_are_one_number_each() -> None:
    text = "config\n    d = 2\nmodel M(x[seq, d]) → [seq, d] = position(seq, x)\n"
    assert codes(text) == {"A106"}
    assert codes(ELSE.format(p="0, 1")) == {"N221"}


def test_the_caller_numbers_one_length_only() -> None:
    text = "model M(x[src] as a, y[tgt] as b) → u[src] = position(src, x), v[tgt] = position(tgt, y)\n"
    graph = compile_graph(text, entry="M").formula
    a, b = np.array([[3.0, 4.0]]), np.array([[5.0, 6.0]])
    found = reference.run(graph, {}, {"a": a, "b": b, "position_ids": np.array([[8, 9]])})
    assert found["u"].tolist() == [[8, 9]]
    assert found["v"].tolist() == b.tolist()


# --- a spec over another base ---------------------------------------------------------------------------------


def test_a_spec_over_another_base() -> None:
    made = load_module("sbert", ("bert", "roberta"))
    assert "places" in made.entries
    assert "SentenceBert" in made.entries
    assert "places" not in load_module("sbert").entries
    assert load_module("roberta", ("bert", "roberta")).name == "roberta"
