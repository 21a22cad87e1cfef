"""What options make of scores, by both backends, against the library's own classes on random scores."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers.generation import logits_process as library

from transformula.backends.numpy import choosing
from transformula.backends.numpy.options import row_streams, search_options
from transformula.backends.torch import choosing as torch_choosing

Array = NDArray[Any]
OURS = (choosing, torch_choosing)


def state(module: Any, tokens: Array, made: int, most: int, options: dict[str, Any]) -> Any:
    """A search that stands behind these tokens."""
    make = torch.tensor if module is torch_choosing else np.array
    rows, width = tokens.shape
    least = options["min_length"] - (width - made) if options["min_new_tokens"] is None else options["min_new_tokens"]
    lengths = {"lengths": [width] * rows, "most": [most] * rows, "least": [least] * rows}
    made_of = {name: make(value) for name, value in {**lengths, "tokens": tokens.tolist()}.items()}
    return SimpleNamespace(options=options, made=made, **made_of)


def theirs(tokens: Array, scores: Array, made: int, most: int, options: dict[str, Any]) -> Array:
    """The library's processors in its own order."""
    ends, ids = options["ends"], torch.tensor(tokens)
    prompt = tokens.shape[1] - made
    found: list[Any] = []
    if options["repetition_penalty"] != 1:
        found.append(library.RepetitionPenaltyLogitsProcessor(float(options["repetition_penalty"])))
    if options["no_repeat_ngram_size"]:
        found.append(library.NoRepeatNGramLogitsProcessor(options["no_repeat_ngram_size"]))
    if options["bad_words_ids"]:
        found.append(library.NoBadWordsLogitsProcessor(options["bad_words_ids"], torch.tensor(ends) if ends else None))
    if ends and options["min_length"]:
        found.append(library.MinLengthLogitsProcessor(options["min_length"], torch.tensor(ends)))
    if ends and options["min_new_tokens"]:
        found.append(library.MinNewTokensLengthLogitsProcessor(prompt, options["min_new_tokens"], torch.tensor(ends)))
    if options["forced_bos_token_id"] is not None:
        found.append(library.ForcedBOSTokenLogitsProcessor(options["forced_bos_token_id"]))
    if options["forced_eos_token_id"]:
        found.append(library.ForcedEOSTokenLogitsProcessor(prompt + most, options["forced_eos_token_id"]))
    if options["suppress_tokens"]:
        found.append(library.SuppressTokensLogitsProcessor(options["suppress_tokens"]))
    if options["begin_suppress_tokens"]:
        begin = prompt if prompt > 1 or options["forced_bos_token_id"] is None else prompt + 1
        found.append(library.SuppressTokensAtBeginLogitsProcessor(options["begin_suppress_tokens"], begin))
    result = torch.tensor(scores)
    for one in found:
        result = one(ids, result)
    return result.numpy()


VOCAB = 12
ids = st.lists(st.integers(0, VOCAB - 1), max_size=3)
edits = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.sampled_from([0.5, 1.0, 1.3, 4.0]),
        "no_repeat_ngram_size": st.integers(0, 4),
        "bad_words_ids": st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=3), min_size=1, max_size=4),
        "forced_bos_token_id": st.integers(0, VOCAB - 1),
        "forced_eos_token_id": ids,
        "suppress_tokens": ids,
        "begin_suppress_tokens": ids,
        "eos_token_id": st.lists(st.integers(0, VOCAB - 1), max_size=3),
    },
)
least = st.one_of(
    st.just(dict[str, int]()),
    st.integers(0, 6).map(lambda n: {"min_length": n}),
    st.integers(0, 6).map(lambda n: {"min_new_tokens": n}),
)


