"""A model (or objective) of a spec → its formula graph; and the check of a whole file.

A model speaks of one example: its inputs are lifted along `batch`, and each length axis of an input belongs to it.
An objective names its batch: its inputs' first axis owns their lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..grammar import syntax as s
from ..grammar.diagnostics import TransformulaError, did_you_mean, error
from . import calls, expressions, ir, showing, wording
from .config import Config
from .ir import Axis, Graph, Length, Node
from .modules import Entry, Module
from .names import is_none
from .scope import Scope, Session
from .ties import tied
from .values import Choice, Poisoned, Tensor

BATCH = Axis("batch", Length("batch"))
ORDINARY = ("batch", "attention_mask", "input_mask", "padding_mask", "mask_padding")


def entries(module: Module) -> list[str]:
    """The names of what can be compiled, models first."""
    return [one.name for kind in ("model", "objective") for one in module.of_kind(kind)]


def choose_entry(module: Module, name: str | None) -> Entry:
    """The model or objective to compile: the named one, else the first model of the spec's own file."""
    known = entries(module)
    if name is not None:
        every = [*known, *(one.name for one in module.of_kind("corruption"))]
        if name not in every:
            advice = did_you_mean(name, every) or f"It has {', '.join(every)}."
            raise error("N230", f"{module.name} has no model or objective `{name}`", help=advice)
        return module.entries[name]
    own = [n for n in known if n in module.own and module.entries[n].definition.kind == "model"]
    if own or known:
        return module.entries[(own or known)[0]]
    corrupting = module.of_kind("corruption")
    if corrupting:
        return corrupting[0]
    raise error(
        "N231",
        f"{module.name} has no model to compile",
        module.file.span,
        help="A model is declared like  model Name(tokens[seq] as input_ids) → [d] = …",
    )


def lower_entry(
    entry: Entry, config: Config, session: Session | None = None, shows: Iterable[str] = (), batch: Axis = BATCH
) -> Graph:
    """The formula graph of a model or objective. Raises all mistakes found on the way at once.

    `shows` are the results on demand that are wanted, by name; others are no part of the graph. A model is lifted along
    `batch`.
    """
    session = session or Session(entry.module, config)
    session.shows = frozenset(shows)
    definition = entry.definition
    session.whole = definition.kind
    objective = definition.kind == "objective"
    session.batch = None if objective else batch
    scope = Scope(session, config, entry.module, entry, lifted=frozenset() if objective else frozenset({batch}))
    try:
        inputs = _inputs(scope, definition, objective)
        scope.take(definition.body.where)
        showing.register_all(scope, definition)
        made = list(tied(scope, _outputs(scope, definition)))
        inputs += [one for name, one in session.asked.items() if name not in [i.name for i in inputs]]
    except Poisoned:
        made = []
    except TransformulaError as fault:
        for one in fault.diagnostics:
            session.diagnostics.add(one)
        made = []
    session.diagnostics.check()
    outputs = tuple(made)
    kinds = _kinds(outputs)
    told = tuple(replace(one, kind=kinds.get(one.name, one.kind)) for one in _read(inputs, definition, outputs))
    told = tuple(replace(one, instead=_instead(one, outputs)) if one.required else one for one in told)
    used = {one["name"] for one in ir.walk_all([o.node for o in outputs]) if one.op == "weight"}
    weights = tuple(w for name, w in session.weights.items() if name in used)
    each = definition.each.name if definition.each and not objective else ""
    return Graph(entry.name, outputs, told, weights, session.origins, session.batch, each=each)


def _inputs(scope: Scope, definition: s.Definition, objective: bool) -> list[ir.Input]:
    found: list[ir.Input] = []
    batch = owner = scope.session.batch
    for param in definition.params or ():
        if not objective:
            _no_batch(scope, param)
        axes: list[Axis] = [] if batch is None else [batch]
        for name in param.axes.names if param.axes else ():
            axis = scope.axes.get(name.name) or scope.config.axis(name.name)
            if axis is None:
                if objective and owner is None:
                    axis = owner = Axis(name.name, Length(name.name))
                else:
                    axis = Axis(name.name, Length(name.name), owner)
            scope.axes[name.name] = axis
            axes.append(axis)
        name_ = param.alias or param.name
        default = _default(scope, param, axes)
        scope.values[param.name] = Tensor(ir.input_(name_, axes, "unknown", default))
        found.append(ir.Input(name_, param.name, tuple(axes), "real", default is None))
    return found


def _default(scope: Scope, param: s.Param, axes: list[Axis]) -> Node | None:
    """What stands in for an input that is not given. One of another length is made before (defaults.py)."""
    value = None if param.default is None or is_none(param.default) else expressions.lower(scope, param.default)
    if param.default is None or value is None or value == Choice(None):
        return None
    made = expressions.tensor(scope, value, param.default).node
    return None if any(axis.counted and axis not in axes for axis in made.axes) else made


def _read(inputs: list[ir.Input], definition: s.Definition, outputs: Iterable[ir.Output]) -> list[ir.Input]:
    """The inputs without those that are `none` unless config reads them, where it does not."""
    nodes = ir.walk_all([out.node for out in outputs])
    read = {str(node["name"]) for node in nodes if node.op == "input"}
    needless = {param.name for param in definition.params or () if is_none(param.default)}
    return [one for one in inputs if one.name in read or one.spec_name not in needless]


