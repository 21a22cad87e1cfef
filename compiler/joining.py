"""[u; v; w][d → pair]: values one after the other, along an axis of a new name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import arithmetic, expressions, ir, lengths, reshape, wording
from .ir import Axis
from .values import (
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from .scope import Scope


def concat(scope: Scope, expr: s.Concat) -> Value:
    """[u; v; w] waits for its new axis: [u; v; w][d → pair] (brackets give it)."""
    raise scope.fail(
        "A124",
        "a concatenation makes an axis of a new name: say along which axis, and what it is called",
        expr.span,
        help=f"{wording.text(expr)}[d → pair] puts the parts one after the other along d and calls the result pair.",
    )


def joined(scope: Scope, base: s.Concat, expr: s.Select) -> Tensor:
    """[u; v; w][d → pair]: along d, into a new axis; a part without d is one entry.

    [u; v][a b → dk]: each part along the one of several axes that it has.
    """
    item = expr.items[0]
    if not isinstance(item, s.RenameItem) or len(item.new) != 1:
        raise scope.fail(
            "A124",
            "a concatenation makes an axis of a new name: say along which axis, and what it is called",
            item.span,
            help=f"Write {wording.text(base)}[d → pair].",
        )
    parts = [expressions.tensor(scope, expressions.lower(scope, one), one) for one in base.parts]
    along: list[Axis | None] = []
    for part, written in zip(parts, base.parts, strict=True):
        axis = _along(scope, part, written, item)
        if part.node.kind == "bool" and any(p.node.kind != "bool" for p in parts):
            raise arithmetic.truth_as_number(scope, written)
        along.append(axis)
    _all_there(scope, parts, base, item)
    if any(axis is not None and axis.ragged for axis in along):
        made = lengths.joined(scope, parts, along, item)
        return made if len(expr.items) == 1 else reshape.on_tensor(scope, made, replace(expr, items=expr.items[1:]))
    total = sum(1 if axis is None else reshape.fixed(scope, axis, item) for axis in along)
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
    return reshape.on_tensor(scope, made, replace(expr, items=expr.items[1:]))


def _along(scope: Scope, part: Tensor, written: s.Expr, item: s.RenameItem) -> Axis | None:
    """The one axis of those before the arrow that a part has; None if it is one entry."""
    found = [(name, axis) for name in item.old if (axis := scope.find(part, name.name)) is not None]
    if len(found) > 1:
        names = " and ".join(f"`{name.name}`" for name, _ in found)
        raise scope.fail(
            "A122",
            f"`{wording.text(written)}` has {names}: which one does it go along?",
            found[1][0].span,
            because=(scope.told(part, written),),
            help="Each part goes along one axis: merge them first, or concatenate along one of them.",
        )
    return found[0][1] if found else None


def _all_there(scope: Scope, parts: Sequence[Tensor], base: s.Concat, item: s.RenameItem) -> None:
    """An error unless each axis before the arrow is a part's, and the one behind it is new."""
    new = item.new[0].name
    for old in item.old:
        if all(scope.find(part, old.name) is None for part in parts):
            have = sorted({name for part in parts for name in wording.names(scope, part)})
            raise scope.fail(
                "A120",
                f"no part has an axis `{old.name}`",
                old.span,
                because=wording.sides(scope, parts, base.parts),
                help=scope.suggest(old.name, have)
                or f"Write {wording.text(base)}[{have[0] if have else ''} → {new}].",
            )
        if old.name == new:
            raise scope.fail(
                "A122",
                f"a concatenation along `{new}` makes a longer axis, which needs a new name",
                item.new[0].span,
                help=f"For example {wording.text(base)}[{' '.join(one.name for one in item.old)} → pair].",
            )
