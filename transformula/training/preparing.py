"""What a training needs before its first step: tokens, text, a model's folder, an objective and its corruptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from ..backends.checkpoint_table import checkpoint_table
from ..backends.folder import SENTENCE, ModelFolder, read_model_folder
from ..backends.fresh import drawn, write_fresh, write_sentence
from ..backends.load import decided, engine_of, load, longest, weights_in
from ..backends.numpy.files import WEIGHTS_FILE, read_stored
from ..backends.numpy.weights import Weights, assemble, other_names
from ..backends.optimising import AdamW
from ..backends.program import Program, check_backend, passes_left_out, proved
from ..backends.saving import Origin, replace_file
from ..backends.sentence import MODEL
from ..compiler import corruptions
from ..compiler.checkpoint import checkpoint_rows
from ..compiler.config import Config, read_config
from ..compiler.driver import Compiled, compile_graph, known_settings, load_module, lowered
from ..compiler.ir import Input, Output
from ..compiler.modules import Entry, Module, shipped
from ..compiler.training import compile_gradients
from ..grammar.diagnostics import did_you_mean, error
from . import checkpoints
from .batches import Batcher
from .job import OWN, Job, Settings
from .schedule import SHAPES, Schedule
from .texts import Corpus, corpus
from .vocabulary import KEYS, Tokens, tokens_of

Array = npt.NDArray[Any]
ENCODER = "bert"
"""What is under a Sentence-BERT whose weights are drawn."""
NONE = "none"


def prepare(asked: Settings) -> Job:
    """Reads text, tokenizer and model, and what a checkpoint has of it. Raises `TransformulaError` for mistakes."""
    check(asked)
    older = _older(asked)
    source = Path(asked.spec)
    places = [asked.out if older else None, asked.tokenizer, source if source.is_dir() else None]
    held = next((one for one in places if one and (one == asked.tokenizer or (one / "tokenizer.json").is_file())), None)
    tokens = tokens_of(held, asked.data, asked.vocabulary)
    module, keys, stored = _source(asked)
    _check_settings(asked, module)
    objective, model = choose_objective(module, asked.objective)
    if not older:
        _begin(asked, module, model, {**keys, **asked.config}, stored, tokens)
    found = read_model_folder(asked.out, *_reading(asked, module, model, stored))
    program = _program(asked, found, objective)
    base = compile_graph(found.module, found.config, model, without=passes_left_out("numpy"))
    chain = _chain(asked, found, program, base)
    text = _text(asked, program, chain, tokens, _room(asked, found), not _is_causal(base))
    origin = _origin(found)
    weights = _weights(program, origin, asked)
    fitting = import_module(f"..backends.{asked.backend}.fitting", __package__)
    optimiser = AdamW(decay=asked.decay, clip=asked.clip)
    fit = fitting.Fit(program, weights, asked.dtype, optimiser, asked.device, asked.seed)
    progress = checkpoints.Progress(0, asked.asked(text.digest), [])
    if older:
        progress, state = checkpoints.read(older, progress.asked)
        own = {name.removeprefix(OWN): state.pop(name) for name in list(state) if name.startswith(OWN)}
        fit.refill({**_weights(program, _origin(replace(found, path=older, weights=older)), asked), **own})
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


def _source(asked: Settings) -> tuple[Module, dict[str, Any], Path | None]:
    """(the spec, keys of a config.json, the folder whose weights are gone on with)."""
    place = Path(asked.spec)
    if place.is_dir():
        found = read_model_folder(place)
        return found.module, dict(found.config), place
    return load_module(asked.spec), {}, None


def choose_objective(module: Module, name: str | None) -> tuple[Entry, str]:
    """(the objective, the model that it is of). Raises `TransformulaError` with the objectives that there are."""
    known = {one.name: one for one in module.of_kind("objective")}
    trained = {name: one for name, one in known.items() if name in module.written and module.written[name].of}
    if name is None and len(trained) != 1:
        told = "One is declared like  objective NAME of MODEL(labels…) → loss = …"
        told = f"It has {', '.join(trained)}." if trained else told
        raise error("T013", f"{module.name}: which objective should be trained?", help=told)
    name = name or next(iter(trained))
    if name not in known:
        advice = did_you_mean(name, trained) or f"It has {', '.join(trained) or 'none'}."
        raise error("T013", f"{module.name} has no objective `{name}`", help=advice)
    of = module.written[name].of if name in module.written else None
    if of is None:
        told = f"`{name}` joins several models, and a folder holds one"
        raise error("T013", told, help=f"These are of one model: {', '.join(trained)}.")
    return known[name], of.name


def _is_sentence(module: Module) -> bool:
    return module.name == SENTENCE or (module.base is not None and module.base.name == SENTENCE)


def _reading(asked: Settings, module: Module, model: str, stored: Path | None) -> tuple[str | None, str | None]:
    """(the spec, the model) that the folder is read as, where it does not say so itself."""
    own = None if asked.spec in shipped() or stored is not None else asked.spec
    return own, None if _is_sentence(module) else model


def _begin(
    asked: Settings, module: Module, model: str, keys: Mapping[str, Any], stored: Path | None, tokens: Tokens
) -> None:
    """Writes the folder --out with config, tokenizer and the weights that the training begins with."""
    if _is_sentence(module) and stored is not None:
        load(stored, validate=False).save_pretrained(asked.out)
    elif _is_sentence(module):
        base = load_module(ENCODER)
        config = _config(asked, base, {**keys, **_more_keys(asked, module, base)}, tokens)
        write_fresh(asked.out, base, config, None, asked.seed, asked.stored)
        width = config.axis("d")
        assert width is not None
        write_sentence(asked.out, int(str(width.size)), asked.length)
    else:
        config = _config(asked, module, keys, tokens)
        write_fresh(asked.out, module, config, model, asked.seed, asked.stored)
        if stored is not None:
            _go_on(asked.out, stored, module, model)
    tokens.save(asked.out)


def _more_keys(asked: Settings, module: Module, base: Module) -> dict[str, Any]:
    """The settings that a spec has beside its encoder's, by their keys in config.json."""
    return {module.options[name].keys[0][0]: one for name, one in asked.settings.items() if name not in base.options}


