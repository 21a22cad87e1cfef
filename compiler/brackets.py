"""Brackets after something: picks, renames, splits, merges, new axes, bound axes, conditions, states, instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError
from . import arithmetic, calls, expressions, ir, loops
from .ir import Axis, Node
from .values import (
    Builtin,
    Counter,
    Formula,
    Instance,
    MapAxes,
    Record,
    States,
    Tensor,
    Value,
    describe,
)

if TYPE_CHECKING:
    from .scope import Scope


def select(scope: Scope, expr: s.Select) -> Value:
    """base[items], by what the base is."""
    if isinstance(expr.base, s.Concat):
        return joined(scope, expr.base, expr)
    base = expressions.name(scope, expr.base) if isinstance(expr.base, s.Name) else expressions.lower_raw(scope, expr.base)
    match base:
        case Builtin():
            return bind_builtin(scope, base, expr)
        case Formula():
            bound = bind(scope, base, expr)
            if base.entry.definition.params is None:
                return calls.index_formula(scope, bound, expr.span)
            return bound
        case Instance() if base.waiting:
            return _member_of_stack(scope, base, expr)
        case Instance():
            return bind_instance(scope, base, expr)
        case States():
            return loops.state(scope, base, expr)
        case Record():
            base = base.value
    if not isinstance(base, Tensor):
        if isinstance(base, Counter | Fraction | float) and not isinstance(base, bool):
            raise scope.fail("A117", f"`{expr.base.span.text}` is a number and has no axes", expr.span)
        raise scope.fail("A117", f"{describe(base)} has no axes to choose from", expr.span)
    return on_tensor(scope, base, expr)


# -------------------------------------------------------------------------------------------------- functions


def bind(scope: Scope, base: Formula, expr: s.Select) -> Formula:
    """f[key = src], f[seq] (by place), f[key if see]."""
    binds, restrict = dict(base.binds), list(base.restrict)
    free = [p.axis.name for p in base.entry.definition.axes if p.axis.name not in binds]
    indices = {p.index.name: p.axis.name for p in base.entry.definition.axes if p.index is not None}
    for item in expr.items:
        if isinstance(item, s.EqualItem):
            formal = indices.get(item.axis.name, item.axis.name)
            binds[formal] = axis_name(scope, item.value).name
            continue
        formal, axis, condition = _positional(scope, base.entry.name, item, free)
        binds[formal] = axis.name
        if condition is not None:
            restrict.append((formal, condition))
    return replace(base, binds=binds, restrict=tuple(restrict))


def _positional(
    scope: Scope, name: str, item: s.Item, free: list[str]
) -> tuple[str, s.Name, Tensor | None]:
    """An item `axis` or `axis if condition`: it fills the formal axis of the same name, or the next free one."""
    if isinstance(item, s.PlainItem):
        axis, condition = axis_name(scope, item.value), None
    elif isinstance(item, s.RestrictItem) and item.new is None and item.as_index is None:
        axis = item.axis
        condition = None if item.condition is None else _condition(scope, item.condition)
    else:
        raise _later(scope, item)
    if not free:
        raise scope.fail("A118", f"`{name}` has no axis left to bind `{axis.name}` to", item.span)
    formal = axis.name if axis.name in free else free[0]
    free.remove(formal)
    return formal, axis, condition


def _later(scope: Scope, item: s.Item) -> TransformulaError:
    if isinstance(item, s.RenameItem | s.RestrictItem) and (isinstance(item, s.RenameItem) or item.new is not None):
        return scope.fail(
            "X990", "results of another length are for corruptions, which this version cannot compile yet", item.span
        )
    return scope.fail("A119", "an axis is expected here", item.span)


def _condition(scope: Scope, expr: s.Expr) -> Tensor | None:
    """A restriction; one that config decides is no condition (true) or an empty one (false)."""
    found = expressions.lower(scope, expr)
    if found is True:
        return None
    if found is False:
        return Tensor(ir.const(False))
    return arithmetic.truth(scope, found, expr)


def axis_name(scope: Scope, expr: s.Expr) -> s.Name:
    """The expression as the name of an axis, or an error for `x[0]`, `x[:, 0]` and the like."""
    if isinstance(expr, s.Name):
        return expr
    raise scope.fail(
        "A107",
        "axes have names here, not numbers",
        expr.span,
        help="The first entry along seq is x[seq = 0]; merge with x[head dk → d], split with x[d → head dk].",
    )


def bind_builtin(scope: Scope, base: Builtin, expr: s.Select) -> Builtin:
    """sum[key](…), mean[seq if c](…), sum[r: key if r ≤ i](…)."""
    axes, names, restrict, index = list(base.axes), list(base.written), list(base.restrict), list(base.index)
    for item in expr.items:
        if isinstance(item, s.PlainItem):
            name, axis = axis_name(scope, item.value), None
        elif isinstance(item, s.RestrictItem) and item.new is None:
            name = item.axis
            axis = _bound_index(scope, item, index)
        else:
            raise _later(scope, item)
        axis = axis or scope.axis(name.name)
        if axis is None:
            axis = _seen_axis(scope, name)
        axes.append(axis)
        names.append(name)
        if isinstance(item, s.RestrictItem) and item.condition is not None:
            inner = scope.child(guarded=True, tables=bool(index) or None)
            for label, bound in index:
                inner.values[label] = Tensor(ir.index(bound))
            condition = _condition(inner, item.condition)
            if condition is not None:
                restrict.append((axis, condition))
    return Builtin(base.name, tuple(axes), tuple(restrict), tuple(index), tuple(names))


def _bound_index(scope: Scope, item: s.RestrictItem, index: list[tuple[str, Axis]]) -> Axis | None:
    """r of sum[r: key …]: an axis of its own, as long as key, whose places r runs over."""
    if item.as_index is None:
        return None
    like = scope.need_axis(item.axis)
    axis = Axis(item.as_index.name, like.size, like.owner)
    index.append((item.as_index.name, axis))
    return axis


def _seen_axis(scope: Scope, name: s.Name) -> Axis:
    """An axis that so far only a value carries (a call or weight made it): found when the argument is known."""
    return Axis(name.name, ir.Length(f"?{name.name}"), None, -9)


def bind_instance(scope: Scope, base: Instance, expr: s.Select) -> Instance:
    """attn[key = src]: binds axes of an instance's block for this call."""
    binds = dict(base.binds)
    for item in expr.items:
        if isinstance(item, s.EqualItem):
            binds[item.axis.name] = axis_name(scope, item.value).name
        elif isinstance(item, s.PlainItem) and not isinstance(item.value, s.Name):
            raise _not_a_stack(scope, base, expr)
        elif isinstance(item, s.PlainItem) and isinstance(scope.lookup(item.value.name), Counter):
            raise _not_a_stack(scope, base, expr)
        else:
            raise scope.fail("A119", "bind an axis by name here: block[key = src](…)", item.span)
    return replace(base, binds=binds)


