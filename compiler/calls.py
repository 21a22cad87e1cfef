"""Calls: formal axes are bound, all others lifted, and nothing is ever captured.

On entering, each axis of an argument is either bound to a formal axis (it gets that label inside) or lifted (no text
inside can name it). A fresh axis stands in where labels alone would confuse two axes:

* an axis is bound in one argument and lifted in another, or bound to two formals (self-attention without a rename);
* a lifted axis has a name that the body uses for an axis of its own.

On leaving, fresh axes become the caller's again; axes that the body made stay and are visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, Span
from . import arithmetic, binding, builtins, entering, expressions, instances, ir, refusals, showing, sites, wording
from . import scope as scopes
from .config import Config
from .entering import Entering
from .ir import Axis
from .modules import Entry
from .session import Callee
from .values import Builtin, Counter, Formula, Instance, Opaque, Record, Static, Tensor, Value, describe

if TYPE_CHECKING:
    from .scope import Scope

MAX_DEPTH = 120
MAX_CALLS = 20_000


def call(scope: Scope, expr: s.Call) -> Value:
    """function(arguments)"""
    fn = expressions.lower_raw(scope, expr.function)
    match fn:
        case Builtin():
            return builtins.call(scope, fn, expr.args, expr)
        case Formula():
            return call_formula(scope, fn, expr.args, expr)
        case Instance():
            if fn.waiting:
                expressions.tensor(scope, fn, expr.function)
            return call_instance(scope, fn, expr.args, expr)
        case Opaque():
            return opaque(scope, expr)
    raise scope.fail(
        "N222",
        f"`{expr.function.span.text}` is {describe(fn)} and cannot be called",
        expr.function.span,
        help=f"A product needs a sign: {expr.function.span.text} * {_inside_text(expr)}. "
        "A function of a `where` has its parameters on the left: f(x) = ….",
    )


def _inside_text(expr: s.Call) -> str:
    written = wording.text(expr).removeprefix(expr.function.span.text)
    inner = written.strip()[1:-1]
    return inner if inner.isidentifier() else written


def opaque(scope: Scope, expr: s.Call) -> Tensor:
    """A call of a function that is only known by name (while a definition is checked by itself)."""
    values = [expressions.tensor(scope, expressions.lower(scope, a.value), a.value).node for a in expr.args]
    return Tensor(ir.node("opaque", values, ir.union(values)))


# ------------------------------------------------------------------------------------------------ who is called


def call_formula(scope: Scope, fn: Formula, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """The result of a formula; blocks and models need an instance."""
    definition = fn.entry.definition
    if definition.params is None:
        bound = ", ".join(f"{one.index.name if one.index else one.axis.name} = …" for one in definition.axes)
        raise scope.fail(
            "N223",
            f"`{fn.entry.name}` takes no arguments",
            wording.brackets_of(expr),
            notes=(Note(definition.name.span, "defined here"),),
            help=f"It is given entry by entry: write {fn.entry.name} alone, "
            f"or {fn.entry.name}[{bound}] to say its axes.",
        )
    if definition.kind != "formula" and (definition.body.weights or definition.body.uses):
        raise scope.fail(
            "U706",
            f"`{fn.entry.name}` is a {definition.kind} with weights: it needs an instance",
            expr.function.span,
            help=f"Declare one under `uses`, like  {fn.entry.name.lower()} : {fn.entry.name}, and call that.",
        )
    if fn.scope is not None and binding.is_local(fn):
        return _call_local(scope, fn, args, expr)
    going = Entering(scope, fn.entry, expr.span, fn.binds, fn.scope or scope, fn.translate, fn.restrict, written=expr)
    if not fn.translate:
        going.naming = scope
    binding.arrange(going, args)
    return _run(going, _library_config(scope, fn.entry), scope.path, scope.outer)


def _library_config(scope: Scope, entry: Entry) -> Config:
    """A file of functions sees no config of the spec, only its own axes."""
    if entry.module.file.name is not None or entry.module is scope.module:
        return scope.config
    return Config(entry.module)


def _call_local(scope: Scope, fn: Formula, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """A function defined in a `where`: it sees all that stands there."""
    assert fn.scope is not None
    naming = fn.scope if fn.translate else scope
    going = Entering(scope, fn.entry, expr.span, fn.binds, naming, fn.translate, fn.restrict, written=expr)
    binding.arrange(going, args)
    binding.bind_axes(going)
    binding.freshen(going, local=True)
    inner = fn.scope.child()
    inner.lifted = naming.lifted
    _place_draws(going, inner)
    _label_local(going, inner)
    for name, (_, value) in going.args.items():
        inner.values[name] = value.rename(going.turn[name]) if isinstance(value, Tensor) else value
    for param in fn.entry.definition.params or ():
        if param.name not in inner.values and param.default is not None:
            inner.equations[param.name] = param.default
    with _inside(going):
        _restrict(going, inner)
        made = expressions.lower(inner, fn.entry.definition.outputs[0].value)
    return _leaving(going, inner)(made) if going.back or going.restrict else made


def _place_draws(going: Entering, inner: Scope) -> None:
    """Each call draws anew, and so does each step of the loops around it."""
    inner.site, inner.steps = f"{going.scope.site}{sites.place(going.scope, going.span)}/", going.scope.steps


def _label_local(going: Entering, inner: Scope) -> None:
    """The axes in the head of a local function; all others keep the names that they have around it."""
    for formal in _formal_names(going.definition):
        wanted = going.binds.get(formal, formal)
        axis = going.formals.get(formal) or (wanted if isinstance(wanted, Axis) else going.naming.axis(wanted))
        if axis is not None:
            inner.axes[formal], inner.labels[axis] = axis, formal
    for one in going.definition.axes:
        if one.axis.name not in inner.axes:
            raise refusals.no_head_axis(going, one)
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(inner.axes[one.axis.name]))


def call_instance(scope: Scope, fn: Instance, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """The result of a block with its own weights."""
    naming = fn.naming or scope
    going = Entering(scope, fn.entry, expr.span, fn.binds, naming, fn.translate, written=expr)
    if not fn.translate:
        going.naming = scope
    config, defaults = instances.instance_config(fn)
    binding.arrange(going, args, defaults)
    return _run(going, config, fn.path + ".", fn.picks())


# -------------------------------------------------------------------------------------------------- arguments


# -------------------------------------------------------------------------------------------------- freshening


# ------------------------------------------------------------------------------------------------------ inside


def _run(
    going: Entering, config: Config, path: str, outer: tuple[tuple[Axis, Static | Counter | Tensor], ...]
) -> Value:
    binding.bind_axes(going)
    binding.freshen(going)
    entry = going.entry
    inner = scopes.Scope(going.scope.session, config, entry.module, entry, path, outer=outer, stands=going.back)
    _place_draws(going, inner)
    inner.calls = going.scope.calls if path == going.scope.path else (*going.scope.calls, (path[:-1], inner.site))
    _label_axes(going, inner)
    with _inside(going):
        _fill(going, inner)
        _restrict(going, inner)
        outputs = results(inner, going.definition)
    leave = _leaving(going, inner)
    made = {name: leave(value) for name, value in outputs.items()}
    return Record(made, lambda name, span: _left(inner.part(name, span), leave), going.entry.name)


def _left(found: Value, leave: Callable[[Value], Value]) -> Value:
    """A named part of a call for its caller; the part of a call inside has parts, too."""
    if not isinstance(found, Record):
        return leave(found)
    outputs = {name: leave(value) for name, value in found.outputs.items()}
    return Record(outputs, lambda name, span: _left(found.part(name, span), leave), found.name)


@contextmanager
def _inside(going: Entering) -> Iterator[None]:
    """The work on a call: whoever fails meanwhile can say through which argument; too deep is an error."""
    calls, work = going.scope.session.calls, going.scope.session.work
    work[0] += 1
    if len(calls) >= MAX_DEPTH:
        raise going.scope.fail(
            "U705",
            f"calls are nested more than {MAX_DEPTH} deep",
            going.name_span,
            help="Write a repeated step as a recurrence: x[0] = …, then x[l + 1] = f(x[l]).",
        )
    if work[0] > MAX_CALLS:
        raise going.scope.fail(
            "U709",
            f"this spec makes more than {MAX_CALLS:,} calls",
            going.name_span,
            help="A formula that calls another one twice, which calls another one twice …: give the result a name "
            "in a `where` and use it twice.",
        )
    calls.append(Callee(going.name_span, {name: expr.span for name, (expr, _) in going.args.items()}, going.definition))
    try:
        yield
    finally:
        calls.pop()


def _label_axes(going: Entering, inner: Scope) -> None:
    """Formal axes get their labels; those that no argument carries mean the caller's axis of that name."""
    lifted: set[Axis] = set(going.scope.lifted)
    for name, value in entering.tensors(going):
        turned = {going.turn[name].get(axis, axis) for axis in value.axes}
        lifted |= turned
    inner.lifted = frozenset(lifted - set(going.formals.values()))
    for formal in _formal_names(going.definition):
        axis = going.formals.get(formal)
        if axis is None:
            wanted = going.binds.get(formal, formal)
            axis = wanted if isinstance(wanted, Axis) else going.naming.axis(wanted)
            axis = axis or inner.config.axis(formal)
            if axis is None:
                continue
            if axis in going.formals.values() or axis in inner.lifted:
                axis = going.scope.session.fresh_axis(formal, axis)
                going.back[axis] = going.back.get(axis, axis)
            going.formals[formal] = axis
        inner.axes[formal] = axis
        inner.labels[axis] = formal
    for formal, bound in going.binds.items():
        if isinstance(bound, Axis) and formal not in inner.axes:
            inner.axes[formal] = bound
            inner.labels[bound] = formal
    for one in going.definition.axes:
        if one.axis.name not in inner.axes:
            raise refusals.no_head_axis(going, one)
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(inner.axes[one.axis.name]))
            inner.tables = True


