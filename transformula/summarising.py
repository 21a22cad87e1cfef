"""`transformula summary`: what a model holds and costs, as a table of its blocks, a table of its weights, or data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .compiler.summary import Amount, Block, Summary, Whole, summarise
from .compiler.units import flops, size
from .grammar.diagnostics import error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .backends.headers import Compared
    from .backends.program import Program
    from .compiler.driver import Compiled
    from .compiler.sizes import Sizes

WIDE = 120
"""The columns of what is no terminal."""
NAMES = 20
"""Names of a kind that are spelt out."""


@dataclass(frozen=True, repr=False)
class ModelSummary(Summary):
    """A summary that prints itself; of a model's folder with what its files hold, None where there are none."""

    files: Compared | None = None
    folder: str = ""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<ModelSummary {self.entry} of {self.spec}: {self.parameters:,} parameters>"

    def text(self, stage: str = "final", depth: int | None = None, weights: bool = False, width: int = WIDE) -> str:
        """The tables as plain text: costs of the stage `formula` or `final`, blocks to a depth, or the weights."""
        from rich.console import Console

        plain = Console(width=width, color_system=None, force_jupyter=False, force_terminal=False)
        return printed(plain, self, stage, depth, weights)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text().rstrip())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .backends.display import table_html

        table = table_html(BLOCK_HEADS, _block_rows(self.top, None, "final", None), right=(1, 2, 3, 4))
        return f"{table}{table_html(('in all', ''), _lines(self, self.final))}"

    def data(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        return {**super().data(), "files": None if self.files is None else asdict(self.files)}


def summary(
    spec: str | Path | Program,
    config: Mapping[str, Any] | None = None,
    entry: str | None = None,
    settings: Mapping[str, Any] | None = None,
    batch: int = 8,
    length: int = 128,
    fill: float = 1.0,
    dtype: str = "float32",
) -> ModelSummary:
    """What a model holds and costs: print it, or read `.parameters`, `.top`, `.formula`, `.final`, `.cache`, `.data()`.

    `spec` is a shipped spec's name, a path, the text itself, a model's folder, or a program; `config` and `settings` as
    for `compile`. Costs are for `batch` examples, the longest of `length` tokens, `fill` of all real; bytes are those
    of numbers of `dtype`. Raises `TransformulaError` with every mistake found.
    """
    from .backends.program import Program
    from .compiler.driver import compile_graph
    from .compiler.sizes import Sizes

    sizes = Sizes(batch, length, fill)
    if isinstance(spec, Program):
        return summarised(spec.compiled, sizes, dtype)
    folder = _folder(spec)
    if folder is None:
        return summarised(compile_graph(spec, config, entry, settings), sizes, dtype)
    from .texts import folder_spec

    module, given, found = folder_spec(folder, dict(config or {}), entry)
    return summarised(compile_graph(module, given, found, settings), sizes, dtype, folder)


def _folder(spec: str | Path) -> Path | None:
    """The folder that a spec's name may be; a text is none."""
    named = isinstance(spec, Path) or "\n" not in spec
    return Path(spec) if named and Path(spec).is_dir() else None


def summarised(compiled: Compiled, sizes: Sizes, dtype: str, folder: Path | None = None) -> ModelSummary:
    """The summary of a compilation, with a folder's files beside it."""
    made = summarise(compiled, sizes, dtype)
    files = None if folder is None else _compared(compiled, folder)
    own = {one.name: getattr(made, one.name) for one in fields(made)}
    return ModelSummary(**own, files=files, folder="" if folder is None else str(folder))


def _compared(compiled: Compiled, folder: Path) -> Compared | None:
    """What the folder's headers hold beside what the model reads; None where it has no safetensors."""
    from .backends.checkpoint_table import checkpoint_table
    from .backends.headers import NoWeights, compared
    from .compiler.objectives import weight_rows

    rows = weight_rows(compiled.module, compiled.config, compiled.entry, compiled.formula)
    try:
        return compared(folder, checkpoint_table(rows))
    except NoWeights:
        return None
    except ValueError as fault:
        raise error("K010", f"{folder}: {fault}") from None
    except OSError as fault:
        raise error("K011", f"{folder} cannot be read: {fault.strerror or fault}") from None


# --------------------------------------------------------------------------------------------------- printing


def summary_report(made: ModelSummary, stage: str, depth: int | None, weights: bool, as_json: bool) -> None:
    """Prints a summary for the terminal's width, or as JSON."""
    if as_json:
        click.echo(json.dumps(made.data(), ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    click.echo(printed(console, made, stage, depth, weights), nl=False)


def printed(console: Console, made: ModelSummary, stage: str, depth: int | None, weights: bool) -> str:
    """What is held and costs, for a console: a table, and the numbers of the whole below it."""
    from rich.text import Text

    told = "as the spec says it" if stage == "formula" else "after the last pass"
    with console.capture() as found:
        console.print(
            Text.assemble((made.entry, "bold"), f" of {made.spec}; costs are for {made.sizes}, {told}"),
            "",
            _weights(made, console.width) if weights else _blocks(made, stage, depth, console.width),
            "",
            _whole(made, getattr(made, stage)),
            sep="\n",
        )
    return "".join(f"{line.rstrip()}\n" for line in found.get().splitlines())


def _whole(made: ModelSummary, whole: Whole) -> Table:
    """The numbers of all blocks together, a line for each matter."""
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2, 0, 0))
    for name, line in _lines(made, whole):
        lines.add_row(Text(name, "bold"), Text(line))
    return lines


def _lines(made: ModelSummary, whole: Whole) -> list[tuple[str, str]]:
    """(what, its numbers) of all blocks together."""
    return [("parameters", _parameters(made)), *_run(made, whole), *_decoding(made), *_files(made)]


Row = tuple[str, ...]


def _table(heads: Sequence[str], rows: Sequence[Row], width: int, spare: Sequence[int], right: Sequence[int]) -> Table:
    """A table of columns that fit: those of `spare` are left out first, in this order; `right` are numbers."""
    from rich.table import Table
    from rich.text import Text

    wide = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    for column in spare:
        if sum(wide[i] + 2 for i in kept) - 2 > width and column in kept:
            kept.remove(column)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i in kept:
        justify, style = ("right" if i in right else "left"), "" if i == 0 else "cyan" if i in right else "dim"
        table.add_column(heads[i], justify=justify, style=style, no_wrap=i in right, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(row[i]) for i in kept))
    return table


