"""The command line. All but the options is imported when a command runs, so that each starts quickly."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import click

from . import looking
from .commands import app, command
from .options import (
    PATH,
    as_json,
    asked,
    config,
    corrupting,
    entry,
    generating,
    gradients,
    layout,
    options,
    out,
    passes,
    settings,
    shows,
    sizes,
    spec,
    training,
    validation,
)
from .reading import read_compiled, read_config_file, read_settings, read_spec

__all__ = ["app", "looking", "main"]


@command("transformula check my.formula --axes")
@click.argument("specs", nargs=-1, required=True)
@options(click.option("--axes", is_flag=True, help="Print the axes of every equation."), config, as_json)
def check(specs: tuple[str, ...], axes: bool, config: Path | None, as_json: bool) -> None:
    """Check specs: grammar, names and axes.

    SPECS are .formula files, names of shipped specs, or - for standard input. Exit status 1: a mistake.
    """
    from .show import check_report

    if not check_report([read_spec(one) for one in specs], read_config_file(config), axes, as_json):
        raise click.exceptions.Exit(1)


@command("transformula compile bert --set layers=6 --set act=relu -o bert.py")
@spec
@options(out, click.option("--backend", default="numpy", show_default=True, help="numpy, or torch (an nn.Module)."))
@options(layout, gradients, config, settings, entry, shows, asked, passes, validation)
def compile(spec: str, out: Path | None, backend: str, layout: str | None, validate: bool, **chosen: Any) -> None:
    """Compile a model to a standalone module; without -o, print it.

    SPEC is a .formula file, the name of a shipped spec, or - for standard input.
    """
    from .backends.program import Program, check_backend, passes_left_out, proved

    check_backend(backend, layout)
    chosen["without"] = (*chosen["without"], *passes_left_out(backend))
    chosen["gradients"] &= backend == "numpy"
    compiled = read_compiled(spec, **chosen)
    made = Program(proved(compiled) if validate else compiled, backend, layout)
    source = made.source
    for line in made.ledger.lines:
        if layout == "packed" and line.rule == "packed" and not line.fired:
            click.echo(f"{made.name} is padded, not packed: {line.reason}", err=True)
    if out is None:
        click.echo(source, nl=False)
        return
    made.save(out)
    click.echo(f"{out}: {made.name}, {len(made.source.splitlines())} lines", err=True)


@command('transformula run ./all-MiniLM-L6-v2 --text "A sentence." --text "Another one."')
@click.argument("folder", type=PATH)
@options(
    click.option("--text", multiple=True, help="A text; may be given several times."),
    click.option(
        "--file", type=PATH, metavar="FILE", help="A file with one text a line; by default standard input."
    ),
    click.option(
        "--backend", default="numpy", show_default=True, help="numpy, torch, or reference (slow, float64)."
    ),
    click.option("--device", metavar="NAME", help="Where torch computes, as cpu or cuda:0."),
    layout,
    click.option(
        "--output",
        type=click.Choice(["json", "npy", "text"]),
        help="An object a line, one array, or text; by default text for prompts, else json.",
    ),
    out,
    click.option("--name", metavar="OUTPUT", help="Which of the model's outputs; by default the first."),
    click.option(
        "--dtype", type=click.Choice(["float32", "float64"]), help="The kind of numbers to compute with."
    ),
    click.option(
        "--batch-size", type=click.IntRange(min=1), default=32, show_default=True, help="Texts at once."
    ),
    entry,
    click.option("--similarity", is_flag=True, help="Print how alike the texts are (cosine)."),
    validation,
    generating,
)
def run(**chosen: Any) -> None:
    """Run a model over texts, one result a line, or go on with a --prompt.

    FOLDER holds config.json, model.safetensors and tokenizer.json. The text that follows a prompt is printed as it
    comes; of an encoder-decoder the prompt is the source. What the options of a prompt leave open the folder's
    generation_config.json says.
    """
    from .texts import Job, run_job

    chosen["option"] = read_settings(chosen["option"], "option", "no_repeat_ngram_size=3")
    run_job(Job(**chosen))


@command('transformula corrupt bart text_infilling --text "A small cat sat on the warm mat." --seed 1')
@spec
@click.argument("name", required=False)
@options(
    corrupting,
    click.option("--backend", default="numpy", show_default=True, help="numpy, or torch: they give the same."),
    config,
    settings,
    as_json,
)
def corrupt(
    spec: str, name: str | None, backend: str, config: Path | None, settings: tuple[str, ...], **chosen: Any
) -> None:
    """Corrupt texts as a pretraining objective does, and show them before and after.

    SPEC is a .formula file, the name of a shipped spec, a model's folder, or - for standard input; NAME one of its
    corruptions, by default the first. Pairs are made of texts that follow each other.
    """
    from .corrupting import Job, corrupt_job, programs

    said = read_settings(chosen.pop("inputs"), "input", "mlm_probability=0.3")
    said |= {"whole_words": True} if chosen.pop("whole_words") else {}
    folder = Path(spec) if Path(spec).is_dir() else None
    made = programs(folder or read_spec(spec), name, backend, read_config_file(config), read_settings(settings))
    chosen["tokenizer"] = chosen["tokenizer"] or folder
    corrupt_job(made, Job(inputs=said, **chosen))


@command("transformula train bert --objective mlm --data book.txt --set layers=4 --set d=256 --out trained")
@spec
@options(training, config, settings)
def train(spec: str, config: Path | None, settings: tuple[str, ...], inputs: tuple[str, ...], **chosen: Any) -> None:
    """Train an objective on text, into a folder that the ecosystem reads.

    SPEC is a .formula file or the name of a shipped spec (weights are drawn), or a model's folder (its weights are gone
    on with). Ctrl-C ends with a checkpoint, from which --resume goes on as if nothing had been.
    """
    from .training.command import end, run, settings_of

    said = read_settings(inputs, "input", "mlm_probability=0.3")
    chosen |= {"config": read_config_file(config), "settings": read_settings(settings)}
    end(run(settings_of(spec, inputs=said, **chosen)))


@command("transformula explain bert --set layers=2 --length 512")
@spec
@options(gradients, config, settings, entry, shows, asked, passes)
@options(sizes, as_json)
def explain(spec: str, batch: int, length: int, fill: float, as_json: bool, **chosen: Any) -> None:
    """Tell what each pass did and where, what it refused for want of which fact, and what the model costs.

    SPEC is a .formula file, the name of a shipped spec, a model's folder, or - for standard input.
    """
    from .compiler.explain import explained
    from .compiler.sizes import Sizes
    from .show import explain_report

    explain_report(explained(read_compiled(spec, **chosen), Sizes(batch, length, fill)), as_json)


@command("transformula verify bert --entry Bert")
@spec
@options(
    click.option("--backend", "backends", multiple=True, metavar="NAME", help="numpy or torch; by default both."),
    config,
    settings,
    click.option("--entry", metavar="NAME", help="One model or objective; by default all of a spec, or the folder's."),
    click.option("--without", multiple=True, metavar="PASS", help="Leave out a pass; may be given several times."),
    as_json,
)
def verify(spec: str, backends: tuple[str, ...], entry: str | None, as_json: bool, **chosen: Any) -> None:
    """Prove every pass and every backend against the formulas.

    SPEC is a .formula file, the name of a shipped spec, a model's folder, or - for standard input. Passes and backends
    are compared with the naive evaluator in float64, at small sizes, on cases that rewrites fail on: masks of every
    kind, large and tiny numbers, NaN in padding; a folder's backends on its own weights, too. Exit status 1: something
    differs by more than rounding explains.
    """
    from .proofs import verify_spec

    folder = Path(spec) if Path(spec).is_dir() else None
    compiled = functools.partial(read_compiled, **chosen)
    if not verify_spec(folder or read_spec(spec), folder is not None, entry, compiled, backends, as_json):
        raise click.exceptions.Exit(1)


@command("transformula convert ./old-model -o ./new-model")
@click.argument("folder", type=PATH)
@click.option("-o", "--out", type=PATH, metavar="FOLDER", help="Where to write; by default into the folder itself.")
def convert(folder: Path, out: Path | None) -> None:
    """Write pickled weights (pytorch_model.bin) as safetensors, which `run` and `load` read.

    FOLDER holds config.json and the pickle. Only tensors are taken from it; nothing in it is run. Needs PyTorch.
    """
    from importlib import import_module

    made = import_module(".backends.torch.convert", __package__).convert(folder, out or folder)
    click.echo(made, err=True)


@command("transformula specs")
def specs() -> None:
    """List the specs that are shipped."""
    from .show import specs_report

    specs_report()


def main() -> None:
    """The entry point of the command `transformula`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks a sign of a formula still gets the rest
    app(prog_name="transformula")
