"""The checkpoint map of a model, flattened and total: which stored tensor holds which weight, and how it lies there.

What a row means, when it says no layout of its own:

* a map `W : [c, d → head dk]` is stored the ecosystem's way, `[out, in]`: carried axes first, each a dimension of its
  own, then all out-axes as one dimension, then all in-axes as one;
* a weight without an arrow (a table, a gain, a bias) is stored in its declared order. The file may merge neighbouring
  axes: `b : [head, dk]` is found as [head, dk] and as [(head dk)]. That is the same run of numbers, so nothing is guessed;
* several weights in one tensor, `[W_Q; W_K; W_V]`, follow each other along the first such dimension.

A written layout always wins, and is exact: one group of axes per stored dimension, `1` for a dimension of one entry; `d'`
is the out-side of `[d → d]`; in a fused row the one name that no weight has stands for the parts. An axis of a stack
(`layer[layers]`) is a place in the name, `layer[l] : "….{l}.…"`, or, when the path has no brackets, an axis of the layout.

`path : also "name"` is a second home of a weight: files may hold either, or both with equal values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..grammar import syntax as s
from ..grammar.diagnostics import (
    Diagnostic,
    Diagnostics,
    InternalError,
    Note,
    Span,
    TransformulaError,
    did_you_mean,
)
from ..grammar.printer import expression as printed
from . import expressions, layouts
from .config import Config, show
from .instances import OUT
from .ir import Axis, Graph, Weight
from .layouts import Layout
from .modules import Entry, Module
from .scope import config_scope

MAX_DEPTH = 16
ALSO = "also"
PLACE = re.compile(r"\{([^{}]*)\}")

Parts: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Row:
    """A stored tensor and the weights in it.

    `places` says of each axis of the weights' stack whether it is a letter in the stored name, one number of the stack,
    or (empty) an axis of the stored tensor. `layouts` are, for each weight, groups of its axes per stored dimension;
    `part` is where the parts of a fused tensor stand: stored dimension and place in its group. `merged` rows have the
    default layout of a weight without an arrow: the file may merge neighbours.
    """

    weights: tuple[Weight, ...]
    stored: str
    places: tuple[str, ...]
    layouts: tuple[Layout, ...]
    part: tuple[int, int] | None = None
    merged: bool = False
    also: bool = False
    span: Span | None = field(compare=False, default=None)


@dataclass(frozen=True)
class CheckpointMap:
    """All rows of a model, in the order of the file.

    `skips` are stored names that nobody reads, `prefixes` what base models' names begin with inside head models,
    `sizes` tells for each axis where its size came from.
    """

    name: str
    rows: tuple[Row, ...]
    skips: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()


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

    Raises every mistake of the map at once: weights without a row or with two, rows of weights that do not exist,
    layouts and places that do not fit.
    """
    block = find_block(module, entry)
    if block is None:
        return own_names(graph, config)
    return _Flat(module, module.entries[entry], graph, config).whole(block)


