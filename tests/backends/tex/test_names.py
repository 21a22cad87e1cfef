"""Names and texts of a spec in LaTeX, MathML and Unicode: by one rule, and never as markup."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformula.backends.tex import facts_of, latex, mathml, parts_of, text
from transformula.backends.tex.names import written
from transformula.backends.tex.signs import BIG, DELIMITER, ESCAPED_COMMANDS, FUNCTION, LETTER, MARK, SIGN
from transformula.backends.tex.tree import Line, Word, Words, row

NAMES = [
    ("x", "x", "x"),
    ("α", r"\alpha", "α"),
    ("alpha", r"\alpha", "α"),
    ("Γ", r"\Gamma", "Γ"),
    ("ε", r"\epsilon", "ε"),
    ("tokens", r"\mathrm{tokens}", "tokens"),
    ("x_i", "x_{i}", "xᵢ"),
    ("x_ij", r"x_{\mathrm{ij}}", "x_{ij}"),
    ("p_attn", r"p_{\mathrm{attn}}", "p_{attn}"),
    ("L_MLM", r"L_{\mathrm{MLM}}", "L_{MLM}"),
    ("x_1_2", "x_{1, 2}", "x_{1, 2}"),
    ("b_Q", "b_{Q}", "b_Q"),
    ("W_1", "W_{1}", "W₁"),
    ("W1", "W_{1}", "W₁"),
    ("x₀", "x_{0}", "x₀"),
    ("LN_1", r"\mathrm{LN}_{1}", "LN₁"),
    ("layer_norm", r"\mathrm{layer\_norm}", "layer_norm"),
    ("relu6", r"\mathrm{relu6}", "relu6"),
    ("dk", "d_{k}", "dₖ"),
    ("d'", r"d^{\prime}", "d′"),
    ("W_Q'", r"W_{Q}^{\prime}", "W_Q′"),
    ("x\u0302", r"\hat{x}", "x\u0302"),
    ("ŷ", r"\hat{y}", "ŷ"),
    ("_x", r"\mathrm{\_x}", "_x"),
    ("x__y", r"\mathrm{x\_\_y}", "x__y"),
    ("exp", r"\exp", "exp"),
    ("数", r"\mathrm{[6570]}", "数"),
    ("café", r"\mathrm{caf\acute{e}}", "café"),
]


@pytest.mark.parametrize(("name", "tex", "plain"), NAMES)
def test_name(name: str, tex: str, plain: str) -> None:
    assert latex.write(written(name)) == tex
    assert unicodedata.normalize("NFC", text.write(written(name))) == unicodedata.normalize("NFC", plain)


@pytest.mark.parametrize(
    ("name", "tex"), [("W_Q", "W^{Q}"), ("U_K", "U^{K}"), ("W_1", "W_{1}"), ("W", "W"), ("W_out", r"W^{\mathrm{out}}")]
)
def test_letter_of_a_map_stands_above(name: str, tex: str) -> None:
    assert latex.write(written(name, is_map=True)) == tex


# ------------------------------------------------------------------------------------------------ hostile texts

COMMANDS = {
    r"\mathrm",
    r"\mathop",
    r"\limits",
    r"\mathcal",
    r"\mathbb",
    r"\text",
    r"\frac",
    r"\sqrt",
    r"\left",
    r"\right",
    r"\quad",
    r"\qquad",
    r"\begin",
    r"\end",
    r"\colon",
    r"\_",
    r"\,",
    *ESCAPED_COMMANDS,
    *(part for table in (BIG, DELIMITER, LETTER, MARK, SIGN) for one in table.values() for part in one.split("{")),
    *(f"\\{name}" for name in FUNCTION),
}
PIECES = (
    *("\\", "{", "}", "%", "$", "#", "^^5c", "&", "_", "~", "input", "\\write18", "\\end{document}"),
    *("</mi>", "<script>", "]]>", "&lt;", '"', "'", "`", "x", "α", "é", "…", "數", "\n", "\0", "\u202e", "\ud800"),
)
HOSTILE = st.one_of(
    st.text(max_size=12),
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
)


def commands(made: str) -> set[str]:
    return set(re.findall(r"\\(?:[A-Za-z]+|.)", made, re.DOTALL))


def assert_tame(made: str) -> None:
    """Only our commands, and braces that match; no character that means something to TeX is left."""
    assert commands(made) <= COMMANDS, commands(made) - COMMANDS
    bare = re.sub(r"\\(?:[A-Za-z]+|.)", "", made, flags=re.DOTALL)
    assert not set(bare) & set('%#&~"'), bare
    assert bare.isascii()
    assert bare.count("{") == bare.count("}")
    assert "^^" not in bare
    assert all(char >= " " for char in bare)


@given(HOSTILE, st.booleans())
def test_a_name_is_no_command(name: str, is_map: bool) -> None:
    made = latex.write(written(name, is_map))
    assert_tame(made)
    assert "$" not in made


@given(HOSTILE)
def test_running_text_is_no_command(said: str) -> None:
    assert_tame(latex.write(Words(said)))


@given(HOSTILE)
def test_a_text_of_mathml_is_text(said: str) -> None:
    made = mathml.formula([Line(Word(said), "=", row(written(said), Words(said)), Words(said))])
    tree = ET.fromstring(made)
    known = {"math", "mtable", "mtr", "mtd", "mrow", "mi", "mn", "mo", "mtext", "mspace"}
    assert {one.tag.partition("}")[2] for one in tree.iter()} <= known | {"msub", "msup", "msubsup", "mover"}
    assert {key for one in tree.iter() for key in one.attrib} <= set(mathml.ATTRIBUTES)
    assert tree.find(".//{*}mtr/{*}mtd/{*}mrow/{*}mi").text in (mathml.clean(said), None, "")  # type: ignore[union-attr]


@given(HOSTILE)
def test_unicode_steers_no_terminal(said: str) -> None:
    made = text.line(Line(written(said), "=", Words(said), Word(said)))
    assert all(unicodedata.category(char)[0] != "C" for char in made)


def test_the_page_in_the_docs_says_what_is_done() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "tex.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| [^|]* \|$", page.partition("## Names")[2], re.MULTILINE)
    assert len(rows) > 10
    for name, tex in rows:
        assert latex.write(written(name)) == tex


def test_the_formulas_of_the_docs_are_what_comes_out() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "tex.md").read_text("utf-8")
    spec = page.partition("```formula\n")[2].partition("```")[0]
    made = [line for part in parts_of(facts_of(spec)) for line in part.all_lines]
    assert latex.aligned(made) == page.partition("```math\n")[2].partition("\n```")[0]
