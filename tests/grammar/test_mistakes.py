"""Every file in tests/rejected/grammar is refused with exactly the message beside it (`--regen` writes)."""

from pathlib import Path

import pytest

from transformula.grammar.diagnostics import TransformulaError
from transformula.grammar.parser import MAX_MISTAKES, parse

FOLDER = Path(__file__).parent.parent / "rejected" / "grammar"
FILES = sorted(FOLDER.glob("*.formula"))
TECHNICAL = ("_NL", "_INDENT", "_DEDENT", "$END", "__ANON", "LPAR", "RSQB", "NAME", "Token", "Traceback")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_message(path: Path, regen: bool) -> None:
    with pytest.raises(TransformulaError) as caught:
        parse(path.read_bytes().decode(), path.name)
    message = f"{caught.value}\n"
    assert not [word for word in TECHNICAL if word in message.replace(path.read_bytes().decode(), "")]
    golden = path.with_suffix(".txt")
    if regen:
        golden.write_bytes(message.encode())
    assert message == golden.read_bytes().decode()


def test_there_are_many() -> None:
    assert len(FILES) >= 60


def messages(text: str) -> list[str]:
    with pytest.raises(TransformulaError) as caught:
        parse(text)
    return [one.message for one in caught.value.diagnostics]


def test_several_mistakes_are_told_at_once() -> None:
    text = "f(x) = 2x\ng(x) = x\n    where a = (b\n          c = d **2\nh(x) = y y\nk(x) = x\n"
    found = messages(text)
    assert len(found) == 4
    assert found[0] == found[3] == "a product needs a sign"


def test_a_wrong_line_leaves_its_neighbours_alone() -> None:
    text = (
        "block B(x[d]) → [d] = y\n    where a = 2x\n          b = 3\n"
        "    weights W : [d →→ d]\n            b : [d]\n"
    )
    assert len(messages(text)) == 2


def test_mistakes_are_counted() -> None:
    assert len(messages("f(x) = 2x\n" * 100)) == MAX_MISTAKES


def test_sizes_are_bounded() -> None:
    assert "deep" in messages("f(x) = " + "(" * 300 + "x" + ")" * 300)[0]
    assert "deep" in messages("f(x) = " + "-" * 5000 + "x")[0]
    assert "deep" in messages("f(x) = " + "^".join("x" * 5000))[0]
    assert "deep" in messages("f(x) = x" + "[i]" * 5000)[0]
    assert "deep" in messages("f(x) = " + "a if b else (" * 250 + "c" + ")" * 250)[0]
    loops = "".join(" " * (8 + n) + "for l in n:\n" for n in range(80)) + " " * 90 + "a = b\n"
    assert "deep" in messages("f(x) = x\n    where\n" + loops)[0]
    assert "10^400" in messages("f(x) = 1e999999999999")[0]
    assert "10^400" in messages("f(x) = " + "1" * 5000)[0]
    assert "characters" in messages("#" * 5_000_000)[0]


def test_no_text() -> None:
    assert "NUL" in messages("f(x) = \0")[0]
    assert "no definitions" in messages("")[0]
    assert "no definitions" in messages("\ufeff# only a comment\r\n\r\n")[0]
    assert "empty" in messages("   \n\t\n")[0]


def test_every_prefix_of_a_file_is_refused_politely() -> None:
    text = (
        "block B(x[seq, d], p = 0.1) → [d] = |x|² @[d] W\n"
        "    where a = [u; v][d → e] if c else -∞\n    weights W : [d → d]\n"
    )
    refused = 0
    for end in range(1, len(text)):
        try:
            parse(text[:end])
        except TransformulaError as caught:
            refused += bool(str(caught))
    assert refused > 80
