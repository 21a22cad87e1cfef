"""What the commands print: reports of checks, of compilations and of the shipped specs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiler.units import size
from .grammar.diagnostics import Diagnostic, Span, TransformulaError
from .units import by_kind, change, step, total

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .compiler.explain import Chapter, Event, Report
    from .compiler.listing import Shape
    from .compiler.scope import Session


# ----------------------------------------------------------------------------------------------------- checks


def check_report(specs: Sequence[str | Path], config: dict[str, Any], axes: bool, as_json: bool) -> bool:
    """Checks specs one after the other and prints what was found; whether all are right."""
    found: list[dict[str, Any]] = []
    good = True
    for spec in specs:
        session, diagnostics = _checked(spec, config, axes)
        right = all(one.severity != "error" for one in diagnostics)
        good = good and right
        name = (
            session.module.file.span.source.name
            if session
            else "<text>"
            if isinstance(spec, str)
            else str(spec)
        )
        if as_json:
            found.append(
                {"spec": name, "ok": right, "diagnostics": [diagnostic_data(d) for d in diagnostics]}
            )
            if axes and session:
                found[-1]["axes"] = _axes_data(session)
            continue
        for one in diagnostics:
            click.echo(f"{one}\n", err=True)
        if axes and session:
            _print_axes(session)
        if right and session:
            click.echo(f"{name}: {_summary(session)}", err=axes)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
    return good


def _checked(
    spec: str | Path, config: dict[str, Any], trace: bool
) -> tuple[Session | None, list[Diagnostic]]:
    from .compiler.driver import check_session

    try:
        session = check_session(spec, config, trace)
    except TransformulaError as fault:
        return None, fault.diagnostics
    order = sorted(
        session.diagnostics.found, key=lambda d: (d.span.source.name, d.span.start) if d.span else ("", -1)
    )
    return session, order


def _summary(session: Session) -> str:
    module = session.module
    kinds = [module.entries[name].definition.kind for name in module.own if name in module.entries]
    counts = [f"{kinds.count(kind)} {kind}{'s' * (kinds.count(kind) != 1)}" for kind in dict.fromkeys(kinds)]
    warnings = len(session.diagnostics.warnings)
    told = f", {warnings} warning{'s' * (warnings != 1)}" if warnings else ""
    return f"ok ({', '.join(counts) or 'no definitions'}{told})"


def diagnostic_data(one: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain values, for JSON; lines and columns are counted from 1."""
    return {
        "code": one.code,
        "severity": one.severity,
        "message": one.message,
        **_place(one.span),
        "label": one.label,
        "notes": [{**_place(note.span), "text": note.text} for note in one.notes],
        "because": list(one.because),
        "help": one.help,
    }


def _place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"file": None, "line": None, "column": None, "length": None}
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "length": span.end - span.start,
    }


def _print_axes(session: Session) -> None:
    from .compiler.listing import listing

    rows = listing(session)
    wide = len(str(rows[-1].line)) if rows else 1
    for row in rows:
        click.echo(f"{click.style(f'{row.line:>{wide}} |', dim=True)} {row.text}")
        for shape in row.shapes:
            click.echo(f"{' ' * wide} {click.style('|', dim=True)}     {_shape(shape)}")


def _shape(shape: Shape) -> str:
    carried = click.style(f"({', '.join(shape.lifted)})", dim=True) if shape.lifted else ""
    return f"{click.style(shape.name, bold=True)} : [{', '.join(filter(None, (carried, *shape.seen)))}]"


def _axes_data(session: Session) -> list[dict[str, Any]]:
    from .compiler.listing import listing

    return [
        {"line": row.line, "name": shape.name, "lifted": list(shape.lifted), "axes": list(shape.seen)}
        for row in listing(session)
        for shape in row.shapes
    ]


# ----------------------------------------------------------------------------------------------- compilations


def explain_report(report: Report, as_json: bool) -> None:
    """Prints what every pass did and what the graph costs before and after it, of the model and its objectives."""
    if as_json:
        click.echo(json.dumps(report.data(), ensure_ascii=False, indent=2))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"{report.entry}: {report.nodes} nodes as the spec says it; costs are for {report.sizes}"))
    for chapter in report.chapters:
        console.print()
        _chapter(console, chapter)
    if not report.chapters:
        console.print(Text("no pass ran", "dim"))
    if report.decoding is not None:
        console.print()
        _decoding(console, report)
    console.print()
    _total(console, report)
    for loss in report.losses:
        _loss(console, loss, "objective of these results, a graph of its own")
    for loss in report.gradients:
        _loss(console, loss, "this objective of the model's inputs, with its gradients")


