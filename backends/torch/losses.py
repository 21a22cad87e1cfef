"""The objectives of a model in its `forward`: computed from the results, where labels are given."""

from __future__ import annotations

from ...compiler.driver import Compiled
from ...compiler.ir import Graph, walk_all
from ..numpy.mangling import Names, comment
from ..numpy.values import Unsupported, Value, aligned
from ..objectives import loss_rows
from .border import Border
from .weights import WeightNames
from .writer import TorchWriter


class LossWriter(TorchWriter):
    """Writes an objective: a label that is no place makes it NaN, where a module must not look at values."""

    picker = "taken"


class Losses:
    """The labels as arguments of `forward`, and the lines that follow its results."""

    def __init__(self, compiled: Compiled, names: Names) -> None:
        self.rows = loss_rows(compiled)
        self.compiled, self.names = compiled, names
        labels = dict.fromkeys(one[0] for row in self.rows for one in row[1])
        self.arguments = {name: names.fresh(name) for name in labels}
        self.read = sorted({name for row in self.rows for name in row[2]})
        self.used: set[str] = set()

    def lines(self, at: Border, weights: WeightNames, results: dict[str, str], enter: list[str]) -> list[str]:
        """`if labels is not None: …` for each objective; `results` are the variables that hold the results.

        `enter` are lines that find the places of a padded batch, where `forward` has not done so.
        """
        found: list[str] = []
        for loss, (name, own, _, _) in zip(self.compiled.losses, self.rows, strict=True):
            given = [f"{self.arguments[one[0]]} is not None" for one in own]
            ranks = [f"{self.arguments[one[0]]}.dim() == {len(one[2])}" for one in own]
            others = [name for name in self.arguments if name not in {one[0] for one in own}]
            given += [f"{self.arguments[name]} is None" for name in others]
            more = ranks if len(self.rows) > 1 else []
            found.append(f"if {' and '.join([*given, *more])}:  # the objective {comment(name, 40)}")
            lengths = dict(at.lengths)
            if self.compiled.formula.each:
                enter = self._groups(lengths, results[self.read[0]])
            along = any(axis.ragged and axis.owner for one in loss.graph.inputs for axis in one.axes)
            found += ["    " + line for line in (enter if along else enter[:1])]  # the first line is the batch's
            found += self._body(loss.graph, at, lengths, weights, results, bool(enter))
        return found

    def _groups(self, lengths: dict[str, str], result: str) -> list[str]:
        """Lines that make the choices of an example a length all of whose entries are seen."""
        each = self.compiled.formula.each
        text = lengths[each] = self.names.fresh(each)
        names = ", ".join(f"{name}_{text}" for name in ("index", "real", "count", "first", "source"))
        self.used.add("places")
        return [
            f"device, dtype, batch, {text} = {result}.device, {result}.dtype, *groups",
            f"visible_{text} = torch.ones(groups, dtype=torch.bool, device=device)",
            f"{names} = places(visible_{text})",
        ]

    def _body(
        self,
        graph: Graph,
        at: Border,
        lengths: dict[str, str],
        weights: WeightNames,
        results: dict[str, str],
        packed: bool,
    ) -> list[str]:
        writer = LossWriter(graph, self.names, weights, lengths)
        writer.batch = next(axis for one in graph.inputs for axis in one.axes if axis.owner is None and axis.ragged)
        writer.indent = 1
        kinds = {one.name: one.kind for one in graph.inputs}
        for node in walk_all(graph.roots):
            if node.op == "input":
                name = str(node["name"])
                if packed and name in at.arguments:
                    raise Unsupported("an objective that reads inputs of the model")
                text = results.get(name) or self.arguments.get(name) or at.arguments[name]
                wide = kinds[name] in ("int", "bool")
                writer.memo[node] = Value(text, "", node.axes, wide=wide, reorder="permute")
        writer.body(graph.roots)
        for out in graph.outputs:
            writer.write(f'results["{out.name}"] = {aligned(writer.value(out.node), "", out.axes)}')
        self.used |= writer.used
        return writer.lines
