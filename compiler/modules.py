"""Files → one spec: finds shipped and local files, resolves imports, `extends`, `change` and `remove`.

Names of formulas and blocks are lexical: a definition sees what its own file defined or imported; with `extends`
the latest version of a name wins. Config belongs to the compiled spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

from ..grammar import syntax as s
from ..grammar.diagnostics import (
    Diagnostic,
    Diagnostics,
    Note,
    Source,
    Span,
    TransformulaError,
    did_you_mean,
    error,
)
from ..grammar.parser import parse
from .replacing import same_kind

MAX_DEPTH = 16
MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class Entry:
    """A definition and the module whose names it sees."""

    definition: s.Definition
    module: Module = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name it is called by."""
        return self.definition.name.name


@dataclass(eq=False)
class Module:
    """A file with everything it may name; for a spec that extends another one, the whole of it after the changes."""

    name: str
    file: s.File
    entries: dict[str, Entry] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    options: dict[str, s.Option] = field(default_factory=dict)
    choices: dict[str, tuple[s.Choice, Module]] = field(default_factory=dict)
    axes: dict[str, s.AxisDecl] = field(default_factory=dict)
    uses: dict[str, s.UseDecl] = field(default_factory=dict)
    weights: list[s.WeightDecl] = field(default_factory=list)
    ties: list[s.Tie] = field(default_factory=list)
    checkpoints: list[s.Checkpoint] = field(default_factory=list)
    imported: dict[str, Span] = field(default_factory=dict)
    model_types: tuple[str, ...] = ()
    base: Module | None = None
    removed: dict[str, Span] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # names whose import failed: told once, at the import
    written: dict[str, s.Definition] = field(default_factory=dict)  # what stands `of` another one, as it was written

    def of_kind(self, *kinds: str) -> list[Entry]:
        """The definitions of some kinds, in the order of the file."""
        return [entry for entry in self.entries.values() if entry.definition.kind in kinds]


@cache
def shipped() -> Mapping[str, str]:
    """Names of the shipped specs and of the files of functions (`lib/…`), with their resource paths."""
    root = resources.files("transformula.specs")
    names = {Path(one.name).stem: one.name for one in root.iterdir() if one.name.endswith(".formula")}
    for one in root.joinpath("lib").iterdir():
        if one.name.endswith(".formula"):
            names[f"lib/{Path(one.name).stem}"] = f"lib/{one.name}"
    return names


def read_source(spec: str | Path) -> Source:
    """The text behind a shipped spec's name, a path, or the text itself (told by its line breaks).

    Raises `TransformulaError` when there is no such file, or it is too large or not text.
    """
    text = str(spec)
    if isinstance(spec, str) and ("\n" in spec or "=" in spec):
        return Source("<text>", spec)
    if text in shipped():
        path = shipped()[text]
        return Source(f"{text}.formula", resources.files("transformula.specs").joinpath(path).read_text("utf-8"))
    return read_file(Path(text))


