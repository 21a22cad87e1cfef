"""Every stage of a compilation against the one before it, at small sizes, on cases that rewrites fail on."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...grammar.diagnostics import TransformulaError, error
from .. import pipeline
from ..decoding import DERIVED, Decoding
from ..driver import Compiled
from ..ir import Graph, Node
from ..ledger import Ledger
from ..numeric import EXACT, REASSOCIATING, ULPS, UNIT
from ..pipeline import Pass, Stage
from . import steps
from .cases import BY_NAME, KINDS, Kind, case
from .sizes import Shrinker, Small, Subject, subjects
from .trial import Gap, Trial

EVERY = {name: tuple(kind.name for kind in KINDS) for name in ("different", "equal", "ones")}
"""All cases for each choice of sizes."""

WIDE = {"wide": ("masks", "padding", "large")}
"""What is tried besides where a rule has fired at the user's sizes and at no small ones: it asks what pays."""

QUICK = {"different": ("masks", "tiny"), "equal": ("equal", "large")}
"""What a compilation is proved on by itself."""

BUDGET = 1.0
"""Seconds of computing that a quick proof may take."""

GROWTHS = 3
"""How often tables are made larger for texts that do not fit."""

REMEMBERED = 256
"""Proofs that are not made twice in one process."""


@dataclass(frozen=True)
class Measure:
    """How far a pass moved the results of a model in one case, at the sizes that are told."""

    model: str
    stage: str
    numeric: str
    case: str
    sizes: str
    gap: Gap


@dataclass(frozen=True)
class Proof:
    """What was measured; rules that fired for the user's sizes and for no small ones; models without small sizes."""

    measures: tuple[Measure, ...]
    untried: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def wrong(self) -> list[Measure]:
        """The measures that are more than rounding, the earliest pass first, the largest of a pass first."""
        order = {name: place for place, name in enumerate(dict.fromkeys(one.stage for one in self.measures))}
        return sorted((m for m in self.measures if m.gap.wrong), key=lambda m: (order[m.stage], -m.gap.excess))


def prove(made: Compiled, profiles: Sequence[str] = tuple(EVERY)) -> Proof:
    """Every pass of a compilation on every kind of case, at these choices of sizes (all); takes some seconds."""
    start = time.perf_counter()
    wanted = {name: EVERY[name] for name in profiles}
    measures: list[Measure] = []
    tried, skipped = set[tuple[str, str]](), list[str]()
    for cases in (wanted, WIDE):
        if cases is WIDE and _fired(made.ledger) <= tried:
            break
        for name, runs in _models(made, cases):
            skipped.append(name)
            for run in runs:
                skipped = [one for one in skipped if one != name]
                tried |= _fired(run.ledger)
                measures += [measure for kind in run.kinds for measure in (*run.measures(kind), *run.steps(kind))]
    untried = _fired(made.ledger) - tried
    told = tuple(f"{stage} {rule}" for stage, rule in sorted(untried))
    return Proof(tuple(measures), told, tuple(skipped), time.perf_counter() - start)


def prove_quickly(made: Compiled) -> None:
    """A few cases of two choices of sizes, in a fraction of a second. Raises `TransformulaError` where a pass is wrong.

    How long it takes does not depend on the model's sizes, nor on how many layers it has. After a second of computing,
    no further case is begun.
    """
    end = time.thread_time() + BUDGET
    key = _key(made)
    if key in _done:
        return
    tried = set[tuple[str, str]]()
    for cases in (QUICK, WIDE):
        if cases is WIDE and _fired(made.ledger) <= tried:
            break
        for run in (run for _, runs in _models(made, cases) for run in runs):
            tried |= _fired(run.ledger)
            for kind in run.kinds:
                if not run.holds(kind):
                    wrong = Proof((*run.measures(kind), *run.steps(kind))).wrong
                    raise fault(wrong[0] if wrong else run.whole(kind))
                if time.thread_time() > end:
                    return _remember(key)
    return _remember(key)


def _remember(key: object) -> None:
    """Takes note of a proof, whole or as far as its time went, and forgets the oldest."""
    _done[key] = None
    while len(_done) > REMEMBERED:
        _done.popitem(last=False)


