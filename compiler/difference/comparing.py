"""Two sides in, all their differences out: what stands for what, then the changes of each part, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..sizes import USUAL, Sizes
from . import configs, costs, formulas, objectives, structure, tensors, weights
from .change import CHANGED, PARTS, BlockFigures, Change, Differences, Figure
from .facts import facts
from .matching import Matching, matched
from .sides import Side


def compared(one: Side, other: Side, sizes: Sizes = USUAL, only: Iterable[str] = ()) -> Differences:
    """The differences of two sides, costs for the given sizes; `only` names the parts that are wanted (change.ONLY).

    Raises `TransformulaError` where one of the models cannot be compiled.
    """
    only = tuple(only)
    found = Differences(
        (one.label, other.label), (one.title, other.title), (one.entry, other.entry), (), sizes=str(sizes)
    ).only(only)
    matching = matched(one.tree, other.tree, one.meant, other.meant)
    changes = [change for change in _changes(one, other, matching) if change.part in found.parts]
    changes.sort(key=lambda change: (PARTS.index(change.part), change.rank))
    figures, blocks = _cost(one, other, matching, sizes) if "cost" in found.parts else ((), ())
    return Differences(
        found.labels, found.titles, found.models, tuple(changes), figures, blocks, found.sizes, found.parts
    )


def _changes(one: Side, other: Side, matching: Matching) -> Iterator[Change]:
    mine, theirs = matching.pairs[0]
    models = objectives.model_pairs(one, other, (mine.kind, theirs.kind))
    yield from _facts(one, other)
    left, right = one.graph(one.entry), other.graph(other.entry)
    if left is not None and right is not None:
        yield from structure.borders(left, right)
    yield from structure.compared(matching)
    yield from configs.compared(one, other)
    pairs, places = definitions(one, other, matching, models)
    yield from formulas.compared(one, other, pairs, places, renames(one, other, matching))
    yield from objectives.compared(one, other, models)
    kinds = {block.kind for pair in matching.pairs[1:] for block in pair}
    apart = [pair for pair in models if not kinds.intersection(pair)]  # the weights of the rest are in the tree
    yield from weights.compared(one, other, apart, matching.paths(within=True))
    yield from tensors.compared(one, other)


def definitions(
    one: Side, other: Side, matching: Matching, models: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Definitions that stand for each other, by the blocks that they are of or by name; where such a block stands."""
    pairs: dict[str, str] = dict(models)
    places: dict[str, str] = {}
    for mine, theirs in matching.pairs:
        if mine.kind in one.module.entries and theirs.kind in other.module.entries:
            pairs.setdefault(mine.kind, theirs.kind)
            places.setdefault(mine.kind, mine.path)
    taken = set(pairs.values())
    for name, entry in one.module.entries.items():
        there = other.module.entries.get(name)
        if there is not None and there.definition.kind == entry.definition.kind and name not in taken:
            pairs.setdefault(name, name)
    return list(pairs.items()), places


def renames(one: Side, other: Side, matching: Matching) -> dict[str, str]:
    """Instances that only have other names, by those of the one."""
    names = {(mine.name, theirs.name) for mine, theirs in matching.pairs[1:]}
    roots = matching.pairs[0]
    names.add((weights.instance_of(one, roots[0].kind), weights.instance_of(other, roots[1].kind)))
    found = {mine: theirs for mine, theirs in sorted(names) if mine and theirs and mine != theirs}
    return {mine: theirs for mine, theirs in found.items() if theirs not in found}


def _facts(one: Side, other: Side) -> Iterator[Change]:
    """What is true of the one by meaning and not of the other."""
    mine, theirs = facts(one.recognised), facts(other.recognised)
    for number, name in enumerate(mine):
        before, after = mine[name], theirs[name]
        if before != after and before and after:
            yield Change("facts", CHANGED, name, f"{name}: {after} instead of {before}", before, after, rank=number)


def _cost(
    one: Side, other: Side, matching: Matching, sizes: Sizes
) -> tuple[tuple[Figure, ...], tuple[BlockFigures, ...]]:
    pair = costs.summaries(one, other, sizes)
    caches = [costs.cache_of(side, made) for side, made in zip((one, other), pair, strict=True)]
    return costs.whole(*pair, (caches[0], caches[1])), costs.blocks(*pair, matching)
