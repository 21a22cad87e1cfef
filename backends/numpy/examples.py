"""One example at a time, with all its axes: the general way, for formulas that packed rows cannot express."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from . import border_text, bounded, copies, example_border
from .mangling import Names
from .parameters import Parameters
from .values import Unsupported, Value
from .writer import Writer

if TYPE_CHECKING:
    from .emit import Written

NEEDS_OF_ALL = ("run_parallel", "put_example", "checked_result")
NEEDS = (*NEEDS_OF_ALL, "pack")


class ExampleWriter(Writer):
    """Writes a function of one example; each length has a variable, hidden entries a relation."""

    def __init__(self, graph: Graph, names: Names, parameters: Parameters | None, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, parameters, graph.batch)
        self.length_texts = lengths

    def size(self, axis: Axis) -> str:
        if isinstance(axis.size, Length) and axis.size.name in self.length_texts:
            return self.length_texts[axis.size.name]
        return super().size(axis)

    def visible_text(self, axis: Axis) -> str:
        assert isinstance(axis.size, Length)
        return f"visible_{self.length_texts[axis.size.name]}"

    def _kernel(self, one: Node) -> Value:
        if copies.has_copy_form(one):
            return self.assigned(one, copies.write(self, one, kernel_table.parts(one)))
        if one["name"] == "attention":
            at = kernel_table.parts(one)
            found = bounded.sides(one, at, self.batch)
            assert found is not None
            return self.assigned(one, bounded.of_example(self, one, at, found), "heads")
        return super()._kernel(one)

    def _position(self, one: Node) -> Value:
        return Value("positions", "", (one["axis"],), wide=True)


def write(graph: Graph, names: Names, parameters: Parameters) -> Written:
    """The parts of a module that computes one example at a time."""
    from ..limits import mask_rows
    from .emit import Written, _has_positions

    graph = graph.rewrite(partial(written_out, graph.batch))
    lengths: dict[str, str] = {}
    for one in graph.inputs:
        for length in border_text.lengths_of(graph, one):
            if length not in lengths:
                lengths[length] = names.fresh(length)
                names.fresh(f"visible_{lengths[length]}")
    writer = ExampleWriter(graph, names, parameters, lengths)
    arguments = border_text.argument_names(graph, names)
    writer.indent = 2
    sizes = border_text.plain_sizes(graph)
    writer.sizes |= {axis: f"{arguments[name]}.shape[{place - 1}]" for axis, (name, place) in sizes.items()}
    for node in walk_all(graph.roots):
        if node.op == "input":
            bind_input(writer, node, arguments[node["name"]], writer.shape(node))
    writer.body(graph.roots)
    for out in graph.outputs:
        order = tuple(axis for axis in out.axes if axis != graph.batch)
        value = writer.value(out.node)
        text = writer.fit(value, "", order)
        if len(value.dims) < len(order):
            text = f"np.broadcast_to({text}, ({', '.join(writer.size(a) for a in order)},))"
        writer.write(f'results["{out.name}"] = np.asarray({text})')
    positions = _has_positions(graph)
    masks = {masked: mask for mask, masked in mask_rows(graph)}
    call = ["    " * 2 + line if line else "" for line in example_border.call(graph, lengths, masks, positions)]
    body = _function(graph, arguments, lengths, positions, writer.lines)
    return Written(call, body, writer.used | set(NEEDS if lengths else NEEDS_OF_ALL))


def written_out(batch: Axis | None, one: Node) -> Node:
    """Attention as scores, shares and a product, but within bounds, where most scores are never looked at."""
    if one.op != "kernel" or one["name"] != "attention":
        return one
    bounds = bounded.sides(one, kernel_table.parts(one), batch)
    return kernel_table.expanded(one) if bounds is None else one


def bind_input(writer: Writer, one: Node, name: str, shape: tuple[str, tuple[Axis, ...]]) -> None:
    """An input is an argument of the function; a default stands in where it is not given, once it is needed."""
    lead, dims = shape
    value = Value(name, lead, dims, wide=one.kind != "real" and _whole(writer, one))
    if one.args:
        writer.defaults[one] = partial(_default, writer, one, value)
    else:
        writer.memo[one] = value


def _default(writer: Writer, one: Node, value: Value) -> Value:
    """Writes what stands in for an input; the input then lies in the memory of its default."""
    name, lead, dims = value.text, value.lead, value.dims
    default = writer.value(one.args[0])
    text = writer.fit(default, lead, dims)
    if (default.number or default.wide) and not _whole(writer, one):
        text = f"np.asarray({text}, {writer.dtype})"
    if writer.packs and default.number and _only_looked_up(writer, one):
        writer.scalars.add(name)  # one row of the table for all: it broadcasts
    elif default.lead != lead or set(default.dims) != set(dims):
        sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims])
        text = f"np.broadcast_to({text}, ({sizes},))"
    writer.write(f"if {name} is None:")
    writer.write(f"    {name} = {text}")
    return replace(value, buffer=default.buffer)


def _only_looked_up(writer: Writer, one: Node) -> bool:
    """Whether the input is only ever a place in a table of weights."""
    for reader in walk_all(writer.graph.roots):
        for place, arg in enumerate(reader.args):
            if arg is one and not (reader.op == "pick" and place > 0 and reader.args[0].op == "weight"):
                return False
    return True


def _whole(writer: Writer, one: Node) -> bool:
    kinds = {i.name: i.kind for i in writer.graph.inputs}
    return kinds.get(one["name"]) in ("int", "bool")


def _function(
    graph: Graph, arguments: dict[str, str], lengths: dict[str, str], positions: bool, lines: list[str]
) -> list[str]:
    shown = ["self", "wanted: list[str]"]
    for text in lengths.values():
        shown += [f"{text}: int", f"visible_{text}: NDArray[np.bool_]"]
    shown += ["positions: NDArray[Any]"] if positions else []
    shown += [f"{arguments[i.name]}: {'NDArray[Any]' if i.required else 'Any'}" for i in graph.inputs]
    return [
        *border_text.header("example", shown, "dict[str, NDArray[Any]]"),
        '        """The formulas, for one example."""',
        "        results: dict[str, NDArray[Any]] = {}",
        *lines,
        "        return results",
    ]


__all__ = ["ExampleWriter", "Unsupported", "bind_input", "write"]
