"""What both models hold and cost for given sizes, in all and block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..driver import compile_graph
from ..keeping import Cache
from ..sizes import Sizes
from ..summary import Block, Summary, summarise
from .change import BlockFigures, Figure
from .facts import looks_back
from .matching import Matching
from .sides import Side


def whole(one: Summary, other: Summary, caches: tuple[Cache | None, Cache | None]) -> tuple[Figure, ...]:
    """The numbers of both models after the last pass; of a cache only where one of them keeps one."""
    rows = [
        ("parameters", "count", one.parameters, other.parameters),
        ("bytes of weights", "bytes", one.formula.amount.parameter_bytes, other.formula.amount.parameter_bytes),
        ("operations of a run", "flops", one.final.amount.flops, other.final.amount.flops),
        ("bytes moved", "bytes", one.final.amount.bytes, other.final.amount.bytes),
        ("values at once, at most", "bytes", one.final.peak_bytes, other.final.peak_bytes),
    ]
    made = [Figure(*row) for row in rows]
    if any(caches):
        kept = [None if cache is None else cache.per_token for cache in caches]
        made.append(Figure("keys and values kept of a token", "bytes", *kept))
    return tuple(made)


def blocks(one: Summary, other: Summary, matching: Matching) -> tuple[BlockFigures, ...]:
    """The parameters and operations of each block, those that stand for each other in one row."""
    tops = [_at(side.top, root) for side, root in zip((one, other), matching.roots, strict=True)]
    return tuple(_rows(tops[0], tops[1], matching.paths(), 0))


def _at(top: Block, path: str) -> Block:
    """The block at a path."""
    return next((block for block in top.walk() if ".".join(block.path) == path), top)


def _rows(one: Block | None, other: Block | None, paths: Mapping[str, str], level: int) -> Iterator[BlockFigures]:
    mine, theirs = one.name if one else "", other.name if other else ""
    name = mine if mine == theirs or not theirs else theirs if not mine else f"{mine} → {theirs}"
    figures = (
        Figure("parameters", "count", *(block.formula.parameters if block else None for block in (one, other))),
        Figure("operations", "flops", *(block.final.flops if block else None for block in (one, other))),
    )
    yield BlockFigures(name, level, figures)
    right = {".".join(part.path): part for part in (other.parts if other else ())}
    for part in one.parts if one else ():
        path = ".".join(part.path)
        yield from _rows(part, right.pop(paths.get(path, path), None), paths, level + 1)
    for part in right.values():
        yield from _rows(None, part, paths, level + 1)


def summaries(one: Side, other: Side, sizes: Sizes) -> tuple[Summary, Summary]:
    """The summary of both."""
    return summarise(one.compiled, sizes), summarise(other.compiled, sizes)


def cache_of(side: Side, summary: Summary) -> Cache | None:
    """What is kept of a token: by the compared model, or, if that looks back alone, the first of its spec to decode."""
    if summary.cache is not None or not looks_back(side.recognised):
        return summary.cache
    for name in side.models[1:]:
        if side.graph(name) is None:
            continue
        made = compile_graph(side.module, side.given, name, side.settings)
        if made.decoding is not None:
            return summarise(made, summary.sizes).cache
    return None
