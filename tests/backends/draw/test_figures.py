"""Figures of pictures add up to the graph's own costs, and what is shared is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler import zoo
from transformula.backends.draw import picture
from transformula.backends.draw.figures import figures, total
from transformula.backends.draw.folding import fold
from transformula.backends.draw.picture import Box, Cluster, Picture
from transformula.compiler.cost import costs
from transformula.compiler.driver import compile_graph
from transformula.compiler.sizes import USUAL, Sizes

SPECS = sorted(path.stem for path in (Path(__file__).resolve().parents[3] / "specs").glob("*.formula"))
MORE = [
    ("bert", "pretraining"),
    ("electra", "joint"),
    ("gpt2", "GPT2LMHeadModel"),
    ("sbert", "classification"),
    ("t5", "T5ForConditionalGeneration"),
]

TOWERS = """\
spec towers
config
    d = 4
    h = 8
block Tower(x[seq, d]) → [seq, d] = a @ V + x
    where a = max(x @ W, 0)
    weights W : [d → h]
            V : [h → d]
model M(x[seq, d] as left, y[seq, d] as right) → s[seq] = u @[d] v
    where u = f(x)
          v = f(y)
    uses f : Tower
"""

STACK = """\
spec stack
config
    d      = 4
    layers = 6
block Turn(x[d]) → [d] = y + x
    where y = x @ W
    weights W : [d → d]
model M(z[d]) → [d] = layer[0](x[layers])
    where
        x[0] = layer[5](z)
        for l in layers:
            x[l + 1] = layer[l // 2](x[l])
    uses layer[layers] : Turn
"""


@pytest.mark.parametrize(("spec", "entry"), [*((spec, None) for spec in SPECS), *MORE])
def test_figures_add_up_to_the_costs_of_the_graph(spec: str, entry: str | None) -> None:
    made = zoo.shipped(spec, entry)
    for graph in (made.formula, made.graph):
        for sizes in (USUAL, Sizes(batch=3, length=17)):
            wanted, found = costs(graph, sizes), figures(fold(graph, made.module), sizes)
            whole = total(found.values())
            assert min(one.parameters for one in found.values()) >= 0
            assert (whole.parameters, whole.flops, whole.bytes) == (
                wanted.parameters,
                wanted.total.flops,
                wanted.total.bytes,
            )


@pytest.mark.parametrize("depth", [0, 1, 2, 9])
def test_clusters_have_the_sum_of_what_is_in_them(depth: int) -> None:
    made = picture(zoo.shipped("bert"), depth=depth)
    wanted = costs(zoo.shipped("bert").formula)
    assert made.top.figures is not None
    assert (made.top.figures.parameters, made.top.figures.flops) == (109_482_240, wanted.total.flops)


def parts(made: Picture) -> dict[str, Box | Cluster]:
    found: list[Box | Cluster] = [*made.top.boxes(), *made.top.clusters()]
    return {one.ident: one for one in found}


def test_a_layer_of_a_stack_has_the_parameters_of_all_layers() -> None:
    found = parts(picture(zoo.shipped("bert"), depth=1))["b:for 1"].figures
    assert found is not None
    assert found.parameters == 12 * (4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768)


def test_parameters_of_a_stack_count_where_each_layer_is_chosen_first() -> None:
    made = compile_graph(STACK, until="formula")
    folded = fold(made.formula, made.module)
    found = {folded.places[one]: cost.parameters for one, cost in figures(folded).items() if cost.parameters}
    assert found == {("layer[layers]",): 16 + 2 * 16, ("for 1",): 3 * 16}  # 5, and those that nobody reads; 0, 1, 2


def test_no_figures_unless_asked_for() -> None:
    made = picture(zoo.shipped("bert"), sizes=None)
    assert made.top.figures is None


# --- what is shared -------------------------------------------------------------------------------


def told(made: Picture) -> set[str]:
    return {text for one in parts(made).values() for text in one.shared}


@pytest.mark.parametrize("depth", [0, 9])
def test_one_layer_for_all_steps_is_told(depth: int) -> None:
    assert parts(picture(zoo.shipped("albert"), depth=depth))["b:for 1"].shared == ("one set of weights",)
    assert told(picture(zoo.shipped("bert"), depth=depth)) == set()


def test_groups_of_layers_are_told() -> None:
    made = compile_graph("albert", settings={"groups": 3, "layers": 6}, until="formula")
    assert told(picture(made)) == {"3 sets of weights"}


@pytest.mark.parametrize("depth", [0, 9])
@pytest.mark.parametrize(("spec", "entry"), [("bert", "BertForMaskedLM"), ("roberta", "BertForMaskedLM")])
def test_tied_embeddings_are_told_at_both_ends(spec: str, entry: str, depth: int) -> None:
    assert told(picture(zoo.shipped(spec, entry), depth=depth)) == {
        "E also in lm_head",
        "bert.embed.E also in words",
    }


def test_several_readers_of_one_weight_are_told_together() -> None:
    found = told(picture(zoo.shipped("t5", "T5ForConditionalGeneration"), depth=0))
    assert found == {"E also in heard, lm_head", "E also in words, lm_head", "t5.encoder.E also in heard, words"}


def test_texts_of_one_example_share_their_encoder() -> None:
    assert told(picture(zoo.shipped("sbert", "classification"))) == {"the same for each side"}


@pytest.mark.parametrize("depth", [0, 9])
def test_calls_of_one_instance_are_drawn_apart(depth: int) -> None:
    found = parts(picture(compile_graph(TOWERS), depth=depth))
    assert (found["b:f"].shared, found["b:f~2"].shared) == (("call 1 of 2",), ("call 2 of 2",))
    first, second = found["b:f"].figures, found["b:f~2"].figures
    assert first is not None
    assert second is not None
    assert (first.parameters, second.parameters) == (64, 0)
    assert first.flops == second.flops


def test_a_tie_leaves_every_node_its_place() -> None:
    clusters = {one.name for one in picture(zoo.shipped("electra", "joint")).top.clusters()}
    assert {"generator", "discriminator", "bert", "lm_head", "embed", "layer[l]", "attn"} <= clusters
