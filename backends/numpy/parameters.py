"""Parameters: values made of weights alone are prepared once, when a model is loaded, in the layout that is read.

A parameter that is chosen by numbers from a stack of weights (one per layer) becomes a list over the stack; inside the
loop it is read by the same number, so a weight shared by layers is prepared once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Graph, Node, walk
from ...compiler.passes.parameters import has_weight, of_any_number, stack_picks
from .mangling import Names
from .values import Value, aligned, transposed

if TYPE_CHECKING:
    from .writer import Writer

Layout = tuple[tuple[Axis, ...], ...]
PLAIN = ("weight", "pick", "rename", "concat")
"""What only moves the numbers of weights: anything else is computed in float64, whatever type they are stored in."""


@dataclass
class Prepared:
    """One attribute of the module: a parameter in a layout (groups of axes, one per dimension)."""

    node: Node
    layout: Layout
    attribute: str
    stack: tuple[Axis, ...]


@dataclass
class Parameters:
    """All parameters that a module needs, each with its attribute."""

    graph: Graph
    names: Names
    found: dict[tuple[Node, Layout], Prepared] = field(default_factory=dict)
    _shapes: dict[tuple[object, ...], Prepared] = field(default_factory=dict)

    def array(self, one: Node, writer: Writer) -> Value:
        """The parameter with one dimension per axis, in the node's own order."""
        return self.laid_out(one, tuple((axis,) for axis in one.axes), writer, one.axes)

    def laid_out(self, one: Node, layout: Layout, writer: Writer, dims: tuple[Axis, ...]) -> Value:
        """The parameter with one dimension per group of axes; `dims` names them."""
        picks = stack_picks(one, writer.stacks) or {}
        key = (of_any_number(one, picks, writer.stacks), layout)
        if key not in self.found and picks and all(number.op == "const" for number in picks.values()):
            key = (one, layout)  # one entry of the stack, not all
        if key not in self.found:
            stack = () if picks and key[0] is one else tuple(picks)
            self.found[key] = Prepared(key[0], layout, self.names.fresh(self._wish(one)), stack)
        prepared = self.found[key]
        indices = "".join(f"[{writer.value(picks[axis]).text}]" for axis in prepared.stack)
        return Value(f"self.{prepared.attribute}{indices}", "", dims, wide=not has_weight(one))

    def _wish(self, one: Node) -> str:
        """A name after the weights inside, without what all weights of the model begin with: layer_attn_W_QKV."""
        paths = [plain(part["name"]) for part in walk([one]) if part.op == "weight"]
        paths = [path.removeprefix(self._common) for path in dict.fromkeys(paths)]
        if not paths:
            origin = self.graph.origins.get(one)
            return origin.name if origin and origin.name else "table"
        stems = {path.rpartition(".")[0] for path in paths}
        if len(stems) > 1 or len(paths) > 6:
            return paths[0] + "_and_more"
        return ".".join(filter(None, (stems.pop(), _together([path.rpartition(".")[2] for path in paths]))))

    @cached_property
    def _common(self) -> str:
        return common_prefix(self.graph)


def common_prefix(graph: Graph) -> str:
    """The instances that every weight of the model lies in: `bert.`"""
    parts = [plain(weight.name).split(".")[:-1] for weight in graph.weights]
    depth = 0
    while parts and all(len(p) > depth and p[depth] == parts[0][depth] for p in parts):
        depth += 1
    return "".join(f"{part}." for part in parts[0][:depth]) if parts else ""


def plain(path: str) -> str:
    """The path without the axes of stacks."""
    return re.sub(r"\[[^\]]*\]", "", path)


def _together(names: list[str]) -> str:
    """W_Q, W_K, W_V as W_QKV; other names side by side."""
    stems = {name[:-1] for name in names}
    return names[0][:-1] + "".join(name[-1] for name in names) if len(stems) == 1 else "_".join(names)


def write_parameters(parameters: Parameters, writer: Writer) -> None:
    """The lines of __init__ that prepare every parameter."""
    done: set[str] = set()
    groups: dict[tuple[Axis, ...], list[Prepared]] = {}
    for prepared in parameters.found.values():
        groups.setdefault(prepared.stack, []).append(prepared)
    for stack, members in groups.items():
        for prepared in members:
            if stack:
                writer.write(f"self.{prepared.attribute} = []")
        _write_group(writer, stack, members, done)


