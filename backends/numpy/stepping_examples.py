"""A derived step that computes one example after the other, with all its axes: for what packed rows cannot express."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...compiler.decoding import Decoding
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from . import border_text, examples
from .mangling import Names
from .parameters import Parameters
from .values import Value, aligned

if TYPE_CHECKING:
    from .writer import Writer


class ExampleStepWriter(examples.ExampleWriter):
    """Writes the step of one example; `along` are the variables of the kept rows of each length."""

    along: dict[str, str]

    def rows_along(self, length: str) -> str:
        """The variable of the rows along a length."""
        if length not in self.along:
            self.along[length] = self.names.fresh(f"{length}_rows")
        return self.along[length]

    def _append(self, one: Node) -> Value:
        axis, into = one["along"], one["into"]
        value = self.real(self.value(one.args[0])) if one.kind == "real" else self.value(one.args[0])
        dims = (axis, *(other for other in value.dims if other != axis))
        rows = self.rows_along(str(into.size))
        text = f"{rows}.append_of(example, {key(self, one, one.args[1:])}, {aligned(value, '', dims)})"
        return Value(text, "", (into, *dims[1:]), wide=value.wide)

    def _stored(self, one: Node) -> Value:
        dims = tuple(axis for axis in one.axes if not axis.ragged)
        counted = [axis for axis in one.axes if axis.counted]
        where = key(self, one, one.args)
        if counted:
            rows = self.rows_along(str(counted[0].size))
            return Value(f"{rows}.values[{where}][{rows}.of(example)]", "", (counted[0], *dims))
        own = "[example]" if self.batch in one.axes else ""
        return Value(f"cache.values[{where}][0]{own}", "", dims)

    def settled(self, one: Node, found: Value) -> Value:
        if one.op == "append" and not found.text.isidentifier():
            return self.assigned(one, found)
        return super().settled(one, found)


def key(writer: Writer, one: Node, numbers: Iterable[Node]) -> str:
    """The text of what a kept value is found by: its name, and the numbers of the steps whose it is."""
    parts = [json.dumps(one["name"], ensure_ascii=False), *(writer.value(number).text for number in numbers)]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def write(decoding: Decoding, names: Names, parameters: Parameters) -> tuple[list[list[str]], set[str]]:
    """The methods `step` and `step_of`."""
    step = decoding.step.rewrite(partial(examples.written_out, decoding.step.batch))
    token = names.fresh(next(one.spec_name for one in step.inputs if one.name == decoding.tokens))
    texts = {length: names.fresh(length) for length in lengths_along(step)}
    for text in texts.values():
        names.fresh(f"visible_{text}")
    writer = ExampleStepWriter(step, names, parameters, texts)
    writer.along = {}
    writer.indent = 2
    for one in walk_all(step.roots):
        if one.op == "input":
            writer.memo[one] = Value(token, "", tuple(a for a in one.axes if a != step.batch), wide=True)
    writer.body(step.roots)
    (out,) = step.outputs
    order = tuple(axis for axis in out.axes if axis != step.batch)
    writer.write(f"return np.asarray({writer.fit(writer.value(out.node), '', order)})")
    return _methods(decoding, token, texts, writer), writer.used


def _methods(decoding: Decoding, token: str, texts: dict[str, str], writer: ExampleStepWriter) -> list[list[str]]:
    shown = ["self", "cache: Cache", "lengths: NDArray[np.intp]", "index: NDArray[np.intp]", f"{token}: NDArray[Any]"]
    name = decoding.step.outputs[0].name
    first = [
        *border_text.header("step", shown, "NDArray[Any]"),
        f'        """{name} after the last new token of each example; the n packed rows are new tokens."""',
        f"        parts = np.split({token}, np.cumsum(lengths)[:-1])",
        "        return np.stack([self.step_of(cache, example, part) for example, part in enumerate(parts)])",
    ]
    places = []
    for length, text in texts.items():
        if length == decoding.new.name:
            rows = writer.rows_along(decoding.length.name)
            places += [f"{text} = len({token})", f"visible_{text} = {rows}.seen(example)[-{text}:]"]
        else:
            rows = writer.rows_along(length)
            places += [f"{text}, visible_{text} = int({rows}.count[example]), {rows}.seen(example)"]
    second = [
        *border_text.header("step_of", [*shown[:2], "example: int", shown[-1]], "NDArray[Any]"),
        f'        """{name} of one example after its last new token."""',
        *(f'        {name} = cache.along("{length}")' for length, name in writer.along.items()),
        *(f"        {line}" for line in places),
        *writer.lines,
    ]
    return [first, second]


def lengths_along(graph: Graph) -> list[str]:
    """The lengths that the axes of a step count."""
    found: dict[str, None] = {}
    for one in graph.nodes():
        axes: list[Axis] = [*one.axes, *([one["axis"]] if one.op == "size" else [])]
        for axis in axes:
            if axis.counted and isinstance(axis.size, Length):
                found[axis.size.name] = None
    return list(found)
