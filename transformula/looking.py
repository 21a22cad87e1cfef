"""The commands that show an architecture: pictures of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .commands import command
from .options import config, drawing, entry, options, settings, spec
from .reading import read_compiled


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
