"""Checkpoint maps: flattening, default and written layouts, totality, and the mistakes that they name."""

import ast

import pytest

from transformula.backends.checkpoint_table import checkpoint_table, table_source
from transformula.backends.numpy.weights import row_shape, table_entries
from transformula.compiler.checkpoint import CheckpointMap, checkpoint_rows
from transformula.compiler.driver import check, compile_graph
from transformula.grammar.diagnostics import TransformulaError

SPEC = """
spec tiny
config
    d      = 6 as hidden
    layers = 3
    head   = 2
    ffn    = 10
    word   = 7
    bias   = true
    dk     = d / head

block Attention(x[seq, d]) → [seq, d] = (q * k * v) @ O
    where q = x @ Q + b
          k = x @ K
          v = x @ V
    weights Q, K, V : [d → head dk]
            b : [head, dk] ~ 0 if bias
            O : [head dk → d]

block Layer(x[seq, d]) → [seq, d] = attn(x) @ W
    uses attn : Attention
    weights W : [d → d]

model Tiny(tokens[seq]) → out[seq, d] = x[layers], pooled[d] = x[layers][seq = 0] @ P
    where
        x[0] = E[word = tokens]
        for l in layers:
            x[l + 1] = layer[l](x[l])
    uses layer[layers] : Layer
    weights E : [word, d]
            P : [d → d]

uses base : Tiny

model Head(tokens[seq]) → logits[seq, word] = base(tokens) @[d] base.E
"""

ROWS = """
checkpoint huggingface of Tiny for "TinyModel"
    E : "embed"
    layer[l] : "h.{l}."
        attn : "attention."
            [Q; K; V] : "qkv" [d, (part head dk)]
            b : "bias" if bias
            O : "out"
        W : "w" [d', d]
    P : "pool"
    skip "h.{l}.mask"
"""

HEAD = """
checkpoint huggingface of Head for "TinyHead"
    base : Tiny "base."
    base.E : also "lm_head"
"""


def made(text: str, entry: str = "Tiny", **config: object) -> CheckpointMap:
    found = compile_graph(text, config, entry, until="formula")
    return checkpoint_rows(found.module, entry, found.formula, found.config)


def faults(text: str, entry: str = "Tiny", **config: object) -> dict[str, str]:
    with pytest.raises(TransformulaError) as caught:
        made(text, entry, **config)
    return {one.code: str(one) for one in caught.value.diagnostics}


def stored(found: CheckpointMap) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {row[0]: (row[1], row_shape(row)) for row in checkpoint_table(found)[0]}


def test_nested_prefixes_and_fused_tensors() -> None:
    found = stored(made(SPEC + ROWS))
    assert found == {
        "E": ("embed", (7, 6)),
        "layer[layers].attn.Q": ("h.{l}.attention.qkv", (6, 18)),
        "layer[layers].attn.K": ("h.{l}.attention.qkv", (6, 18)),
        "layer[layers].attn.V": ("h.{l}.attention.qkv", (6, 18)),
        "layer[layers].attn.b": ("h.{l}.attention.bias", (2, 3)),
        "layer[layers].attn.O": ("h.{l}.attention.out", (6, 6)),
        "layer[layers].W": ("h.{l}.w", (6, 6)),
        "P": ("pool", (6, 6)),
    }


def test_default_is_out_in_and_a_written_layout_wins() -> None:
    rows = {row[0]: row for row in checkpoint_table(made(SPEC + ROWS))[0]}
    assert rows["layer[layers].attn.O"][3] == ((("d", 6),), (("head", 2), ("dk", 3)))
    assert rows["layer[layers].attn.O"][4] == (1, 2, 0)
    assert rows["P"][3] == ((("d'", 6),), (("d", 6),))
    assert rows["P"][4] == (1, 0)
    turned = {
        row[0]: row for row in checkpoint_table(made(SPEC + ROWS.replace('"w" [d\', d]', '"w" [d, d\']')))[0]
    }
    assert turned["layer[layers].W"][4] == (0, 1)
    assert turned["layer[layers].attn.Q"][5] == (1, 0, 18, 0)
    assert turned["layer[layers].attn.V"][5] == (1, 0, 18, 12)


