"""What a model decodes: `logits` over the numbers that its own tokens have.

The result named `logits` has one entry for each token and each entry of a vocabulary; an input along the same length
picks rows of a table along that very axis. Whether it is causal is for causality.py to prove.
"""

from __future__ import annotations

from ..ir import Axis, Graph, Node, walk_all

RESULT = "logits"


def tokens_of(graph: Graph) -> str | None:
    """The input that holds the tokens; None for a model that predicts no tokens.

    With results on demand, which are compiled apart, a model does not decode: the plain one beside it does.
    """
    found = [out for out in graph.outputs if out.name == RESULT]
    shown = any(out.listed for out in graph.outputs)
    if not found or shown or graph.batch is None or graph.each:
        return None
    (out,) = found
    lengths = [axis for axis in out.axes if axis.counted]
    vocabularies = [axis for axis in out.axes if isinstance(axis.size, int)]
    if len(lengths) != 1 or len(vocabularies) != 1 or len(out.axes) != 3:
        return None
    for one in walk_all([out.node]):
        if one.op == "pick":
            name = _picked_by(one, vocabularies[0], lengths[0])
            if name is not None:
                return name
    return None


def _picked_by(one: Node, vocabulary: Axis, length: Axis) -> str | None:
    """The input along the length that a row of a table is picked by."""
    for key, place in zip(one["keys"], one.args[1:], strict=True):
        if (key.name, key.size) != (vocabulary.name, vocabulary.size):
            continue
        while place.op in ("rename", "widen"):
            place = place.args[0]
        if place.op == "input" and any(axis.size == length.size for axis in place.axes):
            return str(place["name"])
    return None
