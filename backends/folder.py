"""A model's folder, read: the spec and model it asks for, its config, and where weights and tokenizer are.

Two kinds of folders: a plain one (config.json with weights beside it) and one of sentence-transformers (modules.json
names a transformer, poolings and what follows: sentence.py). Nothing outside it is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..compiler.checkpoint import find_block
from ..compiler.config import read_config
from ..compiler.driver import load_module
from ..compiler.modules import Module, read_source, shipped
from ..grammar.diagnostics import did_you_mean, error
from .sentence import MODEL, Sentence, read_sentence

SENTENCE = "sbert"
"""The spec whose models pool the tokens of an encoder; written over bert, taken over whatever extends that."""

REFUSED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, []),
    "quantization_config": (),
    "tie_word_embeddings": (True,),
    "use_bfloat16": (False,),
    "use_bidirectional_attention": (False,),
}
"""Keys that change what a model computes: only these values, or null, will do where no spec reads the key."""

HARMLESS = frozenset((
    "_attn_implementation", "_commit_hash", "_name_or_path", "_num_labels", "adapters", "architectures",
    "attn_implementation", "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id",
    "chunk_size_feed_forward", "classifier_dropout", "cross_attention_hidden_size", "decoder_start_token_id",
    "directionality", "diversity_penalty", "do_sample", "dtype", "early_stopping",
    "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty", "finetuning_task",
    "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label", "init_std",
    "initializer_factor", "initializer_range",
    "is_encoder_decoder", "keys_to_ignore_at_inference", "label2id", "legacy", "length_penalty", "max_length",
    "min_length", "model_type", "n_ctx", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_past", "output_scores",
    "pad_token_id", "pooler_fc_size", "pooler_hidden_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "predict_special_tokens", "prefix", "pretraining_tp",
    "problem_type", "remove_invalid_values", "reorder_and_upcast_attn", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "sinusoidal_pos_embds",
    "summary_activation", "summary_first_dropout", "summary_last_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder",
    "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version", "typical_p",
    "use_cache", "use_return_dict",
    "cls_token_id", "deterministic_flash_attn", "initializer_cutoff_factor", "reference_compile",
    "repad_logits_with_grad",
))  # fmt: skip
"""Keys that say nothing about what the forward pass computes."""

MOST = 8
"""Folders that an error names."""

AT_REST = {"encoder_layerdrop": 0, "decoder_layerdrop": 0}
"""Keys that say nothing with these values."""


@dataclass(frozen=True)
class ModelFolder:
    """What a folder asks for; `config` holds the keys of config.json and of a sentence model's modules.

    `weights` is the transformer's folder, `parts` the folders inside `path` of the other modules; `generation` are the
    keys of generation_config.json, None where there is none.
    """

    path: Path
    weights: Path
    parts: tuple[str, ...]
    config: Mapping[str, Any] = field(repr=False)
    module: Module = field(repr=False)
    spec_name: str
    entry: str | None
    max_length: int | None
    tokenizer_file: Path | None
    generation: Mapping[str, Any] | None = field(default=None, repr=False)


def read_model_folder(
    folder: str | Path, spec: str | Path | None = None, entry: str | None = None
) -> ModelFolder:
    """The folder's spec, model and config; `spec` and `entry` choose others. Raises `TransformulaError`."""
    path = Path(folder)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        advice = "Give the folder that holds config.json and model.safetensors."
        raise error("C630", f"no model's folder here: {path} {what}", help=advice)
    modules = path / "modules.json"
    inside = sorted(one.parent.name for one in path.glob("*/config.json"))
    if inside and not modules.is_file() and not (path / "config.json").is_file():
        told = f"{path} holds {len(inside)} models, in folders of their own: {', '.join(inside[:MOST])}"
        raise error("C680", told, help=f"Name one of them: {path / inside[0]}")
    sentence = read_sentence(path, modules) if modules.is_file() else None
    transformer = sentence.transformer if sentence else path
    config = {**read_config(transformer / "config.json"), **(sentence.keys if sentence else {})}
    module, name = _spec(transformer, config, spec, sentence)
    chosen = entry or (_entry(module, config) if sentence is None else MODEL if MODEL in module.entries else None)
    refuse_values(config, module)
    found = [one / "tokenizer.json" for one in (transformer, path) if (one / "tokenizer.json").is_file()]
    return ModelFolder(
        path,
        transformer,
        sentence.places if sentence else (),
        config,
        module,
        name,
        chosen,
        _max_length(transformer, path),
        found[0] if found else None,
        read_generation_config(transformer),
    )


