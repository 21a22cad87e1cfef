"""What the shipped files of functions define, for advice in messages."""

from __future__ import annotations

from functools import lru_cache

from ..grammar.diagnostics import similar


@lru_cache(maxsize=1)
def _defined() -> dict[str, str]:
    from .modules import Loader, read_source, shipped

    found: dict[str, str] = {}
    for name in shipped():
        if name.startswith("lib/"):
            for entry in Loader().load(read_source(name)).entries:
                found.setdefault(entry, name.removeprefix("lib/"))
    return found


def where_defined(name: str) -> tuple[str, str] | None:
    """The file of functions that defines the name (or the nearest one), and the name as it is there."""
    table = _defined()
    near = similar(name, table)
    return (table[near[0]], near[0]) if near else None
