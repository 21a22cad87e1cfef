"""The command diff: reads both sides, prints what they differ by, says whether they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .grammar.diagnostics import error
from .reading import read_config_file, read_settings, read_spec

if TYPE_CHECKING:
    from .backends.difference import Difference


def diff_job(
    a: str,
    b: str,
    only: tuple[str, ...],
    every: bool,
    batch: int,
    length: int,
    fill: float,
    form: str,
    quiet: bool,
    as_json: bool,
    out: Path | None,
    **sides: Any,
) -> bool:
    """Prints (or writes) what the two sides differ by; whether they do. Raises `TransformulaError` for a mistake."""
    from .backends.difference import diff

    if a == b == "-":
        raise error("C678", "only one side can be standard input", help="Write the other one to a file.")
    found = diff(read_spec(a), read_spec(b), batch=batch, length=length, fill=fill, only=only, **_both(sides))
    if not quiet:
        _tell(found, form, every, as_json, out)
    return bool(found)


def _both(sides: dict[str, Any]) -> dict[str, Any]:
    """What is said of each side: of both, then of it alone."""
    made: dict[str, Any] = {}
    for side in ("a", "b"):
        own = sides[f"config_{side}"] or sides["config"]
        made[f"config_{side}"] = read_config_file(own)
        given = (*sides["settings"], *sides[f"settings_{side}"])
        made[f"settings_{side}"] = read_settings(given, f"set-{side}")
        made[f"entry_{side}"] = sides[f"entry_{side}"] or sides["entry"]
    return made


def _tell(found: Difference, form: str, every: bool, as_json: bool, out: Path | None) -> None:
    if out is None and form == "text" and not as_json:
        _print(found, every)
        return
    forms = {"text": found.text, "markdown": found.markdown, "html": found.html}
    told = json.dumps(found.data(), ensure_ascii=False, indent=2) + "\n" if as_json else forms[form](every)
    if out is None:
        click.echo(told, nl=False)
    else:
        from .backends.program import write_text

        click.echo(write_text(out, told), err=True)


def _print(found: Difference, every: bool) -> None:
    """The lines in colour, where the terminal has it; as wide as that is."""
    from rich.console import Console
    from rich.text import Text

    from .backends.difference.text import WIDTH, rendered

    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, 140) if console.is_terminal else WIDTH
    for row in rendered(found.found, every, width):
        text = Text.assemble(*row)
        text.rstrip()
        console.print(text)
