"""Generation in the modules themselves: streams, draws, what is refused, and what stands where nobody says."""

import itertools
import json
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs import peers
from tests.specs.generating import BACKENDS, Array, ours, plain
from transformula import TransformulaError
from transformula.backends.numpy.generation import Recomputed
from transformula.backends.numpy.options import NEUTRAL, SEARCH
from transformula.backends.numpy.values import Unsupported
from transformula.backends.torch.generation import Recomputed as TorchRecomputed

GPT2 = "GPT2LMHeadModel"
IDS = np.random.default_rng(0).integers(3, 31, (3, 7))
MASK = np.array([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]])
FAST = ("numpy", "torch")


def saved(folder: Path, **more: Any) -> Path:
    sizes = {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 80}
    return peers.saved(folder, GPT2, transformers.GPT2Config(**{**sizes, "bos_token_id": 1, "eos_token_id": 2, **more}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("gpt2"))


def standing_alone(folder: Path, backend: str) -> Any:
    """The generated class by itself, with the weights of the folder in float64."""
    model = transformula.load(folder, backend=backend, dtype="float64", validate=False)
    made = types.ModuleType("made")
    exec(compile(model.program.source, "<made>", "exec"), made.__dict__)
    if backend == "numpy":
        return made.__dict__["Model"].load(folder, dtype="float64")
    module = made.__dict__["Model"](dtype=torch.float64)
    module.load_state_dict(model.module.state_dict())
    return module.eval()


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "seed": 5, "num_return_sequences": 2}], ids=str)
def test_a_stream_is_what_generate_returns(folder: Path, backend: str, options: dict[str, Any]) -> None:
    model = ours(folder, backend)
    asked = {"max_new_tokens": 9, "eos_token_id": [21, 27], **options}
    steps = [plain(step) for step in model.stream(IDS, MASK, **asked)]
    np.testing.assert_array_equal(np.stack(steps, axis=1), plain(model.generate(IDS, MASK, **asked))[:, 7:])


def test_a_stream_comes_step_by_step(folder: Path) -> None:
    """One step is computed for each that is asked for; mistakes are told before the first."""
    model = standing_alone(folder, "numpy")
    calls: list[int] = []
    step = model.step

    def counted(*given: Any) -> Any:
        calls.append(1)
        return step(*given)

    model.step = counted
    stream = model.stream(IDS, MASK, max_new_tokens=64, eos_token_id=None)
    assert calls == []
    for number in range(1, 4):
        next(stream)
        assert len(calls) == number
    with pytest.raises(ValueError, match="beams cannot be streamed"):
        model.stream(IDS, MASK, num_beams=2)


def test_rows_that_have_ended_are_not_computed(folder: Path) -> None:
    """Each step has the rows that go on, whatever is taken out of the batch."""
    for backend in FAST:
        model = standing_alone(folder, backend)
        rows: list[int] = []
        decoder = model.decoder

        def counting(*given: Any, decoder: Any = decoder, rows: list[int] = rows, **more: Any) -> Any:
            made = decoder(*given, **more)
            feed = made.feed

            def counted(ids: Any, counts: Any) -> Any:
                rows.append(len(ids))
                return feed(ids, counts)

            made.feed = counted
            return made

        model.decoder = counting
        found = plain(model.generate(IDS, MASK, max_new_tokens=20, eos_token_id=[21, 27], pad_token_id=0))[:, 7:]
        ends = [np.flatnonzero(np.isin(row, [21, 27])) for row in found]
        lengths = [int(end[0]) + 1 if len(end) else 20 for end in ends]
        assert len(set(lengths)) > 1
        assert rows == [sum(length > step for length in lengths) for step in range(max(lengths))]


# --- draws ----------------------------------------------------------------------------------------

