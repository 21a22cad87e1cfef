"""A compiled model → the text of a standalone NumPy module.

Two ways to write: packed rows of many examples (packed.py), and, where a formula needs what packing cannot express, one
example at a time with all axes (examples.py). The choice and its reason are a line of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...compiler.decoding import DERIVED
from ...compiler.driver import Compiled
from ...compiler.ir import Graph, walk_all
from ...compiler.kernels import is_draw
from ...compiler.objectives import weight_rows
from ...grammar.diagnostics import error
from ..checkpoint_table import checkpoint_table, table_source
from ..decoding import decodes
from ..generation import defaults_of
from ..limits import input_rows, limit_rows, mask_rows
from ..objectives import SEED, draws, over_batch, own_inputs
from ..pages import module_template, tidy
from . import border_text, copying, corrupting, defaults, examples, losses, objective, stepping, training
from .mangling import Names, comment, identifier
from .packed import PackedWriter
from .parameters import Parameters, write_parameters
from .rows import only_length
from .values import Unsupported
from .writer import Writer

ALWAYS = ("assemble", "read_stored", "check_call", "check_outputs")
LAW = "token-wise work runs on packed rows, attention per example"
CONSTANTS = (
    *("INPUTS", "MASKS", "LIMITS", "OUTPUTS", "LOSSES", "DEFAULTS", "STEPS", "CHECKPOINT", "DECODER", "GENERATION"),
)
GENERATING = ("generate_tokens", "stream_tokens", "read_generation")
METHODS = (
    *("rows", "example", "objective", "load", "dtype", "threads"),
    *("begin", "step", "decoder", "generate", "stream", "generation"),
    *("weights", "tensors", "refresh", "loss_and_gradients"),
)
CALL = ("given", "wanted", "others", "outputs", "loss", "found", "groups", "totals")
PACKED = ("pack", "run_parallel", "split_examples", "rows_of", "chunk_rows", "keep", "finished")


def emit(compiled: Compiled) -> str:
    """The text of the module. Raises `TransformulaError` for what no NumPy module can do yet."""
    graph = compiled.graph
    if compiled.kind == "corruption":
        return corrupting.emit(compiled)
    if any(is_draw(one) for one in graph.nodes()):  # the pass was left out
        compiled.ledger.fired("inference", "no_dropout", "dropout is the identity: a NumPy module drops nothing out")
    parts = _written(compiled)
    return _fill(compiled, parts)


def _written(compiled: Compiled) -> Written:
    """The lines of the module, packed where its formulas allow it; then those of a step, over the same parameters."""
    graph = compiled.graph
    if graph.batch is None:
        return _objective(compiled)
    try:
        if "unpad" not in graph.plan:
            raise Unsupported("the pass was left out")
        names, parameters = _names(graph), Parameters(graph, Names(METHODS))
        parts = _packed(graph, names, parameters)
        compiled.ledger.fired("unpad", "packed", LAW)
        for text, count in parts.memory.items():
            compiled.ledger.fired("schedule", "memory", f"{count} {text}")
    except Unsupported as reason:
        compiled.ledger.refused("unpad", "packed", LAW, str(reason))
        names, parameters = _names(graph), Parameters(graph, Names(METHODS))
        try:
            parts = examples.write(graph, names, parameters)
        except Unsupported as fault:
            raise error("X992", f"`{compiled.entry}` cannot be written with NumPy yet: {fault}") from None
    if compiled.decoding is not None:
        before = dict(parameters.found)
        try:
            parts.stepping = stepping.write(compiled.decoding, lambda: _names(graph), parameters, compiled.ledger)
        except Unsupported as reason:
            parameters.found = before
            compiled.ledger.refused(DERIVED, "step", "a step computes new tokens alone", str(reason))
    parts.prepare, needs = _prepare(graph, parameters)
    parts.needs |= needs
    return parts


def _objective(compiled: Compiled) -> Written:
    """The lines of a module that computes a loss."""
    graph, parameters = compiled.graph, Parameters(compiled.graph, Names(METHODS))
    names = Names((*objective.reserved(), *CONSTANTS, compiled_class(graph)))
    try:
        found = objective.write(compiled, names, parameters)
    except Unsupported as fault:
        raise error("X992", f"`{compiled.entry}` cannot be written with NumPy yet: {fault}") from None
    parts = Written(found.call, found.body, found.needs)
    parts.prepare, needs = _prepare(graph, parameters)
    parts.needs |= needs
    return parts


def _names(graph: Graph) -> Names:
    return Names((*copying.names(), *CONSTANTS, *border_text.LOCALS, compiled_class(graph)))


class Written:
    """What a way of writing hands to the template."""

    def __init__(self, call: list[str], body: list[str], needs: set[str]) -> None:
        self.call, self.body, self.needs = call, body, needs
        self.prepare: list[str] = []
        self.memory: dict[str, int] = {}
        self.stepping: stepping.Stepping | None = None


def _packed(graph: Graph, names: Names, parameters: Parameters) -> Written:
    assert graph.batch is not None
    only_length(graph)
    writer = PackedWriter(graph, names, parameters, graph.batch)
    arguments = border_text.argument_names(graph, names)
    positions = _has_positions(graph)
    writer.indent = 2
    writer.sizes |= {a: f"{arguments[i]}.shape[{place}]" for a, (i, place) in border_text.plain_sizes(graph).items()}
    for one in walk_all(graph.roots):
        if one.op == "input":
            examples.bind_input(writer, one, arguments[one["name"]], writer.shape(one))
    writer.body(graph.roots)
    for out in graph.outputs:
        _, dims = writer.shape(out.node)
        lead = "rows" if any(a.counted for a in out.axes) else "examples"
        order = tuple(axis for axis in out.axes if axis in dims)
        value = writer.value(out.node)
        text = writer.fit(value, lead, order)
        if value.lead != lead or len(value.dims) < len(order):
            sizes = ", ".join(writer.lead_sizes(lead) + [writer.size(a) for a in order])
            text = f"np.broadcast_to({text}, ({sizes},))"
        writer.write(f'if "{out.name}" in wanted:')
        writer.write(f'    results["{out.name}"] = {text}')
    body = _rows_function(graph, arguments, positions, writer.lines)
    call = [
        "    " * 2 + line if line else "" for line in border_text.packed_call(graph, arguments, _mask(graph), positions)
    ]
    made = Written(call, body, writer.used | set(PACKED))
    made.memory = writer.memory()
    return made


def compiled_class(graph: Graph) -> str:
    """The name of the module's class."""
    return Names((*copying.names(), *CONSTANTS)).fresh(graph.name)


