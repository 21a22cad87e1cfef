"""Run-time text of both backends: the options of a generation, read and checked. Copied into modules that decode.

Names, meanings and the values that stand where nobody says otherwise are those of `generate` of the transformers
library. Nothing here knows of arrays.
"""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from random import Random
from typing import Any

SEARCH = {
    **{"max_new_tokens": None, "max_length": None, "min_new_tokens": None, "min_length": 0},
    **{"do_sample": False, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": None, "seed": None},
    **{"num_beams": 1, "length_penalty": 1.0, "early_stopping": False, "num_return_sequences": 1},
    **{"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "bad_words_ids": None, "renormalize_logits": False},
    **{"suppress_tokens": None, "begin_suppress_tokens": None, "use_cache": True},
    **{"eos_token_id": None, "pad_token_id": None, "bos_token_id": None, "decoder_start_token_id": None},
    **{"forced_bos_token_id": None, "forced_eos_token_id": None},
}  # every option, and its value where nobody says otherwise

NEUTRAL = {
    **{"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": None, "penalty_alpha": 0.0},
    **{"encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0, "sequence_bias": None},
    **{"exponential_decay_length_penalty": None, "guidance_scale": 1.0, "num_beam_groups": 1, "diversity_penalty": 0.0},
    **{"constraints": None, "force_words_ids": None, "stop_strings": None, "max_time": None, "token_healing": False},
    **{"watermarking_config": None, "dola_layers": None, "low_memory": False, "prompt_lookup_num_tokens": None},
    **{"assistant_early_exit": None, "output_scores": False, "output_logits": False, "output_attentions": False},
    **{"output_hidden_states": False, "return_dict_in_generate": False, "remove_invalid_values": False},
}  # the library's options that are not here, each with the value that asks for nothing

RULES: Any = (
    (("max_new_tokens", "max_length"), Integral, "a whole number from 1 up", lambda x: x > 0),
    (("num_beams", "num_return_sequences"), Integral, "a whole number from 1 up", lambda x: x > 0),
    (("min_new_tokens", "min_length"), Integral, "a whole number from 0 up", lambda x: x >= 0),
    (("top_k", "no_repeat_ngram_size", "seed"), Integral, "a whole number from 0 up", lambda x: x >= 0),
    (("bos_token_id", "decoder_start_token_id", "forced_bos_token_id"), Integral, "a token id", lambda x: x >= 0),
    (("pad_token_id",), Integral, "a token id", lambda x: True),
    (("temperature",), Real, "a number above 0 (do_sample=False takes the likeliest)", lambda x: 0 < x < float("inf")),
    (("repetition_penalty",), Real, "a number above 0", lambda x: 0 < x < float("inf")),
    (("top_p",), Real, "a number above 0, at most 1", lambda x: 0 < x <= 1),
    (("min_p",), Real, "a number from 0 to 1", lambda x: 0 <= x <= 1),
    (("length_penalty",), Real, "a number", lambda x: abs(x) < float("inf")),
    (("do_sample", "renormalize_logits"), bool, "True or False", lambda x: True),
    (("early_stopping",), object, "True, False or 'never'", lambda x: x is True or x is False or x == "never"),
)  # names, the kind of value, what it should be, and whether a value is

DRAWING = ("temperature", "top_k", "top_p", "min_p")
BEAMS = ("length_penalty", "early_stopping")
ROOM = 20  # new tokens, where nobody says how many


def search_options(given: Mapping[str, Any], own: Mapping[str, Any], streaming: bool = False) -> dict[str, Any]:
    """All options: what is given, else the model's own, else the library's; ValueError says what is wrong.

    None turns an option off. `ends` are the tokens that end a text, as a list; `padding` is a token of prompts that
    hides itself where no mask is given.
    """
    given = {name: value for name, value in given.items() if value is not None or name != "max_new_tokens"}
    for name, value in given.items():
        if name not in SEARCH:
            check_unsupported(name, value)
    for name, value in own.items():
        if name not in SEARCH and name not in given:
            check_unsupported(name, value, "the model's generation_config.json asks for it: ")
    off = {**SEARCH, "top_k": 0}
    options = {**SEARCH, **{name: value for name, value in own.items() if name in SEARCH and value is not None}}
    options |= {name: off[name] if value is None else value for name, value in given.items() if name in SEARCH}
    for many, fewer in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if given.get(many) is not None and given.get(fewer) is None:
            options[fewer] = None
    check_values(options)
    check_together(options, {name for name, value in given.items() if value is not None}, streaming)
    for name in ("eos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens"):
        options[name] = id_list(name, options[name])
    words = options["bad_words_ids"]
    if words is not None and not isinstance(words, list | tuple):
        raise ValueError(f"bad_words_ids = {words!r} should be a list of lists of token ids")
    options["bad_words_ids"] = [id_list("bad_words_ids", word) for word in words or ()]
    options["ends"] = options["eos_token_id"]
    options["padding"] = None if options["pad_token_id"] in options["ends"] else options["pad_token_id"]
    if options["pad_token_id"] is None:
        options["pad_token_id"] = options["ends"][0] if options["ends"] else 0
    return options


def check_unsupported(name: str, value: Any, told: str = "") -> None:
    """An option that is not here may ask for nothing."""
    if name in NEUTRAL:
        if value is None or (value == NEUTRAL[name] and isinstance(value, bool) == isinstance(NEUTRAL[name], bool)):
            return
        raise ValueError(f"{name} = {value!r} is not supported ({told}{name}={NEUTRAL[name]!r} goes without)")
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(name, SEARCH, n=1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(SEARCH)}"
    raise ValueError(f"there is no option {name!r}: {told}{advice}")


def check_values(options: Mapping[str, Any]) -> None:
    """Each value is of its kind and in its range."""
    for names, kind, wanted, holds in RULES:
        for name in names:
            value: Any = options[name]
            number = isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))
            if value is not None and not (number and holds(value)):
                raise ValueError(f"{name} = {value!r} should be {wanted}")


def check_together(options: Mapping[str, Any], given: set[str], streaming: bool) -> None:
    """No two options that are given contradict each other."""
    for one, other in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if {one, other} <= given:
            raise ValueError(f"{one} counts the prompt and {other} does not: give one of them")
    if "min_new_tokens" in given and (options["max_new_tokens"] or float("inf")) < options["min_new_tokens"]:
        raise ValueError(
            f"min_new_tokens = {options['min_new_tokens']} is more than max_new_tokens = {options['max_new_tokens']}"
        )
    for names, missing, advice in (
        (DRAWING, not options["do_sample"], "is for drawing tokens: say do_sample=True, too"),
        (BEAMS, options["num_beams"] == 1, "is for beams: say num_beams, too"),
    ):
        for name in names:
            if missing and name in given and options[name] != SEARCH[name]:
                raise ValueError(f"{name} = {options[name]!r} {advice}, or leave it out")
    beams, several = options["num_beams"], options["num_return_sequences"]
    if streaming and beams > 1:
        raise ValueError(f"num_beams = {beams}: beams cannot be streamed, their tokens are known at the end alone")
    if several > 1 and beams == 1 and not options["do_sample"]:
        raise ValueError(f"num_return_sequences = {several}: without beams or do_sample there is one result")
    if several > beams > 1:
        raise ValueError(f"num_return_sequences = {several} is more than num_beams = {beams}")


def id_list(name: str, value: Any) -> list[int]:
    """One token id, or a list of them, as a list."""
    value = value.tolist() if hasattr(value, "tolist") else value
    ids = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, Integral) and not isinstance(one, bool) for one in ids):
        raise ValueError(f"{name} = {value!r} should be a token id, or a list of them")
    return [int(one) for one in ids]


