"""The command `corrupt`: texts in, and what a corruption makes of them, token by token, out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from .grammar.diagnostics import error

if TYPE_CHECKING:
    from .backends.program import Program
    from .compiler.corruptions import Border

TOKENS = {
    "mask_token_id": ("mask_token", "[MASK]", "<mask>"),
    "cls_token_id": ("cls_token", "[CLS]", "<s>"),
    "sep_token_id": ("sep_token", "[SEP]", "</s>"),
    "eos_token_id": ("eos_token", "</s>", "<|endoftext|>"),
    "pad_token_id": ("pad_token", "[PAD]", "<pad>"),
    "sentinel_token_id": ("", "<extra_id_0>"),
}
"""What a tokenizer's folder calls the token of an input, and its usual names."""

ENDS = re.compile(r"[.!?]['\")\]]*$")
SENTINEL = 10**9
WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Encoded:
    """A text as tokens: ids, which are special, and the word of each."""

    ids: list[int]
    special: list[int]
    words: list[int]


class Words:
    """Words as tokens, numbered as they come: what stands in for a tokenizer."""

    def __init__(self) -> None:
        self.names = ["<pad>", "<s>", "</s>", "<mask>"]
        self.known = {name: place for place, name in enumerate(self.names)}

    def encode(self, text: str, framed: bool = True) -> Encoded:
        """A text between <s> and </s>, or its words alone."""
        words = WORDS.findall(text)
        for word in words:
            if word not in self.known:
                self.known[word] = len(self.names)
                self.names.append(word)
        ids = [self.known[word] for word in words]
        inner = Encoded(ids, [0] * len(ids), list(range(len(ids))))
        return Encoded([1, *ids, 2], [1, *inner.special, 1], [-1, *inner.words, -1]) if framed else inner

    def find(self, name: str) -> int | None:
        """The id of a token; sentinels have ids of their own, downwards from one that no text reaches."""
        return SENTINEL if name == "<extra_id_0>" else self.known.get(name)

    def show(self, one: int) -> str:
        """The token of an id."""
        if SENTINEL - 1000 < one <= SENTINEL:
            return f"<extra_id_{SENTINEL - one}>"
        return self.names[one] if 0 <= one < len(self.names) else f"‹{one}›"


class Pieces:
    """The tokens of a tokenizer's folder (or its tokenizer.json)."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise error("R923", f"there is no {file}", help="Name a folder with tokenizer.json, or leave it out.")
        try:
            self.tokenizer = Tokenizer.from_file(str(file))
        except Exception as fault:  # the library raises bare exceptions
            raise error("R924", f"{file} is no tokenizer: {fault}") from None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.named = _named_tokens(file.parent)

    def encode(self, text: str, framed: bool = True) -> Encoded:
        """A text with its special tokens, or without."""
        made = self.tokenizer.encode(text, add_special_tokens=framed)
        words = [-1 if one is None else one for one in made.word_ids]
        return Encoded(list(made.ids), list(made.special_tokens_mask), words)

    def find(self, name: str) -> int | None:
        """The id of a token, by its text or by what the folder's files call it."""
        found: int | None = self.tokenizer.token_to_id(self.named.get(name, name))
        return found

    def show(self, one: int) -> str:
        """The token of an id, a space in it as such."""
        token = self.tokenizer.id_to_token(one)
        return f"‹{one}›" if token is None else token.replace("▁", "").replace("Ġ", "") or "␣"


Tokens: TypeAlias = Words | Pieces