def test_carried_axes_stand_first() -> None:
    text = """
spec moe
config
    d = 4
    expert = 3
    ffn = 5
model Moe(x[seq, d], e[seq]) → [seq, ffn] = x @ W[expert = e]
    weights W : [expert, d → ffn]
checkpoint huggingface of Moe
    W : "w"
"""
    assert stored(made(text, "Moe")) == {"W": ("w", (3, 5, 4))}


def test_empty_group_is_a_dimension_of_one_and_parts_may_stand_inside() -> None:
    text = ROWS.replace('"pool"', '"pool" [d\', d, 1]').replace("[d, (part head dk)]", "[(head part dk), d]")
    rows = {row[0]: row for row in checkpoint_table(made(SPEC + text))[0]}
    assert row_shape(rows["P"]) == (6, 6, 1)
    assert rows["layer[layers].attn.K"][5] == (0, 1, 9, 3)
    assert row_shape(rows["layer[layers].attn.K"]) == (18, 6)


def test_included_maps_prefixes_and_second_homes() -> None:
    found = made(SPEC + ROWS + HEAD, "Head")
    assert found.prefixes == ("base.",)
    assert ("base.E", "base.embed") in [(row[0], row[1]) for row in checkpoint_table(found)[0]]
    assert ("base.E", "lm_head") in [(row[0], row[1]) for row in checkpoint_table(found)[0]]
    assert set(found.skips) == {"base.h.{l}.mask", "base.pool"}, "Head has no use for P"
    assert made(SPEC + ROWS + HEAD).prefixes == ("base.",)


def test_from_takes_rows_over_and_replaces_them() -> None:
    other = """
model Other(tokens[seq]) → out[seq, d] = E[word = tokens] @ P
    weights E : [word, d]
            P : [d → d]
checkpoint huggingface of Other from Tiny
    P : "pooler" [d, d']
"""
    assert stored(made(SPEC + ROWS + other, "Other")) == {"E": ("embed", (7, 6)), "P": ("pooler", (6, 6))}


def test_a_map_may_begin_with_the_one_that_it_replaces() -> None:
    again = ROWS + '\ncheckpoint huggingface of Tiny from Tiny for "Second"\n    P : "second"\n'
    third = again + '\ncheckpoint huggingface of Tiny from Tiny\n    E : "third"\n'
    found = stored(made(SPEC + third))
    assert found == {**stored(made(SPEC + ROWS)), "P": ("second", (6, 6)), "E": ("third", (7, 6))}
    head = stored(made(SPEC + third + HEAD, "Head"))
    assert head["base.E"] == ("lm_head", (7, 6)), "its own rows, over the last map"


def test_rows_under_a_condition() -> None:
    found = made(SPEC + ROWS, bias=False)
    assert "layer[layers].attn.b" in stored(found), "bias is no key of config.json"
    off = compile_graph(SPEC + ROWS, {}, "Tiny", {"bias": False}, until="formula")
    rows = checkpoint_rows(off.module, "Tiny", off.formula, off.config)
    assert "layer[layers].attn.b" not in stored(rows)
    assert not [name for name in rows.skips if "bias" in name]


def test_numbers_choose_single_layers() -> None:
    text = ROWS.replace('        W : "w" [d\', d]\n', "")
    text += '    layer[0].W : "first"\n    layer[1].W : "second"\n    layer[2].W : "third"\n'
    rows = [row for row in checkpoint_table(made(SPEC + text))[0] if row[0] == "layer[layers].W"]
    assert [row[1:3] for row in rows] == [
        ("first", (("0", 3),)),
        ("second", (("1", 3),)),
        ("third", (("2", 3),)),
    ]
    assert "2 of 3 entries" in faults(SPEC + text.replace('    layer[1].W : "second"\n', ""))["K002"]
    assert "K003" in faults(SPEC + text.replace("layer[1].W", "layer[0].W"))
    assert "no entry 7" in faults(SPEC + text.replace("layer[1].W", "layer[7].W"))["K006"]


