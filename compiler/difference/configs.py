"""Config of the one and of the other: sizes and choices that differ, entries that one has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from ...grammar import syntax as s
from ...grammar.diagnostics import TransformulaError
from ...grammar.printer import expression
from ..config import show
from ..modules import Module
from ..names import names_in
from ..values import Record, Tensor, Value
from .change import ADDED, CHANGED, REMOVED, Change, Line, place
from .meaning import digest
from .sides import Side

FIXED = "fixed"
SHOWN = 8
"""Entries that are named in one sentence."""


def same_entries(one: Module, other: Module) -> list[tuple[s.Option, s.Option]]:
    """Entries that stand for each other: those of one name, then those of one key of config.json."""
    pairs = {name: name for name in one.options if name in other.options}
    taken = set(pairs.values())
    for name, option in one.options.items():
        if name in pairs or not option.keys:
            continue
        for theirs, candidate in other.options.items():
            if theirs not in taken and set(option.keys) & set(candidate.keys):
                pairs[name] = theirs
                taken.add(theirs)
                break
    return [(one.options[mine], other.options[theirs]) for mine, theirs in pairs.items()]


def compared(one: Side, other: Side) -> Iterator[Change]:
    """Values that differ, the sizes first, then choices; what follows from another value says so."""
    pairs = same_entries(one.module, other.module)
    mine, theirs = values(one), values(other)
    differing = [(a, b) for a, b in pairs if mine.get(a.name.name) != theirs.get(b.name.name)]
    names = {option.name.name for pair in differing for option in pair}
    for left, right in differing:
        yield _value(one, other, left, right, names)
    yield from _keys(pairs)
    yield from _only(one, REMOVED, {a.name.name for a, _ in pairs})
    yield from _only(other, ADDED, {b.name.name for _, b in pairs})


def _value(one: Side, other: Side, left: s.Option, right: s.Option, differing: set[str]) -> Change:
    name, renamed = right.name.name, left.name.name != right.name.name
    both = shown(values(one).get(left.name.name)), shown(values(other).get(name))
    label = f"{left.name.name} (now {name})" if renamed else name
    key = ".".join(right.keys[0]) if right.keys else ""
    say = f"{label} is {both[1]} instead of {both[0]}" + (f" ({key})" if key and key != name else "")
    rank = _rank(one, left)
    follows = _follows(left, right, differing)
    made = Change("config", CHANGED, name, say, *both, rank=rank, follows=follows)
    return made.at(left.span, right.span)


def _rank(side: Side, option: s.Option) -> float:
    """Sizes before choices before rates and ids; in the order of the file."""
    value = values(side).get(option.name.name)
    size = isinstance(value, int) and not isinstance(value, bool) and value > 0
    kind = 0 if size else 1 if isinstance(value, bool | str) or option.choice else 2
    return kind + list(side.module.options).index(option.name.name) / 1000


def _follows(left: s.Option, right: s.Option, differing: set[str]) -> str:
    """What a value is computed from in both, where that is what differs."""
    if left.value != right.value or isinstance(left.value, s.Number):
        return ""
    parts = [one.name for one in names_in(left.value) if one.name in differing]
    return f"{' and '.join(dict.fromkeys(parts))} ({expression(left.value)})" if parts else ""


def _keys(pairs: Sequence[tuple[s.Option, s.Option]]) -> Iterator[Change]:
    """The entries that are read from other keys of config.json, or from none, as one change."""
    differing = [(a, b) for a, b in pairs if (a.keys or b.keys) and not set(a.keys) & set(b.keys)]
    if not differing:
        return
    lines = tuple(
        Line(b.name.name, _key_text(a), _key_text(b), place(a.span), place(b.span)) for a, b in differing
    )
    told = [f"{line.name} {'is' if line.after == FIXED else 'from'} {line.after}" for line in lines]
    say = "in config.json " + ", ".join(told[:SHOWN]) + (f" and {len(told) - SHOWN} more" if len(told) > SHOWN else "")
    yield Change("config", CHANGED, "keys", say, lines=lines, rank=8)


def _key_text(option: s.Option) -> str:
    """What an entry is called in config.json; of none that it is fixed."""
    return " or ".join(".".join(key) for key in option.keys) or FIXED


def _only(side: Side, kind: str, known: set[str]) -> Iterator[Change]:
    """The entries that the other has not, as one change: most say nothing that formulas do not say."""
    names = [name for name in side.module.options if name not in known]
    if not names:
        return
    lines = tuple(_line(side, name, kind, values(side).get(name)) for name in names)
    few = [f"{name} = {shown(values(side).get(name))}" for name in names] if len(names) < 4 else names
    told = ", ".join(few[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    say = f"{'further' if kind == ADDED else 'no'} {'entries' if len(names) > 1 else 'entry'} of config: {told}"
    yield Change("config", kind, "entries", say, lines=lines, rank=9)


def _line(side: Side, name: str, kind: str, value: Any) -> Line:
    return Line.of(kind, name, f"{name} = {shown(value)}", place(side.module.options[name].span))


def values(side: Side) -> dict[str, Any]:
    """Every entry with its value: a number, truth value, text or name; of a vector what makes it."""
    found: dict[str, Any] = {}
    for name in side.config.names():
        try:
            value = side.config.value(name)
        except TransformulaError:  # only a file gives it
            continue
        found[name] = _plain(value.value if isinstance(value, Record) else value)
    return found


def _plain(value: Value) -> Any:
    """A value to compare and to show; a vector by its numbers, or by what it is made of."""
    if not isinstance(value, Tensor):
        return show(value)
    node = value.node
    if node.op == "table":
        return ", ".join(shown(show(one) if isinstance(one, Fraction | bool) else one) for one in node["values"])
    return f"computed for each {', '.join(axis.name for axis in node.axes)} ({digest(node)})"


def shown(value: Any) -> str:
    """A value of config as a spec writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
