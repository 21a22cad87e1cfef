"""docs/diff.md shows what the command prints; `--regen` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from transformula.backends.difference import diff

PAGE = Path(__file__).resolve().parent.parent / "docs" / "diff.md"
BLOCK = re.compile(r"(<!-- diff bert roberta -->\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_real_output(regen: bool) -> None:
    page = PAGE.read_text("utf-8")
    told = str(diff("bert", "roberta"))
    if regen:
        PAGE.write_text(BLOCK.sub(lambda found: found[1] + told + found[3], page), "utf-8")
        page = PAGE.read_text("utf-8")
    (found,) = BLOCK.finditer(page)
    assert found[2] == told, "docs/diff.md is written anew by --regen; read the diff"