LATER = """
spec tiny
config
    d = 3
    layers = 3
    later = layers - 1

block Layer(x[d]) → [d] = x @ W + b
    weights W : [d → d]
            b : [d]

model M(x[seq, d]) → [seq, d] = h[layers]
    where
        h[0] = x
        h[1] = first(x)
        for l in 1..layers:
            h[l + 1] = layer[l - 1](h[l])
    uses first : Layer
         layer[later] : Layer

uses m : M

model Head of m → out[seq, d] = 2 * m(x)

checkpoint huggingface of Layer
    W : "weight"
    b : "bias"

checkpoint huggingface of M
    first : Layer "layers.0."
    layer[l] : Layer "layers.{l + 1}."

checkpoint huggingface of Head
    m : M "model."
"""
"""Blocks have maps, which others include; stored numbers may start later."""


def test_maps_of_blocks_and_numbers_that_start_later() -> None:
    table = checkpoint_table(made(LATER, "M"))
    assert stored(made(LATER, "M"))["layer[later].W"] == ("layers.{l + 1}.weight", (3, 3))
    assert [name for _, _, name in table_entries(table)] == [
        *("layers.0.weight", "layers.0.bias"),
        *("layers.1.weight", "layers.2.weight", "layers.1.bias", "layers.2.bias"),
    ]
    assert ast.literal_eval(repr(table)) == table
    assert made(LATER, "M").prefixes == made(LATER, "Head").prefixes == ("model.",), "a block's is no model's prefix"
    spelled = LATER.replace("{l + 1}", "{l+1}")
    assert [name for _, _, name in table_entries(checkpoint_table(made(spelled, "M")))][2:4] == [
        "layers.1.weight",
        "layers.2.weight",
    ]
    assert "`{l - 1}` in the stored name is no letter" in faults(LATER.replace("{l + 1}", "{l - 1}"), "M")["K006"]
    assert "all entries `l` would be one" in faults(LATER.replace("{l + 1}", "1"), "M")["K006"]


def test_a_stack_inside_a_tensor() -> None:
    text = ROWS.replace('        W : "w" [d\', d]\n', "") + '    layer.W : "all" [d\', layers, d]\n'
    row = next(row for row in checkpoint_table(made(SPEC + text))[0] if row[0] == "layer[layers].W")
    assert row[2] == (("", 3),)
    assert row[4] == (1, 2, 0)


def test_own_names_without_a_map() -> None:
    found = made(SPEC)
    assert stored(found)["layer[layers].attn.Q"] == ("layer[layers].attn.Q", (3, 6, 2, 3))


def test_where_sizes_come_from() -> None:
    sizes = dict(made(SPEC + ROWS, hidden=6).sizes)
    assert sizes["d"] == "6 (hidden)"
    assert sizes["head"] == "2 (the spec's default)"
    assert sizes["dk"] == "3 (d / head)"
    assert dict(made(SPEC + ROWS).sizes)["d"] == "6 (the default of hidden)"


def test_tied_weights_are_one_storage() -> None:
    text = SPEC.replace("@[d] base.E", "@[d] U") + "    weights U : [word, d]\n\ntie U = base.E\n" + ROWS
    text += '\ncheckpoint huggingface of Head\n    base : Tiny "base."\n'
    rows = checkpoint_table(made(text, "Head"))[0]
    assert [row[:2] for row in rows if row[0] in ("U", "base.E")] == [("base.E", "base.embed")]