def _formal_names(definition: s.Definition) -> list[str]:
    names = [one.axis.name for one in definition.axes]
    names += [n.name for p in definition.params or () if p.axes is not None for n in p.axes.names]
    return list(dict.fromkeys(names))


def _fill(going: Entering, inner: Scope) -> None:
    """Parameters: values under their inner axes, functions with the way back to their scope, defaults on demand."""
    steps = _all_turns(going)
    for param in going.definition.params or ():
        if param.name not in going.args:
            assert param.default is not None
            inner.equations[param.name] = param.default
            continue
        value = going.args[param.name][1]
        if isinstance(value, Formula | Instance):
            value = replace(value, translate=(*value.translate, steps))
        elif isinstance(value, Tensor):
            value = value.rename(going.turn[param.name])
            value = _as_map(inner, param, value)
        inner.values[param.name] = value
    inner.take(going.definition.body.where)
    showing.register_all(inner, going.definition)


def _all_turns(going: Entering) -> dict[Axis, Axis]:
    """Every stand-in of this call, by the axis it stands for."""
    return {old: new for new, old in going.back.items()} or {}


def _as_map(inner: Scope, param: s.Param, value: Tensor) -> Tensor:
    if param.axes is None or param.axes.outs is None:
        return value
    return value  # a weight keeps its own reading; the declaration only says which axes it has


