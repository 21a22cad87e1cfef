"""Wrong specs, each with the exact text that its author reads: tests/rejected/NAME.formula and NAME.txt.

NAME.json, if there is one, holds the keys of a config.json. `pytest --regen tests/test_rejected.py` writes the texts
anew; read each before keeping it: does it say what is wrong, where, and what to write instead?
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from transformula import TransformulaError, check
from transformula.grammar.diagnostics import Diagnostic

FOLDER = Path(__file__).parent / "rejected"
SOUND = {"base"}  # extended by others
NAMES = sorted(path.stem for path in FOLDER.glob("*.formula") if path.stem not in SOUND)
TEXTS = sorted(path.stem for path in FOLDER.glob("*.txt"))
ERRORS = (Path(__file__).parent.parent / "docs" / "errors.md").read_text("utf-8")

# Words of the machinery: a user's message is about formulas, axes and sizes.
INNER = re.compile(
    r"\b(Traceback|lark|Token|Tree|dataclass|NoneType|isinstance|KeyError|ValueError|TypeError|AttributeError|"
    r"RecursionError|Fraction|Tensor|ndarray|numpy|torch|lambda|kwargs?|str|dict|tuple|int|float|object at|self\."
    r"|--[a-z]+|command line|node|AST|LALR|shape mismatch|broadcast)\b",
)


# Advice that can be followed as it stands: what to replace by what. The mended spec is right.
MENDED = {
    "attention_forgotten_key": [("K, V)", "K[seq → key], V[seq → key])")],
    "softmax_without_axis": [("softmax(", "softmax[key](")],
    "bare_at_two_axes": [("P @ V", "P @[key] V")],
    "contract_unknown_axis": [("d_k", "dk")],
    "similarity_without_axis": [("|u| * |v|", "‖u‖[d] * ‖v‖[d]")],
    "result_renamed_axis": [("= x", "= x[seq → key]")],
    "result_missing_axis": [("= x", "= x[→ head]")],
    "mean_over_lifted": [("u[d]", "u[seq, d]")],
    "map_lacks_axis": [("x @ W_2", "x @ W_2ᵀ"), ("→ [seq, d]", "→ [seq, ffn]"), ("x[seq, d]", "x[seq, d]")],
    "map_axis_twice": [("x @ W", "x[head → head'] @ W"), ("→ [head, d]", "→ [head', head]")],
    "map_square_table": [("[d, d]", "[d → d]")],
    "past_the_end": [("seq = t + 1", "seq = t + 1 else 0")],
    "before_the_start": [("sum[t: seq]", "sum[t: seq if t - 1 ≥ 0]")],
    "state_changes_axes": [("h[0] = x", "h[0] = x[→ stream]")],
    "shared_instance_indexed": [("layer : Layer", "layer[layers] : Layer")],
    "recurrence_wrong_step": [("l + 2", "l + 1")],
    "recurrence_unknown_state": [("h[layers + 1]", "h[layers]")],
    "unknown_function_to_import": [
        ("config", "from functions import layer_norm\n\nconfig"),
        ("layernorm", "layer_norm"),
    ],
    "concat_without_axis": [("[u; v]", "[u; v][d → pair]"), ("f(", "config\n    d = 3\n\nf(")],
    "concat_no_part_has_axis": [("e → pair", "d → pair")],
    "table_without_declaration": [("= x * y", "= t\n    where t[seq, key] = x * y")],
    "index_formula_axis_missing": [("causal else", "causal[j = other] else")],
    "forgotten_rename_diagonal": [("K = x", "K = x[seq → key]"), ("V = x", "V = x[seq → key]")],
    "rename_many_to_many": [("[a b → c e]", "[a b → both][both → c e]")],
    "index_not_seen": [("x[d]", "x[seq, d]"), ("→ [d]", "→ [seq, d]")],
    "truth_as_number": [("sum[seq](x > 0)", "count[seq](x > 0)")],
    "condition_if_number": [("x + 1", "x + 1 ≠ 0")],
    "library_call_wrong_axis": [("nll[label]", "nll[v = vocab]")],
    "call_of_value": [("z(y)", "z * y")],
    "size_not_whole": [("770", "768")],
    "reduction_without_axis": [("sum(", "sum[key](")],
}


def found(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Diagnostic]:
    """All that a check says, under the file's bare name."""
    monkeypatch.chdir(FOLDER)
    config = Path(f"{name}.json")
    given = json.loads(config.read_text("utf-8")) if config.exists() else None
    try:
        return check(f"{name}.formula", given)
    except TransformulaError as fault:
        return fault.diagnostics


@pytest.mark.parametrize("name", NAMES)
def test_message(name: str, regen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(name, monkeypatch)
    text = "\n\n".join(map(str, told)) + "\n"
    assert told, "this spec is taken as right"
    if regen:
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")
    assert text == (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_message_is_about_the_formula(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in found(name, monkeypatch):
        said = [one.message, one.label, one.help, *one.because, *(note.text for note in one.notes)]
        assert not [match for part in said for match in INNER.findall(part)]
        assert one.span is not None
        assert one.span.source.text[one.span.start : one.span.end].strip(), "the caret stands under something"
        assert one.span.text.count("\n") == 0, "the caret stays on one line"
        assert one.help or one.because, "it says what to do, or at least why"
        assert re.search(rf"^\| {one.code} \|", ERRORS, flags=re.MULTILINE), f"{one.code} is in docs/errors.md"


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(name, monkeypatch) == []


def test_there_is_a_spec_for_each_text() -> None:
    assert [name for name in TEXTS if name not in NAMES] == []


def test_two_mistakes_do_not_sound_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads alike, quoted parts and numbers aside, has one code."""
    said: dict[str, set[str]] = defaultdict(set)
    for name in NAMES:
        for one in found(name, monkeypatch):
            said[re.sub(r"`[^`]*`|\"[^\"]*\"|\[[^\]]*\]|-?\d[\d.]*", "…", one.message)].add(one.code)
    assert {text: codes for text, codes in said.items() if len(codes) > 1} == {}


def test_one_mistake_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs a wrong value stays silent."""
    many = {name: [d.code for d in found(name, monkeypatch)] for name in NAMES if not name.startswith("several")}
    assert {name: codes for name, codes in many.items() if len(codes) > 1} == {}


@pytest.mark.parametrize("name", MENDED)
def test_advice_can_be_followed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    text = Path(f"{name}.formula").read_text("utf-8")
    for old, new in MENDED[name]:
        assert old in text
        text = text.replace(old, new)
    assert check(text) == []
