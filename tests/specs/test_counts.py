"""What a summary counts against the library: parameters, operations of products, bytes of a cache, memory at peak."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

import transformula
from tests.compiler import zoo
from transformula.backends.folder import model_types
from transformula.backends.program import Program, passes_left_out
from transformula.compiler.checkpoint import find_block
from transformula.compiler.driver import Compiled, compile_graph, load_module
from transformula.compiler.sizes import Sizes
from transformula.compiler.summary import summarise

N, LENGTH, SOURCE, CHOICES = 2, 9, 7, 3
TINY: dict[str, Any] = {
    "vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 32, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32, "n_ctx": 32, "dim": 24,
    "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "embedding_size": 12, "d_model": 24, "encoder_layers": 2,
    "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 36, "d_kv": 6, "d_ff": 40, "num_layers": 3, "num_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "cls_token_id": 1, "sep_token_id": 2,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    "phi": {"num_attention_heads": 3, "num_key_value_heads": 3},
}


def architectures(kind: str) -> Iterator[tuple[str, str]]:
    """(the library's class, our model) of a model_type."""
    module = load_module(model_types()[kind])
    for one in module.checkpoints:
        if one.model is not None and find_block(module, one.model.name) is one:
            for name in one.architectures:
                known = getattr(transformers, name, None)
                if known is not None and known.config_class.model_type == kind:
                    yield name, one.model.name


EVERY = [(kind, *one) for kind in sorted(model_types()) for one in architectures(kind)]
FIRST = [next(row for row in EVERY if row[0] == kind) for kind in sorted(model_types())]


def config(kind: str, **more: Any) -> Any:
    """A tiny configuration of the library."""
    known = transformers.CONFIG_MAPPING[kind]().to_dict()
    chosen = {key: value for key, value in {**TINY, **OWN.get(kind, {}), **more}.items() if key in known}
    return transformers.CONFIG_MAPPING[kind](**chosen, attn_implementation="eager")


def ours(kind: str, name: str, entry: str, chosen: Any, **passes: Any) -> Compiled:
    """Our model of a configuration of the library."""
    return compile_graph(model_types()[kind], {**chosen.to_dict(), "architectures": [name]}, entry, **passes)


def called(chosen: Any, name: str) -> dict[str, torch.Tensor]:
    """The inputs of a call: texts that end, of which the library scores the end."""
    torch.manual_seed(0)
    ids = torch.randint(3, 30, (N, LENGTH))
    ids[:, -1] = 2
    if "MultipleChoice" in name:
        ids = torch.stack([ids] * CHOICES, 1)
    both = chosen.is_encoder_decoder and "Encoder" not in name and "Classification" not in name
    return {"input_ids": ids, **({"decoder_input_ids": torch.randint(3, 30, (N, LENGTH))} if both else {})}


def sizes(name: str) -> Sizes:
    """The sizes of such a call: each choice is a text of its own."""
    return Sizes(N * (CHOICES if "MultipleChoice" in name else 1), LENGTH)


# --- parameters ----------------------------------------------------------------------------------------------


def agree_on_parameters(kind: str, name: str, entry: str) -> None:
    """As many trained numbers as the library's at the configuration that it has by itself.

    What differs is no parameter there either: the bias of BART's head is a buffer, Marian's sinusoids are a table that
    is not trained (here a formula).
    """
    chosen = transformers.CONFIG_MAPPING[kind]()
    with torch.device("meta"):
        model = getattr(transformers, name)(chosen)
    sinusoids = [one.numel() for key, one in model.named_parameters() if "embed_positions" in key]
    fixed = sum(sinusoids) if kind == "marian" else 0
    made = summarise(ours(kind, name, entry, chosen, until="formula"))
    assert made.trainable == sum(one.numel() for one in model.parameters()) - fixed, name
    buffers = dict(model.named_buffers())
    assert made.parameters - made.trainable == (buffers[key].numel() if (key := "final_logits_bias") in buffers else 0)


def test_the_first_architecture_of_every_kind_has_the_librarys_parameters() -> None:
    for row in FIRST:
        agree_on_parameters(*row)


@pytest.mark.parametrize(("kind", "name", "entry"), EVERY)
def test_every_architecture_has_the_librarys_parameters(kind: str, name: str, entry: str) -> None:
    agree_on_parameters(kind, name, entry)


# --- operations of products ----------------------------------------------------------------------------------


def counted(run: Any, **options: Any) -> int:
    """What torch counts: of matrix products, and of its fused attention all pairs of rows and keys."""

    def attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]

    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}
    with FlopCounterMode(display=False, custom_mapping=fused) as found, torch.no_grad():
        run(**options)
    return int(found.get_total_flops())


