"""`transformula run --prompt`: text that follows prompts, piece by piece, with a real tokenizer on tiny models."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import transformula
from tests.specs import peers
from transformula.cli import app
from transformula.prompts import Batch, Voice, tell_text

TEXTS = ["the cat sat on the mat with a hat", "ein Kätzchen auf der Matte", "日本語の文 日本 語", "🙂🙃 x²"] * 20
VOCAB = 300


def call(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, ["run", *[str(one) for one in arguments]])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def bytes_tokenizer() -> Any:
    """Byte-level pairs, as GPT-2 has them: a character may be spread over several tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<end>", "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def pieces_tokenizer() -> Any:
    """Pieces with ▁ for a space and bytes for what is no piece, as T5, Llama and their like have them."""
    made = Tokenizer(models.Unigram([("<pad>", 0.0), ("<end>", 0.0), ("<unk>", -9.0), *_pieces()], 2, True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    made.add_special_tokens(["<pad>", "<end>"])
    return made


def _pieces() -> list[tuple[str, float]]:
    words = sorted({f"▁{word}" for text in TEXTS for word in text.split()} | {"▁", *"abcdefghijklmnopqrstuvwxyz"})
    return [*((f"<0x{byte:02X}>", -5.0) for byte in range(256)), *((word, -2.0) for word in words)]


TOKENIZERS = {"bytes": bytes_tokenizer(), "pieces": pieces_tokenizer()}


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"vocab_size": VOCAB, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 80}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    folder = peers.saved(tmp_path_factory.mktemp("gpt2"), "GPT2LMHeadModel", config)
    TOKENIZERS["bytes"].save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vocab = TOKENIZERS["pieces"].get_vocab_size()
    sizes = {"d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3, "vocab_size": vocab}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0)
    folder = peers.saved(tmp_path_factory.mktemp("t5"), "T5ForConditionalGeneration", config)
    TOKENIZERS["pieces"].save(str(folder / "tokenizer.json"))
    return folder


# --- tokens to text -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(TOKENIZERS)), st.text(max_size=12), st.data())
def test_pieces_make_up_the_whole(kind: str, prompt: str, data: st.DataObject) -> None:
    """Whatever tokens come, broken bytes among them; and no piece ends within a character.

    (Bytes beside pieces are left whole: a broken one among them takes back those before it.)
    """
    tokenizer = TOKENIZERS[kind]
    before = tokenizer.encode(prompt).ids
    texts = st.text(max_size=20).map(lambda text: list(tokenizer.encode(text).ids))
    tokens = st.lists(st.integers(0, tokenizer.get_vocab_size() - 1), max_size=25)
    after = data.draw(st.one_of(tokens, texts) if kind == "bytes" else texts)
    voice = Voice(tokenizer, before)
    pieces = [voice.add(token) for token in after]
    assert not any(piece.endswith("\ufffd") for piece in pieces)
    whole, start = (tokenizer.decode(ids, skip_special_tokens=True) for ids in (before + after, before))
    if not start.endswith("\ufffd"):
        assert start + "".join(pieces) + voice.rest() == whole


def test_a_character_comes_when_it_is_whole() -> None:
    tokenizer = TOKENIZERS["bytes"]
    signs = "".join(piece for piece, _ in pre_tokenizers.ByteLevel(False).pre_tokenize_str("é🙂"))
    ids = [tokenizer.token_to_id(sign) for sign in signs]
    assert len(ids) == 6
    voice = Voice(tokenizer, [])
    assert [voice.add(token) for token in ids] == ["", "é", "", "", "", "🙂"]


# --- the command ----------------------------------------------------------------------------------


def wanted(folder: Path, prompt: str, backend: str = "numpy", **options: Any) -> str:
    """The text of what `generate` returns."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = transformula.load(folder, backend=backend)
    found = np.asarray(model.generate([tokenizer.encode(prompt).ids], **options))[0]
    return str(tokenizer.decode(found.tolist(), skip_special_tokens=True))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((), {}),
        (("--backend", "torch"), {"backend": "torch"}),
        (("--top-k", "0", "--seed", "3"), {"do_sample": True, "top_k": 0, "seed": 3}),
        (("--sample", "--temperature", "2", "--seed", "4"), {"do_sample": True, "temperature": 2.0, "seed": 4}),
        (("--top-p", ".7", "--min-p", ".1", "--seed", "0"), {"do_sample": True, "top_p": 0.7, "min_p": 0.1, "seed": 0}),
        (("--repetition-penalty", "1.5"), {"repetition_penalty": 1.5}),
        (("--beams", "3"), {"num_beams": 3}),
        (("--option", "eos_token_id=[60,9]", "--min-new-tokens", "4"), {"eos_token_id": [60, 9], "min_new_tokens": 4}),
    ],
    ids=str,
)
def test_what_follows_a_prompt(gpt2: Path, given: tuple[str, ...], options: dict[str, Any]) -> None:
    """The prompt and what `generate` makes of it, as text."""
    result = call(gpt2, "--prompt", "the cat", "--max-new-tokens", "16", *given)
    assert result.exit_code == 0
    assert result.stdout == wanted(gpt2, "the cat", max_new_tokens=16, **options) + "\n"


def test_several_prompts_are_told_in_their_order(gpt2: Path, tmp_path: Path) -> None:
    prompts = ["the cat", "日本語の", "a", "ein Kätzchen auf der Matte"]
    given = [part for prompt in prompts for part in ("--prompt", prompt)]
    told = [wanted(gpt2, prompt, max_new_tokens=9) for prompt in prompts]
    for size in ("32", "2", "1"):
        result = call(gpt2, *given, "--max-new-tokens", "9", "--batch-size", size)
        assert result.stdout == "".join(f"{one}\n" for one in told)
    out = tmp_path / "out.txt"
    assert call(gpt2, *given, "--max-new-tokens", "9", "-o", out).stdout == ""
    assert out.read_text("utf-8") == "".join(f"{one}\n" for one in told)
    lines = call(gpt2, *given, "--max-new-tokens", "9", "--output", "json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["prompt"] for one in found] == prompts
    assert [one["prompt"] + one["text"] for one in found] == told


def test_text_is_told_while_it_comes(gpt2: Path) -> None:
    """After each step what is whole; the second text only when the first has ended."""
    model, tokenizer = transformula.load(gpt2), TOKENIZERS["bytes"]
    broken = [i for i in range(VOCAB) if not tokenizer.decode([i]).isprintable() or "\ufffd" in tokenizer.decode([i])]
    options = {"max_new_tokens": 12, "eos_token_id": None, "suppress_tokens": [0, 1, *broken]}
    batch = Batch(model, tokenizer, ["the cat", "a"], options)

    class Told(io.StringIO):
        lengths: list[int]

        def flush(self) -> None:
            self.lengths.append(len(self.getvalue()))

    told = Told()
    told.lengths = []
    tell_text(batch, told)
    first, second = told.getvalue().splitlines()
    growing = told.lengths[: 2 * 12 - 2 : 2]  # each step adds to both
    assert growing == sorted(set(growing))
    assert growing[-1] < len(first) < len(first + second) < told.lengths[-1]


def test_an_encoder_decoder_tells_what_it_makes_of_the_source(t5: Path) -> None:
    for beams in (1, 2):
        more = "--max-new-tokens", "12", "--beams", str(beams)
        result = call(t5, "--prompt", "the cat sat", "--prompt", "a mat", *more)
        texts = [wanted(t5, prompt, max_new_tokens=12, num_beams=beams) for prompt in ("the cat sat", "a mat")]
        assert result.stdout == "".join(f"{text}\n" for text in texts)


def test_an_empty_prompt_is_the_first_token(gpt2: Path) -> None:
    result = call(gpt2, "--prompt", "", "--max-new-tokens", "5")
    model = transformula.load(gpt2)
    found = model.generate(max_new_tokens=5)[0, 1:].tolist()
    assert result.stdout == TOKENIZERS["bytes"].decode(found) + "\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--prompt", "a", "--text", "b"), "--prompt and --text exclude each other"),
        (("--prompt", "a", "--similarity"), "--prompt and --similarity exclude each other"),
        (("--prompt", "a", "--output", "npy"), "--output npy is for --text"),
        (("--text", "a", "--output", "text"), "--output text is for --prompt"),
        (("--text", "a", "--seed", "0"), "--seed is for --prompt"),
        (("--text", "a", "--option", "a=1"), "--option is for --prompt"),
        (("--prompt", "a", "--option", "top_x=1"), "no option 'top_x': did you mean top_"),
        (("--prompt", "a", "--option", "top_k"), "--option top_k should be NAME=VALUE"),
        (("--prompt", "a", "--option", "num_return_sequences=2"), "a prompt has one result here"),
        (("--prompt", "a", "--temperature", "-1"), "temperature = -1.0 should be a number above 0"),
        (("--prompt", "a", "--beams", "0"), "num_beams = 0 should be a whole number from 1 up"),
        (("--prompt", "a " * 90), "the table of positions gpt2.P[place] has 80: cut it"),
        (("--prompt", "a", "--max-new-tokens", "99"), "a prompt of 1 and 99 new tokens need 99 positions"),
    ],
    ids=str,
)
def test_mistakes(gpt2: Path, given: tuple[str, ...], told: str) -> None:
    result = call(gpt2, *given)
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stdout == ""


def test_a_model_without_tokens_to_come_says_so(tmp_path: Path) -> None:
    sizes = {"vocab_size": VOCAB, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=3, max_position_embeddings=8)
    folder = peers.saved(tmp_path, "BertForMaskedLM", config)
    TOKENIZERS["bytes"].save(str(folder / "tokenizer.json"))
    result = call(folder, "--prompt", "a")
    assert result.exit_code == 1
    assert "error[R931]: BertForMaskedLM generates no tokens" in result.stderr
    assert call(folder, "--text", "a").exit_code == 0
