"""Results of another length, for corruptions: what is left out, repeated, sorted, or put one after the other.

    x[seq if keep → out]         the entries for which keep holds, in their order
    repeat[seq → out](x, n)      each entry n times
    sort[seq](x, by = u)         the entries from the smallest u to the largest, equal ones in their order
    [a; b; c][left right → out]  parts one after the other, of which some are lengths

The core has two operations for them: `repeat` says which place each entry of the new length comes from, `order` which
place holds the i-th smallest. The rest are picks. A new length knows the number of its entries (`Length.made`), so two
texts that are made by one condition are equally long, and any others are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Span, TransformulaError
from . import choices, expressions, ir, sites, wording
from .ir import Axis, Length, Node
from .names import parts
from .values import Builtin, Tensor

if TYPE_CHECKING:
    from .modules import Entry
    from .scope import Scope

WRITTEN = {"repeat": "repeat[seq → out](x, n)", "sort": "sort[seq](x, by = u)"}


def allowed(scope: Scope, span: Span) -> None:
    """An error where a model or objective is compiled: its texts keep their length."""
    if scope.session.whole in ("model", "objective"):
        raise scope.fail(
            "X990",
            f"{'an' if scope.session.whole == 'objective' else 'a'} {scope.session.whole} has no results of another "
            "length: only a corruption does",
            span,
            help="Write it as  corruption NAME(tokens[seq] as input_ids, …) → input_ids[out] = …  "
            "and hand its results to the model.",
        )


def made(name: str, count: Node, like: Axis) -> Axis:
    """The axis of a new length, one for each owner of `like`."""
    return Axis(name, Length(name, made=ir.owned(count, like)), like.owner)


def filtered(scope: Scope, base: Tensor, axis: Axis, item: s.RestrictItem) -> Tensor:
    """x[seq if keep → out]"""
    allowed(scope, item.span)
    assert item.condition is not None
    assert item.new is not None
    test = choices.truth(scope, expressions.lower(scope, item.condition), item.condition)
    number = ir.where(test.node, ir.const(Fraction(1)), ir.const(Fraction(0)))
    return repeated(scope, base, axis, Tensor(number), item.new, item.condition)


def repeated(scope: Scope, base: Tensor, axis: Axis, times: Tensor, name: s.Name, written: s.Node) -> Tensor:
    """The value with each entry along the axis as often as it says, under a new name."""
    taken = scope.find(base, name.name)
    if taken is not None or scope.label(axis) == name.name:
        raise scope.fail(
            "A122",
            f"a result of another length needs a new name, and `{name.name}` is one of the value's axes",
            name.span,
            help="For example [seq if keep → out].",
        )
    key = sites.home(scope), written.span, axis
    if key not in scope.session.lengths:  # looked for by name and then written, it is one length
        number = ir.widen(ir.owned(times.node, axis), axis)
        count = ir.reduce("sum", number, (axis,))
        _one_length(scope, count, axis, written)
        scope.session.lengths[key] = number, made(name.name, count, axis)
    number, into = scope.session.lengths[key]
    return Tensor(ir.pick(base.node, {axis: ir.repeat(number, axis, into)}))


def _one_length(scope: Scope, count: Node, axis: Axis, written: s.Node) -> None:
    """An error where the new length would differ along an axis: an example has one."""
    extra = [scope.label(one) for one in count.axes if one != axis.owner]
    if extra:
        raise scope.fail(
            "A132",
            f"the new length would be another one for each entry of `{extra[0]}`",
            written.span,
            help=f"Say it without {extra[0]}: any[{extra[0]}](…), or max[{extra[0]}](…).",
        )


def call(scope: Scope, fn: Builtin, args: Sequence[s.Arg], expr: s.Call) -> Tensor:
    """repeat[seq → out](x, n), sort[seq](x, by = u)"""
    allowed(scope, expr.function.span)
    named = {arg.name for arg in args if arg.name is not None}
    if len(args) != 2 or named != ({"by"} if fn.name == "sort" else set()) or len(fn.axes) != 1:
        raise scope.fail(
            "N221",
            f"{fn.name} takes one axis and two arguments",
            expr.span,
            help=f"It is written {WRITTEN[fn.name]}.",
        )
    value, other = (expressions.tensor(scope, expressions.lower(scope, a.value), a.value) for a in args)
    written = fn.written[0]
    axis = fn.axes[0] if fn.axes[0].tag != -9 else None
    axis = axis or scope.find(value, written.name) or scope.find(other, written.name)
    for one, arg in ((value, args[0]), (other, args[1])):
        if axis is None or (axis not in one.axes and (fn.name == "sort" or one is value)):
            have = wording.names(scope, one)
            raise scope.fail(
                "A109",
                f"`{wording.text(arg.value)}` has no axis `{written.name}` to {fn.name} along",
                arg.value.span,
                because=(scope.told(one, arg.value),),
                help=scope.suggest(written.name, have) or f"It is written {WRITTEN[fn.name]}.",
            )
    assert axis is not None
    if other.node.kind == "bool":
        raise scope.fail(
            "M503",
            "a number is needed here, not a truth value",
            args[1].value.span,
            help=f"Write 1 if {wording.text(args[1].value)} else 0.",
        )
    if fn.name == "sort":
        return _sorted(value, other, axis, fn.new)
    if fn.new is None:
        raise scope.fail("A119", "a repetition makes a new length", written.span, help=f"Write {WRITTEN['repeat']}.")
    return repeated(scope, value, axis, _whole(scope, other, args[1].value), fn.new, args[1].value)


def _whole(scope: Scope, times: Tensor, written: s.Expr) -> Tensor:
    """How often: a whole number, and nothing less than 0."""
    if times.node.kind == "real":
        raise scope.fail(
            "I802",
            "an entry is repeated a whole number of times, and this value need not be one",
            written.span,
            help="Round it: floor(…), or divide with //.",
        )
    node = times.node if times.node.kind == "int" else ir.apply("floor", times.node)
    return Tensor(ir.apply("max", node, ir.const(0)))


def _sorted(value: Tensor, by: Tensor, axis: Axis, new: s.Name | None) -> Tensor:
    """As long as before; under another name if one is given."""
    found = Tensor(ir.pick(value.node, {axis: ir.order(ir.owned(by.node, axis), axis)}))
    return found if new is None else found.rename({axis: Axis(new.name, axis.size, axis.owner)})


def joined(
    scope: Scope, values: Sequence[Tensor], along: Sequence[Axis | None], item: s.RenameItem
) -> Tensor:
    """[a; b; c][left right → out], some of them lengths: entry i of the result is entry i - (all before) of a part."""
    allowed(scope, item.span)
    like = next(axis for axis in along if axis is not None and axis.ragged)
    ends: list[Node] = []
    for axis in along:
        count = ir.const(1) if axis is None else ir.size(axis)
        ends.append(ir.apply("+", ends[-1], count) if ends else count)
    _one_length(scope, ends[-1], like, item)
    into = made(item.new[0].name, ends[-1], like)
    place = ir.index(into)
    found: Node | None = None
    for number in range(len(values) - 1, -1, -1):
        axis, here = along[number], values[number].node
        if axis is not None:
            start = place if number == 0 else ir.apply("-", place, ends[number - 1])
            here = ir.pick(here, {axis: start})
        found = here if found is None else ir.where(ir.apply("<", place, ends[number]), here, found)
    assert found is not None
    return Tensor(found)


# ------------------------------------------------------------------------------------------ lengths by their name


def made_axis(scope: Scope, name: str) -> Axis | None:
    """The new length that a definition's text makes under this name, whatever the order of its parts."""
    here = sites.home(scope)
    busy = (here, name) in scope.session.looking
    if here.entry is None or busy or scope.session.whole in ("model", "objective"):
        return None
    key = id(here.entry.definition), name
    if key not in scope.session.makers:
        scope.session.makers[key] = _maker(here.entry, name, set())
    found = scope.session.makers[key]
    if found is None:
        return None
    scope.session.looking.add((here, name))
    try:
        axis = here.find(expressions.tensor(here, expressions.lower(here, found), found), name)
        return axis if axis is not None and axis.ragged else None
    finally:
        scope.session.looking.discard((here, name))


