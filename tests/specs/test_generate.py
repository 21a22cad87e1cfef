"""`generate` of loaded models against the library's, token by token in float64."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs import seq2seq
from tests.specs.generating import BACKENDS, Array, asked, ours, plain, theirs, without_padding
from tests.specs.peers import saved

pytestmark = pytest.mark.usefixtures("no_islands")
GPT2, T5, BART = "GPT2LMHeadModel", "T5ForConditionalGeneration", "BartForConditionalGeneration"
TINY: dict[str, Any] = {
    "vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 80,
    "bos_token_id": 0, "eos_token_id": None,
}  # fmt: skip
UNUSUAL: list[dict[str, Any]] = [
    {"tie_word_embeddings": False, "n_inner": 5},
    {"scale_attn_by_inverse_layer_idx": True, "activation_function": "gelu"},
    {"scale_attn_weights": False, "activation_function": "relu", "layer_norm_epsilon": 0.5},
    {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "n_layer": 4},
    {"n_head": 1, "n_embd": 7, "activation_function": "silu", "eos_token_id": 3, "pad_token_id": 0},
    {"n_head": 12, "activation_function": "quick_gelu", "n_positions": 200},
    {"n_layer": 1, "n_inner": 1, "vocab_size": 5, "activation_function": "tanh"},
    {"n_layer": 1, "vocab_size": 100, "eos_token_id": 50256, "activation_function": "gelu_pytorch_tanh"},
]
LEFT = np.array([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]])
OPTIONS: dict[str, dict[str, Any]] = {
    "64 tokens": {"max_new_tokens": 64},
    "several ends": {"max_new_tokens": 30, "eos_token_id": [4, 9, 17], "pad_token_id": 2},
    "an end, no pad token": {"max_new_tokens": 30, "eos_token_id": 17},
    "at least": {"max_new_tokens": 12, "eos_token_id": [4, 9, 17, 30, 11], "min_new_tokens": 7, "pad_token_id": 0},
    "penalty": {"max_new_tokens": 30, "repetition_penalty": 1.7},
    "reward": {"max_new_tokens": 12, "repetition_penalty": 0.6},
    "no bigram again": {"max_new_tokens": 30, "no_repeat_ngram_size": 2},
    "no token again": {"max_new_tokens": 9, "no_repeat_ngram_size": 1},
    "words": {"max_new_tokens": 20, "bad_words_ids": [[3], [8, 7], [10, 10], [26, 10, 13]]},
    "suppressed": {"max_new_tokens": 9, "suppress_tokens": [10, 18], "begin_suppress_tokens": [6, 7, 22]},
    "a last token": {"max_new_tokens": 9, "forced_eos_token_id": [4, 5], "eos_token_id": 4, "pad_token_id": 1},
    "4 beams": {"max_new_tokens": 24, "num_beams": 4},
    "4 beams, ends": {"max_new_tokens": 24, "num_beams": 4, "eos_token_id": [4, 9, 17], "pad_token_id": 2},
    "3 of 4 beams, early": {
        "max_new_tokens": 24, "num_beams": 4, "num_return_sequences": 3, "early_stopping": True, "length_penalty": 0.3,
        "eos_token_id": [4, 9, 17], "pad_token_id": 2,
    },
    "beams, never early": {
        "max_new_tokens": 24, "num_beams": 3, "early_stopping": "never", "length_penalty": 2.0, "eos_token_id": 4,
        "pad_token_id": 2, "no_repeat_ngram_size": 3, "min_new_tokens": 4,
    },
    "beams, short": {
        "max_new_tokens": 24, "num_beams": 2, "length_penalty": -1.0, "eos_token_id": [9], "pad_token_id": 2,
    },
    "beams, edited": {
        "max_new_tokens": 12, "num_beams": 5, "repetition_penalty": 1.5, "renormalize_logits": True,
        "forced_eos_token_id": 6, "eos_token_id": [6, 12], "pad_token_id": 1, "suppress_tokens": [3],
    },
}  # fmt: skip


def prompts(vocab: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(1, vocab, LEFT.shape)


def turned(row: Array, mask: Array) -> tuple[Array, Array]:
    """The same with padding on the right."""
    count = [(row[i], mask[i]) for i in range(len(row))]
    order = [np.argsort(one == 0, kind="stable") for _, one in count]
    return np.stack([r[o] for (r, _), o in zip(count, order, strict=True)]), np.sort(mask, axis=1)[:, ::-1]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("gpt2"), GPT2, transformers.GPT2Config(**TINY))


# --- decoders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", OPTIONS)
def test_padded_on_the_left(gpt2: Path, what: str) -> None:
    """The whole of it: the prompts as they were given, and the new tokens."""
    options = OPTIONS[what]
    mask = None if "no_repeat_ngram_size" in options else LEFT  # there the library looks at padding, too
    wanted = asked(theirs(gpt2, GPT2), prompts(31), mask, **options)
    for backend in BACKENDS:
        if backend != "reference" or options["max_new_tokens"] < 13:  # it computes all tokens at each step
            found = plain(ours(gpt2, backend).generate(prompts(31), mask, **options))
            np.testing.assert_array_equal(found, wanted, backend)


@pytest.mark.parametrize("what", ["64 tokens", "several ends", "penalty", "4 beams, ends"])
def test_padded_on_the_right_is_each_example_alone(gpt2: Path, what: str) -> None:
    library, options = theirs(gpt2, GPT2), {"pad_token_id": 2, **OPTIONS[what]}
    ids, mask = turned(prompts(31), LEFT)
    for backend in ("numpy", "torch"):
        found = plain(ours(gpt2, backend).generate(ids, mask, **options))
        np.testing.assert_array_equal(found[:, : ids.shape[1]], ids)
        for row, given in enumerate(mask):
            example = without_padding(ids[row], given)
            alone = asked(library, example, np.ones_like(example), **options)[0, given.sum() :]
            np.testing.assert_array_equal(found[row, ids.shape[1] :][: len(alone)], alone)
            assert set(found[row, ids.shape[1] + len(alone) :]) <= {2}


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    made = transformers.GPT2Config(**{**TINY, **more})
    folder = saved(tmp_path, GPT2, made)
    ids, library = prompts(made.vocab_size), theirs(folder, GPT2)
    for backend in ("numpy", "torch"):
        model = ours(folder, backend)
        for given, mask, options in (
            (ids, LEFT, {"max_new_tokens": 64}),
            (ids, None, {"max_new_tokens": 64}),
            (ids, LEFT, {"max_new_tokens": 16, "num_beams": 4}),
        ):
            found = plain(model.generate(given, mask, **options))
            np.testing.assert_array_equal(found, asked(library, given, mask, **options))


def test_padding_is_known_by_its_token(gpt2: Path) -> None:
    """Without a mask the pad token hides itself, unless it ends texts."""
    ids, library, model = np.where(LEFT, prompts(31), 2), theirs(gpt2, GPT2), ours(gpt2, "numpy")
    for options in ({"pad_token_id": 2}, {"pad_token_id": 2, "eos_token_id": 2}):
        wanted = asked(library, ids, None, max_new_tokens=12, **options)
        np.testing.assert_array_equal(model.generate(ids, max_new_tokens=12, **options), wanted)


def test_hidden_tokens_between_are_none(gpt2: Path) -> None:
    ids, mask = prompts(31), np.array([[1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 0, 1]])
    wanted = asked(theirs(gpt2, GPT2), ids, mask, max_new_tokens=12)
    np.testing.assert_array_equal(ours(gpt2, "torch").generate(ids, mask, max_new_tokens=12), wanted)


def test_without_a_prompt_it_begins_with_the_first_token(gpt2: Path) -> None:
    wanted = theirs(gpt2, GPT2).generate(max_new_tokens=8).numpy()
    for backend in BACKENDS:
        np.testing.assert_array_equal(plain(ours(gpt2, backend).generate(max_new_tokens=8)), wanted)


def test_lengths_of_one_prompt(gpt2: Path) -> None:
    """max_length and min_length count the prompt; 20 new tokens are as many as a table of positions has room for."""
    library, model, ids = theirs(gpt2, GPT2), ours(gpt2, "numpy"), prompts(31)[:1]
    for options in (
        {"max_length": 12}, {"max_length": 12, "min_length": 10, "eos_token_id": [10, 18, 4]}, {}, {"min_length": 9},
    ):  # fmt: skip
        np.testing.assert_array_equal(model.generate(ids, **options), asked(library, ids, None, **options))
    long = np.ones((1, 70), int)
    assert model.generate(long).shape == asked(library, long, None).shape == (1, 80)


def test_each_prompt_has_its_own_greatest_length(gpt2: Path) -> None:
    """The law: what follows a prompt does not depend on the others, nor on padding."""
    model, ids = ours(gpt2, "numpy"), prompts(31)
    found = model.generate(ids, LEFT, max_length=10, pad_token_id=2)
    for row in range(3):
        alone = model.generate(without_padding(ids[row], LEFT[row]), max_length=10)[0, LEFT[row].sum() :]
        np.testing.assert_array_equal(found[row, 7:], np.pad(alone, (0, 9 - len(alone)), constant_values=2))


ROTARY: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 80, "head_dim": 4, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
BERT: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 80, "is_decoder": True, "pad_token_id": None,
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "OpenAIGPTLMHeadModel": transformers.OpenAIGPTConfig(vocab_size=31, n_positions=80, n_embd=12, n_layer=2, n_head=3),
    "BertLMHeadModel": transformers.BertConfig(**BERT),
    "LlamaForCausalLM": transformers.LlamaConfig(**ROTARY),
    "MistralForCausalLM": transformers.MistralConfig(**ROTARY, sliding_window=5),
    "Qwen2ForCausalLM": transformers.Qwen2Config(**{**ROTARY, "hidden_size": 16}),
    "Qwen3ForCausalLM": transformers.Qwen3Config(**ROTARY),
    "GemmaForCausalLM": transformers.GemmaConfig(**ROTARY),
    "Gemma2ForCausalLM": transformers.Gemma2Config(**ROTARY, sliding_window=4, query_pre_attn_scalar=4),
    "GPTNeoXForCausalLM": transformers.GPTNeoXConfig(**{**BERT, "hidden_size": 24}, rotary_pct=0.5),
    "PhiForCausalLM": transformers.PhiConfig(**{**BERT, "hidden_size": 24, "is_decoder": False}, qk_layernorm=True),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_decoders(tmp_path: Path, kind: str) -> None:
    """A batch padded on the left against each example alone: windows, grouped heads, turned positions."""
    folder = saved(tmp_path, kind, OTHERS[kind])
    library, ids = theirs(folder, kind), prompts(31)
    options: tuple[dict[str, Any], ...] = (
        {"max_new_tokens": 64}, {"max_new_tokens": 12, "num_beams": 4, "eos_token_id": [4, 9], "pad_token_id": 2},
    )  # fmt: skip
    for asked_for in options:
        found = {backend: plain(ours(folder, backend).generate(ids, LEFT, **asked_for)) for backend in BACKENDS[:2]}
        for row, mask in enumerate(LEFT):
            example = without_padding(ids[row], mask)
            alone = asked(library, example, np.ones_like(example), **asked_for)[0, mask.sum() :]
            for backend, tokens in found.items():
                np.testing.assert_array_equal(tokens[row, 7:][: len(alone)], alone, f"{backend} {asked_for}")


# --- encoder-decoders -----------------------------------------------------------------------------

SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": (T5, {"feed_forward_proj": "relu"}),
    "t5 v1.1": (T5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 3}),
    "bart": (BART, {}),
    "bart, untied": (BART, {"tie_word_embeddings": False, "scale_embedding": True, "encoder_layers": 1}),
}


def seq2seq_config(kind: str, more: dict[str, Any]) -> Any:
    if kind == T5:
        sizes = {"d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3}
        buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
        return transformers.T5Config(**{"vocab_size": 31, **sizes, **buckets, "decoder_start_token_id": 0, **more})
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "max_position_embeddings": 70}
    return transformers.BartConfig(**{"vocab_size": 31, "d_model": 12, **layers, **heads, **more})


@pytest.mark.parametrize("what", SEQ2SEQ)
def test_encoder_decoders(tmp_path: Path, what: str) -> None:
    """With the options of their own files (BART forces a last token), and with others."""
    kind, more = SEQ2SEQ[what]
    folder = seq2seq.saved(tmp_path, kind, seq2seq_config(kind, more))
    library, pairs = theirs(folder, kind), seq2seq.pairs(31, low=3)
    ids, mask = pairs["input_ids"][[0, 1, 3, 5]], pairs["attention_mask"][[0, 1, 3, 5]]  # none is padded on the left
    deep = {"use_cache": False} if "num_decoder_layers" in more else {}  # the library's cache has a layer too few
    models = {backend: ours(folder, backend) for backend in BACKENDS}
    cases: tuple[dict[str, Any], ...] = (
        {"max_new_tokens": 64},
        {"max_new_tokens": 20, "eos_token_id": [4, 9, 17, 21], "pad_token_id": 5, "min_new_tokens": 3},
        {"max_new_tokens": 10, "forced_bos_token_id": 8, "forced_eos_token_id": 6, "begin_suppress_tokens": [3, 14]},
        {"max_new_tokens": 9, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [0, 7]]},
        {"max_new_tokens": 20, "num_beams": 4, "eos_token_id": [4, 9, 17, 21], "pad_token_id": 5},
        {"max_length": 9, "num_beams": 3, "early_stopping": True, "num_return_sequences": 2, "pad_token_id": 5},
    )
    for options in cases:
        wanted = asked(library, ids, mask, **deep, **options)
        for backend, model in models.items():
            if backend != "reference" or options.get("max_new_tokens", 9) < 10:
                found = plain(model.generate(ids, mask, **options))
                np.testing.assert_array_equal(found, wanted, f"{backend} {options}")


def test_padding_of_a_source_changes_nothing(tmp_path: Path) -> None:
    folder = seq2seq.saved(tmp_path, BART, seq2seq_config(BART, {}))
    pairs, model = seq2seq.pairs(31, low=3), ours(folder, "numpy")
    found = model.generate(pairs["input_ids"], pairs["attention_mask"], max_new_tokens=30)
    for row in (0, 1, 2, 4, 5):
        real = np.flatnonzero(pairs["attention_mask"][row])
        alone = model.generate(pairs["input_ids"][row : row + 1, real[0] : real[-1] + 1], max_new_tokens=30)
        np.testing.assert_array_equal(found[row, : alone.shape[1]], alone[0])


# --- what the files ask for -----------------------------------------------------------------------


def test_defaults_of_the_files(tmp_path: Path) -> None:
    """generation_config.json speaks alone where there is one, else config.json does."""
    config = seq2seq_config(BART, {"eos_token_id": 6, "forced_eos_token_id": 7})
    folder = seq2seq.saved(tmp_path, BART, config)
    ids = seq2seq.pairs(31, low=3)["input_ids"]
    (folder / "generation_config.json").unlink()
    old = ours(folder, "numpy")
    assert (old.generation["eos_token_id"], old.generation["forced_eos_token_id"]) == (6, 7)
    np.testing.assert_array_equal(old.generate(ids), asked(theirs(folder, BART), ids, None))
    (folder / "generation_config.json").write_text(
        '{"decoder_start_token_id": 3, "num_beams": 3, "max_length": 12, "no_repeat_ngram_size": 2, "typical_p": 1.0,'
        ' "new_key": 4, "transformers_version": "4.1", "top_p": null}'
    )
    model = ours(folder, "torch")
    assert model.unused_generation_keys == ["new_key"]
    wanted = {"decoder_start_token_id": 3, "num_beams": 3, "max_length": 12, "no_repeat_ngram_size": 2}
    assert model.generation == wanted
    np.testing.assert_array_equal(plain(model.generate(ids)), asked(theirs.__wrapped__(folder, BART), ids, None))
    model.generation["num_beams"] = 1
    assert plain(model.generate(ids, max_new_tokens=3)).shape == (6, 4)


def test_what_the_files_ask_for_and_is_not_here(gpt2: Path, tmp_path: Path) -> None:
    folder = ours(gpt2, "numpy").save_pretrained(tmp_path / "copy")
    (folder / "generation_config.json").write_text('{"typical_p": 0.9, "temperature": NaN}')
    model = ours(folder, "numpy")  # all else goes on
    assert model(input_ids=[[1, 2]])["logits"].shape == (1, 2, 31)
    with pytest.raises(transformula.TransformulaError, match=r"typical_p = 0\.9 is not supported \(the model's"):
        model.generate([[1, 2]])
    with pytest.raises(transformula.TransformulaError, match="temperature = 'nan' should be a number above 0"):
        model.generate([[1, 2]], typical_p=1.0)
    assert model.generate([[1, 2]], max_new_tokens=3, typical_p=1.0, temperature=None).shape == (1, 5)


# --- where the library does otherwise (docs/generation.md) ----------------------------------------


def test_padding_does_not_count_as_tokens_seen(gpt2: Path) -> None:
    """The library bans a pair of padding and a token; here a prompt has the same continuation as alone."""
    ids, mask, model = prompts(31), LEFT, ours(gpt2, "numpy")
    found = model.generate(ids, mask, max_new_tokens=12, no_repeat_ngram_size=1)
    for row in range(3):
        alone = model.generate(without_padding(ids[row], mask[row]), max_new_tokens=12, no_repeat_ngram_size=1)
        np.testing.assert_array_equal(found[row, 7:], alone[0, mask[row].sum() :])
    assert (found != asked(theirs(gpt2, GPT2), ids, mask, max_new_tokens=12, no_repeat_ngram_size=1)).any()


def test_finished_beams_are_filled_with_the_pad_token(gpt2: Path) -> None:
    """The library fills them with the end token where the pad token is 0."""
    options = {"max_new_tokens": 24, "num_beams": 4, "eos_token_id": [4, 9, 17], "pad_token_id": 0}
    for backend in BACKENDS[:2]:
        found = plain(ours(gpt2, backend).generate(prompts(31), LEFT, **options))
        wanted = asked(theirs(gpt2, GPT2), prompts(31), LEFT, **options)
        for ours_, library in zip(found[:, 7:], wanted[:, 7:], strict=True):
            ends = np.flatnonzero(np.isin(library, [4, 9, 17]))
            behind = int(ends[0]) + 1 if len(ends) else len(library)
            np.testing.assert_array_equal(ours_[:behind], library[:behind])
            assert set(ours_[behind:]) <= {0}
            assert set(library[behind:]) <= {4}


def test_the_caller_has_the_last_word_on_lengths(gpt2: Path) -> None:
    """The library keeps to a max_new_tokens of the files, whatever max_length its caller says."""
    model = transformula.load(gpt2)
    model.generation.update(max_new_tokens=3, min_new_tokens=2)
    assert model.generate([[5, 6]]).shape == (1, 5)
    assert model.generate([[5, 6]], max_length=9, min_length=0).shape == (1, 9)
    assert model.generate([[5, 6]], max_new_tokens=4).shape == (1, 6)
