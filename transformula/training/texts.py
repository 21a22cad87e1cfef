"""What is trained on: files of text as examples of tokens, split into those for training and those held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..grammar.diagnostics import error
from .vocabulary import Tokens

Array = npt.NDArray[Any]
MOST = 1 << 34
"""Bytes of text that a training reads at once."""


@dataclass(frozen=True)
class Text:
    """Tokens of an example: ids, which of them are special, and the number of the word of each."""

    ids: list[int]
    special: list[int]
    words: list[int]


@dataclass(frozen=True)
class Example:
    """The texts of an example (one; several in columns), and its label, if its line has one."""

    texts: tuple[Text, ...]
    label: float | None = None


@dataclass(frozen=True)
class Corpus:
    """Examples in the order of the files; the last `held` of them are held out."""

    examples: Sequence[Example]
    held: int
    digest: str
    tokens: int = field(default=0)

    @property
    def train(self) -> Sequence[Example]:
        """What is trained on."""
        return self.examples[: len(self.examples) - self.held]

    @property
    def test(self) -> Sequence[Example]:
        """What is held out."""
        return self.examples[len(self.examples) - self.held :]


def read_lines(files: Sequence[Path]) -> list[str]:
    """The lines of the files, one after the other. Raises `TransformulaError` for one that is no text."""
    lines: list[str] = []
    for file in files:
        try:
            if file.stat().st_size > MOST:
                raise error("T002", f"{file} has more than {MOST >> 30} GiB", help="Train on a part of it.")
            lines += file.read_text("utf-8-sig").splitlines()
        except FileNotFoundError:
            raise error("T002", f"{file} does not exist") from None
        except UnicodeDecodeError as fault:
            raise error("T002", f"{file} is no text in UTF-8: byte {fault.start}") from None
        except OSError as fault:
            raise error("T002", f"{file} cannot be read: {fault.strerror or fault}") from None
    return lines


def corpus(
    files: Sequence[Path], tokens: Tokens, columns: int | None, length: int, fraction: float, framed: bool = True
) -> Corpus:
    """Examples of at most `length` tokens: blocks of running text, or with a number of columns a line each.

    Columns are between tabs; a last one more is the example's label, a number. `fraction` of the examples, the last
    ones, is held out; `framed` examples stand between the first and the last special token. Raises `TransformulaError`
    where there is nothing to train on, or a line has other columns.
    """
    lines = read_lines(files)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    found = list(_rows(lines, tokens, columns, length) if columns else _blocks(lines, tokens, length, framed))
    held = int(np.ceil(len(found) * fraction)) if fraction else 0
    if len(found) <= held:
        named = ", ".join(map(str, files))
        told = f"{named}: {len(found)} examples are too few"
        raise error("T003", told, help="Give more text, or a smaller --length.")
    return Corpus(found, held, digest, sum(len(text.ids) for one in found for text in one.texts))


def _blocks(lines: Sequence[str], tokens: Tokens, length: int, framed: bool) -> Iterator[Example]:
    """Running text, a separator behind each document (or each line, where no line is empty), cut into blocks."""
    by_document = any(not line.strip() for line in lines)
    frame = [tokens.ids[name] for name in ("cls_token", "sep_token") if name in tokens.ids]
    framed = framed and len(frame) == 2
    room = length - (2 if framed else 0)
    if room < 1:
        raise error("T004", f"--length {length} has no room for a token", help="Take 8 or more.")
    ids: list[int] = []
    words: list[int] = []
    end = tokens.ids.get("sep_token") if framed else tokens.ids.get("eos_token", tokens.ids.get("sep_token"))
    texts = [line.strip() for line in lines]
    encoded = iter(tokens.encode([text for text in texts if text]))
    for text in texts:
        if text:
            own, places = next(encoded)
            base = words[-1] + 1 if words else 0
            ids += own
            words += [base + max(place, 0) for place in places]
        if end is not None and ids and (not text if by_document else text):
            ids.append(end)
            words.append(words[-1] + 1)
    for start in range(0, len(ids), room):
        yield Example((_text(ids[start : start + room], words[start : start + room], frame if framed else [], tokens),))


def _rows(lines: Sequence[str], tokens: Tokens, columns: int, length: int) -> Iterator[Example]:
    """A line's columns as a text each."""
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    for number, row in rows:
        if len(row) not in (columns, columns + 1):
            told = f"line {number} has {len(row)} columns, {columns} texts are wanted"
            raise error("T005", told, help="Columns are between tabs; one more is the label, a number.")
    parts = tokens.encode([text.strip() for _, row in rows for text in row[:columns]])
    frame = [tokens.ids[name] for name in ("cls_token", "sep_token") if name in tokens.ids]
    framed = frame if len(frame) == 2 else []
    for place, (number, row) in enumerate(rows):
        own = parts[place * columns : (place + 1) * columns]
        cut = [(ids[: length - len(framed)], words[: length - len(framed)]) for ids, words in own]
        yield Example(tuple(_text(ids, words, framed, tokens) for ids, words in cut), _label(row, columns, number))


def _label(row: Sequence[str], columns: int, number: int) -> float | None:
    if len(row) == columns:
        return None
    try:
        return float(row[columns])
    except ValueError:
        raise error("T005", f"line {number}: the label {row[columns]!r} is no number") from None


def _text(ids: list[int], words: list[int], frame: Sequence[int], tokens: Tokens) -> Text:
    known = set(tokens.ids.values())
    special = [int(one in known) for one in ids]
    if not frame:
        return Text(ids, special, words)
    return Text([frame[0], *ids, frame[1]], [1, *special, 1], [-1, *words, -1])
