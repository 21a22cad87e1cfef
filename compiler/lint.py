"""Mistakes that the text alone shows: unused and doubled names, shadowed builtins, two models where one was meant."""

from __future__ import annotations

from collections.abc import Iterator

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Note, similar
from . import builtins, heads
from .calls import MAX_DEPTH
from .config import Config
from .modules import Entry, Module, statement_names
from .names import members, names_in, parts, used_names

RESERVED = frozenset((*builtins.NAMES, "dropout"))


def lint(module: Module, config: Config) -> Iterator[Diagnostic]:
    """All such mistakes of a spec's own file."""
    yield from _imports(module)
    outside = members(module.file)
    for name in module.own:
        entry = module.entries.get(name)
        if entry is None:
            continue
        yield from _shadowing(entry, module, config)
        yield from _parameters(entry)
        yield from _unused(entry, module, outside)
    yield from _two_models(module)
    yield from _circles(module)


def _imports(module: Module) -> Iterator[Diagnostic]:
    items = [one for one in module.file.items if not isinstance(one, s.Import)]
    used = used_names(items)
    for item in module.file.items:
        if isinstance(item, s.Import):
            for name in item.names:
                if name.name not in used and name.name not in module.broken:
                    yield Diagnostic(
                        "N215", f"`{name.name}` is imported and never used", name.span, help="Remove it from the line."
                    )


def _local_names(entry: Entry) -> Iterator[tuple[str, s.Node, str]]:
    definition = entry.definition
    for param in definition.params or ():
        yield param.name, param, "a parameter"
    for one in definition.axes:
        if one.index is not None:
            yield one.index.name, one.index, "an index"
    for statement in _flat(definition.body.where):
        yield statement.name.name, statement.name, "a part"
    for weight in definition.body.weights:
        for name in weight.names:
            yield name.name, name, "a weight"
    for use in definition.body.uses:
        for name in use.names:
            yield name.name, name, "an instance"


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
    for name, node, kind in _local_names(entry):
        if name in told:
            continue
        what = ""
        if name in RESERVED:
            what = "a builtin"
        elif name in axes:
            what = "an axis here"
        elif name in config:
            what = "an entry of config"
        elif name in module.entries and kind != "a parameter" and name != entry.name:
            what = f"a {module.entries[name].definition.kind} of this file"
        if what:
            told.add(name)
            yield Diagnostic(
                "N216",
                f"`{name}` is {what} and cannot be the name of {kind}, too",
                node.span,
                notes=_first_meaning(name, entry, module, config),
                help="One name has one meaning: choose another.",
            )
    if entry.name in RESERVED or entry.name in config:
        what = "a builtin" if entry.name in RESERVED else "an entry of config"
        yield Diagnostic(
            "N216",
            f"`{entry.name}` is {what} and cannot be the name of a {entry.definition.kind}, too",
            entry.definition.name.span,
            notes=_first_meaning(entry.name, entry, module, config),
            help="One name has one meaning: choose another.",
        )


def _first_meaning(name: str, entry: Entry, module: Module, config: Config) -> tuple[Note, ...]:
    axes = [a.axis for a in entry.definition.axes]
    axes += [n for p in entry.definition.params or () if p.axes for n in p.axes.names]
    places = [axis.span for axis in axes if axis.name == name]
    if name in config:
        places.append((module.options.get(name) or module.axes[name]).name.span)
    if name in module.entries and name != entry.name:
        places.append(module.entries[name].definition.name.span)
    return tuple(Note(place, "the first meaning") for place in places[:1] if name not in RESERVED)


def _parameters(entry: Entry) -> Iterator[Diagnostic]:
    seen: dict[str, s.Node] = {}
    for param in entry.definition.params or ():
        if param.name in seen:
            yield Diagnostic(
                "N217",
                f"`{param.name}` is a parameter twice",
                param.span,
                notes=(Note(seen[param.name].span, "first here"),),
                help="Each parameter has a name of its own.",
            )
        seen[param.name] = param


