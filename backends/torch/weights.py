"""Weights as parameters: one per weight of the spec (a list over a stack), maps in the ecosystem's [out, in]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir import Axis, Graph, Node, Weight
from ..numpy.mangling import Names
from ..numpy.parameters import common_prefix, plain
from ..numpy.values import Value

if TYPE_CHECKING:
    from .writer import TorchWriter

Dims = tuple[Axis, ...]


class WeightNames:
    """The attribute of each weight, and how it is read."""

    def __init__(self, graph: Graph, names: Names) -> None:
        self.of = {weight.name: weight for weight in graph.weights}
        prefix = common_prefix(graph)
        self.attribute = {name: names.fresh(plain(name).removeprefix(prefix)) for name in self.of}

    def is_stack_pick(self, one: Node) -> bool:
        """Whether the node chooses one weight of a stack."""
        if one.op != "pick" or one.args[0].op != "weight":
            return False
        return set(one["keys"]) == set(self.of[one.args[0]["name"]].stack)

    def is_weight(self, one: Node) -> bool:
        """Whether the node is a weight as it is stored."""
        return (one.op == "weight" and not self.of[one["name"]].stack) or self.is_stack_pick(one)

    def weight(self, one: Node) -> Weight:
        """The weight that a node reads."""
        return self.of[one["name"] if one.op == "weight" else one.args[0]["name"]]

    def is_matrix(self, weight: Weight) -> bool:
        """Whether a weight is stored as [out, in]: a map without carried axes."""
        own = weight.axes[len(weight.stack) :]
        return weight.outs is not None and bool(weight.outs) and set(own) == {*weight.ins, *weight.outs}

    def matrix(self, product: Node) -> tuple[Dims, Dims]:
        """(consumed, made) axes of a product with a matrix, in the matrix's order.

        A table of two axes is a matrix for whoever sums over its last one: its rows are what is made.
        """
        weight = self.weight(product.args[1])
        if weight.outs is not None:
            return weight.ins, weight.outs
        own = weight.axes[len(weight.stack) :]
        return own[1:], own[:1]

    def linear(self, product: Node) -> Dims | None:
        """The axes that a product with a matrix makes, or None if it is no such product."""
        if product.op != "contract" or not self.is_weight(product.args[1]):
            return None
        weight = self.weight(product.args[1])
        table = weight.outs is None and len(weight.axes) == len(weight.stack) + 2
        if not (table or self.is_matrix(weight)):
            return None
        consumed, made = self.matrix(product)
        if set(product["over"]) != set(consumed):
            return None
        return made if not set(made) & set(product.args[0].axes) else None

    def text(self, one: Node, writer: TorchWriter, flat: bool = False) -> str:
        """The parameter as it is stored, or `flat`: with its axes as one."""
        weight = self.weight(one)
        places = ""
        if one.op == "pick":
            places = "".join(f"[{writer.value(number).text}]" for number in one.args[1:])
        return f"self.{self.attribute[weight.name]}{places}{'.flatten()' if flat and len(one.axes) > 1 else ''}"

    def value(self, one: Node, writer: TorchWriter) -> Value:
        """The weight with one dimension per axis."""
        weight = self.weight(one)
        places = ""
        if one.op == "pick":
            places = "".join(f"[{writer.value(number).text}]" for number in one.args[1:])
        text = f"self.{self.attribute[weight.name]}{places}"
        own = tuple(axis for axis in weight.axes[len(weight.stack) :])
        if not self.is_matrix(weight):
            return Value(text, "", own, reorder="permute")
        dims = (*(weight.outs or ()), *weight.ins)
        if len(dims) > 2:
            text += f".view({', '.join(writer.size(axis) for axis in dims)})"
        return Value(text, "", dims, reorder="permute")
