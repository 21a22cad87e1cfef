"""What a comparison tells: changes, each with its part, its place in both specs, and how much it matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any

from ...grammar.diagnostics import Span

ADDED, REMOVED, CHANGED, RENAMED, MOVED, REPLACED, SAME = (
    "added",
    "removed",
    "changed",
    "renamed",
    "moved",
    "replaced",
    "same",
)
MIRROR = {ADDED: REMOVED, REMOVED: ADDED}
SIGNS = {ADDED: "+", REMOVED: "-", CHANGED: "~", RENAMED: "→", MOVED: "↷", REPLACED: "⇄", SAME: "="}

PARTS = ("facts", "structure", "config", "formulas", "objectives", "weights", "names", "tensors", "cost")
"""The parts of a comparison, in the order in which they are told."""
ONLY: Mapping[str, tuple[str, ...]] = {
    "structure": ("facts", "structure", "config"),
    "formulas": ("formulas", "objectives"),
    "weights": ("weights", "names", "tensors"),
    "cost": ("cost",),
}
"""What a reader may ask for alone: the parts of each."""


@dataclass(frozen=True)
class Place:
    """A line of a spec."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place(span: Span | None) -> Place | None:
    """The line where something stands; the name of its file without folders."""
    return None if span is None else Place(PurePath(span.source.name).name, span.line)


@dataclass(frozen=True)
class Line:
    """A row of a change: a formula or a value of the one and of the other, where each stands."""

    name: str
    before: str = ""
    after: str = ""
    a: Place | None = None
    b: Place | None = None

    @staticmethod
    def of(kind: str, name: str, text: str, where: Place | None = None) -> Line:
        """What only one side has: the other one if it is added, else the one."""
        return Line(name, after=text, b=where) if kind == ADDED else Line(name, before=text, a=where)

    def swapped(self) -> Line:
        """The same with sides swapped."""
        return Line(self.name, self.after, self.before, self.b, self.a)


@dataclass(frozen=True)
class Change:
    """One difference: of a part, at a place of the model; `say` is it in words.

    `rank` orders changes of a part, the smaller the earlier; `follows` says what another change it merely follows from.
    `quotes` are comments of the specs that stand at what changed. A change of kind "same" is another spelling of one
    meaning, and no difference.
    """

    part: str
    kind: str
    where: str
    say: str
    before: str = ""
    after: str = ""
    lines: tuple[Line, ...] = ()
    a: Place | None = None
    b: Place | None = None
    quotes: tuple[str, ...] = ()
    rank: float = 5
    follows: str = ""

    def at(self, a: Span | None, b: Span | None) -> Change:
        """The same, with where it stands in both specs."""
        return replace(self, a=place(a), b=place(b))

    @property
    def sign(self) -> str:
        """One character: + - ~ → ↷ ⇄ or =."""
        return SIGNS[self.kind]

    @property
    def differs(self) -> bool:
        """Whether the models differ by it."""
        return self.kind != SAME


@dataclass(frozen=True)
class Figure:
    """A number of both models, for given sizes; None where one has it not."""

    name: str
    unit: str
    before: int | None
    after: int | None

    @property
    def equal(self) -> bool:
        """Whether both have the same."""
        return self.before == self.after


@dataclass(frozen=True)
class BlockFigures:
    """The numbers of one block of both models; `level` is how deep it stands."""

    name: str
    level: int
    figures: tuple[Figure, ...]

    @property
    def equal(self) -> bool:
        """Whether all its numbers are the same."""
        return all(one.equal for one in self.figures)


@dataclass(frozen=True)
class Differences:
    """Everything that two models differ by: names and first comments of both, changes in order, costs and their sizes.

    `labels` and `titles` are of the one and the other; `models` the names of the two models that were compared.
    """

    labels: tuple[str, str]
    titles: tuple[str, str]
    models: tuple[str, str]
    changes: tuple[Change, ...]
    figures: tuple[Figure, ...] = ()
    blocks: tuple[BlockFigures, ...] = ()
    sizes: str = ""
    parts: tuple[str, ...] = field(default=PARTS)

    def __bool__(self) -> bool:
        """Whether the two differ at all."""
        cost = "cost" in self.parts and any(not one.equal for one in self.figures)
        return cost or any(one.differs for one in self.changes)

    def told(self, every: bool = False) -> tuple[Change, ...]:
        """The changes that a reader is told: without those that merely follow from others or are spelling, or all."""
        return tuple(one for one in self.changes if every or (one.differs and not one.follows))

    @property
    def hidden(self) -> tuple[int, int]:
        """How many changes follow from others, and how many are other spellings of one meaning."""
        spelled = sum(not one.differs for one in self.changes)
        return sum(bool(one.follows) and one.differs for one in self.changes), spelled

    def only(self, names: Iterable[str]) -> Differences:
        """The parts that are asked for; of no name, all."""
        parts = tuple(part for name in names for part in ONLY[name]) or PARTS
        kept = tuple(one for one in self.changes if one.part in parts)
        cost = "cost" in parts
        figures, blocks = (self.figures, self.blocks) if cost else ((), ())
        return replace(self, changes=kept, figures=figures, blocks=blocks, parts=parts)

    def data(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        made: dict[str, Any] = {"a": self.labels[0], "b": self.labels[1], "models": list(self.models)}
        made["differ"] = bool(self)
        made["changes"] = [{"sign": one.sign, **asdict(one)} for one in self.changes]
        if "cost" in self.parts:
            made["sizes"] = self.sizes
            made["cost"] = [asdict(one) for one in self.figures]
            made["blocks"] = [asdict(one) for one in self.blocks]
        return made
