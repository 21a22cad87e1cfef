"""The border of a generated nn.Module: lengths and masks of its inputs, defaults, and results without padding."""

from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir import Axis, Graph, Length, Node, Output, walk_all
from ..limits import mask_rows
from ..numpy.border_text import lengths_of, plain_sizes
from ..numpy.mangling import Names
from ..numpy.values import Unsupported, Value, aligned
from .writer import TorchWriter


@dataclass
class Border:
    """Names that `forward` uses: an argument per input, a size per length, a mask per masked input."""

    arguments: dict[str, str]
    lengths: dict[str, str]
    masks: dict[str, str]
    position_ids: str


def border_names(graph: Graph, names: Names) -> Border:
    """Fresh names for all that crosses the border; what the caller writes has its own."""
    arguments = {one.name: names.fresh(one.name) for one in graph.inputs}
    masks = {masked: names.fresh(mask) for mask, masked in mask_rows(graph)}
    placed = any(one.op == "position" for one in walk_all(graph.roots))
    position_ids = names.fresh("position_ids") if placed else ""
    lengths: dict[str, str] = {}
    for one in graph.inputs:
        for length in lengths_of(graph, one):
            if length not in lengths:
                lengths[length] = names.fresh(length)
    for text in lengths.values():
        for prefix in ("visible", "masked", "index", "real", "count", "first", "source"):
            names.fresh(f"{prefix}_{text}")
    return Border(arguments, lengths, masks, position_ids)


def entering(graph: Graph, at: Border, one_weight: str | None) -> list[str]:
    """Lines before the formulas: sizes, places and the visible keys of each length."""
    first = next((at.arguments[i.name] for i in graph.inputs if i.required), None)
    if first is None:
        raise Unsupported("a module without an input that is always given")
    lines = stood_in(graph, at)
    dtype = type_of_numbers(graph, at, one_weight)
    lines += [f"device, dtype, batch = {first}.device, {dtype}, {first}.shape[0]"]
    for length, text in at.lengths.items():
        told = next((i for i in graph.inputs if i.required and length in lengths_of(graph, i)), None)
        if told is None:
            raise Unsupported(f"no input is always given that tells how long {length} is")
        mask = at.masks.get(told.name)
        everything = f"torch.ones((batch, {text}), dtype=torch.bool, device=device)"
        lines += [
            f"{text} = {at.arguments[told.name]}.shape[1]",
            f"masked_{text} = {mask} is not None" if mask else f"masked_{text} = False",
            f"visible_{text} = " + (f"{mask} != 0 if {mask} is not None else {everything}" if mask else everything),
            f"index_{text}, real_{text}, count_{text}, first_{text}, source_{text} = places(visible_{text})",
        ]
    if at.position_ids:
        text, given = next(iter(at.lengths.values())), at.position_ids
        placed = f"settled({given}.expand(batch, {text}), real_{text}, source_{text})"
        lines.append(f"positions = index_{text} if {given} is None else {placed}")
    return lines


def stood_in(graph: Graph, at: Border) -> list[str]:
    """Lines for inputs that another one stands in for: they are -1 everywhere, an id that no table has."""
    lines = []
    for one in graph.inputs:
        if one.instead:
            name, other = at.arguments[one.name], at.arguments[one.instead]
            sizes = ", ".join(f"{other}.shape[{place}]" for place in range(len(one.axes) + bool(graph.each)))
            lines.append(f"if {name} is None:")
            lines.append(f"    if {other} is None:")
            lines.append(f"        raise TypeError(\"forward needs '{name}' or '{other}'\")")
            lines.append(f"    {name} = torch.full(({sizes}), -1, device={other}.device)")
    return lines + _one_by_one(graph, at)


def _one_by_one(graph: Graph, at: Border) -> list[str]:
    """Lines that make one batch of several texts for each example."""
    if not graph.each:
        return []
    texts = [one for one in graph.inputs if graph.groups is None or graph.groups[0] not in one.axes]
    needed = [at.arguments[one.name] for one in texts if one.required]
    lines = [f"groups = {needed[0]}.shape[0], {needed[0]}.shape[1]"]
    optional = [at.arguments[one.name] for one in texts if not one.required]
    for name in [*optional, *at.masks.values(), *([at.position_ids] if at.position_ids else [])]:
        lines.append(f"{name} = None if {name} is None else {name}.flatten(0, 1)")
    return [*lines, *(f"{name} = {name}.flatten(0, 1)" for name in needed)]


