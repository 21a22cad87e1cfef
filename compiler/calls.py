"""Calls: formal axes are bound, all others lifted, and nothing is ever captured.

On entering, each axis of an argument is either bound to a formal axis (it gets that label inside) or lifted (no text
inside can name it). A fresh axis stands in where labels alone would confuse two axes:

* an axis is bound in one argument and lifted in another, or bound to two formals (self-attention without a rename);
* a lifted axis has a name that the body uses for an axis of its own.

On leaving, fresh axes become the caller's again; axes that the body made stay and are visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, Span, TransformulaError
from . import arithmetic, builtins, expressions, ir, wording
from .config import Config
from .ir import Axis
from .modules import Entry
from .names import declared_names, mentioned
from .scope import Callee, Scope
from .values import (
    Builtin,
    Counter,
    Formula,
    Instance,
    Opaque,
    Poisoned,
    Record,
    Static,
    Tensor,
    Value,
    describe,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 120
MAX_CALLS = 20_000


@dataclass
class Entering:
    """One call on its way in: who is called, from where, under which names, and what was found out about axes."""

    scope: Scope
    entry: Entry
    span: Span
    binds: Mapping[str, Axis | str]
    naming: Scope
    translate: tuple[Mapping[Axis, Axis], ...] = ()
    restrict: tuple[tuple[str, Tensor], ...] = ()
    args: dict[str, tuple[s.Node, Value]] = field(default_factory=dict)
    chosen: dict[str, Axis] = field(default_factory=dict)
    bound: dict[str, dict[Axis, str]] = field(default_factory=dict)
    turn: dict[str, dict[Axis, Axis]] = field(default_factory=dict)
    formals: dict[str, Axis] = field(default_factory=dict)
    back: dict[Axis, Axis] = field(default_factory=dict)
    written: s.Expr | None = None

    @property
    def name_span(self) -> Span:
        """Where the call names who is called."""
        here = self.written.function if isinstance(self.written, s.Call) else self.written
        return here.base.span if isinstance(here, s.Select) else here.span if here is not None else self.span

    def axis_span(self, formal: str) -> Span:
        """Where the call's brackets bind a formal axis, else its name."""
        here = self.written.function if isinstance(self.written, s.Call) else self.written
        bound = self.binds.get(formal)
        for item in here.items if isinstance(here, s.Select) else ():
            if isinstance(item, s.EqualItem) and formal == item.axis.name:
                return item.value.span
            axis = item.value if isinstance(item, s.PlainItem) else getattr(item, "axis", None)
            if isinstance(axis, s.Name) and axis.name == bound:
                return axis.span
        return self.name_span

    @property
    def definition(self) -> s.Definition:
        """The syntax of who is called."""
        return self.entry.definition


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
    if fn.scope is not None and _is_local(fn):
        return _call_local(scope, fn, args, expr)
    going = Entering(scope, fn.entry, expr.span, fn.binds, fn.scope or scope, fn.translate, fn.restrict, written=expr)
    if not fn.translate:
        going.naming = scope
    arrange(going, args)
    return _run(going, _library_config(scope, fn.entry), scope.path, scope.outer)


def _library_config(scope: Scope, entry: Entry) -> Config:
    """A file of functions sees no config of the spec, only its own axes."""
    if entry.module.file.name is not None or entry.module is scope.module:
        return scope.config
    return Config(entry.module)


def _is_local(fn: Formula) -> bool:
    return fn.scope is not None and fn.entry.module.entries.get(fn.entry.name) != fn.entry


def _call_local(scope: Scope, fn: Formula, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """A function defined in a `where`: it sees all that stands there."""
    assert fn.scope is not None
    naming = fn.scope if fn.translate else scope
    going = Entering(scope, fn.entry, expr.span, fn.binds, naming, fn.translate, fn.restrict, written=expr)
    arrange(going, args)
    _bind_axes(going)
    _freshen(going, local=True)
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
    inner.site, inner.steps = f"{going.scope.site}{going.span.line}:{going.span.column}/", going.scope.steps


def _label_local(going: Entering, inner: Scope) -> None:
    """The axes in the head of a local function; all others keep the names that they have around it."""
    for formal in _formal_names(going.definition):
        wanted = going.binds.get(formal, formal)
        axis = going.formals.get(formal) or (wanted if isinstance(wanted, Axis) else going.naming.axis(wanted))
        if axis is not None:
            inner.axes[formal], inner.labels[axis] = axis, formal
    for one in going.definition.axes:
        if one.axis.name not in inner.axes:
            raise _no_head_axis(going, one)
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(inner.axes[one.axis.name]))


