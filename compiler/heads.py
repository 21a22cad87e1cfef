"""A model `of` an instance and an objective `of` a model: they have its inputs, and its results by their names.

    model BertForMaskedLM of bert → logits[seq, vocab] = lm_head(last_hidden_state, bert.embed.E)
    objective mlm of BertForMaskedLM(labels[batch, seq]) → loss = mean[batch, seq](nll[vocab](logits, labels))
    model BertForMultipleChoice of bert for choice → logits[choice] = scorer(pooler_output)

The last one is applied to each choice of an example: the caller's inputs have one more axis, and so have the results.

The text is completed here, before names are looked up: parameters in front of its own, and an equation for each result
that it mentions. So a `change` of the model underneath reaches all that stand on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostics, TransformulaError, did_you_mean, error
from .modules import Entry, Module
from .names import declared_names, is_none, mentioned
from .values import Tensor, Value

if TYPE_CHECKING:
    from .scope import Scope

BATCH = "batch"
CALL = "(…)"
"""The end of the name that holds a call; no text can spell it."""


def complete(module: Module, diagnostics: Diagnostics) -> None:
    """Completes every model and objective of the module that stands on another one; mistakes are added.

    What a base has on a model that this file, or one between them, removes goes with it.
    """
    for name in _orphans(module):
        del module.entries[name]
    for name in list(module.entries):
        try:
            module.entries[name] = _completed(module, module.entries[name], ())  # may be completed already
        except TransformulaError as fault:
            module.broken.add(name)
            del module.entries[name]
            for one in fault.diagnostics:
                diagnostics.add(one)


def _orphans(module: Module) -> list[str]:
    removed = {name for one in _line(module) for name in one.removed}
    gone = {name for name in removed if name not in module.entries and name not in module.uses}
    found = []
    for name, entry in module.entries.items():  # what is stood on comes first
        of = entry.definition.of
        if of is not None and of.name in gone and name not in module.own:
            gone.add(name)
            found.append(name)
    return found


def _line(module: Module | None) -> Iterator[Module]:
    """The module, what it extends, and so on."""
    while module is not None:
        yield module
        module = module.base


def losses(module: Module, model: str, results: Collection[str]) -> Iterator[Entry]:
    """The objectives of a model as functions of its results (and of its inputs, where they mention them).

    One that needs a result which is none of `results` is left out.
    """
    for entry in module.of_kind("objective"):
        written = module.written.get(entry.name)
        if written is None or written.of is None or written.of.name != model:
            continue
        made = of_results(written, module.entries[model].definition)
        if {one.name for one in module.entries[model].definition.outputs} & mentioned(written) <= set(results):
            yield Entry(made, entry.module)


def of_results(written: s.Definition, under: s.Definition) -> s.Definition:
    """objective o of M(labels) → o(results, labels): a function of the results (and inputs) of M that it mentions.

    A result [seq, vocab] of M is a parameter [batch, seq, vocab]; it stands before the objective's own ones.
    """
    batch, again = _batch(written), restated(written, under)
    own = [one for one in written.params or () if one not in again]
    known = mentioned(replace(written, params=tuple(own)))
    given = [_result(one, batch, under.each) for one in under.outputs if one.name in known]
    given += [batched(one, batch) for one in under.params or () if one.name in known]
    return replace(written, of=None, params=(*given, *own))


def restated(written: s.Definition, under: s.Definition) -> list[s.Param]:
    """The inputs of its model that an objective gives a default."""
    names = {one.name for one in under.params or ()}
    return [one for one in written.params or () if one.name in names and one.default is not None]


def shared(scope: Scope, name: str, equation: s.Assign | s.Expr) -> Value | None:
    """The call that a head begins with, made once for all heads with the same inputs while a file is checked."""
    from . import expressions

    if scope.session.shared is None or not name.endswith(CALL):
        return None
    given = tuple(one.node for one in scope.values.values() if isinstance(one, Tensor))
    key = (name, given, scope.session.shows)
    return scope.session.once(key, lambda: expressions.equation(scope, name, equation))


def _completed(module: Module, entry: Entry, busy: tuple[str, ...]) -> Entry:
    written = entry.definition
    if written.of is None or entry.name in module.written:
        return entry
    if entry.name in busy:
        raise error(
            "N232",
            f"`{entry.name}` stands on itself: {' → '.join((*busy, entry.name))}",
            written.of.span,
            help="A model stands on an instance of another model.",
        )
    under = _under(module, written)
    base = _completed(module, module.entries[under], (*busy, entry.name)).definition
    objective = written.kind == "objective"
    if objective and (base.each is not None or base.body.uses or base.body.weights):
        # groups of texts are their model's business, and weights are an instance's: it begins with the results
        module.written[entry.name] = written
        module.entries[entry.name] = Entry(of_results(written, base), entry.module)
        return module.entries[entry.name]
    batch = _batch(written)
    inside = {one.name for one in declared_names(base.body)} if not objective else set()
    taken = [batched(one, batch) if objective else one for one in base.params or ()]
    taken = [_reached(one, written.of, inside) for one in taken]
    own = {one.name for one in written.params or ()}
    params = tuple(one for one in taken if one.name not in own)
    if written.params and written.params[0].default is None:  # what must be given stands in front
        needed = [one for one in params if one.default is None]
        params = (*needed, *written.params, *(one for one in params if one.default is not None))
    else:
        params = (*params, *(written.params or ()))
    where = (*_results(written, base), *written.body.where)
    shows = _shown(written, base)
    module.written[entry.name] = written
    body = replace(written.body, where=where, shows=(*shows, *written.body.shows))
    outputs = tuple(_of_each(one, written.each) for one in written.outputs)
    made = Entry(replace(written, params=params, outputs=outputs, body=body), entry.module)
    module.entries[entry.name] = made
    return made


def _of_each(output: s.Output, each: s.Name | None) -> s.Output:
    """A result of one choice: its first axis is the choices'."""
    if each is None:
        return output
    if not output.axes or output.axes[0].name != each.name:
        raise error(
            "N232",
            f"a result of a model for each {each.name} has `{each.name}` as its first axis",
            output.span,
            help=f"Say {output.name or 'logits'}[{each.name}, …] = ….",
        )
    return replace(output, axes=output.axes[1:])


