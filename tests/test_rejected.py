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
    """Equal code and wording (quoted parts and numbers aside) come from one kind of mistake: from one place in the code."""
    said: dict[str, set[str]] = defaultdict(set)
    for name in NAMES:
        for one in found(name, monkeypatch):
            said[re.sub(r"`[^`]*`|\"[^\"]*\"|\[[^\]]*\]|-?\d[\d.]*", "…", one.message)].add(one.code)
    assert {text: codes for text, codes in said.items() if len(codes) > 1} == {}


def test_one_mistake_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs a wrong value stays silent."""
    many = {name: [d.code for d in found(name, monkeypatch)] for name in NAMES if not name.startswith("several")}
    assert {name: codes for name, codes in many.items() if len(codes) > 1} == {}
