"""Names of a spec as Python names: one injective map, so that nothing collides and no text becomes code."""

from __future__ import annotations

import builtins
import keyword
import unicodedata
from collections.abc import Iterable

RESERVED = frozenset(
    (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "np", "self", "weights", "dtype", "threads")
)


def identifier(text: str) -> str:
    """The nearest Python name: letters, digits and underscores of the text in the form Python compares names in."""
    folded = unicodedata.normalize("NFKC", text.replace("′", "'").replace("'", "_prime"))
    made = "".join(c if c == "_" or c.isalnum() else "_" for c in folded)
    made = "_".join(part for part in made.split("_") if part) or "value"
    if not ("a" + made).isidentifier():
        made = "".join(c for c in made if c.isascii()) or "value"
    return made if made.isidentifier() else f"v_{made}"


class Names:
    """Gives each spec name one Python name, never the same to two."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED
        self._given: dict[object, str] = {}

    def name(self, key: object, wish: str) -> str:
        """The name for `key`, made from `wish` when first asked for."""
        if key not in self._given:
            self._given[key] = self.fresh(wish)
        return self._given[key]

    def fresh(self, wish: str) -> str:
        """A name nobody has yet."""
        base = identifier(wish)
        made, number = base, 2
        while made in self._taken:
            made = f"{base}_{number}"
            number += 1
        self._taken.add(made)
        return made


def comment(text: str, most: int = 96) -> str:
    """A text that is safe after `#`: one line, printable, not too long."""
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= most else line[: most - 1] + "…"