DRAWS: list[dict[str, Any]] = [
    {}, {"temperature": 2.0, "top_k": 0}, {"top_p": 0.6}, {"min_p": 0.2, "top_k": 0}, {"num_beams": 3},
    {"num_return_sequences": 3}, {"repetition_penalty": 3.0, "temperature": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("options", DRAWS, ids=str)
def test_a_seed_draws_the_same_in_every_backend(folder: Path, options: dict[str, Any]) -> None:
    asked = {"max_new_tokens": 6, "do_sample": True, "eos_token_id": [2, 10], **options}
    wanted = plain(ours(folder, "numpy").generate(IDS, MASK, seed=3, **asked))
    for backend in BACKENDS:
        np.testing.assert_array_equal(plain(ours(folder, backend).generate(IDS, MASK, seed=3, **asked)), wanted)
    others = [plain(ours(folder, "numpy").generate(IDS, MASK, seed=seed, **asked)) for seed in range(4, 8)]
    assert any(other.shape != wanted.shape or (other != wanted).any() for other in others)


@pytest.mark.parametrize("backend", FAST)
def test_draws_of_a_row_do_not_depend_on_the_others(folder: Path, backend: str) -> None:
    model, asked = ours(folder, backend), {"max_new_tokens": 12, "do_sample": True, "seed": 11, "top_k": 0}
    found = plain(model.generate(IDS, MASK, **asked))
    fewer = plain(model.generate(IDS[:1], MASK[:1], **asked))
    np.testing.assert_array_equal(found[0, : fewer.shape[1]], fewer[0])
    others = IDS.copy()
    others[1:] = 5
    np.testing.assert_array_equal(plain(model.generate(others, MASK, **asked))[0, : fewer.shape[1]], fewer[0])
    alike = plain(model.generate(np.repeat(IDS[1:2], 8, axis=0), **{**asked, "num_return_sequences": 2}))
    assert len({tuple(row) for row in alike}) > 12


def test_without_a_seed_torch_decides(folder: Path) -> None:
    model, found = standing_alone(folder, "torch"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(model.generate(IDS, MASK, max_new_tokens=20, do_sample=True, eos_token_id=None).tolist())
    assert found[0] == found[1] != found[2]
    numpy = standing_alone(folder, "numpy")
    drawn = [numpy.generate(IDS, max_new_tokens=20, do_sample=True, eos_token_id=None).tolist() for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_beams_are_drawn_without_return(folder: Path) -> None:
    """All candidates of a text differ, and where all of the share is on one token, that is it."""
    found = ours(folder, "numpy").generate(
        IDS, MASK, max_new_tokens=8, do_sample=True, num_beams=4, num_return_sequences=4, seed=1, eos_token_id=None
    )
    for text in found[:, 7:].reshape(3, 4, 8):
        assert len({tuple(row) for row in text}) == 4


# --- the decoder below ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", FAST)
def test_the_cache_is_as_good_as_computing_all_anew(folder: Path, backend: str) -> None:
    """Every way to search, over the decoder without a cache."""
    model = standing_alone(folder, backend)
    kind, given = (Recomputed, IDS) if backend == "numpy" else (TorchRecomputed, torch.tensor(IDS))
    options: list[dict[str, Any]] = [{}, {"num_beams": 4}, {"do_sample": True, "seed": 2}]
    asked = [{"max_new_tokens": 8, "eos_token_id": [10, 18], **one} for one in options]
    wanted = [plain(model.generate(given, MASK, **one)) for one in asked]
    parts = ours(folder, backend).decoding.literal()
    model.decoder = lambda *given, **more: kind(model, parts, {})
    for one, tokens in zip(asked, wanted, strict=True):
        np.testing.assert_array_equal(plain(model.generate(given, MASK, **one)), tokens)


@pytest.mark.parametrize("backend", FAST)
def test_a_step_that_cannot_be_written_is_none(folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module computes all tokens at each step then, and the tokens are the same."""

    def refused(*given: Any) -> Any:
        raise Unsupported("this step")

    options: list[dict[str, Any]] = [{}, {"num_beams": 3}]
    wanted = [plain(ours(folder, backend).generate(IDS, MASK, max_new_tokens=7, **one)) for one in options]
    module = import_module(f"transformula.backends.{backend}.stepping")
    monkeypatch.setattr(module, "write", refused)
    model = transformula.load(folder, backend=backend, dtype="float64", validate=False)
    assert "Recomputed(self, DECODER, source)" in model.program.source
    assert "def step(self" not in model.program.source
    for one, tokens in zip(options, wanted, strict=True):
        np.testing.assert_array_equal(plain(model.generate(IDS, MASK, max_new_tokens=7, **one)), tokens)


NO_STEP = """
spec far
from functions import attention

config
    vocab = 11
    d     = 6

model Far(tokens[seq] as input_ids) → logits[seq, vocab] = (x + seen) @[d] E
    where x = E[vocab = tokens]
          seen = attention[key if near, dk = d](x, x[seq → key], x[seq → key])
          near[i: seq, j: key] = j ≤ i and (i - j) % 2 == 0
    weights E : [vocab, d]
"""


def test_a_causal_model_of_any_spec_generates() -> None:
    """Whatever its attention sees, as long as it does not look ahead."""
    draw = np.random.default_rng(0)
    weights = {"E": draw.normal(size=(11, 6))}
    program = transformula.compile(NO_STEP)
    made = types.ModuleType("made")
    exec(compile(program.source, "<made>", "exec"), made.__dict__)
    model = made.__dict__["Model"](weights, dtype="float64")
    ids = draw.integers(0, 11, (2, 5))
    found = model.generate(ids, max_new_tokens=6)
    for at in range(5, 11):
        logits = model(input_ids=found[:, :at])["logits"][:, -1]
        np.testing.assert_array_equal(found[:, at], logits.argmax(axis=1))


LOOKS_AHEAD = NO_STEP.replace("j ≤ i and (i - j) % 2 == 0", "|i - j| ≤ 1")


@pytest.mark.parametrize("backend", FAST)
def test_a_model_that_looks_ahead_has_nothing_of_it(backend: str) -> None:
    """No method, and none of the run-time text."""
    source = transformula.compile(LOOKS_AHEAD, backend).source
    for word in ("generate_tokens", "def generate", "Search", "GENERATION", "beams"):
        assert word not in source


def test_a_loaded_model_that_does_not_decode_says_so(tmp_path: Path) -> None:
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=3, max_position_embeddings=8)
    bert = peers.saved(tmp_path, "BertForMaskedLM", config)
    for backend in BACKENDS:
        with pytest.raises(TransformulaError, match=r"R931.*BertForMaskedLM generates no tokens") as fault:
            transformula.load(bert, backend=backend).generate([[1, 2]])
        assert "explain" in str(fault.value)


# --- what stands in the module --------------------------------------------------------------------


def test_defaults_stand_in_the_module_and_come_with_a_folder(folder: Path, tmp_path: Path) -> None:
    """A literal where a config was given; the folder's own file where weights are loaded from it."""
    config = json.loads((folder / "config.json").read_text())
    for backend in FAST:
        source = transformula.compile("gpt2", backend, config, entry=GPT2).source
        assert "GENERATION = {'bos_token_id': 1, 'eos_token_id': 2}" in source
        keys = {"top_k": 7, "typical_p": 1.0}
        own = transformula.compile("gpt2", backend, config, entry=GPT2, generation=keys).source
        assert "GENERATION = {'top_k': 7}" in own
    made = types.ModuleType("made")
    exec(compile(transformula.compile("gpt2", config=config, entry=GPT2).source, "<made>", "exec"), made.__dict__)
    peers.saved(tmp_path, GPT2, transformers.GPT2Config(**config))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [10, 18], "pad_token_id": 0, "new": 1}')
    model = made.__dict__["Model"].load(tmp_path)
    assert model.generation == {"eos_token_id": [10, 18], "pad_token_id": 0}
    (tmp_path / "generation_config.json").unlink()
    assert made.__dict__["Model"].load(tmp_path).generation == {"bos_token_id": 1, "eos_token_id": 2}


@pytest.mark.parametrize("text", ["[1]", "{", "1" * 9])
def test_a_broken_file_is_named(folder: Path, tmp_path: Path, text: str) -> None:
    copy = ours(folder, "numpy").save_pretrained(tmp_path)
    (copy / "generation_config.json").write_text(text)
    with pytest.raises(TransformulaError, match=r"generation_config\.json"):
        transformula.load(copy)
    model = standing_alone(folder, "numpy")
    with pytest.raises(ValueError, match=r"generation_config\.json"):
        type(model).load(copy)


def test_every_option_of_the_library_is_known() -> None:
    """Supported, or refused by name."""
    defaults = transformers.GenerationConfig._get_default_generation_params()
    helpers = {name for name in defaults if "assistant" in name or "lookbehind" in name}
    assert set(defaults) - set(SEARCH) - set(NEUTRAL) == helpers
    for name, value in itertools.chain(SEARCH.items(), NEUTRAL.items()):
        if defaults.get(name) is not None and name != "max_length":
            assert value == defaults[name], name


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"max_new_tokens": 0}, "max_new_tokens = 0 should be a whole number from 1 up"),
    ({"max_new_tokens": 2.5}, r"max_new_tokens = 2\.5 should be a whole number"),
    ({"max_new_tokens": 90}, r"a prompt of 7 and 90 new tokens need 96 positions, the table .*\[place\] has 80: ask"),
    ({"max_length": 7}, "a prompt has 7 tokens, and max_length = 7 counts them"),
    ({"max_length": 20, "max_new_tokens": 4}, "max_length counts the prompt and max_new_tokens does not"),
    ({"min_new_tokens": 5, "max_new_tokens": 4}, "min_new_tokens = 5 is more than max_new_tokens = 4"),
    ({"temperature": -1.0, "do_sample": True}, r"temperature = -1\.0 should be a number above 0"),
    ({"temperature": 0, "do_sample": True}, "do_sample=False takes the likeliest"),
    ({"temperature": 0.7}, r"temperature = 0\.7 is for drawing tokens: say do_sample=True"),
    ({"temperature": float("nan"), "do_sample": True}, "temperature = nan"),
    ({"temperature": True, "do_sample": True}, "temperature = True"),
    ({"top_p": 0.0, "do_sample": True}, r"top_p = 0\.0 should be a number above 0, at most 1"),
    ({"top_p": 1.1, "do_sample": True}, r"top_p = 1\.1 should be"),
    ({"top_k": -1, "do_sample": True}, "top_k = -1 should be a whole number from 0 up"),
    ({"do_sample": 1}, "do_sample = 1 should be True or False"),
    ({"num_beams": 0}, "num_beams = 0 should be a whole number from 1 up"),
    ({"early_stopping": "soon", "num_beams": 2}, "early_stopping = 'soon' should be True, False or 'never'"),
    ({"length_penalty": 2.0}, r"length_penalty = 2\.0 is for beams: say num_beams"),
    ({"num_return_sequences": 2}, "num_return_sequences = 2: without beams or do_sample there is one result"),
    ({"num_return_sequences": 3, "num_beams": 2}, "num_return_sequences = 3 is more than num_beams = 2"),
    ({"repetition_penalty": 0}, "repetition_penalty = 0 should be a number above 0"),
    ({"eos_token_id": "the end"}, "eos_token_id = 'the end' should be a token id, or a list of them"),
    ({"forced_eos_token_id": 31}, r"forced_eos_token_id holds 31, the rows are 0 … 30"),
    ({"bad_words_ids": 4}, "bad_words_ids = 4 should be a list of lists"),
    ({"num_beam": 4}, "there is no option 'num_beam': did you mean num_beams?"),
    ({"xyz": 4}, "there is no option 'xyz': there are max_new_tokens, max_length,"),
    ({"typical_p": 0.5}, r"typical_p = 0\.5 is not supported \(typical_p=1\.0 goes without\)"),
    ({"output_scores": True}, r"output_scores = True is not supported"),
    ({"input_ids": [[3, 31]]}, "input_ids holds 31, the rows are 0 … 30"),
    ({"input_ids": [[3, -1]]}, "input_ids holds -1"),
    ({"input_ids": [3, 4]}, r"input_ids should be .*\[batch, seq\]"),
    ({"input_ids": [[0.5]]}, "input_ids should be whole numbers"),
    ({"input_ids": [[5] * 81]}, r"a prompt has 81 tokens, the table of positions .*\[place\] has 80: cut it"),
    ({"attention_mask": MASK * 0}, "the prompt of row 0 is empty"),
    ({"attention_mask": MASK[:, 1:]}, r"attention_mask is \[3, 6\], and input_ids is \[3, 7\]"),
    ({"bos_token_id": None, "input_ids": None}, "input_ids is needed"),
]


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize(("given", "told"), MISTAKES, ids=[str(given)[:40] for given, _ in MISTAKES])
def test_mistakes(folder: Path, given: dict[str, Any], told: str, backend: str) -> None:
    """By a loaded model, and by its module alone."""
    model = ours(folder, backend)
    asked = {"input_ids": IDS, **given}
    with pytest.raises(TransformulaError, match=rf"R930.*{told}"):
        model.generate(**asked)
    with pytest.raises(ValueError, match=told):
        model.module.generate(**asked)


def test_nothing_is_no_mistake(folder: Path) -> None:
    """None turns an option off, and what asks for nothing may be said."""
    model = ours(folder, "numpy")
    found: Array = model.generate(IDS, max_new_tokens=4, eos_token_id=None)
    off = dict.fromkeys((*DRAWS[1], "top_p", "min_p", "length_penalty", "num_beams", "repetition_penalty"))
    np.testing.assert_array_equal(model.generate(IDS, max_new_tokens=4, eos_token_id=None, **off), found)
    np.testing.assert_array_equal(model.generate(IDS, max_new_tokens=4, eos_token_id=None, **NEUTRAL), found)
    wide = model.generate(IDS, max_new_tokens=4, do_sample=True, top_k=None, seed=1, eos_token_id=None)
    np.testing.assert_array_equal(
        wide, model.generate(IDS, max_new_tokens=4, do_sample=True, top_k=0, seed=1, eos_token_id=None)
    )


@pytest.mark.parametrize("backend", FAST)
def test_mistakes_of_encoder_decoders(tmp_path: Path, backend: str) -> None:
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 20}
    config = transformers.BartConfig(vocab_size=13, **sizes, **heads)
    model = ours(peers.saved(tmp_path, "BartForConditionalGeneration", config), backend)
    for given, told in (
        ({"max_new_tokens": 21}, r"a prompt of 1 and 21 new tokens need 21 positions, the table .*\[place\] has 20"),
        ({"decoder_start_token_id": 13}, "decoder_start_token_id holds 13"),
        ({"decoder_start_token_id": None, "bos_token_id": None}, "decoder_start_token_id is needed"),
        ({"input_ids": [[4, 13]]}, "input_ids holds 13"),
        ({"input_ids": None}, "input_ids is needed"),
        ({"attention_mask": [[0, 0]]}, "the prompt of row 0 is empty"),
        ({"input_ids": [[4] * 21]}, "a text has 21 entries.*, the table of positions .*has 20: cut"),
        ({"decoder_input_ids": [[1]]}, "there is no option 'decoder_input_ids'"),
    ):
        asked: dict[str, Any] = {"input_ids": [[4, 5]], "max_new_tokens": 3, **given}
        with pytest.raises(TransformulaError, match=told):
            model.generate(**asked)
    assert plain(model.generate([[4, 5]], eos_token_id=None)).shape == (1, 20)  # all the room there is, as the library
