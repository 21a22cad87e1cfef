"""Laws of comparing: nothing differs from itself, sides can be swapped, writing the same otherwise is no difference."""

from __future__ import annotations

import re
from functools import cache

import pytest

from transformula.compiler.difference import Change, Differences, compared, side
from transformula.compiler.difference.change import MIRROR
from transformula.compiler.modules import read_source, shipped
from transformula.grammar.printer import format_source

SPECS = sorted(name for name in shipped() if not name.startswith("lib/"))
PARTS = ("structure", "formulas", "weights")
BERT = read_source("bert").text


side_of = cache(side)
"""The side of a name or text: what is made of it once serves every comparison."""


def between(one: str, other: str, *only: str) -> Differences:
    return compared(side_of("a", one), side_of("b", other), only=only or PARTS)


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return text.replace(old, new)


@pytest.mark.parametrize("name", SPECS)
def test_nothing_differs_from_itself(name: str) -> None:
    assert between(name, name).changes == ()


def facts_of(one: Change) -> tuple[object, ...]:
    lines = tuple(sorted((line.before, line.after) for line in one.lines))
    return one.part, one.kind, one.before, one.after, one.a, one.b, lines, bool(one.follows)


def swapped(one: Change) -> Change:
    return Change(
        one.part,
        MIRROR.get(one.kind, one.kind),
        one.where,
        one.say,
        one.after,
        one.before,
        tuple(line.swapped() for line in one.lines),
        one.b,
        one.a,
        follows=one.follows,
    )


PAIRS = ("bert roberta", "bert distilbert", "gpt2 llama", "t5 bart", "electra deberta", "gemma gemma2")


@pytest.mark.parametrize(
    "pair", [pytest.param(one, marks=() if one in PAIRS[1:3] else pytest.mark.slow) for one in PAIRS]
)
def test_sides_can_be_swapped(pair: str) -> None:
    one, other = pair.split()
    there = [facts_of(change) for change in between(one, other).changes]
    back = [facts_of(swapped(change)) for change in between(other, one).changes]
    assert sorted(map(repr, there)) == sorted(map(repr, back))