def fault(found: Measure) -> TransformulaError:
    """What a user is told about a pass that is wrong."""
    return error(
        "X993",
        f"the pass `{found.stage}` changes what {found.model} computes: {_how(found.gap)}",
        because=(f"the case: {BY_NAME[found.case]}", f"the sizes: {found.sizes}"),
        help=f"This is a fault of transformula: please report it. `--without {found.stage}` compiles without the pass.",
    )


def told(found: Measure) -> str:
    """A measure on one line."""
    return f"{found.stage}: {found.model}, {found.case} ({BY_NAME[found.case]}), {found.sizes}: {_how(found.gap)}"


def _how(gap: Gap) -> str:
    return gap.reason or f"`{gap.result}` differs by {gap.error:.3g}, which is {gap.relative:.3g} of its size"


# ------------------------------------------------------------------------------------------------- small models

_done: OrderedDict[object, None] = OrderedDict()


def _key(made: Compiled) -> object:
    """What a proof depends on: the formulas of the model and its objectives, node by node, and the passes."""
    names = [stage.name for stage in made.stages[1:]]
    rows = tuple(row for row in pipeline.table() if row.name in names)
    return rows, *(_digest(one.formula) for one in (made, *made.losses))


def _digest(graph: Graph) -> bytes:
    """A number for the structure of a graph, the same in every session of the process that lowers it."""
    place: dict[Node, int] = {}
    made = hashlib.sha256(repr((graph.inputs, [(out.name, out.axes) for out in graph.outputs])).encode())
    for one in graph.nodes():
        attrs = {name: value for name, value in one.attrs.items() if name != "body"}
        body = [place[part] for part in one["body"]] if one.op == "loop" else []
        made.update(repr((one.op, [place[arg] for arg in one.args], one.axes, one.kind, attrs, body)).encode())
        place[one] = len(place)
    made.update(repr([place[root] for root in graph.roots]).encode())
    return made.digest()


def _fired(ledger: Ledger) -> set[tuple[str, str]]:
    return {(line.pass_name, line.rule) for line in ledger.lines if line.fired and line.pass_name != DERIVED}


def _models(made: Compiled, wanted: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Iterator[Run]]]:
    """The model and its objectives, each at its small sizes, with the same passes."""
    names = [stage.name for stage in made.stages[1:]]
    rows = tuple(row for row in pipeline.table() if row.name in names)
    for subject in subjects(made):
        decodes = made.decoding is not None and subject.entry.name == made.entry
        yield subject.entry.name, _runs(subject, rows, wanted, decodes)


def _runs(
    subject: Subject, rows: tuple[Pass, ...], wanted: Mapping[str, Sequence[str]], decodes: bool
) -> Iterator[Run]:
    shrinker = Shrinker(subject)
    for profile, kinds in wanted.items():
        for small, cases in fitting(shrinker, profile, kinds):
            yield _ran(subject.entry.name, small, rows, cases, decodes)


def fitting(shrinker: Shrinker, profile: str, names: Sequence[str]) -> Iterator[tuple[Small, tuple[Kind, ...]]]:
    """Small models with their cases: texts that the tables are too small for get a model with larger ones."""
    width = 4 if profile == "equal" else 5
    kinds = tuple(replace(one, width=min(one.width, width)) for one in map(BY_NAME.__getitem__, names))
    small = grown = shrinker.small(profile)
    if small is None:
        return
    for _ in range(GROWTHS):
        if grown is None or _defined(grown, replace(BY_NAME["masks"], width=width)):
            break
        grown = shrinker.grown(grown)
    if grown is None or grown is small:
        yield small, kinds
        return
    short = tuple(kind for kind in kinds if kind.width == 1 and _defined(small, kind))
    if short:
        yield small, short
    yield grown, tuple(kind for kind in kinds if kind not in short)


def _defined(small: Small, kind: Kind) -> bool:
    """Whether every number of every result exists."""
    trial = _trial(small.graph, kind)
    return trial is not None and trial.whole(small.graph)


def _trial(graph: Graph, kind: Kind) -> Trial | None:
    """The case, evaluated on the formula; None where the formula cannot be called so."""
    try:
        trial = Trial(graph, case(graph, kind))
        trial.values(graph)
    except (TransformulaError, ArithmeticError, ValueError, IndexError):
        return None
    return trial