def _not_a_stack(scope: Scope, base: Instance, expr: s.Select) -> TransformulaError:
    from ..grammar.diagnostics import Note

    name = expr.base.span.text
    return scope.fail(
        "U701",
        f"`{name}` is one shared instance, not one per layer",
        expr.span,
        notes=(Note(base.decl.span, "declared here"),),
        help=f"Own weights per layer: {name}[layers] : {base.entry.name}. Shared weights, as in ALBERT: {name}(x[l]).",
    )


def _member_of_stack(scope: Scope, base: Instance, expr: s.Select) -> Instance:
    """layer[l]: the numbers of a stack; each must be whole and inside."""
    if len(expr.items) != len(base.stack) or not all(isinstance(i, s.PlainItem) for i in expr.items):
        axes = ", ".join(a.name for a in base.stack)
        raise scope.fail("U704", f"`{expr.base.span.text}` has one instance per {axes}: give {len(base.stack)} number(s)", expr.span)
    at = []
    for item, axis in zip(expr.items, base.stack, strict=True):
        assert isinstance(item, s.PlainItem)
        found = expressions.lower(scope, item.value)
        if isinstance(found, Record):
            found = found.value
        if not isinstance(found, Fraction | float | Counter | Tensor) or isinstance(found, bool):
            raise scope.fail("U704", "an instance is chosen by a number", item.span)
        if isinstance(found, Fraction | float):
            whole_inside(scope, found, axis, item.value)
        at.append(found)
    return replace(base, at=tuple(at))


