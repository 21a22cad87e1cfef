"""A folder of sentence-transformers: what its modules.json says, as config keys and as formulas.

One pooling, and perhaps a normalisation behind it, is a model of the shipped specs. Any other row of modules (several
poolings, Dense, LayerNorm, Normalize anywhere) is written down as a spec that extends them. Only counts and names of
ours get into its text; what the files say is read as config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..compiler.config import read_config
from ..compiler.modules import Module
from ..grammar.diagnostics import Source, TransformulaError, did_you_mean, error
from .numpy.files import inside, module_rows

MODEL = "SentenceBert"
"""The model of the shipped specs that a written one stands for."""

POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The old flags of a pooling, in the order in which the library concatenates."""

KNOWN = "Transformer, then Pooling, then any of Dense, LayerNorm, Normalize and Dropout"
SAFE = re.compile(r"[A-Za-z0-9_. +-]+(/[A-Za-z0-9_. +-]+)*")
"""Folders of weights that a spec may name."""


@dataclass(frozen=True)
class Step:
    """A module behind the pooling: its kind, its folder inside the model's, and its config."""

    kind: str
    place: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Sentence:
    """What modules.json says: the transformer's folder, the pooling modes, the steps behind them, all other folders."""

    transformer: Path
    poolings: tuple[str, ...]
    steps: tuple[Step, ...]
    places: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether a shipped model says the same."""
        return len(self.poolings) == 1 and [one.kind for one in self.steps] in ([], ["Normalize"])

    @property
    def keys(self) -> dict[str, Any]:
        """Config keys: those of the shipped models, or those of the written one."""
        if self.plain:
            return {"pooling_mode": self.poolings[0], "normalize": bool(self.steps)}
        keys: dict[str, Any] = {f"pooling_{i}": mode for i, mode in enumerate(self.poolings, 1)}
        return keys | {f"dense_{i}": one.config for i, one in enumerate(self.steps, 1) if one.kind == "Dense"}

    def written(self, base: Module) -> Source:
        """The spec of this row of modules, over sbert or a spec like it."""
        self._check(base)
        lines = _Lines(self)
        results = f"sentence_embedding[width] = {lines.value}[{lines.axis} → width], last_hidden_state[seq, d] = u"
        lines.config.append(f"width = {lines.axis}")
        text = [
            "# The modules of modules.json, one after the other.",
            f"spec {base.name}_modules extends {base.name}",
            *("", "config", *(f"    {one}" for one in lines.config)),
            *("", f"model {MODEL} of bert → {results}"),
            *("    where u = last_hidden_state", *(f"          {one}" for one in lines.where)),
        ]
        if lines.uses:
            text += ["", *(f"uses {one}" for one in lines.uses)]
            text += ["", f"checkpoint huggingface of {MODEL} from {MODEL}", *(f"    {one}" for one in lines.rows)]
        return Source("<modules.json>", "\n".join(text) + "\n")

    def _check(self, base: Module) -> None:
        """An error for a pooling or an activation that the spec does not know."""
        told = [("pooling", mode, "pooling_mode") for mode in self.poolings]
        dense = [one.config["activation_function"] for one in self.steps if one.kind == "Dense"]
        for table, text, key in (*told, *(("torch_activation", name, "activation_function") for name in dense)):
            known = [one for texts, _ in base.choices[table][0].rows for one in texts]
            if text not in known:
                advice = f"{did_you_mean(text, known)} Known are {', '.join(known)}.".strip()
                raise error("C636", f"{key} = {json.dumps(text)} is not supported", help=advice)


class _Lines:
    """The lines of a written spec: each step makes the value and the axis that the next one reads."""

    def __init__(self, sentence: Sentence) -> None:
        count = len(sentence.poolings)
        self.config = [f"pool_{i} : pooling = mean_pool as pooling_{i}" for i in range(1, count + 1)]
        self.where, self.uses, self.rows = list[str](), list[str](), list[str]()
        parts = "; ".join(f"pool_{i}[seq](u)" for i in range(1, count + 1))
        self.axis, self.value = "d", "h_0"
        if count > 1:
            self.axis, parts = "pooled", f"[{parts}][d → pooled]"
            self.config.append(f"pooled = {count} * d")
        self.where.append(f"h_0 = {parts}")
        for i, step in enumerate(sentence.steps, 1):
            made = getattr(self, f"_{step.kind.lower()}")(i, step)
            self.where.append(f"h_{i} = {made}")
            self.value = f"h_{i}"

    def _normalize(self, i: int, step: Step) -> str:
        return f"normalised[{self.axis}]({self.value})"

    def _layernorm(self, i: int, step: Step) -> str:
        self.uses.append(f"norm_{i} : LayerNorm[d = {self.axis}](ε = 1e-5)")
        self.rows += [f'norm_{i}.γ : "{step.place}/norm.weight"', f'norm_{i}.β : "{step.place}/norm.bias"']
        return f"norm_{i}({self.value})"

    def _dense(self, i: int, step: Step) -> str:
        kept = f"kept_{i} and out_{i} ≠ {self.axis}"
        self.config += [
            f"out_{i} = 1 as dense_{i}.out_features",
            f'act_{i} : torch_activation = "Tanh" as dense_{i}.activation_function',
            f"bias_{i} = true as dense_{i}.bias",
            f"kept_{i} = false as dense_{i}.use_residual",
        ]
        chosen = f"act_dense = act_{i}, biased = bias_{i}, kept = kept_{i}"
        self.uses.append(f"dense_{i} : Dense[wide = {self.axis}, narrow = out_{i}]({chosen})")
        self.rows += [
            f'dense_{i}.W : "{step.place}/linear.weight"',
            f'dense_{i}.b : "{step.place}/linear.bias" if bias_{i}',
            f'dense_{i}.R : "{step.place}/residual.weight" if {kept}',
        ]
        value, self.axis = self.value, f"out_{i}"
        return f"dense_{i}({value})"


def read_sentence(folder: Path, modules: Path) -> Sentence:
    """The modules of a folder in their order. Raises `TransformulaError` for one that is not supported at its place."""
    transformer: Path | None = None
    poolings: tuple[str, ...] = ()
    steps: list[Step] = []
    rows = list(_rows(folder, modules))
    for kind, place in rows:
        if kind == "Transformer" and transformer is None and not poolings:
            transformer = folder / place
        elif kind == "Pooling" and transformer is not None and not poolings:
            poolings = _poolings(folder / place / "config.json")
        elif kind in ("Normalize", "Dense", "LayerNorm", "Dropout") and poolings:
            steps += _step(kind, folder, place)
        else:
            what = f"{modules}: the module {kind} is not supported at its place"
            raise error("C634", what, help=f"Known is {KNOWN}.")
    if transformer is None or not poolings:
        raise error("C634", f"{modules} should name a Transformer and a Pooling")
    places = tuple(place for kind, place in rows if kind != "Transformer" and place)
    return Sentence(transformer, poolings, tuple(steps), places)


def _rows(folder: Path, modules: Path) -> Iterator[tuple[str, str]]:
    """(last part of the type, path) of each module; a path leads into the folder."""
    try:
        rows = module_rows(modules)
    except ValueError as fault:
        raise error("C634", str(fault)) from None
    for kind, place in rows:
        try:
            inside(folder, place)
        except ValueError as fault:
            raise error("C635", f"{modules}: {fault}") from None
        yield kind, place


def _poolings(path: Path) -> tuple[str, ...]:
    """The pooling modes, from the new key or the old flags."""
    config = read_config(path)
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [name for flag, name in POOLING_FLAGS.items() if config.get(flag)] or ["mean"]
    modes = [mode] if isinstance(mode, str) else mode
    if not isinstance(modes, list) or not all(isinstance(one, str) for one in modes) or not modes:
        raise error("C636", f"{path}: pooling_mode = {json.dumps(mode)} should be a text, or a list of texts")
    if config.get("include_prompt", True) is not True:
        raise error("C636", f"{path}: include_prompt = false is not supported: a model sees no prompts")
    return tuple(modes)


def _step(kind: str, folder: Path, place: str) -> list[Step]:
    """A module behind the pooling; nothing for dropout, which acts in training only."""
    path = folder / place / "config.json"
    config = read_config(path) if path.is_file() or kind in ("Dense", "LayerNorm") else {}
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise _refused(path, key, config, 'only "sentence_embedding" is supported')
    if kind in ("Dense", "LayerNorm") and not SAFE.fullmatch(place):
        raise error("C635", f"the folder of the module {kind} is called {place!r}", help="Give it a plain name.")
    if kind == "Dense":
        config = _dense(path, config)
    return [] if kind == "Dropout" else [Step(kind, place, config)]


def _dense(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a Dense module, each of its kind."""
    made = {"activation_function": "torch.nn.Tanh", "bias": True, "use_residual": False, **config}
    if type(made.get("out_features")) is not int or made["out_features"] < 1:
        raise _refused(path, "out_features", made, "it should be a positive whole number")
    for key in ("bias", "use_residual"):
        if not isinstance(made[key], bool):
            raise _refused(path, key, made, "it should be true or false")
    name = made["activation_function"]
    if not isinstance(name, str) or not name.startswith("torch."):
        raise _refused(path, "activation_function", made, "only classes of torch are supported")
    made["activation_function"] = name.rpartition(".")[2]
    return {key: made[key] for key in ("out_features", "activation_function", "bias", "use_residual")}


def _refused(path: Path, key: str, config: Mapping[str, Any], why: str) -> TransformulaError:
    return error("C638", f"{path}: {key} = {json.dumps(config.get(key))}: {why}")
