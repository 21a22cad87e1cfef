"""The lines of `__call__` where one example is computed at a time: each length has its own packing."""

from __future__ import annotations

from ...compiler.ir import Graph, Input, Length, Output
from .border_text import lengths_of, plain_sizes
from .values import Unsupported


def call(graph: Graph, lengths: dict[str, str], masks: dict[str, str], positions: bool) -> list[str]:
    """Packs every length, runs the examples in parallel, and puts their results at their padded places."""
    first = next((one for one in graph.inputs if one.required), None)
    if first is None:
        raise Unsupported("no input is always given")
    lines = [f'count = len(given["{first.name}"])']
    for length, text in lengths.items():
        lines += _packed(graph, length, text, masks)
    lines.append("results: dict[str, NDArray[Any]] = {}")
    lines += [_room(graph, out, lengths) for out in graph.outputs]
    work = [line for text in lengths.values() for line in _here(text)]
    if lengths:
        work += [f"if not ({' or '.join(f'len(columns_{text})' for text in lengths.values())}):", "    return"]
    if positions:
        work += _positions(next(iter(lengths.values())))
    work += [
        'with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):',
        "    made = self.example(",
        *(f"        {argument}," for argument in _arguments(graph, lengths, positions)),
        "    )",
        *(_put(out, lengths) for out in graph.outputs),
    ]
    return [
        *lines,
        "",
        "def work(example: int) -> None:",
        *("    " + line for line in work),
        "",
        "run_parallel(work, range(count), self.threads)",
        "return {name: checked_result(name, results[name]) for name in wanted}",
    ]


def _packed(graph: Graph, length: str, text: str, masks: dict[str, str]) -> list[str]:
    """Where the entries of a length stand in the padded batch."""
    having = [one for one in graph.inputs if length in lengths_of(graph, one)]
    told = next((one for one in having if one.required), None)
    if told is None:
        raise Unsupported(f"no input is always given that tells how long {length} is")
    mask = next((masks[one.name] for one in having if one.name in masks), "")
    return [
        f'shape_{text} = given["{told.name}"].shape[:2]',
        f'mask_{text} = given.get("{mask}", np.ones(shape_{text}, np.bool_))',
        f"where_{text}, count_{text}, hidden_{text}, index_{text} = pack(mask_{text})",
        f"start_{text} = np.cumsum(count_{text}) - count_{text}",
    ]


def _here(text: str) -> list[str]:
    """The columns of one example, and which of them may be seen."""
    return [
        f"here = slice(start_{text}[example], start_{text}[example] + count_{text}[example])",
        f"columns_{text} = where_{text}[here] - example * shape_{text}[1]",
        f"visible_{text} = np.ones(len(columns_{text}), np.bool_)",
        f"if hidden_{text} is not None:",
        f"    visible_{text} = ~hidden_{text}[here]",
    ]


def _positions(text: str) -> list[str]:
    return [
        f"positions = index_{text}[start_{text}[example] :][: len(columns_{text})]",
        'if "position_ids" in given:',
        f'    positions = np.broadcast_to(given["position_ids"], shape_{text})[example][columns_{text}]',
    ]


def _arguments(graph: Graph, lengths: dict[str, str], positions: bool) -> list[str]:
    """What the function of one example is called with."""
    found = ["wanted"]
    for text in lengths.values():
        found += [f"len(columns_{text})", f"visible_{text}"]
    found += ["positions"] if positions else []
    return found + [_argument(graph, one, lengths) for one in graph.inputs]


def _argument(graph: Graph, one: Input, lengths: dict[str, str]) -> str:
    own = lengths_of(graph, one)
    chosen = f'given["{one.name}"][example]' + (f"[columns_{lengths[own[0]]}]" if own else "")
    return chosen if one.required else f'{chosen} if "{one.name}" in given else None'


def _columns(out: Output, lengths: dict[str, str]) -> list[str]:
    """For each axis after the batch the variable of its length, nothing for a size."""
    sizes = [axis.size for axis in out.axes[1:]]
    return [lengths.get(size.name, "") if isinstance(size, Length) else "" for size in sizes]


def _room(graph: Graph, out: Output, lengths: dict[str, str]) -> str:
    pairs = zip(out.axes[1:], _columns(out, lengths), strict=True)
    sizes = {axis: f'given["{name}"].shape[{place}]' for axis, (name, place) in plain_sizes(graph).items()}
    shape = ["count", *(f"shape_{text}[1]" if text else sizes.get(axis, str(axis.size)) for axis, text in pairs)]
    return f'results["{out.name}"] = np.zeros({_tuple(shape)}, self.dtype)'


def _put(out: Output, lengths: dict[str, str]) -> str:
    """A result at its places; hidden entries of a second length (a key that nobody may see) are 0."""
    texts = _columns(out, lengths)
    places = _tuple([f"columns_{text}" if text else '":"' for text in texts])
    seen = [f"visible_{text}" if text and any(texts[:number]) else "None" for number, text in enumerate(texts)]
    hidden = f", {_tuple(seen)}" if any(one != "None" for one in seen) else ""
    return f'put_example(results["{out.name}"], made["{out.name}"], example, {places}{hidden})'


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
