"""What a command of the command line is: a function with an example and with manners, in one group.

Each command imports what it does when it runs, so that all start quickly.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from . import __version__

F = TypeVar("F", bound=Callable[..., Any])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="transformula", message="%(prog)s %(version)s")
def app() -> None:
    """Transformer formulas in, readable modules out."""


@contextmanager
def _manners(trouble: int = 1) -> Iterator[None]:
    """A user's mistake is a message and exit `trouble`, Ctrl-C 130; a reader that left early is no mistake."""
    from .grammar.diagnostics import TransformulaError

    try:
        yield
        sys.stdout.flush()
    except TransformulaError as fault:
        click.echo(str(fault), err=True)
        raise click.exceptions.Exit(trouble) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
    except OSError as fault:
        if isinstance(fault, BrokenPipeError) or fault.errno == errno.EPIPE:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        click.echo(
            f"error: {f'{fault.filename}: ' if fault.filename else ''}{fault.strerror or fault}", err=True
        )
        raise click.exceptions.Exit(trouble) from None


def command(example: str, trouble: int = 1) -> Callable[[F], F]:
    """Makes a function a command, with an example below its help and with manners; a mistake exits with `trouble`."""

    def register(function: F) -> F:
        @functools.wraps(function)
        def polite(*args: Any, **options: Any) -> Any:
            with _manners(trouble):
                return function(*args, **options)

        return app.command(function.__name__, epilog=f"\b\nExample:\n  {example}")(polite)  # type: ignore[return-value]

    return register
