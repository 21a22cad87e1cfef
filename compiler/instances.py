"""Weights and instances: what `weights` and `uses` declare, in a block or at the top of a spec."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note
from ..grammar.printer import expression as printed
from . import expressions, ir, wording
from .config import MAX_SIZE, Config
from .ir import Axis, Node, Weight
from .modules import Module
from .names import declared_names
from .values import Counter, Instance, MapAxes, Static, Tensor, Value, describe

if TYPE_CHECKING:
    from .scope import Scope

OUT = -1
"""The tag of an out-axis that has the name of an in-axis: W : [d → d]."""


def part(scope: Scope, name: str) -> Value | None:
    """A weight or instance that the scope's own definition declares."""
    assert scope.entry is not None
    body = scope.entry.definition.body
    return _declared(scope, body.weights, body.uses, name)


def spec_part(scope: Scope, name: str) -> Value | None:
    """A weight or instance at the top level of the spec: shared by all its models and objectives."""
    module = scope.session.module
    if name in module.uses:
        return _declared(scope.root(), (), (module.uses[name],), name)
    weights = tuple(one for one in module.weights if any(n.name == name for n in one.names))
    return _declared(scope.root(), weights, (), name) if weights else None


def _declared(scope: Scope, weights: tuple[s.WeightDecl, ...], uses: tuple[s.UseDecl, ...], name: str) -> Value | None:
    for weight_decl in weights:
        if any(one.name == name for one in weight_decl.names):
            return weight(scope, weight_decl, name)
    for use in uses:
        if any(one.name == name for one in use.names):
            return instance(scope, use, name)
    return None


def present(scope: Scope, condition: s.Expr | None) -> bool:
    """Whether config wants the declaration."""
    if condition is None:
        return True
    found = expressions.lower(scope, condition)
    if not isinstance(found, bool):
        raise scope.fail(
            "C613",
            "only config decides whether a weight or instance exists",
            condition.span,
            because=(f"`{wording.text(condition)}` is {describe(found)}",),
            help="Write a condition of config entries, like  if bias  with  bias = true  in config.",
        )
    return found


def left_out(scope: Scope, expr: s.Node) -> bool:
    """Whether a number stands for a weight that config leaves out: it is then the same at every place of its axes."""
    here: Scope | None = scope
    while here is not None and here.entry is None:
        here = here.parent
    names = (
        [one.name for decl in here.entry.definition.body.weights for one in decl.names] if here and here.entry else []
    )
    return isinstance(expr, s.Name) and expr.name in names


def weight(scope: Scope, decl: s.WeightDecl, name: str) -> Value:
    """The weight as a value; one that config leaves out is the constant of its initialiser (bias 0, gain 1)."""
    if not present(scope, decl.condition):
        if isinstance(decl.init, s.Number):
            return decl.init.value
        raise scope.fail(
            "C614",
            f"the weight `{name}` does not exist in this config, and has no constant to stand for it",
            next(one.span for one in decl.names if one.name == name),
            help=f"Use it under the same condition, … if {decl.condition.span.text if decl.condition else 'c'} else …, "
            "or give it a constant initialiser: ~ 0.",
        )
    axes, map_ = _axes(scope, decl)
    stack = tuple(axis for axis, _ in scope.outer)
    path = scope.path + name
    homes = _homes(scope, decl, axes)
    made = ir.weight(path, (*stack, *(homes[axis] for axis in axes)))
    if path not in scope.session.weights:
        init = _initial(scope, decl.init) if all(axis.size for axis in stack) else ""
        home = map_.renamed(homes) if map_ else None
        ins, outs = (home.ins, home.outs) if home else ((), None)
        scope.session.weights[path] = Weight(path, made.axes, stack, ins, outs, init, decl.span)
        scope.origin(made, decl.span, name)
    here = {home: axis for axis, home in homes.items() if home != axis}
    return Tensor(ir.rename(chosen(scope, made, scope.outer), here), map=map_)


def _initial(scope: Scope, init: s.Expr | None) -> str:
    """The initialiser as text, with the numbers that config makes of its arguments: normal(0.02 / √layers)."""
    if not isinstance(init, s.Call):
        return printed(init) if init is not None else ""
    from .scope import config_scope

    found = [
        expressions.lower(config_scope(scope.config), one.value) if not isinstance(one.value, s.Number) else None
        for one in init.args
    ]
    told = [
        repr(float(value)) if isinstance(value, Fraction | float) else printed(one.value)
        for one, value in zip(init.args, found, strict=True)
    ]
    return f"{printed(init.function)}({', '.join(told)})"


def _homes(scope: Scope, decl: s.WeightDecl, axes: tuple[Axis, ...]) -> dict[Axis, Axis]:
    """The axes under which a weight is stored, by those that it has in this call: they do not depend on the caller."""
    names = (*decl.axes.carried, *decl.axes.ins, *(decl.axes.outs or ()))
    homes: dict[Axis, Axis] = {}
    for name, axis in zip(names, axes, strict=True):
        home = scope.config.axis(name.name)
        if home is None or (home.size, home.owner) != (axis.size, axis.owner):
            home = scope.stands.get(axis, axis)
        homes[axis] = Axis(home.name, home.size, home.owner, OUT) if axis.tag == OUT else home
    return homes if len(set(homes.values())) == len(homes) else {axis: axis for axis in axes}


