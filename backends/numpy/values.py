"""What the writer knows of a value while it writes: its text, the meaning of its dimensions, its memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...compiler.ir import Axis

VIEWS = ("rename", "split", "merge", "pick", "state", "carry", "widen", "random")
"""Operations whose value is another view of their argument's memory, or text that its reader evaluates."""

LONGEST = 240
"""Letters of an expression inside a longer one: beyond, it has a line of its own (Python counts parentheses)."""


class Unsupported(Exception):
    """A construct that a way of writing cannot express; the reason is told in the ledger."""


@dataclass(frozen=True)
class Value:
    """Python text with its dimensions.

    `lead` is `rows` (packed tokens of all examples), `examples` (one entry each) or nothing; `dims` are the dimensions
    after it. `atom`: needs no parentheses. `buffer`: the scratch memory it lies in. `owned`: a temporary that nobody
    else sees. `wide`: made of whole numbers in double precision, to be rounded to the model's type where they meet.
    """

    text: str
    lead: str = ""
    dims: tuple[Axis, ...] = ()
    atom: bool = True
    buffer: str | None = None
    owned: bool = False
    wide: bool = False
    number: bool = False
    reorder: str = "transpose"  # what the target calls it

    @property
    def wrapped(self) -> str:
        """The text, in parentheses if it needs them."""
        return self.text if self.atom else f"({self.text})"

    def named(self, text: str) -> Value:
        """The same value under another text."""
        return replace(self, text=text, atom=True)


def transposed(value: Value, dims: tuple[Axis, ...]) -> Value:
    """The value with its dimensions in another order."""
    if value.dims == dims:
        return value
    offset = 1 if value.lead else 0
    order = [value.dims.index(axis) + offset for axis in dims]
    if value.lead:
        order = [0, *order]
    return replace(value, text=f"{value.wrapped}.{value.reorder}({', '.join(map(str, order))})", dims=dims, atom=True)


def aligned(value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
    """Text that broadcasts against (lead, dims): dimensions in order, None where the value lacks one."""
    if value.number or (not value.lead and not value.dims):
        return value.wrapped
    order = tuple(axis for axis in dims if axis in value.dims)
    value = transposed(value, order)
    if value.lead == lead and order == dims:
        return value.wrapped
    if not value.lead:
        first = next((i for i, axis in enumerate(dims) if axis in order), len(dims))
        dims = dims[first:]
        if order == dims:
            return value.wrapped
    marks = [":"] if value.lead else []
    marks += [":" if axis in order else "None" for axis in dims]
    return f"{value.wrapped}[{', '.join(marks)}]"
