"""Every formula of the page from our specs: equal after normalisation, or different for a reason that is written down.

docs/formula_page.md is the table; `--regen` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.tex import normal, page
from tests.backends.tex.page_rows import ROWS
from transformula.backends.tex.latex import write
from transformula.backends.tex.names import written

TABLE = page.ROOT / "docs" / "formula_page.md"
HEAD = """\
# The page of formulas, from our specs

Each formula of the page that transformula began with, beside what `transformula tex` makes of our spec. Whether two are
equal is computed by a test, which also writes this page. Put away before is what says nothing: space, fonts, sizes of
brackets, the dot of a product, T for ⊤. What a name is called on the page stands in the last column; so do parts and
defaults that are written in place, and sides of an equation that compare alone. A row that differs has its reason.

"""
RULE = "| page | ours | where | |\n| --- | --- | --- | --- |\n"


def inline(latex: str) -> str:
    """A formula in a table of Markdown: no bar may end its cell."""
    bars = latex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    return f"$`{bars.strip()}`$"


def verdict(formula: str, row: page.Row) -> str:
    """equal, with which names; or the reason."""
    if not page.is_equal(formula, row):
        return f"differs: {row.reason}".replace("|", r"\|")
    sides = {(): "", (1,): " (right side)", (0, 1): " (first two sides)"}[row.only]
    told = [f"{inline(old)} is {inline(new) if new.strip() else 'left out'}" for old, new in row.same]
    told += [f"`{name}` is put in place" for name in row.put] + [f"{name} = {value}" for name, value in row.at]
    return f"equal{sides}" + (f"; {', '.join(told)}" if told else "") + (f" ({row.note})" if row.note else "")


def table() -> str:
    """The whole page."""
    rows = []
    for formula, row in zip(page.formulas(), ROWS, strict=True):
        where = f"{Path(row.spec).stem}: {row.name}"
        rows.append(f"| {inline(formula)} | {inline(page.ours(row))} | {where} | {verdict(formula, row)} |")
    equal = sum(page.is_equal(*pair) for pair in list(zip(page.formulas(), ROWS, strict=True)))
    return f"{HEAD}{equal} of {len(ROWS)} are equal.\n\n{RULE}" + "\n".join(rows) + "\n"


def test_every_formula_has_its_row() -> None:
    text = (page.HERE / "formula_page.txt").read_text("utf-8")
    assert text.count(r"\[") == text.count(r"\]") == 70
    # three lines hold 2, 3 and 3 equations, two hold 3 and 2 below each other; and four corruptions have a name alone
    assert len(page.formulas()) == len(ROWS) == 70 + 1 + 2 + 2 + 1 + 4


@pytest.mark.parametrize(("formula", "row"), list(zip(page.formulas(), ROWS, strict=True)))
def test_row_is_equal_or_has_a_reason(formula: str, row: page.Row) -> None:
    assert page.is_equal(formula, row) != bool(row.reason), (formula, page.ours(row))


@pytest.mark.parametrize("row", [row for row in ROWS if row.same], ids=lambda row: f"{row.name}-{row.part}")
def test_every_name_of_a_row_is_needed(row: page.Row) -> None:
    formula = page.formulas()[ROWS.index(row)]
    for left_out in row.same:
        fewer = page.Row(**{**row.__dict__, "same": tuple(one for one in row.same if one is not left_out)})
        assert not page.is_equal(formula, fewer), left_out


def test_most_are_equal() -> None:
    assert sum(not row.reason for row in ROWS) >= 45


def test_the_page_in_the_docs_is_fresh(regen: bool) -> None:
    if regen:
        TABLE.write_text(table(), "utf-8")
    assert TABLE.read_text("utf-8") == table(), "docs/formula_page.md is written anew by --regen; read the diff"


# ------------------------------------------------------------------------------------------- the normal form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\text{softmax}\left(x\right)", r"\mathrm{softmax}(x)"),
        (r"\mathbf{u} \cdot \mathbf{v}", "uv"),
        ("x_{i}^{2}", "x_i^2"),
        ("x^2_i", "x_{i}^{2}"),
        (r"QK^\top", "QK^T"),
        (r"\tanh\left[x\right]", r"\tanh(x)"),
        (r"\mathcal{L}_{\text{MLM}}", r"L_{\mathrm{MLM}}"),
    ],
)
def test_two_spellings_are_one(one: str, other: str) -> None:
    assert normal.tokens(one) == normal.tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x_i", "x^i"),
        ("x_i", "xi"),
        (r"\frac{a}{b}c", r"\frac{a}{bc}"),
        (r"\sqrt{a+b}", r"\sqrt{a}+b"),
        ("[u; v]", "(u; v)"),
        (r"\sum_{i=1}^{n}", r"\sum_{i}"),
        (r"\text{ab}", r"\text{a}\text{b}"),
        ("a - b", "b - a"),
        (r"\gamma \odot x", r"\gamma x"),
    ],
)
def test_two_meanings_are_two(one: str, other: str) -> None:
    assert normal.tokens(one) != normal.tokens(other)


@given(st.lists(st.sampled_from(["x", "W_Q", "layer_norm", "α", "d_k", "LN_1", "x'", "b"]), min_size=2, max_size=6))
def test_other_names_are_other_tokens(found: list[str]) -> None:
    shown = [tuple(normal.tokens(write(written(one)))) for one in found]
    assert len(set(shown)) == len(set(found))
