"""What a training needs before its first step: tokens, text, a model's folder, an objective and its corruptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..backends.folder import ModelFolder, read_model_folder
from ..backends.fresh import drawn
from ..backends.joined import Joined, folder_rows, whole_folder
from ..backends.load import engine_of, longest
from ..backends.numpy.files import WEIGHTS_FILE
from ..backends.numpy.weights import Weights
from ..backends.optimising import AdamW
from ..backends.program import Program, check_backend, passes_left_out, proved
from ..backends.saving import Origin
from ..backends.sentence import MODEL
from ..compiler import corruptions
from ..compiler.config import Config
from ..compiler.driver import Compiled, compile_graph, known_settings, load_module, lowered
from ..compiler.ir import Input, Output
from ..compiler.modules import Entry, Module
from ..compiler.training import compile_gradients
from ..grammar.diagnostics import did_you_mean, error
from . import checkpoints
from .batches import Batcher
from .job import OWN, Job, Settings
from .places import Begun, folders_of, place_of
from .schedule import SHAPES, Schedule
from .texts import Corpus, corpus
from .vocabulary import Tokens, tokens_of

Array = npt.NDArray[Any]
NONE = "none"


def prepare(asked: Settings) -> Job:
    """Reads text, tokenizer and model, and what a checkpoint has of it. Raises `TransformulaError` for mistakes."""
    check(asked)
    older = _older(asked)
    module, keys, stored = _source(asked)
    objective = choose_objective(module, asked.objective)
    _check_settings(asked, module)
    tokens = tokens_of(_tokenizer(asked, older, folders_of(module, objective)), asked.data, asked.vocabulary)
    place = place_of(Begun(asked, module, keys, stored, tokens), objective)
    if not older:
        place.begin()
    module, config, folders = place.read()
    program = _program(asked, module, config, objective)
    without = passes_left_out("numpy")
    bases = [compile_graph(module, found.config, model, without=without) for model, found in folders]
    chain = _chain(asked, module, config, program, bases)
    room = min(_room(asked, found) for _, found in folders)
    text = _text(asked, program, chain, tokens, room, not any(map(_is_causal, bases)))
    origin = place.origin(asked.out)
    weights = _weights(program, origin, asked)
    fitting = import_module(f"..backends.{asked.backend}.fitting", __package__)
    optimiser = AdamW(decay=asked.decay, clip=asked.clip)
    fit = fitting.Fit(program, weights, asked.dtype, optimiser, asked.device, asked.seed)
    progress = checkpoints.Progress(0, asked.asked(text.digest), [])
    if older:
        progress, state = checkpoints.read(older, progress.asked)
        own = {name.removeprefix(OWN): state.pop(name) for name in list(state) if name.startswith(OWN)}
        fit.refill({**_weights(program, place.origin(older), asked), **own})
        fit.restore(state)
    warmup = min(asked.steps // 10, 1000) if asked.warmup is None else asked.warmup
    schedule = Schedule(asked.lr, warmup, asked.steps, asked.schedule)
    batcher = Batcher(program.compiled, tokens, chain, asked.inputs, asked.seed)
    return Job(asked, fit, batcher, text, origin, schedule, tokens, progress)


def check(asked: Settings) -> None:
    """Numbers that make no training are errors."""
    check_backend(asked.backend)
    engine_of(asked.backend, None, asked.dtype)
    if not asked.data:
        raise error("T002", "there is no text to train on", help="Give --data FILE, several if needed.")
    for name in ("steps", "batch_size", "accumulate", "length", "eval_every", "save_every"):
        if getattr(asked, name) < 1:
            raise error("T004", f"{name} = {getattr(asked, name)} should be at least 1")
    for name, ok in (
        ("lr", asked.lr > 0), ("decay", asked.decay >= 0), ("clip", asked.clip >= 0),
        ("held_out", 0 <= asked.held_out < 1), ("seed", asked.seed >= 0),
        ("warmup", asked.warmup is None or 0 <= asked.warmup <= asked.steps), ("keep", asked.keep >= 1),
    ):  # fmt: skip
        if not ok:
            raise error("T004", f"{name} = {getattr(asked, name)} makes no training")
    for file in asked.data:
        if not file.is_file():
            raise error("T002", f"{file} does not exist" if not file.exists() else f"{file} is no file")
    if asked.schedule not in SHAPES:
        advice = did_you_mean(asked.schedule, SHAPES) or f"There are {', '.join(SHAPES)}."
        raise error("T004", f"there is no schedule `{asked.schedule}`", help=advice)


def _check_settings(asked: Settings, module: Module) -> None:
    """Each setting is an entry of the spec that config.json can hold: the folder is read again."""
    for name in known_settings(module, asked.settings):
        if not module.options[name].keys:
            told = f"`{name}` of {module.name} has no key in config.json, so the trained folder could not say it"
            raise error("T015", told, help=f"Give it one in a spec of your own: {name} = … as KEY.")


def _older(asked: Settings) -> Path | None:
    """The newest checkpoint of the folder, if the training goes on from it."""
    if asked.out.exists() and not asked.out.is_dir():
        raise error("T012", f"{asked.out} is a file", help="--out is a folder.")
    asked.out.mkdir(parents=True, exist_ok=True)
    checkpoints.tidy(asked.out)
    older = checkpoints.found(asked.out)
    if older and not asked.resume:
        told = f"{asked.out} holds {older[-1].name} of another training"
        raise error("T012", told, help="--resume goes on from it; or choose another --out.")
    if not older and any((asked.out / name).exists() for name in ("config.json", "modules.json", WEIGHTS_FILE)):
        told = f"{asked.out} holds a model, and no checkpoint to go on from"
        raise error("T012", told, help="Choose another --out: its weights would be lost.")
    return older[-1] if older else None


# --------------------------------------------------------------------------------------------------------- the model


def _tokenizer(asked: Settings, older: Path | None, inside: list[str]) -> Path | None:
    """The folder of the tokenizer: that of the training that goes on, what was asked for, or the model's own."""
    source = Path(asked.spec)
    for place in (asked.out if older else None, asked.tokenizer, source if source.is_dir() else None):
        for one in [place, *(place / name for name in inside)] if place else []:
            if (one / "tokenizer.json").is_file() or one == asked.tokenizer:
                return one
    return None


