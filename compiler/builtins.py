"""The names that every spec knows: reductions, scalar functions, indices, draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note
from . import arithmetic, expressions, ir, lengths, ops, products, sites, wording
from .ir import Axis, Node
from .names import MAKERS
from .values import Builtin, Choice, Tensor, Value

if TYPE_CHECKING:
    from .scope import Scope

CONSTANTS: dict[str, Value] = {
    "π": math.pi,
    "pi": math.pi,
    "inf": math.inf,
    "true": True,
    "false": False,
    "none": Choice(None),
    "required": Choice("required"),
}
SCALAR = ("exp", "log", "sqrt", "erf", "tanh", "sin", "cos", "abs", "floor", "ceil", "sign")
DRAWS = {"bernoulli": (1, "bool"), "uniform": (2, "real"), "randint": (2, "int"), "sample": (1, "int")}
SIGNATURES = {
    "bernoulli": "bernoulli[seq](p)",
    "uniform": "uniform[seq](low, high)",
    "randint": "randint[seq](low, high)",
    "sample": "sample[vocab](logits)",
    "dropout": "dropout(x, p)",
    "index": "index(seq)",
    "position": "position(seq)",
    "rank": "rank[expert](x)",
}
OTHERS = ("index", "position", "rank", "dropout", "stop")
NAMES = (*CONSTANTS, *SCALAR, *ops.REDUCTIONS, *DRAWS, *OTHERS, *MAKERS)


def value(name: str) -> Value | None:
    """The constant or function of this name, or None."""
    if name in CONSTANTS:
        return CONSTANTS[name]
    return Builtin(name) if name in NAMES else None


def call(scope: Scope, fn: Builtin, args: Sequence[s.Arg], expr: s.Call) -> Value:
    """The result of a builtin function."""
    if fn.name in MAKERS:
        return lengths.call(scope, fn, args, expr)
    for arg in args:
        if arg.name is not None:
            raise scope.fail(
                "N220",
                f"{fn.name} takes no argument by name",
                arg.span,
                help=f"Write the value alone: {fn.name}({arg.value.span.text}).",
            )
    if fn.name in ("index", "position"):
        return _place(scope, fn.name, args, expr)
    if fn.name in ops.REDUCTIONS and (fn.axes or fn.name not in ("max", "min") or len(args) < 2):
        return _reduce(scope, fn, args, expr)
    if fn.name in ("max", "min"):
        return _extreme(scope, fn.name, args, expr)
    if fn.name == "rank":
        return _rank(scope, fn, args, expr)
    if fn.name in DRAWS:
        return _draw(scope, fn, args, expr)
    if fn.name == "dropout":
        return _dropout(scope, args, expr)
    count(scope, fn.name, args, 1, expr)
    found = expressions.lower(scope, args[0].value)
    if fn.name == "stop":
        made = expressions.tensor(scope, found, args[0].value)
        return Tensor(ir.apply("stop", made.node), made.bottom, made.zero)
    return arithmetic.unary(scope, fn.name, found, args[0].value)


def count(scope: Scope, name: str, args: Sequence[s.Arg], wanted: int, expr: s.Call) -> None:
    """An error unless there are as many arguments as wanted."""
    if len(args) != wanted:
        plain = f"{name}[axis](x)" if name in ops.REDUCTIONS else f"{name}(x)"
        raise scope.fail(
            "N221",
            f"{name} takes {wording.count(wanted, 'argument')}, not {len(args)}",
            wording.brackets_of(expr),
            help=f"It is written {SIGNATURES.get(name, plain)}.",
        )


def _place(scope: Scope, name: str, args: Sequence[s.Arg], expr: s.Call) -> Tensor:
    count(scope, name, args[:1] if name == "position" and len(args) == 2 else args, 1, expr)
    axis = args[0].value
    if not isinstance(axis, s.Name):
        raise scope.fail(
            "A115",
            f"{name} takes the name of an axis",
            axis.span,
            help=f"{name}(seq) is the place of each entry along seq, 0 for the first.",
        )
    found = scope.axis(axis.name)
    if found is None:
        here = scope.entry.definition.kind if scope.entry else "text"
        raise scope.fail(
            "A110",
            f"`{name}({axis.name})`: this {here} does not see `{axis.name}`",
            axis.span,
            notes=_declared_without(scope, axis.name),
            help=scope.suggest(axis.name, scope.known_axes())
            or f"Its place is the caller's. Declare a parameter with it, like x[{axis.name}], "
            "or take the place as a parameter.",
        )
    if len(args) == 2:
        return _position_else(scope, found, args[1].value)
    if name == "position" and found.ragged:
        return Tensor(ir.position(found))
    return Tensor(ir.index(found))


def _position_else(scope: Scope, axis: Axis, otherwise: s.Expr) -> Tensor:
    """position(seq, p): the position ids that the caller gives, else p."""
    made = expressions.tensor(scope, expressions.lower(scope, otherwise), otherwise)
    axes = ir.position(axis).axes
    more = [scope.label(one) for one in made.axes if one not in axes]
    if more:
        raise scope.fail(
            "A106",
            f"a position is one number, and this has axes [{', '.join(more)}]",
            otherwise.span,
            help=f"Each entry of {scope.label(axis)} has one position.",
        )
    asked = scope.session.asked.setdefault("position_ids", ir.Input("position_ids", "position_ids", axes, "int", False))
    if not axis.ragged or asked.axes[-1].size != axis.size:
        return made  # the caller numbers one length: the first that asks
    return Tensor(ir.input_("position_ids", axes, "int", made.node))


def _declared_without(scope: Scope, axis: str) -> tuple[Note, ...]:
    definition = scope.entry.definition if scope.entry else None
    if definition is None or not definition.params:
        return ()
    return (Note(definition.params[0].span, f"speaks of one {axis} only"),)


def _reduce(scope: Scope, fn: Builtin, args: Sequence[s.Arg], expr: s.Call) -> Tensor:
    count(scope, fn.name, args, 1, expr)
    inner = scope
    if fn.index or fn.restrict:
        inner = scope.child(guarded=True if fn.restrict else None)
        for name, axis in fn.index:
            inner.values[name] = Tensor(ir.index(axis))
    made = expressions.tensor(inner, expressions.lower(inner, args[0].value), args[0].value)
    if not fn.axes:
        raise _which(scope, fn.name, made, expr)
    fn = _settled(scope, fn, made)
    conditions = dict(fn.restrict)
    relation = arithmetic.both([*(t.node for t in conditions.values()), *(scope.condition(a) for a in fn.axes)])
    written = dict(zip(fn.axes, fn.written, strict=False))
    for axis in fn.axes:
        if axis not in made.axes and not (relation is not None and axis in relation.axes):
            raise _no_axis(scope, fn, made, axis, written.get(axis), args[0].value)
    relation = _bottom(scope, fn.name, made, relation, expr)
    if fn.name in ("count", "any", "all") and arithmetic.is_number(made.node):
        raise scope.fail(
            "M504",
            f"`{fn.name}` needs a truth value, not a number",
            args[0].span,
            because=(f"`{fn.name}` looks where something holds",),
            help=f"Compare it with something: {fn.name}[…]({wording.text(args[0].value)} ≠ 0).",
        )
    if fn.name not in ("count", "any", "all") and made.node.kind == "bool":
        raise arithmetic.truth_as_number(scope, args[0].value)
    if fn.name == "argmax" and len(fn.axes) != 1:
        raise scope.fail(
            "A116",
            "argmax takes one axis",
            written[fn.axes[1]].span,
            help="The place of the largest entry is a number along one axis; merge two axes first: x[a b → c].",
        )
    return Tensor(ir.reduce(fn.name, made.node, fn.axes, relation))


def _settled(scope: Scope, fn: Builtin, made: Tensor) -> Builtin:
    """Axes that only the argument (or a condition) carries are found in it."""
    known: dict[Axis, Axis] = {}
    for axis in fn.axes:
        if axis.tag == -9:
            hits = [scope.find(one, axis.name) for one in (made, *(t for _, t in fn.restrict))]
            known[axis] = next((h for h in hits if h is not None), axis)
    axes = tuple(known.get(a, a) for a in fn.axes)
    axes = tuple(scope.find(made, scope.label(a)) or a for a in axes)
    moved = dict(zip(fn.axes, axes, strict=True))
    return Builtin(fn.name, axes, tuple((moved.get(a, a), t) for a, t in fn.restrict), fn.index, fn.written)


def _bottom(scope: Scope, name: str, made: Tensor, relation: Node | None, expr: s.Call) -> Node | None:
    if made.bottom is None:
        return relation
    if name in ("max", "argmax"):
        return arithmetic.both((relation, made.bottom))
    raise scope.fail(
        "M505",
        f"a value that is -∞ outside a relation reaches `{name}`",
        expr.args[0].span,
        because=("such a value may be added to, scaled, compared by max, or go into exp and softmax",),
        help=f"Say the relation where it is needed: {name}[key if see](…).",
    )


def _which(scope: Scope, name: str, made: Tensor, expr: s.Call) -> Exception:
    axes = [scope.label(a) for a in made.axes if scope.visible(a)]
    advice = wording.over(name, axes)
    if name in ("max", "min"):
        advice += f" (For the larger of two values write {name}(a, b).)"
    return scope.fail(
        "A102",
        f"{name} over which axis?",
        expr.function.span,
        because=(f"the argument has {scope.show(made.axes)}",),
        help=advice,
    )


def _no_axis(scope: Scope, fn: Builtin, made: Tensor, axis: Axis, written: s.Name | None, arg: s.Expr) -> Exception:
    label = scope.label(axis)
    lifted = any(a.name == label or a == axis for a in made.axes if not scope.visible(a))
    have = [scope.label(a) for a in made.axes if scope.visible(a)]
    advice = scope.suggest(label, have)
    entered = _parameter(scope, arg)
    notes = scope.where_from(made, arg.span)
    if not advice and entered is not None:
        wanted = ", ".join([label, *(n.name for n in (entered.axes.names if entered.axes else ()))])
        advice = f"Declare it there, so that it is seen here: {entered.name}[{wanted}]."
        notes = (Note(entered.span, f"{label}, if the caller has it, is carried along unseen"),)
    elif not advice and scope.axis(label) is not None:
        advice = products.rename_advice(scope, made, label, arg)
    elif not advice and not lifted:
        advice = wording.seen_twice(made, scope, label)
    elif not advice and lifted:
        advice = f"Declare it where the value enters, like x[{label}], so that it is seen here."
    what = {"sum": "sum", "mean": "average"}.get(fn.name, f"take the {fn.name}")
    return scope.fail(
        "A109",
        f"`{wording.text(arg)}` has no axis `{label}` to {what} over",
        written.span if written else arg.span,
        because=(scope.told(made, arg),),
        notes=notes,
        help=advice or (f"It goes over one of {', '.join(have)}." if have else "It is a single number already."),
    )


def _parameter(scope: Scope, expr: s.Expr) -> s.Param | None:
    """The parameter that an expression is."""
    params = scope.entry.definition.params if scope.entry else None
    return next((p for p in params or () if isinstance(expr, s.Name) and p.name == expr.name), None)


def _extreme(scope: Scope, name: str, args: Sequence[s.Arg], expr: s.Call) -> Value:
    result = expressions.lower(scope, args[0].value)
    for arg in args[1:]:
        other = expressions.lower(scope, arg.value)
        result = arithmetic.binary(scope, name, result, other, expr, (args[0].value, arg.value))
    return result


def _rank(scope: Scope, fn: Builtin, args: Sequence[s.Arg], expr: s.Call) -> Tensor:
    count(scope, "rank", args, 1, expr)
    made = expressions.tensor(scope, expressions.lower(scope, args[0].value), args[0].value)
    if len(fn.axes) != 1:
        raise _which(scope, "rank", made, expr)
    fn = _settled(scope, fn, made)
    if fn.axes[0] not in made.axes:
        raise _no_axis(scope, fn, made, fn.axes[0], None, args[0].value)
    return Tensor(ir.rank(ir.owned(made.node, fn.axes[0]), fn.axes[0]))


def _draw(scope: Scope, fn: Builtin, args: Sequence[s.Arg], expr: s.Call) -> Tensor:
    wanted, kind = DRAWS[fn.name]
    count(scope, fn.name, args, wanted, expr)
    values = [expressions.tensor(scope, expressions.lower(scope, a.value), a.value) for a in args]
    if values and fn.axes:
        fn = _settled(scope, fn, values[0])
    if fn.name == "sample":
        if len(fn.axes) != 1 or fn.axes[0] not in values[0].axes:
            raise _which(scope, "sample", values[0], expr)
        return Tensor(ir.draw("sample", [values[0].node], (), kind, **sites.site(scope, expr.span), axis=fn.axes[0]))
    lifted = [a for a in (scope.session.batch,) if a is not None]
    axes = tuple(dict.fromkeys((*lifted, *(a for a in scope.lifted), *fn.axes)))
    axes = tuple(sorted(axes, key=lambda a: (a not in lifted, a.name, a.tag)))
    return Tensor(ir.draw(fn.name, [v.node for v in values], axes, kind, **sites.site(scope, expr.span)))


def _dropout(scope: Scope, args: Sequence[s.Arg], expr: s.Call) -> Value:
    count(scope, "dropout", args, 2, expr)
    found = expressions.lower(scope, args[0].value)
    rate = expressions.lower(scope, args[1].value)
    if isinstance(rate, Fraction | float) and not isinstance(rate, bool):
        if not 0 <= rate < 1:
            raise scope.fail(
                "D801",
                f"a dropout rate lies between 0 and 1, and this is {float(rate):g}",
                args[1].span,
                help="It is the share of entries that is dropped: 0.1 drops one in ten.",
            )
        if rate == 0:
            return found
    made = expressions.tensor(scope, found, args[0].value)
    rate_node = expressions.tensor(scope, rate, args[1].value).node
    node = ir.draw("dropout", [made.node, rate_node], (), "real", **sites.site(scope, expr.span))
    return Tensor(node, made.bottom, made.zero)
