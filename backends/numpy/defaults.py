"""Inputs that are made of others, as methods of a module: functions of padded arrays, all examples at once."""

from __future__ import annotations

from dataclasses import dataclass

from ...compiler.defaults import Default
from ...compiler.driver import Compiled
from ...compiler.ir import Length
from ..defaults import default_rows
from . import border_text, losses
from .border import DefaultRow
from .values import Unsupported


@dataclass(frozen=True)
class Defaults:
    """What a module makes where a call leaves it out: methods, what these call, and rows for the border."""

    methods: list[list[str]]
    needs: set[str]
    rows: tuple[DefaultRow, ...]
    makers: list[str]

    @property
    def inputs(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(name for name, _, _, _ in self.rows))

    @property
    def call(self) -> str:
        """The line of a call that makes them."""
        made = ", ".join(self.makers)
        return f"given = completed(given, DEFAULTS, ({made},), INPUTS, MASKS" if self.rows else ""


def parts(compiled: Compiled) -> Defaults:
    """Those that can be written; there is a ledger line for each other one."""
    found = Defaults([], set(), (), [])
    rows = []
    for number, (one, row) in enumerate(zip(compiled.defaults, default_rows(compiled), strict=True)):
        name = f"_default_{number}"
        try:
            if one.graph is not None:
                lines, used = _method(compiled, one, name)
                found.methods.append(lines)
                found.needs.update(used)
        except Unsupported as reason:
            law = f"{one.name} is made of {' and '.join(one.sources)}"
            compiled.ledger.refused("schedule", "default", law, str(reason))
            continue
        rows.append(row)
        found.makers.append("dict" if one.graph is None else f"self.{name}")
    return Defaults(found.methods, found.needs | ({"completed"} if rows else set()), tuple(rows), found.makers)


def _method(compiled: Compiled, one: Default, name: str) -> tuple[list[str], set[str]]:
    assert one.graph is not None
    (out,) = one.graph.outputs
    writer = losses.begun(compiled, one.graph, losses.LossWriter)
    value = writer.value(out.node)
    axis = next((axis for axis in out.axes if axis.counted), None)
    if axis is None or out.axes.index(axis) != 1 or not isinstance(axis.size, Length):
        raise Unsupported("an input without a length behind the batch that is made of others")
    whole = set(value.dims) == set(out.axes)
    text = writer.fit(value, "", out.axes) if whole else writer.broadcast(value, "", out.axes)
    length = writer.length_texts[axis.size.name]
    writer.need("put_back")
    writer.write(f"return put_back(np.asarray({text}), places_{length}, shape_{length})")
    head = border_text.header(name, ["self", "given: Mapping[str, Any]"], "NDArray[Any]")
    doc = f'        """{one.name}, of {" and ".join(one.sources)}."""'
    return [*head, doc, *writer.lines], writer.used
