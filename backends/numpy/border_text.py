"""The border of a generated module: the lines of `__call__`, for packed rows and for one example at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir import Axis, Graph, Input, Length
from .mangling import Names
from .values import Unsupported

LOCALS = (
    "given", "wanted", "shape", "mask", "where", "lengths", "hidden", "index", "positions", "n", "starts", "results",
    "work", "part", "rows", "made", "name", "value", "at", "size", "queries", "keys", "example", "cache",
)  # fmt: skip
"""What the texts below call their own values: no name of a spec may be one of them."""


def argument_names(graph: Graph, names: Names) -> dict[str, str]:
    """The Python names of the inputs, as the spec calls them."""
    return {one.name: names.fresh(one.spec_name) for one in graph.inputs}


def header(name: str, arguments: Sequence[str], result: str) -> list[str]:
    """The lines of a method's head: on one line if it fits, else an argument a line."""
    line = f"    def {name}({', '.join(arguments)}) -> {result}:"
    if len(line) <= 100:
        return [line]
    return [f"    def {name}(", *(f"        {argument}," for argument in arguments), f"    ) -> {result}:"]


def lengths_of(graph: Graph, one: Input) -> list[str]:
    """The lengths among an input's axes."""
    groups = graph.groups or ()
    return [a.size.name for a in one.axes if isinstance(a.size, Length) and a.counted and a not in groups]


def plain_sizes(graph: Graph) -> dict[Axis, tuple[str, int]]:
    """For each axis that the caller makes as long as he likes, the same for all examples: an input, its dimension."""
    found: dict[Axis, tuple[str, int]] = {}
    for one in graph.inputs:
        for place, axis in enumerate(one.axes):
            if axis.ragged and not axis.counted and axis != graph.batch:
                found.setdefault(axis, (one.name, place))
    return found


def leading(graph: Graph) -> Input:
    """The input that tells how long each example is."""
    for one in graph.inputs:
        if one.required and lengths_of(graph, one):
            return one
    raise Unsupported("no input with a length is always given")


def packed_call(graph: Graph, arguments: dict[str, str], mask: str, positions: bool) -> list[str]:
    """Packs, runs chunks of examples in parallel, and puts the results back."""
    first = leading(graph)
    lines = [
        f'shape = given["{first.name}"].shape[:2]',
        f'mask = given.get("{mask}")',
        "where, lengths, hidden, index = pack(np.ones(shape, np.bool_) if mask is None else mask)",
        'positions = rows_of(given, "position_ids", where, index)' if positions else None,
    ]
    for one in graph.inputs:
        if lengths_of(graph, one):
            lines.append(f'{arguments[one.name]} = rows_of(given, "{one.name}", where, None)')
        else:
            lines.append(f'{arguments[one.name]} = given.get("{one.name}")')
    per_row = [one.name for one in graph.inputs if lengths_of(graph, one)]
    lines += [
        "starts = np.cumsum(lengths) - lengths",
        "results: dict[str, NDArray[Any]] = {}",
        "",
        "def work(part: NDArray[np.intp]) -> None:",
        "    part = part[lengths[part] > 0]",
        "    if len(part) == 0:",
        "        return",
        "    rows = chunk_rows(starts, lengths, part)",
        '    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):',
        "        made = self.rows(",
        "            wanted,",
        "            lengths[part],",
        "            None if hidden is None or not hidden[rows].any() else hidden[rows],",
        "            index[rows],",
    ]
    if positions:
        lines.append("            positions[rows],")
    for one in graph.inputs:
        text = arguments[one.name]
        chosen = f"{text}[rows]" if one.name in per_row else f"{text}[part]"
        lines.append(f"            {chosen}," if one.required else f"            None if {text} is None else {chosen},")
    ready = ", ".join(f'"{o.name}"' for o in graph.outputs if _per_row(graph, o.axes))
    lines += ["        )", "    for name, value in made.items():"]
    if ready:
        lines += [
            f"        at, size = (rows, len(where)) if name in ({ready},) else (part, len(lengths))",
            "        keep(results, name, value, at, size)",
        ]
    else:
        lines.append("        keep(results, name, value, part, len(lengths))")
    sizes = ", ".join(f'"{axis}": given["{name}"].shape[{place}]' for axis, (name, place) in plain_sizes(graph).items())
    sizes = f", {{{sizes}}}" if sizes else ""
    lines += [
        "",
        "run_parallel(work, split_examples(lengths, self.threads), self.threads)",
        f"return finished(results, wanted, OUTPUTS, where, shape, self.dtype{sizes})",
    ]
    return [line for line in lines if line is not None]


def _per_row(graph: Graph, axes: Sequence[Axis]) -> bool:
    return any(axis.counted for axis in axes)
