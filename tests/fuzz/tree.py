"""Terms of random specs and how they are printed: only what a result reads is printed, since unused names are mistakes.

A term knows its axes and kind, and a bound of its size: so the author writes no exp that overflows, and no root, log
or quotient without a guard. Terms are shared: a name is printed once however many read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

ATOMS = ("leaf", "name", "weight", "state", "call", "lib", "fn", "reduce", "pick", "rename", "abs")
"""Operations whose text needs no parentheses."""


@dataclass(frozen=True, eq=False)
class Term:
    """One operation: `text` is a template in which {0}, {1}, … stand for the arguments."""

    op: str
    text: str
    args: tuple[Term, ...] = ()
    axes: frozenset[str] = frozenset()
    kind: str = "real"
    bound: float = 8.0  # no value is larger, by and large
    low: float = -float("inf")  # no value is smaller
    reads: Loop | None = None  # of a state: its loop
    step: Loop | None = None  # the loop whose step the term belongs to
    block: Block | None = None  # of a call
    more: str = ""  # of a weight its declaration, of a call its instance, of others function, axis or number

    def __str__(self) -> str:
        return self.text if self.op == "name" else self.text.format(*map(wrapped, self.args))


def wrapped(one: Term) -> str:
    """The text as an argument of another term."""
    return str(one) if one.op in ATOMS or (one.op == "number" and not one.more) else f"({one})"


def on(one: Term, args: tuple[Term, ...]) -> Term:
    """The same operation on other arguments of the same axes."""
    return one if args == one.args else replace(one, args=args)


@dataclass(eq=False)
class State:
    """A state of a recurrence."""

    name: str
    first: Term
    next: Term


@dataclass(eq=False)
class Loop:
    """`for variable in over:` with its states."""

    variable: str
    over: str
    states: list[State] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A block or a model: its head up to the arrow, and its results (name, axes in order, term)."""

    head: str
    results: list[tuple[str, tuple[str, ...], Term]]

    @property
    def name(self) -> str:
        """The name in the head."""
        return re.split(r"[ (]", self.head)[1]


@dataclass(eq=False)
class Spec:
    """Sizes, a model, and weights that are tied; functions and blocks are those that the model needs."""

    sizes: dict[str, str]
    model: Block
    ties: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------- walking


def walk(roots: Iterable[Term]) -> Iterator[Term]:
    """Every term that the roots need, once, arguments first; what a loop computes comes after those who read it."""
    done: set[Term] = set()
    entered: set[Loop] = set()
    stack = [(one, False) for one in reversed(list(roots))]
    while stack:
        one, ready = stack.pop()
        if ready:
            yield one
        elif one not in done:
            done.add(one)
            if one.reads is not None and one.reads not in entered:
                entered.add(one.reads)
                stack[:0] = [(part, False) for state in one.reads.states for part in (state.first, state.next)]
            stack.append((one, True))
            stack.extend((part, False) for part in reversed(one.args))


def terms(block: Block) -> list[Term]:
    """Every term of a block, arguments first; blocks that it calls are not entered."""
    return list(walk(term for _, _, term in block.results))


def blocks(spec: Spec) -> list[Block]:
    """Every block, those that are called first, and the model last."""
    found: dict[Block, None] = {}

    def enter(block: Block) -> None:
        for one in terms(block):
            if one.block is not None and one.block not in found:
                enter(one.block)
        found.setdefault(block)

    enter(spec.model)
    return list(found)


# ------------------------------------------------------------------------------------------------------ printing


def _declared(axes: frozenset[str]) -> str:
    return f"[{', '.join(sorted(axes))}]"


def _loop_lines(loop: Loop, parts: list[Term]) -> list[str]:
    lines = [f"{state.name}[0] = {state.first}" for state in loop.states]
    lines.append(f"for {loop.variable} in {loop.over}:")
    inside = [f"    {one} = {one.args[0]}" for one in parts if one.op == "name" and one.step is loop]
    lines += [line.replace(" = ", _shape_of(line, parts) + " = ", 1) for line in inside]
    return lines + [f"    {state.name}[{loop.variable} + 1] = {state.next}" for state in loop.states]


def _shape_of(line: str, parts: list[Term]) -> str:
    name = line.split(" = ")[0].strip()
    (one,) = [part for part in parts if part.op == "name" and part.text == name]
    return _declared(one.axes) if one.more == "declared" else ""


def _where(parts: list[Term]) -> list[str]:
    lines = []
    for one in parts:
        if one.op == "name" and one.step is None:
            lines.append(f"{one.text}{_declared(one.axes) if one.more == 'declared' else ''} = {one.args[0]}")
    for loop in dict.fromkeys(one.reads for one in parts if one.reads is not None):
        lines += _loop_lines(loop, parts)
    return lines


def _section(word: str, lines: Iterable[str]) -> list[str]:
    lines = list(dict.fromkeys(lines))
    return [f"    {word if i == 0 else ' ' * len(word)} {line}" for i, line in enumerate(lines)]


def block_text(block: Block) -> str:
    """A block with its parts, instances and weights."""
    parts = terms(block)
    shown = ", ".join(f"{name}[{', '.join(axes)}] = {term}" for name, axes, term in block.results)
    lines = [f"{block.head} → {shown}", *_section_where(_where(parts))]
    lines += _section("uses", (f"{one.more} : {one.block.name}" for one in parts if one.block is not None))
    lines += _section("weights", (one.more for one in parts if one.op == "weight"))
    return "\n".join(lines) + "\n"


def _section_where(lines: list[str]) -> list[str]:
    return [f"    {'where' if i == 0 else '     '} {line}" for i, line in enumerate(lines)]


def spec_text(spec: Spec) -> str:
    """The whole text of a spec."""
    all_blocks = blocks(spec)
    parts = [one for block in all_blocks for one in terms(block)]
    used = sorted({one.more for one in parts if one.op == "lib"} | {one.text for one in parts if one.text == "causal"})
    lines = ["spec fuzz", *([f"from functions import {', '.join(used)}"] if used else []), "config"]
    lines += [f"    {name} = {value}" for name, value in spec.sizes.items()]
    return "\n".join(lines) + "\n" + "".join(map(block_text, all_blocks)) + "".join(f"{t}\n" for t in spec.ties)