def _source(asked: Settings) -> tuple[Module, dict[str, Any], Path | None]:
    """(the spec, keys of a config.json, the folder whose weights are gone on with)."""
    place = Path(asked.spec)
    if not place.is_dir():
        return load_module(asked.spec), {}, None
    single = any((place / name).is_file() for name in ("config.json", "modules.json"))
    inside = [] if single else sorted(one.parent for one in place.glob("*/config.json"))
    found = read_model_folder(inside[0] if inside else place)
    if inside:  # a folder for each model of an objective
        objective = choose_objective(found.module, asked.objective)
        found = read_model_folder(whole_folder(place, found.module, objective.name))
    return found.module, dict(found.config), place


def choose_objective(module: Module, name: str | None) -> Entry:
    """The objective, which is of a model or joins several. Raises `TransformulaError` with those that there are."""
    known = {one.name: one for one in module.of_kind("objective")}
    trained = {name: one for name, one in known.items() if _is_trained(module, name)}
    if name is None and len(trained) != 1:
        told = "One is declared like  objective NAME of MODEL(labels…) → loss = …"
        told = f"It has {', '.join(trained)}." if trained else told
        raise error("T013", f"{module.name}: which objective should be trained?", help=told)
    name = name or next(iter(trained))
    if name not in known:
        advice = did_you_mean(name, trained) or f"It has {', '.join(trained) or 'none'}."
        raise error("T013", f"{module.name} has no objective `{name}`", help=advice)
    if name not in trained:
        told = f"`{name}` is of no model, and its checkpoint map names no folder of one"
        advice = f'checkpoint huggingface of {name}  with a row for each instance, like  generator : MODEL "generator/"'
        raise error("T020", told, help=advice)
    return known[name]


def _is_trained(module: Module, name: str) -> bool:
    """Whether there is a place for the weights of an objective."""
    of = module.written[name].of if name in module.written else None
    return of is not None or bool(folder_rows(module, name))