def _chapter(console: Console, chapter: Chapter) -> None:
    from rich.text import Text

    before, after = chapter.before, chapter.after
    nodes = f"{before} → {after} nodes" if before != after else f"{after} nodes"
    numeric = f"{chapter.numeric}  " if chapter.numeric else ""
    console.print(Text.assemble((chapter.name, "bold"), f"  {nodes}  {numeric}", (chapter.does, "dim")))
    for sign, style, events in (("+", "green", chapter.fired), ("-", "yellow", chapter.refused)):
        for event in events:
            console.print(Text.assemble((f"  {sign} ", style), *_event(event)))
    changed = change(chapter.cost_before, chapter.cost_after)
    if not (chapter.fired or chapter.refused or changed):
        console.print(Text("  nothing to do", "dim"))
    if changed:
        console.print(Text(f"  {changed}", "cyan"))


def _decoding(console: Console, report: Report) -> None:
    """The proof that a step needs new tokens alone, what it keeps, and what it costs beside the whole text."""
    from rich.text import Text

    made = report.decoding
    assert made is not None
    told = "new tokens alone are computed, over rows that are kept of the text before"
    console.print(Text.assemble(("derive_cache", "bold"), "  ", (told, "dim")))
    for sign, style, events in (("+", "green", made.fired), ("-", "yellow", made.refused)):
        for event in events:
            console.print(Text.assemble((f"  {sign} ", style), *_event(event)))
    if made.step is not None and made.first is not None:
        each = sum(row.bytes for row in made.kept if not row.once)
        once = sum(row.bytes for row in made.kept if row.once)
        before = f", {size(once)} of an example before the first" if once else ""
        console.print(Text(f"  {size(each)} are kept of each token{before}", "cyan"))
        console.print(Text(f"  one token more: {step(made.step, made.first)}", "cyan"))


def _loss(console: Console, loss: Report, what: str) -> None:
    """The objective's own graph: passes that did or refused something."""
    from rich.text import Text

    console.print()
    told = f"  {what}: {loss.nodes} nodes as the spec says it"
    console.print(Text.assemble((loss.entry, "bold"), told))
    for chapter in loss.chapters:
        if chapter.fired or chapter.refused:
            _chapter(console, chapter)
    _total(console, loss)


def _total(console: Console, report: Report) -> None:
    from rich.text import Text

    console.print(Text.assemble(("total", "bold"), f"  {total(report.cost, report.cost_at_last)}"))
    console.print(Text(f"  {by_kind(report.kinds)}", "dim"))


def _event(event: Event) -> list[str | tuple[str, str]]:
    times = f" ×{event.count}" if event.count > 1 else ""
    told: list[str | tuple[str, str]] = [
        (event.rule, "bold"),
        f"{times}: {event.what}" if event.what else times,
    ]
    if event.reason:
        told.append(f" (refused: {event.reason})")
    if event.place:
        told.append((f"  {event.place}", "dim"))
    return told


# -------------------------------------------------------------------------------------------------- results


def similarity_table(texts: Sequence[str], vectors: Sequence[Any]) -> Table:
    """The cosine of every two vectors: numbered texts, a column for each number, near ones marked."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column("text", max_width=44, no_wrap=True, overflow="ellipsis")
    for number in range(len(texts)):
        table.add_column(str(number + 1), justify="right")
    rows = np.asarray(vectors, np.float64)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    for number, (text, cosines) in enumerate(zip(texts, unit @ unit.T, strict=True)):
        styles = ["dim" if i == number else "bold green" if c > 0.5 else "" for i, c in enumerate(cosines)]
        cells = [Text(f"{cosine:.2f}", style) for cosine, style in zip(cosines, styles, strict=True)]
        table.add_row(str(number + 1), Text(text), *cells)
    return table


# ---------------------------------------------------------------------------------------------- shipped specs


def specs_report() -> None:
    """Prints the shipped specs, each with the first line of its comment."""
    from .compiler.modules import read_source, shipped
    from .grammar.comments import head

    names = sorted(shipped(), key=lambda name: (name.startswith("lib/"), name))
    wide = max(map(len, names))
    for name in names:
        click.echo(f"{name:<{wide}}  {next(iter(head(read_source(name))), '')}".rstrip())
