"""Inputs that are made of others where the caller gives none: a function of a batch, evaluated before the model.

    model Bart(tokens[seq] as input_ids, targets[tgt] as decoder_input_ids = later[seq](tokens)) → …
    objective denoising of …(labels[batch, tgt], targets[batch, tgt] as decoder_input_ids = later[tgt](labels)) → …

The first default decides how long a text is, the second is made of labels, which the model never sees: neither can be a
part of the model's graph. A default that config makes `none` is none; the reason is kept for who leaves the input out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import expressions, heads
from .config import Config
from .ir import Graph
from .modules import Entry, Module
from .names import is_none, names_in
from .scope import config_scope
from .values import Choice


@dataclass(frozen=True)
class Default:
    """How an input is made of others, the inputs of the graph; `loss` is the objective that it is made for."""

    name: str
    loss: str
    sources: tuple[str, ...]
    entry: Entry
    graph: Graph | None = None
    reason: str = ""


def defaults(module: Module, config: Config, graph: Graph, losses: Iterable[str]) -> Iterator[Default]:
    """What may be left out of a model's call, in the order in which it is tried: by objectives, then by the model.

    Their graphs are still to be made.
    """
    for name in losses:
        yield from of_loss(module, config, name)
    yield from of_model(module, config, graph)


def of_loss(module: Module, config: Config, name: str) -> Iterator[Default]:
    """What an objective says of the inputs of its model."""
    written = module.written.get(name)
    if written is None or written.of is None:
        return
    model = module.entries[written.of.name].definition
    for param in heads.restated(written, model):
        yield _default(module.entries[name].module, config, param, written.params or (), name)


def of_model(module: Module, config: Config, graph: Graph) -> Iterator[Default]:
    """The defaults of a model's inputs that its graph does not hold."""
    entry = module.entries[graph.name]
    needed = {one.name for one in graph.inputs if one.required}
    for param in entry.definition.params or ():
        if param.default is not None and not is_none(param.default) and (param.alias or param.name) in needed:
            params = [heads.batched(one) for one in entry.definition.params or ()]
            yield _default(entry.module, config, heads.batched(param), params, "")


def _default(module: Module, config: Config, param: s.Param, params: Iterable[s.Param], loss: str) -> Default:
    assert param.default is not None
    names = {one.name for one in names_in(param.default)}
    sources = tuple(one for one in params if one.name in names and one.name != param.name)
    name = param.alias or param.name
    output = s.Output(param.span, name, _axes(param, sources), param.default)
    called = s.Name(param.span, param.name)
    definition = s.Definition(param.span, "objective", called, (), sources, (output,), s.Body(param.span))
    told = tuple(one.alias or one.name for one in sources)
    return Default(name, loss, told, Entry(definition, module), reason=_none(config, param.default))


def _axes(param: s.Param, sources: Iterable[s.Param]) -> tuple[s.Name, ...]:
    """The axes of what is made: a length that no source has is that of a source."""
    known = {one.name: one for source in sources if source.axes for one in source.axes.names}
    own = param.axes.names if param.axes else ()
    others = iter([one for name, one in known.items() if name not in {axis.name for axis in own}])
    return tuple(axis if axis.name in known else next(others, axis) for axis in own)


def _none(config: Config, default: s.Expr) -> str:
    """Why config has none: the keys that it lacks; '' if there is a default."""
    try:
        found = expressions.lower_raw(config_scope(config), default)
    except TransformulaError:
        return ""  # it speaks of inputs
    if not isinstance(found, Choice) or found.text is not None:
        return ""
    lacking = [one.name for one in names_in(default) if one.name in config and config.value(one.name) == found]
    options = (config.module.options[name] for name in dict.fromkeys(lacking) if name in config.module.options)
    keys = [".".join(option.keys[0]) if option.keys else option.name.name for option in options]
    return f"and config has no {' and no '.join(keys)}" if keys else "and config wants it to be given"
