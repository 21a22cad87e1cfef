"""Each row of docs/differences.md: what the library does, and what we do instead."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

import transformula
from tests.specs import test_bart, test_t5
from tests.specs.peers import batch, change_config, saved
from tests.specs.seq2seq import library
from tests.specs.test_llama import TINY as LLAMA
from tests.specs.test_losses import BACKENDS, config_of, theirs
from transformula import TransformulaError
from transformula.compiler.config import Config
from transformula.compiler.driver import compile_graph, load_module

pytestmark = pytest.mark.usefixtures("no_islands")
Array = NDArray[Any]
ABSOLUTE = ("Bert", "Electra", "Albert", "DistilBert", "DebertaV2", "GPT2", "OpenAIGPT")
GPT = {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16, "bos_token_id": 0}


def text(length: int = 4) -> Array:
    return batch(31)["input_ids"][:1, :length]


def padded(ids: Array, left: int, right: int) -> dict[str, Array]:
    """The ids with other tokens on both sides, hidden."""
    mask = np.ones_like(ids)
    sides = ((0, 0), (left, right))
    return {"input_ids": np.pad(ids, sides, constant_values=5), "attention_mask": np.pad(mask, sides)}


def decoder(kind: str, **more: Any) -> Any:
    return getattr(transformers, f"{kind}Config")(**GPT, eos_token_id=0, **more)


def same_loss(folder: Path, given: dict[str, Array], wanted: float) -> None:
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["loss"]
        assert abs(float(found) - wanted) < 1e-10


@pytest.mark.parametrize("kind", ABSOLUTE)
def test_padding_on_the_left(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, f"{kind}Model", decoder(kind) if kind.endswith(("GPT", "GPT2")) else config_of(kind))
    ids = text()
    wanted = theirs(folder, f"{kind}Model", {"input_ids": ids}).last_hidden_state.numpy()[0]
    shifted = theirs(folder, f"{kind}Model", padded(ids, 3, 0)).last_hidden_state.numpy()[0, 3:]
    assert np.abs(shifted - wanted).max() > 1e-3  # the library's answer depends on the padding
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = np.asarray(model(**padded(ids, 3, 2))["last_hidden_state"])[0, 3:7]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_an_example_without_a_token(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertModel", config_of("Bert"))
    given = {"input_ids": np.repeat(text(), 2, axis=0), "attention_mask": np.array([[1, 1, 1, 1], [0, 0, 0, 0]])}
    assert theirs(folder, "BertModel", given).last_hidden_state.numpy()[1].any()
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend)(**given)
        for value in found.values():
            assert not np.asarray(value)[1].any()
            assert np.asarray(value)[0].any()


def test_labels_at_padding(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForMaskedLM", config_of("Bert"))
    ids, named = text(), np.array([[3, -100, 7, 1]])
    whole = {**padded(ids, 0, 3), "labels": np.pad(named, ((0, 0), (0, 3)), constant_values=2)}
    wanted = float(theirs(folder, "BertForMaskedLM", {"input_ids": ids, "labels": named}).loss)
    assert abs(float(theirs(folder, "BertForMaskedLM", whole).loss) - wanted) > 1e-3
    same_loss(folder, whole, wanted)


def test_no_label_counts(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForMaskedLM", config_of("Bert"))
    given = {"input_ids": text(), "labels": np.full((1, 4), -100)}
    assert math.isnan(theirs(folder, "BertForMaskedLM", given).loss)
    for backend in BACKENDS:
        assert float(transformula.load(folder, backend=backend)(**given)["loss"]) == 0
    module = transformula.load(folder, backend="torch", dtype="float64").module
    module(**{name: torch.from_numpy(value) for name, value in given.items()})["loss"].backward()
    assert all(not one.grad.any() for one in module.parameters() if one.grad is not None)


def test_answers_do_not_see_padding(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForQuestionAnswering", config_of("Bert", "ForQuestionAnswering"))
    places = {"start_positions": np.array([1]), "end_positions": np.array([3])}
    wanted = float(theirs(folder, "BertForQuestionAnswering", {"input_ids": text(), **places}).loss)
    whole = {**padded(text(), 0, 3), **places}
    assert abs(float(theirs(folder, "BertForQuestionAnswering", whole).loss) - wanted) > 1e-3
    same_loss(folder, whole, wanted)


def test_a_class_that_is_none(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForSequenceClassification", config_of("Bert"))
    ids = np.concatenate([text(), text()[:, ::-1]])
    given = {"input_ids": ids[:1], "labels": np.array([2])}
    wanted = float(theirs(folder, "BertForSequenceClassification", given).loss)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        assert abs(float(model(ids, labels=[2, -100])["loss"]) - wanted) < 1e-10
        with pytest.raises(TransformulaError, match="labels holds -1, labels are 0 … 2, or -100"):
            model(ids, labels=[2, -1])


@pytest.mark.parametrize("kind", ["GPT2", "OpenAIGPT"])
def test_the_token_that_classifies(tmp_path: Path, kind: str) -> None:
    name = f"{kind}ForSequenceClassification"
    folder = saved(tmp_path / "padded", name, decoder(kind, pad_token_id=7))
    shown = {"input_ids": np.array([[3, 4, 5, 7]]), "attention_mask": np.array([[1, 1, 0, 1]])}
    wanted = theirs(folder, name, {"input_ids": np.array([[3, 4]])}).logits.numpy()
    assert np.abs(theirs(folder, name, shown).logits.numpy() - wanted).max() > 1e-3
    plain = saved(tmp_path / "plain", name, decoder(kind))
    ids = np.array([[3, 4, 5], [6, 8, 0]])
    with pytest.raises(ValueError, match="no padding token is defined"):
        theirs(plain, name, {"input_ids": ids})
    texts = [ids[:1], ids[1:, :2]]
    alone = [theirs(plain, name, {"input_ids": one}).logits.numpy()[0] for one in texts]
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**shown)["logits"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=1e-10)
        mask = [[1, 1, 1], [1, 1, 0]]
        found = transformula.load(plain, backend=backend, dtype="float64")(ids, attention_mask=mask)["logits"]
        np.testing.assert_allclose(np.asarray(found), alone, rtol=0, atol=1e-10)


def test_nothing_follows_the_last_token(tmp_path: Path) -> None:
    folder = saved(tmp_path, "GPT2LMHeadModel", decoder("GPT2"))
    ids, named = text(), np.array([[3, 4, 7, 1]])
    whole = {**padded(ids, 0, 2), "labels": np.pad(named, ((0, 0), (0, 2)), constant_values=2)}
    wanted = theirs(folder, "GPT2LMHeadModel", {"input_ids": ids, "labels": named}).loss
    assert abs(float(theirs(folder, "GPT2LMHeadModel", whole).loss) - float(wanted)) > 1e-3
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**whole)["loss"]
        assert abs(float(found) - float(wanted)) < 1e-6  # theirs is a float32


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertLMHeadModel"])
def test_cross_attention_to_nothing(tmp_path: Path, kind: str) -> None:
    more = {"is_decoder": True} if kind == "BertLMHeadModel" else {}
    plain = config_of("Bert") if more else decoder("GPT2")
    config = type(plain)(**{**plain.to_diff_dict(), **more, "add_cross_attention": True})
    folder, ids = saved(tmp_path, kind, config), text()
    states = np.random.default_rng(0).standard_normal((1, 3, 12))
    none = {"encoder_hidden_states": states, "encoder_attention_mask": np.zeros((1, 3), int)}
    tensors = {"input_ids": torch.from_numpy(ids), **{name: torch.from_numpy(value) for name, value in none.items()}}
    with torch.inference_mode():
        zeros = library(folder, kind, "sdpa")(**tensors).logits.numpy()
    assert np.abs(theirs(folder, kind, {"input_ids": ids, **none}).logits.numpy() - zeros).max() > 1e-3
    without = theirs(folder, kind, {"input_ids": ids}).logits.numpy()
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        np.testing.assert_allclose(np.asarray(model(ids, **none)["logits"]), zeros, rtol=0, atol=1e-10)
        with pytest.raises(TransformulaError, match="'encoder_hidden_states' is missing"):
            model(ids)
    change_config(folder, add_cross_attention=False)
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(ids)["logits"]
        np.testing.assert_allclose(np.asarray(found), without, rtol=0, atol=1e-10)


PAPER = """spec paper extends deberta_v2
change Disentangled
    where back = δ(index(key), index(seq))
          p_c  = (K @[dk] (r @ U_Q + c_Q))[rel = back] if p2c else 0
