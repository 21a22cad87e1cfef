"""The options of the command line that several commands share, or that are many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def options(*added: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, shown in this order."""

    def add(function: F) -> F:
        for one in reversed(added):
            function = one(function)
        return function

    return add


spec = click.argument("spec")
config = click.option("--config", type=PATH, metavar="FILE", help="A config.json with the model's sizes.")
entry = click.option(
    "--entry", metavar="NAME", help="The model or objective; by default the spec's first model."
)
settings = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="An entry of the spec's config."
)
out = click.option("-o", "--out", type=PATH, metavar="FILE", help="The file to write.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
layout = click.option(
    "--layout", metavar="NAME", help="How PyTorch computes a batch: padded (it exports) or packed (eager, faster)."
)
shows = click.option(
    "--show", "shows", multiple=True, metavar="NAME", help="A result on demand, as hidden_states; several if needed."
)
asked = options(
    click.option(
        "--result", "results", multiple=True, metavar="NAME", help="A result to compute; by default all but --show."
    ),
    click.option(
        "--rows",
        multiple=True,
        metavar="NAME=WAY",
        help="Which tokens' rows of a result: first, last, or positions (a new input at_positions).",
    ),
)
validation = click.option(
    "--no-validate", "validate", is_flag=True, flag_value=False, default=True, help="Skip the proof of the passes."
)
gradients = click.option(
    "--gradients", is_flag=True, help="With loss_and_gradients, too (NumPy; a PyTorch module has autograd)."
)
passes = options(
    click.option(
        "--without", multiple=True, metavar="PASS", help="Leave out a pass; may be given several times."
    ),
    click.option(
        "--only", multiple=True, metavar="PASS", help="Run this pass only; may be given several times."
    ),
    click.option("--until", metavar="PASS", help="Stop after this pass (`formula`: before all)."),
)
generating = options(
    click.option("--prompt", multiple=True, metavar="TEXT", help="A text to go on with; may be given several times."),
    click.option("--max-new-tokens", type=int, metavar="N", help="How many tokens may follow a prompt."),
    click.option("--min-new-tokens", type=int, metavar="N", help="How many must."),
    click.option("--sample", is_flag=True, help="Draw tokens; the next four do so, too. By default the likeliest."),
    click.option("--temperature", type=float, metavar="T", help="Below 1 likelier tokens, above 1 unlikelier ones."),
    click.option("--top-k", type=int, metavar="K", help="Draw from the K likeliest tokens; 0 for all."),
    click.option("--top-p", type=float, metavar="P", help="Draw from the likeliest tokens that make up P of all."),
    click.option("--min-p", type=float, metavar="P", help="Draw from tokens of P times the likeliest one's share."),
    click.option("--seed", type=int, metavar="N", help="Makes draws repeatable."),
    click.option("--beams", type=int, metavar="N", help="Search with N beams; nothing is printed before the end."),
    click.option("--repetition-penalty", type=float, metavar="R", help="Above 1 tokens come again less often."),
    click.option("--option", multiple=True, metavar="NAME=VALUE", help="Another option of `generate`, as JSON."),
)