def _restrict(going: Entering, inner: Scope) -> None:
    pairs: dict[Axis, Axis] = {}
    for turn in going.turn.values():
        pairs.update(turn)
    for axis, condition in going.scope.restrict.items():
        turn = {o: n for o, n in pairs.items() if o in condition.axes}
        inner.restrict[pairs.get(axis, axis)] = condition.rename(turn)
    for formal, condition in going.restrict:
        axis = inner.axes[formal]
        turned = condition.rename({o: n for o, n in pairs.items() if o in condition.axes})
        old = inner.restrict.get(axis)
        relation = arithmetic.both((old.node if old else None, turned.node))
        assert relation is not None
        inner.restrict[axis] = Tensor(relation)


def results(inner: Scope, definition: s.Definition) -> dict[str, Value]:
    """The outputs of a definition by name, their declared axes checked."""
    made: dict[str, Value] = {}
    for place, output in enumerate(definition.outputs):
        found = expressions.lower(inner, output.value)
        found = found.value if isinstance(found, Record) else found
        if output.axes is not None:
            value = expressions.tensor(inner, found, output.value)
            expressions.stated(inner, value, output.axes, output.value, output.span)
            found = value
        made[output.name or ("" if place == 0 else str(place))] = found
    return {**made, **showing.shown(inner, definition)}


