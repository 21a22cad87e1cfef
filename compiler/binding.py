"""Arguments by parameter, axes by formal name, and a stand-in where labels alone would confuse two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note
from . import calls, entering, expressions, instances, products, refusals, wording
from .ir import Axis
from .names import mentioned
from .values import Counter, Formula, Instance, Record, Tensor, Value

if TYPE_CHECKING:
    from .entering import Entering
    from .scope import Scope


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
                notes=entering.head(going),
                help=f"Its parameters are {', '.join(names)}." if names else "",
            )
        name = arg.name if arg.name is not None else names[place]
        if name not in names:
            raise scope.fail(
                "N225",
                f"`{label}` has no parameter `{name}`",
                arg.span,
                notes=entering.head(going),
                help=scope.suggest(name, names) or (f"It has {', '.join(names)}." if names else ""),
            )
        if name in going.args:
            raise scope.fail(
                "N226",
                f"`{name}` is given twice",
                arg.span,
                notes=(Note(going.args[name][0].span, "first here"), *entering.head(going)),
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
            notes=entering.head(going),
            help=f"Write {label}({', '.join(n for n in names if n in going.args or n in missing)}).",
        )


def is_local(fn: Formula) -> bool:
    return fn.scope is not None and fn.entry.module.entries.get(fn.entry.name) != fn.entry


def _argument(scope: Scope, expr: s.Expr) -> Value:
    """An argument; functions and instances are passed with the names of this scope."""
    value = expressions.lower_raw(scope, expr)
    if isinstance(value, Formula):
        if value.entry.definition.params is None:
            return calls.index_formula(scope, value, expr.span)
        return value if value.translate else replace(value, scope=value.scope if is_local(value) else scope)
    if isinstance(value, Instance) and value.naming is None:
        return replace(value, naming=scope)
    return value.value if isinstance(value, Record) else value


def bind_axes(going: Entering) -> None:
    """Finds, for each parameter, which axis of its argument each formal axis is."""
    for param in going.definition.params or ():
        if param.name not in going.args:
            continue
        expr, value = going.args[param.name]
        names = entering.declared(going, param)
        if not isinstance(value, Tensor):
            wanted_axes = names and param.axes is not None and param.default is None
            if wanted_axes and _is_number(value) and not instances.left_out(going.scope, expr):
                raise refusals.needs_axes(going, param, expr)
            continue
        mine: dict[Axis, str] = {}
        for name in names:
            wanted = going.binds.get(name.name, name.name)
            hits = entering.locate(going, value, wanted)
            if len(hits) > 1:
                raise refusals.ambiguous(going, name, value, expr)
            if hits:
                if hits[0] not in mine:
                    mine[hits[0]] = name.name
                    _agree(going, name.name, hits[0], expr)
            elif param.axes is not None and param.default is None:
                raise refusals.lacks(going, param, name, value, expr)
        going.bound[param.name] = mine


def _is_number(value: Value) -> bool:
    return isinstance(value, bool | Fraction | float | Counter)


def _agree(going: Entering, formal: str, axis: Axis, expr: s.Node) -> None:
    old = going.chosen.setdefault(formal, axis)
    if old != axis and (old.size, old.owner) != (axis.size, axis.owner):
        raise products.extents(going.scope, formal, old, axis, expr)


def freshen(going: Entering, local: bool = False) -> None:
    """Decides which axes need a stand-in, and how each argument is renamed on entering.

    A local function means by its names what stands around it, so axes that it does not bind stay as they are.
    """
    session, text = going.scope.session, mentioned(going.definition)
    taken: dict[Axis, str] = {}
    for formal, axis in going.chosen.items():
        everywhere = all(
            going.bound[name].get(axis) == formal or axis not in v.axes for name, v in entering.tensors(going)
        )
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
    for name, value in entering.tensors(going):
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
