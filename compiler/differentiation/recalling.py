"""What the backward of a loop reads of the forward's steps: kept by the forward loop as further states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ...grammar.diagnostics import error
from .. import ir
from ..ir import Node, node, ordered
from ..kernels import expanded, is_draw
from ..rewriting import rebuild
from .sweep import Sweep

VIEWS = ("rename", "split", "merge", "widen")
KEPT = "recall"
"""A value of a forward step, by the number of the step: a placeholder, until it is known what its loop keeps."""


class Recalling:
    """Writes values of a forward step, and what is made of them, for the step of another number."""

    def __init__(self, sweep: Sweep, loop: Node, step: Node, order: Iterable[Node]) -> None:
        self.sweep, self.loop, self.step = sweep, loop, step
        self.ident: int = loop["loop"]
        self.own = set(order)
        self.extra = sweep.extended.setdefault(loop, ([], []))
        self.done: dict[Node, Node] = {}

    def written(self, roots: Sequence[Node]) -> list[Node]:
        """The roots, for the backward's step."""
        for one in ordered(roots, self._below):
            if one not in self.done:
                made = self.done[one] = self._made(one)
                if one in self.sweep.stands_for:
                    self.sweep.stands_for.setdefault(made, self.sweep.stands_for[one])
        return [self.done[one] for one in roots]

    def _forward(self, one: Node) -> bool:
        here = self.ident in one.free and one.free <= self.loop.free | {self.ident}
        return here and (one in self.own or one in self.sweep.forward)

    def _below(self, one: Node) -> tuple[Node, ...]:
        if self.ident not in one.free or one in self.done:
            return ()
        if self._forward(one) and not self._again(one):
            return one.args if one.op == "past" else ()
        if one.op == "loop":
            first, body = self._wide(one)
            return (*first, one.args[one["slots"]], *body)
        return one.args

    def _again(self, one: Node) -> bool:
        """Whether a value of the step is written again: it costs nothing, or cannot be kept."""
        if one.op == "loop":
            return True
        if one.op in ("carry", "counter", "past") or one in self.loop["body"]:
            return False
        if not one.axes or one.op in VIEWS or one.op == "concat":
            return one.op != "random"
        chosen = one.op == "pick" and self.ident not in one.args[0].free
        return chosen and not any(arg.axes for arg in one.args[1:])

    def _made(self, one: Node) -> Node:
        if self.ident not in one.free:
            return one
        if not self._forward(one) or self._again(one):
            return self._clone(one) if one.op == "loop" else self._rebuilt(one)
        if one.op == "counter":
            return self.step
        if one.op == "carry":
            return self._state(one["slot"], one, self.step)
        if one.op == "past":
            number = self.done[one.args[0]]
            shifted = ir.apply("+", number, ir.const(self.loop["start"])) if self.loop["start"] else number
            return self._state(one["slot"], one, shifted)
        body: tuple[Node, ...] = self.loop["body"]
        after = ir.apply("+", self.step, ir.const(1))
        if one in body:
            return self._state(body.index(one), one, after)
        first, more = self.extra
        if one not in more:
            zero = ir.const(False) if one.kind == "bool" else ir.const(0) if one.kind == "int" else ir.const(0.0)
            axes = (*one.axes, *(a for a in self.loop.args[self.loop["slots"]].axes if a not in one.axes))
            first.append(ir.widen_to(zero, axes))
            more.append(ir.widen_to(one, axes) if axes != one.axes else one)
        return self._state(self.loop["slots"] + _place(more, one), one, after)

    def _state(self, slot: int, like: Node, number: Node) -> Node:
        axes = dict.fromkeys((*number.axes, *like.axes))
        return node(KEPT, (self.loop, number), axes, like.kind, slot=slot)

    def _rebuilt(self, one: Node) -> Node:
        if one.op == KEPT:
            return ir.history(self.done[one.args[0]], one["slot"], self.done.get(one.args[1], one.args[1]))
        return rebuild(one, tuple(self.done.get(arg, arg) for arg in one.args))

    def _wide(self, one: Node) -> tuple[list[Node], list[Node]]:
        """The first states and the body of a loop, with what its own backward reads."""
        first, body = self.sweep.extended.get(one, ([], []))
        return [*one.args[: one["slots"]], *first], [*one["body"], *body]

    def _clone(self, one: Node) -> Node:
        """The loop once more, under a number of its own."""
        first, body = self._wide(one)
        fresh, old = self.sweep.fresh(), one["loop"]
        table: dict[Node, Node] = {}
        self._copy(body, table, old, fresh)
        begun = [self.done.get(arg, arg) for arg in first]
        steps = self.done.get(one.args[one["slots"]], one.args[one["slots"]])
        made = [table[part] for part in body]
        return ir.loop(fresh, one["axis"], one["start"], steps, begun, made, one["name"])

    def _copy(self, roots: Sequence[Node], table: dict[Node, Node], old: int, fresh: int) -> None:
        """Puts what the roots are made of into the table, as it is in the loop's copy."""
        for part in ordered(roots, lambda n: n.args if old in n.free and n not in table else ()):
            if part in table:
                continue
            if old not in part.free:
                table[part] = self.written([part])[0]
            elif part.op == "kernel" and is_draw(part):  # the draw inside of it has numbers of its own
                core = expanded(part)
                self._copy([core], table, old, fresh)
                table[part] = table[core]
            elif part.op == "random":
                table[part] = self._drawn(part, table, old, fresh)
            elif part.op == "loop":
                table[part] = rebuild(part, tuple(table[arg] for arg in part.args[: part["slots"] + 1]))
            elif part.op in ("counter", "carry", "past") and part["loop"] == old:
                attrs = {**part.attrs, "loop": fresh}
                table[part] = node(part.op, (table[arg] for arg in part.args), part.axes, part.kind, **attrs)
            else:
                table[part] = rebuild(part, tuple(table[arg] for arg in part.args))

    def _drawn(self, part: Node, table: Mapping[Node, Node], old: int, fresh: int) -> Node:
        """The draw of the forward: its numbers of steps are arguments, for the loops count otherwise here."""
        known = {old: ir.counter(fresh), self.ident: self.step}
        if not part.free <= set(known):
            raise error("X994", "a draw in three loops, one inside of another, has no gradient yet")
        numbers = [known[ident] for ident in sorted(part.free)]
        attrs = {**part.attrs, "steps": (), "counted": len(numbers)}
        return node("random", (*(table[arg] for arg in part.args), *numbers), part.axes, part.kind, **attrs)


