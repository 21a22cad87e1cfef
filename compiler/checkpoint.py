"""The checkpoint map of a model, flattened and total: which stored tensor holds which weight, and how.

What a row means, when it says no layout of its own:

* a map `W : [c, d → head dk]` is stored the ecosystem's way, `[out, in]`: carried axes first, each a
  dimension of its own, then all out-axes as one dimension, then all in-axes as one;
* a weight without an arrow (a table, a gain, a bias) is stored in its declared order. The file may merge
  neighbouring axes: `b : [head, dk]` is found as [head, dk] and as [(head dk)]. Both are the same run of
  numbers, so nothing is guessed;
* several weights in one tensor, `[W_Q; W_K; W_V]`, follow each other along the first such dimension.

A written layout always wins, and is exact: one group of axes per stored dimension, `1` for a dimension of one
entry; `d'` is the out-side of `[d → d]`; in a fused row the one name that no weight has stands for the parts.
An axis of a stack (`layer[layers]`) is a place in the name, `layer[l] : "….{l}.…"`, where counting may start later,
`layer[l] : "….{l + 1}.…"`; or, when the path has no brackets, an axis of the layout.

`path : also "name"` is a second home of a weight: files may hold either, or both with equal values. With
`path : same "name" if tied` a file decides: where it holds both with other values, the entry `tied` of config is
false for it. `path : optional "name"` may be absent: then the weight has its initial number. A row of a weight that
this model does not use, or that config leaves out, is a name to skip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Diagnostics, Span, TransformulaError, did_you_mean
from . import expressions, layouts
from .config import Config
from .instances import use_config
from .ir import Graph, Weight
from .layouts import label
from .modules import Entry, Module
from .scope import config_scope
from .stored import CheckpointMap, Row, brackets, number, plain, size_sources
from .totality import tied_rows, untotal

__all__ = ["CheckpointMap", "Row", "checkpoint_rows", "find_block", "label", "own_names"]

MAX_DEPTH = 16
ALSO, SAME, OPTIONAL = WORDS = ("also", "same", "optional")
PLACE = re.compile(r"\{([^{}+]*?)(?: ?\+ ?[0-9]{1,9})?\}")

Parts: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Leaf:
    """A row as written, with the prefixes of what it is nested in."""

    paths: tuple[Parts, ...]
    stored: str
    mapping: s.Mapping
    inherited: bool = False

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The paths without their brackets."""
        return tuple(tuple(name for name, _ in path) for path in self.paths)


def checkpoint_rows(module: Module, entry: str, graph: Graph, config: Config) -> CheckpointMap:
    """The map of one model or objective for its graph; without a `checkpoint` block, the spec's own names.

    Raises every mistake of the map at once: weights without a row or with two, rows of weights that do not
    exist, layouts and places that do not fit.
    """
    block = find_block(module, entry)
    if block is None:
        return own_names(graph, config)
    return _Flat(module, module.entries[entry], graph, config).whole(block)


def find_block(
    module: Module, model: str, ecosystem: str | None = None, before: s.Checkpoint | None = None
) -> s.Checkpoint | None:
    """The last checkpoint block of a model; one that names no model belongs to the only model of the file.

    With `before`, the last one above that block: what `checkpoint … of M from M` takes over.
    """
    blocks = takewhile(lambda one: one is not before, module.checkpoints)
    found = [
        one
        for one in blocks
        if (one.model is None or one.model.name == model) and ecosystem in (None, one.ecosystem.name)
    ]
    return next((one for one in reversed(found) if one.model is not None), found[-1] if found else None)


def own_names(graph: Graph, config: Config) -> CheckpointMap:
    """The map by the spec's own names: each weight one tensor of all its axes, stacks first, as declared."""
    rows = tuple(
        Row(
            (one,),
            one.name,
            ("",) * len(one.stack),
            (tuple((axis,) for axis in one.axes),),
            merged=True,
            span=one.span,
        )
        for one in graph.weights
    )
    return CheckpointMap(graph.name, rows, sizes=size_sources(graph, config))