def _unused(entry: Entry, module: Module, outside: frozenset[str]) -> Iterator[Diagnostic]:
    definition = entry.definition
    body = definition.body
    loops = tuple(one for one in body.where if isinstance(one, s.Loop))
    bounds = [part for one in parts(loops) if isinstance(one, s.Loop) for part in (one.start, one.stop)]
    read = used_names([definition.outputs, body.shows, bounds]) | _defaults(definition) | outside
    by: dict[str, set[str]] = {}
    for statement in _flat(body.where):
        for name in used_names([statement.value, statement.brackets, statement.params]):
            by.setdefault(name, set()).add(statement.name.name)
    told: set[str] = set()
    for statement in _flat(body.where):
        name = statement.name.name
        if name in told or name in read or by.get(name, set()) - {name} or name.endswith(heads.CALL):
            continue
        if statement.span.source != module.file.span.source:  # a spec that this one extends owns it
            continue
        told.add(name)
        yield _never_used(entry, statement, read | by.keys())
    written = used_names([definition.outputs, body.where, *(u.args for u in body.uses)])
    written |= outside | _defaults(definition)
    declarations: tuple[s.WeightDecl | s.UseDecl, ...] = (*body.weights, *body.uses)
    for declared in declarations:
        for one in declared.names:
            if one.name not in written and one.span.source == module.file.span.source:
                what = "weight" if isinstance(declared, s.WeightDecl) else "instance"
                told_ = f"the {what} `{one.name}` is declared and never used"
                yield Diagnostic("N203", told_, one.span, help="Use it, or remove it.")


def _defaults(definition: s.Definition) -> set[str]:
    return used_names([p.default for p in definition.params or () if p.default is not None])


def _never_used(entry: Entry, statement: s.Assign, read: set[str]) -> Diagnostic:
    name = statement.name.name
    defined = {n for st in entry.definition.body.where for n in statement_names(st)}
    near = [other for other in similar(name, read - defined, 3) if other not in defined and other != name]
    advice = ""
    if near:
        text = (entry.definition.outputs, entry.definition.body)
        place = next((n for n in names_in(text) if n.name == near[0]), None)
        line = f" (line {place.span.line})" if place else ""
        advice = f"The result uses `{near[0]}`{line}, which is not defined here. Same thing?"
    told = f"`{name}` is defined and never used"
    return Diagnostic("N203", told, statement.name.span, help=advice or "Use it, or remove it.")


def _circles(module: Module) -> Iterator[Diagnostic]:
    """Definitions that call themselves, directly or through others."""
    graph = {name: _calls(module.entries[name], module) for name in module.entries if name not in module.imported}
    state: dict[str, int] = {}
    depth: dict[str, int] = {}
    for root in graph:
        stack = [(root, iter(graph[root].items()))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            name, rest = stack[-1]
            other, place = next(rest, (None, None))
            if other is None or place is None:
                state[name] = 2
                depth[name] = 1 + max((depth.get(one, 0) for one in graph[name]), default=0)
                if depth[name] == MAX_DEPTH:
                    yield _too_deep(module.entries[name])
                stack.pop()
            elif state.get(other) == 1:
                ring = [one for one, _ in stack]
                yield _circle(module, ring[ring.index(other) :], graph)
            elif other not in state and other in graph:
                state[other] = 1
                stack.append((other, iter(graph[other].items())))


def _too_deep(entry: Entry) -> Diagnostic:
    return Diagnostic(
        "U705",
        f"calls are nested more than {MAX_DEPTH} deep",
        entry.definition.name.span,
        because=(f"`{entry.name}` calls a formula that calls a formula, and so on",),
        help="Write a repeated step as a recurrence: x[0] = …, then x[l + 1] = f(x[l]).",
    )


def _calls(entry: Entry, module: Module) -> dict[str, s.Name]:
    """The definitions of this module that a definition mentions, with the first place."""
    own = {name for name, _, _ in _local_names(entry)}
    body = entry.definition.body
    found: dict[str, s.Name] = {}
    for one in (*names_in((entry.definition.outputs, body.where)), *(use.block for use in body.uses)):
        if one.name in module.entries and one.name not in own and one.name not in module.imported:
            found.setdefault(one.name, one)
    return found


def _circle(module: Module, ring: list[str], graph: dict[str, dict[str, s.Name]]) -> Diagnostic:
    ways = [(a, b, graph[a][b].span) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)]
    (first, _, place), *others = ways
    told = f"`{first}` calls itself" if not others else " and ".join(f"`{a}` calls `{b}`" for a, b, _ in ways[:4])
    return Diagnostic(
        "U705",
        told,
        place,
        notes=tuple(Note(span, f"{a} calls {b} here") for a, b, span in others[:3]),
        help="A definition may not need itself. A repeated step is a recurrence: x[0] = …, then x[l + 1] = f(x[l]).",
    )


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
                    use.block.span,
                    notes=(Note(first.span, "the other one"),),
                    help=f"For one {block} with two heads move the line to the top level of the file:  "
                    f"uses {use.names[0].name} : {block}",
                    severity="warning",
                )
            seen.setdefault(block, (name, use))
