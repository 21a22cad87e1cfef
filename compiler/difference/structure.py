"""The trees of blocks beside each other: blocks that are new, gone, renamed, replaced or moved; inputs and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...grammar.diagnostics import Span
from ..ir import Axis, Graph
from .blocks import Block
from .change import ADDED, CHANGED, MOVED, REMOVED, RENAMED, REPLACED, Change, Line
from .matching import Matching

PLACES = "position_ids"
OPTIONAL = ", optional"


def compared(found: Matching) -> Iterator[Change]:
    """The changes of a matching, the same one of several blocks once."""
    one, other = found.pairs[0]
    if one.path != other.path:
        inner, here = (one, REMOVED) if one.path else (other, ADDED)
        say = f"{inner.kind} is a part of {'the first' if here == REMOVED else 'the second'} model, {inner.path}"
        yield Change("structure", CHANGED, inner.path, say, one.path, other.path, rank=0.1).at(*_spans(one, other))
    yield from _lost(found.gone, REMOVED)
    yield from _lost(found.new, ADDED)
    for one, other in found.moved:
        say = f"{one.name} stands at {_path(other)} instead of {_path(one)}"
        yield Change("structure", MOVED, other.path, say, _path(one), _path(other), rank=3).at(*_spans(one, other))
    groups: dict[tuple[str, str, bool], list[tuple[Block, Block]]] = {}
    for one, other in found.pairs[1:]:
        if one.kind != other.kind or one.name != other.name:
            groups.setdefault((one.kind, other.kind, one.name != other.name), []).append((one, other))
    for (mine, theirs, _), pairs in groups.items():
        yield _replaced(mine, theirs, pairs)
    for one, other in found.pairs[1:]:
        yield from _declared(one, other)


def _spans(one: Block | None, other: Block | None) -> tuple[Span | None, Span | None]:
    left, right = (block.use.span if block is not None and block.use is not None else None for block in (one, other))
    return left, right


def _path(block: Block) -> str:
    return block.path or block.name


def _lost(blocks: Sequence[Block], kind: str) -> Iterator[Change]:
    """Blocks that one side has, those of one definition together."""
    groups: dict[tuple[str, str], list[Block]] = {}
    for one in blocks:
        groups.setdefault((one.kind, one.path.rpartition(".")[0]), []).append(one)
    for (name, parent), members in groups.items():
        inside = f" in {parent}" if parent else ""
        said = ", ".join(one.label for one in members)
        many = "s" if len(members) > 1 else ""
        say = f"{'further' if kind == ADDED else 'no'} block{many} {said} ({name}){inside}"
        first = members[0]
        spans = _spans(None, first) if kind == ADDED else _spans(first, None)
        yield Change("structure", kind, first.path, say, rank=1).at(*spans)


def _replaced(mine: str, theirs: str, pairs: Sequence[tuple[Block, Block]]) -> Change:
    """Blocks that are of another definition, or have another name."""
    names = [(one.name, other.name) for one, other in pairs]
    lines = tuple(Line(_path(b), f"{_path(a)} : {a.kind}", f"{_path(b)} : {b.kind}") for a, b in pairs)
    told = ", ".join(dict.fromkeys(a if a == b else f"{a} → {b}" for a, b in names))
    if mine == theirs:
        say, kind = f"{mine}: {told}", RENAMED
    else:
        say, kind = f"{theirs} in the place of {mine} ({told})", REPLACED
    one, other = pairs[0]
    rank = 6 if kind == RENAMED else 2
    return Change("structure", kind, other.path, say, mine, theirs, lines, rank=rank).at(*_spans(one, other))


def _declared(one: Block, other: Block) -> Iterator[Change]:
    """How often there is a block, and what its declaration binds and gives."""
    if one.stack != other.stack:
        before, after = (_times(block) for block in (one, other))
        follows = "config" if [name for name, _ in one.stack] == [name for name, _ in other.stack] else ""
        say = f"{_path(other)}: {after} instead of {before}"
        made = Change("structure", CHANGED, other.path, say, before, after, rank=1.5, follows=follows)
        yield made.at(*_spans(one, other))
    if one.declared != other.declared:
        before, after = (", ".join(block.declared) or "nothing" for block in (one, other))
        say = f"{_path(other)} is given {after} instead of {before}"
        yield Change("structure", CHANGED, f"{other.path} ()", say, before, after, rank=4).at(*_spans(one, other))


def _times(block: Block) -> str:
    """One, or how many along which axes."""
    return " × ".join(f"{size} {name}" for name, size in block.stack) or "one"


def borders(one: Graph, other: Graph) -> Iterator[Change]:
    """Inputs and results that differ, by the names that a caller uses."""
    for what, mine, theirs, rank in (
        ("input", _inputs(one), _inputs(other), 0.2),
        ("result", _results(one), _results(other), 0.3),
    ):
        for kind, here, there in ((REMOVED, mine, theirs), (ADDED, theirs, mine)):
            yield from _only(what, kind, {name: axes for name, axes in here.items() if name not in there}, rank)
        for name in mine:
            if name in theirs and mine[name] != theirs[name]:
                yield _border(what, name, mine[name], theirs[name], rank + 0.05)


def _only(what: str, kind: str, names: Mapping[str, str], rank: float) -> Iterator[Change]:
    """The inputs or results that one side has alone."""
    texts = {name: name + axes for name, axes in names.items()}
    lines = tuple(Line.of(kind, name, text) for name, text in texts.items())
    if names:
        say = f"{'further' if kind == ADDED else 'no'} {what}{'s' * (len(names) > 1)} {', '.join(names)}"
        yield Change("structure", kind, f"{what}s", say, lines=lines, rank=rank)


def _border(what: str, name: str, before: str, after: str, rank: float) -> Change:
    """An input or result of other axes, or one that has to be given."""
    if before.removesuffix(OPTIONAL) == after.removesuffix(OPTIONAL):
        words = ["may be left out" if text.endswith(OPTIONAL) else "must be given" for text in (before, after)]
        say = f"the {what} {name} {words[1]}"
    else:
        say = f"the {what} {name} is {after.removesuffix(OPTIONAL)} instead of {before.removesuffix(OPTIONAL)}"
    return Change("structure", CHANGED, f"{what} {name}", say, before, after, rank=rank)


def _inputs(graph: Graph) -> dict[str, str]:
    found = {one.name: _axes(one.axes, graph) + ("" if one.required else OPTIONAL) for one in graph.inputs}
    counted = dict.fromkeys(one["axis"] for one in graph.nodes() if one.op == "position")  # others may be given
    return found | dict.fromkeys([PLACES] * bool(counted), f"{_axes(counted, graph)}{OPTIONAL}")


def _results(graph: Graph) -> dict[str, str]:
    return {one.name: _axes(one.axes, graph) for one in graph.outputs}


def _axes(axes: Iterable[Axis], graph: Graph) -> str:
    return f"[{', '.join(axis.name for axis in axes if axis != graph.batch)}]"
