"""The formula of a box as mathematics: the line of its definition as MathML, in nested lists that a page can hold.

Lines are found by the place in the spec that they write. A definition that no box comes from is not typeset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element

from ...compiler.checking import check_module, deep
from ...compiler.driver import Compiled
from ...grammar import syntax as s
from ...grammar.diagnostics import Span, TransformulaError
from ..tex.definitions import lines
from ..tex.facts import Facts
from ..tex.mathml import element
from ..tex.tree import Line, Row, Sign
from .folding import definitions_of

Key: TypeAlias = tuple[str, int, int]


class Maths:
    """The lines of a compiled model's definitions, by their places in the spec."""

    def __init__(self, compiled: Compiled, wanted: Iterable[Span | None]) -> None:
        places = {_key(span) for span in wanted if span is not None}
        try:
            facts = Facts(check_module(compiled.module, compiled.config, trace=True))
        except TransformulaError:
            self.lines: dict[Key, Line] = {}
            return
        with deep():
            every = definitions_of(compiled.module).values()
            chosen = [one for one in every if places.intersection(map(_key, _values(one)))]
            self.lines = {key: line for one in chosen for key, line in _lines(one, facts)}

    def __call__(self, span: Span | None) -> list[Any] | None:
        """The line that writes this place (see `nested`); None where no line does."""
        found = self.lines.get(_key(span)) if span is not None else None
        if found is None:
            return None
        left = (found.left, Sign(found.sign, "relation")) if found.left is not None else ()
        made = nested(element(Row((*left, found.right))))
        return ["math", {"display": "block"}, made]


def _lines(definition: s.Definition, facts: Facts) -> Iterator[tuple[Key, Line]]:
    for line in lines(definition, facts):
        yield from ((_key(span), line) for span in line.spans)


def _key(span: Span) -> Key:
    return span.source.name, span.start, span.end


def _values(definition: s.Definition) -> Iterator[Span]:
    """The places of a definition's results and parts, which a change may have put into another file."""
    yield from (one.value.span for one in definition.outputs)
    waiting = list(definition.body.where)
    for one in waiting:
        if isinstance(one, s.Loop):
            waiting += one.body
        else:
            yield from (one.span, one.value.span)


def nested(math: Element) -> list[Any]:
    """An element as [name, attributes, text or element, …]; the page makes only those of MathML that it knows."""
    found: list[Any] = [math.tag.rpartition("}")[2], dict(math.attrib), *([math.text] if math.text else [])]
    for part in math:
        found += [nested(part), *([part.tail] if part.tail else [])]
    return found
