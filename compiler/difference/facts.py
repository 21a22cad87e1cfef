"""What is true of a model by meaning, whatever its formulas look like: a row of FACTS each, read off the graph.

The graph is the one in which meanings are recognised: norms, activations and attention are nodes there. A fact that has
nothing to say of a model is an empty text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import ops
from ..graphs import Graph
from ..ir import Axis, Node, ordered
from .visibility import Reach, reach

NORMS = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}
ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_tanh": "GELU in its tanh form",
    "quick_gelu": "quick GELU",
    "silu": "SiLU",
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "sigmoid": "sigmoid",
}
VIEWS = ("rename", "widen", "split", "merge", "pick")


class Facts:
    """A graph as facts are read off it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes()
        self.layers = [one for one in self.nodes if one.op == "loop" and isinstance(one["axis"].size, int)]
        self.inside = frozenset(one["loop"] for one in self.layers)

    @cached_property
    def attentions(self) -> list[Node]:
        """The attentions in layers."""
        return [one for one in self.kernels("attention") if self.in_layers(one)]

    def in_layers(self, one: Node) -> bool:
        """Whether a node is computed in each layer."""
        return bool(one.free & self.inside)

    def kernels(self, *names: str) -> Iterator[Node]:
        """The nodes of recognised meanings."""
        return (one for one in self.nodes if one.op == "kernel" and one["name"] in names)

    def below(self, one: Node) -> Iterator[Node]:
        """What a node is made of, itself last; in a step of a loop, of that step."""
        return ordered([one], lambda here: here.args)


@dataclass(frozen=True)
class Fact:
    """A row: its name, what it says of a graph, and whether a model without it is worth a word ("no …")."""

    name: str
    says: Callable[[Facts], str]


def facts(graph: Graph) -> dict[str, str]:
    """What each fact says of a graph in which meanings are recognised."""
    found = Facts(graph)
    return {row.name: row.says(found) for row in FACTS}


# ------------------------------------------------------------------------------------------------- positions


def positions(of: Facts) -> str:
    """Where a token's place comes in: a table, sines, rotation, a bias by distance; and what counts the places."""
    told = list(dict.fromkeys(_table(one, of) for one in of.nodes if _is_places(one)))
    if _rotates(of):
        told.append("queries and keys turned by their place (rotary)")
    elif any(one.op == "map" and one["fn"] == "sin" for one in of.nodes):
        told.append("sines and cosines, added to the embeddings")
    if any("bias" in one["roles"] and _distances(_role(one, "bias")) for one in of.attentions):
        told.append("a learned bias of scores by distance")
    elif any(_distances(_role(one, "scores")) for one in of.attentions if "scores" in one["roles"]):
        told.append("scores by distance")
    return " and ".join(told) or "none"


def _is_places(one: Node) -> bool:
    """A pick of a table, outside the layers, by what counts tokens and no input alone."""
    if one.op != "pick" or one.args[0].op != "weight" or len(one.args) != 2 or one.args[0].free:
        return False
    key = one.args[1]
    counting = any(part.op in ("position", "index") or part.get("name") == "position_ids" for part in _deep(key))
    return counting and len([axis for axis in key.axes if axis.counted]) == 1


def _table(one: Node, of: Facts) -> str:
    key = one.args[1]
    given = [part for part in _deep(key) if part.op == "input" and part["name"] != "position_ids"]
    if given:
        names = ", ".join(dict.fromkeys(part["name"] for part in given))
        return f"a learned table at places that follow {names}"
    counted = [_number(key, step) for step in range(3)]
    shown = ", ".join(f"{one:g}" for one in counted if one is not None)
    return f"a learned table at {shown}, …" if shown else "a learned table"


def _deep(one: Node) -> Iterator[Node]:
    return ordered([one], lambda here: (*here.args, *here["body"]) if here.op == "loop" else here.args)


def _number(key: Node, step: int) -> float | None:
    """The value of an expression at a place, where its number is the place; None if more goes into it."""
    values: dict[Node, float | None] = {}
    for one in ordered([key], lambda here: here.args):
        args = [values[arg] for arg in one.args]
        made: float | None = None
        if one.op in ("position", "index"):
            made = step
        elif one.op == "const":
            made = float(one["value"])
        elif one.op in ("rename", "widen") or (one.op == "input" and args):
            made = args[0]
        elif one.op == "map" and None not in args:
            made = float(ops.FUNCTIONS[one["fn"]].meaning(*args))
        values[one] = made
    return values[key]


def _rotates(of: Facts) -> bool:
    """Whether a query is a sum of products with the sines or cosines of something."""
    for one in of.attentions:
        query = _role(one, "query") or _role(one, "scores")
        if query is not None and any(part.op == "map" and part["fn"] in ("sin", "cos") for part in _deep(query)):
            return True
    return False