class _Flat:
    """Flattens a block for one graph; mistakes are collected."""

    def __init__(self, module: Module, entry: Entry, graph: Graph, config: Config) -> None:
        self.module, self.entry, self.graph, self.config = module, entry, graph, config
        self.known = {plain(one.name): one for one in graph.weights}
        self.diagnostics = Diagnostics()
        self.skips: list[str] = []
        self.configs: dict[str, Config] = {}

    def whole(self, block: s.Checkpoint) -> CheckpointMap:
        """The map of the block, or all its mistakes."""
        rows = []
        for leaf in self.block(block):
            try:
                made = self.row(leaf)
            except TransformulaError as fault:
                for one in fault.diagnostics:
                    self.diagnostics.add(one)
                continue
            if made is not None:
                rows.append(made)
        self.diagnostics.check()
        rows += list(tied_rows(rows, self.module.ties, self.graph))
        for one in untotal(rows, self.graph, block, self.module.ties):
            self.diagnostics.add(one)
        self.diagnostics.check()
        return CheckpointMap(
            self.graph.name,
            tuple(rows),
            tuple(dict.fromkeys(self.skips)),
            self.prefixes(),
            size_sources(self.graph, self.config),
        )

    # --------------------------------------------------------------------------------------------- flattening

    def block(self, block: s.Checkpoint, path: Parts = (), stored: str = "", depth: int = 0) -> list[_Leaf]:
        """The rows of a block below a path and a prefix; own rows replace those of its base."""
        if depth > MAX_DEPTH:
            raise _mistake("K007", "checkpoint maps include each other in a circle", block.span)
        own = list(self.leaves(block.rows, path, stored, depth))
        if block.base is None:
            return own
        again = block.model is not None and block.base.name == block.model.name  # the map that it extends
        base = find_block(self.module, block.base.name, block.ecosystem.name, before=block if again else None)
        if base is None:
            raise self.no_block(block.base)
        mine = {name for leaf in own if _word(leaf.mapping) in ("", OPTIONAL) for name in leaf.names}
        taken = (leaf for leaf in self.block(base, path, stored, depth + 1) if not mine & set(leaf.names))
        return [*(_Leaf(one.paths, one.stored, one.mapping, True) for one in taken), *own]

    def leaves(
        self, rows: Iterable[s.Mapping | s.Skip], path: Parts, stored: str, depth: int
    ) -> Iterator[_Leaf]:
        """Rows, with nested and included ones in their place."""
        for row in rows:
            if isinstance(row, s.Skip):
                self.skips.append(stored + row.stored)
                continue
            if row.condition is not None and not self.holds(row.condition, path):
                continue
            included = row.include is not None and not _word(row)
            if (row.nested or included) and len(row.paths) > 1:
                raise _mistake(
                    "K008", "only single weights can be fused, not what has rows of its own", row.span
                )
            below = (*path, *row.paths[0].parts)
            if row.include is not None and included:
                other = find_block(self.module, row.include.name)
                if other is None:
                    raise self.no_block(row.include)
                yield from self.block(other, below, stored + row.stored, depth + 1)
            elif not row.nested:
                yield _Leaf(tuple((*path, *one.parts) for one in row.paths), stored + row.stored, row)
            yield from self.leaves(row.nested, below, stored + row.stored, depth + 1)

    def holds(self, condition: s.Expr, path: Parts) -> bool:
        """Whether config wants a row: that of the instance that it is below, whose sizes may be its own."""
        name = path[0][0] if path else ""
        if name not in self.configs:
            self.configs[name] = use_config(self.module, self.config, name)
        found = expressions.lower(config_scope(self.configs[name]), condition)
        if not isinstance(found, bool):
            raise _mistake("K006", "only config decides whether a stored tensor exists", condition.span)
        return found

    def no_block(self, name: s.Name) -> TransformulaError:
        """The error for a map that is not there."""
        models = [one.model.name for one in self.module.checkpoints if one.model is not None]
        return _mistake(
            "K007",
            f"there is no checkpoint map of `{name.name}`",
            name.span,
            help=did_you_mean(name.name, models),
        )

    # --------------------------------------------------------------------------------------------------- rows

    def row(self, leaf: _Leaf) -> Row | None:
        """The row of a leaf; None when this model does not use the weight, whose name is then skipped."""
        missing = [names for names in leaf.names if names not in self.known]
        if missing:
            declared = all(self.declared(names) is not None for names in missing)
            if not declared and not leaf.inherited:
                raise self.unknown(missing[0], leaf)
            if declared and len(missing) < len(leaf.names):
                raise _mistake(
                    "K008",
                    f"{self.graph.name} uses only some of the weights in this tensor",
                    leaf.mapping.span,
                )
            if declared and not any(self.empty(names) for names in missing):
                self.skips.append(leaf.stored)
            return None
        weights = tuple(self.known[names] for names in leaf.names)
        explicit = leaf.mapping.layout
        places = {self.places(weight, path, leaf) for weight, path in zip(weights, leaf.paths, strict=True)}
        if len(places) > 1:
            raise _mistake(
                "K008", "weights of one tensor belong to one stack, at the same place", leaf.mapping.span
            )
        place = places.pop()
        own = [tuple(a for a in w.axes if a not in w.stack or not place[w.stack.index(a)]) for w in weights]
        found, part = layouts.resolve(weights, own, explicit, leaf.mapping.span)
        word = _word(leaf.mapping)
        merged = explicit is None and all(one.outs is None for one in weights)
        made = Row(weights, leaf.stored, place, found, part, merged, word in (ALSO, SAME), leaf.mapping.span)
        if word == OPTIONAL:
            return replace(made, absent=_initial(weights, leaf.mapping.span))
        return replace(made, decides=self.decided(leaf.mapping)) if word == SAME else made

    def decided(self, row: s.Mapping) -> str:
        """The entry of config that a file decides by this row."""
        name = row.condition.name if isinstance(row.condition, s.Name) else ""
        if name not in self.module.options:
            advice = 'Write  path : same "name" if tied  with an entry `tied` of config.'
            raise _mistake("K015", "this row does not say what the file decides", row.span, help=advice)
        return name

    def unknown(self, names: tuple[str, ...], leaf: _Leaf) -> TransformulaError:
        """The error for a weight that the model does not have."""
        told = ".".join(names)
        known = [".".join(one) for one in self.known]
        return _mistake(
            "K004",
            f"{self.graph.name} has no weight `{told}`",
            leaf.mapping.span,
            help=did_you_mean(told, known),
        )

    def empty(self, names: tuple[str, ...]) -> bool:
        """Whether a weight is unused because its stack has no entry: then its tensors are left over."""
        axes = [self.config.axis(name) for name in self.declared(names) or ()]
        return any(axis is not None and axis.size == 0 for axis in axes)

    def declared(self, names: tuple[str, ...]) -> list[str] | None:
        """The stack axes of a weight that the spec declares, though this model has no use for it."""
        module, body = self.module, self.entry.definition.body
        uses = [*body.uses, *self.module.uses.values()]
        weights = [*body.weights, *self.module.weights]
        stack: list[str] = []
        for name in names[:-1]:
            use = next((one for one in uses if any(n.name == name for n in one.names)), None)
            block = module.entries.get(use.block.name) if use else None
            if use is None or block is None:
                return None
            stack += [index.name for index in use.indices]
            module, uses, weights = (
                block.module,
                list(block.definition.body.uses),
                list(block.definition.body.weights),
            )
        return stack if any(n.name == names[-1] for one in weights for n in one.names) else None

    def places(self, weight: Weight, path: Parts, leaf: _Leaf) -> tuple[str, ...]:
        """For each axis of the stack its letter or number in the path; nothing if the tensor has the axis."""
        found: list[str] = []
        for (name, indices), axes in zip(path, brackets(weight.name), strict=True):
            if indices and len(indices) != len(axes):
                stack = f"a stack over [{', '.join(axes)}]" if axes else "no stack"
                raise _mistake(
                    "K006", f"`{name}` is {stack}, not over [{', '.join(indices)}]", leaf.mapping.span
                )
            found += indices or ("",) * len(axes)
        letters = [one for one in found if one and not one.isdigit()]
        written = PLACE.findall(leaf.stored)
        loose = [a for a, one in zip(weight.stack, found, strict=True) if not one]
        if loose and leaf.mapping.layout is None:
            names = ", ".join(axis.name for axis in loose)
            advice = (
                f'Give the stack a letter, as in layer[l] : "layer.{{l}}.", or name {names} in the layout.'
            )
            raise _mistake(
                "K006",
                f"the row does not say where the entries along [{names}] are",
                leaf.mapping.span,
                help=advice,
            )
        for letter in written:
            if letter not in letters:
                known = (
                    f"This row has {', '.join(letters)}." if letters else "This row's path has no letters."
                )
                raise _mistake(
                    "K006",
                    f"`{{{letter}}}` in the stored name is no letter of the path",
                    leaf.mapping.span,
                    help=known,
                )
        for letter in letters:
            if letter not in written or letters.count(letter) > 1:
                advice = f"Write {{{letter}}} in the name, once for each letter of the path."
                raise _mistake(
                    "K006",
                    f"all entries `{letter}` would be one stored tensor",
                    leaf.mapping.span,
                    help=advice,
                )
        for axis, one in zip(weight.stack, found, strict=True):
            if one.isdigit() and int(one) >= number(axis):
                raise _mistake(
                    "K006", f"there is no entry {one} along {axis} = {axis.size}", leaf.mapping.span
                )
        return tuple(found)

    def prefixes(self) -> tuple[str, ...]:
        """What base models' names begin with inside other models of the spec: `bert.`"""
        found: dict[str, None] = {}
        for block in self.module.checkpoints:
            for row in block.rows:
                if not isinstance(row, s.Mapping) or row.include is None or _word(row):
                    continue
                entry = self.module.entries.get(row.include.name)
                folder = row.stored.endswith("/")  # of an objective that joins models
                if entry is not None and entry.definition.kind != "block" and row.stored and not folder:
                    found[row.stored] = None
        return tuple(found)


# ---------------------------------------------------------------------------------------------------- helpers


def _word(row: s.Mapping) -> str:
    """The word before a stored name that says how it is a home, if there is one."""
    return row.include.name if row.include is not None and row.include.name in WORDS else ""


def _initial(weights: tuple[Weight, ...], span: Span) -> float:
    """The number that a weight has where the file lacks it."""
    try:
        (weight,) = weights
        return float(weight.init)
    except ValueError:
        advice = "Give it one where it is declared:  b : [d] ~ 0"
        message = "only a weight whose initial value is a number may be absent"
        raise _mistake("K015", message, span, help=advice) from None


def _mistake(code: str, message: str, span: Span | None, **more: object) -> TransformulaError:
    return TransformulaError(Diagnostic(code, message, span, **more))  # type: ignore[arg-type]
