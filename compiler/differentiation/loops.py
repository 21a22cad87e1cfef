"""Reverse mode on recurrences: the backward of a loop is one loop, however deep the stack.

    forwards     x[l + 1] = f(x[l], W[l], c)           for l = start, …, stop - 1
    backwards    x̄[l]     = x̄[l + 1] · ∂f/∂x           for l = stop - 1, …, start

Its states are the adjoints of the forward's, what all steps add to a value from outside (c̄, a running sum), and what
belongs to one step alone (the gradient of W[l]), whose states afterwards are the gradients of all layers. What the
backward needs of a forward step is kept by the forward loop as further states, so nothing is computed twice; only what
costs nothing (views, numbers of steps, the choice of a weight) is written down again. Of a loop in a loop the
inner one runs again in the outer's backward.

In a loop over a length each example has its own number of steps: the backward runs as many, and begins at its own last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...grammar.diagnostics import error
from .. import ir
from ..ir import Axis, Node, walk
from ..rewriting import transform
from .recalling import Recalling
from .scalars import ZERO, add, chosen
from .sweep import Sweep, summed


def read_last(sweep: Sweep, one: Node, g: Node) -> None:
    """The last state: its loop takes it from here."""
    sweep.ends.setdefault(one.args[0], []).append((one["slot"], None, g))


def read_any(sweep: Sweep, one: Node, g: Node) -> None:
    """A state by its number."""
    sweep.ends.setdefault(one.args[0], []).append((one["slot"], one.args[1], g))


@dataclass
class Backward:
    """The backward of one loop while it is made: `states` are (first, next) of what it carries."""

    sweep: Sweep
    loop: Node
    ident: int
    ends: list[tuple[int, Node | None, Node]]
    carried: dict[int, Node] = field(default_factory=dict)
    first: list[Node] = field(default_factory=list)
    next: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        one = self.loop
        self.start: int = one["start"]
        self.stop = one.args[one["slots"]]
        last = ir.apply("+", self.stop, ir.const(self.start - 1))
        if self.stop.op == "const":
            last = ir.const(int(self.stop["value"]) + self.start - 1)
        self.step = ir.apply("-", last, ir.counter(self.ident))
        if self.stop.axes:  # an example that has ended keeps its states, whatever stands there
            self.step = ir.apply("max", self.step, ir.const(self.start))

    # ------------------------------------------------------------------------------------------------- adjoints

    def reached(self) -> list[int]:
        """The states that somebody's gradient reaches, by themselves or through others."""
        body, ident = self.loop["body"], self.loop["loop"]
        found = dict.fromkeys(slot for slot, _, _ in self.ends)
        waiting = list(found)
        while waiting:
            for part in walk([body[waiting.pop()]], enter=lambda n: ident in n.free):
                slot = part.get("slot")
                if part.op in ("carry", "past") and part["loop"] == ident and slot not in found:
                    found[slot] = None
                    waiting.append(slot)
        body, active = self.loop["body"], self.sweep.active
        return sorted(slot for slot in found if active(self.loop.args[slot]) or active(body[slot]))

    def from_ends(self, slot: int, number: Node | None) -> Node:
        """What readers of the loop add to the adjoint of a state: of the last one (None), or of one inside."""
        axes = self.loop.args[slot].axes
        found = ZERO
        for own, wanted, g in self.ends:
            if own != slot:
                continue
            if wanted is None or wanted is self.stop:
                found = add(found, g) if number is None else found
                continue
            here = self.stop if number is None else number
            if wanted.op == "const" and here.op == "const" and wanted is not here:
                continue
            there = g if wanted is here else chosen(ir.apply("==", wanted, here), g)
            there = ir.widen_to(there, ir.union((g, wanted)))
            kept = (*axes, *self.sweep.keep)
            found = add(found, summed((there,), (axis for axis in there.axes if axis not in kept)))
        return found

    def begin(self, first: Node, like: Node) -> Node:
        """A new state; its value at the start of a step."""
        self.first.append(ir.widen_to(first, like.axes))
        return ir.carry(self.ident, len(self.first) - 1, self.first[-1])


def reverse(sweep: Sweep, one: Node, g: Node) -> None:
    """Lets flow to the first states of a loop and to what its body takes from outside."""
    ident = one["loop"]
    made = Backward(sweep, one, sweep.fresh(), sweep.ends.pop(one))
    slots = made.reached()
    for slot in slots:
        made.carried[slot] = made.begin(_real(made.from_ends(slot, None)), one.args[slot])
    inside = sweep.inner()
    inside.keep = (*sweep.keep, *(a for a in made.stop.axes if a not in sweep.keep))
    for slot, seed in made.carried.items():
        inside.adjoints[one["body"][slot]] = add(inside.adjoints.get(one["body"][slot], ZERO), seed)
    order = [part for part in walk(one["body"], enter=lambda n: ident in n.free) if ident in part.free]
    inside.run(order, lambda part: _of_step(made, part))
    if inside.ends:
        raise error("X994", "a loop that reads states of another one by what it computes has no gradient yet")
    reads = _collected(made, inside, order, slots)
    step = Recalling(sweep, one, made.step, order)
    body = step.written(made.next)
    back = ir.loop(made.ident, one["axis"], made.start, made.stop, made.first, body, f"back_{one['name'] or 'step'}")
    for place, slot in enumerate(slots):
        sweep.flow(one.args[slot], ir.state(back, place))
    for place, part in reads:
        _outside(made, back, place, part)