def _named_tokens(folder: Path) -> dict[str, str]:
    """mask_token and its like, as the files beside a tokenizer name them."""
    found: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        try:
            held = json.loads((folder / file).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        for name, token in held.items() if isinstance(held, dict) else ():
            text = token.get("content") if isinstance(token, dict) else token
            if name.endswith("_token") and isinstance(text, str):
                found[name] = text
    return found


@dataclass(frozen=True)
class Job:
    """What the command line asks for."""

    text: Sequence[str] = ()
    file: Path | None = None
    tokenizer: Path | None = None
    seed: int = 0
    first: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    as_json: bool = False


def programs(
    spec: str | Path, name: str | None, backend: str, config: dict[str, Any], settings: Mapping[str, Any]
) -> Callable[[int | None], Program]:
    """Compiles a corruption of a spec, or of the spec that a model's folder asks for, for so many tokens (if known)."""
    from .backends.program import Program, check_backend
    from .compiler.corruptions import choose
    from .compiler.driver import compile_graph, load_module

    check_backend(backend)
    if isinstance(spec, Path) and spec.is_dir():
        from .texts import folder_spec

        module, config, _ = folder_spec(spec, config, None)
    else:
        module = load_module(spec)
    entry = choose(module, name).name

    def compiled(count: int | None) -> Program:
        few = {"vocab": count} if count is not None and "vocab" in module.options else {}  # words are all the tokens
        return Program(compile_graph(module, config, entry, {**few, **settings}), backend)

    return compiled


def corrupt_job(compiled: Callable[[int | None], Program], job: Job) -> None:
    """Corrupts the texts and prints each before and after; `compiled` takes the number of tokens, if that is known."""
    from .compiler import corruptions

    texts = list(_texts(job))
    if not texts:
        click.echo("warning: no texts: the input is empty", err=True)
        return
    tokens: Tokens = Pieces(job.tokenizer) if job.tokenizer is not None else Words()
    words = {word for text in texts for word in WORDS.findall(text)}
    program = compiled(len(tokens.names) + len(words) if isinstance(tokens, Words) else None)
    edge = corruptions.border(program.compiled.formula, program.compiled.config)
    names = [name for name, at, _ in edge.inputs if at and name.endswith("input_ids")]
    if len(names) > 1 and len(texts) < 2:
        raise error("R921", f"{program.name} makes a pair of two texts, and there is one", help="Give --text twice.")
    groups = [[texts[(row + place) % len(texts)] for place in range(len(names))] for row in range(len(texts))]
    if len(names) > 1:  # a text, the one that follows it, and another one
        groups = groups[:: 2 if len(names) == 2 else 1][: max(1, len(texts) - 1)]
    rows = [[tokens.encode(text, len(names) == 1) for text in group] for group in groups]
    given = _given(edge, names, rows, tokens, job.inputs)
    numbers = list(range(job.first, job.first + len(rows)))
    found = program.corrupt(**given, seed=job.seed, example=numbers)
    shown = _as_texts(program)
    for row, number in enumerate(numbers):
        results = {name: _trimmed(name, found, row, edge, rows[row]) for name, *_ in edge.outputs}
        if job.as_json:
            before = {name: one.ids for name, one in zip(names, rows[row], strict=True)}
            click.echo(json.dumps({"example": number, "seed": job.seed, "before": before, "after": results}))
        else:
            _show(number, names, rows[row], results, shown, tokens)


def _texts(job: Job) -> Iterator[str]:
    from .texts import _lines

    if job.text and job.file:
        raise error("R921", "--text and --file exclude each other")
    if job.text:
        yield from job.text
    elif job.file is None:
        raise error("R921", "there is no text to corrupt", help='Give --text "…", several if needed, or --file FILE.')
    else:
        yield from (text for _, text in _lines(job.file.open("rb"), str(job.file)) if text.strip())


def _given(
    edge: Border, names: Sequence[str], rows: Sequence[Sequence[Encoded]], tokens: Tokens, said: Mapping[str, Any]
) -> dict[str, Any]:
    """The inputs of the call: what the tokens tell, ids of special tokens, and what the command line says."""
    made: dict[str, Any] = {name: [row[place].ids for row in rows] for place, name in enumerate(names)}
    lists: dict[str, Callable[[Encoded], list[int]]] = {
        "special_tokens_mask": lambda one: one.special,
        "word_ids": lambda one: one.words,
        "sentence_end_mask": lambda one: [int(bool(ENDS.search(tokens.show(token)))) for token in one.ids],
    }
    for name, at, _ in edge.inputs:
        if at and name in lists and (name != "word_ids" or said.get("whole_words")):
            made[name] = [lists[name](row[0]) for row in rows]
        elif not at and name in TOKENS and name not in said:
            found = next((one for one in map(tokens.find, TOKENS[name]) if one is not None), None)
            if found is not None:
                made[name] = found
    for name, _, needed in edge.inputs:
        if needed and name in TOKENS and name not in made and name not in said:
            raise error(
                "R902",
                f"this tokenizer has no {' or '.join(TOKENS[name][1:])}",
                help=f"Say which token it is: --input {name}=….",
            )
    return {**made, **{name: value for name, value in said.items() if name != "whole_words"}}


def _as_texts(program: Program) -> set[str]:
    """The results that hold tokens: those that are made of the text, and not of numbers alone."""
    from .compiler.lower import sources

    ids = {one.name for one in program.compiled.formula.inputs if one.name.endswith("input_ids")}
    outputs = program.compiled.formula.outputs
    return {out.name for out in outputs if out.name.endswith("input_ids") or ids & set(sources(out.node))}


def _trimmed(name: str, found: Mapping[str, Any], row: int, edge: Border, texts: Sequence[Encoded]) -> Any:
    """A result of one text, without padding."""
    at, new = next((at, new) for one, at, new, _ in edge.outputs if one == name)
    value = found[name][row].tolist()
    if not at:
        return value
    if not new:
        return value[: len(texts[0].ids)]
    masks = [f"{one.removesuffix('input_ids')}attention_mask" for one, other, *_ in edge.outputs if other == at]
    mask = next((found[one][row].tolist() for one in masks if one in found), None)
    return value if mask is None else value[: sum(mask)]


def _show(
    number: int,
    names: Sequence[str],
    texts: Sequence[Encoded],
    results: Mapping[str, Any],
    shown: set[str],
    tokens: Tokens,
) -> None:
    """A line for each text and result, with names in front."""
    width = max(map(len, (*results, *names))) + 2
    click.echo(click.style(f"example {number}", bold=True))
    for name, one in zip(names, texts, strict=True):
        click.echo(f"  {name.replace('input_ids', 'text').ljust(width)}{' '.join(map(tokens.show, one.ids))}")
    for name, value in results.items():
        listed = value if isinstance(value, list) else [value]
        if name not in shown:
            line = " ".join(map(str, listed))
        else:
            before = texts[0].ids if name == "input_ids" and len(listed) == len(texts[0].ids) else listed
            parts = zip(listed, before, strict=True)
            line = " ".join(_told(tokens, one, one != old) for one, old in parts)
        click.echo(f"  {name.ljust(width)}{line}")


def _told(tokens: Tokens, one: int, changed: bool) -> str:
    text = "·" if one == -100 else tokens.show(one)
    return str(click.style(text, fg="yellow")) if changed else text