def _place(kept: Sequence[Node], one: Node) -> int:
    """The place of a value among those that are kept, repeated or not."""
    return next(at for at, part in enumerate(kept) if part is one or (part.op == "widen" and _bare(part) is one))


def _bare(one: Node) -> Node:
    while one.op == "widen":
        one = one.args[0]
    return one


def settled(roots: Sequence[Node], sweep: Sweep, moved: Callable[[Node, Node], None]) -> list[Node]:
    """The roots, with every loop of the forward keeping what its backward reads; `moved(old, new)` is told."""
    wide: dict[Node, Node] = {}
    for one, (first, body) in sweep.extended.items():
        if not one.free and first:
            states = (*one.args[: one["slots"]], *first)
            steps, every = one.args[one["slots"]], [*one["body"], *body]
            wide[one] = ir.loop(one["loop"], one["axis"], one["start"], steps, states, every, one["name"])

    def below(one: Node) -> tuple[Node, ...]:
        if one in wide:
            return (wide[one],)
        return (*one.args, *one["body"]) if one.op == "loop" else one.args

    done: dict[Node, Node] = {}
    for one in ordered(roots, below):
        if one in wide:
            done[one] = done[wide[one]]
        elif one.op == KEPT:
            done[one] = ir.history(done[one.args[0]], one["slot"], done[one.args[1]])
        elif one.op == "loop":
            args = tuple(done[arg] for arg in one.args[: one["slots"] + 1])
            inside = tuple(done[part] for part in one["body"])
            same = args == one.args[: one["slots"] + 1] and inside == one["body"]
            done[one] = one if same else rebuild(one, args, inside)
        else:
            done[one] = rebuild(one, tuple(done[arg] for arg in one.args))
        if done[one] is not one:
            moved(one, done[one])
    return [done[one] for one in roots]