def _real(value: Node) -> Node:
    return ir.const(0.0) if value is ZERO else value


def _of_step(made: Backward, part: Node) -> bool:
    """Whether a value belongs to one step: a weight, or the state of a loop before, by the number of the step alone."""
    if part.op not in ("pick", "history") or made.stop.op != "const" or made.loop["loop"] in part.args[0].free:
        return False
    leaves = (leaf for at in part.args[1:] for leaf in walk([at]) if not leaf.args)
    return all(leaf.op in ("counter", "const") and leaf.get("loop") in (None, made.loop["loop"]) for leaf in leaves)


def _collected(made: Backward, inside: Sweep, order: list[Node], slots: list[int]) -> list[tuple[int, Node]]:
    """The next states: adjoints of the forward's, sums of what flows outside, what belongs to one step.

    Gives the places of those that are read afterwards, with the node that each is the gradient of.
    """
    one, ident = made.loop, made.loop["loop"]
    arrived = dict.fromkeys(slots, ZERO)
    own: list[tuple[int, Node]] = []
    later: list[Node] = []
    inner = set(order)
    for part, g in inside.adjoints.items():
        if part.op == "carry" and part["loop"] == ident and part["slot"] in slots:
            arrived[part["slot"]] = add(arrived[part["slot"]], g)
        elif part.op == "past" and part["loop"] == ident:
            arrived[part["slot"]] = _at_earlier(made, later, part, g, arrived[part["slot"]])
        elif (part not in inner or _of_step(made, part)) and inside.active(part):
            apart = part in inner
            more = tuple(a for a in inside.keep if a not in made.sweep.keep)
            like = ir.widen_to(ir.const(0.0), (*part.axes, *(a for a in more if a not in part.axes)))
            before = made.begin(like, like)
            own.append((len(made.first) - 1, part))
            later.append(ir.widen_to(g, like.axes) if apart else add(before, ir.widen_to(g, like.axes)))
    for slot in slots:
        like = one.args[slot]
        g = add(arrived[slot], made.from_ends(slot, made.step))
        made.next.append(ir.widen_to(_real(g), like.axes))
    made.next.extend(later)
    return own


def _at_earlier(made: Backward, later: list[Node], part: Node, g: Node, before: Node) -> Node:
    """Adds to adjoints that wait for their step, one for each state; what waits for this step is taken."""
    like = made.loop.args[part["slot"]]
    size = int(made.stop["value"]) - made.start if made.stop.op == "const" else made.loop["axis"].size
    waiting = Axis("state", size, made.loop["axis"].owner if not isinstance(size, int) else None, made.ident)
    full = ir.widen_to(ir.const(0.0), (waiting, *like.axes))
    held = made.begin(full, full)
    held = add(held, ir.scatter(ir.widen_to(g, part.axes), {waiting: part.args[0]}, full.axes))
    later.append(held)
    shifted = ir.apply("-", made.step, ir.const(made.start)) if made.start else made.step
    return add(before, ir.pick(held, {waiting: shifted}))


def _outside(made: Backward, back: Node, place: int, part: Node) -> None:
    """Lets flow to a value outside the loop what its steps have added up, or the states of one step each."""
    if not _of_step(made, part):
        made.sweep.flow(part, ir.state(back, place))
        return
    stop, ident, base = int(made.stop["value"]), made.loop["loop"], part.args[0]
    steps = Axis("step", stop - made.start, None, made.ident)
    shifted = add(ir.index(steps), ir.const(made.start) if made.start else ZERO)
    found = ir.history(back, place, ir.apply("-", ir.const(stop), ir.index(steps)))
    if part.op == "history":
        number = replaced(part.args[1], ir.counter(ident), shifted)
        made.sweep.ends.setdefault(base, []).append((part["slot"], number, found))
        return
    at = dict(zip(part["keys"], part.args[1:], strict=True))
    (key, number), *more = at.items()
    if not more and number is ir.counter(ident) and made.start == 0 and key.size == stop:
        made.sweep.flow(base, ir.history(back, place, ir.apply("-", ir.const(stop), ir.index(key))))
        return
    at = {axis: replaced(number, ir.counter(ident), shifted) for axis, number in at.items()}
    made.sweep.flow(base, ir.scatter(found, at, base.axes))


def replaced(root: Node, old: Node, new: Node) -> Node:
    """The value with one node in place of another."""
    return transform([root], lambda one: new if one is old else one)[0]

