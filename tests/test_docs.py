"""The examples of docs/*.md: each block compiles, runs, or is refused with the code it promises."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from transformula.compiler import corruptions, pipeline, reference
from transformula.compiler.driver import check, compile_graph
from transformula.grammar.diagnostics import TransformulaError

DOCS = Path(__file__).resolve().parent.parent / "docs"
FENCE = re.compile(r"^```formula(?: error=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (f"{page.name}:{text.count(chr(10), 0, match.start()) + 2}", match[1], match[2])
    for page in sorted(DOCS.glob("*.md"))
    for text in [page.read_text("utf-8")]
    for match in FENCE.finditer(text)
]


@pytest.mark.parametrize(
    ("code", "text"), [block[1:] for block in BLOCKS], ids=[block[0] for block in BLOCKS]
)
def test_block(code: str | None, text: str) -> None:
    if code is not None:
        with pytest.raises(TransformulaError) as caught:
            check(text)
        assert {one.code for one in caught.value.diagnostics} == {code}
        return
    check(text)
    given = {name: json.loads(value) for name, value in re.findall(r"^# (\w+) = (.*)$", text, re.MULTILINE)}
    wanted = re.findall(r"^# → (.*)$", text, re.MULTILINE)
    if wanted:
        made = compile_graph(text, until="formula")
        if made.kind == "corruption":
            rows = {name: value[0] if isinstance(value, list) else value for name, value in given.items()}
            found = np.array([next(iter(corruptions.corrupted(made.formula, rows).values()))])
        else:
            found = next(iter(reference.run(made.formula, {}, given).values()))
        np.testing.assert_allclose(found, json.loads(wanted[0]), atol=1e-12)


def test_the_language_page_has_examples() -> None:
    assert sum("language.md" in place for place, _, _ in BLOCKS) > 20


def test_the_page_of_passes_has_them_all_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "passes.md").read_text("utf-8"), re.MULTILINE)
    assert rows == [row.name for row in pipeline.table()]
