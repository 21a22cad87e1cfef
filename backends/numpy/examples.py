"""One example at a time, with all its axes: the general way, for formulas that packed rows cannot express."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from . import border_text, copying
from .mangling import Names
from .parameters import Parameters
from .values import Unsupported, Value
from .writer import Writer

if TYPE_CHECKING:
    from .emit import Written

NEEDS = ("run_parallel", "pack", "put_example", "checked_result")


class ExampleWriter(Writer):
    """Writes a function of one example; each length has a variable, hidden entries a relation."""

    def __init__(self, graph: Graph, names: Names, parameters: Parameters, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, parameters, graph.batch)
        self.length_texts = lengths

    def size(self, axis: Axis) -> str:
        if isinstance(axis.size, Length) and axis.size.name in self.length_texts:
            return self.length_texts[axis.size.name]
        return super().size(axis)

    def visible_text(self, axis: Axis) -> str:
        assert isinstance(axis.size, Length)
        return f"visible_{self.length_texts[axis.size.name]}"

    def _position(self, one: Node) -> Value:
        return Value("positions", "", (one["axis"],), wide=True)


def write(graph: Graph) -> Written:
    """The parts of a module that computes one example at a time."""
    from .emit import CONSTANTS, METHODS, Written, _has_positions, _prepare, compiled_class
    from ..limits import mask_rows

    graph = graph.rewrite(lambda one: kernel_table.expanded(one) if one.op == "kernel" and one["name"] == "attention" else one)
    names = Names((*copying.names(), *CONSTANTS, "given", "wanted", "positions", "results", "example", compiled_class(graph)))
    lengths: dict[str, str] = {}
    for one in graph.inputs:
        for length in border_text.lengths_of(graph, one):
            if length not in lengths:
                lengths[length] = names.fresh(length)
                names.fresh(f"visible_{lengths[length]}")
    parameters = Parameters(graph, Names(METHODS))
    writer = ExampleWriter(graph, names, parameters, lengths)
    arguments = border_text.argument_names(graph, names)
    writer.indent = 2
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
    prepare, needs = _prepare(graph, parameters)
    call = ["    " * 2 + line if line else "" for line in _call(graph, arguments, lengths, masks, positions)]
    body = _function(graph, arguments, lengths, positions, writer.lines)
    return Written(writer, prepare, call, body, writer.used | needs | set(NEEDS))


def bind_input(writer: Writer, one: Node, name: str, shape: tuple[str, tuple[Axis, ...]]) -> None:
    """An input is an argument of the function; a default stands in where it is not given."""
    lead, dims = shape
    if one.args:
        default = writer.value(one.args[0])
        text = writer.fit(default, lead, dims)
        if writer.packs and default.number and _only_looked_up(writer, one):
            writer.scalars.add(name)  # one row of the table for all: it broadcasts
        else:
            sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(axis) for axis in dims])
            text = f"np.broadcast_to({text}, ({sizes},))"
        writer.write(f"if {name} is None:")
        writer.write(f"    {name} = {text}")
    writer.memo[one] = Value(name, lead, dims, wide=one.kind != "real" and _whole(writer, one))


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


def _call(
    graph: Graph, arguments: dict[str, str], lengths: dict[str, str], masks: dict[str, str], positions: bool
) -> list[str]:
    first = next((i for i in graph.inputs if i.required), None)
    if first is None:
        raise Unsupported("no input is always given")
    lines = [f'count = len(given["{first.name}"])']
    places: dict[str, str] = {}
    for length, text in lengths.items():
        one = next((i for i in graph.inputs if i.required and length in border_text.lengths_of(graph, i)), None)
        if one is None:
            raise Unsupported(f"no input is always given that tells how long {length} is")
        mask = next((masks[i.name] for i in graph.inputs if i.name in masks and length in border_text.lengths_of(graph, i)), "")
        lines += [
            f'shape_{text} = given["{one.name}"].shape[:2]',
            f'where_{text}, count_{text}, hidden_{text}, index_{text} = pack(given.get("{mask}", np.ones(shape_{text}, np.bool_)))',
            f"start_{text} = np.cumsum(count_{text}) - count_{text}",
        ]
        places[length] = text
    lines += ["results: dict[str, NDArray[Any]] = {}", "", "def work(example: int) -> None:"]
    chunk = []
    for text in lengths.values():
        chunk += [
            f"here = slice(start_{text}[example], start_{text}[example] + count_{text}[example])",
            f"columns_{text} = where_{text}[here] - example * shape_{text}[1]",
            f"if len(columns_{text}) == 0:",
            "    return",
            f"visible_{text} = np.ones(len(columns_{text}), np.bool_) if hidden_{text} is None else ~hidden_{text}[here]",
        ]
        if positions and text == next(iter(lengths.values())):
            chunk += [
                f'positions = index_{text}[here]',
                'if "position_ids" in given:',
                f'    positions = np.broadcast_to(given["position_ids"], shape_{text})[example][columns_{text}]',
            ]
    values = []
    for text in lengths.values():
        values += [f"len(columns_{text})", f"visible_{text}"]
    values += ["positions"] if positions else []
    for one in graph.inputs:
        own = border_text.lengths_of(graph, one)
        chosen = f'given["{one.name}"][example]' + (f"[columns_{places[own[0]]}]" if own else "")
        values.append(chosen if one.required else f'{chosen} if "{one.name}" in given else None')
    chunk += [
        'with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):',
        f"    made = self.example(wanted, {', '.join(values)})",
    ]
    for out in graph.outputs:
        columns, shape, seen = [], ["count"], []
        for axis in out.axes[1:]:
            text = places.get(axis.size.name, "") if isinstance(axis.size, Length) else ""
            columns.append(f"columns_{text}" if text else '":"')
            seen.append(f"visible_{text}" if text and any(c.startswith("columns") for c in columns[:-1]) else "None")
            shape.append(f"shape_{text}[1]" if text else str(axis.size))
        ending = "," if len(columns) == 1 else ""
        chunk.append(f'put_example(results["{out.name}"], made["{out.name}"], example, ({", ".join(columns)}{ending}){_hidden(seen)})')
        lines.insert(-2, f'results["{out.name}"] = np.zeros(({", ".join(shape)},), self.dtype)')
    lines = [line for line in lines if line != "results: dict[str, NDArray[Any]] = {}"]
    lines.insert(1, "results: dict[str, NDArray[Any]] = {}")
    lines += ["    " + line for line in chunk]
    lines += ["", "run_parallel(work, range(count), self.threads)", "return {name: checked_result(name, results[name]) for name in wanted}"]
    return lines


def _hidden(seen: list[str]) -> str:
    """The argument that leaves out hidden entries of a second length (a key that nobody may see)."""
    return f", ({', '.join(seen)}{',' if len(seen) == 1 else ''})" if any(text != "None" for text in seen) else ""


__all__ = ["ExampleWriter", "Unsupported", "bind_input", "write"]
