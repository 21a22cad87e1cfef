"""[u; v; w][d → pair]: values one after the other, along an axis of a new name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import arithmetic, expressions, ir, reshape, wording
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
    """[u; v; w][d → pair]: along d, into a new axis; a part without d is one entry."""
    item = expr.items[0]
    if not isinstance(item, s.RenameItem) or len(item.old) > 1 or len(item.new) != 1:
        raise scope.fail(
            "A124",
            "a concatenation makes an axis of a new name: say along which axis, and what it is called",
            item.span,
            help=f"Write {wording.text(base)}[d → pair].",
        )
    parts = [expressions.tensor(scope, expressions.lower(scope, one), one) for one in base.parts]
    along: list[Axis | None] = []
    total = 0
    for part in parts:
        axis = scope.find(part, item.old[0].name) if item.old else None
        if part.node.kind == "bool" and any(p.node.kind != "bool" for p in parts):
            raise arithmetic.truth_as_number(scope, base.parts[parts.index(part)])
        along.append(axis)
        total += 1 if axis is None else reshape.fixed(scope, axis, item)
    if item.old and all(axis is None for axis in along):
        have = sorted({name for part in parts for name in wording.names(scope, part)})
        raise scope.fail(
            "A120",
            f"no part has an axis `{item.old[0].name}`",
            item.old[0].span,
            because=wording.sides(scope, parts, base.parts),
            help=scope.suggest(item.old[0].name, have)
            or f"Write {wording.text(base)}[{have[0] if have else ''} → {item.new[0].name}].",
        )
    if item.old and item.old[0].name == item.new[0].name and any(a is not None for a in along):
        raise scope.fail(
            "A122",
            f"a concatenation along `{item.old[0].name}` makes a longer axis, which needs a new name",
            item.new[0].span,
            help=f"For example {wording.text(base)}[{item.old[0].name} → pair].",
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
    return reshape.on_tensor(scope, made, replace(expr, items=expr.items[1:]))