@settings(deadline=None, max_examples=300)
@given(edits, least, st.integers(1, 3), st.integers(1, 6), st.integers(0, 3), st.integers(1, 4), st.integers(0, 9))
def test_adjusted(
    edits: dict[str, Any], least: dict[str, int], rows: int, prompt: int, made: int, more: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    tokens, scores = draw.integers(0, VOCAB, (rows, prompt + made)), draw.normal(size=(rows, VOCAB)) * 3
    options = search_options({**edits, **least}, {})
    wanted = theirs(tokens, scores, made, made + more, options)
    for module, x in zip(OURS, (scores.copy(), torch.tensor(scores)), strict=True):
        found = module.adjust_scores(x, state(module, tokens, made, made + more, options))
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-15)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([0.01, 0.7, 1.0, 3.0]),
    st.integers(0, 60),
    st.sampled_from([1e-9, 0.01, 0.3, 0.9, 0.999, 1.0]),
    st.sampled_from([None, 0.0, 0.05, 0.5, 1.0]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 50),
    st.integers(0, 99),
)
def test_narrowed(
    temperature: float, top_k: int, top_p: float, min_p: float | None, keep: int, vocab: int, seed: int
) -> None:
    scores = np.random.default_rng(seed).normal(size=(3, vocab)) * 2
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "do_sample": True}
    options = search_options(given, {})
    found: list[Any] = [library.TemperatureLogitsWarper(temperature)]
    found += [library.TopKLogitsWarper(top_k, min_tokens_to_keep=keep)] if top_k else []
    found += [library.TopPLogitsWarper(top_p, min_tokens_to_keep=min(keep, vocab))] if top_p < 1 else []
    found += [library.MinPLogitsWarper(min_p, min_tokens_to_keep=min(keep, vocab))] if min_p is not None else []
    wanted = torch.tensor(scores)
    for one in found:
        wanted = one(torch.zeros((3, 1), dtype=torch.long), wanted)
    for module, x in zip(OURS, (scores, torch.tensor(scores)), strict=True):
        np.testing.assert_allclose(np.asarray(module.narrow_scores(x, options, keep)), wanted.numpy(), rtol=1e-15)


def test_many_candidates() -> None:
    """More than are looked at to begin with."""
    scores = np.random.default_rng(0).normal(size=(2, 9000)) / 10
    options = search_options({"top_p": 0.8, "top_k": 0, "do_sample": True}, {})
    wanted = library.TopPLogitsWarper(0.8)(torch.zeros((2, 1), dtype=torch.long), torch.tensor(scores)).numpy()
    for module, x in zip(OURS, (scores, torch.tensor(scores)), strict=True):
        np.testing.assert_array_equal(np.asarray(module.narrow_scores(x, options)), wanted)


def test_equal_scores_are_equally_candidates() -> None:
    """Where the library takes whichever it comes upon."""
    scores = np.array([[1.0, 2.0, 2.0, 2.0, 0.0]])
    options = search_options({"top_p": 0.4, "top_k": 2, "do_sample": True}, {})
    for module, x in zip(OURS, (scores, torch.tensor(scores)), strict=True):
        assert np.isfinite(np.asarray(module.narrow_scores(x, options))).tolist() == [[False, True, True, True, False]]


@pytest.mark.parametrize("module", OURS)
def test_draws_follow_the_shares(module: Any) -> None:
    shares = np.array([0.5, 0.0, 0.2, 0.3, 0.0])
    with np.errstate(divide="ignore"):
        scores = np.tile(np.log(shares), (4000, 1))
    x = torch.tensor(scores) if module is torch_choosing else scores
    found = np.bincount(np.asarray(module.draw_tokens(x, row_streams(1, 4000, 1))), minlength=5) / 4000
    np.testing.assert_allclose(found, shares, atol=0.03)
    assert found[1] == found[4] == 0


def test_draws_are_the_same_everywhere() -> None:
    """Numbers to stay: a seed gives the same draws on every machine and in every version."""
    scores = np.log(np.arange(1.0, 51.0))[None].repeat(8, 0)
    wanted = [choosing.draw_tokens(scores, row_streams(7, 8, 1)).tolist() for _ in range(2)]
    assert wanted[0] == wanted[1] == torch_choosing.draw_tokens(torch.tensor(scores), row_streams(7, 8, 1)).tolist()
    assert wanted[0] == [35, 14, 25, 47, 38, 31, 33, 36]
