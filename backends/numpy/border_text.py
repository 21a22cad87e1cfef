"""The border of a generated module: the lines of `__call__`, for packed rows and for one example at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir import Axis, Graph, Input, Length
from .mangling import Names


def argument_names(graph: Graph, names: Names) -> dict[str, str]:
    """The Python names of the inputs, as the spec calls them."""
    return {one.name: names.fresh(one.spec_name) for one in graph.inputs}


def lengths_of(graph: Graph, one: Input) -> list[str]:
    """The lengths among an input's axes."""
    return [a.size.name for a in one.axes if isinstance(a.size, Length) and a != graph.batch]


def packed_call(graph: Graph, arguments: dict[str, str], mask: str, positions: bool) -> list[str]:
    """Packs, runs chunks of examples in parallel, and puts the results back."""
    first = next(one for one in graph.inputs if lengths_of(graph, one))
    lines = [
        f'shape = given["{first.name}"].shape[:2]',
        f'where, lengths, hidden, index = pack(given.get("{mask}", np.ones(shape, np.bool_)))',
        f"positions = rows_of(given, \"position_ids\", where, index)" if positions else "",
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
    lines += [
        "        )",
        "    for name, value in made.items():",
        f"        keep(results, name, value, rows if name in ({ready}{',' if ready else ''}) else part, "
        f"len(where) if name in ({ready}{',' if ready else ''}) else len(lengths))",
        "",
        "run_parallel(work, split_examples(lengths, self.threads), self.threads)",
        f"return finished(results, wanted, OUTPUTS, where, shape, self.dtype)",
    ]
    return [line for line in lines if line is not None]


def _per_row(graph: Graph, axes: Sequence[Axis]) -> bool:
    return any(axis.ragged and axis != graph.batch for axis in axes)
