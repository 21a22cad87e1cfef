"""Two models compared, for people: `diff` reads both sides, `Difference` tells what differs as text, Markdown or HTML.

    reading.py    what a user names as a side: a spec, a config.json, a folder with its tensors
    words.py      sections and numbers;  text.py markdown.py html.py    the forms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...compiler.difference import Change, Differences, Side, compared
from ...compiler.difference.change import ONLY
from ...compiler.sizes import Sizes
from ...grammar.diagnostics import did_you_mean, error
from .reading import read_side

__all__ = ["Difference", "diff"]


@dataclass(frozen=True)
class Difference:
    """What two models differ by; false where they are the same. `changes` are those told, `found` has everything."""

    found: Differences

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes in order: what merely follows from others, and other spellings of one meaning, left out."""
        return self.found.told()

    def __bool__(self) -> bool:
        return bool(self.found)

    def __str__(self) -> str:
        return self.text()

    def text(self, every: bool = False) -> str:
        """As plain text; with `every`, what follows from other changes and what is only written differently, too."""
        from .text import write

        return write(self.found, every)

    def markdown(self, every: bool = False) -> str:
        """As Markdown."""
        from .markdown import write

        return write(self.found, every)

    def html(self, every: bool = False) -> str:
        """As one page that needs no other file."""
        from .html import write

        return write(self.found, every)

    def data(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return self.found.data()

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self.found)

    def __repr__(self) -> str:
        one, other = self.found.labels
        return f"<Difference {one} → {other}: {len(self.changes)} changes>"


def _same_model(side: Side, other: Side) -> Side:
    """A side whose model nobody chose, with the one that a config or folder on the other side asks for."""
    asks = side.given.get("architectures") or not other.given.get("architectures")
    if asks or other.entry not in side.module.entries:
        return side
    return replace(side, entry=other.entry)


def diff(
    a: str | Path,
    b: str | Path,
    config_a: Mapping[str, Any] | None = None,
    config_b: Mapping[str, Any] | None = None,
    settings_a: Mapping[str, Any] | None = None,
    settings_b: Mapping[str, Any] | None = None,
    entry_a: str | None = None,
    entry_b: str | None = None,
    batch: int = 8,
    length: int = 128,
    fill: float = 1.0,
    only: Sequence[str] = (),
) -> Difference:
    """What two models differ by: `diff("bert", "roberta")`, `diff("bert", "bert", settings_b={"layers": 24})`.

    Each side is a shipped spec's name, a path, a text, a config.json, or a model's folder; `config_` holds keys of
    config.json, `settings_` entries of the spec's config, `entry_` names a model. Costs are those of `batch` examples
    of at most `length` tokens, `fill` of them real; `only` names parts: structure, formulas, weights, cost. Raises
    `TransformulaError` for a mistake in either side.
    """
    for name in only:
        if name not in ONLY:
            advice = did_you_mean(name, ONLY) or f"There are {', '.join(ONLY)}."
            raise error("C677", f"a comparison has no part `{name}`", help=advice)
    one = read_side(a, config_a, settings_a, entry_a)
    other = read_side(b, config_b, settings_b, entry_b)
    if entry_a is None and entry_b is None and one.entry != other.entry:
        one, other = _same_model(one, other), _same_model(other, one)
    return Difference(compared(one, other, Sizes(batch, length, fill), only))
