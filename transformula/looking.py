"""The commands that show an architecture: pictures of it, its mathematics, a page about it, what two differ by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .commands import command
from .options import (
    as_json,
    comparing,
    config,
    depth,
    drawing,
    entry,
    options,
    out,
    settings,
    spec,
    summing,
    typesetting,
)
from .reading import read_compiled


@command("transformula diff bert roberta", trouble=2)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options(comparing, as_json, out)
def diff(**chosen: Any) -> None:
    """Tell what two models differ by: structure, formulas, weights, stored names, cost.

    A and B are .formula files, names of shipped specs, models' folders, config.json files, or - for standard input.
    What merely follows from another difference is told with --all only. Exit status, as of diff(1): 0 the same, 1 they
    differ, 2 a mistake.
    """
    from .differing import diff_job

    if diff_job(**chosen):
        raise click.exceptions.Exit(1)


@command("transformula docs bert -o bert.md")
@spec
@options(out, depth, config, settings, entry)
def docs(spec: str, out: Path | None, depth: int | None, config: Path | None, **chosen: Any) -> None:
    """Write a page of Markdown about a spec: formulas beside its text, a picture, its weights and config.

    SPEC is a .formula file, the name of a shipped spec, or - for standard input.
    """
    from .backends.docs import DEPTH, page
    from .backends.program import write_text
    from .reading import read_config_file, read_settings, read_spec

    chosen["settings"] = read_settings(chosen["settings"])
    levels = DEPTH if depth is None else depth
    made = page(read_spec(spec), config=read_config_file(config), depth=levels, **chosen).text
    click.echo(made, nl=False) if out is None else click.echo(write_text(out, made), err=True)


@command("transformula graph bert --format html -o bert.html")
@spec
@options(drawing, config, settings, entry)
def graph(spec: str, form: str | None, out: Path | None, **chosen: Any) -> None:
    """Draw a model; a stack of layers is drawn once.

    SPEC is a .formula file, the name of a shipped spec, or - for standard input.
    """
    from .backends.draw import draw_bytes, form_of
    from .backends.program import write_bytes
    from .reading import read_drawing

    form = form or form_of(out.suffix if out else "")
    drawing = read_drawing(form, out, chosen)
    drawn = draw_bytes(read_compiled(spec, **chosen), form, **drawing)
    if out is None:
        click.echo(drawn, nl=False)
    else:
        click.echo(write_bytes(out, drawn), err=True)


@command("transformula summary bert --set layers=6 --length 512 --depth 2")
@spec
@options(config, settings, entry, summing)
def summary(
    spec: str,
    batch: int,
    length: int,
    fill: float,
    dtype: str,
    stage: str,
    depth: int | None,
    weights: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Tell what each block holds and costs: parameters, operations, bytes.

    SPEC is a .formula file, the name of a shipped spec, a model's folder (which is compared with the headers of its
    safetensors), or - for standard input. Layers are told once, with how often they run.
    """
    from .compiler.sizes import Sizes
    from .summarising import summarised, summary_report

    folder = Path(spec) if Path(spec).is_dir() else None
    made = summarised(read_compiled(spec, **chosen), Sizes(batch, length, fill), dtype, folder)
    summary_report(made, stage, depth, weights, as_json)


@command("transformula tex bert --name MultiHead --format unicode")
@spec
@options(typesetting, config, settings)
def tex(spec: str, form: str, out: Path | None, names: tuple[str, ...], config: Path | None, **chosen: Any) -> None:
    """Write the mathematics of a spec as on paper: LaTeX, Unicode or MathML.

    SPEC is a .formula file, the name of a shipped spec, or - for standard input.
    """
    from .backends.program import write_text
    from .backends.tex import typeset
    from .reading import read_config_file, read_settings, read_spec

    chosen["settings"] = read_settings(chosen["settings"])
    made = typeset(read_spec(spec), form, names, config=read_config_file(config), **chosen)
    click.echo(made, nl=False) if out is None else click.echo(write_text(out, made), err=True)