def _maker(entry: Entry, name: str, seen: set[int]) -> s.Expr | None:
    """The part of a text that makes the length: by itself, or by calling a formula that does."""
    seen.add(id(entry.definition))
    own = _makers(entry.definition)
    if name in own:
        return own[name]
    for callee, call_ in _calls(entry.definition):
        other = entry.module.entries.get(callee)
        if other is not None and id(other.definition) not in seen and _maker(other, name, seen) is not None:
            return call_
    return None


@lru_cache(maxsize=4096)
def _calls(definition: s.Definition) -> tuple[tuple[str, s.Call], ...]:
    """The calls of a text, by the name of the formula."""
    found = []
    for one in parts((definition.outputs, definition.body)):
        if isinstance(one, s.Call):
            function = one.function.base if isinstance(one.function, s.Select) else one.function
            if isinstance(function, s.Name):
                found.append((function.name, one))
    return tuple(found)


@lru_cache(maxsize=4096)
def _makers(definition: s.Definition) -> dict[str, s.Expr]:
    """The parts of a text that make a new length, by its name."""
    found: dict[str, s.Expr] = {}
    for one in parts((definition.outputs, definition.body)):
        items: Sequence[s.Item] = ()
        if isinstance(one, s.Call) and isinstance(one.function, s.Select) and _is_repeat(one.function.base):
            items = one.function.items
        elif isinstance(one, s.Select):
            items = one.items[:1] if isinstance(one.base, s.Concat) else ()
            for item in one.items:
                if isinstance(item, s.RestrictItem) and item.new is not None:
                    found.setdefault(item.new.name, one)
        for item in items:
            if isinstance(item, s.RenameItem) and item.old:
                found.setdefault(item.new[0].name, one)
    return found


def _is_repeat(base: s.Expr) -> bool:
    return isinstance(base, s.Name) and base.name == "repeat"


def no_name(scope: Scope, item: s.RestrictItem, expr: s.Select) -> TransformulaError:
    """x[seq if keep], without a name for what is left."""
    condition = wording.text(item.condition) if item.condition is not None else "…"
    return scope.fail(
        "A119",
        "what is left when a condition chooses entries is a new length, which needs a name",
        item.span,
        help=f"For example {wording.text(expr.base)}[{item.axis.name} if {condition} → out] in a corruption. "
        f"Only reductions and formulas go over a part without a name: sum[{item.axis.name} if {condition}](…).",
    )


def no_filter(scope: Scope, item: s.Item) -> TransformulaError:
    """Brackets that hold no axis."""
    return scope.fail("A119", "an axis is expected here", item.span, help="Write its name, like sum[seq](x).")