BLOCK_HEADS = ("block", "parameters", "operations", "in products", "moved", "shared")


def _blocks(made: ModelSummary, stage: str, depth: int | None, width: int) -> Table:
    rows = list(_block_rows(made.top, None, stage, depth))
    return _table(BLOCK_HEADS, rows, width, spare=(4, 3, 5, 2), right=(1, 2, 3, 4))


def _block_rows(block: Block, above: Block | None, stage: str, depth: int | None) -> Iterator[Row]:
    """A block with all in it, then its parts, each a row."""
    amount: Amount = getattr(block, stage)
    held = f"{block.formula.parameters:,}" if block.formula.parameters else ""
    costs = (_or_nothing(flops, amount.flops), _or_nothing(flops, amount.products), _or_nothing(size, amount.bytes))
    yield (_label(block, above), held, *costs, "; ".join(_shared(block, above)))
    if depth is None or len(block.path) < depth:
        for part in block.parts:
            yield from _block_rows(part, block, stage, depth)


def _label(block: Block, above: Block | None) -> str:
    """`attn : MultiHead`, with how often it runs for one run of the block around it."""
    often = block.runs // above.runs if above and above.runs else block.runs
    kind = f" : {block.definition}" if block.definition and block.definition != block.name else ""
    return f"{'  ' * len(block.path)}{block.name}{kind}{f' ×{often}' if often > 1 else ''}"