def _mask(graph: Graph) -> str:
    rows = mask_rows(graph)
    return rows[0][0] if rows else "attention_mask"


def _has_positions(graph: Graph) -> bool:
    return any(one.op == "position" for one in walk_all(graph.roots))


def _rows_function(graph: Graph, arguments: dict[str, str], positions: bool, lines: list[str]) -> list[str]:
    extra = ["positions"] if positions else []
    shown = [
        "self",
        "wanted: list[str]",
        "lengths: NDArray[np.intp]",
        "hidden: NDArray[np.bool_] | None",
        "index: NDArray[np.intp]",
        *(f"{name}: NDArray[Any]" for name in extra),
        *(f"{arguments[i.name]}: {'NDArray[Any]' if i.required else 'Any'}" for i in graph.inputs),
    ]
    head = [
        *border_text.header("rows", shown, "dict[str, NDArray[Any]]"),
        '        """The formulas, on n packed rows: the tokens of whole examples one after the other, `lengths` each.',
        "",
        "        `hidden` marks keys that nobody may see, `index` is each token's place in its example.",
        '        """',
        "        n = len(index)",
    ]
    return [*head, "        results: dict[str, NDArray[Any]] = {}", *lines, "        return results"]


def _prepare(graph: Graph, parameters: Parameters) -> tuple[list[str], set[str]]:
    writer = Writer(graph, Names((*copying.names(), "weights", "dtype", "threads", "self")), None, None)
    writer.indent = 2
    write_parameters(parameters, writer)
    return writer.lines, writer.used


class CallNames:
    """How `__call__` takes its inputs: `python`, the name of each in Python, and the arguments of its signature."""

    def __init__(self, graph: Graph, formula: Graph, labels: Sequence[str], made: Sequence[str]) -> None:
        inputs = [one.name for one in graph.inputs]
        if "outputs" in inputs:
            raise error(
                "X992",
                "no input can be called `outputs`: a module takes the names of results by it",
                help="Say `as` another name.",
            )
        extra = [mask for mask, _ in mask_rows(formula)]
        if _has_positions(formula) and "position_ids" not in inputs:
            extra.append("position_ids")
        extra += [one for one in labels if one not in (*inputs, *extra)]
        spoken = Names((*copying.names(), *CONSTANTS, *CALL))
        named = [*inputs, *extra]
        for one in sorted(named, key=lambda one: identifier(one) != one):  # ℒ must not take the name of L
            spoken.name(one, one)
        self.python = {one: spoken.name(one, one) for one in named}
        # what Python cannot call as the spec does comes by **others
        self.others = ["**others: Any"] if any(one != name for one, name in self.python.items()) else []
        replaced = [one.name for one in formula.inputs if one.instead or one.name in made]
        needed = [one.name for one in graph.inputs if one.required and one.name not in replaced]
        optional = [*replaced, *extra, *(one.name for one in graph.inputs if not one.required)]
        self.arguments = ["self, /" if self.others else "self"]
        self.arguments += [f"{self.python[one]}: Any{' = None' if self.others else ''}" for one in needed]
        self.arguments += [f"{self.python[one]}: Any = None" for one in optional]
        totals = ["totals: Any = None"] if graph.batch is None else []  # of an objective by itself
        self.of_loss = [*self.arguments, f"{SEED}: int | None = None", *totals, *self.others]
        self.arguments += [f"{SEED}: int = 0"] if draws(graph) else []
        self.arguments += ["outputs: Sequence[str] | None = None", *self.others]

    def given(self) -> list[str]:
        """The lines of the mapping from the ecosystem's names to what was given."""
        lines = [f'    "{one}": {name},' for one, name in self.python.items()]
        return [*lines, "    **others,"] if self.others else lines


