"""A corruption → the text of a standalone module with PyTorch, whose draws are those of the NumPy module."""

from __future__ import annotations

from ...compiler import kernels as kernel_table
from ...compiler.corruptions import border, planned
from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Graph, Node
from ...grammar.diagnostics import error
from ..numpy.copying import Library
from ..numpy.corrupting import LOCALS, OneText, page, write
from ..numpy.mangling import Names
from ..numpy.values import Unsupported, Value
from ..pages import module_template, tidy
from . import expressions
from .weights import WeightNames
from .writer import TorchWriter

LIBRARY = Library("transformula.backends.torch", ("functions", "drawing"))


class CorruptionWriter(OneText, TorchWriter):
    """The lines of PyTorch: what has no axes is a number, or a tensor without dimensions."""

    dtype = "torch.float64"
    arange, repeat = "torch.arange({0}, device=device)", "torch.repeat_interleave({0}, {1})"
    order_of, floor = "{0}.argsort(dim=-1, stable=True)", "torch.floor({0}).long()"
    where = ", device"

    def __init__(self, graph: Graph, names: Names) -> None:
        super().__init__(graph, names, WeightNames(graph, Names()), {})

    def _from_the_first(self, axis: Axis, dims: tuple[Axis, ...]) -> str:
        return ""

    def _widen(self, one: Node) -> Value:
        if one["axis"] == self.batch:  # each text has it
            return self.value(one.args[0])
        value = self.value(one.args[0])
        dims = (*value.dims, one["axis"])
        return Value(self.broadcast(value, "", dims), "", dims, wide=True)

    def _kernel(self, one: Node) -> Value:
        if one["name"] != "running_sum":
            return super()._kernel(one)
        value = self.value(kernel_table.parts(one)["x"])
        text = f"{value.wrapped}.cumsum(dim={value.dims.index(one['axis'])})"
        return Value(text, "", value.dims, wide=True)

    def number(self, text: str, one: Node) -> str:
        """A plain number as a tensor: none becomes single precision on the way."""
        kind = {"bool": "torch.bool", "int": "torch.int64"}.get(one.kind, "torch.float64")
        return f"torch.as_tensor({text}, dtype={kind}, device=device)"

    def _operand(self, one: Node, value: Value, arg: Node, lead: str, dims: tuple[Axis, ...], wide: bool) -> str:
        if value.number and one["fn"] in expressions.NUMBERS:
            return self.number(value.text, arg)
        return super()._operand(one, value, arg, lead, dims, wide)

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        if first.number:
            first = Value(self.number(first.text, one.args[slot]), wide=True)
        return super().start_state(one, slot, name, first)


def emit(compiled: Compiled) -> str:
    """The text of the module. Raises `TransformulaError` for what it cannot hold."""
    graph, counts = planned(compiled.formula)
    edge = border(compiled.formula, compiled.config)
    try:
        writer = CorruptionWriter(graph, Names((*LIBRARY.names(), *LOCALS, "device", "torch", "F")))
        arguments = write(writer, edge, counts)
    except Unsupported as fault:
        raise error("X992", f"`{compiled.entry}` cannot be written with PyTorch yet: {fault}") from None
    library = LIBRARY.copied({*writer.used, "Texts"}, ())
    others = (*library.imports, *library.type_imports)
    return tidy(
        module_template("torch", "corruption").render(
            **page(compiled, edge, "PyTorch"),
            imports=sorted(line for line in others if line and "torch" not in line and "numpy" not in line),
            types=library.types,
            arguments=arguments,
            first=arguments[len(edge.masks)],
            body=writer.lines,
            kernels=library.texts,
        )
    )
