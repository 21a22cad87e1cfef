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
depth = click.option(
    "--depth", type=click.IntRange(min=0), help="How many levels of blocks are opened in the picture; by default 2."
)
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
sizes = options(
    click.option("--batch", type=click.IntRange(min=1), default=8, show_default=True, help="Examples, for the costs."),
    click.option("--length", type=click.IntRange(min=1), default=128, show_default=True, help="Tokens of the longest."),
    click.option(
        "--fill", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True, help="Real tokens of all."
    ),
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
corrupting = options(
    click.option("--text", multiple=True, help="A text; may be given several times."),
    click.option("--file", type=PATH, metavar="FILE", help="A file with one text a line."),
    click.option("--tokenizer", type=PATH, metavar="FOLDER", help="Holds tokenizer.json; without, words are tokens."),
    click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same result."),
    click.option(
        "--example", "first", type=click.IntRange(min=0), default=0, help="The number of the first text."
    ),
    click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="A rate, or the id of a token."),
    click.option("--whole-words", is_flag=True, help="Mask words as a whole."),
)
training = options(
    click.option("--objective", metavar="NAME", help="What is trained; by default the spec's only one."),
    click.option("--data", type=PATH, multiple=True, metavar="FILE", help="A file of text; several if needed."),
    click.option("--out", type=PATH, default=Path("trained"), show_default=True, metavar="FOLDER", help="Its folder."),
    click.option("--tokenizer", type=PATH, metavar="FOLDER", help="A folder with tokenizer.json; else bytes."),
    click.option("--vocabulary", type=int, default=0, metavar="N", help="Learn so many tokens of the text; 0: bytes."),
    click.option("--corruption", multiple=True, metavar="NAME", help="What texts go through, in order; none for none."),
    click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input of a corruption."),
    click.option("--backend", default="torch", show_default=True, help="numpy or torch."),
    click.option("--dtype", default="float32", show_default=True, help="The numbers of weights and results."),
    click.option("--device", metavar="NAME", help="Where torch computes, as cpu or cuda:0."),
    click.option("--steps", type=int, default=1000, show_default=True, help="Steps of the optimiser."),
    click.option("--batch-size", type=int, default=16, show_default=True, help="Examples of a part of a batch."),
    click.option("--accumulate", type=int, default=1, show_default=True, help="Parts of a batch, one step for all."),
    click.option("--length", type=int, default=128, show_default=True, help="Tokens of an example."),
    click.option("--lr", type=float, default=1e-3, show_default=True, help="The largest learning rate."),
    click.option("--warmup", type=int, metavar="STEPS", help="Steps up to it; by default a tenth, at most 1000."),
    click.option("--schedule", default="linear", show_default=True, help="Then down: linear, cosine, or constant."),
    click.option("--decay", type=float, default=0.01, show_default=True, help="AdamW's decay of maps and tables."),
    click.option("--clip", type=float, default=1.0, show_default=True, help="The largest norm of a gradient; 0: any."),
    click.option("--held-out", type=float, default=0.05, show_default=True, help="The share of text to measure with."),
    click.option("--eval-every", type=int, default=100, show_default=True, help="Steps between measurements."),
    click.option("--save-every", type=int, default=500, show_default=True, help="Steps between checkpoints."),
    click.option("--keep", type=int, default=2, show_default=True, help="Checkpoints that stay."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of weights, order, corruptions, dropout."),
    click.option("--resume", is_flag=True, help="Go on from the newest checkpoint of --out."),
)
drawing = options(
    click.option(
        "--format",
        "form",
        type=click.Choice(["mermaid", "dot", "svg", "png", "html"]),
        help="The kind of picture; by default what the file of -o ends in, else mermaid.",
    ),
    out,
    click.option(
        "--stage",
        default="formula",
        metavar="formula|PASS|final",
        help="The graph as written (default) or after a pass.",
    ),
    click.option(
        "--depth", type=click.IntRange(min=0), help="How many levels of blocks are opened; by default all."
    ),
    click.option("--full", is_flag=True, help="Open blocks of a single equation, too."),
    click.option(
        "--direction", type=click.Choice(["down", "right"]), default="down", help="Where edges lead (not html)."
    ),
    click.option("--figures/--no-figures", default=True, help="Parameters and operations of each block."),
    sizes,
    click.option(
        "--theme",
        type=click.Choice(["auto", "light", "dark"]),
        default="auto",
        help="Colours of svg and png; auto is as the reader has it (a png: light).",
    ),
    click.option(
        "--scale",
        type=click.FloatRange(min=0.1, max=16),
        default=2.0,
        show_default=True,
        help="Pixels of a png to each point.",
    ),
)
SIDES = (("", "Of both sides"), ("-a", "Of A alone"), ("-b", "Of B alone"))
comparing = options(
    *(click.option(f"--config{at}", type=PATH, metavar="FILE", help=f"{of}: a config.json.") for at, of in SIDES),
    *(
        click.option(
            f"--set{at}", f"settings{at.replace('-', '_')}", multiple=True, metavar="NAME=VALUE", help=f"{of}."
        )
        for at, of in SIDES
    ),
    *(click.option(f"--entry{at}", metavar="NAME", help=f"{of}: a model.") for at, of in SIDES),
    click.option(
        "--only", multiple=True, metavar="PART", help="structure, formulas, weights or cost; several if needed."
    ),
    click.option("--all", "every", is_flag=True, help="What follows from other differences, and spelling, too."),
    sizes,
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "markdown", "html"]),
        default="text",
        show_default=True,
        help="How it is told; html is one page.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print nothing: the exit status tells."),
)
summing = options(
    sizes,
    click.option(
        "--stage",
        type=click.Choice(["formula", "final"]),
        default="final",
        show_default=True,
        help="Costs as the spec says it, or after the last pass.",
    ),
    click.option("--depth", type=click.IntRange(min=0), help="How many levels of blocks are told; by default all."),
    click.option("--dtype", default="float32", show_default=True, help="The numbers that bytes are told for."),
    click.option("--weights", is_flag=True, help="List the weights: axes, sizes, names in the checkpoint."),
    as_json,
)
typesetting = options(
    click.option(
        "--format",
        "form",
        type=click.Choice(["latex", "snippet", "unicode", "mathml", "html"]),
        default="latex",
        show_default=True,
        help="A document for pdflatex, its formulas alone, text, MathML, or a page of it.",
    ),
    out,
    click.option(
        "--name", "names", multiple=True, metavar="NAME", help="A definition of the spec; several if needed."
    ),
    click.option("--entry", metavar="NAME", help="A definition with all that it uses; by default the spec's own."),
    click.option("--inline", is_flag=True, help="Write the parts of a formula in place of their names."),
)
