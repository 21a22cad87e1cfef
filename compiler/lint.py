"""Mistakes that the text alone shows: unused and doubled names, shadowed builtins, two models where one was meant."""

from __future__ import annotations

from collections.abc import Iterator

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Note, similar
from . import builtins
from .config import Config
from .modules import Entry, Module, statement_names
from .names import members, names_in, parts, used_names

RESERVED = frozenset((*builtins.NAMES, "dropout"))


def lint(module: Module, config: Config) -> Iterator[Diagnostic]:
    """All such mistakes of a spec's own file."""
    yield from _imports(module)
    for name in module.own:
        entry = module.entries.get(name)
        if entry is None:
            continue
        yield from _shadowing(entry, module, config)
        yield from _parameters(entry)
        if entry.definition.kind != "objective" or True:
            yield from _unused(entry, module)
    yield from _two_models(module)


def _imports(module: Module) -> Iterator[Diagnostic]:
    items = [one for one in module.file.items if not isinstance(one, s.Import)]
    used = used_names(items)
    for item in module.file.items:
        if isinstance(item, s.Import):
            for name in item.names:
                if name.name not in used:
                    yield Diagnostic(
                        "N215", f"`{name.name}` is imported and never used", name.span, help="Remove it from the line."
                    )


def _local_names(entry: Entry) -> Iterator[tuple[str, s.Node, str]]:
    definition = entry.definition
    for param in definition.params or ():
        yield param.name, param, "parameter"
    for one in definition.axes:
        if one.index is not None:
            yield one.index.name, one.index, "index"
    for statement in _flat(definition.body.where):
        yield statement.name.name, statement.name, "name"
    for weight in definition.body.weights:
        for name in weight.names:
            yield name.name, name, "weight"
    for use in definition.body.uses:
        for name in use.names:
            yield name.name, name, "instance"


def _flat(where: tuple[s.Statement, ...]) -> Iterator[s.Assign]:
    for statement in where:
        if isinstance(statement, s.Assign):
            yield statement
        else:
            yield from _flat(statement.body)


def _shadowing(entry: Entry, module: Module, config: Config) -> Iterator[Diagnostic]:
    axes = {a.axis.name for a in entry.definition.axes} | {
        n.name for p in entry.definition.params or () if p.axes for n in p.axes.names
    }
    told: set[str] = set()
    own_config = config if entry.module.file.name is not None else None
    for name, node, kind in _local_names(entry):
        if name in told:
            continue
        what = ""
        if name in RESERVED:
            what = "a builtin"
        elif name in axes:
            what = "an axis here"
        elif own_config is not None and name in own_config:
            what = "an entry of config"
        elif name in module.entries and kind != "parameter" and name != entry.name:
            what = f"a {module.entries[name].definition.kind} of this file"
        if what:
            told.add(name)
            yield Diagnostic(
                "N216", f"`{name}` is {what} and cannot be a {kind}'s name, too", node.span, help="One name has one meaning: choose another."
            )
    if entry.name in RESERVED:
        yield Diagnostic("N216", f"`{entry.name}` is a builtin", entry.definition.name.span, help="Choose another name.")


def _parameters(entry: Entry) -> Iterator[Diagnostic]:
    seen: dict[str, s.Node] = {}
    for param in entry.definition.params or ():
        if param.name in seen:
            yield Diagnostic(
                "N217", f"`{param.name}` is a parameter twice", param.span, notes=(Note(seen[param.name].span, "first here"),)
            )
        seen[param.name] = param


def _unused(entry: Entry, module: Module) -> Iterator[Diagnostic]:
    definition = entry.definition
    body = definition.body
    outside = members(module.file)
    steps = list(_flat(body.where))
    for statement in steps:
        name = statement.name.name
        others = [st for st in steps if st is not statement]
        loops = [one for one in body.where if isinstance(one, s.Loop)]
        bounds = [part for one in parts(tuple(loops)) if isinstance(one, s.Loop) for part in (one.start, one.stop)]
        read = used_names([definition.outputs, bounds, *((o.value, o.brackets, o.params) for o in others if o.name.name != name)])
        read |= _defaults(definition)
        if name not in read and name not in outside:
            yield _never_used(entry, statement, read)
    written = used_names([definition.outputs, body.where, *(u.args for u in body.uses)]) | outside | _defaults(definition)
    for declared in (*body.weights, *body.uses):
        for one in declared.names:
            if one.name not in written:
                what = "weight" if isinstance(declared, s.WeightDecl) else "instance"
                yield Diagnostic("N203", f"the {what} `{one.name}` is declared and never used", one.span, help="Use it, or remove it.")


def _defaults(definition: s.Definition) -> set[str]:
    return used_names([p.default for p in definition.params or () if p.default is not None])


def _never_used(entry: Entry, statement: s.Assign, read: set[str]) -> Diagnostic:
    name = statement.name.name
    defined = {n for st in entry.definition.body.where for n in statement_names(st)}
    near = [other for other in similar(name, read - defined, 3) if other not in defined and other != name]
    advice = ""
    if near:
        place = next((n for n in names_in((entry.definition.outputs, entry.definition.body)) if n.name == near[0]), None)
        line = f" (line {place.span.line})" if place else ""
        advice = f"The result uses `{near[0]}`{line}, which is not defined here. Same thing?"
    return Diagnostic("N203", f"`{name}` is defined and never used", statement.name.span, help=advice or "Use it, or remove it.")


def _two_models(module: Module) -> Iterator[Diagnostic]:
    """Two objectives that each make their own instance of the same model: a warning."""
    seen: dict[str, tuple[str, s.UseDecl]] = {}
    for name in module.own:
        entry = module.entries.get(name)
        if entry is None or entry.definition.kind != "objective":
            continue
        for use in entry.definition.body.uses:
            block = use.block.name
            if block in seen and block in module.entries and module.entries[block].definition.kind == "model":
                other, first = seen[block]
                yield Diagnostic(
                    "U702",
                    f"`{other}` and `{name}` each make their own {block}: two models, no shared weights",
                    use.span,
                    notes=(Note(first.span, "the other one"),),
                    help=f"For one {block} with two heads move the line to the top level of the file:  uses {use.names[0].name} : {block}",
                    severity="warning",
                )
            seen.setdefault(block, (name, use))
