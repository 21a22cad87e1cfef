"""Whole documents: LaTeX that compiles, MathML that a browser draws, and both against another converter."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, reject, settings
from latex2mathml.converter import convert
from playwright.sync_api import Page, sync_playwright

from tests.fuzz.strategies import specs
from transformula.backends.tex import FORMATS, facts_of, latex, mathml, parts_of, text, typeset
from transformula.backends.tex.tree import Line
from transformula.cli import app
from transformula.compiler.modules import shipped
from transformula.grammar.diagnostics import TransformulaError

NAMES = sorted(shipped())
WRITTEN = [name for name in NAMES if name != "data2vec_text"]  # which only changes config
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@cache
def lines(name: str) -> tuple[Line, ...]:
    return tuple(line for part in parts_of(facts_of(name)) for line in part.all_lines)


# ------------------------------------------------------------------------------------------------------ LaTeX


def compiled(folder: Path, document: str) -> str:
    """The log of pdflatex; the document compiles."""
    (folder / "page.tex").write_text(document, "utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    log = (folder / "page.log").read_text("latin-1")
    assert done.returncode == 0, log[-3000:]
    assert (folder / "page.pdf").stat().st_size > 10_000
    return log


def test_every_shipped_spec_compiles(tmp_path: Path) -> None:
    """All of them as one document: the bodies behind each other, as wide as the widest."""
    made = [typeset(name) for name in WRITTEN]
    widest = max(made, key=lambda one: int(re.findall(r"paperwidth\}\{(\d+)mm", one)[0]))
    start, _, _ = widest.partition(r"\begin{document}")
    bodies = [one.partition(r"\begin{document}")[2].partition(r"\end{document}")[0] for one in made]
    log = compiled(tmp_path, f"{start}\\begin{{document}}{''.join(bodies)}\\end{{document}}\n")
    assert "Overfull" not in log
    assert "Missing character" not in log
    assert "undefined" not in log


def test_a_document_needs_two_packages_alone(tmp_path: Path) -> None:
    made = typeset("bert", entry="mlm")
    assert re.findall(r"\\usepackage\{(.*?)\}", made) == ["amsmath,amssymb"]
    assert "Overfull" not in compiled(tmp_path, made)


HOSTILE = r'''
spec nasty
config
    d = 4
    which : table = 1
choice table
    "\write18{ls} %$#&_^~{}<script>" = 1
# \end{document} \input{/etc/passwd} ^^5cinput $x$ % # & _ ~ { } </math> <script>alert(1)</script> "é" 数
model Nasty_input(x[d] as inputs) → [d] = x' + a_數_b * c + été + which
    where x' = 2 * x
          a_數_b = x
          c = 3
          été = x
'''


def test_a_hostile_spec_compiles_and_runs_nothing(tmp_path: Path) -> None:
    made = typeset(HOSTILE)
    assert "\\input" not in made
    assert made.count("\\end{document}") == 1
    log = compiled(tmp_path, made)
    assert "passwd" not in log


# ----------------------------------------------------------------------------------------------------- MathML


@pytest.mark.parametrize("name", WRITTEN)
def test_page_of_mathml_is_well_formed_and_says_what_it_shows(name: str) -> None:
    made = typeset(name, "html")
    tree = ET.fromstring(f"<all>{''.join(re.findall('<math.*?</math>', made))}</all>")
    found = tree.findall("{http://www.w3.org/1998/Math/MathML}math")
    assert len(found) == len(parts_of(facts_of(name)))
    for one in found:
        assert one.get("display") == "block"
        assert one.get("alttext")
        assert len({len(row) for row in one.iter("{http://www.w3.org/1998/Math/MathML}mtr") if len(row) > 2}) == 1


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=FLAGS)
        yield opened.new_page(viewport={"width": 1400, "height": 900})
        opened.close()


EMPTY = """() => [...document.querySelectorAll('mi, mn, mo, mfrac, msqrt, mtable, mtext')].filter(one => {
    const box = one.getBoundingClientRect();
    return one.textContent.trim() && (box.width <= 0 || box.height <= 0);
}).map(one => one.outerHTML)"""
OUTSIDE = """() => [...document.querySelectorAll('mrow, mfrac, msqrt')].filter(one => {
    const box = one.getBoundingClientRect(), around = one.closest('math').getBoundingClientRect();
    return box.top < around.top - 2 || box.bottom > around.bottom + 2;
}).map(one => one.outerHTML)"""
OVERLAPS = """() => {
    const found = [];
    for (const table of document.querySelectorAll('math > mtable')) {
        const rows = [...table.children].map(one => one.getBoundingClientRect());
        for (let i = 1; i < rows.length; i++) if (rows[i].top < rows[i - 1].bottom - 1) found.push(table.outerHTML);
    }
    return found;
}"""


@pytest.mark.parametrize("name", ["lib/functions", "bert", "deberta_v2", "llama"])
def test_a_browser_draws_every_sign(name: str, browser: Page, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(typeset(name, "html"), "utf-8")
    told: list[str] = []
    browser.on("console", lambda message: told.append(message.text))
    browser.on("pageerror", lambda error: told.append(str(error)))
    browser.goto(page.as_uri())
    assert browser.locator("math").count() == len(parts_of(facts_of(name)))
    assert browser.evaluate("document.querySelectorAll('merror').length") == 0
    for measured in (EMPTY, OUTSIDE, OVERLAPS):
        assert browser.evaluate(measured) == []
    assert told == []


def test_a_hostile_spec_runs_nothing_in_a_browser(browser: Page, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(typeset(HOSTILE, "html"), "utf-8")
    told: list[str] = []
    browser.on("dialog", lambda dialog: told.append(dialog.message))
    browser.goto(page.as_uri())
    assert browser.locator("script").count() == 0
    assert browser.locator("math").count() == 1
    assert "<script>" in browser.locator("section p").inner_text()
    assert told == []


DEEP = {
    "exp": f"f(x) = {'exp(' * 80}x{')' * 80}",
    "parentheses": f"f(x, y) = {'y * (1 + ' * 80}x{')' * 80}",
    "sums": f"f[d](x[d]) = {'sum[d](x * ' * 60}x{')' * 60}",
    "picks": f"f[d](x[d]) = {'x[d = ' * 60}0{']' * 60}",
    "parts": "spec t\nconfig\n    on = false\nmodel M(x[seq]) → [seq] = a30 + x if on else x\n    where a0 = x\n"
    + "".join(f"          a{n + 1} = a{n} * a{n} + a{n}\n" for n in range(30)),
    "stack": "spec t\nconfig\n    a = 1\nblock B() → [] = 1\nmodel M(x) → [] = x + b[0, 0, 0, 0, 0, 0, 0, 0]()\n"
    "    uses b[a, c, e, g, h, k, m, n] : B\naxes c = 1, e = 1, g = 1, h = 1, k = 1, m = 1, n = 1\n",
}


@pytest.mark.parametrize("spec", DEEP.values(), ids=DEEP)
def test_deep_formulas_take_no_time(spec: str) -> None:
    start = time.perf_counter()
    for form in FORMATS:
        with suppress(TransformulaError):  # what a check refuses is told
            assert typeset(f"{spec}\n", form)
    assert time.perf_counter() - start < 5


# ------------------------------------------------------------------------------- against another converter

SAME = {"ϵ": "ε", "ϕ": "φ", "-": "−"}
UNDER = {"munder": "msub", "mover": "msup", "munderover": "msubsup"}
RUNS = {"mi", "mn", "mo", "mtext"}


def shape(one: ET.Element) -> list[object]:
    """Texts and forms of a MathML tree: neighbours in one text, rows opened, limits as scripts."""
    tag = one.tag.partition("}")[2]
    if tag in RUNS and not len(one):
        return ["".join(SAME.get(char, char) for char in (one.text or "") if not char.isspace())]
    if tag == "mspace":
        return []
    inner: list[list[Any]] = [joined(shape(child)) for child in one]
    if tag in ("mrow", "mo", "mi", "mtext", "mtd", "math", "mstyle", "mpadded"):
        return [part for child in inner for part in child]
    if tag in ("msub", "msup", "msubsup") and inner[0] and _closes(inner[0][-1]):  # LaTeX's stand at the last bracket
        *before, last = inner[0]
        return [*before, last[:-1], (tag, (last[-1],), *map(tuple, inner[1:]))]
    return [(UNDER.get(tag, tag), *map(tuple, inner))]


def _closes(one: object) -> bool:
    return isinstance(one, str) and one[-1:] in tuple(")]|‖⌋⌉")


def joined(parts: list[object]) -> list[object]:
    """Texts that follow each other as one."""
    made: list[object] = []
    for one in parts:
        if isinstance(one, str) and made and isinstance(made[-1], str):
            made[-1] += one
        elif one != "":
            made.append(one)
    return made


def whole(one: ET.Element) -> list[object]:
    return joined(shape(one))


def assert_same(line: Line) -> None:
    """Our LaTeX, converted by another program, is our MathML."""
    for side in (line.left, line.right, line.behind):
        if side is not None:
            theirs = whole(ET.fromstring(convert(latex.write(side))))
            ours = whole(ET.fromstring(mathml.write(side)))
            assert ours == theirs, latex.write(side)


@pytest.mark.parametrize("name", WRITTEN)
def test_latex_and_mathml_are_the_same_to_another_converter(name: str) -> None:
    for line in lines(name):
        assert_same(line)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_any_spec_is_written_in_every_format(spec: str) -> None:
    try:
        known = facts_of(spec)
    except TransformulaError:  # a check refuses what nobody uses; a compilation leaves it out
        reject()
    for part in parts_of(known):
        for line in part.all_lines:
            made = latex.line(line)
            assert made.count("{") == made.count("}")
            assert text.line(line).count("(") == text.line(line).count(")")
            assert_same(line)
        ET.fromstring(mathml.formula(part.all_lines))


# ------------------------------------------------------------------------------------------------ the command


@pytest.mark.parametrize("form", FORMATS)
def test_command_writes_each_format(form: str, tmp_path: Path) -> None:
    out = tmp_path / "made"
    done = CliRunner().invoke(app, ["tex", "bert", "--name", "MultiHead", "--format", form, "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text("utf-8") == typeset("bert", form, ["MultiHead"])
    assert "heads" in out.read_text("utf-8")


def test_command_writes_one_formula_in_one_line() -> None:
    given = ["tex", "lib/functions", "--name", "attention", "--inline", "--format", "unicode"]
    done = CliRunner().invoke(app, given)
    assert done.output.split("\n")[-2] == "attention(Q, K, V) = softmax((QKᵀ) / √dₖ)V"


def test_settings_choose_what_is_checked() -> None:
    given = ["tex", "deberta_v2", "--name", "Disentangled", "--format", "unicode"]
    done = CliRunner().invoke(app, [*given, "--set", "relative=true", "--set", "pairs=c2p"])
    assert done.exit_code == 0, done.output


def test_mistakes_are_told() -> None:
    for command, code in (
        (["tex", "bert", "--name", "MultiHed"], "C650"),
        (["tex", "bert", "--entry", "Brt"], "C650"),
        (["tex", "data2vec_text"], "C651"),
        (["tex", "bert", "--set", "laers=2"], "C616"),
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 1
        assert code in done.output
    with pytest.raises(TransformulaError) as caught:
        typeset("bert", "docx")
    assert caught.value.diagnostics[0].code == "C653"
