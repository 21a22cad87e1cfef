"""The command `run`: texts in, one result a line out. Memory holds a window of texts, not a whole file."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .grammar.diagnostics import did_you_mean, error

if TYPE_CHECKING:
    from .backends.load import LoadedModel
    from .compiler.modules import Module

WINDOW = 64  # batches whose texts are sorted by length together
LONG = 200  # texts from which a progress bar is worth it
ALIKE = 50  # texts that a table of similarities may have


@dataclass(frozen=True)
class Job:
    """What the command line asks for."""

    folder: Path
    text: Sequence[str] = ()
    file: Path | None = None
    backend: str = "numpy"
    output: str | None = None
    out: Path | None = None
    name: str | None = None
    dtype: str | None = None
    device: str | None = None
    layout: str | None = None
    batch_size: int = 32
    entry: str | None = None
    similarity: bool = False
    validate: bool = True
    prompt: Sequence[str] = ()
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    beams: int | None = None
    repetition_penalty: float | None = None
    option: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What happened to the texts: how many were cut, and the numbers of those that have nothing to run on."""

    texts: int = 0
    cut: int = 0
    empty: list[int] = field(default_factory=list)


def run_job(job: Job) -> None:
    """Runs the model over the texts and prints or writes the results."""
    from .prompts import refuse_options, run_prompts

    if job.prompt:
        run_prompts(job)
        return
    refuse_options(job)
    if job.output == "text":
        raise error("R920", "--output text is for --prompt", help="Results are numbers: json or npy.")
    if job.output == "npy" and job.out is None and not job.similarity:
        raise error("R920", "an array is no text for the terminal", help="Give -o FILE.npy.")
    if job.text and job.file:
        raise error("R921", "--text and --file exclude each other")
    texts, total = _texts(job)
    model = loaded(job)
    name, per_token = _output(model, job.name)
    tally = Tally()
    tokenizer = read_tokenizer(model)
    if model.max_length is not None:
        tokenizer.enable_truncation(model.max_length)
    results = _results(model, tokenizer, texts, name, per_token, job.batch_size, tally)
    results = _progress(results, total)
    if job.similarity:
        kept = list(itertools.islice(results, ALIKE + 1))
        _similarity(kept, per_token)
    else:
        with sink(job.out, binary=job.output == "npy") as file:
            (_write_array if job.output == "npy" else _write_lines)(results, file, name, per_token)
    _tell(tally, model)


def loaded(job: Job) -> LoadedModel:
    """The folder's model."""
    from .backends.load import load

    where: dict[str, Any] = {"device": job.device, "layout": job.layout, "validate": job.validate}
    return load(job.folder, job.backend, job.dtype or "float32", job.entry, **where)


def folder_spec(
    folder: Path, config: dict[str, Any], entry: str | None
) -> tuple[Module, dict[str, Any], str | None]:
    """The spec, the config and the model that a folder asks for."""
    from .backends.folder import read_model_folder

    found = read_model_folder(folder, entry=entry)
    return found.module, {**found.config, **config}, found.entry


# --------------------------------------------------------------------------------------------- texts, tokens


def _texts(job: Job) -> tuple[Iterator[tuple[int, str]], int | None]:
    """The texts with their line numbers, and how many there are, if that is known beforehand."""
    if job.text:
        return iter(list(enumerate(job.text, 1))), len(job.text)
    if job.file is None or str(job.file) == "-":
        if sys.stdin.isatty():
            click.echo("Reading texts from the terminal, one a line; Ctrl-D ends.", err=True)
        return _lines(sys.stdin.buffer, "standard input"), None
    with job.file.open("rb") as file:
        total = sum(1 for _ in file)
    return _lines(job.file.open("rb"), str(job.file)), total