def whole_inside(scope: Scope, value: Fraction | float, axis: Axis, expr: s.Node) -> int:
    """The number as a place along an axis of known size."""
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise scope.fail("I802", f"{float(value):g} is no whole number, and a place along `{axis.name}` is one", expr.span)
    if value < 0 or (isinstance(axis.size, int) and value >= axis.size):
        raise scope.fail(
            "I801",
            f"`{scope.label(axis)}` has no place {value}",
            expr.span,
            because=(f"its places are 0 … {axis.size - 1}",) if isinstance(axis.size, int) else (),
            help="Counting starts at 0, and negative numbers do not count from the end.",
        )
    return int(value)


# ------------------------------------------------------------------------------------------------------ values


def on_tensor(scope: Scope, base: Tensor, expr: s.Select) -> Tensor:
    """Picks (simultaneously), then renames, splits and merges in order."""
    picks = [item for item in expr.items if isinstance(item, s.EqualItem)]
    names = [item for item in expr.items if isinstance(item, s.PlainItem)]
    made = base
    if names:
        if len(names) != len(expr.items):
            raise scope.fail("A119", "axis names alone, or picks and renames, not both", expr.span)
        expressions.stated(scope, base, [axis_name(scope, n.value) for n in names], expr.base, expr.span)
        return base
    if picks:
        made = pick(scope, made, picks, expr)
    for item in expr.items:
        if isinstance(item, s.RenameItem):
            made = _renamed(scope, made, item, expr)
        elif isinstance(item, s.RestrictItem):
            raise _later(scope, item if item.new else replace(item, new=item.axis))
    return made


def _need(scope: Scope, value: Tensor, name: s.Name, expr: s.Select) -> Axis:
    found = scope.find(value, name.name)
    if found is None:
        have = [scope.label(a) for a in value.axes if scope.visible(a)]
        raise scope.fail(
            "A120",
            f"`{_text(expr.base)}` has no axis `{name.name}`",
            name.span,
            because=(scope.told(value, expr.base),),
            notes=scope.where_from(value, expr.span),
            help=scope.suggest(name.name, have),
        )
    return found


def pick(scope: Scope, base: Tensor, items: Sequence[s.EqualItem], expr: s.Select) -> Tensor:
    """x[a = i, b = j else v]: simultaneous, aligned by name; out of range is undefined unless `else` says."""
    at: dict[Axis, Node] = {}
    inside: list[Node] = []
    otherwise: Value | None = None
    for item in items:
        axis = _need(scope, base, item.axis, expr)
        if axis in at:
            raise scope.fail("N202", f"`{item.axis.name}` is picked twice", item.span)
        at[axis] = _place(scope, axis, item)
        if item.otherwise is not None:
            otherwise = expressions.lower(scope, item.otherwise)
            inside += [ir.apply(">=", at[axis], ir.const(0)), ir.apply("<", at[axis], ir.size(axis))]
    kept = {scope.label(a): a for a in base.axes if a not in at and scope.visible(a)}
    for number in at.values():
        for axis in number.axes:
            if scope.visible(axis) and kept.get(scope.label(axis), axis) != axis:
                raise expressions.extents(scope, scope.label(axis), kept[scope.label(axis)], axis, expr)
    map_ = base.map and _picked_map(scope, base.map, at, expr)
    made = Tensor(_picked(base.node, at), base.bottom and _picked(base.bottom, at), base.zero and _picked(base.zero, at), map_)
    if otherwise is None:
        return made
    test = arithmetic.both(inside)
    assert test is not None
    return arithmetic.selected(scope, Tensor(test), made, otherwise, expr)


def _picked(base: Node, at: dict[Axis, Node]) -> Node:
    """A pick; along a plain index of an axis that base lacks it is a rename."""
    own = {axis: number for axis, number in at.items() if axis in base.axes}
    pairs = {
        axis: number["axis"]
        for axis, number in own.items()
        if number.op == "index" and number["axis"].size == axis.size and number["axis"].owner == axis.owner
    }
    left = {axis: number for axis, number in own.items() if axis not in pairs}
    if pairs and not any(new in base.axes and new != old for old, new in pairs.items()):
        base = ir.rename(base, pairs)
    else:
        left = own
    return ir.pick(base, left) if left else base


