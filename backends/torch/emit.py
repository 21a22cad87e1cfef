"""A compiled model → the text of a standalone nn.Module.

Two layouts with the same parameters and results: `padded` computes on batches as they come, and compiles and exports as
one graph; `packed` computes on their real tokens, and is for eager use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...compiler.driver import Compiled
from ...compiler.ir import Graph, Weight
from ...compiler.kernels import is_draw
from ...grammar.diagnostics import error
from ..decoding import decodes
from ..generation import defaults_of
from ..initial import first_values
from ..numpy.border_text import header
from ..numpy.copying import Library
from ..numpy.mangling import Names, comment, identifier
from ..numpy.values import Unsupported
from ..objectives import SEED, draws, over_batch
from ..pages import module_template, tidy
from . import bounded, corrupting, defaults, objective, packed, stepping
from .border import Border, bind_inputs, border_names, entering, result
from .losses import Losses
from .reserved import LOCALS, METHODS, PACKED_LOCALS
from .weights import WeightNames
from .writer import TorchWriter

STEP = "a step computes new tokens alone"
LAYOUTS = ("padded", "packed")
FILES = (
    *("functions", "draws", "chunked", "packing", "spans", "tokens", "caching"),
    *("transformula.backends.numpy.options", "choosing", "beams", "generation"),
)
LIBRARY = Library("transformula.backends.torch", FILES)
OTHERS = re.compile(r"(import|from) (numpy|torch)\b")  # what no module needs, and what its template imports
GENERATING = ("generate_tokens", "stream_tokens")
SKIP = ("inference", "deadness", "fold_scales", "merge_projections", "fuse", "unpad", "schedule")
"""The module can be trained, so dropout stays; all parameters stay and learn; torch looks after memory."""

TRAINS = """In training mode, which a new module is in, each dropout draws anew at each call (from torch's generator);
after `.eval()` there is none."""
SAME = "It has no dropout: `.train()` and `.eval()` change nothing."
"""What the two modes do."""


@dataclass(frozen=True)
class Parts:
    """What a layout hands to the template: lines of `forward`, its results, other methods, functions that they call."""

    about: list[str]
    forward: list[str]
    results: dict[str, str]
    methods: list[str]
    needs: set[str]
    enter: list[str] = field(default_factory=list)  # what losses need before them


def emit(compiled: Compiled, layout: str = "padded") -> str:
    """The text of the module. Raises `TransformulaError` for what no PyTorch module can do yet.

    A model that packed rows cannot express is padded in either layout; the ledger says why.
    """
    graph = compiled.graph
    if compiled.kind == "corruption":
        return corrupting.emit(compiled)
    try:
        if graph.batch is None:
            if layout == "packed":
                compiled.ledger.refused("unpad", "packed", packed.LAW, "the rows of an objective are in its graph")
            return _module(compiled, bounded.with_forms(over_batch(graph), compiled.ledger), _objective)
        if layout == "packed":
            try:
                text = _module(compiled, graph, _packed)
                compiled.ledger.fired("unpad", "packed", packed.LAW)
                return text
            except Unsupported as reason:
                compiled.ledger.refused("unpad", "packed", packed.LAW, str(reason))
        return _module(compiled, bounded.with_forms(graph, compiled.ledger), _padded)
    except Unsupported as fault:
        raise error("X992", f"`{compiled.entry}` cannot be written with PyTorch yet: {fault}") from None


def parameter_names(graph: Graph) -> WeightNames:
    """The attribute that holds each weight."""
    return WeightNames(graph, Names(METHODS))


Layout = Callable[[Graph, Names, WeightNames], tuple[Border, Parts]]


def _module(compiled: Compiled, graph: Graph, layout: Layout) -> str:
    names = Names((*_taken(), *([SEED] if draws(graph) else [])))
    name = names.fresh(identifier(graph.name))
    weights, losses = parameter_names(graph), Losses(compiled, names)
    at, parts = layout(graph, names, weights)
    results, lines = _results(parts, losses, names, "" if graph.groups else graph.each)
    tail = losses.lines(at, weights, results, parts.enter)
    count = sum(math.prod(_shape(w, weights)) * math.prod(_whole(a.size) for a in w.stack) for w in graph.weights)
    decoding = _decoding(compiled, weights)
    decoder, stepping = decodes(compiled.formula, compiled.decoding), bool(decoding.lines)
    source = _one_weight(graph, weights)
    made = defaults.parts(compiled, at, losses, weights, lambda: Names((*_taken(), "mask")), source)
    more = {*(GENERATING if decoder else ()), *decoding.needs, *made.needs}
    more |= {"grouped"} if graph.each and not graph.groups else set()
    more |= {"Recomputed"} if decoder and not stepping else set()
    library = LIBRARY.copied({*parts.needs, *losses.used, *more}, ("Any", "Iterator") if decoder else ())
    arguments = ["self", *_arguments(graph, at, losses, made.inputs)]
    text = module_template("torch").render(
        title=f"{name}: {comment(compiled.module.name, 60)} as a PyTorch module, generated from its formulas.",
        count=f"{count:,}",
        modes=TRAINS if any(is_draw(one) for one in graph.nodes()) else SAME,
        about=parts.about,
        imports=sorted(line for line in (*library.imports, *library.type_imports) if line and not OTHERS.match(line)),
        decoder=repr(decoder.literal()) if decoder else "",
        stepping=stepping,
        generation=repr(defaults_of(compiled)),
        name=name,
        call=", ".join(f"{at.arguments[i.name]}=…" for i in graph.inputs if i.required),
        first=graph.outputs[0].name,
        parameters=[_parameter(w, weights) for w in graph.weights],
        initial=[line for w in graph.weights for line in _initial(w, weights)] or ["pass"],
        signature=header("forward", arguments, f"dict[str, {_kind(graph)}]"),
        kind=_kind(graph),
        body=["    " * 2 + line for line in made.lines] + parts.forward + ["    " * 2 + line for line in lines],
        results=[f'"{name}": {text},' for name, text in results.items()],
        losses=tail,
        methods=[*made.methods, *parts.methods, *([""] if parts.methods and decoding.lines else []), *decoding.lines],
        functions=library.texts,
    )
    return tidy(text)


def _taken() -> tuple[str, ...]:
    """Names that no variable of a module may have."""
    return (*LOCALS, *PACKED_LOCALS, *LIBRARY.names(), *METHODS)


def _decoding(compiled: Compiled, weights: WeightNames) -> stepping.Stepping:
    """The methods that decode step by step; none for a model that does not."""
    if compiled.decoding is None:
        return stepping.Stepping([], set())
    taken = (*_taken(), "rows", "cache")
    try:
        made = stepping.write(compiled.decoding, lambda: Names(taken), weights, _one_weight(compiled.graph, weights))
    except Unsupported as reason:
        compiled.ledger.refused("derive_cache", "step", STEP, str(reason))
        return stepping.Stepping([], set())
    compiled.ledger.fired("derive_cache", "step", STEP)
    return made


def _results(parts: Parts, losses: Losses, names: Names, each: str) -> tuple[dict[str, str], list[str]]:
    """The text of each result, and lines before them: those that an objective reads are variables."""
    results, lines = dict(parts.results), []
    if each:
        results = {name: f"grouped({text}, groups)" for name, text in results.items()}
    for name in losses.read:
        variable = names.fresh(name)
        lines.append(f"{variable} = {results[name]}")
        results[name] = variable
    return results, lines


def _padded(graph: Graph, names: Names, weights: WeightNames) -> tuple[Border, Parts]:
    at = border_names(graph, names)
    writer = TorchWriter(graph, names, weights, at.lengths)
    writer.indent = 2
    border = ["    " * 2 + line for line in entering(graph, at, _one_weight(graph, weights))]
    bind_inputs(writer, graph, at)
    writer.body(graph.roots)
    results = {out.name: result(writer, out) for out in graph.outputs}
    needs = {*writer.used, "places", *(["settled"] if at.position_ids else [])}
    return at, Parts([], [*border, *writer.lines], results, [], needs)


def _objective(graph: Graph, names: Names, weights: WeightNames) -> tuple[Border, Parts]:
    at, lines, results, needs = objective.layout(graph, names, weights, _one_weight(graph, weights))
    return at, Parts([], lines, results, [], needs)


def _packed(graph: Graph, names: Names, weights: WeightNames) -> tuple[Border, Parts]:
    at = border_names(graph, names)
    writer = packed.write(graph, at, names, weights, _one_weight(graph, weights))
    lines, results = packed.forward(graph, at)
    about = ["It computes on the real tokens of a batch, attention on examples of one length at a time: for eager use."]
    about += ['To export it, or to compile it as one graph, write it with layout="padded".']
    forward = ["    " * 2 + line for line in lines]
    needs = {*writer.used, "Packing", "places"}
    enter = packed.entering(graph, at, _one_weight(graph, weights))
    return at, Parts(about, forward, results, writer.lines, needs, enter)


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


def _arguments(graph: Graph, at: Border, losses: Losses, made: Collection[str]) -> list[str]:
    required = [at.arguments[i.name] for i in graph.inputs if i.required and not i.instead and i.name not in made]
    optional = [at.arguments[i.name] for i in graph.inputs if i.instead or (i.required and i.name in made)]
    optional += [*at.masks.values(), *([at.position_ids] if at.position_ids else [])]
    optional += [at.arguments[i.name] for i in graph.inputs if not i.required]
    optional += losses.arguments.values()
    seed = [f"{SEED}: int = 0"] if draws(graph) else []
    return [*(f"{n}: Tensor" for n in required), *(f"{n}: Tensor | None = None" for n in optional), *seed]


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
    found = first_values(weight)
    if found is None:
        raise Unsupported(f"the initial value {weight.init} of {weight.name}")
    middle, spread = found
    call = f"nn.init.normal_(part, {middle!r}, {spread!r})" if spread else f"nn.init.constant_(part, {middle!r})"
    target = f"self.{weights.attribute[weight.name]}"
    if not weight.stack:
        return [call.replace("part", target)]
    return [f"for part in {target}.parameters():", f"    {call}"]