def _distances(one: Node | None) -> bool:
    """Whether places of two tokens are subtracted, and a table of weights is read by that."""
    if one is None:
        return False
    picks = [part for part in _deep(one) if part.op == "pick" and _learned(part.args[0])]
    return any(_two_places(key) for part in picks for key in part.args[1:])


def _learned(one: Node) -> bool:
    return any(part.op == "weight" for part in _deep(one))


def _two_places(key: Node) -> bool:
    axes = {part["axis"] for part in _deep(key) if part.op in ("index", "position")}
    return len({axis for axis in axes if axis.counted}) > 1


def _role(one: Node, name: str) -> Node | None:
    return dict(zip(one["roles"], one.args, strict=True)).get(name)


# ------------------------------------------------------------------------------------------------- attention


def attention(of: Facts) -> str:
    """Whom a token sees: all, those before it, a window; in how many layers."""
    seen: dict[Reach, None] = {}
    for one in of.attentions:
        for found in reach(one, of.layers):
            seen[found] = None
    return "; ".join(dict.fromkeys(str(one) for one in seen))


def looks_back(graph: Graph) -> bool:
    """Whether a token sees none behind it: what comes may be told from what was, and rows are kept."""
    found = Facts(graph)
    seen = [one for attention in found.attentions for one in reach(attention, found.layers)]
    return any(one.ahead == 0 for one in seen)


def heads(of: Facts) -> str:
    """Whether several queries share keys and values."""
    met = [(_role(one, "query"), _role(one, "key")) for one in of.attentions]
    for query, key in met:
        if query is None or key is None:
            return ""
        apart = [axis for axis in query.axes if axis not in key.axes and isinstance(axis.size, int) and axis.size > 1]
        if apart:
            return f"each shared by {math.prod(_size(axis) for axis in apart)} queries"
    return "own ones for each query" if met else ""


def scale(of: Facts) -> str:
    """What scores are multiplied by, where that is not 1/√dk."""
    told: dict[str, None] = {}
    for one in of.attentions:
        width = one.get("width")
        if width is None or "query" not in one["roles"]:
            continue
        usual = 1 / math.sqrt(_size(width))
        value = float(one["scale"])
        same = math.isclose(value, usual, rel_tol=1e-9)
        told["1/√dk" if same else "none" if value == 1 else f"{value:.4g} (1/√dk is {usual:.4g})"] = None
    return " and ".join(told)


def normed_queries(of: Facts) -> str:
    """Whether queries and keys go through a norm."""
    for one in of.attentions:
        query = _role(one, "query")
        if query is None:
            return ""
        if any(_is_norm(part) and part["axis"] == one.get("width") for part in of.below(query)):
            return "normalised before they meet"
    return "as they are" if of.attentions else ""


# ------------------------------------------------------------------------------------------------- the layers


def norms(of: Facts) -> str:
    """Which norms there are."""
    return " and ".join(dict.fromkeys(NORMS[one["name"]] for one in of.kernels(*NORMS)))


def norm_places(of: Facts) -> str:
    """Where the norms of a layer stand: at its beginning, at its end, or both; and behind the last layer."""
    told: dict[str, None] = {}
    for loop in of.layers:
        for result in loop["body"]:
            told.update(dict.fromkeys(filter(None, [_norm_place(result, of)])))
    found = " and ".join(told)
    states = {one for one in of.nodes if one.op in ("state", "history") and one.args[0] in of.layers}
    last = any(set(_plain(one.args[0])) & states for one in of.kernels(*NORMS) if not of.in_layers(one))
    return f"{found}, one behind the last layer" if found and last else found


def _plain(one: Node) -> Iterator[Node]:
    while one.op in VIEWS and one.args:
        yield one
        one = one.args[0]
    yield one


def _norm_place(result: Node, of: Facts) -> str:
    if _is_norm(result):
        return "behind each sum (post-norm)"
    if not (result.op == "map" and result["fn"] == "+"):
        return ""
    carried = [one for one in of.below(result) if one.op == "carry"]
    ends = any(_is_norm(term) for term in _terms(result))
    begins = any(one for one in of.kernels(*NORMS) if of.in_layers(one) and set(_terms(one.args[0])) & set(carried))
    names = [name for there, name in ((begins, "before each part (pre-norm)"), (ends, "behind each part")) if there]
    return " and ".join(names)


def _is_norm(one: Node) -> bool:
    return one.op == "kernel" and one["name"] in NORMS


def _terms(one: Node) -> list[Node]:
    """The terms of a sum."""
    found, stack = [], [one]
    while stack:
        here = stack.pop()
        if here.op == "map" and here["fn"] == "+":
            stack.extend(here.args)
        else:
            found.append(here)
    return found


