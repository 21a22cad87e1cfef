"""Pictures: what is in them, that nothing overlaps or is crossed, that no text of a spec becomes markup."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from transformula.backends.draw import FORMATS, draw, draw_bytes, picture, png, svg
from transformula.backends.draw.html import unpacked
from transformula.backends.draw.look import Look
from transformula.backends.draw.mermaid import MAX_CHARACTERS, MAX_EDGES
from transformula.backends.draw.picture import Box, Cluster, Picture
from transformula.compiler.driver import Compiled, compile_graph
from transformula.grammar.diagnostics import TransformulaError

ROOT = Path(__file__).resolve().parents[3]
SMALL = ROOT / "examples" / "attention.formula"
MODELS = [
    ("bert", "Bert"),
    ("bert", "BertForMaskedLM"),
    ("bert", "pretraining"),
    ("sbert", "SentenceBert"),
    ("sbert", "AttentionPooledBert"),
    ("sbert", "Similarities"),
]

NASTY = """\
spec nasty
model Nasty(x[seq, d] as inputs) → [seq, d] = E[vocab = 0] + x  # "quoted" <script>alert(1)</script>
    weights E : [vocab, d]
config
    vocab = 3
    d = 4
"""


@lru_cache
def compiled(spec: str | Path, entry: str | None = None, layers: int = 12) -> Compiled:
    settings = {"layers": layers} if spec == "bert" else {}
    return compile_graph(spec, entry=entry, settings=settings, until="formula")


def drawn(
    spec: str | Path, entry: str | None = None, depth: int | None = None, full: bool = False, layers: int = 12
) -> Picture:
    return picture(compiled(spec, entry, layers), depth=depth, full=full)


# --- what is in a picture -------------------------------------------------------------------------


def names(made: Picture) -> list[str]:
    return [box.name or box.formula for box in made.top.boxes()]


def test_the_equations_of_a_block_are_its_boxes() -> None:
    assert names(drawn(SMALL)) == [
        "x",
        "Q",
        "m",
        "K",
        "scores",
        "A",
        "V",
        "heads",
        "x + heads @ W_O",
        "outputs",
    ]


def test_a_box_has_formula_axes_and_weights() -> None:
    (box,) = (box for box in drawn(SMALL).top.boxes() if box.name == "Q")
    assert (box.formula, box.axes, box.weights) == (
        "x @ W_Q",
        ("batch", "seq", "head", "dk"),
        ("W_Q : [d → head dk]",),
    )


def test_an_edge_carries_the_axes_of_what_is_read() -> None:
    made = drawn(SMALL)
    name = {box.ident: box.name for box in made.top.boxes()}
    assert [edge.axes for edge in made.edges if name[edge.source] == "K"] == [("batch", "key", "head=4", "dk=16")]


def test_layers_are_drawn_once() -> None:
    made = [drawn("bert", layers=count) for count in (2, 12, 48)]
    shapes = [
        ([box.name for box in one.top.boxes()], [(edge.source, edge.target) for edge in one.edges])
        for one in made
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert [[cluster.times for cluster in one.top.clusters() if cluster.times] for one in made] == [
        ["×2"],
        ["×12"],
        ["×48"],
    ]


@pytest.mark.parametrize(("spec", "entry"), MODELS)
def test_depths_are_nested(spec: str, entry: str) -> None:
    deepest = {one.ident for one in drawn(spec, entry, full=True).top.clusters()}
    for depth in (0, 1, 2, 3):
        less, more = drawn(spec, entry, depth), drawn(spec, entry, depth + 1)
        opened = {cluster.ident for cluster in more.top.clusters()}
        kept = {box.ident for box in more.top.boxes()}
        assert {box.ident for box in less.top.boxes() if box.kind != "output"} <= kept | opened
        assert opened <= deepest


def test_depth_0_is_the_model_with_closed_blocks() -> None:
    assert [box.name for box in drawn("bert", depth=0).top.boxes() if box.kind == "block"] == [
        "embed : Embeddings",
        "layer[l] : Layer ×12",
        "pool : Pooler",
    ]


def test_full_opens_blocks_of_a_single_equation() -> None:
    assert "μ" not in names(drawn("bert"))
    assert "μ" in names(drawn("bert", full=True))


@pytest.mark.parametrize(("spec", "entry"), MODELS)
def test_edges_join_boxes_of_the_picture(spec: str, entry: str) -> None:
    made = drawn(spec, entry)
    idents = [box.ident for box in made.top.boxes()]
    assert len(set(idents)) == len(idents)
    assert {end for edge in made.edges for end in (edge.source, edge.target)} <= set(idents)
    alone = set(idents) - {end for edge in made.edges for end in (edge.source, edge.target)}
    assert [box.name for box in made.top.boxes() if box.ident in alone and box.kind != "input"] == []


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "html"])
def test_golden(form: str, regen: bool) -> None:
    text = draw(compiled(SMALL), form)
    path = Path(__file__).parent / "golden" / f"attention.{form}"
    text = text.replace(str(SMALL), SMALL.name)
    if regen:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_in_every_process(form: str) -> None:
    script = (
        "import sys\n"
        "from transformula.backends.draw import draw\n"
        "from transformula.compiler.driver import compile_graph\n"
        "sys.stdout.buffer.write(draw(compile_graph('bert', until='formula'), sys.argv[1]).encode())"
    )
    command = [sys.executable, "-c", script, form]
    for seed in ("1", "2"):
        done = subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        assert done.stdout == draw(compiled("bert"), form).encode()


def hostile() -> Picture:
    """A small picture whose every text tries to be more than a text."""
    made = drawn(SMALL)
    evil = (
        '"]; click n0 javascript:alert(1) <script>alert(1)</script> `x` \\" & --> %%{init}%% </svg> </script>'
    )
    made.top.name = evil
    for number, item in enumerate(made.top.items):
        assert isinstance(item, Box)
        made.top.items[number] = Box(item.ident, item.kind, evil, evil, (evil,), (evil,), item.span)
    inner = Cluster('b:"><script>', evil, evil, evil, items=made.top.items[1:3])
    made.top.items[1:3] = [inner]
    return Picture(evil, made.top, made.edges, made.folded)


def test_no_text_becomes_markup() -> None:
    drawn = svg.write(hostile())
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(drawn).iter()}
    assert tags == {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
    assert not re.search(r"\b(href|src|on[a-z]+)\s*=", drawn)


def test_the_lines_of_a_spec_become_no_markup() -> None:
    made = draw(compile_graph(NASTY, until="formula"), "html")
    assert "<script>alert(1)" in unpacked(made)  # the page's data, packed
    assert "<script>alert" not in made


def test_mermaid_labels_hold_no_markup() -> None:
    from transformula.backends.draw.mermaid import write

    for line in write(hostile()).splitlines()[1:]:
        assert line.count('"') in (0, 2)
        inside = line.partition('"')[2].rpartition('"')[0]
        assert not set(re.sub(r"</?b>|<br/>", "", inside)) & set('<>&"`\\%')
        outside = line.replace(inside, "") if inside else line
        assert re.fullmatch(r'\s*(n\d+\S*("")?\S*|subgraph g\w+\[""\]|end|n\d+ -->(\|""\|)? n\d+)', outside)


def test_dot_strings_end_where_they_should() -> None:
    from transformula.backends.draw.dot import write

    text = re.sub(r'"(?:[^"\\]|\\.)*"', "S", write(hostile()))
    assert '"' not in text
    assert "script" not in text


def test_mermaid_stays_within_its_limits() -> None:
    equations = "\n".join(f"          y{i} = y{i - 1} @[d] y{i - 1} + y{i - 1}" for i in range(1, 400))
    block = f"block B(x[d]) → [d] = y399\n    where y0 = x + 1\n{equations}\n"
    model = "model M(x[seq, d] as inputs) → [seq, d] = b(x)\n    uses b : B\n"
    text = f"spec long\nconfig\n    d = 4\n{block}{model}"
    made = draw(compile_graph(text, until="formula"), "mermaid")
    assert made.count("-->") < MAX_EDGES
    assert len(made) < MAX_CHARACTERS
    assert "b : B" in made


def test_unknown_format_and_stage_are_errors() -> None:
    with pytest.raises(TransformulaError, match="no picture `png`"):
        draw(compiled(SMALL), "png")
    with pytest.raises(TransformulaError, match="no stage `formla`"):
        draw(compiled(SMALL), "svg", "formla")


# --- pixels ---------------------------------------------------------------------------------------


def image(made: Picture, look: Look) -> Image.Image:
    return Image.open(BytesIO(png.write(made, look))).convert("RGB")


def test_a_png_is_the_svg_at_its_scale() -> None:
    made = drawn(SMALL)
    found = re.search(r'width="(\d+)" height="(\d+)"', svg.write(made))
    one, two = (image(made, Look(scale=scale)) for scale in (1.0, 2.0))
    assert found
    assert one.size == (int(found[1]), int(found[2]))
    assert two.size == (2 * one.width, 2 * one.height)
    assert image(made, Look(theme="dark")).getpixel((40, 3)) == (13, 17, 23)
    assert one.getpixel((40, 3)) == (255, 255, 255)


def test_every_sign_of_the_specs_is_in_the_font_of_pngs() -> None:
    """A picture of one sign has its shape, and not the box that stands for a sign that is not there."""
    texts = [path.read_text("utf-8") for path in (ROOT / "specs").rglob("*.formula")]
    signs = sorted({c for text in texts for c in text if c.isprintable() and c > "~"}) + list("≤≥∞√⊙Φ∈‖×≡")
    missing = _pixels("\U0010fff0")
    assert [sign for sign in signs if _pixels(sign) == missing] == []
    assert len({_pixels(sign) for sign in "√⊙Φ∈≤∞θβγ"}) == 9


@lru_cache
def _pixels(sign: str) -> bytes:
    made = drawn(SMALL)
    made = Picture("", Cluster("model", "", items=[Box("b", "equation", sign)]), (), made.folded)
    return image(made, Look(scale=1.0)).tobytes()


def test_a_png_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(TransformulaError, match=r"C660.*resvg-py") as caught:
        png.write(drawn(SMALL))
    assert "pip install 'transformula[png]'" in str(caught.value)


def test_a_png_too_large_to_look_at_is_refused() -> None:
    with pytest.raises(TransformulaError, match=r"C661.*too large"):
        png.write(drawn("bert"), Look(scale=16.0))


def test_the_bytes_of_a_picture_are_its_text() -> None:
    assert draw_bytes(compiled(SMALL), "svg") == draw(compiled(SMALL), "svg").encode()
    assert draw_bytes(compiled(SMALL), "png").startswith(b"\x89PNG")