"""


def test_row_of_the_relative_table(tmp_path: Path) -> None:
    config = config_of("DebertaV2", pos_att_type=["p2c"], conv_kernel_size=0)
    folder, ids = saved(tmp_path / "net", "DebertaV2Model", config), text(7)
    wanted = theirs(folder, "DebertaV2Model", {"input_ids": ids}).last_hidden_state.numpy()
    ours = transformula.load(folder, dtype="float64")(ids)["last_hidden_state"]
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-10)
    other = tmp_path / "paper.formula"
    other.write_text(PAPER)
    found = transformula.load(folder, dtype="float64", spec=other, entry="Bert")(ids)["last_hidden_state"]
    assert np.abs(found - wanted).max() > 1e-3


def test_the_sign_of_electra(tmp_path: Path) -> None:
    """Raising the loss's label from 0 to 1 asks for a larger logit: it means replaced."""
    folder = saved(tmp_path, "ElectraForPreTraining", config_of("Electra", "ForPreTraining"))
    ids = text()
    logits = transformula.load(folder, dtype="float64")(ids)["logits"]
    for label in (0, 1):
        given = {"input_ids": ids, "labels": np.full_like(ids, label)}
        share = 1 / (1 + np.exp(-logits))  # of being replaced
        wanted = -np.log(share if label else 1 - share).mean()
        assert abs(float(theirs(folder, "ElectraForPreTraining", given).loss) - wanted) < 1e-6
        assert abs(float(transformula.load(folder, dtype="float64")(**given)["loss"]) - wanted) < 1e-10


