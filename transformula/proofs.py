"""The command `verify`: every pass and every backend against the formulas, as a table of the largest errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .grammar.diagnostics import TransformulaError

if TYPE_CHECKING:
    from .backends.proving import Way
    from .compiler.driver import Compiled
    from .compiler.validation.trial import Measure

WIDE = 120
"""Columns that a table of all cases needs."""

FAULTS = 8
"""Faults that are spelt out; the table shows them all."""


@dataclass(frozen=True)
class Verification:
    """What the command line asks for; `compiled(entry)` compiles a model of the spec (or the folder's)."""

    entries: Sequence[str]
    compiled: Callable[[str], Compiled]
    backends: Sequence[str] = ()
    folder: Path | None = None


@dataclass
class Outcome:
    """All measures, and what could not be measured."""

    measures: list[Measure] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def wrong(self) -> list[Measure]:
        """The measures that are more than rounding explains."""
        return [one for one in self.measures if one.gap.wrong]


def verify_spec(
    spec: str | Path,
    is_folder: bool,
    entry: str | None,
    compiled: Callable[..., Compiled],
    backends: Sequence[str],
    as_json: bool,
) -> bool:
    """Verifies one model of a spec or all, or the model of a folder; `compiled(source, entry=…)` compiles one."""
    from .compiler.driver import load_module
    from .compiler.lower import choose_entry, entries

    if is_folder:
        names = [compiled(str(spec), entry=entry).entry]
        job = Verification(names, lambda name: compiled(str(spec), entry=name), backends, Path(spec))
        return verify_job(job, as_json)
    module = load_module(spec)
    every = [*entries(module), *(one.name for one in module.of_kind("corruption"))]
    names = [choose_entry(module, entry).name] if entry else every
    return verify_job(Verification(names, lambda name: compiled(module, entry=name), backends), as_json)


def verify_job(job: Verification, as_json: bool) -> bool:
    """Measures everything and prints it; whether all is right."""
    outcome = Outcome()
    job.compiled(job.entries[0])  # a mistake of the user's is told before any work
    chosen = list(_ways(job.backends, outcome))
    steps = [step for entry in job.entries for step in _steps(job, entry, chosen, outcome)]
    for step in _progress(steps):
        outcome.measures += step()
    if as_json:
        click.echo(json.dumps(_data(outcome), ensure_ascii=False, indent=2))
    else:
        _report(outcome)
    return not outcome.wrong


def _ways(backends: Sequence[str], outcome: Outcome) -> Iterator[Way]:
    """The backends that are asked for; by default all, and one whose framework is not installed is told."""
    from .backends.program import BACKENDS, check_backend
    from .backends.proving import ways

    for name in backends:
        check_backend(name)
    for name in backends or BACKENDS:
        try:
            yield from ways([name])
        except TransformulaError as fault:
            if backends:
                raise
            outcome.notes[f"left out: {fault.diagnostics[0].message} ({fault.diagnostics[0].help})"] = None


def _steps(
    job: Verification, entry: str, chosen: Sequence[Way], outcome: Outcome
) -> Iterator[Callable[[], Iterable[Measure]]]:
    """The work for one model, in parts that take a second or a few."""
    from .backends.proving import prove_backends, prove_folder
    from .backends.proving_corruptions import prove_corruption
    from .compiler.validation import prove

    made = job.compiled(entry)
    if made.kind == "corruption":
        yield lambda: list(prove_corruption(made, [way.backend for way in chosen]))
        return

    def passes() -> Iterable[Measure]:
        proof = prove(job.compiled(entry))
        for name in proof.skipped:
            outcome.notes[f"left out: {name} has no small sizes that its spec takes"] = None
        for rule in proof.untried:
            outcome.notes[f"not tried: {rule} fires in {entry} at its own sizes, and at no small ones"] = None
        return proof.measures

    yield passes
    for way in chosen:
        yield lambda way=way: list(prove_backends(job.compiled(entry), [way]))  # type: ignore[misc]
    if job.folder is not None:
        folder = job.folder
        yield lambda: list(prove_folder(folder, chosen, entry))


def _progress(steps: Sequence[Callable[[], Iterable[Measure]]]) -> Iterable[Callable[[], Iterable[Measure]]]:
    if not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, "proofs", console=Console(stderr=True), transient=True)


# ------------------------------------------------------------------------------------------------------- printing


def _report(outcome: Outcome) -> None:
    from rich.console import Console
    from rich.text import Text

    from .compiler.validation.proof import told

    console = Console(highlight=False)
    console.print(_table(outcome.measures, wide=console.width >= WIDE))
    for one in outcome.wrong[:FAULTS]:
        console.print(Text.assemble(("wrong ", "bold red"), told(one)), soft_wrap=True)
    if len(outcome.wrong) > FAULTS:
        console.print(Text(f"… and {len(outcome.wrong) - FAULTS} more"))
    for note in outcome.notes:
        console.print(Text(note, "dim"), soft_wrap=True)
    count = sum(one.gap.entries for one in outcome.measures)
    models = len({one.model for one in outcome.measures})
    verdict = f"{len(outcome.wrong)} of {len(outcome.measures)} comparisons are wrong" if outcome.wrong else "all right"
    console.print(Text(f"{verdict}: {models} models, {len(outcome.measures)} comparisons, {count} numbers"))


def _table(measures: Sequence[Measure], wide: bool) -> Any:
    """A row for each pass and backend: the largest error, relative to the numbers of its text, by case or in all."""
    from rich.table import Table
    from rich.text import Text

    cases = list(dict.fromkeys(one.case for one in measures)) if wide else []
    table = Table(box=None, pad_edge=False)
    for name in ("", "class"):
        table.add_column(name, no_wrap=True)
    for name in cases or ("largest error", "case"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("of allowed", justify="right", no_wrap=True)
    for stage in dict.fromkeys(one.stage for one in measures):
        row = [one for one in measures if one.stage == stage]
        cells = [_cell([one for one in row if one.case == name]) for name in cases] or [_cell(row), _worst(row).case]
        most = _worst(row).gap.excess
        allowed = Text(f"{most:.0%}" if most < 10 else f"× {most:.1g}", "red" if most > 1 else "")
        table.add_row(Text(stage, "bold"), Text(_class(row), "dim"), *cells, allowed)
    return table


def _worst(measures: Sequence[Measure]) -> Measure:
    return max(measures, key=lambda one: (one.gap.wrong, one.gap.excess))


def _cell(measures: Sequence[Measure]) -> Any:
    from rich.text import Text

    compared = [one for one in measures if one.gap.entries or one.gap.wrong]
    if not compared:
        return Text("–", "dim")
    worst = max(one.gap.relative for one in compared)
    wrong = any(one.gap.wrong for one in compared)
    return Text("0" if worst == 0 else f"{worst:.0e}", "bold red" if wrong else "")


def _class(measures: Sequence[Measure]) -> str:
    from .compiler.numeric import CLASSES, worst

    names = [one.numeric for one in measures]
    return worst(name for name in names if name in CLASSES) if names[0] in CLASSES else names[0]


def _data(outcome: Outcome) -> dict[str, Any]:
    """Everything as plain values; a number that is none is null."""

    def plain(one: Measure) -> dict[str, Any]:
        row = {**asdict(one), **asdict(one.gap), "wrong": one.gap.wrong}
        del row["gap"]
        return {
            name: None if isinstance(value, float) and abs(value) == float("inf") else value
            for name, value in row.items()
        }

    return {
        "ok": not outcome.wrong,
        "notes": list(outcome.notes),
        "measures": [plain(one) for one in outcome.measures],
    }