def _write_group(writer: Writer, stack: tuple[Axis, ...], members: list[Prepared], done: set[str]) -> None:
    from .writer import Writer as DenseWriter

    variables: dict[Axis, str] = {}
    for depth, axis in enumerate(stack):
        variable = variables[axis] = writer.names.fresh(axis.name[:1] if axis.name else "i")
        writer.write(f"for {variable} in range({axis.size}):")
        writer.indent += 1
        if depth + 1 < len(stack):
            for prepared in members:
                writer.write(f"self.{prepared.attribute}.append([])")
    inner = _WeightWriter(writer, variables)
    assert isinstance(inner, DenseWriter)
    for prepared in members:
        inner.exact = any(one.op not in PLAIN for one in walk([prepared.node]) if has_weight(one))  # type: ignore[attr-defined]
        inner.body([prepared.node])
        text = _arranged(inner, inner.value(prepared.node), prepared.layout)
        if stack:
            places = "".join(f"[{variables[axis]}]" for axis in stack[:-1])
            writer.write(f"self.{prepared.attribute}{places}.append({text})")
        else:
            writer.write(f"self.{prepared.attribute} = {text}")
    writer.indent -= len(stack)


def _arranged(writer: Writer, value: Value, layout: Layout) -> str:
    """Text that turns the value into the layout, contiguous and in the model's type."""
    dims = tuple(axis for group in layout for axis in group)
    text = aligned(value, "", dims) if set(value.dims) == set(dims) else value.text
    if any(len(group) > 1 for group in layout):
        sizes = ", ".join(str(_size(group)) for group in layout)
        text = f"{transposed(value, dims).wrapped}.reshape({sizes})"
    if value.wide:
        return f'np.asarray({text}, order="C")'
    writer.need("prepared")
    return f"prepared({text}, self.dtype)"


def _size(group: tuple[Axis, ...]) -> int:
    total = 1
    for axis in group:
        assert isinstance(axis.size, int)
        total *= axis.size
    return total


def _weight_writer() -> type[Writer]:
    from .values import LONGEST
    from .writer import Writer as Base

    class WeightWriter(Base):
        """Writes parameters from the weights as they come from a checkpoint."""

        dtype = "np.float64"
        exact = False  # whether stored numbers are made float64 first, since there is something to compute

        def __init__(self, outer: Writer, variables: dict[Axis, str]) -> None:
            super().__init__(outer.graph, outer.names, None, None)
            self.lines, self.indent, self.used = outer.lines, outer.indent, outer.used
            self._variables = variables

        def _weight(self, one: Node) -> Value:
            return self._stored(f"weights[{one['name']!r}]", one)

        def _pick(self, one: Node) -> Value:
            base = one.args[0]
            stack = self.stacks.get(base["name"], ()) if base.op == "weight" else ()
            if stack and set(one["keys"]) == set(stack):
                numbers = dict(zip(one["keys"], one.args[1:], strict=True))
                indices = "".join(f"[{self._variables.get(axis) or int(numbers[axis]['value'])}]" for axis in stack)
                return self._stored(f"weights[{base['name']!r}]{indices}", one)
            return super()._pick(one)

        def _stored(self, text: str, one: Node) -> Value:
            return Value(f"np.asarray({text}, np.float64)" if self.exact else text, "", one.axes)

        def settled(self, one: Node, found: Value) -> Value:
            return self.assigned(one, found) if len(found.text) > LONGEST else found

        def is_ready(self, one: Node) -> bool:
            return one.op == "const" or self._part_of_pick(one)

        def _part_of_pick(self, one: Node) -> bool:
            """A stacked weight, and the number that chooses from it, are written by their pick."""
            return (bool(one.free) and not has_weight(one)) or (
                one.op == "weight" and bool(self.stacks.get(one["name"]))
            )

    return WeightWriter


def _WeightWriter(outer: Writer, variables: dict[Axis, str]) -> Writer:
    return _weight_writer()(outer, variables)  # type: ignore[call-arg, arg-type]