def call_instance(scope: Scope, fn: Instance, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """The result of a block with its own weights."""
    naming = fn.naming or scope
    going = Entering(scope, fn.entry, expr.span, fn.binds, naming, fn.translate, written=expr)
    if not fn.translate:
        going.naming = scope
    config, defaults = instance_config(fn)
    arrange(going, args, defaults)
    return _run(going, config, fn.path + ".", fn.picks())


def instance_config(fn: Instance) -> tuple[Config, dict[str, tuple[s.Node, Value]]]:
    """The config inside an instance, and the arguments that its declaration gives: G : Bert(d = d / 4)."""
    owner = fn.owner
    overrides: dict[str, Value] = {}
    own: dict[str, Axis] = {}
    for name, axis in fn.binds.items():
        if isinstance(axis, Axis) and name in owner.config and isinstance(axis.size, int):
            overrides[name], own[name] = Fraction(axis.size), axis
    defaults: dict[str, tuple[s.Node, Value]] = {}
    params = {param.name for param in fn.entry.definition.params or ()}
    for arg in fn.decl.args:
        if arg.name is None:
            told = ", ".join(sorted(params)) or "none"
            raise owner.fail(
                "U707",
                "a declaration gives arguments by name",
                arg.span,
                help=f"Write name = {arg.span.text}; {fn.entry.name} has the parameters {told}, config has the rest.",
            )
        value = expressions.lower_raw(owner, arg.value)
        if arg.name in params:
            defaults[arg.name] = (arg.value, value)
        elif arg.name in owner.config:
            overrides[arg.name] = value
            if isinstance(value, Fraction):
                name = fn.path.rsplit(".", 1)[-1].split("[")[0]
                own[arg.name] = Axis(f"{name}.{arg.name}", owner.config.whole(arg.name, value))
        else:
            known = [*params, *owner.config.names()]
            raise owner.fail(
                "U708",
                f"`{fn.entry.name}` has no parameter or config entry `{arg.name}`",
                arg.span,
                help=owner.suggest(arg.name, known) or f"It knows {', '.join(known)}.",
            )
    return owner.config.overlay(overrides, own), defaults


def member(scope: Scope, base: Instance, expr: s.Member) -> Value:
    """instance.W or instance.part: reaches a weight (tied heads) or an inner instance."""
    body = base.entry.definition.body
    known = [name.name for name in declared_names(body)]
    if expr.name not in known:
        raise scope.fail(
            "N207",
            f"`{base.entry.name}` has no weight or part `{expr.name}`",
            expr.span,
            help=(scope.suggest(expr.name, known) or f"It has {', '.join(known)}.") if known else "It has none.",
        )
    config, _ = instance_config(base)
    inner = Scope(scope.session, config, base.entry.module, base.entry, base.path + ".", outer=base.picks())
    for name, axis in base.binds.items():
        if isinstance(axis, Axis):
            inner.axes[name] = axis
            inner.labels[axis] = name
    found = inner.lookup(expr.name)
    assert found is not None
    return found


# -------------------------------------------------------------------------------------------------- arguments


def arrange(going: Entering, args: Sequence[s.Arg], given: Mapping[str, tuple[s.Node, Value]] | None = None) -> None:
    """Arguments by parameter; too many, unknown, doubled and missing ones are errors."""
    scope, params = going.scope, going.definition.params or ()
    names = [param.name for param in params]
    label = going.entry.name
    for place, arg in enumerate(args):
        if arg.name is None and place >= len(names):
            raise scope.fail(
                "N224",
                f"`{label}` takes {wording.count(len(names), 'argument')}, not {len(args)}",
                arg.span,
                notes=_head(going),
                help=f"Its parameters are {', '.join(names)}." if names else "",
            )
        name = arg.name if arg.name is not None else names[place]
        if name not in names:
            raise scope.fail(
                "N225",
                f"`{label}` has no parameter `{name}`",
                arg.span,
                notes=_head(going),
                help=scope.suggest(name, names) or (f"It has {', '.join(names)}." if names else ""),
            )
        if name in going.args:
            raise scope.fail(
                "N226",
                f"`{name}` is given twice",
                arg.span,
                notes=(Note(going.args[name][0].span, "first here"), *_head(going)),
                help="Give it by place or by name, not both.",
            )
        going.args[name] = (arg.value, _argument(scope, arg.value))
    for name, found in (given or {}).items():
        going.args.setdefault(name, found)
    missing = [p.name for p in params if p.name not in going.args and p.default is None]
    if missing:
        raise scope.fail(
            "N227",
            f"`{label}` needs {wording.listed(missing)}, too",
            going.name_span,
            notes=_head(going),
            help=f"Write {label}({', '.join(n for n in names if n in going.args or n in missing)}).",
        )


def _head(going: Entering) -> tuple[Note, ...]:
    definition = going.definition
    return (Note(definition.name.span, "defined here"),)


def _argument(scope: Scope, expr: s.Expr) -> Value:
    """An argument; functions and instances are passed with the names of this scope."""
    value = expressions.lower_raw(scope, expr)
    if isinstance(value, Formula):
        if value.entry.definition.params is None:
            return index_formula(scope, value, expr.span)
        return value if value.translate else replace(value, scope=value.scope if _is_local(value) else scope)
    if isinstance(value, Instance) and value.naming is None:
        return replace(value, naming=scope)
    return value.value if isinstance(value, Record) else value


def _declared(going: Entering, param: s.Param) -> list[s.Name]:
    """The axes that a parameter sees: those in its brackets; without any brackets in the head, the head's axes."""
    if param.axes is not None:
        return list(param.axes.names)
    if any(one.axes is not None for one in going.definition.params or ()):
        return []
    return [one.axis for one in going.definition.axes]


def _origin(axis: Axis, translate: tuple[Mapping[Axis, Axis], ...]) -> Axis:
    """The axis as the scope that passed the function knew it."""
    for step in reversed(translate):
        axis = next((old for old, new in step.items() if new == axis), axis)
    return axis


def _locate(going: Entering, value: Tensor, wanted: Axis | str) -> list[Axis]:
    """The axes of an argument that the caller calls `wanted`."""
    found = []
    for axis in value.axes:
        old = _origin(axis, going.translate)
        if isinstance(wanted, Axis):
            hit = old == wanted
        else:
            hit = going.naming.visible(old) and going.naming.label(old) == wanted
        if hit:
            found.append(axis)
    return found


def _bind_axes(going: Entering) -> None:
    """Finds, for each parameter, which axis of its argument each formal axis is."""
    for param in going.definition.params or ():
        if param.name not in going.args:
            continue
        expr, value = going.args[param.name]
        names = _declared(going, param)
        if not isinstance(value, Tensor):
            if names and param.axes is not None and param.default is None and _is_number(value):
                raise _needs_axes(going, param, expr)
            continue
        mine: dict[Axis, str] = {}
        for name in names:
            wanted = going.binds.get(name.name, name.name)
            hits = _locate(going, value, wanted)
            if len(hits) > 1:
                raise _ambiguous(going, name, value, expr)
            if hits:
                if hits[0] not in mine:
                    mine[hits[0]] = name.name
                    _agree(going, name.name, hits[0], expr)
            elif param.axes is not None and param.default is None:
                raise _lacks(going, param, name, value, expr)
        going.bound[param.name] = mine


def _is_number(value: Value) -> bool:
    return isinstance(value, bool | Fraction | float | Counter)


def _needs_axes(going: Entering, param: s.Param, expr: s.Node) -> TransformulaError:
    axes = ", ".join(n.name for n in _declared(going, param))
    return going.scope.fail(
        "A129",
        f"`{going.entry.name}` needs a value with axes [{axes}] for `{param.name}`, not a number",
        expr.span,
        notes=_head(going),
        help="A number is the same everywhere: give it axes as a weight, or as a part t[…] = … of a `where`.",
    )


def _ambiguous(going: Entering, name: s.Name, value: Tensor, expr: s.Node) -> TransformulaError:
    return going.scope.fail(
        "A130",
        f"`{name.name}` of `{going.entry.name}` could be any of several axes",
        expr.span,
        because=(going.scope.told(value, expr),),
        help="Rename all but one of them first.",
    )


def _lacks(going: Entering, param: s.Param, name: s.Name, value: Tensor, expr: s.Node) -> TransformulaError:
    scope = going.scope
    wanted = going.binds.get(name.name, name.name)
    wanted = scope.label(wanted) if isinstance(wanted, Axis) else wanted
    have = [scope.label(a) for a in value.axes if scope.visible(a)]
    text = " ".join(expr.span.text.split())
    told = f"`{going.entry.name}` sees {param.name}[{', '.join(n.name for n in _declared(going, param))}]"
    advice = scope.suggest(wanted, have)
    span = expr.span
    if name.name in going.binds and scope.axis(wanted) is None:
        span = going.axis_span(name.name)
    elif not advice and wanted not in scope.config:
        advice = expressions.rename_advice(scope, value, wanted, expr)
        others = [e for n, e in _likewise(going, wanted) if n != param.name] if advice else []
        if others:
            advice += f" So does {wording.listed([wording.text(e) for e in others])}."
    bind = f"Bind an axis that it has: {going.entry.name}[{name.name} = {have[-1]}](…)." if have else ""
    return scope.fail(
        "A101",
        f"`{text if len(text) < 40 else param.name}` has no axis `{wanted}`",
        span,
        because=(scope.told(value, expr), told),
        notes=(*scope.where_from(value, expr.span), *_head(going)),
        help=advice or bind or f"`{going.entry.name}` goes over {wanted}: give it a value that has it.",
    )


def _likewise(going: Entering, wanted: str) -> Iterable[tuple[str, s.Node]]:
    """The other arguments that lack the axis, too."""
    for param in going.definition.params or ():
        expr, value = going.args.get(param.name, (None, None))
        if expr is None or not isinstance(value, Tensor) or param.axes is None or param.default is not None:
            continue
        names = [going.binds.get(n.name, n.name) for n in param.axes.names]
        if wanted in names and not _locate(going, value, wanted):
            yield param.name, expr


def _agree(going: Entering, formal: str, axis: Axis, expr: s.Node) -> None:
    old = going.chosen.setdefault(formal, axis)
    if old != axis and (old.size, old.owner) != (axis.size, axis.owner):
        raise expressions.extents(going.scope, formal, old, axis, expr)


# -------------------------------------------------------------------------------------------------- freshening


def _tensors(going: Entering) -> Iterable[tuple[str, Tensor]]:
    return ((name, value) for name, (_, value) in going.args.items() if isinstance(value, Tensor))


def _freshen(going: Entering, local: bool = False) -> None:
    """Decides which axes need a stand-in, and how each argument is renamed on entering.

    A local function means by its names what stands around it, so axes that it does not bind stay as they are.
    """
    session, text = going.scope.session, mentioned(going.definition)
    taken: dict[Axis, str] = {}
    for formal, axis in going.chosen.items():
        everywhere = all(going.bound[name].get(axis) == formal or axis not in v.axes for name, v in _tensors(going))
        alone = all(
            mine == axis for bound in going.bound.values() for mine, label in bound.items() if label == formal
        )
        hidden = axis.name != formal and axis.name in text
        if axis in taken or not everywhere or not alone or hidden or axis.tag < 0:
            new = session.fresh_axis(formal, axis)
            going.back[new] = axis
        else:
            new = axis
        taken[axis] = formal
        going.formals[formal] = new
    for name, value in _tensors(going):
        turn = {axis: going.formals[label] for axis, label in going.bound[name].items()}
        for axis in value.axes:
            if axis not in turn and axis.name in text and not local:
                turn[axis] = _stand_in(going, axis)
        going.turn[name] = {old: new for old, new in turn.items() if old != new}


def _stand_in(going: Entering, axis: Axis) -> Axis:
    for new, old in going.back.items():
        if old == axis and new not in going.formals.values():
            return new
    new = going.scope.session.fresh_axis(axis.name, axis)
    going.back[new] = axis
    return new


# ------------------------------------------------------------------------------------------------------ inside


def _run(
    going: Entering, config: Config, path: str, outer: tuple[tuple[Axis, Static | Counter | Tensor], ...]
) -> Value:
    _bind_axes(going)
    _freshen(going)
    inner = Scope(going.scope.session, config, going.entry.module, going.entry, path, outer=outer)
    _place_draws(going, inner)
    _label_axes(going, inner)
    with _inside(going):
        _fill(going, inner)
        _restrict(going, inner)
        outputs = results(inner, going.definition)
    leave = _leaving(going, inner)
    made = {name: leave(value) for name, value in outputs.items()}
    return Record(made, lambda name, span: leave(inner.part(name, span)), going.entry.name)


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
    for name, value in _tensors(going):
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
            raise _no_head_axis(going, one)
        if one.index is not None:
            inner.values[one.index.name] = Tensor(ir.index(inner.axes[one.axis.name]))
            inner.tables = True


def _formal_names(definition: s.Definition) -> list[str]:
    names = [one.axis.name for one in definition.axes]
    names += [n.name for p in definition.params or () if p.axes is not None for n in p.axes.names]
    return list(dict.fromkeys(names))


def _no_head_axis(going: Entering, one: s.AxisParam) -> TransformulaError:
    scope = going.scope
    values = [v for _, v in _tensors(going)]
    have = [scope.label(a) for v in values for a in v.axes if scope.visible(a)]
    wanted = going.binds.get(one.axis.name, one.axis.name)
    name = scope.label(wanted) if isinstance(wanted, Axis) else wanted
    written = one.axis.name not in going.binds
    if written and values:
        return scope.fail(
            "A102",
            f"{going.entry.name} over which axis?",
            going.name_span,
            because=(f"the argument has {scope.show(values[0].axes)}",),
            notes=_head(going),
            help=wording.over(going.entry.name, list(dict.fromkeys(have))),
        )
    advice = scope.suggest(name, have)
    if not advice and values:
        advice = wording.seen_twice(values[0], scope, name)
    if not advice and have:
        advice = f"It goes over one axis of its arguments: {going.entry.name}[{have[-1]}](…)."
    return scope.fail(
        "A109",
        f"no argument of `{going.entry.name}` has an axis `{name}`",
        going.axis_span(one.axis.name),
        because=tuple(scope.told(v, e) for e, v in going.args.values() if isinstance(v, Tensor)),
        notes=_head(going),
        help=advice,
    )


def _fill(going: Entering, inner: Scope) -> None:
    """Parameters: values under their inner axes, functions with the way back to their scope, defaults on demand."""
    steps = _all_turns(going)
    for param in going.definition.params or ():
        if param.name not in going.args:
            assert param.default is not None
            inner.equations[param.name] = param.default
            continue
        value = going.args[param.name][1]
        if isinstance(value, Formula) or isinstance(value, Instance):
            value = replace(value, translate=(*value.translate, steps))
        elif isinstance(value, Tensor):
            value = value.rename(going.turn[param.name])
            value = _as_map(inner, param, value)
        inner.values[param.name] = value
    inner.take(going.definition.body.where)


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
        inner.restrict[pairs.get(axis, axis)] = condition.rename({o: n for o, n in pairs.items() if o in condition.axes})
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
    return made


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
        for new, old in going.back.items():
            if new in value.axes and old in made:
                raise _collision(going, inner, old)
        return value.rename({new: old for new, old in going.back.items() if new in value.axes})

    return leave


def _collision(going: Entering, inner: Scope, axis: Axis) -> TransformulaError:
    label = going.scope.label(axis)
    return going.scope.fail(
        "A126",
        f"the result of `{going.entry.name}` would have `{label}` twice",
        going.span,
        because=(f"one comes from an argument, the other is made inside `{going.entry.name}`",),
        notes=_head(going),
        help=f"Rename the argument's first: …[{label} → {label}'].",
    )


def _say_which(going: Entering, one: s.AxisParam, wanted: str) -> str:
    used = {going.binds.get(other.axis.name, other.axis.name) for other in going.definition.axes}
    scope = going.scope
    free = [name for name in scope.known_axes() if name not in used]
    near = scope.suggest(wanted, free)
    lengths = [name for name in free for axis in [scope.axis(name)] if axis is not None and axis.ragged]
    name = one.index.name if one.index else one.axis.name
    if near or not lengths:
        return near or f"Declare it in a parameter's brackets, like x[{wanted}]."
    return f"Say which axis it is: {going.entry.name}[{name} = {lengths[-1]}]."


# ---------------------------------------------------------------------------------------------- index formulas


def index_formula(scope: Scope, fn: Formula, span: Span) -> Tensor:
    """causal, causal[i = seq, j = src]: a tensor given entry by entry, its axes bound or known by name here."""
    definition = fn.entry.definition
    going = Entering(scope, fn.entry, span, fn.binds, scope, restrict=fn.restrict)
    inner = Scope(scope.session, _library_config(scope, fn.entry), fn.entry.module, fn.entry, scope.path, tables=True)
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
                notes=_head(going),
                help=_say_which(going, one, str(wanted)),
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
        made = expressions.tensor(inner, expressions.lower(inner, definition.outputs[0].value), definition.outputs[0].value)
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


__all__ = ["Poisoned", "arrange", "call", "index_formula", "member", "results"]
