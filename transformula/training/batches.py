"""Batches of an objective's inputs: a corruption's results, or the texts themselves, with their labels.

Which examples a step has, and what is drawn for them, is decided by the seed and the number of the step alone: a
training that goes on somewhere has the batches that it would have had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..backends.program import Program
from ..compiler import corruptions
from ..compiler.driver import Compiled
from ..compiler.ir import Input
from ..grammar.diagnostics import error
from .texts import Example, Text
from .vocabulary import Tokens

Array = npt.NDArray[Any]
IGNORED = -100
IDS = "input_ids"
OF_TOKENS = ("special_tokens_mask", "word_ids")


@dataclass(frozen=True)
class Batcher:
    """Makes the inputs of an objective from examples; `chain` are the corruptions that they go through, in order."""

    objective: Compiled
    tokens: Tokens
    chain: tuple[Program, ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @property
    def grouped(self) -> bool:
        """Whether an example is several texts that one encoder reads."""
        return self.objective.formula.groups is not None

    def batch(self, all_examples: Sequence[Example], places: Sequence[int], numbers: Sequence[int]) -> dict[str, Array]:
        """The inputs by name of the examples at these places; `numbers` tell the draws of each.

        A corruption that makes pairs gets the example that follows, or another one, as its further texts.
        """
        examples = [all_examples[place] for place in places]
        if self.grouped:
            given = self._groups(examples)
        else:
            given = padded([one.texts[0] for one in examples], self._pad)
            for program in self.chain:
                given |= self._neighbours(program, all_examples, places, numbers)
                found = self._corrupted(program, given, numbers)
                if found[IDS].shape != given[IDS].shape:  # what was told of the tokens is of others now
                    given = {name: value for name, value in given.items() if name not in OF_TOKENS}
                given |= found
        wanted = {one.name: one for one in self.objective.formula.inputs}
        for name, one in wanted.items():
            if one.required and name not in given:
                given[name] = self._label(name, one, given, examples)
        masks = {name for name in given if name.endswith("attention_mask")}
        return {name: value for name, value in given.items() if name in wanted or name in masks & MASKS}

    @property
    def _pad(self) -> int:
        return self.tokens.ids.get("pad_token", 0)

    def _groups(self, examples: Sequence[Example]) -> dict[str, Array]:
        count = len(examples[0].texts)
        flat = padded([text for one in examples for text in one.texts], self._pad)
        return {name: flat[name].reshape(len(examples), count, -1) for name in (IDS, "attention_mask")}

    def _neighbours(
        self, program: Program, examples: Sequence[Example], places: Sequence[int], numbers: Sequence[int]
    ) -> dict[str, Array]:
        """The further texts of a corruption: for next_input_ids the example that follows, for others one by chance."""
        found: dict[str, Array] = {}
        for one in program.compiled.formula.inputs:
            if one.name != IDS and one.name.endswith(f"_{IDS}"):
                prefix = one.name.removesuffix(IDS)
                others = [(place + 1) % len(examples) for place in places]
                if prefix != "next_":
                    draws = [np.random.SeedSequence([self.seed, 7, number]).generate_state(1)[0] for number in numbers]
                    others = [int(draw) % len(examples) for draw in draws]
                made = padded([examples[other].texts[0] for other in others], self._pad)
                found |= {f"{prefix}{name}": made[name] for name in (IDS, "attention_mask")}
        return found

    def _corrupted(self, program: Program, given: dict[str, Array], numbers: Sequence[int]) -> dict[str, Array]:
        edge = corruptions.border(program.compiled.formula, program.compiled.config)
        named = {f"{role}_id": number for role, number in self.tokens.ids.items()}
        made: dict[str, Any] = {}
        for name, at, needed in edge.inputs:
            if name in self.said and not at:
                made[name] = self.said[name]
            elif name in given:
                if name != "word_ids" or self.said.get("whole_words"):
                    made[name] = given[name]
            elif name in named and not at:
                made[name] = named[name]
            elif name == "special_tokens_mask":
                made[name] = np.isin(given[IDS], list(self.tokens.ids.values())).astype(int)
            elif needed:
                told = f"the corruption {program.name} needs `{name}`, which nothing here gives"
                raise error("T006", told, help=f"Say it: --input {name}=…, or take a tokenizer that has such a token.")
        made |= {mask: given[mask] for mask, _ in edge.masks if mask in given}
        found: dict[str, Array] = program.corrupt(**made, seed=self.seed, example=list(numbers))
        return found

    def _label(self, name: str, one: Input, given: Mapping[str, Array], examples: Sequence[Example]) -> Array:
        """Labels that no corruption gives: of texts their tokens themselves, of examples what their lines say."""
        if any(axis.counted for axis in one.axes):
            mask = given.get("attention_mask")
            ids = np.asarray(given[IDS])
            return ids if mask is None else np.where(mask != 0, ids, IGNORED)
        labels = [example.label for example in examples]
        if any(label is None for label in labels):
            advice = "Give each line a last column with a number, or choose another --objective."
            raise error("T007", f"{self.objective.entry} needs `{name}` of each example", help=advice)
        made = np.asarray(labels, float)
        return made.astype(np.int64) if one.kind == "int" else made


MASKS = {"attention_mask", "decoder_attention_mask"}


def padded(texts: Sequence[Text], pad: int) -> dict[str, Array]:
    """input_ids, attention_mask, special_tokens_mask and word_ids [text, place], padded on the right."""
    width = max(len(text.ids) for text in texts)
    ids = np.full((len(texts), width), pad, np.int64)
    mask, special, words = np.zeros_like(ids), np.ones_like(ids), np.full_like(ids, -1)
    for row, text in enumerate(texts):
        size = len(text.ids)
        ids[row, :size], mask[row, :size] = text.ids, 1
        special[row, :size], words[row, :size] = text.special, text.words
    return {IDS: ids, "attention_mask": mask, "special_tokens_mask": special, "word_ids": words}


def chosen(count: int, size: int, step: int, seed: int) -> tuple[list[int], list[int]]:
    """(places among `count` examples, numbers of their draws) of a step's batch; each epoch has a new order."""
    first = step * size
    places, numbers = [], []
    orders: dict[int, Array] = {}
    for at in range(first, first + size):
        epoch, place = divmod(at, count)
        if epoch not in orders:
            orders[epoch] = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)
        places.append(int(orders[epoch][place]))
        numbers.append(epoch * count + places[-1])
    return places, numbers
