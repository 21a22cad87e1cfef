"""Which block, definition, model or weight of the one is which of the other.

Among the parts of two matched blocks the same name comes first, then the same definition, then what is most alike; what
is left over is looked for anywhere in the other tree. Ties are broken by place, in a way that does not depend on which
side comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from .blocks import Block

T = TypeVar("T")
Meant: TypeAlias = Callable[[Block], frozenset[str]]
ALIKE = 0.5
MOST = 60
"""Blocks that are compared with each other; more are matched by name and definition alone."""


def _nothing(block: Block) -> frozenset[str]:
    return frozenset()


@dataclass
class Matching:
    """Pairs of blocks; blocks of the one that the other has not; and which pairs stand elsewhere."""

    pairs: list[tuple[Block, Block]] = field(default_factory=list)
    gone: list[Block] = field(default_factory=list)
    new: list[Block] = field(default_factory=list)
    moved: list[tuple[Block, Block]] = field(default_factory=list)

    @property
    def roots(self) -> tuple[str, str]:
        """Where the two models begin that were matched: one may be a part of the other."""
        return self.pairs[0][0].path, self.pairs[0][1].path

    def paths(self, within: bool = False) -> dict[str, str]:
        """The path of each matched block of the one in the other; `within`: from the matched models on."""
        pairs = [(one.path, other.path) for one, other in self.pairs]
        if not within:
            return dict(pairs)
        roots = [f"{root}." if root else "" for root in self.roots]
        ends = [tuple(p if p != r else "" for p, r in zip(pair, self.roots, strict=True)) for pair in pairs]
        return {one.removeprefix(roots[0]): other.removeprefix(roots[1]) for one, other in ends}


def matched(one: Block, other: Block, meant: Meant = _nothing, meant_there: Meant = _nothing) -> Matching:
    """The matching of two trees, from their roots down; what is left over may have moved.

    Where one model is a part of the other, as Bert of SentenceBert, it is matched with that part.

    `meant` says what is recognised in a block of the one (its norm, its attention), `meant_there` of the other.
    """
    found = Matching()
    inside, around = _inside(one, other), _inside(other, one)
    if inside is not None:
        _below(one, inside[-1], found, (meant, meant_there))
        found.new += _beside(other, inside)
    elif around is not None:
        _below(around[-1], other, found, (meant, meant_there))
        found.gone += _beside(one, around)
    else:
        _below(one, other, found, (meant, meant_there))
    _moves(found)
    return found


def _inside(one: Block, other: Block) -> list[Block] | None:
    """The blocks that lead from a model to the part of it which the other model is, the part last."""
    if one.kind == other.kind:
        return None
    ways = [[part] for part in other.parts]
    while ways:
        way = ways.pop(0)
        if way[-1].kind == one.kind:
            return way
        ways += [[*way, part] for part in way[-1].parts]
    return None


def _beside(root: Block, way: list[Block]) -> list[Block]:
    """What stands beside the blocks of a way."""
    on_it = {id(block) for block in way}
    return [part for block in (root, *way[:-1]) for part in block.parts if id(part) not in on_it]


def _below(one: Block, other: Block, found: Matching, meant: tuple[Meant, Meant]) -> None:
    found.pairs.append((one, other))
    known = {id(part): meant[0](part) for part in one.parts} | {id(part): meant[1](part) for part in other.parts}
    keys: tuple[Callable[[Block], Hashable], ...] = (
        lambda b: b.name,
        lambda b: b.kind,
        lambda b: (known[id(b)], bool(b.parts)) if known[id(b)] else id(b),
    )
    pairs, gone, new = paired(one.parts, other.parts, keys, features)
    for mine, theirs in pairs:
        _below(mine, theirs, found, meant)
    found.gone += gone
    found.new += new


def _moves(found: Matching) -> None:
    """Blocks that stand elsewhere: of the same definition and name, and nearly the same inside."""
    gone = [block for one in found.gone for block in one.walk()]
    new = [block for one in found.new for block in one.walk()]
    keys: tuple[Callable[[Block], Hashable], ...] = (lambda b: (b.kind, b.name, b.weights),)
    pairs, _, _ = paired(gone, new, keys, None)
    for one, other in pairs:
        if one in found.gone and other in found.new:
            found.gone.remove(one)
            found.new.remove(other)
            found.moved.append((one, other))
            _below(one, other, found, (_nothing, _nothing))


def paired(
    ones: Sequence[T],
    others: Sequence[T],
    keys: Sequence[Callable[[T], Hashable]],
    features: Callable[[T], Counter[Hashable]] | None,
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Pairs of two lists: by each key in turn where it is of one only on both sides, then the most alike; the rest."""
    left, right = list(range(len(ones))), list(range(len(others)))
    pairs: list[tuple[int, int]] = []
    for key in keys:
        for i, j in _by_key(ones, others, left, right, key):
            pairs.append((i, j))
            left.remove(i)
            right.remove(j)
    if features is not None and len(left) * len(right) <= MOST * MOST:
        mine = {i: features(ones[i]) for i in left}
        theirs = {j: features(others[j]) for j in right}
        for i, j in _by_likeness(mine, theirs):
            if i in left and j in right:
                pairs.append((i, j))
                left.remove(i)
                right.remove(j)
    found = [(ones[i], others[j]) for i, j in sorted(pairs)]
    return found, [ones[i] for i in left], [others[j] for j in right]


def _by_key(
    ones: Sequence[T], others: Sequence[T], left: list[int], right: list[int], key: Callable[[T], Hashable]
) -> Iterator[tuple[int, int]]:
    mine, theirs = ({}, {})  # type: tuple[dict[Hashable, list[int]], dict[Hashable, list[int]]]
    for i in left:
        mine.setdefault(key(ones[i]), []).append(i)
    for j in right:
        theirs.setdefault(key(others[j]), []).append(j)
    found = [pair for name, places in mine.items() for pair in zip(places, theirs.get(name, ()), strict=False)]
    return iter(found)


def _by_likeness(
    mine: Mapping[int, Counter[Hashable]], theirs: Mapping[int, Counter[Hashable]]
) -> list[tuple[int, int]]:
    """Pairs from the most alike on; of equals those in the same order, which is the same from either side."""
    scores = {(i, j): shared(one, other) for i, one in mine.items() for j, other in theirs.items()}
    good = [pair for pair, score in scores.items() if score >= ALIKE]
    return sorted(good, key=lambda pair: (-scores[pair], abs(pair[0] - pair[1]), pair[0] + pair[1]))


def shared(one: Counter[Hashable], other: Counter[Hashable]) -> float:
    """The share of what either has that both have."""
    either = (one | other).total()
    return (one & other).total() / either if either else 0.0


def features(block: Block) -> Counter[Hashable]:
    """What a block is told by: the weights in it, with their axes, and the blocks in it."""
    found: Counter[Hashable] = Counter()
    for one in block.walk():
        found.update(one.weights)
        found.update(axes for _, axes in one.weights)
        found.update(("block", part.kind) for part in one.parts)
    return found