def find_block(module: Module, model: str, ecosystem: str | None = None) -> s.Checkpoint | None:
    """The last checkpoint block of a model; one that names no model belongs to the only model of the file."""
    found = [
        one
        for one in module.checkpoints
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
    return CheckpointMap(graph.name, rows, sizes=_sizes(graph, config))


class _Flat:
    """Flattens a block for one graph; mistakes are collected."""

    def __init__(self, module: Module, entry: Entry, graph: Graph, config: Config) -> None:
        self.module, self.entry, self.graph, self.config = module, entry, graph, config
        self.known = {plain(one.name): one for one in graph.weights}
        self.diagnostics = Diagnostics()
        self.skips: list[str] = []

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
        rows += self.tied(rows)
        self.total(rows, block)
        self.diagnostics.check()
        return CheckpointMap(
            self.graph.name,
            tuple(rows),
            tuple(dict.fromkeys(self.skips)),
            self.prefixes(),
            _sizes(self.graph, self.config),
        )

    # ------------------------------------------------------------------------------------------------ flattening

    def block(self, block: s.Checkpoint, path: Parts = (), stored: str = "", depth: int = 0) -> list[_Leaf]:
        """The rows of a block below a path and a prefix; its own replace those of the block it comes `from`."""
        if depth > MAX_DEPTH:
            raise _mistake("K007", "checkpoint maps include each other in a circle", block.span)
        own = list(self.leaves(block.rows, path, stored, depth))
        if block.base is None:
            return own
        base = find_block(self.module, block.base.name, block.ecosystem.name)
        if base is None or base is block:
            raise self.no_block(block.base)
        mine = {name for leaf in own if leaf.mapping.include is None for name in leaf.names}
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
            if row.condition is not None and not self.holds(row.condition):
                continue
            also = row.include is not None and row.include.name == ALSO
            if (row.nested or (row.include and not also)) and len(row.paths) > 1:
                raise _mistake(
                    "K008", "only single weights can be fused, not what has rows of its own", row.span
                )
            below = (*path, *row.paths[0].parts)
            if row.include is not None and not also:
                other = find_block(self.module, row.include.name)
                if other is None:
                    raise self.no_block(row.include)
                yield from self.block(other, below, stored + row.stored, depth + 1)
            elif not row.nested:
                yield _Leaf(tuple((*path, *one.parts) for one in row.paths), stored + row.stored, row)
            yield from self.leaves(row.nested, below, stored + row.stored, depth + 1)

    def holds(self, condition: s.Expr) -> bool:
        """Whether config wants a row."""
        found = expressions.lower(config_scope(self.config), condition)
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

    # ------------------------------------------------------------------------------------------------------ rows

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
        also = leaf.mapping.include is not None and leaf.mapping.include.name == ALSO
        merged = explicit is None and all(one.outs is None for one in weights)
        return Row(weights, leaf.stored, place, found, part, merged, also, leaf.mapping.span)

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
        """Whether a weight is not used because config says that its stack has no entry: its tensors are left over."""
        axes = [self.config.axis(name) for name in self.declared(names) or ()]
        return any(axis is not None and axis.size == 0 for axis in axes)

    def declared(self, names: tuple[str, ...]) -> list[str] | None:
        """The stack axes of a weight that the spec declares, though this model does not use it or config leaves it out."""
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
        """For each axis of the stack its letter or number in the path, or nothing: then the tensor has the axis."""
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
            if one.isdigit() and int(one) >= int(str(axis.size)):
                raise _mistake(
                    "K006", f"there is no entry {one} along {axis} = {axis.size}", leaf.mapping.span
                )
        return tuple(found)

    # ------------------------------------------------------------------------------------------------ being total

    def tied(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of weights that are tied to a weight with a row: one storage."""
        made: list[Row] = []
        have = {weight.name for row in rows for weight in row.weights}
        for tie in self.module.ties:
            for mine, other in ((tie.left, tie.right), (tie.right, tie.left)):
                for weight in self.below(mine):
                    twin = f"{printed(other)}{plain_name(weight.name)[len(printed(mine)) :]}"
                    source = [row for row in rows if [plain_name(w.name) for w in row.weights] == [twin]]
                    if weight.name not in have and source:
                        made += [_moved(row, weight) for row in source]
                        have.add(weight.name)
        return made

    def below(self, path: s.Expr) -> list[Weight]:
        """The weights at or under a path."""
        told = printed(path)
        return [one for one in self.graph.weights if f"{plain_name(one.name)}.".startswith(f"{told}.")]

    def total(self, rows: Sequence[Row], block: s.Checkpoint) -> None:
        """Each weight has its row, and one only; each stored tensor is named once."""
        homes: dict[str, list[Row]] = {}
        stored: dict[str, Row] = {}
        tied = {
            plain_name(one.name)
            for tie in self.module.ties
            for side in (tie.left, tie.right)
            for one in self.below(side)
        }
        for row in rows:
            for weight in row.weights:
                if not row.also:
                    homes.setdefault(weight.name, []).append(row)
            key = row.stored + "".join(f" {p}" for p in row.places if p.isdigit())
            if key in stored and not {plain_name(w.name) for w in row.weights} & tied:
                self.twice("K009", f'"{row.stored}" is the home of two weights', row, stored[key])
            stored.setdefault(key, row)
        for weight in self.graph.weights:
            found = homes.get(weight.name, [])
            if not found:
                self.diagnostics.add(self.homeless(weight, block))
                continue
            numbers = [tuple(int(p) if p.isdigit() else -1 for p in row.places) for row in found]
            for place, row in enumerate(found[1:], 1):
                if any(_overlap(numbers[place], other) for other in numbers[:place]):
                    self.twice("K003", f"the weight `{weight.name}` has two rows", row, found[0])
            if len(found) > 1 or any(n >= 0 for n in numbers[0]):
                self.covered(weight, numbers, block)

    def covered(self, weight: Weight, numbers: Sequence[tuple[int, ...]], block: s.Checkpoint) -> None:
        """Rows of single numbers cover the whole stack."""
        sizes = [int(str(axis.size)) for axis in weight.stack]
        total = count = 1
        for size in sizes:
            total *= size
        count = 0
        for one in numbers:
            some = 1
            for number, size in zip(one, sizes, strict=True):
                some *= size if number < 0 else 1
            count += some
        if count < total:
            self.diagnostics.add(
                Diagnostic(
                    "K002", f"{count} of {total} entries of the weight `{weight.name}` have a row", block.span
                )
            )

    def twice(self, code: str, message: str, row: Row, first: Row) -> None:
        """A row too many."""
        notes = (Note(first.span, "the first one"),) if first.span else ()
        advice = 'A second name of the same numbers is written  path : also "name".' if code == "K003" else ""
        self.diagnostics.add(Diagnostic(code, message, row.span, notes=notes, help=advice))

    def homeless(self, weight: Weight, block: s.Checkpoint) -> Diagnostic:
        """The mistake of a weight without a row."""
        notes = (Note(weight.span, "declared here"),) if weight.span else ()
        advice = f'Add a row:  {weight.name} : "its name in the file"'
        where = block.model.span if block.model else block.ecosystem.span
        return Diagnostic(
            "K002",
            f"the weight `{weight.name}` has no row in this checkpoint map",
            where,
            notes=notes,
            help=advice,
        )

    def prefixes(self) -> tuple[str, ...]:
        """What base models' names begin with inside other models of the spec: `bert.`"""
        found: dict[str, None] = {}
        for block in self.module.checkpoints:
            for row in block.rows:
                if (
                    isinstance(row, s.Mapping)
                    and row.include is not None
                    and row.include.name != ALSO
                    and row.stored
                ):
                    found[row.stored] = None
        return tuple(found)


# ---------------------------------------------------------------------------------------------------------- helpers


def _moved(row: Row, weight: Weight) -> Row:
    """The same stored tensor as the home of a tied weight, whose axes stand in the same order."""
    (old,) = row.weights
    if [axis.size for axis in old.axes] != [axis.size for axis in weight.axes]:
        raise _mistake(
            "K008", f"`{weight.name}` and `{old.name}` are tied and have different axes", weight.span
        )
    twin = dict(zip(old.axes, weight.axes, strict=True))
    found = tuple(tuple(tuple(twin[axis] for axis in group) for group in one) for one in row.layouts)
    return Row((weight,), row.stored, row.places, found, row.part, row.merged, row.also, row.span)


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or a < 0 or b < 0 for a, b in zip(one, other, strict=True))


def brackets(name: str) -> list[tuple[str, ...]]:
    """The stack axes of each part of a weight's name: layer[layers].attn.W → [("layers",), (), ()]."""
    found = []
    for part in re.split(r"\.(?![^\[]*\])", name):
        inside = part.partition("[")[2].rstrip("]")
        found.append(tuple(one.strip() for one in inside.split(",")) if inside else ())
    return found


def plain_name(name: str) -> str:
    """A weight's name without the brackets of its stacks."""
    return re.sub(r"\[[^\]]*\]", "", name)


def plain(name: str) -> tuple[str, ...]:
    """A weight's name as a path."""
    return tuple(plain_name(name).split("."))


def label(axis: Axis) -> str:
    """An axis as layouts call it: the out-side of [d → d] is d'."""
    return f"{axis.name}'" if axis.tag == OUT else axis.name


def _sizes(graph: Graph, config: Config) -> tuple[tuple[str, str], ...]:
    """For each axis of the weights: its size and the place in config where it came from."""
    found: dict[str, str] = {}
    for weight in graph.weights:
        for axis in weight.axes:
            if not isinstance(axis.size, int):
                raise InternalError(f"the weight {weight.name} has the length {axis}")
            found.setdefault(label(axis), f"{axis.size} ({_source(axis, config)})")
    return tuple(found.items())


def _source(axis: Axis, config: Config) -> str:
    name = axis.name.rpartition(".")[2]
    option = config.module.options.get(name)
    if "." in axis.name or option is None:
        return f"of the instance {axis.name.rpartition('.')[0]}" if "." in axis.name else "of the spec"
    if name in config.settings:
        return f"set as {name}"
    for key in option.keys:
        if key[0] in config.given:
            return ".".join(key)
    if isinstance(option.value, s.Number):
        return "the spec's default" if not option.keys else f"the default of {'.'.join(option.keys[0])}"
    return printed(option.value) if not isinstance(show(config.value(name)), str) else "of the spec"


def _mistake(code: str, message: str, span: Span | None, **more: object) -> TransformulaError:
    return TransformulaError(Diagnostic(code, message, span, **more))  # type: ignore[arg-type]
