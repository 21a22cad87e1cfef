"""The blocks of a model as a tree: each instance with its definition, how it is declared and what stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...grammar import syntax as s
from ...grammar.diagnostics import TransformulaError
from ...grammar.printer import expression, item
from .. import instances
from ..config import Config
from ..modules import Entry, Module
from ..names import mentioned
from ..scope import Scope, module_scope

DEEPEST = 32
MOST = 20_000
"""Blocks of a tree: of more, each with two of the next kind, there would be no end."""


@dataclass(frozen=True)
class Block:
    """An instance of a block: its name, its path (with the axes of stacks), its definition and its parts.

    `stack` are the axes of its numbers with their sizes; `declared` is what its declaration binds and gives; `weights`
    the axes of each weight of its own that this config has, as text.
    """

    name: str
    path: str
    entry: Entry = field(compare=False, repr=False)
    use: s.UseDecl | None = field(default=None, compare=False, repr=False)
    stack: tuple[tuple[str, int], ...] = ()
    declared: tuple[str, ...] = ()
    weights: tuple[tuple[str, str], ...] = ()
    parts: tuple[Block, ...] = ()

    @property
    def kind(self) -> str:
        """The name of its definition."""
        return self.entry.name

    @property
    def label(self) -> str:
        """Its name with its stack: layer[layers]."""
        return self.name + (f"[{', '.join(name for name, _ in self.stack)}]" if self.stack else "")

    def walk(self) -> Iterator[Block]:
        """The block and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def tree(module: Module, config: Config, entry: Entry) -> Block:
    """The tree of a model; instances of the spec that it mentions stand in it, too."""
    scope = module_scope(module, config)
    own = Scope(scope.session, config, module, entry)
    names = mentioned(entry.definition)
    top = [(scope, module.uses[name], name) for name in module.uses if name in names]
    left = [MOST]
    parts = (*_parts(own, entry, 0, left), *(one for use in top for one in _part(*use, 0, left)))
    return Block(entry.name, "", entry, weights=_weights(own, entry), parts=parts)


def _parts(scope: Scope, entry: Entry, depth: int, left: list[int]) -> Iterator[Block]:
    for use in entry.definition.body.uses:
        for name in use.names:
            yield from _part(scope, use, name.name, depth, left)


def _part(scope: Scope, use: s.UseDecl, name: str, depth: int, left: list[int]) -> Iterator[Block]:
    """The instance, if this config has it; `left` counts down how many blocks a tree may still have."""
    left[0] -= 1
    try:
        if depth > DEEPEST or left[0] < 0 or not instances.present(scope, use.condition):
            return
        made = instances.instance(scope, use, name)
        config, _ = instances.instance_config(made)
    except TransformulaError:  # the model does not use it: nobody asked for its mistakes
        return
    inner = Scope(scope.session, config, made.entry.module, made.entry, made.path + ".", outer=made.picks())
    parts = tuple(_parts(inner, made.entry, depth + 1, left))
    stack = tuple((axis.name, axis.size if isinstance(axis.size, int) else 0) for axis in made.stack)
    yield Block(name, made.path, made.entry, use, stack, _declared(use), _weights(inner, made.entry), parts)


def _declared(use: s.UseDecl) -> tuple[str, ...]:
    return (*map(item, use.binds), *(f"{one.name} = {expression(one.value)}" for one in use.args))


def _weights(scope: Scope, entry: Entry) -> tuple[tuple[str, str], ...]:
    """The weights of the definition's own, with their axes."""
    found: list[tuple[str, str]] = []
    for one in entry.definition.body.weights:
        try:
            there = instances.present(scope, one.condition)
        except TransformulaError:
            continue
        found += [(name.name, axes_text(one.axes)) for name in one.names if there]
    return tuple(found)


def axes_text(axes: s.Axes) -> str:
    """[carried, in → out] as text."""

    def names(group: tuple[s.Name, ...]) -> str:
        return " ".join(one.name for one in group)

    if axes.outs is None:
        return f"[{', '.join(one.name for one in axes.names)}]"
    carried = f"{', '.join(one.name for one in axes.carried)}, " if axes.carried else ""
    return f"[{carried}{names(axes.ins)} → {names(axes.outs)}]"
