"""What all scopes of one compilation share, and the calls that are being worked on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostics, Note, Span
from .config import Config
from .ir import Axis, Node, Origin
from .modules import Module
from .names import names_in
from .values import Value

if TYPE_CHECKING:
    from .ir import Input, Weight
    from .scope import Scope


@dataclass(frozen=True)
class Callee:
    """A call that is being worked on: its name in the text, its arguments, and who is called."""

    span: Span
    args: Mapping[str, Span]
    definition: s.Definition

    def at_fault(self, inside: Span) -> Note:
        """The argument through which a mistake at `inside` is reached, else the call."""
        words = set(re.findall(r"[^\W\d][\w']*", inside.text))
        where = {st.name.name: st for st in self.definition.body.where if isinstance(st, s.Assign)}
        waiting = list(words)
        while waiting:
            equation = where.get(waiting.pop())
            more = {one.name for one in names_in(equation.value)} - words if equation is not None else set()
            words |= more
            waiting += more
        hits = [span for name, span in self.args.items() if name in words]
        return Note(hits[0] if len(hits) == 1 else self.span, self.definition.name.name)


@dataclass(eq=False)
class Session:
    """What all scopes of one compilation share."""

    module: Module
    config: Config
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    origins: dict[Node, Origin] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    asked: dict[str, Input] = field(default_factory=dict)  # inputs that no parameter names: position_ids
    batch: Axis | None = None
    whole: str = ""  # what is compiled: a model, an objective or a corruption; nothing where a definition is checked
    looking: set[tuple[Scope, str]] = field(default_factory=set)  # new lengths that are looked for, see lengths.py
    makers: dict[tuple[int, str], s.Expr | None] = field(default_factory=dict)  # where a text makes one of a name
    lengths: dict[tuple[Scope, Span, Axis], tuple[Node, Axis]] = field(default_factory=dict)  # those that were made
    shows: frozenset[str] = frozenset()  # results on demand that somebody asked for
    listed: set[Axis] = field(default_factory=set)  # the steps of such results: no text can name them
    loops: int = 0
    fresh: int = 0
    calls: list[Callee] = field(default_factory=list)
    work: list[int] = field(default_factory=lambda: [0])  # how many calls so far
    shared: dict[object, tuple[Value, Session]] | None = None  # while a file is checked: see heads.shared
    top: Scope | None = None
    trace: list[tuple[s.Expr, Value, Scope]] | None = None

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """The value that a session of the same check made for the key, with all that belongs to it, or a new one."""
        assert self.shared is not None
        if key not in self.shared:
            self.shared[key] = make(), self
        made, maker = self.shared[key]
        if maker is not self:
            self.origins.update(maker.origins)
            self.weights.update(maker.weights)
            self.asked.update(maker.asked)
            self.listed |= maker.listed
            self.loops, self.fresh = max(self.loops, maker.loops), max(self.fresh, maker.fresh)
        return made

    def fresh_axis(self, name: str, like: Axis) -> Axis:
        """An axis of the same extent and owner that no text can name."""
        self.fresh += 1
        return Axis(name, like.size, like.owner, self.fresh)