def activations(of: Facts) -> str:
    """The activation of the layers."""
    inside = (one for one in of.kernels(*ACTIVATIONS) if of.in_layers(one))
    return " and ".join(dict.fromkeys(ACTIVATIONS[one["name"]] for one in inside))


def gates(of: Facts) -> str:
    """Whether the activation is multiplied by a second map of its input."""
    acts = set(of.kernels(*ACTIVATIONS))
    if not any(of.in_layers(one) for one in acts):
        return ""
    products = [one for one in of.nodes if one.op == "map" and one["fn"] == "*" and of.in_layers(one)]
    gated = any(_gated(one.args, acts) for one in products)
    return "gated: the activation of one map times another" if gated else "two maps with the activation between"


def _gated(args: Sequence[Node], acts: Iterable[Node]) -> bool:
    first = [any(part in acts for part in _plain(arg)) for arg in args]
    others = [any(part.op == "contract" for part in _near(arg)) for arg in args]
    return (first[0] and others[1]) or (first[1] and others[0])


def _near(one: Node) -> Iterator[Node]:
    yield from _plain(one)
    last = list(_plain(one))[-1]
    if last.op == "map" and last["fn"] == "+":
        for arg in last.args:
            yield from _plain(arg)


def parallel(of: Facts) -> str:
    """Whether the feed-forward follows attention or stands beside it."""
    acts = [one for one in of.kernels(*ACTIVATIONS) if of.in_layers(one)]
    if not acts or not of.attentions:
        return ""
    attending = set(of.attentions)
    behind = any(attending.intersection(of.below(one)) for one in acts)
    return "behind attention" if behind else "beside attention, of the same input (parallel)"


def biases(of: Facts) -> str:
    """How many of the maps in layers have a bias."""
    maps = {one.name for one in of.graph.weights if one.outs is not None and one.stack}
    with_bias = set()
    for one in of.nodes:
        if one.op == "map" and one["fn"] == "+":
            arms = [list(_plain(arg)) for arg in one.args]
            names = [_weight_names(arm[-1]) for arm in arms]
            bare = [any(part.op == "weight" for part in arm) for arm in arms]
            for here, there in ((0, 1), (1, 0)):
                if len(arms) == 2 and bare[there] and not names[there] & maps:
                    with_bias |= names[here] & maps
    if not maps:
        return ""
    return "in all maps" if with_bias == maps else "in no map" if not with_bias else "in some maps"


def _weight_names(one: Node) -> set[str]:
    """The weights that a product is with."""
    if one.op != "contract":
        return set()
    return {part["name"] for arg in one.args for part in _plain(arg) if part.op == "weight"}


def sharing(of: Facts) -> str:
    """Whether layers share weights: more steps than entries of the stacks that they choose from."""
    for loop in of.layers:
        steps = loop.args[loop["slots"]]
        stacks = {axis for one in of.graph.weights for axis in one.stack}
        if steps.op != "const" or loop["axis"] in stacks:
            continue
        inside = {part["name"] for part in of.nodes if part.op == "weight"}
        own = [one for one in of.graph.weights if one.name in inside and one.stack]
        held = max((math.prod(_size(axis) for axis in one.stack) for one in own), default=1)
        many = int(steps["value"]) - loop["start"]
        if held < many:
            return f"{many} layers share the weights of {held}"
    return "each layer has its own" if of.layers else ""


def _size(axis: Axis) -> int:
    return axis.size if isinstance(axis.size, int) else 0


def scaled_embeddings(of: Facts) -> str:
    """What embeddings are multiplied by before the layers."""
    for one in of.nodes:
        if one.op == "map" and one["fn"] == "*" and not of.in_layers(one):
            tables = [arg for arg in one.args if arg.op == "pick" and arg.args[0].op == "weight"]
            numbers = [float(arg["value"]) for arg in one.args if arg.op == "const" and not arg.axes]
            if tables and numbers and numbers[0] != 1:
                squares = [axis for axis in tables[0].axes if math.isclose(_size(axis), numbers[0] ** 2)]
                return f"times √{squares[0]}" if squares else f"times {numbers[0]:.4g}"
    return "as they are"


FACTS = (
    Fact("positions", positions),
    Fact("who sees whom", attention),
    Fact("keys and values", heads),
    Fact("queries and keys", normed_queries),
    Fact("scale of scores", scale),
    Fact("norm", norms),
    Fact("place of norms", norm_places),
    Fact("activation", activations),
    Fact("feed-forward", gates),
    Fact("place of the feed-forward", parallel),
    Fact("biases", biases),
    Fact("weights of layers", sharing),
    Fact("embeddings", scaled_embeddings),
)
"""All facts, the most telling first."""
