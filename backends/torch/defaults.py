"""Inputs that are made of others, in an nn.Module: a method for each, and lines of `forward` that call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...compiler.defaults import Default
from ...compiler.driver import Compiled
from ...compiler.ir import Graph, walk_all
from ..limits import mask_rows
from ..numpy.border_text import header, lengths_of
from ..numpy.mangling import Names
from ..numpy.values import Unsupported, Value, aligned
from .border import Border
from .losses import Losses
from .weights import WeightNames
from .writer import TorchWriter


@dataclass
class Defaults:
    """Lines of `forward` before all others, methods, the run-time functions that they call, and the inputs made."""

    lines: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    inputs: list[str] = field(default_factory=list)


def parts(
    compiled: Compiled,
    at: Border,
    losses: Losses,
    weights: WeightNames,
    fresh: Callable[[], Names],
    one_weight: str | None,
) -> Defaults:
    """Those that can be written; there is a ledger line for each other one."""
    made = Defaults()
    ranks = {one[0]: len(one[2]) for row in losses.rows for one in row[1]}
    for number, one in enumerate(compiled.defaults):
        name, inputs = f"_default_{number}", {**losses.arguments, **at.arguments}
        if one.graph is None:
            continue
        mask = _mask(compiled.formula, one.graph, at)
        try:
            lines, needs = _method(one, name, weights, fresh(), one_weight)
        except Unsupported as reason:
            law = f"{one.name} is made of {' and '.join(one.sources)}"
            compiled.ledger.refused("schedule", "default", law, str(reason))
            continue
        sources = [inputs[source] for source in one.sources]
        there = next(i.instead for i in compiled.formula.inputs if i.name == one.name)
        tests = [f"{inputs[other]} is None" for other in (one.name, there) if other]
        tests += [f"{text} is not None" for text in sources]
        tests += [f"{inputs[n]}.dim() == {ranks[n]}" for n in one.sources if n in ranks and len(losses.rows) > 1]
        made.lines.append(f"if {' and '.join(tests)}:")
        made.lines.append(f"    {inputs[one.name]} = self.{name}({', '.join([*sources, mask or 'None'])})")
        target, source = at.masks.get(one.name), next((at.masks[n] for n in one.sources if n in at.masks), None)
        if target is not None and source is not None:
            made.lines.append(f"    {target} = {source} if {target} is None else {target}")
        made.methods += [*lines, ""]
        made.needs |= needs
        made.inputs.append(one.name)
    told = {i.name for i in compiled.formula.inputs if not i.instead}
    for name in dict.fromkeys(one for one in made.inputs if one in told):
        made.lines.append(f"if {at.arguments[name]} is None:")
        made.lines.append(f"    raise TypeError(\"forward needs '{at.arguments[name]}'\")")
    return made


def _mask(formula: Graph, graph: Graph, at: Border) -> str:
    """The argument that masks the length of a function beside the model."""
    own = {length for one in graph.inputs for length in lengths_of(graph, one)}
    for _, masked in mask_rows(formula):
        one = next(i for i in formula.inputs if i.name == masked)
        if own & set(lengths_of(formula, one)):
            return at.masks[masked]
    return ""


def _method(
    one: Default, name: str, weights: WeightNames, names: Names, one_weight: str | None
) -> tuple[list[str], set[str]]:
    assert one.graph is not None
    graph, (out,) = one.graph, one.graph.outputs
    lengths = {length: names.fresh(length) for i in graph.inputs for length in lengths_of(graph, i)}
    if len(lengths) != 1:
        raise Unsupported("an input that is made of others of several lengths")
    (text,) = lengths.values()
    arguments = {i.name: names.fresh(i.spec_name) for i in graph.inputs}
    first = arguments[next(i.name for i in graph.inputs if lengths_of(graph, i))]
    writer = TorchWriter(graph, names, weights, lengths)
    writer.indent = 2
    writer.batch = next(axis for i in graph.inputs for axis in i.axes if axis.owner is None and axis.ragged)
    shown = f"torch.ones((batch, {text}), dtype=torch.bool, device=device)"
    kept = ", ".join(f"{prefix}_{text}" for prefix in ("index", "real", "count", "first", "source"))
    dtype = f"{one_weight}.dtype" if one_weight else "torch.get_default_dtype()"
    writer.write(f"device, dtype, batch = {first}.device, {dtype}, {first}.shape[0]")
    writer.write(f"{text} = {first}.shape[1]")
    writer.write(f"visible_{text} = {shown} if mask is None else mask != 0")
    writer.write(f"{kept} = places(visible_{text})")
    kinds = {i.name: i.kind for i in graph.inputs}
    for node in walk_all(graph.roots):
        if node.op == "input":
            wide = kinds[node["name"]] in ("int", "bool")
            writer.memo[node] = Value(arguments[node["name"]], "", node.axes, wide=wide, reorder="permute")
    writer.body(graph.roots)
    writer.write(f"return {aligned(writer.value(out.node), '', out.axes)}")
    shape = [*(f"{argument}: Tensor" for argument in arguments.values()), "mask: Tensor | None"]
    doc = f'        """{one.name}, of {" and ".join(one.sources)}."""'
    return [*header(name, ["self", *shape], "Tensor"), doc, *writer.lines], writer.used | {"places"}
