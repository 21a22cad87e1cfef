"""Notebooks: the magic `%%formula`, how objects show themselves, hostile names, and examples/tour.ipynb executed."""

from __future__ import annotations

import base64
import gc
import html.parser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient

import transformula
from transformula.backends.display import MOST_BOXES, program_html, small_picture, table_html
from transformula.compiler.driver import compile_graph, load_module
from transformula.compiler.modules import Module

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "examples" / "tour.ipynb"
CELL = (ROOT / "examples" / "attention.formula").read_text("utf-8")


@pytest.fixture(scope="module")
def loaded() -> Iterator[InteractiveShell]:
    """A shell with the extension. Each reset looks for garbage: not in all that the tests before have left there."""
    gc.freeze()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "transformula")
    yield shell
    InteractiveShell.clear_instance()
    gc.unfreeze()


@pytest.fixture
def shell(loaded: InteractiveShell) -> InteractiveShell:
    loaded.reset()  # type: ignore[no-untyped-call]
    return loaded


def run(shell: InteractiveShell, line: str, cell: str = CELL) -> Any:
    """(did it work, standard output, what was displayed) of a cell."""
    with capture_output() as found:
        done = shell.run_cell(f"%%formula {line}\n{cell}")  # type: ignore[no-untyped-call]
    return done.success, found.stdout + found.stderr, [one.data for one in found.outputs]


def mimes(shell: InteractiveShell, value: Any) -> dict[str, Any]:
    """How the shell shows a value, by kind."""
    assert shell.display_formatter is not None
    found: dict[str, Any] = shell.display_formatter.format(value)[0]  # type: ignore[no-untyped-call]
    return found


# --- the magic -----------------------------------------------------------------------------------------------


def test_a_cell_becomes_a_program_under_its_name(shell: InteractiveShell) -> None:
    good, told, shown = run(shell, "attention --set d=32 --set head=2")
    assert good
    assert shown == []
    assert "Q : [(batch), seq, head, dk]" in told
    program = shell.user_ns["attention"]
    assert isinstance(program, transformula.Program)
    assert {one.name: one.shape for one in program.compiled.formula.weights}["W_Q"] == (32, 2, 16)
    assert "class Attention" in program.source
    assert "9 | " not in run(shell, "attention --quiet")[1]


def test_a_cell_is_drawn(shell: InteractiveShell) -> None:
    good, _, (shown,) = run(shell, "attention --quiet --draw svg")
    assert good
    assert svg_in(shown["text/html"]).startswith("<svg ")
    (mermaid,) = run(shell, "attention --quiet --draw mermaid --depth 1")[2]
    assert mermaid["text/markdown"].startswith("```mermaid\n")


def test_a_mistake_is_its_line_and_caret_and_fails_the_cell(shell: InteractiveShell) -> None:
    good, told, _ = run(shell, "attention", CELL.replace("x @ W_Q", "x @ W_QQ"))
    assert not good
    assert "attention" not in shell.user_ns
    assert told == (
        "error[N201]: unknown name `W_QQ`\n"
        "  --> <attention>:16:19\n"
        "   |\n"
        "16 |           Q = x @ W_QQ\n"
        "   |                   ^^^^\n"
        "   = help: Did you mean W_Q?\n"
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("3rd", "C671"),
        ("class", "C671"),
        ("a --set d", "C625"),
        ("a --set e=3", "C616"),
        ("a --backend jax", "C621"),
        ("a --entry Nobody", "N230"),
        ("a --config nowhere.json", "C60"),
    ],
)
def test_wrong_options_are_told_without_a_traceback(shell: InteractiveShell, line: str, code: str) -> None:
    good, told, _ = run(shell, line)
    assert not good
    assert code in told
    assert "Traceback" not in told
    assert "a" not in shell.user_ns


def test_an_unknown_option_is_a_usage_error(shell: InteractiveShell) -> None:
    good, told, _ = run(shell, "a --nothing")
    assert not good
    assert "UsageError: unrecognized arguments: --nothing" in told
    assert "UsageError: No closing quotation" in run(shell, "a 'b")[1]
    assert "UsageError: argument --draw: invalid choice" in run(shell, "a --draw gif")[1]


# --- what is shown -------------------------------------------------------------------------------------------


def svg_in(text: str) -> str:
    """The picture in an image of HTML."""
    (found,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text)
    return base64.b64decode(found).decode("utf-8")