def _leaving(going: Entering, inner: Scope) -> Callable[[Value], Value]:
    """Gives the caller's axes back, and 0 outside a restricted axis that is still there."""

    def leave(value: Value) -> Value:
        value = value.value if isinstance(value, Record) else value
        if not isinstance(value, Tensor):
            return value
        for formal, _ in going.restrict:
            axis = inner.axes[formal]
            if axis in value.axes:
                relation = inner.restrict[axis].node
                value = Tensor(ir.where(relation, value.node, ir.const(Fraction(0))), zero=relation)
        made = {axis for axis in value.axes if axis not in going.back}
        left = [going.back[axis] for axis in value.axes if axis in going.back]
        for new, old in going.back.items():
            if new in value.axes and (old in made or left.count(old) > 1):
                raise refusals.collision(going, inner, old)
        return value.rename({new: old for new, old in going.back.items() if new in value.axes})

    return leave


# ---------------------------------------------------------------------------------------------- index formulas


def index_formula(scope: Scope, fn: Formula, span: Span) -> Tensor:
    """causal, causal[i = seq, j = src]: a tensor given entry by entry, its axes bound or known by name here."""
    definition = fn.entry.definition
    going = Entering(scope, fn.entry, span, fn.binds, scope, restrict=fn.restrict)
    config = _library_config(scope, fn.entry)
    inner = scopes.Scope(scope.session, config, fn.entry.module, fn.entry, scope.path, tables=True, calls=scope.calls)
    _place_draws(going, inner)
    for one in definition.axes:
        wanted = fn.binds.get(one.axis.name, one.axis.name)
        axis = wanted if isinstance(wanted, Axis) else scope.axis(wanted)
        if axis is None:
            raise scope.fail(
                "A127",
                f"`{fn.entry.name}` needs an axis `{wanted}`, which is not known here",
                span,
                because=(f"the axes here are {', '.join(scope.known_axes()) or 'none'}",),
                notes=entering.head(going),
                help=refusals.say_which(going, one, str(wanted)),
            )
        if axis in inner.labels:
            new = scope.session.fresh_axis(one.axis.name, axis)
            going.back[new] = axis
            axis = new
        inner.axes[one.axis.name], inner.labels[axis] = axis, one.axis.name
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(axis))
    with _inside(going):
        inner.take(definition.body.where)
        value = definition.outputs[0].value
        made = expressions.tensor(inner, expressions.lower(inner, value), value)
    for axis in inner.labels:
        if axis not in made.axes and definition.axes:
            made = Tensor(
                ir.widen(made.node, axis),
                made.bottom and ir.widen(made.bottom, axis),
                made.zero and ir.widen(made.zero, axis),
            )
    found = _leaving(going, inner)(made)
    assert isinstance(found, Tensor)
    return found


__all__ = ["call", "index_formula", "results"]
