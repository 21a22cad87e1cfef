"""Models, objectives and corruptions that one spec has and the other has not, each with what is said of it there."""

from __future__ import annotations

from collections.abc import Iterator

from ...grammar.comments import above
from .change import ADDED, REMOVED, Change, Line
from .formulas import pieces
from .sides import Side

WORDS = {"objective": "objective", "corruption": "corruption of texts", "model": "model"}
RANKS = {"objective": 1.0, "corruption": 2.0, "model": 3.0}


def model_pairs(one: Side, other: Side, compared: tuple[str, str]) -> list[tuple[str, str]]:
    """Models that stand for each other: the two compared, those of one name or role, those of one objective."""
    pairs = [compared]
    left, right = (
        [name for name in side.models if name != first] for side, first in zip((one, other), compared, strict=True)
    )
    for role in (lambda side, name: name, _role):
        known = {role(other, name): name for name in right}
        for name in [name for name in left if role(one, name) in known]:
            theirs = known[role(one, name)]
            if theirs in right:
                pairs.append((name, theirs))
                left.remove(name)
                right.remove(theirs)
    for name, under in _under(one).items():
        theirs = _under(other).get(name, "")
        if under in left and theirs in right:
            pairs.append((under, theirs))
            left.remove(under)
            right.remove(theirs)
    return pairs


def _role(side: Side, name: str) -> str:
    """The name of a model without that of its family: ForMaskedLM."""
    return name.removeprefix(side.entry.removesuffix("Model"))


def _under(side: Side) -> dict[str, str]:
    """Objective → the model that it is of."""
    written = {one.name: side.definition(one.name) for one in side.module.of_kind("objective")}
    return {name: found.of.name for name, found in written.items() if found.of is not None}


def compared(one: Side, other: Side, pairs: list[tuple[str, str]]) -> Iterator[Change]:
    """What one of them has alone; a model that goes with its objective says so."""
    paired = ({mine for mine, _ in pairs}, {theirs for _, theirs in pairs})
    for side, apart, kind, known in ((one, other, REMOVED, paired[0]), (other, one, ADDED, paired[1])):
        for entry in side.module.of_kind(*WORDS):
            name = entry.name
            there = name in known if entry.definition.kind == "model" else _has(apart, name, entry.definition.kind)
            if not there:
                yield _lost(side, name, kind, {n for n in _under(side) if not _has(apart, n, "objective")})


def _has(side: Side, name: str, kind: str) -> bool:
    return name in side.module.entries and side.module.entries[name].definition.kind == kind


def _lost(side: Side, name: str, kind: str, others: set[str]) -> Change:
    definition = side.definition(name)
    word, under = WORDS[definition.kind], f" of {definition.of.name}" if definition.of is not None else ""
    said = " ".join(above(definition.span))
    with_it = [n for n, model in _under(side).items() if model == name and n in others]
    follows = f"the objective {with_it[0]}" if definition.kind == "model" and with_it else ""
    lines = tuple(Line.of(kind, "", found.text) for found in pieces(definition).values() if found.name[:1] == "→")
    spans = (None, definition.span) if kind == ADDED else (definition.span, None)
    shown = under if definition.kind == "objective" else ""
    say = f"{'further' if kind == ADDED else 'no'} {word} {name}{shown}"
    quotes, rank = (said,) if said else (), RANKS[definition.kind]
    made = Change("objectives", kind, name, say, lines=lines, quotes=quotes, rank=rank, follows=follows)
    return made.at(*spans)

