"""Corruptions: what a call looks like at the border, what a backend writes, and their meaning for one example.

A corruption speaks of one text, as a model does, and draws from a seed. Its text is what the mask shows, so padding is
no part of it; a result along a text's own length goes back to the caller's places, one of another length is padded on
the right. A number (a rate, an id) is one for all examples or one for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..grammar.diagnostics import did_you_mean, error
from . import kernels
from .config import Config
from .evaluate import Evaluator, Lengths
from .ir import Axis, Graph, Length, Node, Output, walk_all
from .ledger import Ledger
from .modules import Entry, Module
from .passes import running

Array = npt.NDArray[Any]

FILLS = {"labels": -100, "special_tokens_mask": 1}
"""What stands at padding: labels that count nothing, special tokens; ids have the padding token, others 0."""


@dataclass(frozen=True)
class Border:
    """The literals of a generated module.

    inputs   (name, its length or "" for a number, whether it is needed)
    masks    (name of the mask, the length that it is of)
    outputs  (name, its length or "", whether the length is new, what stands at padding, None: the padding token)
    shares   inputs that are shares between 0 and 1
    """

    inputs: tuple[tuple[str, str, bool], ...]
    masks: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str, bool, int | None], ...]
    shares: tuple[str, ...]
    pad: int


def names(module: Module) -> list[str]:
    """The corruptions of a spec."""
    return [entry.name for entry in module.of_kind("corruption")]


def choose(module: Module, name: str | None) -> Entry:
    """The corruption of this name; without a name the only one, or the first."""
    known = names(module)
    if not known:
        raise error(
            "N235",
            f"{module.name} has no corruption",
            help="One is declared like  corruption NAME(tokens[seq] as input_ids, …) → input_ids[out] = …",
        )
    if name is not None and name not in known:
        advice = did_you_mean(name, known) or f"It has {', '.join(known)}."
        raise error("N235", f"{module.name} has no corruption `{name}`", help=advice)
    return module.entries[name or known[0]]


def mask_of(name: str) -> str:
    """The mask that belongs to ids: attention_mask of input_ids, next_attention_mask of next_input_ids."""
    return f"{name.removesuffix('input_ids')}attention_mask" if name.endswith("input_ids") else f"{name}_mask"


def border(graph: Graph, config: Config) -> Border:
    """What a call of the corruption takes and gives. Raises `TransformulaError` for what no call can hold."""
    inputs = tuple((one.name, _length(graph, one.name, one.axes), one.required) for one in graph.inputs)
    masks: dict[str, str] = {}
    for name, length, needed in inputs:
        if length and length not in masks.values():
            if not needed:
                raise error("X992", f"{graph.name}: nothing but the optional input `{name}` tells its length")
            masks[mask_of(name)] = length
    outputs = []
    for out in graph.outputs:
        axis = next((one for one in out.axes if isinstance(one.size, Length) and one != graph.batch), None)
        new = axis is not None and isinstance(axis.size, Length) and axis.size.made is not None
        fill = None if out.name.endswith("input_ids") else FILLS.get(out.name, 0)
        outputs.append((out.name, _length(graph, out.name, out.axes), new, fill))
    return Border(inputs, tuple(masks.items()), tuple(outputs), tuple(_shares(graph)), _pad(config))


def _length(graph: Graph, name: str, axes: tuple[Axis, ...]) -> str:
    own = [axis for axis in axes if axis != graph.batch]
    if len(own) > 1 or any(not axis.ragged for axis in own):
        shown = ", ".join(axis.name for axis in own)
        raise error(
            "X992",
            f"{graph.name}: `{name}` has axes [{shown}], and a corruption takes and gives texts and numbers",
            help="A text has one length: tokens[seq]. A number has no axes.",
        )
    return str(own[0].size) if own else ""


def _pad(config: Config) -> int:
    """The padding token that config.json names, by default 0."""
    for name, option in config.module.options.items():
        if ("pad_token_id",) in option.keys:
            found = config.value(name)
            return int(found) if isinstance(found, Fraction) else 0
    return 0


def _shares(graph: Graph) -> Iterator[str]:
    """The numbers that are shares: what a yes or no is drawn with, is compared with a draw, or is taken of a count."""
    found: dict[str, None] = {}
    for one in walk_all(graph.roots):
        sides: tuple[Node, ...] = ()
        if one.op == "random" and one["draw"] == "bernoulli":
            sides = one.args
        elif one.op == "map" and one["fn"] in ("<", "<=") and _unit(one.args[0]):
            sides = one.args[1:]
        elif one.op == "map" and one["fn"] == "*" and any(map(_counts, one.args)):
            sides = one.args
        for side in sides:
            found.update(dict.fromkeys(_terms(graph, side)))
    return iter(found)


def _counts(one: Node) -> bool:
    return one.op == "reduce" and one.kind == "int"


def _unit(one: Node) -> bool:
    return one.op == "random" and one["draw"] == "uniform" and [arg.get("value") for arg in one.args] == [0, 1]


def _terms(graph: Graph, one: Node) -> Iterator[str]:
    """The inputs that a value is the sum of."""
    if one.op == "input" and one.axes == (graph.batch,):
        yield one["name"]
    elif one.op == "map" and one["fn"] == "+":
        for arg in one.args:
            yield from _terms(graph, arg)


# ------------------------------------------------------------------------------------------ what a backend writes


def planned(graph: Graph) -> tuple[Graph, dict[Length, Node]]:
    """The graph with running sums recognised, and the nodes that say how long each new length is.

    No pass runs that rounds another way: a draw is compared with a number, and must not change sides.
    """
    lengths = list(_new_lengths(graph.roots))
    counts = tuple(
        Output(f"length {place}", one.made, one.made.axes) for place, one in enumerate(lengths) if one.made is not None
    )
    found = running.run(replace(graph, outputs=(*counts, *graph.outputs)), Ledger()).rewrite(_one_sum)
    made = {one: out.node for one, out in zip(lengths, found.outputs, strict=False)}
    return replace(found, outputs=found.outputs[len(counts) :]), made


def _one_sum(one: Node) -> Node:
    """Running sums of one value are one, whichever loops they were."""
    if one.op != "kernel" or one["name"] != "running_sum":
        return one
    return kernels.make("running_sum", kernels.parts(one), one.axes, kind=one.kind, axis=one["axis"], loop=0)


def _new_lengths(roots: tuple[Node, ...]) -> Iterator[Length]:
    """The lengths that formulas make, those first that others count on."""
    seen: dict[Length, None] = {}
    stack = [(one, False) for one in _lengths_in(roots)]
    while stack:
        one, ready = stack.pop()
        if one in seen or one.made is None:
            continue
        if ready:
            seen[one] = None
            yield one
        else:
            stack.append((one, True))
            stack += [(inner, False) for inner in _lengths_in((one.made,)) if inner not in seen]


def _lengths_in(roots: tuple[Node, ...]) -> list[Length]:
    axes = (axis for one in walk_all(roots) for axis in (*one.axes, one.get("axis")) if axis is not None)
    return list(dict.fromkeys(a.size for a in axes if isinstance(a.size, Length) and a.size.made is not None))


# ------------------------------------------------------------------------------------------------- the meaning


def corrupted(graph: Graph, given: Mapping[str, Any], seed: int = 0, example: int = 0) -> dict[str, Array]:
    """What the formulas make of one text: `given` holds its tokens, without padding, and numbers, by name.

    `example` is the number that it has among all texts. Raises `TransformulaError` where an entry is read that does not
    exist.
    """
    assert graph.batch is not None
    lengths = Lengths({"batch": 1}, numbers={graph.batch: np.array([example])})
    inputs = {name: np.asarray(value, float)[None] for name, value in given.items()}
    for one in graph.inputs:
        for axis in one.axes[1:]:
            if one.name in inputs:
                count = inputs[one.name].shape[1]
                lengths.size[str(axis.size)], lengths.count[str(axis.size)] = count, np.array([count])
    evaluator = Evaluator(inputs, lambda name, axes: np.zeros(()), lengths, seed, training=True)
    results = {}
    for out in graph.outputs:
        value = evaluator(out.node).transpose([out.node.axes.index(axis) for axis in out.axes])[0]
        if np.isnan(value.astype(float)).any():
            raise error("I801", f"{graph.name} reads an entry that does not exist")
        results[out.name] = value.astype(np.int64)
    return results