def _place(scope: Scope, axis: Axis, item: s.EqualItem) -> Node:
    found = expressions.lower(scope, item.value)
    if isinstance(found, Fraction | float) and not isinstance(found, bool):
        if item.otherwise is None:
            whole_inside(scope, found, axis, item.value)
        return ir.const(found)
    made = expressions.tensor(scope, found, item.value)
    if made.node.kind == "bool":
        raise scope.fail("M503", "a truth value is no place", item.value.span, help="Write 1 if … else 0.")
    if made.node.kind == "real":
        raise scope.fail(
            "I802", f"a place along `{item.axis.name}` is a whole number, and this value need not be", item.value.span,
            help="Round it: floor(…), or divide with //.",
        )
    _past_the_end(scope, axis, made.node, item)
    return made.node


def _past_the_end(scope: Scope, axis: Axis, number: Node, item: s.EqualItem) -> None:
    """t + 1 along the axis that t runs over reads one past its end, unless something guards it."""
    if scope.guarded or item.otherwise is not None or number.op != "map" or number["fn"] not in ("+", "-"):
        return
    first, second = number.args
    if first.op != "index" or second.op != "const" or first["axis"].size != axis.size or not axis.ragged:
        return
    step = second["value"] if number["fn"] == "+" else -second["value"]
    if step == 0:
        return
    label = scope.label(first["axis"])
    end = "past the end" if step > 0 else "before the start"
    raise scope.fail(
        "I801",
        f"this reads {end} of `{item.axis.name}`",
        item.value.span,
        because=(f"`{label}` runs over 0 … {item.axis.name} - 1",),
        help=f"Say what is there: {item.axis.name} = {item.value.span.text} else 0, or restrict the axis to where it exists.",
    )


def _picked_map(scope: Scope, map_: MapAxes, at: dict[Axis, Node], expr: s.Select) -> MapAxes | None:
    """A pick of carried axes leaves a map; one of in- or out-axes leaves a table."""
    if any(axis in (*map_.ins, *map_.outs) for axis in at):
        return None
    new = tuple(a for n in at.values() for a in n.axes if a not in map_.carried)
    return MapAxes((*(a for a in map_.carried if a not in at), *new), map_.ins, map_.outs)


def _renamed(scope: Scope, made: Tensor, item: s.RenameItem, expr: s.Select) -> Tensor:
    if not item.old:
        return _widened(scope, made, item)
    old = [_need(scope, made, name, expr) for name in item.old]
    if len(old) == len(item.new) == 1:
        return _one_for_one(scope, made, old[0], item.new[0], item)
    if len(old) == 1:
        return _split(scope, made, old[0], item)
    if len(item.new) == 1:
        return _merge(scope, made, old, item)
    raise scope.fail(
        "A121", "rename one axis, split one into several, or merge several into one", item.span, help="Two steps do both."
    )


def _one_for_one(scope: Scope, made: Tensor, old: Axis, name: s.Name, item: s.RenameItem) -> Tensor:
    taken = scope.find(made, name.name)
    if taken is not None and taken != old:
        raise scope.fail(
            "A122", f"the value has an axis `{name.name}` already", name.span, because=(scope.told(made),),
        )
    new = scope.axes.get(name.name) or scope.config.axis(name.name)
    if new is None or (new.size, new.owner) != (old.size, old.owner):
        known = scope.axis(name.name)
        if known is not None and (known.size, known.owner) == (old.size, old.owner):
            new = known
        elif known is not None and not (known.ragged and name.name not in _declared(scope)):
            raise expressions.extents(scope, name.name, old, known, item)
        else:
            new = Axis(name.name, old.size, old.owner)
    if new in made.axes and new != old:
        new = scope.session.fresh_axis(name.name, new)
    if scope.label(new) != name.name:
        new = scope.session.fresh_axis(name.name, new)
    return made.rename({old: new})


def _declared(scope: Scope) -> set[str]:
    """The formal axes of the definitions around."""
    found: set[str] = set()
    here: Scope | None = scope
    while here is not None:
        if here.entry is not None:
            definition = here.entry.definition
            found |= {a.axis.name for a in definition.axes}
            found |= {n.name for p in definition.params or () if p.axes for n in p.axes.names}
        here = here.parent
    return found


