"""docs/specs/: a page for each shipped spec, made by `transformula docs`, fresh, whole, and safe.

`--regen` writes the pages and their index anew.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from transformula.backends.docs import Page, index, page
from transformula.backends.draw.mermaid import MAX_CHARACTERS, MAX_EDGES
from transformula.cli import app
from transformula.compiler.driver import compile_graph
from transformula.compiler.modules import shipped

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "specs"
FILES = {f"{Path(name).stem}.md": name for name in sorted(shipped(), key=lambda name: (name.startswith("lib/"), name))}
LINKS = {Path(name).stem: file for file, name in FILES.items()}
HEAD = """\
# The shipped specs

A page for each, written by `transformula docs NAME`: its formulas beside its text, a picture of its first model, the
weights with their shapes and the names that files give them, and its config.

"""
LONGEST = 60_000  # characters of a page that a browser still shows at once


@cache
def made(file: str) -> Page:
    return page(FILES[file], links=LINKS)


def compared(path: Path, text: str, regen: bool) -> None:
    if regen:
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, f"docs/specs/{path.name} is written anew by --regen; read the diff"


@pytest.mark.parametrize("file", FILES)
def test_page_is_fresh(file: str, regen: bool) -> None:
    compared(FOLDER / file, made(file).text, regen)


def test_index_is_fresh_and_whole(regen: bool) -> None:
    compared(FOLDER / "README.md", HEAD + index({file: made(file) for file in FILES}) + "\n", regen)
    assert {path.name for path in FOLDER.iterdir()} == {*FILES, "README.md"}


@pytest.mark.parametrize("file", FILES)
def test_page_is_of_a_size_to_read(file: str) -> None:
    text = made(file).text
    assert len(text) < LONGEST
    for picture in re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert len(picture) < MAX_CHARACTERS
        assert picture.count("-->") < MAX_EDGES


@pytest.mark.parametrize("file", FILES)
def test_every_equation_of_the_file_has_its_formula(file: str) -> None:
    text = made(file).text
    headings = re.findall(r"^### (?:change of )?(\w+) (\S+)", text, re.MULTILINE)
    blocks = re.findall(r"^```math\n\\begin\{aligned\}\n(.+?)\n\\end\{aligned\}\n```$", text, re.MULTILINE | re.DOTALL)
    assert len(headings) == len(blocks)
    assert all("&" in block for block in blocks)


TOTALS = {"bert.md": 109_482_240, "gpt2.md": 124_439_808, "t5.md": 60_506_624}


@pytest.mark.parametrize(("file", "total"), TOTALS.items())
def test_known_totals(file: str, total: int) -> None:
    assert made(file).parameters == total
    assert f"\n{total:,} numbers at the default sizes." in made(file).text


BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}


@pytest.mark.parametrize(
    ("spec", "config", "total"), [("albert", BASE, 11_683_584), ("roberta", ROBERTA, 124_645_632)]
)
def test_totals_of_other_sizes(spec: str, config: dict[str, int], total: int) -> None:
    assert page(spec, config=config).parameters == total


def test_rows_of_weights_add_up_and_say_where_files_keep_them() -> None:
    row = re.compile(r"^\| `(.+?)` \| `\[.*?\]` \| (.+?) \| ([\d,]+) \| (.*?) \| (.*?) \|$", re.MULTILINE)
    rows = row.findall(made("gpt2.md").text)
    weights = {one.name: one for one in compile_graph("gpt2", until="formula").formula.weights}
    assert [name for name, *_ in rows] == list(weights)
    for name, shape, count, _, _ in rows:
        sizes = [int(one) for one in shape.split(" × ")]
        assert tuple(sizes) == weights[name].shape
        assert math.prod(sizes) == int(count.replace(",", ""))
    stored = {name: where for name, _, _, where, _ in rows}
    notes = {name: note for name, *_, note in rows}
    assert stored["E"] == "`wte.weight`"
    assert stored["layer[layers].attn.W_Q"] == "`h.{l}.attn.c_attn.weight`"
    assert notes["layer[layers].attn.W_Q"].startswith("in one tensor with layer")


def test_a_tie_is_told() -> None:
    assert "`generator.bert.embed.E = discriminator.bert.embed.E`" in made("electra.md").text


def test_config_tells_default_value_and_key() -> None:
    assert "| `dk` | `d / head` | `64` |  |" in made("bert.md").text
    assert "| `d` | `768` |  | `hidden_size` |" in made("bert.md").text
    assert not any("object at 0x" in made(file).text or "Record(" in made(file).text for file in FILES)


def test_paper_and_base() -> None:
    paper = 'Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019.'
    assert paper in made("bert.md").text
    assert "It extends [bert](bert.md)" in made("roberta.md").text
    assert "It extends `bert`" in page("roberta").text


def test_every_architecture_names_its_paper() -> None:
    without = {file for file in FILES if not made(file).papers}
    assert without <= {"cross_entropy.md", "corruptions.md", "functions.md", "labels.md"}


def test_command_writes_the_page(tmp_path: Path) -> None:
    out = tmp_path / "bert.md"
    done = CliRunner().invoke(app, ["docs", "bert", "--set", "layers=2", "--depth", "1", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "| `layers` | `12` | `2` | `num_hidden_layers` |" in out.read_text("utf-8")
    assert CliRunner().invoke(app, ["docs", "gelu(x) = x * x\n"]).exit_code != 0


def test_a_deep_formula_has_its_page() -> None:
    assert r"\exp(\exp(" in page(f"f(x) = {'exp(' * 95}x{')' * 95}\n").text


HOSTILE = '''\
# <script>alert(1)</script> [link](javascript:alert) ![i](x) `code` | $x$ **bold** &amp; ```
# Eve, "A </td> paper", 2020.
spec nasty
config
    d = 4 as x
model Nasty(x[d] as inputs) → [d] = f(x)  # ``` <b>
# </code> ~~~ <img src=x onerror=alert(1)>
f(x) = x * y
    where
        # ```` </pre> <script>
        y = 2
checkpoint huggingface of Nasty
    skip "<img>`|"
'''


def test_nothing_of_a_spec_becomes_markup() -> None:
    text = page(HOSTILE).text
    prose = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"(?<![\\`])(`+)(?!`).+?(?<!`)\1(?!`)", "", prose)
    assert not re.search(r"(?<!\\)[<\[$*|~`](?!\s*---)", re.sub(r"^\|.*\|$", "", prose, flags=re.MULTILINE))
    assert "&#60;script&#62;" in text
    assert "\n`````text\nf(x) = x * y" in text