def _weights(program: Program, origin: Origin | Joined, asked: Settings) -> Weights:
    """The folder's weights, and those of the objective that no folder holds, drawn."""
    held = origin.weights()
    graph = program.compiled.formula
    names = {one.name: one for one in graph.weights}
    return {name: held[name] if name in held else drawn(one, asked.seed, asked.stored) for name, one in names.items()}


# ------------------------------------------------------------------------------------------- objective and corruptions


def _program(asked: Settings, module: Module, keys: Mapping[str, Any], objective: Entry) -> Program:
    left = passes_left_out(asked.backend)
    made = proved(compile_graph(module, keys, objective.name, without=left))
    gradients = compile_gradients(made) if asked.backend == "numpy" else None  # a PyTorch module has autograd
    return Program(replace(made, gradients=gradients), asked.backend)


def _is_causal(base: Compiled) -> bool:
    """Whether a model reads a text that it is to go on with, token after token."""
    return base.decoding is not None and not base.decoding.begin


def _chain(
    asked: Settings, module: Module, keys: Mapping[str, Any], program: Program, bases: list[Compiled]
) -> tuple[Program, ...]:
    """The corruptions that the texts go through: those that were said, or the first that makes what is needed."""
    formula = program.compiled.formula
    if asked.corruption is None:
        names = [] if formula.groups else _fitting(module, keys, program, bases)
    else:
        names = [corruptions.choose(module, name).name for name in asked.corruption if name != NONE]
    made = [compile_graph(module, keys, name) for name in names]
    return tuple(Program(one, "numpy") for one in made)


def _fitting(module: Module, keys: Mapping[str, Any], program: Program, bases: list[Compiled]) -> list[str]:
    """The first corruption of one text whose results are the inputs that the objective has of its own."""
    if any(map(_is_causal, bases)):  # its labels are its tokens
        return []
    known = {one.name for base in bases for one in base.formula.inputs}
    inputs = [one for one in program.compiled.formula.inputs if one.required and one.name not in known]
    needed = {(one.name, _of_tokens(one)) for one in inputs}
    for name in corruptions.names(module):
        graph = lowered(module, Config(module, keys), module.entries[name])
        texts = [one.name for one in graph.inputs if one.name.endswith("input_ids")]
        if len(texts) == 1 and needed <= {(out.name, _of_tokens(out)) for out in graph.outputs}:
            return [name]
    return []


def _of_tokens(one: Input | Output) -> bool:
    """Whether there is one for each token, and not one for each example."""
    return any(axis.counted for axis in one.axes)


def _room(asked: Settings, found: ModelFolder) -> int:
    """The tokens of an example: as many as were asked for, if the model has room for them."""
    chosen = found.module.entries[found.entry or MODEL]
    most = longest(lowered(found.module, Config(found.module, found.config), chosen), found.max_length)
    if most is not None and most < asked.length:
        told = f"--length {asked.length}: the model has room for {most} tokens"
        raise error("T004", told, help=f"Take --length {most}.")
    return asked.length


def _text(
    asked: Settings, program: Program, chain: tuple[Program, ...], tokens: Tokens, room: int, framed: bool
) -> Corpus:
    groups = program.compiled.formula.groups
    pairs = bool(chain) and sum(one.name.endswith("input_ids") for one in chain[0].compiled.formula.inputs) > 1
    labelled = _is_labelled(program) and not chain
    columns = _columns(asked, program) if groups else 1 if labelled else None
    return corpus(asked.data, tokens, columns, (room - 3) // 2 if pairs else room, asked.held_out, framed and not pairs)


def _is_labelled(program: Program) -> bool:
    """Whether the objective needs a number for each example."""
    return any(one.required and len(one.axes) == 1 for one in program.compiled.formula.inputs)


def _columns(asked: Settings, program: Program) -> int:
    """How many texts an example has: as many as the first line of the data has columns that are no number."""
    for file in asked.data:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip():
                    parts = line.rstrip("\n").split("\t")
                    return len(parts) - _is_labelled(program)
    return 2
