"""A general product as np.einsum: a letter for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Node
from .values import Value

if TYPE_CHECKING:
    from .writer import Writer

LETTERS = "abcdefghijklmnopqrstuvwxy"  # z is the rows


def write(writer: Writer, one: Node, values: Sequence[Value], lead: str, dims: tuple[Axis, ...]) -> Value:
    """The product of the values, summed over its axes; hidden entries along a length are a factor 0."""
    letters: dict[Axis, str] = {}
    for value in values:
        for axis in value.dims:
            letters.setdefault(axis, LETTERS[len(letters)])
    terms, texts = [], []
    for value in values:
        terms.append(("z" if value.lead else "") + "".join(letters[axis] for axis in value.dims))
        cast = f".astype({writer.dtype})" if value.wide and not all(v.wide for v in values) else ""
        texts.append(f"{value.wrapped}{cast}" if cast else value.text)
    for seen in filter(None, map(writer.shown_along, one["over"])):
        for axis in seen.dims:
            letters.setdefault(axis, LETTERS[len(letters)])
        terms.append("".join(letters[axis] for axis in seen.dims))
        texts.append(seen.text)
    target = ("z" if lead else "") + "".join(letters[axis] for axis in dims)
    text = f'np.einsum("{",".join(terms)}->{target}", {", ".join(texts)}, optimize=True)'
    return Value(text, lead, dims, owned=True, wide=all(value.wide for value in values))
