"""The tokens of a training: a folder's tokenizer, or bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends.program import write_text
from ..backends.saving import TOKENIZER, copy_beside
from ..grammar.diagnostics import error

SPECIAL = {
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
    "unk_token": "<unk>",
}
"""The special tokens of the tokenizer over bytes, numbered as they stand here."""

SENTINELS = 100
"""Its sentinels <extra_id_0> …, the last of its ids, counted down as T5 has them."""

KEYS = {
    "pad_token_id": "pad_token",
    "bos_token_id": "cls_token",
    "eos_token_id": "sep_token",
    "sep_token_id": "sep_token",
    "cls_token_id": "cls_token",
    "mask_token_id": "mask_token",
    "decoder_start_token_id": "pad_token",
}
"""The keys of config.json that name a token."""


@dataclass(frozen=True)
class Tokens:
    """A tokenizer with the ids of its special tokens by their role (`cls_token`, …).

    Its files are those of a folder, or texts by their names.
    """

    tokenizer: Any
    ids: dict[str, int]
    files: Path | dict[str, str]

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self.tokenizer.get_vocab_size())

    def encode(self, texts: list[str]) -> list[tuple[list[int], list[int]]]:
        """(ids, number of the word of each) of each text, without special tokens."""
        made = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [(list(one.ids), [-1 if word is None else int(word) for word in one.word_ids]) for one in made]

    def save(self, folder: Path) -> None:
        """Writes the files of the tokenizer."""
        if isinstance(self.files, Path):
            copy_beside(self.files, [self.files], folder, TOKENIZER)
            return
        for name, text in self.files.items():
            write_text(folder / name, text)


def byte_tokens(files: Sequence[Path] = (), size: int = 0) -> Tokens:
    """A token for each byte, five special ones and T5's sentinels: it knows every text.

    Where a text spells a special token, `<mask>` for example, it is that token, as in the library.
    With `size`, byte pairs that are frequent in the files become tokens, until there are so many in all.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    least = len(SPECIAL) + len(letters) + SENTINELS
    if size and size < least:
        raise error("T001", f"a vocabulary of {size} is too small", help=f"Bytes and special tokens alone are {least}.")
    names = [*SPECIAL.values(), *letters]
    made = Tokenizer(models.BPE({name: place for place, name in enumerate(names)}, [], unk_token="<unk>"))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL.values()])
    if size:
        alphabet, room = list(letters), size - SENTINELS
        trainer = trainers.BpeTrainer(
            vocab_size=room, special_tokens=list(SPECIAL.values()), initial_alphabet=alphabet, show_progress=False
        )
        made.train([str(file) for file in files], trainer)
    first = int(made.get_vocab_size())
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(SENTINELS))]
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in sentinels])
    ends = ("</s>", names.index("</s>")), ("<s>", names.index("<s>"))
    made.post_processor = processors.BertProcessing(*ends)
    named = {**SPECIAL, "bos_token": "<s>", "eos_token": "</s>"}
    told = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    written = {"tokenizer.json": made.to_str(), "tokenizer_config.json": json.dumps(told, indent=2) + "\n"}
    ids = {role: names.index(name) for role, name in SPECIAL.items()}
    return Tokens(made, {**ids, "sentinel_token": first + SENTINELS - 1}, written)


def folder_tokens(place: Path) -> Tokens:
    """The tokenizer of a folder. Raises `TransformulaError` where there is none."""
    from ..corrupting import TOKENS, Pieces

    pieces = Pieces(place)
    folder = place if place.is_dir() else place.parent
    ids = {}
    for key, names in TOKENS.items():
        found = next((one for one in map(pieces.find, names) if one is not None), None)
        if found is not None:
            ids[key.removesuffix("_id")] = found
    if "eos_token" in ids:
        ids.setdefault("sep_token", ids["eos_token"])
    return Tokens(pieces.tokenizer, ids, folder)


def tokens_of(place: Path | None, files: Sequence[Path] = (), size: int = 0) -> Tokens:
    """The tokenizer of a folder, or one over bytes (of `size` tokens for these files)."""
    if place is None:
        return byte_tokens(files, size)
    if not place.exists():
        advice = "Name a folder with tokenizer.json, or leave it out."
        raise error("T001", f"there is no tokenizer at {place}", help=advice)
    return folder_tokens(place)
