"""Formulas that differ, beside each other, and whether the two mean the same.

A definition is taken apart into its equations. Where a text differs, the one is put in the place of the other and both
are lowered there: if the graphs are the same but for names and order, or become so when meanings are recognised, it is
written differently and means the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...grammar import syntax as s
from ...grammar.comments import above
from ...grammar.diagnostics import Span, TransformulaError
from ...grammar.printer import expression, item
from .. import pipeline
from ..config import Config
from ..ir import Graph
from ..modules import Entry, Module
from ..names import mentioned, names_in
from .blocks import axes_text
from .change import CHANGED, SAME, Change, Line, place
from .configs import same_entries, shown, values
from .meaning import signature
from .sides import Side, formula

ALWAYS, HERE, UNDROPPED, DIFFERENT = "always", "here", "undropped", "different"
RECOGNISING = ("simplify", "recognise")
UNDROPPING = ("inference", *RECOGNISING)
NOTHING: Mapping[str, str] = {}
SHOWS = "shows"
RANKS = {"model": 1.0, "block": 2.0, "formula": 3.0, "objective": 4.0}
MOST_NAMED = 3
"""Entries of config that two texts may differ by, to be called the same with this config."""
LONGEST_GRAPH = 20_000
"""Nodes of a graph whose passes are still run to see whether it means the same."""


@dataclass(frozen=True)
class Piece:
    """An equation of a definition: its name, its text, the expression and where it stands."""

    name: str
    text: str
    tree: Any
    span: Span


def compared(
    one: Side, other: Side, pairs: Iterable[tuple[str, str]], place_of: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[Change]:
    """The formulas that differ between definitions that stand for each other; `place_of` says where a block stands,
    `names` which instances and weights only have other names."""
    for mine, theirs in pairs:
        yield from between(one, other, mine, theirs, place_of.get(mine, ""), names)


def between(
    one: Side, other: Side, mine: str, theirs: str, where: str = "", names: Mapping[str, str] = NOTHING
) -> Iterator[Change]:
    """The change between two definitions, and that of the results on demand; none if their texts say the same."""
    left, right = one.definition(mine), other.definition(theirs)
    if _same_text(left, right):
        return
    every = list(differing(left, right, names))
    lines = tuple(line for line in every if not line.name.startswith(SHOWS))
    shows = tuple(line for line in every if line.name.startswith(SHOWS))
    name = mine if mine == theirs else f"{mine} and {theirs}"
    told = where or name
    if lines:
        yield _change(one, other, left, right, lines, told, name if where else "")
    if shows:
        say = f"results on demand of {told}"
        follows = "the formulas of the model" if lines else ""
        made = Change("formulas", CHANGED, told, say, lines=shows, rank=8, follows=follows)
        yield made.at(left.span, right.span)


def _change(
    one: Side, other: Side, left: s.Definition, right: s.Definition, lines: tuple[Line, ...], told: str, name: str
) -> Change:
    """What differs in a definition, and whether it means the same; `told` says which, `name` of which kind."""
    meaning, because = same_meaning(one, other, left.name.name, right.name.name)
    if meaning == ALWAYS:
        say = f"{told} is written differently and means the same"
        return Change("formulas", SAME, told, say, lines=lines).at(left.span, right.span)
    say = f"{told} ({left.kind} {name})" if name else f"{left.kind} {told}"
    say += {HERE: f": the same while {because}", UNDROPPED: ": another dropout, otherwise the same"}.get(meaning, "")
    rank = RANKS.get(left.kind, 4.5) + (meaning != DIFFERENT) * 3
    part = "objectives" if left.kind in ("objective", "corruption") else "formulas"
    quotes = _quotes(one, other, left, right)
    return Change(part, CHANGED, told, say, lines=lines, quotes=quotes, rank=rank).at(left.span, right.span)


def _same_text(one: s.Definition, other: s.Definition) -> bool:
    """Whether two definitions say the same, names of the definitions and order of the equations aside."""
    return replace(one, name=other.name, body=_sorted(one.body)) == replace(other, body=_sorted(other.body))


def _sorted(body: s.Body) -> s.Body:
    """The body with its equations in the order of their texts; loops after what stands outside them."""

    def key(one: s.Statement) -> str:
        return "~".join(text for _, text, _ in _statement(one))

    return replace(body, where=tuple(sorted(body.where, key=key)))


# --------------------------------------------------------------------------------------------------- equations


def differing(one: s.Definition, other: s.Definition, names: Mapping[str, str] = NOTHING) -> Iterator[Line]:
    """The equations that differ, those of one name beside each other; a local name that was only renamed is none."""
    left, right = pieces(one), pieces(other)
    renamed = {**names, **_renamed(left, right)}
    mine = {renamed.get(name, name): piece for name, piece in left.items()}
    for name in dict.fromkeys((*mine, *right)):
        old, new = mine.get(name), right.get(name)
        if old is not None and new is not None and (old.text == new.text or _turned(old.tree, renamed) == new.tree):
            continue
        texts = (old.text if old else "", new.text if new else "")
        yield Line(name, *texts, place(old.span if old else None), place(new.span if new else None))


def pieces(one: s.Definition) -> dict[str, Piece]:
    """The equations of a definition by name: its head, results, parts, and what it shows."""
    found = {}
    for name, text, made in _heading(one):
        found[name] = Piece(name, text, made, getattr(made, "span", one.name.span))
    for number, out in enumerate(one.outputs):
        name = f"→ {out.name or number or 'result'}"
        found[name] = Piece(name, f"{out.name or 'result'} = {expression(out.value)}", out.value, out.span)
    for statement in one.body.where:
        for name, text, made in _statement(statement):
            found[name] = Piece(name, text, made, made.span)
    for out in one.body.shows:
        name = f"{SHOWS} {out.name}"
        found[name] = Piece(name, f"{out.name or 'result'} = {expression(out.value)}", out.value, out.span)
    return found


def _heading(one: s.Definition) -> Iterator[tuple[str, str, Any]]:
    """What the head of a definition says: its axes, each parameter, the axes of each result."""
    if one.axes:
        yield "axes", f"[{', '.join(map(_axis_text, one.axes))}]", one.axes
    for param in one.params or ():
        yield f"takes {param.name}", param_text(param), param
    for out in one.outputs:
        if out.axes is not None:
            text = f"{out.name or ''}[{', '.join(axis.name for axis in out.axes)}]"
            yield f"gives {out.name or 'result'}", f"→ {text}", out.axes


def param_text(one: s.Param) -> str:
    """A parameter as it is declared."""
    axes = axes_text(one.axes) if one.axes is not None else ""
    alias = f" as {one.alias}" if one.alias else ""
    return one.name + axes + alias + (f" = {expression(one.default)}" if one.default is not None else "")


def _statement(one: s.Statement, loop: str = "") -> Iterator[tuple[str, str, Any]]:
    """Name, text and tree of each equation of a statement; those of a loop say which."""
    if isinstance(one, s.Loop):
        start = f"{expression(one.start)}.." if one.start is not None else ""
        inner = f"{loop}for {one.variable.name} in {start}{expression(one.stop)}: "
        for statement in one.body:
            yield from _statement(statement, inner)
        return
    brackets = [item(b) if isinstance(b, s.PlainItem) else _axis_text(b) for b in one.brackets]
    params = "" if one.params is None else f"({', '.join(map(param_text, one.params))})"
    left = f"{one.name.name}{'[' + ', '.join(brackets) + ']' if brackets else ''}{params}"
    yield left, f"{loop}{left} = {expression(one.value)}", one


def _axis_text(one: s.AxisParam) -> str:
    return f"{one.index.name}: {one.axis.name}" if one.index else one.axis.name


def _renamed(left: dict[str, Piece], right: dict[str, Piece]) -> dict[str, str]:
    """Local names of the one that the other calls differently: the equations are otherwise the same."""
    gone = [piece for name, piece in left.items() if name not in right and isinstance(piece.tree, s.Assign)]
    new = [piece for name, piece in right.items() if name not in left and isinstance(piece.tree, s.Assign)]
    found: dict[str, str] = {}
    for old in gone:
        for fresh in new:
            same = replace(old.tree, name=fresh.tree.name) == fresh.tree
            if same and fresh.name not in found.values():
                found[old.name] = fresh.name
                break
    return found


def _turned(tree: Any, names: Mapping[str, str]) -> Any:
    """The tree with local names replaced."""
    if isinstance(tree, s.Name):
        return replace(tree, name=names.get(tree.name, tree.name))
    if isinstance(tree, tuple):
        return tuple(_turned(part, names) for part in tree)
    if not isinstance(tree, s.Node) or not names:
        return tree
    kept = ("span", "sign")
    if isinstance(tree, s.Member):
        tree = replace(tree, name=names.get(tree.name, tree.name))
    return replace(tree, **{key: _turned(value, names) for key, value in vars(tree).items() if key not in kept})


# ----------------------------------------------------------------------------------------------------- meaning


def same_meaning(one: Side, other: Side, mine: str, theirs: str) -> tuple[str, str]:
    """Whether two definitions mean the same: always, with this config (and while what), but for dropout, or not."""
    found = [(a, b) for a, b in _placements(one, other, mine, theirs) if a is not None and b is not None]
    pairs = [pair for pair in found if alike(*pair)]
    for passes, answer in (((), ALWAYS), (RECOGNISING, ALWAYS), (UNDROPPING, UNDROPPED)):
        if any(_equal(*pair, passes) for pair in pairs):
            apart = _only_one_mentions(one, other, mine, theirs) if answer == ALWAYS else []
            if len(apart) > MOST_NAMED:
                return DIFFERENT, ""
            return (HERE, " and ".join(apart)) if apart else (answer, "")
    return DIFFERENT, ""


def _placements(one: Side, other: Side, mine: str, theirs: str) -> Iterator[tuple[Graph | None, Graph | None]]:
    """Both in the place of the one, in that of the other, and each in its own."""
    left, right = one.module.entries[mine], other.module.entries[theirs]
    for module, config in ((_both(one, other), one.config), (_both(other, one), other.config)):
        here = Config(module, config.file, {k: v for k, v in config.settings.items() if k in module.options})
        yield _lowered(module, here, left), _lowered(module, here, right)
    yield _lowered(one.module, one.config, left), _lowered(other.module, other.config, right)


def _both(one: Side, other: Side) -> Module:
    """The module of the one, with what only the other has."""
    mine, theirs = one.module, other.module
    made = replace(mine)
    made.entries = {**theirs.entries, **mine.entries}
    made.options = {**theirs.options, **mine.options}
    made.choices = {**theirs.choices, **mine.choices}
    made.axes, made.uses = {**theirs.axes, **mine.axes}, {**theirs.uses, **mine.uses}
    return made


def _lowered(module: Module, config: Config, entry: Entry) -> Graph | None:
    """The graph of any definition by itself, as a model of its parameters; None if it has none here."""
    definition = entry.definition
    if definition.kind == "formula":
        heads = s.Axes(definition.span, tuple(one.axis for one in definition.axes))
        bare = [one.axes is None and one.default is None for one in definition.params or ()]
        pairs = zip(definition.params or (), bare, strict=True)
        params = [replace(one, axes=heads) if plain else one for one, plain in pairs]
        definition = replace(definition, params=tuple(params), kind="block")
    try:
        return formula(module, config, Entry(definition, module))
    except TransformulaError:
        return None


def alike(one: Graph, other: Graph) -> bool:
    """Whether two graphs may be the same at all: they read weights of the same sizes, and the same inputs."""
    sizes = [sorted(sorted(map(str, weight.shape)) for weight in graph.weights) for graph in (one, other)]
    inputs = [sorted(len(i.axes) for i in graph.inputs) for graph in (one, other)]
    return sizes[0] == sizes[1] and inputs[0] == inputs[1]


def _equal(one: Graph, other: Graph, passes: Sequence[str]) -> bool:
    """Whether two graphs are the same but for names and order, as written or after some passes."""
    names = _by_place(one, other)
    left, right = _after(one, passes), _after(other, passes)
    return left is not None and right is not None and signature(left, names[0]) == signature(right, names[1])


@lru_cache(maxsize=64)
def _after(graph: Graph, passes: tuple[str, ...]) -> Graph | None:
    """The graph after some passes; None of one that passes are not for, or that is too large."""
    if not passes:
        return graph
    if graph.batch is None or len(graph.nodes()) > LONGEST_GRAPH:
        return None
    return pipeline.run(graph, only=passes)[0][-1].graph


def _by_place(one: Graph, other: Graph) -> tuple[Sequence[str], Sequence[str]]:
    """The inputs of both, as places where their names differ: f(x) and f(y) are called alike."""
    mine, theirs = [i.name for i in one.inputs], [i.name for i in other.inputs]
    return ((), ()) if set(mine) == set(theirs) else (mine, theirs)


def _only_one_mentions(one: Side, other: Side, mine: str, theirs: str) -> list[str]:
    """The entries of config that decide the one text and not the other: `act is gelu`."""
    left, right = (mentioned(side.definition(name)) for side, name in ((one, mine), (other, theirs)))
    pairs = {(a.name.name, b.name.name) for a, b in same_entries(one.module, other.module)}
    only = {(one, name) for name in left - right} | {(other, name) for name in right - left}
    told = []
    for side, name in sorted(only, key=lambda pair: pair[1]):
        known = {pair[0] if side is one else pair[1] for pair in pairs if pair[0] != pair[1]}
        if name in side.module.options and name not in known:
            told.append(f"{name} is {shown(values(side).get(name))}")
    return told


# ------------------------------------------------------------------------------------------------------ quotes


def _quotes(one: Side, other: Side, left: s.Definition, right: s.Definition) -> tuple[str, ...]:
    """The comments at both definitions where they differ, and at formulas that only one of them mentions."""
    texts = {one.label: " ".join(above(left.span)), other.label: " ".join(above(right.span))}
    found = [f"{label}: {text}" for label, text in texts.items()] if all(texts.values()) else []
    found = found if len(set(texts.values())) > 1 else []
    for mine, theirs, definition, apart in ((one, other, left, right), (other, one, right, left)):
        fresh = {name.name for name in names_in((definition.outputs, definition.body))} - mentioned(apart)
        for name in sorted(fresh & set(mine.module.entries) - set(theirs.module.entries)):
            text = " ".join(above(mine.module.entries[name].definition.span))
            found += [f"{name}: {text}"] if text else []
    return tuple(dict.fromkeys(found))