def read_file(path: Path) -> Source:
    """The text of a file the user named; refuses what is missing, too large, or no UTF-8 text."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        names = [name for name in shipped() if not name.startswith("lib/")]
        advice = did_you_mean(str(path), names) or f"Shipped specs: {', '.join(sorted(names))}."
        raise error("S410", f"no spec here: {path} {what}", help=advice)
    if path.stat().st_size > MAX_BYTES:
        raise error("S411", f"{path} is larger than {MAX_BYTES // 1_000_000} MB: that is no spec")
    try:
        return Source(str(path), path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise error("S412", f"{path} is not a text in UTF-8 (byte {fault.start} is not): that is no spec") from None


@lru_cache(maxsize=32)
def parsed(text: str, name: str) -> s.File:
    """The syntax tree of a file, kept for the next time: it never changes."""
    return parse(text, name)


class Loader:
    """Loads each file once; circular imports and unknown names are errors with their place."""

    def __init__(self, folder: Path | None = None, over: tuple[str, str] | None = None) -> None:
        self.folder = folder
        self.over = over  # ("bert", "roberta"): what is written over the one is taken over the other
        self.found: dict[str, Module] = {}
        self.busy: list[str] = []
        self.diagnostics = Diagnostics()

    def load(self, source: Source) -> Module:
        """The module of a source, with everything that it imports and extends."""
        file = parsed(source.text, source.name)
        name = file.name.name if file.name else source.name
        self.busy.append(Path(source.name).stem)
        if len(self.busy) > MAX_DEPTH:
            raise error("S413", f"files import each other more than {MAX_DEPTH} deep: {' → '.join(self.busy)}")
        module = Module(name, file, model_types=file.model_types)
        if file.extends is not None:
            self._inherit(module, self.module(self._base(file.extends)))
        self._collect(module)
        self.busy.pop()
        return module

    def module(self, name: s.Name) -> Module:
        """The module that an `import` or `extends` names: beside the user's file first, then shipped."""
        key = name.name
        if key in self.busy:
            ring = self.busy[self.busy.index(key) :]
            raise error(
                "N210",
                f"`{key}` needs itself: {' → '.join([*ring, key])}",
                name.span,
                help="Move what both need into a file of its own, and import that from both.",
            )
        if key not in self.found:
            self.found[key] = self.load(self._source(name))
        return self.found[key]

    def _base(self, name: s.Name) -> s.Name:
        """What a spec extends: another one in its place, which itself may extend that."""
        if self.over is not None and name.name == self.over[0] and self.over[1] not in self.busy:
            return replace(name, name=self.over[1])
        return name

    def _source(self, name: s.Name) -> Source:
        known = shipped()
        local = (self.folder / f"{name.name}.formula") if self.folder else None
        if local is not None and ".." not in name.name and local.is_file():
            return read_file(local)
        for key in (name.name, f"lib/{name.name}"):
            if key in known:
                text = resources.files("transformula.specs").joinpath(known[key]).read_text("utf-8")
                return Source(f"{key}.formula", text)
        advice = did_you_mean(name.name, [k.removeprefix("lib/") for k in known])
        files = ", ".join(sorted(k.removeprefix("lib/") for k in known))
        raise error(
            "N211",
            f"there is no file `{name.name}.formula`",
            name.span,
            because=("a file is looked for beside this one, then among the shipped ones",),
            help=advice or f"Shipped are {files}.",
        )

    def _inherit(self, module: Module, base: Module) -> None:
        module.base = base
        module.entries = {name: replace(entry, module=module) for name, entry in base.entries.items()}
        module.options, module.axes = dict(base.options), dict(base.axes)
        module.choices = {
            name: (table, module if home is base else home) for name, (table, home) in base.choices.items()
        }
        module.uses, module.weights, module.ties = dict(base.uses), list(base.weights), list(base.ties)
        module.checkpoints = list(base.checkpoints)
        for name, span in base.imported.items():  # what the base imported keeps its own file's names
            module.entries[name] = base.entries[name]
            module.imported[name] = span

    def _collect(self, module: Module) -> None:
        seen: dict[str, Span] = {}
        for item in module.file.items:
            try:
                self._item(module, item, seen)
            except TransformulaError as fault:
                for one in fault.diagnostics:
                    self.diagnostics.add(one)

    def _item(self, module: Module, item: s.Declaration, seen: dict[str, Span]) -> None:
        same_kind(module, item)
        match item:
            case s.Import():
                self._import(module, item, seen)
            case s.Option():
                self._once(seen, item.name)
                module.options[item.name.name] = item
            case s.Choice():
                self._once(seen, item.name)
                module.choices[item.name.name] = (item, module)
            case s.AxisDecl():
                self._once(seen, item.name)
                module.axes[item.name.name] = item
            case s.Definition():
                self._once(seen, item.name)
                module.entries[item.name.name] = Entry(item, module)
                module.own.append(item.name.name)
            case s.UseDecl():
                for name in item.names:
                    self._once(seen, name)
                    module.uses[name.name] = item
            case s.WeightDecl():
                module.weights.append(item)
            case s.Tie():
                module.ties.append(item)
            case s.Checkpoint():
                module.checkpoints.append(item)
            case s.Change():
                self._change(module, item)
            case s.Remove():
                self._remove(module, item)

    def _once(self, seen: dict[str, Span], name: s.Name) -> None:
        if name.name in seen:
            told, first = f"`{name.name}` is defined twice in this file", (Note(seen[name.name], "first here"),)
            advice = "One name has one meaning; give one of them another name."
            raise TransformulaError(Diagnostic("N205", told, name.span, notes=first, help=advice))
        seen[name.name] = name.span

    def _import(self, module: Module, item: s.Import, seen: dict[str, Span]) -> None:
        try:
            other = self.module(item.module)
        except TransformulaError:
            module.broken |= {name.name for name in item.names}
            raise
        for name in item.names:
            self._once(seen, name)
            if name.name in other.choices:
                module.choices[name.name] = other.choices[name.name]
                continue
            if name.name not in other.entries:
                module.broken.add(name.name)
                known = [*other.entries, *other.choices]
                advice = did_you_mean(name.name, known) or f"It has {', '.join(known)}."
                told = Diagnostic("N206", f"`{item.module.name}` has no `{name.name}`", name.span, help=advice)
                self.diagnostics.add(told)
                continue
            module.entries[name.name] = other.entries[name.name]
            module.imported[name.name] = name.span

    def _change(self, module: Module, item: s.Change) -> None:
        old = module.entries.get(item.name.name)
        if old is None or module.base is None:
            advice = did_you_mean(item.name.name, module.entries)
            if module.base is None:
                advice = "Only a spec that `extends` another one changes something."
            advice = advice or f"It has {', '.join(module.entries)}."
            raise error("X902", f"there is no `{item.name.name}` to change", item.name.span, help=advice)
        module.entries[item.name.name] = Entry(changed(old.definition, item), module)
        if item.name.name not in module.own:
            module.own.append(item.name.name)

    def _remove(self, module: Module, item: s.Remove) -> None:
        for name in item.names:
            tables: tuple[dict[str, object], ...] = (module.entries, module.uses, module.options)  # type: ignore[assignment]
            hit = [table for table in tables if name.name in table]
            maps = [one for one in module.checkpoints if one.model and one.model.name == name.name]
            if not hit and not maps:
                known = [*module.entries, *module.uses, *module.options]
                advice = did_you_mean(name.name, known) or f"It has {', '.join(known)}."
                if module.base is None:
                    advice = "Only a spec that `extends` another one removes something."
                raise error("X903", f"there is no `{name.name}` to remove", name.span, help=advice)
            module.removed[name.name] = name.span
            for table in hit:
                del table[name.name]
            module.checkpoints = [one for one in module.checkpoints if one not in maps]