def test_a_weight_that_may_be_absent() -> None:
    found = made(SPEC + ROWS.replace('b : "bias"', 'b : optional "bias"'))
    assert checkpoint_table(found)[4] == (("layer[layers].attn.b", 0.0),)
    text = ROWS.replace('P : "pool"', 'P : optional "pool"')
    assert "only a weight whose initial value is a number may be absent" in faults(SPEC + text)["K015"]


def test_a_row_that_decides() -> None:
    text = HEAD.replace('also "lm_head"', 'same "lm_head" if bias')
    (row,) = (row for row in made(SPEC + ROWS + text, "Head").rows if row.decides)
    assert (row.stored, row.also, row.decides) == ("lm_head", True, "bias")
    for condition in ("", " if ffn == 10"):
        text = HEAD.replace('also "lm_head"', f'same "lm_head"{condition}')
        assert "does not say what the file decides" in faults(SPEC + ROWS + text, "Head")["K015"]


def test_table_is_a_literal() -> None:
    table = checkpoint_table(made(SPEC + ROWS + HEAD, "Head"))
    assert ast.literal_eval(repr(table)) == table
    assert ast.literal_eval(table_source(table).partition("=")[2].strip()) == table


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ('    P : "pool"\n', "", "K002", "the weight `P` has no row"),
        ('    P : "pool"\n', '    P : "pool"\n    P : "again"\n', "K003", "the weight `P` has two rows"),
        (
            '    P : "pool"\n',
            '    P : "pool"\n    layer[l].attn.QQ : "x.{l}"\n',
            "K004",
            "no weight `layer.attn.QQ`",
        ),
        ('"pool"', '"pool" [d]', "K005", "name each axis of `P`"),
        ('"pool"', '"pool" [d, d, d\']', "K005", "name each axis of `P`"),
        ('"pool"', '"pool" [d\', dd]', "K005", "has no axis `dd`"),
        ("h.{l}.", "h.{i}.", "K006", "`{i}` in the stored name is no letter"),
        ('"h.{l}."', '"h."', "K006", "all entries `l` would be one stored tensor"),
        ("layer[l] :", "layer[l, m] :", "K006", "is a stack over [layers]"),
        ("layer[l] :", "layer :", "K006", "is no letter of the path"),
        ("[d, (part head dk)]", "[d, (head dk)]", "K008", "needs one name for the parts"),
        ('P : "pool"', 'P : "embed"', "K009", "is the home of two weights"),
    ],
)
def test_mistakes(old: str, new: str, code: str, told: str) -> None:
    assert old in ROWS
    found = faults(SPEC + ROWS.replace(old, new))
    assert code in found, found
    assert told in found[code]
    assert "-->" in found[code], "an error has its place"


def test_a_map_that_is_not_there() -> None:
    text = HEAD.replace("base : Tiny", "base : Tinny")
    assert "Did you mean Tiny?" in faults(SPEC + ROWS + text, "Head")["K007"]


def test_circles_end() -> None:
    loop = ROWS.replace("of Tiny for", "of Tiny from Head for") + HEAD.replace(
        "of Head for", "of Head from Tiny for"
    )
    assert "circle" in faults(SPEC + loop, "Head")["K007"]


def test_all_mistakes_at_once() -> None:
    text = ROWS.replace('    P : "pool"\n', "").replace('    E : "embed"\n', "")
    with pytest.raises(TransformulaError) as caught:
        made(SPEC + text)
    assert [one.message for one in caught.value.diagnostics] == [
        "the weights `E`, `P` have no row in this checkpoint map"
    ]
    text = ROWS.replace('"pool"', '"pool" [d]').replace("    E :", "    EE :")
    assert set(faults(SPEC + text)) == {"K004", "K005"}


def test_a_check_finds_mistakes_of_maps() -> None:
    with pytest.raises(TransformulaError, match="has no weight `PP`"):
        check(SPEC + ROWS.replace("P :", "PP :"))