def agree_on_products(kind: str, name: str, entry: str) -> None:
    """The formulas' products are the library's, but for two cases that are counted out.

    A decoder's class for sequences scores each token and takes one; the formula takes one row and scores it. DeBERTa v1
    cuts out of its table of distances the 2L rows that a text of L tokens reaches; the formula multiplies the table.
    """
    chosen = config(kind)
    model = getattr(transformers, name)(chosen).eval().requires_grad_(False)
    theirs = counted(model, **called(chosen, name))
    made = summarise(ours(kind, name, entry, chosen, until="formula"), sizes(name))
    more = 0
    if name.endswith("ForSequenceClassification") and hasattr(model, "score"):
        more = 2 * N * (LENGTH - 1) * 24 * 2
    elif kind == "deberta":
        rows, layers, d = 2 * 32 - 2 * LENGTH, 3, 24
        texts = sizes(name).batch
        more = -layers * (2 * 2 * rows * d * d + 2 * 2 * texts * LENGTH * d * rows)
    assert made.formula.amount.products + more == theirs, name


def test_the_first_architecture_of_every_kind_has_the_librarys_products() -> None:
    for row in FIRST:
        agree_on_products(*row)


@pytest.mark.parametrize(("kind", "name", "entry"), EVERY)
def test_every_architecture_has_the_librarys_products(kind: str, name: str, entry: str) -> None:
    agree_on_products(kind, name, entry)


MODULES = [
    ("gpt2", "GPT2LMHeadModel", "GPT2LMHeadModel"),
    ("bert", "BertForSequenceClassification", "BertForSequenceClassification"),
    ("llama", "LlamaForCausalLM", "LlamaForCausalLM"),
    ("t5", "T5ForConditionalGeneration", "T5ForConditionalGeneration"),
    ("modernbert", "ModernBertModel", "Bert"),
    ("gemma2", "Gemma2ForCausalLM", "LlamaForCausalLM"),
    ("deberta-v2", "DebertaV2ForMaskedLM", "BertForMaskedLM"),
]


@pytest.mark.parametrize(("kind", "name", "entry"), MODULES)
def test_our_padded_module_makes_the_products_that_are_told(kind: str, name: str, entry: str, tmp_path: Path) -> None:
    """torch's fused attention is counted with all pairs, hidden ones too: told without the pass that finds bounds."""
    chosen = config(kind)
    getattr(transformers, name)(chosen).save_pretrained(tmp_path)
    model = transformula.load(tmp_path, backend="torch", layout="padded")
    model.module.requires_grad_(False)
    left = ("unpad", *passes_left_out("torch"))
    told = summarise(ours(kind, name, entry, chosen, without=(*left, "fold_masks")), sizes(name)).final.amount.products
    given = {key: value.numpy() for key, value in called(chosen, name).items()}
    assert counted(model, **given) == told
    bounded = summarise(ours(kind, name, entry, chosen, without=left), sizes(name)).final.amount.products
    layers = 3 if kind in ("gpt2", "llama", "t5") else 0  # with bounds, and of a text none of its windows is shorter
    hidden = N * LENGTH * (LENGTH - 1) // 2
    assert told - bounded == 2 * 2 * layers * hidden * 24  # scores and sums over keys, of pairs behind the row


# --- what a decoder keeps ------------------------------------------------------------------------------------

DECODERS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("gpt2", "GPT2LMHeadModel", "GPT2LMHeadModel", {}),
    ("t5", "T5ForConditionalGeneration", "T5ForConditionalGeneration", {}),
    ("mistral", "MistralForCausalLM", "LlamaForCausalLM", {"sliding_window": 4}),
    ("llama", "LlamaForCausalLM", "LlamaForCausalLM", {}),
    ("qwen3", "Qwen3ForCausalLM", "LlamaForCausalLM", {}),
    ("gpt_neox", "GPTNeoXForCausalLM", "LlamaForCausalLM", {}),
    ("bart", "BartForConditionalGeneration", "BartForConditionalGeneration", {}),
    ("marian", "MarianMTModel", "BartForConditionalGeneration", {}),
    ("bert", "BertLMHeadModel", "BertLMHeadModel", {"is_decoder": True}),
]


def bytes_of(cache: Any) -> int:
    """The numbers that a cache of the library holds."""
    return sum(int(one.keys.nbytes + one.values.nbytes) for one in cache.layers)


