"""Why a call is refused: messages about the axes of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import entering, products, wording
from .ir import Axis
from .values import Tensor

if TYPE_CHECKING:
    from .entering import Entering
    from .scope import Scope


def needs_axes(going: Entering, param: s.Param, expr: s.Node) -> TransformulaError:
    """A number where a value with axes is needed."""
    axes = ", ".join(n.name for n in entering.declared(going, param))
    return going.scope.fail(
        "A129",
        f"`{going.entry.name}` needs a value with axes [{axes}] for `{param.name}`, not a number",
        expr.span,
        notes=entering.head(going),
        help="A number is the same everywhere: give it axes as a weight, or as a part t[…] = … of a `where`.",
    )


def ambiguous(going: Entering, name: s.Name, value: Tensor, expr: s.Node) -> TransformulaError:
    """A formal axis that could be any of several of the argument."""
    return going.scope.fail(
        "A130",
        f"`{name.name}` of `{going.entry.name}` could be any of several axes",
        expr.span,
        because=(going.scope.told(value, expr),),
        help="Rename all but one of them first.",
    )


def lacks(going: Entering, param: s.Param, name: s.Name, value: Tensor, expr: s.Node) -> TransformulaError:
    """An argument without an axis that the parameter sees."""
    scope = going.scope
    wanted = going.binds.get(name.name, name.name)
    wanted = scope.label(wanted) if isinstance(wanted, Axis) else wanted
    have = [scope.label(a) for a in value.axes if scope.visible(a)]
    text = " ".join(expr.span.text.split())
    told = f"`{going.entry.name}` sees {param.name}[{', '.join(n.name for n in entering.declared(going, param))}]"
    advice = scope.suggest(wanted, have)
    span = expr.span
    if name.name in going.binds and scope.axis(wanted) is None:
        span = going.axis_span(name.name)
    elif not advice and wanted not in scope.config:
        advice = products.rename_advice(scope, value, wanted, expr)
        others = [e for n, e in _likewise(going, wanted) if n != param.name] if advice else []
        if others:
            advice += f" So does {wording.listed([wording.text(e) for e in others])}."
    bind = f"Bind an axis that it has: {going.entry.name}[{name.name} = {have[-1]}](…)." if have else ""
    return scope.fail(
        "A101",
        f"`{text if len(text) < 40 else param.name}` has no axis `{wanted}`",
        span,
        because=(scope.told(value, expr), told),
        notes=(*scope.where_from(value, expr.span), *entering.head(going)),
        help=advice or bind or f"`{going.entry.name}` goes over {wanted}: give it a value that has it.",
    )


def _likewise(going: Entering, wanted: str) -> Iterable[tuple[str, s.Node]]:
    """The other arguments that lack the axis, too."""
    for param in going.definition.params or ():
        expr, value = going.args.get(param.name, (None, None))
        if expr is None or not isinstance(value, Tensor) or param.axes is None or param.default is not None:
            continue
        names = [going.binds.get(n.name, n.name) for n in param.axes.names]
        if wanted in names and not entering.locate(going, value, wanted):
            yield param.name, expr


def no_head_axis(going: Entering, one: s.AxisParam) -> TransformulaError:
    """An axis of the head that no argument has."""
    scope = going.scope
    values = [v for _, v in entering.tensors(going)]
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
            notes=entering.head(going),
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
        notes=entering.head(going),
        help=advice,
    )


def collision(going: Entering, inner: Scope, axis: Axis) -> TransformulaError:
    """A result that would have an axis twice."""
    label = going.scope.label(axis)
    return going.scope.fail(
        "A126",
        f"the result of `{going.entry.name}` would have `{label}` twice",
        going.span,
        because=(f"one comes from an argument, the other is made inside `{going.entry.name}`",),
        notes=entering.head(going),
        help=f"Rename the argument's first: …[{label} → {label}'].",
    )


def say_which(going: Entering, one: s.AxisParam, wanted: str) -> str:
    """How an axis of an index formula is bound here."""
    used = {going.binds.get(other.axis.name, other.axis.name) for other in going.definition.axes}
    scope = going.scope
    free = [name for name in scope.known_axes() if name not in used]
    near = scope.suggest(wanted, free)
    lengths = [name for name in free for axis in [scope.axis(name)] if axis is not None and axis.ragged]
    name = one.index.name if one.index else one.axis.name
    if near or not lengths:
        known = [name for name in scope.known_axes() for axis in [scope.axis(name)] if axis is not None and axis.ragged]
        first = f"A rename brings it in, like x[{known[0]} → {wanted}], or" if known else "Declare it:"
        return near or f"{first} a parameter's brackets, like x[{wanted}]."
    return f"Say which axis it is: {going.entry.name}[{name} = {lengths[-1]}]."