Named = TypeVar("Named", s.WeightDecl, s.UseDecl)


def changed(old: s.Definition, change: s.Change) -> s.Definition:
    """The definition after a `change`: single equations, weights and instances replaced, added or removed."""
    where = list(old.body.where)
    for statement in change.body.where:
        where = _replace_statement(where, statement)
    weights = _replace_named(old.body.weights, change.body.weights)
    uses = _replace_named(old.body.uses, change.body.uses)
    known = (
        {n for st in where for n in statement_names(st)}
        | {n.name for w in weights for n in w.names}
        | {n.name for u in uses for n in u.names}
    )
    for name in change.body.removes:
        if name.name not in known:
            advice = did_you_mean(name.name, known) or f"It has {', '.join(sorted(known))}."
            raise error("X904", f"`{old.name.name}` has no `{name.name}` to remove", name.span, help=advice)
    gone = {name.name for name in change.body.removes}
    where = [st for st in where if not statement_names(st) <= gone or not statement_names(st)]
    params = old.params
    if change.params:
        new = {one.name: one for one in change.params}
        kept = tuple(new.pop(one.name, one) for one in old.params or ())
        params = (*kept, *new.values())
    outputs = old.outputs
    if change.value is not None:
        outputs = (replace(old.outputs[0], value=change.value), *old.outputs[1:])
    new_shows = {one.name: one for one in change.body.shows}
    shows = (*(one for one in old.body.shows if one.name not in new_shows), *new_shows.values())
    body = s.Body(old.body.span, tuple(where), _without(weights, gone), _without(uses, gone), old.body.removes, shows)
    return replace(old, params=params, outputs=outputs, body=body, span=change.span)


def statement_names(statement: s.Statement) -> set[str]:
    """The names that a statement defines."""
    if isinstance(statement, s.Assign):
        return {statement.name.name}
    return {name for inner in statement.body for name in statement_names(inner)}


def _key(statement: s.Statement) -> object:
    if isinstance(statement, s.Loop):
        return ("loop", frozenset(statement_names(statement)))
    first = (
        statement.brackets[0].value if statement.brackets and isinstance(statement.brackets[0], s.PlainItem) else None
    )
    return (statement.name.name, first if isinstance(first, s.Number) else None)


def _replace_statement(where: list[s.Statement], new: s.Statement) -> list[s.Statement]:
    """The statement of the same name (and first state's number) is replaced, in loops too; a new name is added."""
    if isinstance(new, s.Assign):
        for place, old in enumerate(where):
            if isinstance(old, s.Loop) and new.name.name in statement_names(old) and _key(new) not in map(_key, where):
                return [
                    *where[:place],
                    replace(old, body=tuple(_replace_statement(list(old.body), new))),
                    *where[place + 1 :],
                ]
    else:
        kept = [old for old in where if not (isinstance(old, s.Loop) and statement_names(old) & statement_names(new))]
        return [*kept, new]
    for place, old in enumerate(where):
        if _key(old) == _key(new):
            return [*where[:place], new, *where[place + 1 :]]
    return [*where, new]


def _replace_named(old: Iterable[Named], new: Iterable[Named]) -> tuple[Named, ...]:
    added = list(new)
    kept = list(_without(old, {name.name for one in added for name in one.names}))
    return tuple(kept + added)


def _without(declared: Iterable[Named], gone: set[str]) -> tuple[Named, ...]:
    left: list[Named] = []
    for one in declared:
        names = tuple(name for name in one.names if name.name not in gone)
        if names:
            left.append(replace(one, names=names))
    return tuple(left)


def local_entry(statement: s.Assign, module: Module) -> Entry:
    span = statement.span
    output = s.Output(span, None, None, statement.value)
    axes = tuple(_head_axis(one) for one in statement.brackets)
    definition = s.Definition(span, "formula", statement.name, axes, statement.params, (output,), s.Body(span))
    return Entry(definition, module)


def _head_axis(item: s.Item | s.AxisParam) -> s.AxisParam:
    """An axis in the head of a local function: f[j](x) or f[i: j](x)."""
    if isinstance(item, s.AxisParam):
        return item
    if isinstance(item, s.PlainItem) and isinstance(item.value, s.Name):
        return s.AxisParam(item.span, item.value)
    raise error("A119", "an axis is expected here", item.span)