def read_generation_config(folder: Path) -> dict[str, Any] | None:
    """The keys of the folder's generation_config.json; None where there is none."""
    path = folder / "generation_config.json"
    return read_config(path) if path.is_file() else None


def refuse_values(config: Mapping[str, Any], module: Module) -> None:
    """An error for values that the spec would silently not honour."""
    read = {key[0] for option in module.options.values() for key in option.keys}
    for key, values in REFUSED.items():
        if key in config and key not in read and config[key] is not None and config[key] not in values:
            told = f"only {', '.join(map(json.dumps, values))} is" if values else "nothing here is"
            raise error("C633", f"config: {key} = {json.dumps(config[key])} is not supported: {told}")


def unused_keys(config: Mapping[str, Any], unread: list[str]) -> list[str]:
    """The keys of config.json that nothing read and that may matter."""
    said = [key for key in unread if key not in HARMLESS and key not in REFUSED]
    return [key for key in said if key not in AT_REST or config[key] != AT_REST[key]]


# --------------------------------------------------------------------------------------------- spec and model


def _spec(
    folder: Path, config: Mapping[str, Any], spec: str | Path | None, sentence: Sentence | None
) -> tuple[Module, str]:
    if spec is not None:
        module = load_module(spec)
        return module, module.name
    kind = config.get("model_type")
    known = model_types()
    if not isinstance(kind, str) or kind not in known:
        what = (
            "has no model_type"
            if kind is None
            else f"has the model_type {json.dumps(kind)}, which no shipped spec is for"
        )
        advice = did_you_mean(str(kind), known) or f"Known: {', '.join(sorted(known))}."
        raise error(
            "C631", f"{folder / 'config.json'} {what}", help=f"{advice} `spec=` takes a spec of your own."
        )
    name = known[kind]
    if sentence:
        if not _is_encoder(load_module(name)):
            what = f"there is no shipped spec for sentence embeddings over {name}"
            raise error("C631", what, help="It should extend bert. `spec=` takes a spec of your own.")
        module = load_module(SENTENCE, ("bert", name))
        if not sentence.plain:
            module = load_module(sentence.written(module), ("bert", name))
        return module, SENTENCE if name == "bert" else f"{SENTENCE} over {name}"
    return load_module(name), name


def _is_encoder(module: Module | None) -> bool:
    """Whether a spec is bert, or extends it."""
    while module is not None and module.name != "bert":
        module = module.base
    return module is not None


@cache
def model_types() -> Mapping[str, str]:
    """model_type → shipped spec, by the specs' first lines."""
    found: dict[str, str] = {}
    for name in shipped():
        if not name.startswith("lib/"):
            line = re.search(r"^spec\s.*$", read_source(name).text, re.MULTILINE)
            for kind in re.findall(r'"([^"]*)"', line.group().partition(" for ")[2]) if line else ():
                found[kind] = name
    return found


def _entry(module: Module, config: Mapping[str, Any]) -> str | None:
    """The model of the first architecture that the spec's checkpoint maps know."""
    maps = [one for one in module.checkpoints if one.model and find_block(module, one.model.name) is one]
    known = {kind: one.model.name for one in maps if one.model for kind in one.architectures}
    given = config.get("architectures")
    kinds = given if isinstance(given, list) else []
    for kind in kinds:
        if kind in known:
            return known[str(kind)]
    if not kinds or not known:
        return None
    told, models = ", ".join(map(str, kinds)), ", ".join(dict.fromkeys(known.values()))
    raise error(
        "C632",
        f"{module.name} has no model for the architecture {told}",
        help=f"It knows {', '.join(known)}. `entry=` chooses a model for these weights: {models}.",
    )


def _max_length(transformer: Path, folder: Path) -> int | None:
    """max_seq_length of sentence_bert_config.json, if there is one."""
    for place in dict.fromkeys((transformer, folder)):
        for path in sorted(place.glob("sentence_*_config.json")):
            found = read_config(path).get("max_seq_length")
            if found is not None and (type(found) is not int or found < 1):
                raise error(
                    "C637", f"{path}: max_seq_length = {json.dumps(found)} should be a positive number"
                )
            if found is not None:
                return int(found)
    return None
