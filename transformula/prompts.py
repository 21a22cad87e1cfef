"""The command `run --prompt`: the text that follows each prompt, printed as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from .grammar.diagnostics import error
from .texts import Job, loaded, read_tokenizer, sink, utf8

if TYPE_CHECKING:
    from .backends.load import LoadedModel

DRAWING = ("temperature", "top_k", "top_p", "min_p")
NAMES = {"beams": "num_beams"}
OPTIONS = (*DRAWING, "max_new_tokens", "min_new_tokens", "seed", "beams", "repetition_penalty")
OTHERS = ("text", "file", "name", "similarity")


def run_prompts(job: Job) -> None:
    """Goes on with each prompt; all of a batch are computed together, and told one after the other."""
    for name in OTHERS:
        if getattr(job, name):
            raise error("R921", f"--prompt and --{name} exclude each other")
    if job.output == "npy":
        raise error("R920", "--output npy is for --text", help="What follows a prompt is text, or json.")
    model = loaded(job)
    tokenizer, options = read_tokenizer(model), search_options_of(job)
    with sink(job.out, binary=False) as file:
        for start in range(0, len(job.prompt), job.batch_size):
            batch = Batch(model, tokenizer, job.prompt[start : start + job.batch_size], options)
            if job.output == "json":
                tell_lines(batch, file)
            else:
                tell_text(batch, file)


def refuse_options(job: Job) -> None:
    """What is for prompts needs one."""
    for name in (*OPTIONS, "sample", "option"):
        value = getattr(job, name)
        if value is not None and value is not False and value != {}:
            raise error("R932", f"--{name.replace('_', '-')} is for --prompt", help="Give a text to go on with.")


def search_options_of(job: Job) -> dict[str, Any]:
    """The options of `generate` that the command line says; one of those for drawing asks for draws."""
    found = {NAMES.get(name, name): getattr(job, name) for name in OPTIONS if getattr(job, name) is not None}
    if job.sample or any(getattr(job, name) is not None for name in DRAWING):
        found["do_sample"] = True
    found = {"num_return_sequences": 1, **found, **job.option}
    if found["num_return_sequences"] != 1:
        raise error("R932", "a prompt has one result here", help="Give it several times: each draws by itself.")
    return found


# ------------------------------------------------------------------------------------------------- tokens to text


class Voice:
    """Tokens that come one by one as text: a piece ends where a character does, whatever its bytes come in."""

    def __init__(self, tokenizer: Any, before: Sequence[int]) -> None:
        self.tokenizer, self.ids = tokenizer, list(before)
        self.start, self.told = 0, len(self.ids)  # what is decoded again, and what is told

    def add(self, token: int) -> str:
        """The text that the token completes, '' where a character lacks bytes."""
        self.ids.append(token)
        piece = self.rest()
        if not piece or piece.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self.start, self.told = self.told, len(self.ids)
        return piece

    def rest(self) -> str:
        """What is not told yet, bytes that are no character included."""
        before, after = (
            self.tokenizer.decode(ids, skip_special_tokens=True)
            for ids in (self.ids[self.start : self.told], self.ids[self.start :])
        )
        return str(after[len(before) :])


@dataclass
class Part:
    """What a step adds to the text of a prompt, and whether that is its end."""

    row: int
    text: str
    last: bool


class Batch:
    """Prompts with what follows them, which `parts` tells as it comes."""

    def __init__(self, model: LoadedModel, tokenizer: Any, prompts: Sequence[str], options: dict[str, Any]) -> None:
        self.model, self.prompts, self.options = model, prompts, options
        self.encodings = [tokenizer.encode(prompt).ids for prompt in prompts]
        self.continues = model.decoding is not None and not model.decoding.source
        begin = model.generation.get("bos_token_id")
        if self.continues and begin is not None:
            self.encodings = [ids or [begin] for ids in self.encodings]
        for prompt, ids in zip(prompts, self.encodings, strict=True):
            if not ids:
                raise error("R933", f"the prompt {json.dumps(prompt)} has no tokens", help="Give it a text.")
        self.voices = [Voice(tokenizer, ids if self.continues else ()) for ids in self.encodings]

    def parts(self) -> Iterator[Part]:
        """Each step's text of each row that goes on."""
        ends, most = self._limits()
        alive = list(range(len(self.prompts)))
        for made, step in enumerate(self._steps(), 1):
            for row in list(alive):
                voice, token = self.voices[row], step[row]
                last = token in ends or made == most[row]
                text = "" if token in ends else voice.add(token)
                if last:
                    alive.remove(row)
                    text += voice.rest()
                yield Part(row, text, last)

    def _limits(self) -> tuple[list[int], list[int]]:
        """The tokens that end a text, and how many each may get."""
        from .backends.numpy.options import allowance, search_options

        parts = self.model.decoding
        if parts is None:  # the model tells why
            return [], [0] * len(self.prompts)
        try:
            options = search_options(self.options, self.model.generation)
            lengths = [len(ids) if self.continues else 1 for ids in self.encodings]
            return options["ends"], allowance(options, lengths, parts.room, parts.table)[0]
        except ValueError as fault:
            raise error("R930", f"{self.model.entry}: {fault}") from None

    def _steps(self) -> Iterator[list[int]]:
        import numpy as np

        width = max(map(len, self.encodings))
        given: dict[str, Any] = {
            "input_ids": np.array([[*ids, *[0] * (width - len(ids))] for ids in self.encodings]),
            "attention_mask": np.array([[1] * len(ids) + [0] * (width - len(ids)) for ids in self.encodings]),
        }
        beams = self.options.get("num_beams", self.model.generation.get("num_beams"))
        if beams is None or beams == 1:
            for step in self.model.stream(**given, **self.options):
                yield step.tolist()
        else:
            found = self.model.generate(**given, **self.options)
            yield from found[:, width if self.continues else 1 :].T.tolist()


# ---------------------------------------------------------------------------------------------------- telling


def tell_text(batch: Batch, file: IO[str]) -> None:
    """The texts in the order of their prompts; the first that is not told yet is told as it comes."""
    turn, waiting = 0, [prompt if batch.continues else "" for prompt in batch.prompts]
    ended = [False] * len(waiting)
    for part in batch.parts():
        waiting[part.row] += part.text
        ended[part.row] = part.last
        while turn < len(waiting):
            file.write(waiting[turn] + ("\n" if ended[turn] else ""))
            waiting[turn] = ""
            if not ended[turn]:
                break
            turn += 1
        file.flush()


def tell_lines(batch: Batch, file: IO[str]) -> None:
    """An object a line: the prompt, and the text that follows it (of an encoder-decoder: its translation)."""
    texts = [""] * len(batch.prompts)
    for part in batch.parts():
        texts[part.row] += part.text
    for prompt, text in zip(batch.prompts, texts, strict=True):
        plain = file is sys.stdout and not utf8()
        file.write(json.dumps({"prompt": prompt, "text": text}, ensure_ascii=plain) + "\n")
