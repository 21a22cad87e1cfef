"""`transformula.load`: a model's folder of the ecosystem as a callable model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler import lower, reference, showing
from ..compiler.checkpoint import checkpoint_rows
from ..compiler.config import Config
from ..compiler.driver import lowered, staged
from ..compiler.graphs import restricted, used
from ..compiler.ir import Graph
from ..compiler.modules import Entry
from ..compiler.wanted import wanted
from ..grammar.diagnostics import TransformulaError, did_you_mean, error
from .checkpoint_table import checkpoint_table
from .defaults import default_rows, inputs_of, makers
from .folder import ModelFolder, read_model_folder, unused_keys
from .generation import Generates, unused_generation_keys
from .limits import input_rows, limit_rows, mask_rows
from .numpy.border import COUNTED, SPANNED, check_call, chosen_loss, completed
from .numpy.files import Stored, read_stored
from .numpy.results import listed
from .numpy.weights import Table, Weights, assemble, left_over, missing_weights, several
from .objectives import loss_rows
from .program import BACKENDS, Program, check_backend, passes_left_out, proved
from .saving import Origin

Array = npt.NDArray[Any]
Forward = Callable[[dict[str, Array], list[str]], Mapping[str, Any]]
REFERENCE = "reference"


@dataclass(frozen=True)
class Engine:
    """A program with its weights: `forward` takes arrays by name and computes the results asked for."""

    program: Program
    forward: Forward
    module: Any


class LoadedModel(Generates):
    """A model with its weights: call it with the ecosystem's names, get named results.

    `config` is the effective config, `unused_config_keys` what nothing read (`unused_generation_keys` likewise, of
    generation_config.json), `unused_weights` stored tensors that the model has no use for, `left_out` results that the
    file lacks weights for (both only with strict=False), `max_length` the longest text in tokens, `tokenizer_file` the
    folder's tokenizer.json, `module` the object of the generated class (with backend="torch" an nn.Module).
    """

    def __init__(
        self, engine: Engine, showing: Callable[[tuple[str, ...]], Engine], origin: Origin, dtype: str
    ) -> None:
        self.program, self.module = engine.program, engine.module
        self.dtype, self.backend = dtype, engine.program.backend
        made, folder = self.program.compiled, origin.folder
        self.config = made.config.effective()
        self.unused_config_keys = unused_keys(folder.config, made.config.unread())
        self.unused_generation_keys = unused_generation_keys(folder.generation or {})
        self.spec_name, self.entry = folder.spec_name, made.entry
        self.tokenizer_file = folder.tokenizer_file
        self.unused_weights: list[str] = []
        self.left_out: dict[str, str] = {}
        self._border = input_rows(made.formula), mask_rows(made.formula), limit_rows(made.formula)
        self._losses, self._each = loss_rows(made), made.formula.each
        self._defaults = default_rows(made), makers(made)
        self.max_length = longest(made.formula, folder.max_length)
        self._showing = showing
        self._engines: dict[tuple[str, ...], Engine] = {(): engine}
        self._origin = origin

    @property
    def shows(self) -> tuple[str, ...]:
        """The results on demand: hidden_states, attentions, …"""
        made = self.program.compiled
        return tuple(showing.present(made.module.entries[self.entry].definition, made.config))

    def __call__(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        outputs: Any = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The results by name for a batch, padded on either side; `outputs` chooses some of them.

        With labels, the objective's `loss` is one of them. A result on demand is asked for by its name in `outputs`,
        or by output_hidden_states=True and its like, and has a value for each step. Raises `TransformulaError` for
        wrong inputs.
        """
        wanted = self._asked(others, outputs)
        names = [out.name for out in self.program.compiled.formula.outputs if outputs is None or out.name in outputs]
        given = {"input_ids": input_ids, "attention_mask": attention_mask, **others}
        try:
            given = completed(given, *self._defaults, *self._border[:2], self._losses)
            arrays = check_call(given, *self._border, self._losses, self._each, self._defaults[0])
        except ValueError as fault:
            raise error("R910", f"{self.entry}: {fault}") from None
        arrays = {
            name: np.asarray(given[name]) if self._each else value
            for name, value in arrays.items()
            if given.get(name) is not None
        }
        found = self._engine(wanted).forward(arrays, [*names, *wanted])
        more = [name for name in found if name not in (*names, *wanted)]
        return {name: found[name] for name in (*more, *names, *wanted)}

    def _asked(self, others: dict[str, Any], outputs: Any) -> tuple[str, ...]:
        """The results on demand that a call asks for; flags are taken out of its inputs."""
        kinds = {"hidden_states", "attentions"}  # of encoder and decoder at once
        flags = {f"output_{one}": [name for name in self.shows if name.endswith(one)] for one in {*self.shows, *kinds}}
        default = self._origin.folder.config
        told = {flag: others.pop(flag, None) for flag, names in flags.items() if names}
        asked = {flag for flag, said in told.items() if (default.get(flag) is True if said is None else said)}
        wanted = {name for flag in asked for name in flags[flag]}
        known = [out.name for out in self.program.compiled.formula.outputs]
        for name in outputs or ():
            if name in self.shows:
                wanted.add(name)
            elif name not in known:
                missing = self.left_out.get(name, f"{self.entry} has no result `{name}`")
                every = [*known, *self.shows]
                raise error("R912", missing, help=did_you_mean(name, every) or f"It has {', '.join(every)}.")
        return tuple(name for name in self.shows if name in wanted)

    def _engine(self, shows: tuple[str, ...]) -> Engine:
        """The program that computes such results, too; made when first asked for, over the same weights."""
        if shows not in self._engines:
            self._engines[shows] = self._showing(shows)
        return self._engines[shows]

    @property
    def weights(self) -> Weights:
        """The weights as they are now, by the names of the spec; a stack is a list of its entries."""
        return self._origin.weights()

    def save_pretrained(self, folder: str | Path) -> Path:
        """Writes a folder that the ecosystem reads: config.json, tokenizer, and model.safetensors with the weights.

        With backend="torch" the weights are those that `module` has now, else those that were loaded. Tensors keep the
        names, the layout and the ties that they had. Raises `TransformulaError` if the folder cannot be written.
        """
        return self._origin.save(folder)

    def __repr__(self) -> str:
        results = ", ".join(out.name for out in self.program.compiled.formula.outputs)
        return f"<{self.entry} of {self.spec_name} by {self.backend}, {self.dtype}: {results}>"


