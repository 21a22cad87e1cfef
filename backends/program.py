"""A compiled model with the source of its module: what `transformula.compile` returns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from ..compiler.driver import Compiled, compile_graph
from ..compiler.ir import Graph, Origin
from ..compiler.ledger import Ledger
from ..compiler.training import compile_gradients
from ..grammar.diagnostics import did_you_mean, error
from .lines import Traced, traced

BACKENDS = {"numpy": ".numpy.emit", "torch": ".torch.emit"}
"""Backends that write modules: each is a module of this package with `emit(compiled) -> str`."""


@dataclass(frozen=True)
class Program:
    """A model compiled for a backend; `layout` is how a PyTorch module computes a batch, padded or packed."""

    compiled: Compiled
    backend: str
    layout: str | None = None

    @property
    def name(self) -> str:
        """The model's name in the spec."""
        return self.compiled.entry

    @property
    def graph(self) -> Graph:
        """The formula graph after the last pass."""
        return self.compiled.graph

    @property
    def ledger(self) -> Ledger:
        """What the passes did, and what they refused."""
        return self.compiled.ledger

    @cached_property
    def source(self) -> str:
        """The text of the standalone module."""
        return self._traced.text

    @property
    def lines(self) -> Mapping[int, Origin]:
        """For the number of each line of `source` that a formula became, where it comes from: span, instance, name."""
        return self._traced.lines

    @cached_property
    def _traced(self) -> Traced:
        emit: Callable[..., str] = import_module(BACKENDS[self.backend], __package__).emit
        return traced(lambda: emit(self.compiled, self.layout) if self.layout else emit(self.compiled))

    @cached_property
    def corrupt(self) -> Callable[..., dict[str, Any]]:
        """The function of a compiled corruption: corrupt(input_ids=…, …, seed=…), see `transformula.corrupt`."""
        from .corrupt import corrupter

        return corrupter(self)

    def save(self, path: str | Path) -> Path:
        """Writes the module; a file that is there is replaced in one step, never half-written."""
        return write_text(Path(path), self.source)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .display import program_html

        return program_html(self)

    def __repr__(self) -> str:
        return f"<Program {self.name} for {self.backend}: {len(self.graph.nodes())} nodes>"


def compile(
    spec: str | Path,
    backend: str = "numpy",
    config: Mapping[str, Any] | None = None,
    entry: str | None = None,
    settings: Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
    until: str | None = None,
    layout: str | None = None,
    shows: Sequence[str] = (),
    results: Sequence[str] = (),
    rows: Mapping[str, str] | None = None,
    validate: bool = True,
    generation: Mapping[str, Any] | None = None,
    gradients: bool = False,
) -> Program:
    """A model of a spec as a program with `.source`, `.save(path)`, `.graph` and `.ledger`.

    `spec` is a shipped spec's name, a path or the text itself; `config` holds keys of config.json, `settings` entries
    of the spec's own config. `layout` is for PyTorch: "padded" (the default; it compiles, exports and trains) or
    "packed" (eager inference). `shows` are results on demand (hidden_states, attentions) that the module should
    compute, too; `results` are the only ones that it should; `rows` says of which tokens: {"logits": "last"}, "first",
    or "positions", which are a new input. `generation` holds keys of generation_config.json, the options of `generate`
    where its caller says nothing (those of `config` if there are none). With `gradients` a NumPy module has
    `loss_and_gradients`, too; PyTorch's have autograd. Raises `TransformulaError` with every mistake found.

    The passes are proved on this very model at small sizes, in a fraction of a second; validate=False skips it.
    """
    check_backend(backend, layout)
    skip = passes_left_out(backend)
    made = compile_graph(spec, config, entry, settings, (*without, *skip), only, until, shows, results, rows)
    made = replace(made, generation=generation)
    if gradients and backend == "numpy":
        made = replace(made, gradients=compile_gradients(made))
    return Program(proved(made) if validate else made, backend, layout)


def proved(made: Compiled) -> Compiled:
    """The same, after a quick proof of its passes. Raises `TransformulaError` where a pass is wrong."""
    from ..compiler.validation import prove_quickly

    if made.kind == "corruption":  # no pass touches its numbers
        return made
    prove_quickly(made)
    return made


def check_backend(backend: str, layout: str | None = None) -> None:
    """There is such a backend, and it has such a layout."""
    if backend not in BACKENDS:
        raise error(
            "C621",
            f"there is no backend `{backend}`",
            help=did_you_mean(backend, BACKENDS) or f"There are {', '.join(BACKENDS)}.",
        )
    known: tuple[str, ...] = getattr(import_module(BACKENDS[backend], __package__), "LAYOUTS", ())
    if layout is not None and layout not in known:
        told = f"It has {' and '.join(known)}." if known else "Only torch has layouts, padded and packed."
        raise error("C626", f"{backend} has no layout `{layout}`", help=did_you_mean(layout, known) or told)


def passes_left_out(backend: str) -> tuple[str, ...]:
    """Passes that a backend has no use for: its `SKIP`."""
    if backend not in BACKENDS:
        return ()
    left: tuple[str, ...] = getattr(import_module(BACKENDS[backend], __package__), "SKIP", ())
    return left


def write_text(path: Path, text: str) -> Path:
    """Writes a text through a temporary file beside its place, so that it is there wholly or not at all."""
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes a file through a temporary one beside its place, so that it is there wholly or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return path
