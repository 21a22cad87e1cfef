"""A compiled model → the text of a standalone nn.Module over padded batches."""

from __future__ import annotations

import math
import re

from ...compiler.driver import Compiled
from ...compiler.ir import Graph, Weight
from ...compiler.kernels import is_draw
from ...grammar.diagnostics import error
from ..numpy.border_text import header
from ..numpy.copying import Library
from ..numpy.mangling import Names, comment, identifier
from ..numpy.values import Unsupported
from ..objectives import results_read
from ..pages import module_template, tidy
from .border import Border, bind_inputs, border_names, entering, result
from .losses import Losses
from .reserved import LOCALS, METHODS
from .weights import WeightNames
from .writer import TorchWriter

LIBRARY = Library("transformula.backends.torch", ("functions",))
SKIP = ("inference", "fold_scales", "merge_projections", "fuse", "unpad", "schedule")
"""The module can be trained, so dropout stays; parameters stay as the checkpoint has them; torch looks after memory."""

TRAINS = """In training mode, which a new module is in, each dropout draws anew at each call (from torch's generator);
after `.eval()` there is none."""
SAME = "It has no dropout: `.train()` and `.eval()` change nothing."
"""What the two modes do."""


def emit(compiled: Compiled) -> str:
    """The text of the module. Raises `TransformulaError` for what no PyTorch module can do yet."""
    graph = compiled.graph
    if graph.batch is None:
        raise error(
            "X991",
            f"`{compiled.entry}` is an objective: the PyTorch backend compiles models",
            help="Evaluate it with the reference, or compile the model that it uses.",
        )
    try:
        return _module(compiled, graph)
    except Unsupported as fault:
        raise error("X992", f"`{compiled.entry}` cannot be written with PyTorch yet: {fault}") from None


def parameter_names(graph: Graph) -> WeightNames:
    """The attribute that holds each weight."""
    return WeightNames(graph, Names(METHODS))


def _module(compiled: Compiled, graph: Graph) -> str:
    names = Names((*LOCALS, *LIBRARY.names(), *METHODS))
    name = names.fresh(identifier(graph.name))
    at, weights, losses = border_names(graph, names), parameter_names(graph), Losses(compiled, names)
    writer = TorchWriter(graph, names, weights, at.lengths)
    writer.indent = 2
    border = entering(graph, at, _one_weight(graph, weights))
    bind_inputs(writer, graph, at)
    writer.body(graph.roots)
    results = {out.name: result(writer, out) for out in graph.outputs}
    for name in results_read(compiled):
        variable = names.fresh(name)
        writer.write(f"{variable} = {results[name]}")
        results[name] = variable
    count = sum(math.prod(_shape(w, weights)) * math.prod(_whole(a.size) for a in w.stack) for w in graph.weights)
    text = module_template("torch").render(
        title=f"{name}: {comment(compiled.module.name, 60)} as a PyTorch module, generated from its formulas.",
        count=f"{count:,}",
        modes=TRAINS if any(is_draw(one) for one in graph.nodes()) else SAME,
        name=name,
        call=", ".join(f"{at.arguments[i.name]}=…" for i in graph.inputs if i.required),
        first=graph.outputs[0].name,
        parameters=[_parameter(w, weights) for w in graph.weights],
        initial=[line for w in graph.weights for line in _initial(w, weights)] or ["pass"],
        signature=header("forward", ["self", *_arguments(graph, at, losses)], f"dict[str, {_kind(graph)}]"),
        kind=_kind(graph),
        border=border,
        body=writer.lines,
        results=[f'"{name}": {text},' for name, text in results.items()],
        losses=losses.lines(at, weights, results),
        functions=LIBRARY.copied({*writer.used, *losses.used, *_always(at)}).texts,
    )
    return tidy(text)


def _one_weight(graph: Graph, weights: WeightNames) -> str | None:
    """A parameter, as text: all have the module's dtype."""
    if not graph.weights:
        return None
    one = graph.weights[0]
    return f"self.{weights.attribute[one.name]}{'[0]' * len(one.stack)}"


def _kind(graph: Graph) -> str:
    """What a result is."""
    return "Tensor | tuple[Tensor, ...]" if any(out.listed for out in graph.outputs) else "Tensor"


def _always(at: Border) -> list[str]:
    """Run-time functions of the border."""
    return ["places", *(["settled"] if at.position_ids else [])]


def _arguments(graph: Graph, at: Border, losses: Losses) -> list[str]:
    required = [at.arguments[i.name] for i in graph.inputs if i.required and not i.instead]
    optional = [at.arguments[i.name] for i in graph.inputs if i.instead]
    optional += [*at.masks.values(), *([at.position_ids] if at.position_ids else [])]
    optional += [at.arguments[i.name] for i in graph.inputs if not i.required]
    optional += losses.arguments.values()
    return [*(f"{n}: Tensor" for n in required), *(f"{n}: Tensor | None = None" for n in optional)]


# ----------------------------------------------------------------------------------------------------- parameters


def _shape(weight: Weight, weights: WeightNames) -> list[int]:
    """The shape of one entry of the stack."""
    if weights.is_matrix(weight):
        return [math.prod(_whole(axis.size) for axis in group) for group in (weight.outs or (), weight.ins)]
    return [_whole(axis.size) for axis in weight.axes[len(weight.stack) :]]


def _whole(size: object) -> int:
    assert isinstance(size, int)
    return size


def _parameter(weight: Weight, weights: WeightNames) -> str:
    """`self.W = new(…)`, a ParameterList over a stack."""
    made = f"new({', '.join(map(str, _shape(weight, weights)))})"
    for depth, axis in enumerate(reversed(weight.stack)):
        kind = "nn.ParameterList" if depth == 0 else "nn.ModuleList"
        made = f"{kind}([{made} for _ in range({axis.size})])"
    attribute = weights.attribute[weight.name]
    return f"self.{attribute} = {made}" + (f"  # {comment(weight.name)}" if weight.name != attribute else "")


def _initial(weight: Weight, weights: WeightNames) -> list[str]:
    """The initialiser as the spec has it: a number, or normal(σ); normal(0.02) where it has none."""
    found = re.fullmatch(r"normal\(([0-9.e+-]+)\)", weight.init)
    if found or not weight.init:
        call = f"nn.init.normal_(part, 0.0, {float(found.group(1)) if found else 0.02!r})"
    elif re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", weight.init):
        call = f"nn.init.constant_(part, {float(weight.init)!r})"
    else:
        raise Unsupported(f"the initial value {weight.init} of {weight.name}")
    target = f"self.{weights.attribute[weight.name]}"
    if not weight.stack:
        return [call.replace("part", target)]
    return [f"for part in {target}.parameters():", f"    {call}"]