def _instead(one: ir.Input, outputs: Iterable[ir.Output]) -> str:
    """The optional input that can stand in for a needed one: all else only asks which token it is not.

    With embeddings given, nobody reads the ids but to compare them with the id of padding.
    """
    nodes = list(ir.walk_all([o.node for o in outputs]))
    copies = {node for node in nodes if node.op == "input" and node["name"] == one.name}
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        for arg in dict.fromkeys(node.args):
            readers.setdefault(arg, []).append(node)
    found: set[str] = set()
    for node in nodes:  # arguments come first
        if not copies.intersection(node.args):
            continue
        if node.op in ("rename", "widen") or (node.op == "pick" and node.args[0] in copies):
            copies.add(node)
        elif node.op == "pick" and node.args[0].op == "weight":
            found.update(_enters(node, readers))
        elif not (_compares(node) or (node.op == "loop" and not copies.intersection(node.args[: node["slots"]]))):
            return ""
    return found.pop() if len(found) == 1 else ""


def _enters(node: Node, readers: Mapping[Node, Sequence[Node]]) -> Iterator[str]:
    """The inputs whose defaults are made of a value, entry by entry; '' for any other reader."""
    reached, waiting = {node}, [node]
    for here in waiting:
        for reader in readers.get(here, ()):
            if reader.op != "map":
                yield str(reader["name"]) if reader.op == "input" else ""
            elif reader not in reached:  # Gemma's embeddings are scaled
                reached.add(reader)
                waiting.append(reader)


def _compares(node: Node) -> bool:
    return node.op == "map" and node["fn"] in ("==", "!=")


def _no_batch(scope: Scope, param: s.Param) -> None:
    kind = scope.session.whole
    axes = {name.name: name for name in (param.axes.names if param.axes else ())}
    if "batch" in axes:
        raise scope.fail(
            "S401",
            f"a {kind} speaks of one example",
            axes["batch"].span,
            help="Batches and padding are added when the module is compiled; attention_mask is an input of the "
            "generated module already. Remove both. (Objectives may name `batch`.)",
        )
    if (param.alias or param.name) in ORDINARY:
        raise scope.fail(
            "S401",
            f"a {kind} speaks of one example, which has no padding",
            param.span,
            help=f"`{param.alias or param.name}` is an input of the generated module already: leave it out here.",
        )


def _outputs(scope: Scope, definition: s.Definition) -> list[ir.Output]:
    made: list[ir.Output] = []
    single = len(definition.outputs) == 1
    for name, value in calls.results(scope, definition).items():
        named = (*definition.outputs, *definition.body.shows)
        written = next((o for o in named if (o.name or "") == name), definition.outputs[0])
        tensor = expressions.tensor(scope, value, written.value)
        _defined(scope, tensor, written)
        lifted = [a for a in tensor.axes if not scope.visible(a)]
        visible = [a for a in tensor.axes if scope.visible(a)]
        if written.axes is not None:
            visible = [a for n in written.axes for a in [scope.find(tensor, n.name)] if a is not None]
        node = tensor.node
        if scope.session.batch is not None and scope.session.batch not in node.axes:
            node, lifted = ir.widen(node, scope.session.batch), [scope.session.batch]
        if definition.kind == "objective" and written is definition.outputs[0] and written.axes is None:
            _one_number(scope, tensor, written)
        default = "loss" if definition.kind == "objective" and single else "output"
        listed = [axis for axis in lifted if axis in scope.session.listed]
        lifted = [axis for axis in lifted if axis not in listed]
        made.append(ir.Output(name or default, node, (*lifted, *listed, *visible), len(listed)))
    return made


def _defined(scope: Scope, tensor: Tensor, written: s.Output) -> None:
    if tensor.bottom is not None:
        raise scope.fail(
            "M505",
            "a result may not be -∞ outside a relation",
            written.value.span,
            help="Give the relation itself as the result, or what the softmax makes of it.",
        )


def _one_number(scope: Scope, tensor: Tensor, written: s.Output) -> None:
    have = wording.names(scope, tensor)
    if have:
        raise scope.fail(
            "A106",
            f"a loss is one number, and this has axes [{', '.join(have)}]",
            written.value.span,
            help=f"Average over {' and '.join(have)}, too: mean[…, {', '.join(have)}](…).",
        )


def _kinds(outputs: Iterable[ir.Output]) -> dict[str, str]:
    """What each input holds, by how it is used: places are integers, conditions truth values, the rest numbers."""
    kinds: dict[str, str] = {}
    for one in ir.walk_all([o.node for o in outputs]):
        places: tuple[tuple[Node, str], ...] = ()
        if one.op == "pick":
            places = tuple((arg, "int") for arg in one.args[1:])
        elif one.op == "map" and one["fn"] in ("and", "or", "not"):
            places = tuple((arg, "bool") for arg in one.args)
        elif one.op == "map" and one["fn"] == "where":
            places = ((one.args[0], "bool"),)
        elif one.op == "map" and one["fn"] in ("==", "!="):
            places = tuple((arg, "int") for arg in one.args if any(o.kind == "int" for o in one.args))
        elif one.op == "reduce" and (len(one.args) > 1 or one["reduction"] in ("count", "any", "all")):
            places = ((one.args[-1], "bool"),)
        for arg, kind in places:
            for source in sources(arg):
                kinds.setdefault(source, kind)
    return kinds


def sources(one: Node) -> list[str]:
    """The inputs that a value is a plain copy of (renamed, or chosen by a condition)."""
    found, stack = [], [one]
    while stack:
        here = stack.pop()
        if here.op == "input":
            found.append(str(here["name"]))
        elif here.op in ("rename", "widen") or here.op == "pick":
            stack.append(here.args[0])
        elif here.op == "map" and here["fn"] == "where":
            stack.extend(here.args[1:])
        elif here.op == "map" and here["fn"] in ("+", "-", "max", "min") and here.kind == "unknown":
            stack.extend(here.args)
    return found
