"""Sites of draws: where a draw stands, said so that edits elsewhere do not move it.

A place is told by its definition and its line within it. So the numbers that a seed gives stay what they are while the
rest of a file is edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..grammar.diagnostics import Span

if TYPE_CHECKING:
    from .scope import Scope


def home(scope: Scope) -> Scope:
    """The scope of the call around."""
    while scope.entry is None and scope.parent is not None:
        scope = scope.parent
    return scope


def place(scope: Scope, span: Span) -> str:
    """A place within its definition, as `mlm+1:20`."""
    entry = home(scope).entry
    if entry is None:
        return f"{span.line}:{span.column}"
    name = entry.definition.name
    return f"{name.name}+{span.line - name.span.line}:{span.column}"


def site(scope: Scope, span: Span) -> dict[str, Any]:
    """Where a draw stands: its instance, the calls that lead to it, its place in its file; and the loops around it."""
    file = span.source.name.replace("\\", "/").rsplit("/", 1)[-1]
    found = f"{scope.path}{scope.site}{file}:{place(scope, span)}"
    return {"site": found, "steps": scope.steps} if scope.steps else {"site": found}
