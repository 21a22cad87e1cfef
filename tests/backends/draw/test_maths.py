"""The formulas of boxes as MathML: found by the place that a line of the mathematics writes."""

from __future__ import annotations

from typing import Any

import pytest

from transformula.backends.draw import picture
from transformula.backends.draw.maths import Maths
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.modules import shipped


def maths(made: Compiled, *stages: str) -> Maths:
    graphs = [stage.graph for stage in made.stages if not stages or stage.name in stages]
    return Maths(made, (origin.span for graph in graphs for origin in graph.origins.values()))


def said(element: Any) -> str:
    """All text of an element."""
    return element if isinstance(element, str) else "".join(said(part) for part in element[2:])


def test_an_equation_and_a_result_are_written_as_lines() -> None:
    made = compile_graph("bert", until="formula")
    found = maths(made)
    boxes = {box.name: box for box in picture(made, full=True).top.boxes()}
    assert "QK⊤" in said(found(boxes["scores"].span))
    kind, attributes, row = found(boxes["Q"].span) or ["", {}, []]
    assert (kind, attributes) == ("math", {"display": "block"})
    assert row[0] == "mrow"


@pytest.mark.parametrize("name", [one for one in shipped() if not one.startswith("lib/") and one != "cross_entropy"])
def test_named_equations_of_every_spec_have_their_mathematics(name: str) -> None:
    made = compile_graph(name, until="formula")
    found = maths(made)
    named = [box for box in picture(made, full=True).top.boxes() if box.kind == "equation" and box.name and box.span]
    assert named
    assert [box.name for box in named if found(box.span) is None] == []


def test_what_no_line_writes_has_none() -> None:
    made = compile_graph("bert", until="formula")
    assert maths(made)(None) is None
    assert Maths(made, ()).lines == {}