def chosen(scope: Scope, made: Node, outer: tuple[tuple[Axis, Static | Counter | Tensor], ...]) -> Node:
    """One of a stack of weights."""
    at = {axis: _number(number) for axis, number in outer}
    return ir.pick(made, at) if at else made


def _number(value: Static | Counter | Tensor) -> Node:
    if isinstance(value, Counter | Tensor):
        return value.node
    return ir.const(value)


def _axes(scope: Scope, decl: s.WeightDecl) -> tuple[tuple[Axis, ...], MapAxes | None]:
    carried = tuple(_fixed(scope, name) for name in decl.axes.carried)
    ins = tuple(_fixed(scope, name) for name in decl.axes.ins)
    if decl.axes.outs is None:
        return _unique(scope, (*carried, *ins), decl), None
    outs = tuple(_fixed(scope, name) for name in decl.axes.outs)
    outs = tuple(Axis(a.name, a.size, a.owner, OUT) if a in ins else a for a in outs)
    return _unique(scope, (*carried, *ins, *outs), decl), MapAxes(carried, ins, outs)


def _unique(scope: Scope, axes: tuple[Axis, ...], decl: s.WeightDecl) -> tuple[Axis, ...]:
    if len(set(axes)) == len(axes):
        return axes
    twice = next(a for a in axes if axes.count(a) > 1)
    raise scope.fail(
        "A128",
        f"`{scope.label(twice)}` stands twice in this weight",
        decl.axes.span,
        help=f"A square weight is a map from the axis to itself: [{twice.name} → {twice.name}].",
    )


def _fixed(scope: Scope, name: s.Name) -> Axis:
    axis = scope.axis(name.name)
    if axis is None or not isinstance(axis.size, int):
        known = list(scope.config.names())
        raise scope.fail(
            "C615",
            f"the size of `{name.name}` is not known: a weight needs one",
            name.span,
            help=scope.suggest(name.name, known) or f"Give it in config: {name.name} = …",
        )
    return axis


def instance(scope: Scope, decl: s.UseDecl, name: str) -> Instance:
    """An instance as a value (still without numbers if it is a stack)."""
    if not present(scope, decl.condition):
        raise scope.fail(
            "C614",
            f"the instance `{name}` does not exist in this config",
            next(one.span for one in decl.names if one.name == name),
            help=f"Use it under the same condition: … if {decl.condition.span.text if decl.condition else 'c'} else ….",
        )
    entry = scope.module.entries.get(decl.block.name)
    if entry is None:
        known = [e.name for e in scope.module.of_kind("block", "model")]
        raise scope.fail(
            "N201",
            f"unknown block `{decl.block.name}`",
            decl.block.span,
            notes=scope.removed(decl.block.name),
            help=scope.suggest(decl.block.name, known)
            or (f"The blocks of this file are {', '.join(known)}." if known else "This file has no blocks."),
        )
    if entry.definition.kind not in ("block", "model"):
        raise scope.fail(
            "U706",
            f"`{entry.name}` is a {entry.definition.kind} and has no instances",
            decl.block.span,
            notes=(Note(entry.definition.name.span, "defined here"),),
            help=f"Only blocks and models have; a formula is called by its name: {entry.name}(…).",
        )
    stack = tuple(_fixed(scope, axis) for axis in decl.indices)
    used = [axis for axis, _ in scope.outer]
    stack = tuple(Axis(a.name, a.size, None, -100 - len(used)) if a in used else a for a in stack)
    path = f"{scope.path}{name}" + (f"[{', '.join(a.name for a in decl.indices)}]" if stack else "")
    return Instance(entry, path, scope, decl, stack, binds=_binds(scope, decl), outer=scope.outer)


def _binds(scope: Scope, decl: s.UseDecl) -> dict[str, Axis | str]:
    found: dict[str, Axis | str] = {}
    for item in decl.binds:
        if not isinstance(item.value, s.Name):
            raise scope.fail(
                "A107",
                "axes have names here, not numbers",
                item.value.span,
                help=f"Bind one to another: {decl.block.name}[{item.axis.name} = emb]; "
                f"a size is given in parentheses: {decl.block.name}({item.axis.name} = {item.value.span.text}).",
            )
        found[item.axis.name] = scope.need_axis(item.value)
    return found


def whole(value: Value) -> Fraction | None:
    """The value as a whole number, if it is one."""
    return value if isinstance(value, Fraction) and value.denominator == 1 else None


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
            if isinstance(value, Fraction) and value.denominator == 1 and 0 <= value < MAX_SIZE:
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


def use_config(module: Module, config: Config, name: str) -> Config:
    """The config inside an instance at the top level of a spec; of any other name the spec's own."""
    from .scope import module_scope

    found = spec_part(module_scope(module, config), name) if name in module.uses else None
    return instance_config(found)[0] if isinstance(found, Instance) else config


def member(scope: Scope, base: Instance, expr: s.Member) -> Value:
    """instance.W or instance.part: reaches a weight (tied heads) or an inner instance."""
    from .scope import Scope

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
