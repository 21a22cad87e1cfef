"""A comparison as one page: both sides beside each other, changes marked by sign and colour, no other file needed."""

from __future__ import annotations

from ...compiler.difference.change import BlockFigures, Change, Differences
from ..pages import page_template
from .words import block_rows, delta, left_out, lines, places, plain, quantity, sections, table, verdict

MEANINGS = {"+": "only in the second", "-": "only in the first", "~": "changed", "→": "renamed", "⇄": "replaced"}


def write(found: Differences, every: bool = False) -> str:
    """The comparison as a page."""
    return _render(found, every, "page.html.j2")


def fragment(found: Differences, every: bool = False) -> str:
    """The comparison as a part of a page, for a notebook."""
    return _render(found, every, "fragment.html.j2")


def _render(found: Differences, every: bool, name: str) -> str:
    return page_template("difference", name).render(
        labels=[plain(label) for label in found.labels],
        titles=[plain(title) for title in found.titles],
        models=[plain(model) for model in found.models],
        verdict=verdict(found),
        sections=[
            {"title": section.title, "changes": [_change(change, every) for change in section.changes]}
            for section in sections(found, every)
        ],
        sizes=found.sizes,
        figures=table(found.figures),
        blocks=[_block(block) for block in block_rows(found, every)],
        left_out=left_out(found, every),
        meanings=MEANINGS,
    )


def _change(one: Change, every: bool) -> dict[str, object]:
    return {
        "sign": one.sign,
        "kind": one.kind,
        "say": plain(one.say),
        "places": plain(places(one)),
        "pairs": [(plain(line.before), plain(line.after)) for line in lines(one, every)],
        "quotes": [plain(quote) for quote in one.quotes],
        "follows": plain(one.follows) if every else "",
    }


def _block(one: BlockFigures) -> dict[str, object]:
    cells = [quantity(figure.unit, value) for figure in one.figures for value in (figure.before, figure.after)]
    told = ", ".join(filter(None, map(delta, one.figures)))
    return {"name": plain(one.name), "level": one.level, "cells": cells, "delta": told}
