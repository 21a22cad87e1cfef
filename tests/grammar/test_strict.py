"""The grammar as Lark sees it: no conflicts, the written table up to date, a word for every terminal."""

import subprocess
import sys
import time

from transformula.grammar import lexing, table
from transformula.grammar.parser import tables
from transformula.grammar.tabulate import compute, lark
from transformula.grammar.words import OPERATORS, SIGNS, expected, word


def test_strict_lalr_has_no_conflicts() -> None:
    # Raises on any shift/reduce or reduce/reduce conflict, and on terminals that match the same text.
    lark(strict=True)


def test_table_is_up_to_date() -> None:
    assert table.fingerprint() == table.FINGERPRINT, "run: python -m transformula.grammar.tabulate"
    assert table.load() == compute(), "run: python -m transformula.grammar.tabulate"


def test_every_terminal_has_a_word() -> None:
    used = {kind for row in tables().states for kind in row if kind.lstrip("_$").isupper()}
    assert len(used) > 60
    for kind in used:
        lower = word(kind).strip("`")
        assert kind in OPERATORS or kind in SIGNS or lower == kind.lower().strip("_"), kind
        assert "_" not in word(kind), kind


def test_expected_speaks_of_values_and_operators() -> None:
    everything = {kind for row in tables().states for kind in row if kind.lstrip("_$").isupper()}
    assert "a value" in expected(everything)
    assert "an operator" in expected(everything)


def test_words_of_the_lexer_are_words_of_the_grammar() -> None:
    names = {name for name, _, _ in compute()["terminals"]}
    for text in (*lexing.LINE_WORDS, *lexing.MIDDLE_WORDS, *lexing.RESERVED):
        assert text.upper() in names


def test_parsing_imports_neither_lark_nor_numpy() -> None:
    code = "import sys; from transformula.grammar.parser import parse; parse('f(x) = x'); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"lark", "numpy", "torch", "networkx"} & set(modules.split())


def test_a_large_file_takes_a_moment() -> None:
    from transformula.grammar.parser import parse

    text = "".join(f"f{n}(x) = exp(x - {n}) / sum[j](exp(x))\n" for n in range(3000))
    start = time.perf_counter()
    assert len(parse(text).items) == 3000
    assert time.perf_counter() - start < 10
