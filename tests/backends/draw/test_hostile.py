"""Whatever a spec calls things, a picture is well-formed and runs nothing; however large it is, there is a picture."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.backends.draw import dot, mermaid, svg
from transformula.backends.draw.folding import Folded, fold
from transformula.backends.draw.large import BOXES
from transformula.backends.draw.layout import lay_out
from transformula.backends.draw.look import Look
from transformula.backends.draw.picture import Box, Cluster, Edge, Picture, make
from transformula.compiler import ir
from transformula.compiler.driver import compile_graph
from transformula.compiler.sizes import USUAL

SMALL = "spec small\nmodel M(x[seq, d] as inputs) → [seq, d] = x + 1\nconfig\n    d = 4\n"
PIECES = [
    '"', "'", "<", ">", "&", "`", "\\", "#", ";", "%%{init: {}}%%", "-->", "]]>", "<!--", "--!>", "</svg>", "</title>",
    "<script>alert(1)</script>", "javascript:alert(1)", "onload=x", "&#x22;", "\n", "\r", "\t", "\0", "\x1b", "\x7f",
    "漢", "\x85", "\u2028", "\u200d", "\ufeff", "\ufffe", "\ud800", "end", "click n0", "subgraph", "@import", "y\u0302",
]  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=6).map("".join)
LONG = st.one_of(TEXT, TEXT.map(lambda text: (text or "x") * 400))


@cache
def folded() -> Folded:
    """The blocks of a small model, whose texts pictures replace."""
    compiled = compile_graph(SMALL, until="formula")
    return fold(compiled.formula, compiled.module)


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Three boxes in a cluster, and two outside, with texts of all kinds."""
    kinds = ("input", "equation", "block", "state", "output")
    boxes: list[Box | Cluster] = [
        Box(f"{i}{draw(TEXT)}", kind, draw(LONG), draw(LONG), (draw(TEXT),), (draw(LONG),), shared=(draw(TEXT),))
        for i, kind in enumerate(kinds)
    ]
    inner = Cluster(f"b:{draw(TEXT)}", draw(LONG), draw(TEXT), draw(TEXT), items=boxes[1:4], shared=(draw(LONG),))
    top = Cluster("model", draw(TEXT), items=[boxes[0], inner, boxes[4]])
    idents = [box.ident for box in top.boxes()]
    edges = tuple(
        Edge(a, b, (draw(TEXT), draw(TEXT)), draw(TEXT), draw(TEXT)) for a, b in pairwise(idents)
    )
    return Picture(draw(LONG), top, edges, folded(), notes=(draw(TEXT),))


@settings(max_examples=60, deadline=None)
@given(pictures(), st.booleans())
def test_svg_is_well_formed_and_has_no_scripts(made: Picture, right: bool) -> None:
    text = svg.write(made, Look(right))
    root = ET.fromstring(text.encode("utf-8"))
    allowed = {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
    for element in root.iter():
        assert element.tag.rpartition("}")[2] in allowed
        assert not [name for name in element.attrib if name.startswith("on") or "href" in name]
    assert "<script" not in text


@settings(max_examples=60, deadline=None)
@given(pictures(), st.booleans())
def test_mermaid_lines_are_nothing_but_boxes_and_edges(made: Picture, right: bool) -> None:
    text = mermaid.write(made, Look(right))
    text.encode("utf-8")
    for line in text.split("\n")[1:-1]:
        assert line.isprintable()
        assert line.count('"') in (0, 2)
        inside = line.partition('"')[2].rpartition('"')[0]
        assert not set(re.sub(r"</?b>|<br/>", "", inside)) & set('<>&"`\\%')
        outside = line.replace(f'"{inside}"', '""')
        known = r'n\d+\S*""\S*|subgraph g\w+\[""\]|end|n\d+ -->(\|""\|)? n\d+|%% [\w .,:\']*'
        assert re.fullmatch(rf"\s*({known})", outside), line


@settings(max_examples=60, deadline=None)
@given(pictures(), st.booleans())
def test_dot_strings_end_where_they_should(made: Picture, right: bool) -> None:
    text = dot.write(made, Look(right))
    text.encode("utf-8")
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
    words = set(re.findall(r"[A-Za-z_]\w*", bare))
    known = {"digraph", "S", "graph", "node", "edge", "fontname", "fontsize", "labeljust", "l", "shape", "box"}
    known |= {"style", "rounded", "rankdir", "LR", "TB", "label", "subgraph"}
    assert {word for word in words if not re.fullmatch(r"(n|cluster_)\d+", word)} <= known


# --- large graphs ---------------------------------------------------------------------------------


def chain(count: int, named: bool) -> Picture:
    """A model of so many operations, one after the other, in one block."""
    compiled = compile_graph(SMALL, until="formula")
    graph = compiled.formula
    here = next(one for one in graph.nodes() if one.op == "input")
    origins = dict(graph.origins)
    for number in range(count // 2):
        here = ir.apply("+", ir.apply("abs", here), ir.const(Fraction(number + 2)))
        if named:
            origins[here] = ir.Origin(None, "", f"y{number}", "M")
    outputs = (replace(graph.outputs[0], node=here),)
    return make(fold(replace(graph, outputs=outputs, origins=origins), compiled.module), sizes=USUAL)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_very_many_nodes_are_drawn_in_seconds(count: int) -> None:
    before = time.process_time()
    made = chain(count, named=True)
    drawn = svg.write(made)
    assert time.process_time() - before < 60
    assert len(list(made.top.boxes())) <= BOXES
    assert made.notes == (f"Drawn 0 levels deep: all of it is {count // 2 + 1:,} boxes.",)
    assert "part 20" in drawn
    assert made.top.figures is not None
    assert made.top.figures.flops == count * 8 * 128 * 4


def test_a_crowded_block_becomes_parts_that_can_be_opened() -> None:
    made = chain(2_000, named=True)
    assert [box.name for box in made.top.boxes()][:3] == ["part 1", "part 2", "part 3"]
    opened = made.to_depth(1)
    assert len(list(opened.top.boxes())) == 1_002
    assert [one.name for one in opened.top.clusters()][1:] == [f"part {i}" for i in range(1, 21)]
    assert lay_out(made).height > 0


def test_few_boxes_stay_as_they_are() -> None:
    made = chain(1_000, named=True)
    assert made.notes == ()
    assert len(list(made.top.boxes())) == 502


def test_mermaid_stays_within_its_limits_whatever_it_draws() -> None:
    compiled = compile_graph(SMALL, until="formula")
    folded = fold(compiled.formula, compiled.module)
    boxes: list[Box | Cluster] = [Box(f"n{i}", "equation", f"name {i}" * 30, "f" * 300) for i in range(2_000)]
    edges = tuple(Edge(f"n{i}", f"n{i + 1}", ("seq",)) for i in range(1_999))
    made = Picture("M", Cluster("model", "M", items=boxes), edges, folded)
    text = mermaid._names(made, Look())
    assert text.count("-->") < mermaid.MAX_EDGES
    assert len(text) < mermaid.MAX_CHARACTERS
    assert "the first 400 of 2000 boxes" in text
