"""The check of a whole file: every definition by itself, every model and objective as a whole, one mistake told once.

A mistake inside a definition that is sound by itself is the caller's: it is told at the argument that brings it in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Note, Span, TransformulaError, error
from . import calls, defaults, heads, ir, showing
from .checkpoint import checkpoint_rows
from .config import Config
from .ir import Axis, Graph, Length
from .lint import lint
from .lower import lower_entry
from .modules import Entry, Module
from .names import parts, renames
from .scope import Scope, Session
from .values import Opaque, Poisoned, Tensor

ENOUGH = 100  # mistakes, after which nobody reads on
FRAMES = 20_000
"""Nested formulas and calls are bounded (build.MAX_DEPTH, calls.MAX_DEPTH); this leaves room for both."""


@contextmanager
def deep() -> Iterator[None]:
    """Room for formulas that lean on each other; one that leans on too many is an error, not a crash."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, FRAMES))
    try:
        yield
    except RecursionError:
        raise error(
            "U705",
            "the formulas of this spec lean on each other too deeply",
            help="A chain of some thousand parts, each defined by the next: write it as a recurrence x[l + 1] = ….",
        ) from None
    finally:
        sys.setrecursionlimit(old)


def check_module(module: Module, config: Config, trace: bool = False, found: Iterable[Diagnostic] = ()) -> Session:
    """All mistakes of the spec's own file; `found` are those that reading it brought."""
    session = Session(module, config)
    session.trace = [] if trace else None
    sizes: list[Diagnostic] = []
    config.lenient = sizes
    session.shared = {}
    told = [*found, *lint(module, config)]
    told += _config(config)
    if not any(one.code == "U705" for one in told):  # definitions that call themselves cannot be followed
        with deep():
            for entry in _own(module):
                told += _caught(entry, config, session)
                if len(told) > ENOUGH or session.work[0] > calls.MAX_CALLS:
                    break
    told += sizes
    if sizes:  # a wrong size splits and merges wrongly, too
        told = [one for one in told if one.code != "C612"]
    for one in settled(told, module.file.span.source.name):
        session.diagnostics.add(one)
    return session


def _own(module: Module) -> list[Entry]:
    """The definitions of the file, and the models and objectives that it takes over: changes may break them."""
    whole = ("model", "objective", "corruption")
    found = [module.entries[name] for name in module.own if name in module.entries]
    found = [one for one in found if one.definition.kind not in whole]
    taken = (
        module.of_kind(*whole) if _changes(module) else [module.entries[n] for n in module.own if n in module.entries]
    )
    return [*found, *(one for one in taken if one.definition.kind in whole and one.name not in module.imported)]


def _changes(module: Module) -> bool:
    """Whether the file touches anything that it took over: if not, what it took over is as sound as it was."""
    base = module.base
    if base is None:
        return True
    old = {*base.entries, *base.options, *base.choices, *base.uses, *base.axes}
    kinds = (s.Change, s.Remove, s.Tie)
    return any(isinstance(one, kinds) for one in module.file.items) or any(name in old for name in _defined(module))


def _defined(module: Module) -> Iterator[str]:
    """The names that the file itself gives a meaning."""
    for item in module.file.items:
        if isinstance(item, s.UseDecl):
            yield from (name.name for name in item.names)
        elif isinstance(item, s.Option | s.Choice | s.AxisDecl | s.Definition):
            yield item.name.name


def _caught(entry: Entry, config: Config, session: Session) -> list[Diagnostic]:
    """The mistakes of one definition; one that stands in its own text is not looked for in its calls."""
    own = Session(session.module, config, trace=session.trace, work=session.work, shared=session.shared)
    told: list[Diagnostic] = []
    try:
        if entry.definition.kind in ("model", "objective", "corruption"):
            written = session.module.written.get(entry.name)
            if written is not None and written.of is not None and written.kind == "objective":  # its model is checked
                under = session.module.entries[written.of.name].definition
                entry = replace(entry, definition=heads.of_results(written, under))
            shows = list(showing.present(written or entry.definition, config))  # what it takes over is checked there
            graph = lower_entry(entry, config, own, shows)
            checkpoint_rows(session.module, entry.name, graph, config)
            _defaults(session.module, config, graph, own)
        else:
            _alone(entry, config, own)
    except Poisoned:
        pass
    except TransformulaError as fault:
        told = fault.diagnostics
    told = [*own.diagnostics.found, *(one for one in told if one not in own.diagnostics.found)]
    text = entry.definition.span
    return [replace(one, via=()) if one.span and _within(one.span, text) else one for one in told]