def test_programs_pictures_and_summaries_show_themselves(shell: InteractiveShell) -> None:
    program = transformula.compile("bert")
    shown = mimes(shell, program)
    assert "109,482,240 numbers" in shown["text/html"]
    assert "last_hidden_state[batch, seq, d]" in shown["text/html"]
    assert "pooler_output" in svg_in(shown["text/html"])
    assert len(shown["text/html"]) < 100_000
    picture = small_picture(program.compiled)
    assert sum(1 for _ in picture.top.boxes()) <= MOST_BOXES
    assert svg_in(mimes(shell, picture)["text/html"]) == svg_in(shown["text/html"])
    summary = mimes(shell, transformula.summary(program))
    assert "23,837,184" in summary["text/html"]
    assert summary["text/plain"].startswith("Bert of bert; costs are for 8 examples")


def test_specs_and_graphs_are_shown_by_the_extension(shell: InteractiveShell) -> None:
    compiled = compile_graph(CELL)
    spec = mimes(shell, compiled.module)
    assert spec["text/plain"] == "<Module attention>"
    assert "attend" in spec["text/html"]
    assert r"\mathrm{Attention}(x) &= x + \mathrm{heads}\,W^{O}" in spec["text/latex"]
    for value, name in ((compiled.graph, "Graph"), (compiled, "Compiled")):
        shown = mimes(shell, value)
        assert shown["text/plain"] == f"<{name} Attention>"
        assert "heads" in svg_in(shown["text/html"])


def test_differences_show_themselves(shell: InteractiveShell) -> None:
    text = "spec s\nmodel M(x[seq, d] as inputs) → [seq, d] = {}\nconfig\n    d = 4\n"
    made = transformula.diff(text.format("x + 1"), text.format("x + 2"))
    shown = mimes(shell, made)
    assert "x + 1" in shown["text/html"]
    assert "x + 2" in shown["text/html"]
    assert not {"html", "script", "iframe"} & set(elements(shown["text/html"]))
    assert shown["text/plain"].startswith("<Difference text → text: ")


# --- hostile names -------------------------------------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(text: str) -> list[str]:
    """The names of a page's elements; none has an attribute that runs anything or leads anywhere."""
    page = Elements()
    page.feed(text)
    for _, attributes in page.found:
        assert set(attributes) <= {"style", "src", "alt", "class", "scope", "title", "aria-label"}
        assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
    return [tag for tag, _ in page.found]


HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)> javascript:alert(3) </pre></details>"
KNOWN = {"div", "b", "table", "tr", "th", "td", "img", "details", "summary", "pre"}


def test_hostile_texts_stay_texts(shell: InteractiveShell) -> None:
    text = CELL.replace("# One attention layer over a sentence.", f"# {HOSTILE}")
    module = load_module(text)
    assert HOSTILE in module.file.span.source.text
    shown = mimes(shell, module)["text/html"]
    assert set(elements(shown)) <= KNOWN
    assert elements(shown).count("img") == 0
    hostile = Module(HOSTILE, module.file, module.entries, [HOSTILE], module.options)
    assert set(elements(mimes(shell, hostile)["text/html"])) <= KNOWN
    program = transformula.compile(text)
    object.__setattr__(program.compiled, "entry", HOSTILE)
    assert set(elements(program_html(program))) <= KNOWN
    assert elements(table_html([HOSTILE], [[HOSTILE]])) == ["table", "tr", "th", "tr", "td"]


# --- a real notebook -----------------------------------------------------------------------------------------


def test_the_tour_is_stripped_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    tour = nbformat.read(TOUR, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in tour.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    NotebookClient(tour, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]
    printed = "".join(one.text for one in cells[1].outputs if one.output_type == "stream")
    shown = [one for cell in cells for one in cell.outputs if one.output_type != "stream"]
    drawn, summed, spec, shape = shown
    assert "heads : [(batch), seq, head, dk]" in printed
    assert "heads" in svg_in(drawn.data["text/html"])
    assert "4,096, all trained" in summed.data["text/html"]
    assert r"\mathrm{softmax}" in spec.data["text/latex"]
    assert shape.data["text/plain"] == "(2, 4, 32)"


def test_the_front_door_brings_no_ipython() -> None:
    assert "load_ipython_extension" not in transformula.__all__
    assert callable(getattr(transformula, "load_ipython_extension", None))
    script = "import sys, transformula; transformula.compile; print('IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "False"
