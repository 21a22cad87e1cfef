"""What a spec that extends another one may give a name to that the other has: a thing of the same kind.

A formula, a block or a model may be replaced by another one, and so may a config entry or an instance. Formulas of the
other spec read the name, too: where it became another kind of thing they would be wrong, at a place that its writer
never saw. Objectives and corruptions are asked for by their names, and no formula reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import error

if TYPE_CHECKING:
    from .modules import Module

ASKED_FOR = ("objective", "corruption")
FORMULA, ENTRY, INSTANCE = "a formula or block", "a config entry", "an instance"


def same_kind(module: Module, item: s.Declaration) -> None:
    """Raises `TransformulaError` where a declaration makes another kind of thing of a name that is taken over."""
    if module.base is None:
        return
    for name, kind in _declared(item):
        old = _kinds(module).get(name.name)
        if old not in (None, kind) and name.name not in module.own:
            told = f"`{name.name}` is {old} of {module.base.name}, whose formulas read it, and {kind} here"
            raise error("N218", told, name.span, help=f"Give it another name, or write `remove {name.name}` first.")


def _declared(item: s.Declaration) -> list[tuple[s.Name, str]]:
    match item:
        case s.Option():
            return [(item.name, ENTRY)]
        case s.Definition() if item.kind not in ASKED_FOR:
            return [(item.name, FORMULA)]
        case s.UseDecl():
            return [(name, INSTANCE) for name in item.names]
    return []


def _kinds(module: Module) -> dict[str, str]:
    """What each name is so far."""
    formulas = (name for name, entry in module.entries.items() if entry.definition.kind not in ASKED_FOR)
    rest = dict.fromkeys(module.options, ENTRY) | dict.fromkeys(module.uses, INSTANCE)
    return dict.fromkeys(formulas, FORMULA) | rest