def _shared(block: Block, above: Block | None) -> Iterator[str]:
    """What a block has together with others, told where the block around it does not say so already."""
    if block.calls > 1 and (above is None or above.calls != block.calls):
        yield f"called {block.calls} times"
    fewer = block.runs > block.sets and block.formula.parameters > 0
    if fewer and (above is None or (above.runs, above.sets) != (block.runs, block.sets)):
        yield f"{block.sets} set{'s' * (block.sets > 1)} of weights"
    if block.shared:
        yield f"reads {', '.join(block.shared)}"


def _or_nothing(told: Callable[[float], str], count: float) -> str:
    return told(count) if count else ""


WEIGHT_HEADS = ("weight", "axes", "sizes", "numbers", "stored as")


def _weights(made: ModelSummary, width: int) -> Table:
    rows = [
        (
            one.name + ("" if one.trainable else " (not trained)"),
            one.declared,
            " × ".join(map(str, one.shape)),
            f"{one.count:,}",
            ", ".join(one.stored),
        )
        for one in made.weights
    ]
    return _table(WEIGHT_HEADS, rows, width, spare=(2,), right=(3,))


def _parameters(made: ModelSummary) -> str:
    if not made.parameters:
        return "none"
    trained = "all trained" if made.trainable == made.parameters else f"{made.trainable:,} trained"
    kinds: dict[int, list[str]] = {}
    for dtype, count in made.dtype_bytes.items():
        kinds.setdefault(count, []).append(dtype)
    held = ", ".join(f"{size(count)} in {' or '.join(names)}" for count, names in kinds.items())
    return f"{made.parameters:,}, {trained}; {held}"


def _run(made: ModelSummary, whole: Whole) -> Iterator[tuple[str, str]]:
    """What a run costs, in all and for each token, and what is done once."""
    one = whole.amount
    moved = f"{size(one.bytes)} moved in {made.dtype}: {whole.intensity:.1f} operations a byte"
    yield "a run", f"{flops(one.flops)} ({flops(one.products)} in products), {moved}"
    yield "", f"{size(whole.peak_bytes)} of activations at peak"
    yield "a token", f"{flops(round(whole.flops_per_token, 1))} ({made.tokens:,} real tokens in all)"
    if one.load_flops:
        yield "at load", f"{flops(one.load_flops)} once, {size(whole.load_bytes)} of prepared weights"


def _decoding(made: ModelSummary) -> Iterator[tuple[str, str]]:
    """What a decoder keeps of a text, and what a token more costs."""
    if made.cache is None:
        return
    kept = made.cache
    full = kept.per_token_at_last < kept.per_token
    later = f" ({size(kept.per_token_at_last)} when windows are full)" if full else ""
    once = f", {size(kept.once)} once for an example" if kept.once else ""
    yield "decoding", f"{size(kept.per_token)} are kept of each token{later}{once}"
    after = f"{size(kept.after_length)} of an example after {made.sizes.length} tokens"
    examples = f" for {made.sizes.batch} examples" if made.sizes.batch > 1 else ""
    yield "", f"{after}; a token more: {flops(kept.step_flops)}{examples}"


def _files(made: ModelSummary) -> Iterator[tuple[str, str]]:
    """What the folder's files hold, and each difference from what the model reads."""
    if not made.folder:
        return
    if made.files is None:
        yield "files", "no safetensors here, so nothing is compared"
        return
    held = made.files
    told = f"{held.tensors} tensors, {held.numbers:,} numbers, {size(held.bytes)}"
    yield "files", f"{told}; the model reads {held.read_tensors} with {held.read_numbers:,} numbers"
    for what, names in (
        ("of weights that the file lacks", held.missing),
        ("that nobody reads", held.left_over),
        ("of another shape", held.misshapen),
        ("that hold a tied weight once more", held.twice),
    ):
        if names:
            more = f", … and {len(names) - NAMES} more" if len(names) > NAMES else ""
            yield "", f"{len(names)} {what}: {', '.join(names[:NAMES])}{more}"


__all__ = ["ModelSummary", "printed", "summarised", "summary", "summary_report"]