@pytest.mark.parametrize(("kind", "name", "entry", "more"), DECODERS)
def test_a_cache_is_the_librarys(kind: str, name: str, entry: str, more: dict[str, Any]) -> None:
    agree_on_cache(kind, name, entry, more)


def test_windows_and_cross_attention_are_kept_as_by_the_library() -> None:
    for row in DECODERS[1:3]:
        agree_on_cache(*row)


def agree_on_cache(kind: str, name: str, entry: str, more: dict[str, Any]) -> None:
    """Bytes of a text of the library's DynamicCache and of our module's arrays, self- and cross-attention apart."""
    chosen = config(kind, **more)
    for key, value in more.items():
        setattr(chosen, key, value)
    model = getattr(transformers, name)(chosen).eval()
    ids = torch.randint(3, 30, (N, LENGTH))
    source = torch.randint(3, 30, (N, SOURCE))
    given = {"input_ids": source, "decoder_input_ids": ids} if chosen.is_encoder_decoder else {"input_ids": ids}
    with torch.no_grad():
        past = model(**given, use_cache=True).past_key_values
    compiled = ours(kind, name, entry, chosen)
    assert compiled.decoding is not None
    lengths = {str(axis.size) for one in compiled.formula.inputs for axis in one.axes if axis.counted}
    others = lengths - {compiled.decoding.length.name}
    kept = summarise(compiled, Sizes(N, LENGTH, lengths=dict.fromkeys(others, SOURCE))).cache
    assert kept is not None
    both = hasattr(past, "cross_attention_cache")
    assert N * (kept.after(LENGTH) - kept.once) == bytes_of(past.self_attention_cache if both else past)
    assert N * kept.once == (bytes_of(past.cross_attention_cache) if both else 0)
    held, once = held_by_our_module(compiled, ids.numpy(), source.numpy())
    assert once == N * kept.once
    assert held == N * kept.per_token * LENGTH  # a window forgets when its room, of twice as many rows, is full


def held_by_our_module(compiled: Compiled, ids: Any, source: Any) -> tuple[int, int]:
    """Bytes of the rows that the generated module keeps of fed texts, and of what it keeps once."""
    model = zoo.model(Program(compiled, "numpy"), "float32")
    decodes = compiled.decoding
    assert decodes is not None
    decoder = model.decoder(N) if decodes.begin is None else model.decoder(input_ids=source)
    decoder.feed(ids)

    def rows(one: Any) -> int:
        own = sum(value.nbytes // len(value) * int(one.stored.sum()) for value in one.values.values())
        return int(own) + sum(rows(band) for band in one.bands.values())

    cache = decoder.cache
    length = cache.rows[decodes.length.name]
    told = sum(value.nbytes for value, _ in cache.values.values())
    return rows(length), told + sum(rows(one) for name, one in cache.rows.items() if one is not length)


# --- memory at peak ------------------------------------------------------------------------------------------

PEAKS: dict[tuple[str, str], dict[str, Any]] = {
    ("bert", "Bert"): {"layers": 3, "d": 96, "head": 4, "ffn": 256, "vocab": 200},
    ("gpt2", "GPT2LMHeadModel"): {"layers": 3, "d": 96, "head": 4, "vocab": 200},
    ("llama", "LlamaForCausalLM"): {"layers": 3, "d": 96, "head": 4, "kv": 2, "ffn": 256, "vocab": 200},
    ("modernbert", "BertForMaskedLM"): {"layers": 3, "d": 96, "head": 4, "ffn": 256, "vocab": 200},
}


def measured(compiled: Compiled, batch: int, length: int) -> int:
    """The most memory that a call of the generated NumPy module takes, results included."""
    model = zoo.model(Program(compiled, "numpy"), "float32")
    ids = np.random.default_rng(0).integers(3, 30, (batch, length))
    model(input_ids=ids)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        model(input_ids=ids)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_memory_at_peak_is_told_within_a_factor_of_three() -> None:
    """What values need, and what a module takes: fused kernels take less, rotations and copies more; both grow.

    Measured are 0.6 (BERT) to 2.8 (ModernBERT) times of what is told.
    """
    for (spec, entry), chosen in PEAKS.items():
        compiled = compile_graph(spec, entry=entry, settings=chosen)
        few, many = (measured(compiled, batch, 64) for batch in (4, 8))
        told = [summarise(compiled, Sizes(batch, 64)).final.peak_bytes for batch in (4, 8)]
        assert told[1] == pytest.approx(2 * told[0], rel=0.01)
        assert all(1 / 3 < found / each < 3 for found, each in zip((few, many), told, strict=True)), spec
        assert 1.7 < many / few < 2.1
