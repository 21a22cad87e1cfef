"""Every stage of a compilation against the one before it, at small sizes, on cases that rewrites fail on."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...grammar.diagnostics import TransformulaError, error
from .. import pipeline
from ..decoding import DERIVED, Decoding
from ..driver import Compiled
from ..ir import Graph, Node
from ..ledger import Ledger
from ..numeric import EXACT, REASSOCIATING, ULPS, UNIT
from ..pipeline import Pass, Stage
from . import slopes, steps
from .cases import BY_NAME, KINDS, Kind
from .fitting import fitting, trial_of
from .sizes import Shrinker, Small, Subject, subjects
from .trial import Gap, Measure, Trial

EVERY = {name: tuple(kind.name for kind in KINDS) for name in ("different", "equal", "ones")}
"""All cases for each choice of sizes."""

WIDE = {"wide": ("masks", "padding", "large")}
"""What is tried besides where a rule has fired at the user's sizes and at no small ones: it asks what pays."""

QUICK = {"different": ("masks", "tiny"), "equal": ("equal", "large")}
"""What a compilation is proved on by itself."""

BUDGET = 1.0
"""Seconds of computing that a quick proof may take."""

REMEMBERED = 256
"""Proofs that are not made twice in one process."""


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
                measures += [measure for kind in run.kinds for measure in run.every(kind)]
    measures += [measure for run in slopes.runs(made, wanted) for kind in run.kinds for measure in run.every(kind)]
    untried = _fired(made.ledger) - tried
    told = tuple(f"{stage} {rule}" for stage, rule in sorted(untried))
    return Proof(tuple(measures), told, tuple(skipped), time.perf_counter() - start)


def prove_quickly(made: Compiled) -> None:
    """A few cases of two choices of sizes, in a fraction of a second. Raises `TransformulaError` where a pass is wrong.

    How long it takes does not depend on the model's sizes, nor on how many layers it has. After a second of computing,
    no further case is begun.
    """
    key = _key(made)
    if key not in _done:
        _quickly(_quick_runs(made))
        _quickly(slopes.runs(made, QUICK))
        _remember(key)


def _quick_runs(made: Compiled) -> Iterator[Run]:
    """The small models of a quick proof; wider ones where a rule has not fired at the first."""
    tried = set[tuple[str, str]]()
    for cases in (QUICK, WIDE):
        if cases is WIDE and _fired(made.ledger) <= tried:
            break
        for run in (run for _, runs in _models(made, cases) for run in runs):
            tried |= _fired(run.ledger)
            yield run


def _quickly(runs: Iterable[Run | slopes.Slopes]) -> None:
    """Case by case for the time that there is. Raises `TransformulaError` at the first that is wrong."""
    end = time.thread_time() + BUDGET
    for run in runs:
        for kind in run.kinds:
            wrong = run.worst(kind)
            if wrong is not None:
                raise fault(wrong)
            if time.thread_time() > end:
                return


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
        help=f"This is a fault of transformula: please report it. {_way_round(found.stage)}",
    )


def _way_round(stage: str) -> str:
    known = stage in (DERIVED, *(row.name for row in pipeline.table()))
    return f"`--without {stage}` compiles without the pass." if known else "Without gradients it compiles."


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
    return rows, made.gradients is None, *(_digest(one.formula) for one in (made, *made.losses))


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

    def every(self, kind: Kind) -> Iterator[Measure]:
        """Each stage, and the derived step."""
        yield from self.measures(kind)
        yield from self.steps(kind)

    def worst(self, kind: Kind) -> Measure | None:
        """What is to be blamed where the last stage or the derived step is not what the formula is."""
        if self.holds(kind):
            return None
        wrong = Proof(tuple(self.every(kind))).wrong
        return wrong[0] if wrong else self.whole(kind)

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
            self.trials[kind] = None if undrawn else trial_of(self.small.graph, kind)
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