OTHERWISE = {
    "formatted": format_source(re.sub(r"  +(?=[:~])", "   ", BERT)),
    "a sum in another order": changed(
        BERT,
        "where input = words + S[segment = segments] + P[place = at]",
        "where input = P[place = at] + (words + S[segment = segments])",
    ),
    "another name of a part": changed(BERT, "where input = words +", "where added = words +").replace(
        "dropout(LN(input), p)", "dropout(LN(added), p)"
    ),
    "parts in another order": changed(
        BERT,
        "    where Q = x @ W_Q + b_Q\n          K = m @ W_K + b_K\n",
        "    where K = m @ W_K + b_K\n          Q = x @ W_Q + b_Q\n",
    ),
    "a part of its own": changed(
        BERT,
        "block Pooler(x[d]) → [d] = tanh(x @ W + b)\n",
        "block Pooler(x[d]) → [d] = tanh(h)\n    where h = b + x @ W\n",
    ),
    "a spelling that is recognised": changed(
        BERT,
        "→ [d] = layer_norm[d](x, γ, β, ε)",
        "→ [d] = γ * (x - mean[d](x)) * (mean[d]((x - mean[d](x))²) + ε)^(-1/2) + β",
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_written_otherwise_is_no_difference(name: str) -> None:
    found = between(BERT, OTHERWISE[name])
    assert not found, [change.say for change in found.changes if change.differs]
    assert all(change.kind == "same" for change in found.changes)


def test_what_is_only_spelled_otherwise_is_told_with_everything() -> None:
    found = between(BERT, OTHERWISE["a part of its own"])
    assert found.told() == ()
    (one,) = found.told(every=True)
    assert "means the same" in one.say


CHANGED = {
    # what is changed → the parts and kinds of the changes that are told, and a word of each
    "a formula": (
        ("[d] = tanh(x @ W + b)", "[d] = tanh(x @ W - b)"),
        [("formulas", "changed", "Pooler")],
    ),
    "an activation": (
        ("    act : activation = gelu as hidden_act", "    act : activation = \"silu\" as hidden_act"),
        [("facts", "changed", "SiLU instead of GELU"), ("config", "changed", "act is silu instead of gelu")],
    ),
    "a size": (
        ("    ffn      = 3072 ", "    ffn      = 1024 "),
        [("config", "changed", "ffn is 1024 instead of 3072")],
    ),
    "a size that others follow": (
        ("    head     = 12    as", "    head     = 8     as"),
        [("config", "changed", "head is 8 instead of 12")],
    ),
    "a key of config.json": (
        ("    head     = 12    as num_attention_heads", "    head     = 12    as heads"),
        [("config", "changed", "in config.json head from heads")],
    ),
    "how a weight begins": (
        ("            P : [place, d]   ~ normal(0.02)", "            P : [place, d]   ~ normal(0.03)"),
        [("weights", "changed", "embed.P begins as normal(0.03) instead of normal(0.02)")],
    ),
    "a stored name": (
        ('        P : "position_embeddings.weight"', '        P : "places.weight"'),
        [("names", "changed", "embed.P is stored as")],
    ),
    "an objective": (
        ("L_MLM + L_NSP\n    where", "L_MLM + 2 * L_NSP\n    where"),
        [("objectives", "changed", "objective pretraining")],
    ),
    "a rate of a corruption": (
        ("mlm_probability = 0.15, share as mask", "mlm_probability = 0.3, share as mask"),
        [("objectives", "changed", "corruption masking")],
    ),
    "a result": (("last_hidden_state[seq, d] = x[layers], pooler", "last_hidden_state[seq, d] = x[layers - 1], pooler"),
        [("formulas", "changed", "model Bert")]),
    "dropout alone": (
        ("z = LN_1(x + dropout(a, p))", "z = LN_1(x + a)"),
        [("formulas", "changed", "another dropout, otherwise the same")],
    ),
    "a choice of config": (
        ("[d] = act(x @ W_1 + b_1) @ W_2 + b_2", "[d] = gelu(x @ W_1 + b_1) @ W_2 + b_2"),
        [("formulas", "changed", "the same while act is gelu")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_one_change_is_told_and_nothing_else(name: str) -> None:
    (old, new), wanted = CHANGED[name]
    found = between(BERT, changed(BERT, old, new))
    assert [(one.part, one.kind) for one in found.told()] == [(part, kind) for part, kind, _ in wanted]
    for one, (_, _, word) in zip(found.told(), wanted, strict=True):
        assert word in one.say


def test_a_weight_that_is_named_otherwise() -> None:
    text = re.sub(r"\bW_O\b", "W_out", BERT)
    (one,) = between(BERT, text).told()
    assert (one.part, one.kind, one.before, one.after) == ("weights", "renamed", "W_O", "W_out")


def test_a_block_that_is_named_otherwise() -> None:
    text = re.sub(r"\bpool\b", "first", BERT)
    (one,) = between(BERT, text).told()
    assert (one.part, one.kind) == ("structure", "renamed")
    assert "pool → first" in one.say


def test_a_bias_that_is_gone() -> None:
    weights = "    weights W : [d → d] ~ normal(0.02)\n"
    bias = "            b : [d]     ~ 0\n"
    old, new = f"tanh(x @ W + b)\n{weights}{bias}", f"tanh(x @ W)\n{weights}"
    text = changed(BERT, old, new)
    text = changed(text, '    pool.b : "pooler.dense.bias"\n', "")
    told = {(one.part, one.kind) for one in between(BERT, text).told()}
    assert told == {("formulas", "changed"), ("weights", "removed")}


def test_sizes_do_not_make_formulas_differ() -> None:
    other = side("b", "bert", settings={"d": 256, "head": 4, "layers": 3, "ffn": 512, "vocab": 100})
    found = compared(side("a", "bert"), other, only=PARTS)
    assert {one.part for one in found.told()} == {"config"}
    assert len(found.told()) == 5
