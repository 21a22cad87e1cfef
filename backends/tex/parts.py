"""The definitions of a spec as parts of a page: title, comment, text of the spec, lines, weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...compiler import driver
from ...compiler.checking import check_module, deep
from ...compiler.config import Config
from ...compiler.modules import Entry, Module
from ...compiler.names import mentioned
from ...grammar import syntax as s
from ...grammar.comments import above
from ...grammar.diagnostics import TransformulaError, did_you_mean, error
from . import definitions
from .facts import Facts
from .inline import inlined
from .tree import Line


@dataclass(frozen=True)
class Part:
    """One definition, to be written in any format."""

    name: str
    kind: str
    comment: tuple[str, ...]
    source: str
    lines: tuple[Line, ...]
    uses: tuple[Line, ...]
    weights: tuple[Line, ...]
    of: str = ""
    changes: bool = False

    @property
    def title(self) -> str:
        """block MultiHead, model BertForMaskedLM of bert"""
        kind = f"change of {self.kind}" if self.changes else self.kind
        return f"{kind} {self.name}" + (f" of {self.of}" if self.of else "")

    @property
    def all_lines(self) -> tuple[Line, ...]:
        """Its equations, then its instances and weights."""
        return (*self.lines, *self.uses, *self.weights)


def facts_of(
    spec: str | Path | Module, config: dict[str, Any] | None = None, settings: dict[str, Any] | None = None
) -> Facts:
    """What the check of a spec finds out; raises `TransformulaError` with all its mistakes.

    The sizes of a file of functions alone are invented, and need not fit.
    """
    module = spec if isinstance(spec, Module) else driver.load_module(spec)
    made = Config(module, config or {}, driver.known_settings(module, settings or {}))
    session = check_module(module, made, trace=True)
    found = [one for one in session.diagnostics.errors if module.file.name is not None or one.code != "C612"]
    if found:
        raise TransformulaError(found)
    return Facts(session)


def parts_of(facts: Facts, names: Iterable[str] = (), entry: str | None = None, inline: bool = False) -> list[Part]:
    """The parts of a spec: those that its own file writes, or some by name, or a model with all that it leans on.

    With `inline` every part of a `where` is written in its place, and so is what a parameter is by default.
    Raises `TransformulaError` for a name that the spec does not define.
    """
    module = facts.module
    chosen = [known(module, name) for name in names]
    if not chosen:
        chosen = [*_leaning(known(module, entry), module)] if entry is not None else _own(module)
    if not chosen:
        raise error(
            "C651",
            f"{module.name} defines nothing that could be written",
            help="A spec defines formulas, blocks, models or objectives.",
        )
    with deep():
        return [_part(facts, one, inline) for one in chosen]


def known(module: Module, name: str) -> Entry:
    """The definition of this name."""
    if name not in module.entries:
        advice = did_you_mean(name, module.entries) or f"It has {', '.join(module.entries)}."
        raise error("C650", f"{module.name} defines no `{name}`", help=advice)
    return module.entries[name]


def _own(module: Module) -> list[Entry]:
    return [module.entries[name] for name in module.own if name in module.entries]


def _leaning(entry: Entry, module: Module) -> Iterator[Entry]:
    """The definition, and what it mentions, and so on, in the order in which they are met."""
    waiting, seen = [entry], {entry.name}
    while waiting:
        found = waiting.pop(0)
        yield found
        home = found.module if found.name not in module.entries else module
        for name in _named(found.definition, home):
            near = home.entries.get(name) or found.module.entries.get(name)
            if near is not None and name not in seen:
                seen.add(name)
                waiting.append(near)


def _named(definition: s.Definition, module: Module) -> Iterator[str]:
    """What a definition mentions: formulas, and blocks through the instances of the spec or its own."""
    names = mentioned(definition) | ({definition.of.name} if definition.of is not None else set())
    uses = {name.name: use for use in definition.body.uses for name in use.names}
    for name in sorted(names):
        yield name
        use = uses.get(name) or module.uses.get(name)
        if use is not None:
            yield use.block.name


def _part(facts: Facts, entry: Entry, inline: bool) -> Part:
    name = entry.name
    written = facts.module.written.get(name, entry.definition)
    shown = inlined(written) if inline else written
    item = _item(facts.module, name)
    span = item.span if item is not None else entry.definition.span
    return Part(
        name,
        written.kind,
        above(span),
        span.text.rstrip(),
        tuple(definitions.lines(shown, facts)),
        tuple(definitions.uses(written, facts)),
        tuple(definitions.weights(written, facts)),
        written.of.name if written.of is not None else "",
        isinstance(item, s.Change),
    )


def _item(module: Module, name: str) -> s.Definition | s.Change | None:
    """Where the spec's own file writes the definition, or its change."""
    for one in module.file.items:
        if isinstance(one, s.Definition | s.Change) and one.name.name == name:
            return one
    return None