def _defaults(module: Module, config: Config, graph: Graph, own: Session) -> None:
    """What stands in for inputs is lowered, too, in sessions of its own."""
    model = graph.batch is not None
    found = defaults.of_model(module, config, graph) if model else defaults.of_loss(module, config, graph.name)
    for one in found:
        if not one.reason:
            lower_entry(one.entry, config, Session(module, config, work=own.work))


def _within(inner: Span, outer: Span) -> bool:
    return inner.source == outer.source and outer.start <= inner.start < outer.end


def _config(config: Config) -> list[Diagnostic]:
    """Every entry is evaluated, also one that nothing reads."""
    told: list[Diagnostic] = []
    with deep():
        for name in config.names():
            try:
                config.value(name)
            except TransformulaError as fault:
                told += fault.diagnostics
    return told


def _alone(entry: Entry, config: Config, own: Session) -> None:
    """A definition with arguments that have just the axes it declares."""
    scope = Scope(own, config, entry.module, entry)
    definition = entry.definition
    _stand_ins(scope, definition)
    scope.take(definition.body.where)
    for name in list(scope.equations):
        with suppress(Poisoned):
            scope.lookup(name)
    calls.results(scope, definition)


# --------------------------------------------------------------------------------------------- one mistake, once


def settled(told: Sequence[Diagnostic], home: str) -> list[Diagnostic]:
    """At one place with one code the first telling wins, and a caller is not told of its callee's own mistakes."""
    kept: dict[object, Diagnostic] = {}
    for one in sorted(told, key=lambda d: len(d.via)):
        way = [note.span for note in one.via]
        if not any(_key(one.code, span) in kept for span in way[:-1] if span.source.name == home):
            if way and _key(one.code, one.span) in kept:
                continue
            moved = _moved(one, home)
            kept.setdefault(_key(moved.code, moved.span) or moved, moved)
    meant = {name for one in kept.values() if one.code == "N201" for name in _MEANT.findall(one.help)}
    return [one for one in kept.values() if one.code != "N203" or not any(f"`{name}`" in one.message for name in meant)]


_MEANT = re.compile(r"^Did you mean ([^?]+)\?")


def _key(code: str, span: Span | None) -> object:
    return (code, span.source.name, span.start) if span else None


def _moved(one: Diagnostic, home: str) -> Diagnostic:
    """The mistake at the outermost call's argument in the checked file, with the place inside as a note."""
    places = [place for place, note in enumerate(one.via) if note.span.source.name == home]
    if not places or one.span is None:
        return one
    last, first = one.via[places[-1]], one.via[0]
    inside = f"`{last.text}`" if last is first else f"`{last.text}`, which calls `{first.text}`"
    return replace(one, span=last.span, label="", notes=(Note(one.span, f"here, inside {inside}"), *one.notes), via=())


# ------------------------------------------------------------------------------------------------ stand-ins


def _stand_ins(scope: Scope, definition: s.Definition) -> None:
    """Gives a definition arguments that have just the axes it declares."""
    heads = [one.axis for one in definition.axes]
    bracketed = any(param.axes is not None for param in definition.params or ())
    names = [*heads, *(n for p in definition.params or () if p.axes for n in p.axes.names)]
    for place, name in enumerate(dict.fromkeys(n.name for n in names)):
        axis = scope.config.axis(name) or _free_axis(definition, name, place)
        scope.axes[name], scope.labels[axis] = axis, name
    for one in definition.axes:
        if one.index is not None:
            scope.values[one.index.name] = Tensor(ir.index(scope.axes[one.axis.name]))
            scope.tables = True
    calling = (one.function for one in parts((definition.outputs, definition.body)) if isinstance(one, s.Call))
    called = {one.name for one in calling if isinstance(one, s.Name)}
    for param in definition.params or ():
        if param.name in called:
            scope.values[param.name] = Opaque(param.name)
        elif param.default is not None:
            scope.equations[param.name] = param.default
        else:
            own = param.axes.names if param.axes else () if bracketed else tuple(heads)
            axes = [scope.axes[n.name] for n in own]
            scope.values[param.name] = Tensor(ir.input_(param.name, axes, "unknown"))


def _free_axis(definition: s.Definition, name: str, place: int) -> Axis:
    """An axis that config does not size: a length, or a number when the text splits or merges it."""
    for item in parts((definition.outputs, definition.body)):
        split = isinstance(item, s.RenameItem) and len(item.old) != len(item.new) and item.old
        if split and name in {n.name for n in (*item.old, *item.new)}:
            return Axis(name, 5040 * (place + 1))
    for item in renames(definition):  # x[seq → key]: key is as long as seq
        if len(item.old) == len(item.new) == 1 and item.new[0].name == name:
            return Axis(name, Length(item.old[0].name))
    return Axis(name, Length(name))