def test_the_weight_of_electra_s_losses() -> None:
    """L_G + λ L_D: with λ = 0 the generator is left, not the discriminator."""
    sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8, "embedding_size": 4}
    made = compile_graph("electra", sizes, "joint", settings={"λ": 0}, until="formula").formula
    from transformula.compiler import reference

    draw = np.random.default_rng(0)
    weights = {one.name: draw.standard_normal([int(str(n)) for n in one.shape]) for one in made.weights}
    given = {"input_ids": [[3, 4, 5]], "labels": [[3, 1, 5]], "masked": [[False, True, False]]}
    found = reference.run(made, weights, given)
    assert float(found["loss"]) == float(found["generator_loss"])
    assert float(found["discriminator_loss"]) > 0


def test_gradient_of_the_padding_token(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertModel", config_of("Bert"))
    ids = torch.tensor([[0, 4, 5]])  # 0 is the padding token's id, and is shown here
    peer = transformers.BertModel.from_pretrained(folder, dtype=torch.float64).eval()
    peer(ids).last_hidden_state.square().sum().backward()
    table = peer.embeddings.word_embeddings.weight.grad
    module = transformula.load(folder, backend="torch", dtype="float64").module
    module(ids)["last_hidden_state"].square().sum().backward()
    ours = module.embed_E.grad
    assert not table[0].any()
    assert ours[0].any()
    torch.testing.assert_close(ours[1:], table[1:], rtol=0, atol=1e-10)


def test_groups_of_albert(tmp_path: Path) -> None:
    """18 layers in 14 groups: the first sizes at which the library's division falls into another group, at layer 9."""
    config = config_of("Albert", num_hidden_layers=18, num_hidden_groups=14, inner_group_num=1)
    folder, ids = saved(tmp_path, "AlbertModel", config), text()
    ours = transformula.load(folder, dtype="float64")(ids)["last_hidden_state"]
    assert np.abs(ours - theirs(folder, "AlbertModel", {"input_ids": ids}).last_hidden_state.numpy()).max() > 1e-3
    peer = transformers.AlbertModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.inference_mode():
        state = peer.encoder.embedding_hidden_mapping_in(peer.embeddings(torch.from_numpy(ids)))
        for layer in range(18):
            state = peer.encoder.albert_layer_groups[layer * 14 // 18].albert_layers[0](state, None)
    np.testing.assert_allclose(ours, state.numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("spec", ["gpt_neox", "phi"])
def test_how_much_of_a_head_turns(spec: str) -> None:
    sizes = {"hidden_size": 50, "num_attention_heads": 1}
    for share, wanted, ours in ((0.58, 28, 29), (1 / 3, 16, 16), (0.29, 14, 14)):
        config = Config(load_module(spec), {**sizes, "rope_parameters": {"partial_rotary_factor": share}})
        assert (int(50 * share), config.effective()["first"]) == (wanted, ours)
    thirds = Config(load_module(spec), {**sizes, "hidden_size": 3, "rope_parameters": {"partial_rotary_factor": 1 / 3}})
    assert thirds.effective()["first"] == int(3 * (1 / 3)) == 1


def test_the_token_that_modernbert_classifies(tmp_path: Path) -> None:
    folder, ids = saved(tmp_path, "ModernBertForSequenceClassification", config_of("ModernBert")), text()
    wanted = theirs(folder, "ModernBertForSequenceClassification", {"input_ids": ids}).logits.numpy()
    given = padded(ids, 2, 1)
    assert np.abs(theirs(folder, "ModernBertForSequenceClassification", given).logits.numpy() - wanted).max() > 1e-3
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["logits"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=1e-10)


def test_sparse_prediction(tmp_path: Path) -> None:
    config = config_of("ModernBert", sparse_prediction=True)
    folder, ids = saved(tmp_path, "ModernBertForMaskedLM", config), text()
    labels = np.where(np.arange(4) < 3, ids, -100)
    wanted = theirs(folder, "ModernBertForMaskedLM", {"input_ids": ids, "labels": labels})
    assert wanted.logits.shape == (3, 31)
    same_loss(folder, {"input_ids": ids, "labels": labels}, float(wanted.loss))
    found = transformula.load(folder, dtype="float64")(ids, labels=labels)["logits"]
    np.testing.assert_allclose(found[0, :3], wanted.logits.numpy(), rtol=0, atol=1e-10)


def test_places_with_given_embeddings(tmp_path: Path) -> None:
    folder = saved(tmp_path, "RobertaModel", config_of("Roberta"))
    words = np.random.default_rng(0).standard_normal((1, 4, 12))
    wanted = theirs(folder, "RobertaModel", {"inputs_embeds": words}).last_hidden_state.numpy()[0]
    given = {"inputs_embeds": np.pad(words, ((0, 0), (3, 0), (0, 0))), "attention_mask": np.array([[0] * 3 + [1] * 4])}
    assert np.abs(theirs(folder, "RobertaModel", given).last_hidden_state.numpy()[0, 3:] - wanted).max() > 1e-3
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["last_hidden_state"]
        np.testing.assert_allclose(np.asarray(found)[0, 3:], wanted, rtol=0, atol=1e-10)


def llama(kind: str = "LlamaModel", **more: Any) -> Any:
    return getattr(transformers, kind).config_class(**{**LLAMA, "head_dim": 4, **more})


def test_how_far_a_text_reaches(tmp_path: Path) -> None:
    """A long text changes what the library makes of a short one, beside it and after it."""
    rotation = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 9.0}
    folder = saved(tmp_path, "LlamaModel", llama(rope_parameters=rotation))
    short, long = text(6), batch(31)["input_ids"][1:2]
    mask = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]])
    both = {"input_ids": np.concatenate([np.pad(short, ((0, 0), (0, 1))), long]), "attention_mask": mask}
    wanted = theirs(folder, "LlamaModel", {"input_ids": short}).last_hidden_state.numpy()[0]
    assert np.abs(theirs(folder, "LlamaModel", both).last_hidden_state.numpy()[0, :6] - wanted).max() > 1e-3
    peer = transformers.LlamaModel.from_pretrained(folder, dtype=torch.float64)
    peer(torch.from_numpy(long))
    assert np.abs(peer(torch.from_numpy(short)).last_hidden_state.detach().numpy()[0] - wanted).max() > 1e-3
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        for given in (both, {"input_ids": short}):
            found = np.asarray(model(**given)["last_hidden_state"])[0, :6]
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_angles_of_rotation(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = saved(tmp_path, "LlamaModel", llama(rope_parameters={"rope_type": "default", "rope_theta": 1.5}))
    given = {"input_ids": text(), "position_ids": 30_000 + np.array([[0, 1, 2_000, 2_003]])}
    wide = theirs(folder, "LlamaModel", {**given, "attention_mask": np.ones((1, 4), int)}).last_hidden_state.numpy()
    request.getfixturevalue("monkeypatch").undo()
    narrow = theirs(folder, "LlamaModel", {**given, "attention_mask": np.ones((1, 4), int)}).last_hidden_state.numpy()
    assert np.abs(narrow - wide).max() > 1e-4
    for backend in BACKENDS:
        found = np.asarray(transformula.load(folder, backend=backend, dtype="float64")(**given)["last_hidden_state"])
        np.testing.assert_allclose(found, wide, rtol=0, atol=1e-10)


def test_positions_that_break_off(tmp_path: Path) -> None:
    folder = saved(tmp_path, "LlamaModel", llama())
    given = {"input_ids": text(), "position_ids": np.array([[0, 1, 0, 1]])}
    whole = {**given, "attention_mask": np.ones((1, 4), int)}
    wanted = theirs(folder, "LlamaModel", whole).last_hidden_state.numpy()
    apart = theirs(folder, "LlamaModel", given, use_cache=False).last_hidden_state.numpy()
    assert np.abs(apart - wanted).max() > 1e-3
    for backend in BACKENDS:
        found = np.asarray(transformula.load(folder, backend=backend, dtype="float64")(**given)["last_hidden_state"])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_class_of_a_text_with_hidden_tokens(tmp_path: Path) -> None:
    kind = "LlamaForSequenceClassification"
    folder = saved(tmp_path, kind, llama(kind, pad_token_id=0))
    wanted = theirs(folder, kind, {"input_ids": text()}).logits.numpy()
    hidden = padded(text(), 0, 2)  # other tokens than padding's
    assert np.abs(theirs(folder, kind, hidden).logits.numpy() - wanted).max() > 1e-3
    for backend in BACKENDS:
        found = np.asarray(transformula.load(folder, backend=backend, dtype="float64")(**hidden)["logits"])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_the_factor_of_gemma_s_embeddings(tmp_path: Path) -> None:
    folder = saved(tmp_path, "GemmaModel", llama("GemmaModel"))
    peer = transformers.GemmaModel.from_pretrained(folder, dtype=torch.bfloat16)
    row = peer.embed_tokens.weight[3]
    wanted, ours = peer.embed_tokens(torch.tensor([3]))[0], (row.double() * math.sqrt(12)).bfloat16()
    torch.testing.assert_close(wanted, row * torch.tensor(math.sqrt(12), dtype=torch.bfloat16), rtol=0, atol=0)
    assert not torch.equal(wanted, ours)
    model = transformula.load(folder, backend="torch", dtype="bfloat16")
    found = model(input_ids=[[3]], output_hidden_states=True)["hidden_states"][0][0, 0]
    torch.testing.assert_close(found, ours, rtol=0, atol=0)


def test_an_empty_source(tmp_path: Path) -> None:
    """A source of one hidden token, which the library's T5 attends to after all, and none at all."""
    folder = saved(tmp_path, "T5ForConditionalGeneration", test_t5.config())
    given = {"input_ids": np.array([[7]]), "attention_mask": np.array([[0]]), "decoder_input_ids": text()}
    wanted = theirs(folder, "T5ForConditionalGeneration", given).logits.numpy()
    zeros = {"encoder_outputs": (torch.zeros((1, 1, 12), dtype=torch.float64),)}  # its values are 0: no map has a bias
    nothing = theirs(folder, "T5ForConditionalGeneration", {"decoder_input_ids": text()}, **zeros).logits.numpy()
    assert np.abs(wanted - nothing).max() > 1e-3
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["logits"]
        np.testing.assert_allclose(np.asarray(found), nothing, rtol=0, atol=1e-10)


def test_decoder_ids_of_a_text_padded_on_the_left(tmp_path: Path) -> None:
    folder, ids = saved(tmp_path, "BartModel", test_bart.config(max_position_embeddings=16)), text()
    wanted = theirs(folder, "BartModel", {"input_ids": ids}).last_hidden_state.numpy()[0]
    shifted = theirs(folder, "BartModel", padded(ids, 3, 0)).last_hidden_state.numpy()[0, 3:]
    assert np.abs(shifted - wanted).max() > 1e-3
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**padded(ids, 3, 2))["last_hidden_state"]
        np.testing.assert_allclose(np.asarray(found)[0, 3:7], wanted, rtol=0, atol=1e-10)


def test_ends_of_texts(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BartForSequenceClassification", test_bart.config())
    ids = np.array([[4, 2, 5, 2], [6, 7, 2, 8]])
    with pytest.raises(ValueError, match="same number of <eos>"):
        theirs(folder, "BartForSequenceClassification", {"input_ids": ids})
    rows = [theirs(folder, "BartForSequenceClassification", {"input_ids": ids[n : n + 1]}).logits for n in range(2)]
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(ids)["logits"]
        np.testing.assert_allclose(np.asarray(found), torch.cat(rows).numpy(), rtol=0, atol=1e-10)
    with pytest.raises(TransformulaError, match="reads an entry that does not exist"):
        transformula.load(folder)(ids[:, ::3] + 1)
