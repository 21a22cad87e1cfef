"""Brackets after a value: picks, renames, splits, merges, new axes, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, TransformulaError
from . import arithmetic, brackets, choices, expressions, ir, lengths, products, vectors, wording
from .ir import Axis, Node
from .values import (
    MapAxes,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from .scope import Scope


def _by_name(scope: Scope, base: Tensor, expr: s.Expr, written: s.Select) -> s.Name:
    """The item of x[seq, d]; for x[0], x[:, 0] and the like an error that says how to pick."""
    if isinstance(expr, s.Name):
        return expr
    have = wording.names(scope, base)
    first = f"The first entry along {have[0]} is {wording.text(written.base)}[{have[0]} = 0]. " if have else ""
    raise scope.fail(
        "A107",
        "axes have names here, not numbers",
        expr.span,
        because=(scope.told(base, written.base),),
        help=f"{first}There is nothing to transpose, view or reshape: "
        "merge with x[head dk → d], split with x[d → head dk].",
    )


def on_tensor(scope: Scope, base: Tensor, expr: s.Select) -> Tensor:
    """Picks (simultaneously), then renames, splits and merges in order."""
    picks = [item for item in expr.items if isinstance(item, s.EqualItem)]
    names = [item for item in expr.items if isinstance(item, s.PlainItem)]
    made = base
    if names:
        entry = vectors.entry(scope, base, expr)
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
        expressions.stated(scope, base, wanted, expr.base, expr.span, f"`{wording.text(expr.base)}`")
        return base
    if picks:
        made = pick(scope, made, picks, expr)
    for item in expr.items:
        if isinstance(item, s.RenameItem):
            made = _renamed(scope, made, item, expr)
        elif isinstance(item, s.RestrictItem):
            if item.new is None or item.as_index is not None or item.condition is None:
                raise lengths.no_name(scope, item, expr)
            made = lengths.filtered(scope, made, _need(scope, made, item.axis, expr), item)
    return made


def _need(scope: Scope, value: Tensor, name: s.Name, expr: s.Select) -> Axis:
    found = scope.find(value, name.name)
    if found is None:
        have = [scope.label(a) for a in value.axes if scope.visible(a)]
        raise scope.fail(
            "A120",
            f"`{wording.text(expr.base)}` has no axis `{name.name}` to pick or rename",
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
                raise products.extents(scope, scope.label(axis), kept[scope.label(axis)], axis, expr)
    map_ = base.map and _picked_map(scope, base.map, at, expr)
    bottom, zero = base.bottom and _picked(base.bottom, at), base.zero and _picked(base.zero, at)
    made = Tensor(_picked(base.node, at), bottom, zero, map_)
    if otherwise is None:
        return made
    test = arithmetic.both(inside)
    assert test is not None
    return choices.selected(scope, Tensor(test), made, otherwise, expr)


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
            brackets.whole_inside(scope, found, axis, item.value)
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


def fixed(scope: Scope, axis: Axis, item: s.RenameItem) -> int:
    """The size of an axis; a length has none that is known here."""
    if not isinstance(axis.size, int):
        raise scope.fail(
            "A123",
            f"`{scope.label(axis)}` has a length of its own per example: it cannot be split or merged",
            item.span,
            help="Only axes whose size config gives can.",
        )
    return axis.size


def _split(scope: Scope, made: Tensor, old: Axis, item: s.RenameItem) -> Tensor:
    whole = fixed(scope, old, item)
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
        whole *= fixed(scope, axis, item)
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