# ----------------------------------------------------------------------------------------------- their stages


@dataclass(frozen=True)
class Run:
    """A small model in all its stages, with the cases that are for it."""

    model: str
    small: Small
    rows: tuple[Pass, ...]
    kinds: tuple[Kind, ...]
    stages: tuple[Stage, ...]
    ledger: Ledger
    broken: tuple[str, str] = ("", "")  # a pass that fails at these sizes, and how
    decoding: Decoding | None = None
    trials: dict[Kind, Trial | None] = field(default_factory=dict)

    def holds(self, kind: Kind) -> bool:
        """Whether the last stage computes what the formula does, and a derived step, if there is one."""
        if self.broken[0] or self.whole(kind).gap.wrong:
            return False
        return not any(one.gap.wrong for one in self.steps(kind))

    def steps(self, kind: Kind) -> Iterator[Measure]:
        """The derived step against the formula: none for a model without one, or where it draws or is given more."""
        trial = None if kind.training or kind.given else self.trial(kind)
        if self.decoding is None or trial is None or self.broken[0] or self.whole(kind).gap.wrong:
            return  # a pass that is wrong is blamed for itself
        loosest = max((self.unit(row) for row in self.rows), default=UNIT)
        gap = steps.compared(self.small.graph, self.decoding, trial, max(loosest, ULPS[REASSOCIATING] * UNIT))
        yield Measure(self.model, DERIVED, REASSOCIATING, kind.name, str(self.small), gap)

    def whole(self, kind: Kind) -> Measure:
        """The last stage against the formula."""
        trial, first, last = self.trial(kind), self.stages[0].graph, self.stages[-1]
        same = trial is None or last.graph.outputs == first.outputs
        loosest = max((self.unit(row) for row in self.rows), default=UNIT)
        gap = Gap("") if same or trial is None else trial.compare(first, last.graph, loosest)
        return Measure(self.model, last.name, "", kind.name, str(self.small), gap)

    def measures(self, kind: Kind) -> Iterator[Measure]:
        """Each stage that has changed anything against the one before it."""
        if self.broken[0]:
            stage, how = self.broken
            yield Measure(self.model, stage, "", kind.name, str(self.small), Gap("", reason=how))
        trial = self.trial(kind)
        rows = {row.name: row for row in self.rows}
        for before, after in zip(self.stages, self.stages[1:], strict=False):
            if trial is not None and after.graph.outputs != before.graph.outputs:
                row = rows[after.name]
                gap = trial.compare(before.graph, after.graph, self.unit(row))
                yield Measure(self.model, row.name, self.numeric(row), kind.name, str(self.small), gap)

    def trial(self, kind: Kind) -> Trial | None:
        """The case on the formula; None where it has no meaning there, or where the draws have been taken out."""
        if kind not in self.trials:
            undrawn = kind.training and "inference" in [row.name for row in self.rows]
            self.trials[kind] = None if undrawn else _trial(self.small.graph, kind)
        return self.trials[kind]

    def numeric(self, row: Pass) -> str:
        """The class of what a pass did here."""
        return pipeline.numeric_class(row, self.ledger)

    def unit(self, row: Pass) -> float:
        """By how much one operation may err after a pass."""
        numeric = self.numeric(row)
        rounding = ULPS.get(numeric, 0) * UNIT
        return rounding if numeric == EXACT else max(rounding, row.bound)


def _ran(model: str, small: Small, rows: tuple[Pass, ...], kinds: tuple[Kind, ...], decodes: bool) -> Run:
    """The small model after the passes, as far as they go."""
    names = [row.name for row in rows]
    broken = ("", "")
    while True:
        try:
            stages, ledger = pipeline.run(small.graph, only=names)
            decoding = steps.stepped(small.graph, names) if decodes else None
            return Run(model, small, rows, kinds, stages, ledger, broken, decoding)
        except Exception as failed:  # whatever a pass raises here, it is not the user's
            if not names:
                raise
            broken = names.pop(), f"it fails: {type(failed).__name__}: {failed}"
