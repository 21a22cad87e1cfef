"""Peak memory of the values of a run: a scan over the order of the nodes, loops included.

A value lives from the node that makes it to the last one that reads it; a view keeps what it looks into alive. Inputs
live to the last reader, too, results to the end; parameters are not values. Where the plan has `schedule`, a scalar
function or a norm writes over an argument of its size that nobody reads any more. It is what the values need: a module
holds more, since its kernels have memory of their own and its buffers keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cost import WORD, Pricer, is_view
from .ir import Graph, Node, walk
from .kernels import POINTWISE
from .sizes import USUAL, Sizes

OVERWRITING = (*POINTWISE, "layer_norm", "rms_norm", "l2_normalize")


def peak_bytes(graph: Graph, sizes: Sizes = USUAL, word: int = WORD) -> int:
    """The most bytes that values of one run take up at once, each as long as it is read, numbers of `word` bytes."""
    scan = Scan(Pricer(graph, sizes, word), "schedule" in graph.plan)
    return scan.peak(graph.roots, 0)


class Scan:
    """The scan of a graph; inside a loop, that of its body."""

    def __init__(self, pricer: Pricer, overwrites: bool) -> None:
        self.pricer, self.overwrites = pricer, overwrites
        self.kept = {
            (one.args[0]["loop"] if one.op == "history" else one["loop"], one.get("slot"))
            for one in pricer.order
            if one.op in ("history", "past")
        }

    def peak(self, roots: Sequence[Node], loop: int) -> int:
        """The most that the values of a scope take up: of the graph (loop 0), or of one step of a loop."""
        order = [one for one in walk(roots, lambda one: self._inside(one, loop)) if self._inside(one, loop)]
        last = {base_of(root): len(order) for root in roots}
        for place, one in enumerate(order):
            for arg in one.args:
                last[base_of(arg)] = max(last.get(base_of(arg), 0), place)
        dying: dict[int, list[Node]] = {}
        for one in order:
            if base_of(one) is one:
                dying.setdefault(last.get(one, 0), []).append(one)
        live = most = 0
        for place, one in enumerate(order):
            gone = dying.get(place, [])
            own = self.size(one)
            freed = sum(self.size(arg) for arg in gone if arg is not one)
            spare = own if self._overwrites(one, own, gone) else 0
            inside = self.peak(one["body"], one["loop"]) if one.op == "loop" else 0
            most = max(most, live + own - spare + inside)
            live += own - freed
        return most

    def _inside(self, one: Node, loop: int) -> bool:
        return loop == 0 or loop in one.free

    def size(self, one: Node) -> int:
        """The bytes that a node takes up by itself: none of a view or parameter, of a loop those of its states."""
        if one.op == "loop":
            return sum(self._state(one, slot) for slot in range(one["slots"]))
        if one in self.pricer.static or one.op == "carry" or is_view(one):
            return 0
        return self.pricer.bytes(one)

    def _state(self, one: Node, slot: int) -> int:
        """One state, or all of them where an earlier one is read."""
        count = self.pricer.steps[one["loop"]] if (one["loop"], slot) in self.kept else 1
        return self.pricer.bytes(one.args[slot]) * count

    def _overwrites(self, one: Node, own: int, gone: Sequence[Node]) -> bool:
        if not self.overwrites or one in self.pricer.static:
            return False
        able = one.op == "map" or (one.op == "kernel" and one["name"] in OVERWRITING) or one.op == "loop"
        return able and any(self.size(arg) == own and arg.op != "input" for arg in gone if arg is not one)


def base_of(one: Node) -> Node:
    """The node in whose memory a value lies."""
    while is_view(one) and one.op not in ("loop", "past") and one.args:
        one = one.args[0]
    return one