def _under(module: Module, written: s.Definition) -> str:
    """The name of the model that a model or objective stands on."""
    assert written.of is not None
    name = written.of.name
    known: Iterable[str]
    if written.kind == "objective":
        known = [one.name for one in module.of_kind("model")]
        if name in known:
            return name
        wanted = "an objective is `of` a model"
    else:
        blocks = {one: use.block.name for one, use in module.uses.items()}
        known = [one for one, block in blocks.items() if _kind(module, block) == "model"]
        if written.kind == "model" and name in known:
            return blocks[name]
        wanted = "a model is `of` an instance of another model, declared at the top of the file: uses bert : Bert"
    raise error(
        "N232",
        f"`{written.name.name}` cannot stand on `{name}`",
        written.of.span,
        because=(wanted,),
        help=did_you_mean(name, known) or (f"There is {', '.join(known)}." if known else "There is none here."),
    )


def _kind(module: Module, name: str) -> str:
    return module.entries[name].definition.kind if name in module.entries else ""


def _batch(written: s.Definition) -> str:
    """What an objective calls its batch: the first axis of its own first parameter."""
    axes = next((one.axes.names for one in written.params or () if one.axes and one.axes.names), ())
    return axes[0].name if axes else BATCH


def batched(param: s.Param, batch: str = BATCH) -> s.Param:
    """The parameter of a model for a batch of examples."""
    names = param.axes.names if param.axes else ()
    return replace(param, axes=s.Axes(param.span, (s.Name(param.span, batch), *names)))


def _result(output: s.Output, batch: str, each: s.Name | None) -> s.Param:
    """A result as a parameter."""
    more = () if each is None else (each,)
    axes = s.Axes(output.span, (s.Name(output.span, batch), *more, *(output.axes or ())))
    return s.Param(output.span, output.name or "", axes)


def _results(written: s.Definition, base: s.Definition) -> list[s.Assign]:
    """An equation for each result of the model underneath that the text mentions, and one for the call."""
    assert written.of is not None
    span, name = written.of.span, written.of.name
    own = {one.name.name for one in written.body.where if isinstance(one, s.Assign)}
    wanted = [one.name for one in base.outputs if one.name in mentioned(written) and one.name not in own]
    arguments = tuple(s.Arg(span, one.name, s.Name(span, one.name)) for one in base.params or ())
    called = _called(written.of)
    made = [s.Assign(span, called, (), None, s.Call(span, s.Name(span, name), arguments))]
    for one in wanted:
        assert one is not None
        made.append(s.Assign(span, s.Name(span, one), (), None, s.Member(span, called, one)))
    return made


def _shown(written: s.Definition, base: s.Definition) -> tuple[s.Output, ...]:
    """What the model underneath shows, through the instance; an objective has one number only."""
    if written.kind == "objective" or written.of is None:
        return ()
    own = {one.name for one in (*written.outputs, *written.body.shows)}
    called = _called(written.of)
    shown = [one for one in base.body.shows if one.name not in own]
    members = [s.Member(called.span, called, one.name or "") for one in shown]
    return tuple(replace(one, value=_reading(one.value, made)) for one, made in zip(shown, members, strict=True))


def _reading(value: s.Expr, member: s.Member) -> s.Expr:
    """The member of the call for what it shows, under the same conditions of config."""
    if isinstance(value, s.Cases):
        return replace(value, cases=tuple((_reading(one, member), condition) for one, condition in value.cases))
    return value if is_none(value) else member


def _called(of: s.Name) -> s.Name:
    """The name of the equation that holds the call of what is stood on."""
    return s.Name(of.span, of.name + CALL)


def _reached(param: s.Param, of: s.Name, inside: set[str]) -> s.Param:
    """The parameter with a default that reaches the weights and instances of the model underneath."""
    if param.default is None or not inside:
        return param
    table = {name: s.Member(of.span, s.Name(of.span, of.name), name) for name in inside}
    return replace(param, default=_substituted(param.default, table))


def _substituted(one: Any, table: Mapping[str, s.Expr]) -> Any:
    """The text with names replaced; names of axes stay."""
    if isinstance(one, s.Name):
        return table.get(one.name, one)
    if isinstance(one, tuple):
        return tuple(_substituted(part, table) for part in one)
    if not isinstance(one, s.Node):
        return one
    kept = ("span", "axis", "axes", "over", "old", "new")
    parts = {f.name: getattr(one, f.name) for f in fields(one) if f.name not in kept}
    return replace(one, **{name: _substituted(part, table) for name, part in parts.items()})
