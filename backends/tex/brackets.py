"""x[…]: picks and states stand below, renames are silent, splits and merges are written with an arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...grammar import syntax as s
from . import expressions as e
from .names import written
from .place import Place
from .tree import Cases, Layout, Row, Sign, Words, listed, parens, row, scripted

if TYPE_CHECKING:
    from .expressions import Formed, Printer


def select(printer: Printer, base: s.Expr, items: tuple[s.Item, ...], place: Place) -> Formed:
    """A value with brackets behind it; one that is only renamed is written as it is."""
    picks = {one.axis.name: pick(printer, one, place) for one in items if isinstance(one, s.EqualItem)}
    inside = place
    for one in items:
        if isinstance(one, s.RenameItem) and len(one.old) == len(one.new) == 1:
            inside = inside.renamed(one.old[0].name, one.new[0].name)
    below = [*(note for one in items for note in _note(printer, base, one, place))]
    axes = printer.facts.axes(base, place.home)
    if isinstance(base, s.Name) and picks:
        order = [axis for axis in axes if axis in picks or axis in inside.at]
        order += [axis for axis in picks if axis not in order]
        place.used.update(order)
        taken = [picks[axis] if axis in picks else inside.at[axis] for axis in order]
        bare = printer.show(base, inside.without(*inside.at), e.POSTFIX)
        return scripted(bare, [*taken, *below]), e.POSTFIX
    added = [*picks.values(), *below]
    if not added:
        return printer.form(base, inside)
    made = printer.show(base, inside.without(*picks), e.POSTFIX)
    if isinstance(made, Row) and (e.is_called(made) or made.items[-2:-1] == (Sign(".", "mark"),)):
        return row(*made.items[:-1], scripted(made.items[-1], added)), e.POSTFIX  # f(x)_i, embed.E_i
    return scripted(parens(made) if isinstance(made, Row | Cases) else made, added), e.POSTFIX


def pick(printer: Printer, item: s.EqualItem, place: Place) -> Layout:
    """The place that is picked, with what stands beyond the ends."""
    shown = printer.show(item.value, place.smaller())
    if item.otherwise is None:
        return shown
    return row(shown, Words(" else "), printer.show(item.otherwise, place.smaller()))


def _note(printer: Printer, base: s.Expr, item: s.Item, place: Place) -> list[Layout]:
    """What a bracket says that is no pick and no mere renaming."""
    match item:
        case s.PlainItem(value=value):
            return [printer.show(value, place.smaller())]
        case s.RenameItem(old=old, new=new) if len(old) != len(new) and old and not isinstance(base, s.Concat):
            left = _axes(old)
            return [row(left, Sign("→", "relation"), _axes(new))]
        case s.RestrictItem():
            return [restricted(printer, item, place)]
        case _:
            return []


def _axes(names: tuple[s.Name, ...]) -> Layout:
    return listed([written(one.name) for one in names], "×") if len(names) > 1 else written(names[0].name)


def restricted(printer: Printer, item: s.RestrictItem, place: Place) -> Layout:
    """key: condition → new"""
    made: list[Layout] = [written(item.axis.name if item.as_index is None else item.as_index.name)]
    if item.condition is not None:
        made += [Sign(":", "mark"), printer.show(item.condition, place.smaller())]
    if item.new is not None:
        made += [Sign("→", "relation"), written(item.new.name)]
    return row(*made)