def _widened(scope: Scope, made: Tensor, item: s.RenameItem) -> Tensor:
    for name in item.new:
        axis = scope.need_axis(name)
        if axis in made.axes:
            raise scope.fail("A122", f"the value has an axis `{name.name}` already", name.span)
        made = Tensor(ir.widen(made.node, axis), made.bottom, made.zero)
    return made


def _fixed(scope: Scope, axis: Axis, item: s.RenameItem) -> int:
    if not isinstance(axis.size, int):
        raise scope.fail("A123", f"`{scope.label(axis)}` has a length of its own per example: it cannot be split or merged", item.span)
    return axis.size


def _split(scope: Scope, made: Tensor, old: Axis, item: s.RenameItem) -> Tensor:
    whole = _fixed(scope, old, item)
    known = [scope.axis(name.name) for name in item.new]
    sizes = [axis.size if axis is not None and isinstance(axis.size, int) else None for axis in known]
    product = 1
    for size in sizes:
        product *= size or 1
    unknown = sizes.count(None)
    if unknown > 1 or product == 0 or whole % product or (unknown == 0 and product != whole):
        told = " · ".join(f"{n.name} = {z if z is not None else '?'}" for n, z in zip(item.new, sizes, strict=True))
        raise scope.fail("C612", f"`{scope.label(old)}` = {whole} does not split into {told}", item.span)
    into = []
    for name, axis, size in zip(item.new, known, sizes, strict=True):
        into.append(axis if axis is not None and size is not None else Axis(name.name, whole // product))
    into = [scope.session.fresh_axis(a.name, a) if a in made.axes and a != old else a for a in into]
    return Tensor(ir.split(made.node, old, into))


def _merge(scope: Scope, made: Tensor, old: list[Axis], item: s.RenameItem) -> Tensor:
    whole = 1
    for axis in old:
        whole *= _fixed(scope, axis, item)
    name = item.new[0]
    known = scope.axis(name.name)
    if known is not None and known.size != whole:
        told = " · ".join(f"{scope.label(a)} = {a.size}" for a in old)
        raise scope.fail("C612", f"{told} makes {whole}, but `{name.name}` is {known.size}", item.span)
    into = known or Axis(name.name, whole)
    if into in made.axes and into not in old:
        raise scope.fail("A122", f"the value has an axis `{name.name}` already", name.span)
    return Tensor(ir.merge(made.node, old, into))


def concat(scope: Scope, expr: s.Concat) -> Value:
    """[u; v; w] waits for its new axis: [u; v; w][d → pair] (brackets give it)."""
    raise scope.fail(
        "A124",
        "a concatenation makes an axis of a new name: say along which axis, and what it is called",
        expr.span,
        help=f"{expr.span.text}[d → pair] puts the parts one after the other along d and calls the result pair.",
    )


def joined(scope: Scope, base: s.Concat, expr: s.Select) -> Tensor:
    """[u; v; w][d → pair]: along d, into a new axis; a part without d is one entry."""
    item = expr.items[0]
    if not isinstance(item, s.RenameItem) or len(item.old) > 1 or len(item.new) != 1:
        raise scope.fail("A124", "say along which axis, and what the new one is called: [u; v][d → pair]", expr.span)
    parts = [expressions.tensor(scope, expressions.lower(scope, one), one) for one in base.parts]
    along: list[Axis | None] = []
    total = 0
    for part in parts:
        axis = scope.find(part, item.old[0].name) if item.old else None
        if part.node.kind == "bool" and any(p.node.kind != "bool" for p in parts):
            raise scope.fail("M503", "a truth value is no number", base.span)
        along.append(axis)
        total += 1 if axis is None else _fixed(scope, axis, item)
    if item.old and all(axis is None for axis in along):
        raise scope.fail("A120", f"no part has an axis `{item.old[0].name}`", item.old[0].span)
    known = scope.axis(item.new[0].name)
    if known is not None and known.size != total:
        raise scope.fail("C612", f"the parts make {total}, but `{item.new[0].name}` is {known.size}", item.span)
    into = known or Axis(item.new[0].name, total)
    made = Tensor(ir.concat([p.node for p in parts], along, into))
    if len(expr.items) == 1:
        return made
    return on_tensor(scope, made, replace(expr, items=expr.items[1:]))


def _text(expr: s.Node) -> str:
    text = " ".join(expr.span.text.split())
    return text if len(text) <= 40 else text[:39] + "…"