def longest(formula: Graph, told: int | None = None) -> int | None:
    """The longest text in tokens that the tables of a model have room for, or that its folder allows; None for any."""
    first = SPANNED + input_rows(formula)[0][0]
    rows = [row for row in limit_rows(formula) if row[0] in ("position", first) or row[0].startswith(COUNTED)]
    places = [limit for _, table, limit in rows if table]
    return min([*places, *([told] if told else [])], default=None)


def load(
    folder: str | Path,
    backend: str = "numpy",
    dtype: str = "float32",
    entry: str | None = None,
    threads: int | None = None,
    strict: bool = True,
    spec: str | Path | None = None,
    device: str | None = None,
    layout: str | None = None,
    results: Sequence[str] = (),
    rows: Mapping[str, str] | None = None,
    validate: bool = True,
) -> LoadedModel:
    """The model of a folder with config.json and safetensors, or of sentence-transformers.

    `backend` is "numpy", "torch" (results are tensors on `device`), or "reference": the formulas as they stand, in
    float64. The spec is chosen by model_type, the model by architectures, unless `spec` and `entry` choose. Weights
    that are missing, left over or of another shape are one error; with strict=False left-over ones are let be, and
    results that need a missing one are left out. `layout` is for torch: "packed" computes on the real tokens of a
    batch, the fastest way in eager mode and hence the default; "padded" is for torch.compile and torch.export. A model
    that packed rows cannot express is padded, and `program.ledger` says why. `results` are the only ones that are
    computed (with CLS pooling, ("sentence_embedding",) saves most of the last block), `rows` of which tokens:
    {"logits": "last"}, "first", or "positions", which then are an input. validate=False leaves out the quick proof of
    the passes.
    """
    engine = engine_of(backend, layout, dtype)
    found = read_model_folder(folder, spec, entry)
    config = Config(found.module, found.config)
    chosen = lower.choose_entry(found.module, found.entry)
    config, graph = decided(found, config, chosen)
    stored, table, graph, left_out = weights_in(found, graph, config, strict)
    weights = _checked(lambda: assemble(stored, table, strict), found.path, "")
    graph = wanted(graph, results, rows)
    every = [out.name for out in graph.outputs]

    def made(graph: Graph, like: Any) -> Engine:
        left, until = passes_left_out(backend), None if engine else "formula"
        decodes = engine is not None and like is None  # what is shown on demand is no step's
        compiled = staged(found.module, config, graph, rows or {}, decodes, left, until=until)
        compiled = replace(compiled, generation=found.generation)
        compiled = proved(compiled) if validate and engine is not None else compiled
        program = Program(compiled, backend, layout or getattr(engine, "LAYOUT", None))
        if engine is None:
            return Engine(program, _reference(program, weights), None)
        return Engine(program, *engine.forward(program, weights, dtype, threads, device, like))

    first = made(graph, None)

    def showing(shows: tuple[str, ...]) -> Engine:
        whole = lowered(found.module, config, chosen, shows)
        whole = wanted(restricted(whole, [*every, *shows]) if left_out or results else whole, (), rows)
        return made(whole, first.module)

    current = engine.weights_of if engine else lambda program, module: weights
    origin = Origin(found, stored, table, lambda: {**weights, **current(first.program, first.module)})
    model = LoadedModel(first, showing, origin, dtype if engine else "float64")
    model.left_out, model.unused_weights = left_out, left_over(stored, table)
    return model


