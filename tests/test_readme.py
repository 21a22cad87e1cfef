"""The README shows what is true: its spec, its output and its pictures are what the commands make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from transformula.cli import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PICTURES = {
    "attention": ["examples/attention.formula"],
    "bert": ["bert", "--depth", "1"],
    "albert": ["albert", "--depth", "1"],
    "t5": ["t5", "--entry", "T5ForConditionalGeneration", "--depth", "2", "--direction", "right"],
    "bert_final": ["bert", "--depth", "2", "--stage", "final"],
}
"""The pictures of docs/pictures, of the README and of docs/pictures.md, by the options that make them."""


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_fresh(name: str, regen: bool) -> None:
    path = ROOT / "docs" / "pictures" / f"{name}.svg"
    drawn = CliRunner().invoke(app, ["graph", *PICTURES[name], "--format", "svg"]).stdout
    if regen:
        path.write_text(drawn, "utf-8")
    assert path.read_text("utf-8") == drawn, "write it anew with pytest --regen"


def test_the_page_shows_its_pictures_with_their_commands() -> None:
    page = (ROOT / "docs" / "pictures.md").read_text("utf-8")
    for name in re.findall(r"\(pictures/(\w+)\.svg\)", page):
        assert f"transformula graph {' '.join(PICTURES[name])} -o {name}.svg" in page


def test_the_spec_is_the_example() -> None:
    assert f"```\n{(ROOT / 'examples' / 'attention.formula').read_text('utf-8')}```" in README


@pytest.mark.parametrize("command", ["check", "explain"])
def test_output_is_what_the_command_prints(command: str) -> None:
    """Every line below `$ transformula …` that is not shortened is a line of the output."""
    match = re.search(rf"    \$ (transformula {command} .*)\n((?:    .*\n)+)", README)
    assert match
    printed = CliRunner().invoke(app, match[1].split()[1:]).stdout.splitlines()
    wanted = [line[4:] for line in match[2].splitlines() if line.strip() != "…"]
    for line in wanted:
        start = line.removesuffix("…")
        assert any(one == line or (one.startswith(start) and start != line) for one in printed), line
