"""Brackets after something: picks, renames, splits, merges, new axes, bound axes, conditions, states, instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, TransformulaError
from . import arithmetic, calls, expressions, ir, loops, wording
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
        raise scope.fail(
            "A117",
            f"`{_text(expr.base)}` is {describe(base)} and has no axes",
            expr.items[0].span,
            help="Leave the brackets away: it is the same everywhere.",
        )
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
            binds[formal] = axis_name(scope, item.value, f"{base.entry.name}[{formal} = seq]").name
            continue
        formal, axis, condition = _positional(scope, base, item, free)
        binds[formal] = axis.name
        if condition is not None:
            restrict.append((formal, condition))
    return replace(base, binds=binds, restrict=tuple(restrict))


def _positional(
    scope: Scope, base: Formula, item: s.Item, free: list[str]
) -> tuple[str, s.Name, Tensor | None]:
    """An item `axis` or `axis if condition`: it fills the formal axis of the same name, or the next free one."""
    if isinstance(item, s.PlainItem):
        axis, condition = axis_name(scope, item.value, f"{base.entry.name}[seq]"), None
    elif isinstance(item, s.RestrictItem) and item.new is None and item.as_index is None:
        axis = item.axis
        condition = None if item.condition is None else _condition(scope, item.condition)
    else:
        raise _later(scope, item)
    if not free:
        definition = base.entry.definition
        heads = [one.axis.name for one in definition.axes]
        raise scope.fail(
            "A118",
            f"`{base.entry.name}` has no axis left to bind `{axis.name}` to",
            item.span,
            notes=(Note(definition.name.span, "defined here"),),
            help=f"It goes over {'one axis' if len(heads) == 1 else f'{len(heads)} axes'}: {base.entry.name}[{', '.join(heads)}]."
            if heads
            else f"It goes over no axis: write {base.entry.name}(…).",
        )
    formal = axis.name if axis.name in free else free[0]
    free.remove(formal)
    return formal, axis, condition


def _later(scope: Scope, item: s.Item) -> TransformulaError:
    if isinstance(item, s.RenameItem | s.RestrictItem) and (isinstance(item, s.RenameItem) or item.new is not None):
        return scope.fail(
            "X990",
            "results of another length are for corruptions, which this version cannot compile yet",
            item.span,
            help="Make them before the model and hand the result in as an input.",
        )
    return scope.fail("A119", "an axis is expected here", item.span, help="Write its name, like sum[seq](x).")


def _condition(scope: Scope, expr: s.Expr) -> Tensor | None:
    """A restriction; one that config decides is no condition (true) or an empty one (false)."""
    found = expressions.lower(scope, expr)
    if found is True:
        return None
    if found is False:
        return Tensor(ir.const(False))
    return arithmetic.truth(scope, found, expr)


def axis_name(scope: Scope, expr: s.Expr, example: str) -> s.Name:
    """The expression as the name of an axis, or an error; `example` shows how one is written here."""
    if isinstance(expr, s.Name):
        return expr
    raise scope.fail("A107", "axes have names here, not numbers", expr.span, help=f"Write the name of one: {example}.")


def _by_name(scope: Scope, base: Tensor, expr: s.Expr, written: s.Select) -> s.Name:
    """The item of x[seq, d]; for x[0], x[:, 0] and the like an error that says how to pick."""
    if isinstance(expr, s.Name):
        return expr
    have = wording.names(scope, base)
    first = f"The first entry along {have[0]} is {_text(written.base)}[{have[0]} = 0]. " if have else ""
    raise scope.fail(
        "A107",
        "axes have names here, not numbers",
        expr.span,
        because=(scope.told(base, written.base),),
        help=f"{first}There is nothing to transpose, view or reshape: "
        "merge with x[head dk → d], split with x[d → head dk].",
    )


def bind_builtin(scope: Scope, base: Builtin, expr: s.Select) -> Builtin:
    """sum[key](…), mean[seq if c](…), sum[r: key if r ≤ i](…)."""
    axes, names, restrict, index = list(base.axes), list(base.written), list(base.restrict), list(base.index)
    for item in expr.items:
        if isinstance(item, s.PlainItem):
            name, axis = axis_name(scope, item.value, f"{base.name}[seq](x)"), None
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
            binds[item.axis.name] = axis_name(scope, item.value, f"{_text(expr.base)}[{item.axis.name} = src](…)").name
        elif isinstance(item, s.PlainItem) and _is_number(scope, item.value):
            raise _not_a_stack(scope, base, expr)
        else:
            raise scope.fail(
                "A119",
                "an instance has its axes by name",
                item.span,
                help=f"Bind one to another: {_text(expr.base)}[key = src](…).",
            )
    return replace(base, binds=binds)


def _is_number(scope: Scope, expr: s.Expr) -> bool:
    return not isinstance(expr, s.Name) or isinstance(scope.lookup(expr.name), Counter)


def _not_a_stack(scope: Scope, base: Instance, expr: s.Select) -> TransformulaError:
    name = expr.base.span.text
    return scope.fail(
        "U701",
        f"`{name}` is one shared instance, not one per layer",
        expr.items[0].span,
        notes=(Note(base.decl.span, "declared here"),),
        help=f"Own weights per layer: {name}[layers] : {base.entry.name}. "
        f"Shared weights, as in ALBERT: {name}(…) without brackets.",
    )


def _member_of_stack(scope: Scope, base: Instance, expr: s.Select) -> Instance:
    """layer[l]: the numbers of a stack; each must be whole and inside."""
    if len(expr.items) != len(base.stack) or not all(isinstance(i, s.PlainItem) for i in expr.items):
        axes = " and ".join(a.name for a in base.stack)
        raise scope.fail(
            "U704",
            f"`{_text(expr.base)}` has one instance per {axes}: give {wording.count(len(base.stack), 'number')}",
            expr.items[0].span.to(expr.items[-1].span),
            notes=(Note(base.decl.span, "declared here"),),
            help=f"Write {_text(expr.base)}[{', '.join('lkij'[: len(base.stack)])}].",
        )
    at = []
    for item, axis in zip(expr.items, base.stack, strict=True):
        assert isinstance(item, s.PlainItem)
        found = expressions.lower(scope, item.value)
        if isinstance(found, Record):
            found = found.value
        if not isinstance(found, Fraction | float | Counter | Tensor) or isinstance(found, bool):
            raise scope.fail(
                "U704",
                f"an instance is chosen by a number, not {describe(found)}",
                item.span,
                help=f"Inside `for l in {axis.name}:` write {_text(expr.base)}[l].",
            )
        if isinstance(found, Fraction | float):
            whole_inside(scope, found, axis, item.value)
        at.append(found)
    return replace(base, at=tuple(at))


def whole_inside(scope: Scope, value: Fraction | float, axis: Axis, expr: s.Node) -> int:
    """The number as a place along an axis of known size."""
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise scope.fail(
            "I802",
            f"{float(value):g} is no whole number, and a place along `{axis.name}` is one",
            expr.span,
            help="Round it: divide with //, or use floor(…).",
        )
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
        entry = _entry_of_vector(scope, base, expr)
        if entry is not None:
            return entry
        if len(names) != len(expr.items):
            raise scope.fail(
                "A119",
                "these brackets name axes and pick or rename, too",
                names[0].span,
                help="A pick says the axis and the place: x[seq = 0]; the other axes stay by themselves.",
            )
        wanted = [_by_name(scope, base, n.value, expr) for n in names]
        expressions.stated(scope, base, wanted, expr.base, expr.span, f"`{_text(expr.base)}`")
        return base
    if picks:
        made = pick(scope, made, picks, expr)
    for item in expr.items:
        if isinstance(item, s.RenameItem):
            made = _renamed(scope, made, item, expr)
        elif isinstance(item, s.RestrictItem):
            raise _later(scope, item if item.new else replace(item, new=item.axis))
    return made


def _entry_of_vector(scope: Scope, base: Tensor, expr: s.Select) -> Tensor | None:
    """local[l]: an entry of a vector of config, which has one axis only, so that its name need not be said."""
    option = scope.config.module.options.get(expr.base.name) if isinstance(expr.base, s.Name) else None
    item = expr.items[0]
    if option is None or option.index is None or len(expr.items) != 1 or not isinstance(item, s.PlainItem):
        return None
    if isinstance(item.value, s.Name) and not isinstance(scope.lookup(item.value.name), Counter | Tensor):
        return None
    return pick(scope, base, [s.EqualItem(item.span, option.index.axis, item.value)], expr)


def _need(scope: Scope, value: Tensor, name: s.Name, expr: s.Select) -> Axis:
    found = scope.find(value, name.name)
    if found is None:
        have = [scope.label(a) for a in value.axes if scope.visible(a)]
        raise scope.fail(
            "A120",
            f"`{_text(expr.base)}` has no axis `{name.name}` to pick or rename",
            name.span,
            because=(scope.told(value, expr.base),),
            notes=scope.where_from(value, expr.span),
            help=scope.suggest(name.name, have) or (f"It has {', '.join(have)}." if have else "It is a single number."),
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
            first = next(one for one in items if one.axis.name == item.axis.name)
            raise scope.fail(
                "A131",
                f"`{item.axis.name}` is picked twice",
                item.axis.span,
                notes=(Note(first.axis.span, "first here"),),
                help="After the first pick the axis is gone; several places come as a value with an axis of its own.",
            )
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
        raise scope.fail(
            "M503",
            f"a truth value is no place along `{item.axis.name}`",
            item.value.span,
            help=f"Write {item.axis.name} = (1 if … else 0), or choose between two values: a if c else b.",
        )
    if made.node.kind == "real":
        raise scope.fail(
            "I802",
            f"a place along `{item.axis.name}` is a whole number, and this value need not be",
            item.value.span,
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
        help=_inside_advice(item, label, int(step)),
    )


def _inside_advice(item: s.EqualItem, index: str, step: int) -> str:
    place, axis = item.value.span.text, item.axis.name
    inside = f"{place} < {axis}" if step > 0 else f"{place} ≥ 0"
    return f"Say what is there: [{axis} = {place} else 0], or stay inside: sum[{index}: {axis} if {inside}](…)."


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
        return _one_for_one(scope, made, old[0], item.new[0], item, expr)
    if len(old) == 1:
        return _split(scope, made, old[0], item)
    if len(item.new) == 1:
        return _merge(scope, made, old, item)
    before, after = (" ".join(name.name for name in names) for names in (item.old, item.new))
    raise scope.fail(
        "A121",
        "rename one axis, split one into several, or merge several into one",
        item.span,
        help=f"Two steps do both: [{before} → both][both → {after}].",
    )


def _one_for_one(
    scope: Scope, made: Tensor, old: Axis, name: s.Name, item: s.RenameItem, expr: s.Select
) -> Tensor:
    taken = scope.find(made, name.name)
    if taken is not None and taken != old:
        raise scope.fail(
            "A122",
            f"the value has an axis `{name.name}` already",
            name.span,
            because=(scope.told(made, expr.base),),
            help=f"Choose another name: [{item.old[0].name} → {name.name}'].",
        )
    new = scope.axes.get(name.name) or scope.config.axis(name.name)
    if new is None or (new.size, new.owner) != (old.size, old.owner):
        known = scope.axis(name.name)
        if known is not None and (known.size, known.owner) == (old.size, old.owner):
            new = known
        elif known is not None and not (known.ragged and name.name not in _declared(scope)):
            raise _other_size(scope, name, old, known, item)
        else:
            new = Axis(name.name, old.size, old.owner)
    if new in made.axes and new != old:
        new = scope.session.fresh_axis(name.name, new)
    if scope.label(new) != name.name:
        new = scope.session.fresh_axis(name.name, new)
    return made.rename({old: new})


def _other_size(scope: Scope, name: s.Name, old: Axis, new: Axis, item: s.RenameItem) -> TransformulaError:
    first, second = wording.size(old), wording.size(new)
    if first == second:
        told = f"`{scope.label(old)}` and `{name.name}` come in separately, and nothing says that they are equally long"
        advice = (
            "If they are the same entries, declare them with one name; "
            f"else choose a new name: [{scope.label(old)} → {name.name}']."
        )
    else:
        told = f"`{scope.label(old)}` is {first} and `{name.name}` is {second}"
        advice = f"Choose an axis of the same size, or a new name: [{scope.label(old)} → {name.name}']."
    return scope.fail("A114", "a rename keeps the length", item.span, because=(told,), help=advice)


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
            raise scope.fail(
                "A122", f"the value has an axis `{name.name}` already", name.span, help="Take it out of the brackets."
            )
        made = Tensor(ir.widen(made.node, axis), made.bottom, made.zero)
    return made


def _fixed(scope: Scope, axis: Axis, item: s.RenameItem) -> int:
    if not isinstance(axis.size, int):
        raise scope.fail(
            "A123",
            f"`{scope.label(axis)}` has a length of its own per example: it cannot be split, merged or concatenated",
            item.span,
            help="Only axes whose size config gives can.",
        )
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
        raise _does_not_split(scope, old, item, sizes, whole)
    into = []
    for name, axis, size in zip(item.new, known, sizes, strict=True):
        into.append(axis if axis is not None and size is not None else Axis(name.name, whole // product))
    into = [scope.session.fresh_axis(a.name, a) if a in made.axes and a != old else a for a in into]
    return Tensor(ir.split(made.node, old, into))


def _does_not_split(
    scope: Scope, old: Axis, item: s.RenameItem, sizes: Sequence[int | None], whole: int
) -> TransformulaError:
    names = [name.name for name in item.new]
    unknown = [name for name, size in zip(names, sizes, strict=True) if size is None]
    if len(unknown) > 1:
        return scope.fail(
            "C612",
            f"the sizes of {wording.listed(unknown)} are not known, and `{scope.label(old)}` = {whole} gives only one",
            item.span,
            help=f"Give all but one in config, like {unknown[0]} = 2.",
        )
    told = " and ".join(f"{n} = {z}" for n, z in zip(names, sizes, strict=True) if z is not None)
    product = math.prod(z for z in sizes if z is not None)
    because = f"{' * '.join(names)} is {product}" if not unknown else f"{whole} is no multiple of {product}"
    return scope.fail(
        "C612",
        f"`{scope.label(old)}` = {whole} does not split into {told}",
        item.span,
        because=(because,),
        help=f"Change one of {', '.join([scope.label(old), *(n for n in names if n not in unknown)])} in config.",
    )


def _merge(scope: Scope, made: Tensor, old: list[Axis], item: s.RenameItem) -> Tensor:
    whole = 1
    for axis in old:
        whole *= _fixed(scope, axis, item)
    name = item.new[0]
    known = scope.axis(name.name)
    if known is not None and known.size != whole:
        told = " and ".join(f"{scope.label(a)} = {a.size}" for a in old)
        raise scope.fail(
            "C612",
            f"{told} merge into {whole}, but `{name.name}` is {wording.size(known)}",
            item.span,
            help="Choose a new name for the merged axis, or change a size in config.",
        )
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
        help=f"{_text(expr)}[d → pair] puts the parts one after the other along d and calls the result pair.",
    )


def joined(scope: Scope, base: s.Concat, expr: s.Select) -> Tensor:
    """[u; v; w][d → pair]: along d, into a new axis; a part without d is one entry."""
    item = expr.items[0]
    if not isinstance(item, s.RenameItem) or len(item.old) > 1 or len(item.new) != 1:
        raise scope.fail(
            "A124",
            "a concatenation makes an axis of a new name: say along which axis, and what it is called",
            item.span,
            help=f"Write {_text(base)}[d → pair].",
        )
    parts = [expressions.tensor(scope, expressions.lower(scope, one), one) for one in base.parts]
    along: list[Axis | None] = []
    total = 0
    for part in parts:
        axis = scope.find(part, item.old[0].name) if item.old else None
        if part.node.kind == "bool" and any(p.node.kind != "bool" for p in parts):
            raise arithmetic.truth_as_number(scope, base.parts[parts.index(part)])
        along.append(axis)
        total += 1 if axis is None else _fixed(scope, axis, item)
    if item.old and all(axis is None for axis in along):
        have = sorted({name for part in parts for name in wording.names(scope, part)})
        raise scope.fail(
            "A120",
            f"no part has an axis `{item.old[0].name}`",
            item.old[0].span,
            because=wording.sides(scope, parts, base.parts),
            help=scope.suggest(item.old[0].name, have)
            or f"Write {_text(base)}[{have[0] if have else ''} → {item.new[0].name}].",
        )
    if item.old and item.old[0].name == item.new[0].name and any(a is not None for a in along):
        raise scope.fail(
            "A122",
            f"a concatenation along `{item.old[0].name}` makes a longer axis, which needs a new name",
            item.new[0].span,
            help=f"For example {_text(base)}[{item.old[0].name} → pair].",
        )
    known = scope.axis(item.new[0].name)
    if known is not None and known.size != total:
        told = " + ".join("1" if axis is None else str(axis.size) for axis in along)
        raise scope.fail(
            "C612",
            f"the parts have {told} = {total} entries, but `{item.new[0].name}` is {wording.size(known)}",
            item.span,
            help="Choose a new name for the axis, or change its size in config.",
        )
    into = known or Axis(item.new[0].name, total)
    made = Tensor(ir.concat([p.node for p in parts], along, into))
    if len(expr.items) == 1:
        return made
    return on_tensor(scope, made, replace(expr, items=expr.items[1:]))


def _text(expr: s.Node) -> str:
    text = " ".join(expr.span.text.split())
    return text if len(text) <= 40 else text[:39] + "…"