def engine_of(backend: str, layout: str | None, dtype: str) -> Any:
    """What loads modules of a backend (None: the reference); it has such a layout and such numbers."""
    if backend != REFERENCE and backend not in BACKENDS:
        known = [*BACKENDS, REFERENCE]
        advice = did_you_mean(backend, known) or f"There are {', '.join(known)}."
        raise error("C621", f"there is no backend `{backend}`", help=advice)
    if layout is not None or backend != REFERENCE:
        check_backend(backend, layout)
    if backend == REFERENCE:
        return None
    engine = import_module(f".{backend}.loading", __package__)
    if dtype not in engine.DTYPES:
        raise error("C622", f"dtype = {dtype!r} is none of {', '.join(engine.DTYPES)}")
    return engine


# ---------------------------------------------------------------------------------------------------- weights


def weights_in(
    found: ModelFolder, graph: Graph, config: Config, strict: bool
) -> tuple[Stored, Table, Graph, dict[str, str]]:
    """The stored tensors, the table, and the graph without results that cannot be computed (told by name)."""
    table = checkpoint_table(checkpoint_rows(found.module, graph.name, graph, config))
    stored = _checked(lambda: read_stored(found.path), found.path, "")
    missing = _checked(lambda: missing_weights(stored, table), found.path, "")
    lacking = {out.name: sorted(missing & used(graph, out.name)) for out in graph.outputs}
    lacking = {name: weights for name, weights in lacking.items() if weights}
    if not lacking or len(lacking) == len(graph.outputs):
        return stored, table, graph, {}
    if strict:
        advice = f"Only {', '.join(lacking)} needs what is missing: strict=False loads the model without it."
        _checked(lambda: assemble(stored, table), found.path, advice)
    graph = restricted(graph, [out.name for out in graph.outputs if out.name not in lacking])
    table = checkpoint_table(checkpoint_rows(found.module, graph.name, graph, config))
    told = {name: f"not in the file: {', '.join(weights)}" for name, weights in lacking.items()}
    return stored, table, graph, told


def decided(found: ModelFolder, config: Config, entry: Entry) -> tuple[Config, Graph]:
    """The config after what the file itself decides (weights of which it holds two are not tied), and its formulas."""
    graph = lowered(found.module, config, entry)
    rows = checkpoint_rows(found.module, graph.name, graph, config)
    deciding = {one.name: row.decides for row in rows.rows for one in row.weights if row.decides}
    if not deciding:
        return config, graph
    stored = _checked(lambda: read_stored(found.path), found.path, "")
    untied = {deciding[weight] for weight in several(stored, checkpoint_table(rows)) if weight in deciding}
    if not untied:
        return config, graph
    config = Config(found.module, found.config, dict.fromkeys(untied, False))
    return config, lowered(found.module, config, entry)


def _checked(read: Callable[[], Any], path: Path, advice: str) -> Any:
    """Faults of files and weights as an error for people."""
    try:
        return read()
    except ValueError as fault:
        raise error("K010", f"{path}: {_without(str(fault), path)}", help=advice) from None
    except OSError as fault:
        raise error("K011", f"{path} cannot be read: {fault.strerror or fault}") from None


def _without(text: str, path: Path) -> str:
    """The text without the path that it begins with, which is told already."""
    return text.removeprefix(f"{path}{os.sep}").removeprefix(f"{path}: ").removeprefix(f"{path} ")


# --------------------------------------------------------------------------------------------------- backends


def _reference(program: Program, weights: Weights) -> Forward:
    compiled = program.compiled
    wide = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    rows = loss_rows(compiled)

    def forward(given: dict[str, Array], outputs: list[str]) -> Mapping[str, Any]:
        loss = chosen_loss(given, rows)
        own = [] if loss is None else [name for name, _, _, _ in loss[1]]
        needed = [*outputs, *(name for name in (loss[2] if loss else ()) if name not in outputs)]
        inputs = {name: value for name, value in given.items() if name not in own}
        graph = restricted(compiled.formula, [name for name in needed if name not in inputs])
        found = reference.run(graph, wide, inputs)
        made: dict[str, Any] = {}
        if loss is not None:
            objective = compiled.losses[rows.index(loss)].formula
            whole = {**given, **found}
            here = {row.name: whole[row.name] for row in objective.inputs}
            made = reference.run(objective, {}, here if graph.each else inputs_of(compiled.formula, objective, whole))
        at = 2 if graph.each else 1  # behind the batch, and behind the choices of an example
        steps = {out.name: (at, out.listed) for out in graph.outputs if out.listed}
        return {**made, **listed({name: found[name] for name in outputs}, steps)}

    return forward


__all__ = ["LoadedModel", "TransformulaError", "load", "restricted"]