def allowance(
    options: Mapping[str, Any], lengths: Sequence[int], room: int | None, table: str
) -> tuple[list[int], list[int]]:
    """How many tokens each prompt of these lengths may get at most, and must get at least."""
    most, whole = options["max_new_tokens"], options["max_length"]
    if max(lengths) > (room or max(lengths)):
        raise ValueError(f"a prompt has {max(lengths)} tokens, the table of positions {table} has {room}: cut it")
    if most is not None:
        new = [int(most)] * len(lengths)
    elif whole is not None:
        new = [int(whole) - length for length in lengths]
    else:
        new = [ROOM if room is None else max(1, min(ROOM, room - length)) for length in lengths]
    if min(new) < 1:
        raise ValueError(
            f"a prompt has {max(lengths)} tokens, and max_length = {whole} counts them, too: give a larger one, or"
            " max_new_tokens, which counts the new ones alone"
        )
    length, more = max(zip(lengths, new, strict=True), key=sum)
    if room is not None and length + more - 1 > room:  # the last one is not read again
        raise ValueError(
            f"a prompt of {length} and {more} new tokens need {length + more - 1} positions, the table {table} has"
            f" {room}: ask for at most {room + 1 - length} new tokens, or cut the prompt"
        )
    least = options["min_new_tokens"]
    return new, [options["min_length"] - length if least is None else int(least) for length in lengths]


def row_streams(seed: int | None, rows: int, copies: int) -> list[Random]:
    """A stream of draws for each copy of each row, which does not depend on the others."""
    if seed is None:
        return [Random() for _ in range(rows * copies)]
    return [Random(f"{seed} {row} {copy}") for row in range(rows) for copy in range(copies)]


EDITS = (
    *("no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "forced_eos_token_id"),
)  # the options that change scores where they are not empty


def is_plain(options: Mapping[str, Any], least: int) -> bool:
    """Whether scores stay as they are; `least` is the greatest number of tokens that a text must get."""
    edits = any(options[name] for name in EDITS) or options["repetition_penalty"] != 1
    return not edits and options["forced_bos_token_id"] is None and (least < 1 or not options["ends"])