def type_of_numbers(graph: Graph, at: Border, one_weight: str | None) -> str:
    """The text of the type that a model computes with: that of its weights, or of what it is given."""
    real = next((at.arguments[i.name] for i in graph.inputs if i.required and i.kind == "real"), None)
    source = one_weight or real
    return f"{source}.dtype" if source else "torch.get_default_dtype()"


def bind_inputs(writer: TorchWriter, graph: Graph, at: Border) -> None:
    """Binds the input nodes, an optional one to its default where it is not given."""
    kinds = {one.name: one.kind for one in graph.inputs}
    for one in walk_all(graph.roots):
        if one.op != "input":
            continue
        name, kind = at.arguments[one["name"]], kinds.get(one["name"])
        settled = ""
        if not writer.packs and len(one.axes) > 1 and one.axes[1].counted:
            assert isinstance(one.axes[1].size, Length)
            text = writer.length_texts[one.axes[1].size.name]
            writer.need("settled")
            settled = f"{name} = settled({name}, real_{text}, source_{text})  # whatever stands at padding"
        if one.args:
            default = _default(writer, one, kind == "int")  # may write lines, which stand before the `if`
            writer.write(f"if {name} is None:")
            writer.write(f"    {name} = {default}")
            if settled:
                writer.write("else:")
                writer.write(f"    {settled}")
        elif settled:
            writer.write(settled)
        lead, dims = writer.shape(one)
        own = [(axis, place) for axis, (source, place) in plain_sizes(graph).items() if source == one["name"]]
        writer.sizes |= {axis: f"{name}.shape[{place}]" for axis, place in own}
        writer.memo[one] = Value(name, lead, dims, wide=kind in ("int", "bool"), reorder="permute")


def _default(writer: TorchWriter, one: Node, whole: bool) -> str:
    default, (lead, dims) = writer.value(one.args[0]), writer.shape(one)
    if not default.number:
        if default.lead == lead and set(default.dims) == set(dims):
            return default.wrapped if default.dims == dims else writer.fit(default, lead, dims)
        return writer.broadcast(default, lead, dims)
    sizes = ", ".join([*writer.lead_sizes(lead), *(writer.size(axis) for axis in dims)])
    return f"torch.full(({sizes},), {default.text}, dtype={'torch.long' if whole else 'dtype'}, device=device)"


def result(writer: TorchWriter, out: Output) -> str:
    """The value, 0 at padding and for an example without tokens; steps as a tuple."""
    return steps_of(_shown(writer, out), out.listed)


def steps_of(text: str, listed: int) -> str:
    """The text of a result; of one with axes of steps behind the batch, a tuple of a value for each."""
    return f"{text}.flatten(1, {listed}).unbind(1)" if listed > 1 else f"{text}.unbind(1)" if listed else text


def _shown(writer: TorchWriter, out: Output) -> str:
    text = aligned(writer.value(out.node), "", out.axes)
    if writer.batch not in out.axes:  # of all examples
        return text
    masks = _places(writer, out.axes)
    if not masks and writer.length_texts:
        tests = [f"count_{one} > 0" for one in writer.length_texts.values()]
        kind = tests[0] if len(tests) == 1 else " | ".join(f"({one})" for one in tests)
        masks = aligned(Value(kind, "", (out.axes[0],), atom=False, reorder="permute"), "", out.axes)
    if not masks:
        return text
    writer.need("shown")
    return f"shown({text}, {masks})"


def _places(writer: TorchWriter, axes: tuple[Axis, ...]) -> str:
    """Which entries belong to the example; hidden keys along a second length do not."""
    found: list[str] = []
    for axis in axes[1:]:
        if isinstance(axis.size, Length) and axis.counted:
            name = writer.length_texts[axis.size.name]
            kind = f"visible_{name} & real_{name}" if found else f"real_{name}"
            own = Value(kind, "", (axes[0], axis), atom=" " not in kind, reorder="permute")
            found.append(aligned(own, "", axes))
    return " & ".join(found)