def _lines(file: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    with file:
        for number, line in enumerate(file, 1):
            if b"\0" in line:
                raise error("R922", f"{name} is no text: line {number} holds a zero byte")
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise error("R922", f"{name} is no text in UTF-8: line {number} is not") from None


def read_tokenizer(model: LoadedModel) -> Any:
    """The folder's tokenizer; it neither pads nor cuts."""
    from tokenizers import Tokenizer

    if model.tokenizer_file is None:
        raise error(
            "R923",
            "the folder has no tokenizer.json",
            help="Texts need one; token ids go to transformula.load.",
        )
    try:
        tokenizer = Tokenizer.from_file(str(model.tokenizer_file))
    except Exception as fault:  # the library raises bare exceptions
        raise error("R924", f"{model.tokenizer_file} is no tokenizer: {fault}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _results(
    model: LoadedModel,
    tokenizer: Any,
    texts: Iterator[tuple[int, str]],
    name: str,
    per_token: bool,
    size: int,
    tally: Tally,
) -> Iterator[tuple[str, Any]]:
    """(text, result) in the order of the texts; texts of like length are run together."""
    while window := list(itertools.islice(texts, WINDOW * size)):
        tally.texts += len(window)
        tally.empty += [number for number, text in window if not text.strip()]
        kept = [(number, text) for number, text in window if text.strip()]
        encodings = tokenizer.encode_batch([text for _, text in kept])
        tally.cut += sum(bool(one.overflowing) for one in encodings)
        tally.empty += [number for (number, _), one in zip(kept, encodings, strict=True) if not one.ids]
        filled = [i for i, one in enumerate(encodings) if one.ids]
        order = sorted(filled, key=lambda i: (-len(encodings[i].ids), i))
        found: dict[int, Any] = {}
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            rows = _run(model, [encodings[i] for i in batch], name, per_token)
            found.update(zip(batch, rows, strict=True))
        yield from ((kept[i][1], found[i]) for i in filled)


def _run(model: LoadedModel, encodings: Sequence[Any], name: str, per_token: bool) -> list[Any]:
    import numpy as np

    lengths = [len(one.ids) for one in encodings]
    ids = np.zeros((len(encodings), max(lengths)), np.int64)
    mask = np.zeros_like(ids)
    for row, one in enumerate(encodings):
        ids[row, : len(one.ids)] = one.ids
        mask[row, : len(one.ids)] = 1
    result = model(input_ids=ids, attention_mask=mask)[name]
    if not isinstance(result, np.ndarray):  # a tensor of torch, on whatever device
        result = result.cpu().numpy()
    return [row[:length] if per_token else row for row, length in zip(result, lengths, strict=True)]


def _output(model: LoadedModel, wanted: str | None) -> tuple[str, bool]:
    """The output to give, and whether it has a row for every token."""
    outputs = {one.name: one for one in model.program.compiled.formula.outputs}
    names = [name for name in outputs if name not in model.left_out]
    name = wanted or names[0]
    if name not in names:
        missing = f": {model.left_out[name]}" if name in model.left_out else ""
        advice = did_you_mean(name, names) or f"It has {', '.join(names)}."
        raise error("R925", f"{model.entry} has no output `{name}`{missing}", help=advice)
    return name, any(axis.ragged for axis in outputs[name].axes[1:])


# --------------------------------------------------------------------------------------------------- results


@contextmanager
def sink(out: Path | None, binary: bool) -> Iterator[IO[Any]]:
    """Standard output, or a file that is there only once it is whole."""
    if out is None:
        yield sys.stdout
        return
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with (
            os.fdopen(handle, "wb")
            if binary
            else os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file
        ):
            yield file
        os.chmod(name, 0o644)
        os.replace(name, out)
    except BaseException:
        os.unlink(name)
        raise


def _write_lines(results: Iterator[tuple[str, Any]], file: IO[str], name: str, per_token: bool) -> None:
    for text, value in results:
        file.write(
            json.dumps({"text": text, name: _numbers(value)}, ensure_ascii=file is sys.stdout and not utf8())
            + "\n"
        )


def utf8() -> bool:
    """Whether standard output takes any character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _numbers(value: Any) -> Any:
    """Plain numbers with no more digits than their kind of number has."""
    if value.ndim:
        return [_numbers(one) for one in value]
    return float(str(value)) if value.dtype.kind == "f" else value.item()


def _write_array(results: Iterator[tuple[str, Any]], file: IO[bytes], name: str, per_token: bool) -> None:
    import numpy as np

    if per_token:
        raise error(
            "R926", f"{name} has a row for each token, and texts differ in length", help="Use --output json."
        )
    rows = [value for _, value in results]
    np.save(file, np.stack(rows) if rows else np.zeros((0,), np.float32))


def _progress(results: Iterator[tuple[str, Any]], total: int | None) -> Iterator[tuple[str, Any]]:
    if not sys.stderr.isatty() or (total is not None and total < LONG):
        return results
    from rich.console import Console
    from rich.progress import track

    return iter(track(results, "texts", total=total, console=Console(stderr=True), transient=True))


def _similarity(results: Sequence[tuple[str, Any]], per_token: bool) -> None:
    """The cosine of every two results as a table."""
    if per_token:
        raise error("R927", "--similarity needs one vector a text", help="Choose such an output with --name.")
    if len(results) > ALIKE:
        raise error(
            "R928", f"a table of more than {ALIKE} texts is for nobody's eyes", help="Use -o FILE and NumPy."
        )
    from rich.console import Console

    from .show import similarity_table

    Console().print(similarity_table([text for text, _ in results], [value for _, value in results]))


def _tell(tally: Tally, model: LoadedModel) -> None:
    """Warnings on the standard error stream."""
    if not tally.texts:
        click.echo("warning: no texts: the input is empty", err=True)
    if tally.empty:
        first = ", ".join(map(str, tally.empty[:5])) + (", …" if len(tally.empty) > 5 else "")
        several = len(tally.empty) > 1
        told = f"{len(tally.empty)} empty texts were" if several else "1 empty text was"
        click.echo(f"warning: {told} left out (line{'s' * several} {first})", err=True)
    if tally.cut:
        several = tally.cut > 1
        told = (
            f"{tally.cut} of {tally.texts} text{'s' * (tally.texts > 1)} {'were' if several else 'was'} cut"
        )
        click.echo(f"warning: {told} to {model.max_length} tokens", err=True)