def _config(asked: Settings, module: Module, keys: Mapping[str, Any], tokens: Tokens) -> Config:
    """The sizes: what the user says, then what the tokenizer says, then the spec's defaults."""
    told = dict(keys)
    named = {**KEYS, "vocab_size": ""}
    for name, option in module.options.items():
        for key in option.keys:
            if len(key) == 1 and key[0] in named and name not in asked.settings and told.get(key[0]) is None:
                if key[0] == "vocab_size":
                    told["vocab_size"] = tokens.size
                elif named[key[0]] in tokens.ids:
                    told[key[0]] = tokens.ids[named[key[0]]]
    config = Config(module, told, {name: one for name, one in asked.settings.items() if name in module.options})
    vocabulary = next((name for name, one in module.options.items() if ("vocab_size",) in one.keys), None)
    size = config.axis(vocabulary) if vocabulary else None
    if size is not None and isinstance(size.size, int) and size.size < tokens.size:
        told_text = f"the tokenizer has {tokens.size} tokens, the model {vocabulary} = {size.size}"
        raise error("T014", told_text, help=f"Say --set {vocabulary}={tokens.size}, or give its tokenizer.")
    return config


def _go_on(out: Path, stored: Path, module: Module, model: str) -> None:
    """Puts the stored tensors of a folder over those that were drawn, where names and shapes agree."""
    mine, theirs = read_stored(out), read_stored(stored)
    config = Config(module, read_config(out / "config.json"))
    graph = lowered(module, config, module.entries[model])
    prefixes = checkpoint_table(checkpoint_rows(module, graph.name, graph, config))[2]
    made = {}
    for name, array in mine.items():
        same = [one for one in other_names(name, prefixes) if one in theirs and theirs[one].shape == array.shape]
        made[name] = np.ascontiguousarray(theirs[same[0]].astype(array.dtype) if same else array)
    replace_file(out / WEIGHTS_FILE, partial(save_file, made, metadata={"format": "pt"}))


def _origin(found: ModelFolder) -> Origin:
    """Where the weights came from, and go back to."""
    chosen = found.module.entries[found.entry or MODEL]
    config = decided(found, Config(found.module, found.config), chosen)
    stored, table, _, _ = weights_in(found, lowered(found.module, config, chosen), config, True)
    weights = assemble(stored, table)
    return Origin(found, stored, table, lambda: weights)


def _weights(program: Program, origin: Origin, asked: Settings) -> Weights:
    """The folder's weights, and those of the objective that no folder holds, drawn."""
    held = origin.weights()
    graph = program.compiled.formula
    names = {one.name: one for one in graph.weights}
    return {name: held[name] if name in held else drawn(one, asked.seed, asked.stored) for name, one in names.items()}


# ------------------------------------------------------------------------------------------- objective and corruptions


def _program(asked: Settings, found: ModelFolder, objective: Entry) -> Program:
    left = passes_left_out(asked.backend)
    made = proved(compile_graph(found.module, found.config, objective.name, without=left))
    gradients = compile_gradients(made) if asked.backend == "numpy" else None  # a PyTorch module has autograd
    return Program(replace(made, gradients=gradients), asked.backend)


def _is_causal(base: Compiled) -> bool:
    """Whether a model reads a text that it is to go on with, token after token."""
    return base.decoding is not None and not base.decoding.begin


def _chain(asked: Settings, found: ModelFolder, program: Program, base: Compiled) -> tuple[Program, ...]:
    """The corruptions that the texts go through: those that were said, or the first that makes what is needed."""
    formula = program.compiled.formula
    if asked.corruption is None:
        names = [] if formula.groups else _fitting(found, program, base)
    else:
        names = [corruptions.choose(found.module, name).name for name in asked.corruption if name != NONE]
    made = [compile_graph(found.module, found.config, name) for name in names]
    return tuple(Program(one, "numpy") for one in made)


def _fitting(found: ModelFolder, program: Program, base: Compiled) -> list[str]:
    """The first corruption of one text whose results are the inputs that the objective has of its own."""
    if _is_causal(base):  # its labels are its tokens
        return []
    known = {one.name for one in base.formula.inputs}
    inputs = [one for one in program.compiled.formula.inputs if one.required and one.name not in known]
    needed = {(one.name, _of_tokens(one)) for one in inputs}
    for name in corruptions.names(found.module):
        graph = lowered(found.module, Config(found.module, found.config), found.module.entries[name])
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
