"""Selections by the number of a step: what one side alone needs is computed where the step chooses that side.

    chosen = (True, False, False)          before the loop: the condition at each of its steps
    for l in range(3):
        if chosen[l]:
            heads = …
        else:
            heads = …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...compiler import steps
from ...compiler.ir import Node, walk
from . import slices
from .values import VIEWS, Value

if TYPE_CHECKING:
    from .writer import Writer

KEEPING = ("append", "keep")
"""Operations that are done in any case: later steps count on them."""


def announce(writer: Writer, loop: Node) -> None:
    """Before a loop, what the conditions of selections in its body are at each of its steps."""
    for part in walk(loop["body"]):
        if not _selects(part) or part.args[0] in writer.chosen or part.args[0].free != {loop["loop"]}:
            continue
        found = steps.truths(part.args[0], loop)
        if found is not None:
            name = writer.chosen[part.args[0]] = writer.names.fresh("chosen")
            writer.write(f"{name} = {found}")


def _selects(one: Node) -> bool:
    """Whether the number of a step chooses one of two real values, each with all axes."""
    whole = one.kind == "real" and one.axes and all(set(arg.axes) == set(one.axes) for arg in one.args[1:])
    return bool(whole) and steps.selects(one)


def arranged(writer: Writer, order: list[Node], roots: Sequence[Node]) -> list[Node]:
    """The order in which lines are written; the nodes of a side come before their selection, and are noted for it."""
    heads = {one for one in order if _selects(one) and one.args[0] in writer.chosen}
    if not heads:
        return order
    always = (*roots, *(one for one in order if one.op in KEEPING))
    found = steps.paths(order, always, heads, slices.reads)
    writer.sides |= {one: ([], []) for one in heads}
    for one in order:
        if path := found.get(one):
            selection, side = path[-1]
            writer.sides[selection][side - 1].append(one)
    return list(_unrolled(writer, [one for one in order if found.get(one) == ()]))


def _unrolled(writer: Writer, nodes: list[Node]) -> Iterable[Node]:
    for one in nodes:
        for side in writer.sides.get(one, ()):
            yield from _unrolled(writer, side)
        yield one


def inside(writer: Writer, order: list[Node]) -> set[Node]:
    """The nodes of an order that are written with their selection."""
    return {part for one in order for side in writer.sides.get(one, ()) for part in side}


def write(writer: Writer, one: Node) -> Value:
    """The lines of a selection: each side's in its branch. What is made there is known there alone."""
    lead, dims = writer.shape(one)
    (loop,) = one.args[0].free
    condition = f"{writer.chosen[one.args[0]]}[{writer.counters[loop]}]"
    name = writer.names.fresh(writer.origin(one).name or "t")
    blocks, values = zip(*map(partial(_side, writer), writer.sides[one], one.args[1:]), strict=True)
    wide = all(value.wide for value in values)
    dims = next((value.dims for value in values if set(value.dims) == set(dims)), dims)
    texts = []
    for value in values:
        real = value if wide else writer.real(value)
        whole = real.lead == lead and set(real.dims) == set(dims)
        texts.append(writer.fit(real, lead, dims) if whole else writer.broadcast(real, lead, dims))
    if not any(blocks):
        writer.write(f"{name} = {texts[0]} if {condition} else {texts[1]}")
        return Value(name, lead, dims, wide=wide)
    for line, block, text in zip((f"if {condition}:", "else:"), blocks, texts, strict=True):
        writer.write(line)
        start = "    " * (writer.indent + 1)
        made = block[-1].removeprefix(f"{start}{text} = ") if block else text
        named = block and made != block[-1] and text.isidentifier()  # the last line may as well have the name at once
        writer.lines += [*(block[:-1] if named else block), f"{start}{name} = {made if named else text}"]
    return Value(name, lead, dims, wide=wide)


def _side(writer: Writer, nodes: list[Node], arg: Node) -> tuple[list[str], Value]:
    """The lines of one side, and its value."""
    lines, writer.lines = writer.lines, []
    before = dict(writer.memo)
    writer.indent += 1
    writer.lines_of(nodes)
    value = writer.value(arg)
    block, writer.lines = writer.lines, lines
    writer.indent -= 1
    writer.memo.clear()
    writer.memo.update(before)
    return block, value


def is_selected(writer: Writer, one: Node) -> bool:
    """Whether a value may be the memory of either side of a selection."""
    while one.op in VIEWS and one.args:
        one = one.args[0]
    return one in writer.sides
