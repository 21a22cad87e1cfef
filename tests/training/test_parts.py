"""The parts of a training: rates, tokens, examples, batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from transformula import TransformulaError
from transformula.training.batches import chosen, padded
from transformula.training.schedule import SHAPES, Schedule
from transformula.training.texts import Text, corpus
from transformula.training.vocabulary import byte_tokens, tokens_of


@pytest.mark.parametrize("shape", SHAPES)
def test_rates_go_up_and_then_as_their_shape(shape: str) -> None:
    plan = Schedule(0.5, 4, 20, shape)
    rates = [plan.rate(step) for step in range(1, 21)]
    assert rates[:4] == [0.125, 0.25, 0.375, 0.5]
    assert rates[4] == 0.5
    assert all(after <= before for before, after in pairwise(rates[4:]))
    assert all(rate > 0 for rate in rates)
    half = {"linear": 0.25, "cosine": 0.25, "constant": 0.5}
    assert rates[12] == pytest.approx(half[shape])


def test_a_plan_without_warmup_begins_at_its_rate() -> None:
    assert Schedule(0.1, 0, 5).rate(1) == 0.1


@given(st.text())
def test_bytes_know_every_text(text: str) -> None:
    tokens = byte_tokens()
    ((ids, words),) = tokens.encode([text])
    assert len(ids) == len(words)
    assert tokens.ids["unk_token"] not in ids or "<unk>" in text


def test_the_text_of_a_special_token_is_that_token() -> None:
    """As in the library, before and after it is saved."""
    tokens = byte_tokens()
    ((ids, _),) = tokens.encode(["<unk>a<mask>"])
    assert (ids[0], ids[-1], len(ids)) == (tokens.ids["unk_token"], tokens.ids["mask_token"], 3)


def test_tokens_that_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the miller and the baker and the smith\n" * 20, "utf-8")
    tokens = byte_tokens([file], 400)
    assert 361 < tokens.size <= 400
    ((ids, _),) = tokens.encode(["the miller"])
    assert len(ids) < 6
    first = tokens.ids["sentinel_token"]
    assert tokens.tokenizer.id_to_token(first) == "<extra_id_0>"
    assert tokens.tokenizer.id_to_token(first - 99) == "<extra_id_99>"
    tokens.save(tmp_path)
    again = tokens_of(tmp_path)
    assert all(again.ids[name] == number for name, number in tokens.ids.items() if name in again.ids)
    assert {"mask_token", "cls_token", "sep_token", "pad_token", "sentinel_token"} <= {*again.ids}
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.mask_token_id, theirs.pad_token_id) == (tokens.ids["mask_token"], tokens.ids["pad_token"])
    assert theirs("the miller")["input_ids"] == [tokens.ids["cls_token"], *ids, tokens.ids["sep_token"]]


def test_a_vocabulary_smaller_than_bytes_is_refused() -> None:
    with pytest.raises(TransformulaError, match="a vocabulary of 100 is too small"):
        byte_tokens([], 100)


@given(
    lines=st.lists(st.text(alphabet="ab é", max_size=30), min_size=1, max_size=12),
    length=st.integers(4, 20),
)
def test_blocks_hold_the_text_in_order(tmp_path_factory: pytest.TempPathFactory, lines: list[str], length: int) -> None:
    tokens = byte_tokens()
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(lines) + "\nend\n", "utf-8")
    found = corpus([file], tokens, None, length, 0.0)
    frame = [tokens.ids["cls_token"], tokens.ids["sep_token"]]
    inner = [one for example in found.examples for one in example.texts[0].ids[1:-1]]
    assert all([one.texts[0].ids[0], one.texts[0].ids[-1]] == frame for one in found.examples)
    assert all(len(one.texts[0].ids) <= length for one in found.examples)
    assert {len(one.texts[0].ids) for one in found.examples[:-1]} <= {length}
    kept = [one for one in inner if one != frame[1]]
    plain = tokens.encode([line.strip() for line in [*lines, "end"] if line.strip()])
    assert kept == [one for ids, _ in plain for one in ids]


def test_what_is_held_out_is_not_trained_on(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"text {n}\tother {n}\t{n}\n" for n in range(10)), "utf-8")
    found = corpus([file], byte_tokens(), 2, 32, 0.25)
    assert [one.label for one in found.train] == list(range(7))
    assert [one.label for one in found.test] == [7, 8, 9]


@pytest.mark.parametrize(
    ("text", "columns", "told"),
    [
        ("one\ttwo\nthree\n", 2, "line 2 has 1 columns, 2 texts are wanted"),
        ("one\ttwo\tlots\n", 2, "line 1: the label 'lots' is no number"),
        ("", None, "0 examples are too few"),
    ],
)
def test_texts_that_do_not_fit(tmp_path: Path, text: str, columns: int | None, told: str) -> None:
    file = tmp_path / "text.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(TransformulaError, match=told):
        corpus([file], byte_tokens(), columns, 16, 0.05)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"good \xff bad")
    with pytest.raises(TransformulaError, match="is no text in UTF-8: byte 5"):
        corpus([tmp_path / "text.txt"], byte_tokens(), None, 16, 0.05)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 9))
def test_an_epoch_has_each_example_once(count: int, size: int, seed: int) -> None:
    steps = -(-2 * count // size)
    places, numbers = [], []
    for step in range(steps):
        some, more = chosen(count, size, step, seed)
        places += some
        numbers += more
    assert sorted(places[:count]) == sorted(places[count : 2 * count]) == list(range(count))
    assert len(set(numbers)) == len(numbers)  # no draw comes twice
    assert all(number % count == place for number, place in zip(numbers, places, strict=True))


def test_padding_is_special_and_seen_by_nobody() -> None:
    made = padded([Text([5, 6], [0, 0], [0, 1]), Text([7], [0], [0])], 3)
    np.testing.assert_array_equal(made["input_ids"], [[5, 6], [7, 3]])
    np.testing.assert_array_equal(made["attention_mask"], [[1, 1], [1, 0]])
    np.testing.assert_array_equal(made["special_tokens_mask"], [[0, 0], [0, 1]])