def _fill(compiled: Compiled, parts: Written) -> str:
    graph, formula = compiled.graph, compiled.formula
    loss, lists, made = losses.parts(compiled), _listed(graph), defaults.parts(compiled)
    back = training.parts(compiled)
    name, called = compiled_class(graph), CallNames(graph, formula, loss.inputs, made.inputs)
    more = [name for name, used in (("listed", lists), ("grouped", formula.each and not formula.groups)) if used]
    decoder, stepping = decodes(formula, compiled.decoding), parts.stepping
    more += (*(GENERATING if decoder else ()), *(stepping.needs if stepping else ["Recomputed"] if decoder else ()))
    typed = ("Any", "NDArray", "Path", "Sequence", *(("Iterator",) if decoder else ()))
    library = copying.copied((*ALWAYS, *parts.needs, *loss.needs, *made.needs, *back.needs, *more), typed)
    methods = (*loss.methods, *made.methods, *back.methods, parts.body, *(stepping.methods if stepping else ()))
    weights = sum(math.prod(size for size in w.shape if isinstance(size, int)) for w in graph.weights)
    text = module_template("numpy").render(
        title=f"{name}: {comment(compiled.module.name, 60)} as a NumPy module, generated from its formulas.",
        about=[
            f"{weights:,} parameters. Needs numpy and the standard library. Example:",
            "",
            f'    model = {name}.load("folder with model.safetensors")',
            f'    model({", ".join(f"{i.name}=…" for i in graph.inputs if i.required)})["{graph.outputs[0].name}"]',
        ],
        imports=library.imports,
        type_imports=library.type_imports,
        types=library.types,
        inputs=repr(input_rows(formula)),
        masks=repr(mask_rows(formula)),
        limits=repr(limit_rows(over_batch(formula) if formula.batch is None else formula)),
        outputs=repr(tuple((o.name, tuple(_dimension(a) for a in o.axes)) for o in graph.outputs)),
        losses=repr(loss.rows) if loss.rows else "",
        defaults=repr(made.rows) if made.rows else "",
        completed=made.call and f"{made.call}{', LOSSES' if loss.rows else ''})",
        listed=repr(lists) if lists else "",
        decoder=repr(decoder.literal()) if decoder else "",
        stepping=stepping is not None,
        generation=repr(defaults_of(compiled)),
        checkpoint=table_source(_table(compiled), "").rstrip("\n") + "\n",
        name=name,
        doc=f"{name} with its weights; call it with a (padded) batch.",
        call_doc="Results by name, for a batch padded on either side; `outputs` chooses some of them.",
        prepare=parts.prepare,
        gradients=back.call() if back.methods else "",
        gradients_doc=back.doc,
        gradients_signature=border_text.header(
            "loss_and_gradients", called.of_loss, "tuple[float, dict[str, NDArray[Any]]]"
        ),
        signature=border_text.header("__call__", called.arguments, "dict[str, NDArray[Any]]"),
        given=called.given(),
        each=formula.each,
        own=repr(own) if (own := own_inputs(formula)) else "",
        call=loss.wrapped(_with_groups(_with_lists(parts.call, lists), "" if formula.groups else formula.each)),
        body=[line for lines in methods for line in (*lines, "")],
        kernels=library.texts,
    )
    return tidy(text)


def _listed(graph: Graph) -> dict[str, tuple[int, int]]:
    """For each result that is a tuple of steps, where their axes stand in the array, and how many they are."""
    return {out.name: (1, out.listed) for out in graph.outputs if out.listed}


def _with_lists(call: list[str], lists: dict[str, tuple[int, int]]) -> list[str]:
    """The lines of a call whose last one makes tuples of steps."""
    *lines, last = call
    return [*lines, f"        return listed({last.strip().removeprefix('return ')}, STEPS)"] if lists else call


def _with_groups(call: list[str], each: str) -> list[str]:
    """The lines of a call whose last one gives the results of each group."""
    *lines, last = call
    return [*lines, f"        return grouped({last.strip().removeprefix('return ')}, groups)"] if each else call


def _dimension(axis: Any) -> str:
    return str(axis.size) if isinstance(axis.size, int) else axis.name


def _table(compiled: Compiled) -> Any:
    made = compiled.module, compiled.config, compiled.entry, compiled.graph
    return checkpoint_table(weight_rows(*made))
