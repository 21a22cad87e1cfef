"""specs/gpt2.formula against the library's GPT-2."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.peers import MASK, Array, agree, batch, names_match, saved, with_memory
from tests.specs.test_losses import BACKENDS, close, theirs
from transformula import TransformulaError

TINY: dict[str, Any] = {
    "vocab_size": 31,
    "n_embd": 12,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
MODELS: dict[str, dict[str, Any]] = {
    "GPT2Model": {},
    "GPT2LMHeadModel": {},
    "GPT2ForSequenceClassification": {"num_labels": 3, "pad_token_id": 7},
    "GPT2ForTokenClassification": {"num_labels": 5},
    "GPT2ForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {"tie_word_embeddings": False, "n_inner": 5},
    {"scale_attn_by_inverse_layer_idx": True, "activation_function": "gelu"},
    {"scale_attn_weights": False, "activation_function": "relu", "layer_norm_epsilon": 0.5},
    {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "n_layer": 4},
    {"reorder_and_upcast_attn": False, "n_head": 1, "n_embd": 7, "activation_function": "silu"},
    {"n_head": 12, "n_positions": 7, "activation_function": "quick_gelu"},
    {"n_layer": 1, "n_inner": 1, "vocab_size": 5, "activation_function": "tanh"},
    {"n_embd": 1, "n_head": 1, "layer_norm_epsilon": 1e-12, "activation_function": "gelu_pytorch_tanh"},
    {"n_layer": 0},
    {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5, "activation_function": "swish"},
]


def folder_of(path: Path, kind: str, **more: Any) -> Path:
    return saved(path, kind, transformers.GPT2Config(**{**TINY, **more}))


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path, kind, **MODELS[kind])
    names_match(folder)
    agree(folder, kind, batch(31))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, "GPT2LMHeadModel", **more)
    agree(folder, "GPT2LMHeadModel", batch(more.get("vocab_size", 31)))


CROSSED: list[dict[str, Any]] = [
    {},
    {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False, "n_inner": 9},
    {"n_layer": 1, "n_head": 1, "tie_word_embeddings": False, "activation_function": "relu"},
]


@pytest.mark.parametrize("more", CROSSED, ids=str)
def test_crossed(tmp_path: Path, more: dict[str, Any]) -> None:
    """With the states of another text, which has a length and a mask of its own."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel", add_cross_attention=True, **more)
    names_match(folder)
    agree(folder, "GPT2LMHeadModel", with_memory(batch(31)))


@pytest.mark.parametrize("pad", [None, 0, -1])
def test_the_last_token_that_is_no_padding(tmp_path: Path, pad: int | None) -> None:
    """It is found by its id; in a text of padding alone it is the first one, without such an id the last one of all."""
    folder = folder_of(tmp_path, "GPT2ForSequenceClassification", pad_token_id=pad, num_labels=2)
    ids = np.array([[5, 6, 4, 7, 0], [4, 4, 8, 0, 0], [0, 0, 0, 0, 0], [4, 4, 4, 4, 4], [1, 2, 3, 4, 5]])
    agree(folder, "GPT2ForSequenceClassification", {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    model = transformula.load(folder, dtype="float64")
    words = load_file(folder / "model.safetensors")["transformer.wte.weight"].astype(float)[ids]
    last = transformula.load(folder, dtype="float64", entry="GPT2Model")(ids)["last_hidden_state"][:, -1]
    wanted = last @ load_file(folder / "model.safetensors")["score.weight"].T.astype(float)
    np.testing.assert_allclose(model(inputs_embeds=words)["logits"], wanted, rtol=0, atol=1e-10)


def test_segments_are_rows_of_the_tokens_table(tmp_path: Path) -> None:
    """Those that are given are added; where none are, nothing is."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel")
    agree(folder, "GPT2LMHeadModel", batch(31, types=31))
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        plain, none = model([[3, 4]])["logits"], model([[3, 4]], token_type_ids=[[-1, -1]])["logits"]
        np.testing.assert_array_equal(np.asarray(plain), np.asarray(none))
        if backend != "torch":
            with pytest.raises((TransformulaError, ValueError), match="does not exist"):
                model([[3, 4]], token_type_ids=[[0, 31]])


def test_given_positions_and_one_row(tmp_path: Path) -> None:
    """position_ids win, and they neither hide nor show a token; the last row alone is the last row of all."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel")
    given = {"input_ids": batch(31)["input_ids"][:2], "position_ids": np.array([[3, 1, 4, 1, 5, 9, 2]] * 2)}
    wanted = theirs(folder, "GPT2LMHeadModel", given).logits.numpy()
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["logits"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=1e-10)
        last = transformula.load(folder, backend=backend, dtype="float64", rows={"logits": "last"})(**given)["logits"]
        np.testing.assert_allclose(np.asarray(last), wanted[:, -1], rtol=0, atol=1e-10)


def test_scores_in_float32_change_nothing_but_rounding(tmp_path: Path) -> None:
    """reorder_and_upcast_attn is about numbers of half width; the library knows it in its eager attention only."""
    folder = folder_of(tmp_path, "GPT2Model", reorder_and_upcast_attn=True)
    model = transformula.load(folder, dtype="float64")
    assert model.unused_config_keys == []
    ids = batch(31)["input_ids"][:1]
    for attention, dtype, bound in (("sdpa", torch.float64, 1e-10), ("eager", torch.float32, 1e-4)):
        peer = transformers.GPT2Model.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()
        with torch.inference_mode():
            wanted = peer(torch.from_numpy(ids)).last_hidden_state.numpy()
        np.testing.assert_allclose(model(ids)["last_hidden_state"], wanted, rtol=0, atol=bound)


# ------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_prefixes(tmp_path: Path, tied: bool, prefix: str) -> None:
    """Old files have no prefix, and the buffers of their masks."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel", tie_word_embeddings=tied)
    wanted = transformula.load(folder)([[1, 2]])["logits"]
    path = folder / "model.safetensors"
    stored = {prefix + name.removeprefix("transformer."): value for name, value in load_file(path).items()}
    if not tied:
        stored["lm_head.weight"] = stored.pop(f"{prefix}lm_head.weight")
    for layer in range(3):
        stored[f"{prefix}h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 16, 16), np.float32))
        stored[f"{prefix}h.{layer}.attn.masked_bias"] = np.array(-1e4, np.float32)
    save_file(stored, path)
    model = transformula.load(folder)
    np.testing.assert_array_equal(model([[1, 2]])["logits"], wanted)
    base = transformula.load(folder, entry="GPT2Model", strict=tied)
    assert set(base([[1, 2]])) == {"last_hidden_state"}
    assert model.unused_weights == []


def test_a_tied_head_that_is_stored_all_the_same(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "GPT2LMHeadModel")
    wanted = transformula.load(folder)([[1, 2]])["logits"]
    stored = load_file(folder / "model.safetensors")
    save_file({**stored, "lm_head.weight": stored["transformer.wte.weight"]}, folder / "model.safetensors")
    np.testing.assert_array_equal(transformula.load(folder)([[1, 2]])["logits"], wanted)
    save_file({**stored, "lm_head.weight": stored["transformer.wte.weight"] + 1}, folder / "model.safetensors")
    with pytest.raises(TransformulaError, match=r"'lm_head.weight' are both gpt2.E, one weight"):
        transformula.load(folder)


def test_a_weight_that_lies_the_other_way_is_told(tmp_path: Path) -> None:
    """c_attn is [in, out], unlike the weights of other models."""
    folder = folder_of(tmp_path, "GPT2Model")
    stored = load_file(folder / "model.safetensors")
    name = "h.1.attn.c_attn.weight"
    save_file({**stored, name: np.ascontiguousarray(stored[name].T)}, folder / "model.safetensors")
    with pytest.raises(TransformulaError, match=r"is \[36, 12\], .* wants \[d, \(parts head dk\)\] = \[12, 36\]"):
        transformula.load(folder)


# -------------------------------------------------------------------------------------------------------- losses


def labels(low: int = 0) -> Array:
    """Labels of tokens, some of them -100, as is all padding."""
    draw = np.random.default_rng(5)
    return np.where((draw.random(MASK.shape) < 0.7) & (MASK != 0), draw.integers(low, 31, MASK.shape), -100)


@pytest.mark.parametrize("tied", [True, False])
def test_causal_loss(tmp_path: Path, tied: bool) -> None:
    """Labels are those of the same places: the model moves them, and the last token foretells nothing."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel", tie_word_embeddings=tied)
    whole = {name: value[:2] for name, value in {**batch(31), "labels": labels()}.items()}
    wanted = theirs(folder, "GPT2LMHeadModel", whole).loss
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**whole)
        assert list(found) == ["loss", "logits"]
        np.testing.assert_allclose(float(found["loss"]), float(wanted), rtol=0, atol=1e-6)  # theirs is a float32
        logits = torch.as_tensor(found["logits"])[:, :-1].flatten(0, 1)
        exact = torch.nn.functional.cross_entropy(logits, torch.from_numpy(whole["labels"])[:, 1:].flatten())
        close(found["loss"], exact, backend)


HEADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a class": ({"num_labels": 3}, {"labels": [2, 0]}),
    "a number": ({"num_labels": 1}, {"labels": [0.3, -2.0]}),
    "numbers": ({"num_labels": 2, "problem_type": "regression"}, {"labels": [[0.3, 1.0], [-2.0, 0.5]]}),
    "truths": ({"num_labels": 2, "problem_type": "multi_label_classification"}, {"labels": [[0.0, 1.0], [1.0, 1.0]]}),
}


@pytest.mark.parametrize("name", HEADS)
def test_losses_of_texts(tmp_path: Path, name: str) -> None:
    keys, named = HEADS[name]
    folder = folder_of(tmp_path, "GPT2ForSequenceClassification", pad_token_id=7, **keys)
    ids = np.array([[1, 2, 3, 4, 5], [6, 8, 9, 7, 7]])
    whole = {"input_ids": ids, "attention_mask": (ids != 7).astype(int), "labels": np.array(named["labels"])}
    wanted = theirs(folder, "GPT2ForSequenceClassification", whole).loss
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**whole)["loss"], wanted, backend)


def test_loss_of_tokens(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "GPT2ForTokenClassification", num_labels=3)
    named = np.where(labels()[:2] < 0, -100, labels()[:2] % 3)
    given = {**{name: value[:2] for name, value in batch(31).items()}, "labels": named}
    wanted = theirs(folder, "GPT2ForTokenClassification", given).loss
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**given)["loss"], wanted, backend)


def test_loss_of_answers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "GPT2ForQuestionAnswering")
    places = {"start_positions": np.array([1]), "end_positions": np.array([5])}
    given = {"input_ids": batch(31)["input_ids"][:1], **places}
    wanted = theirs(folder, "GPT2ForQuestionAnswering", given).loss
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**given)["loss"], wanted, backend)


@pytest.mark.parametrize("kind", ["GPT2Model", "GPT2LMHeadModel"])
def test_states_and_attention(tmp_path: Path, kind: str) -> None:
    """The last state is the one behind the final norm."""
    crossed = kind == "GPT2LMHeadModel"
    folder = folder_of(tmp_path, kind, add_cross_attention=crossed)
    given = {name: value[:2] for name, value in (with_memory(batch(31)) if crossed else batch(31)).items()}
    wanted = theirs(folder, kind, given, output_hidden_states=True, output_attentions=True)
    names = ("hidden_states", "attentions", *(["cross_attentions"] if crossed else []))
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        assert model.shows == names
        found = model(**given, outputs=[*names, "last_hidden_state"] if kind == "GPT2Model" else names)
        for name in names:
            for ours, other in zip(found[name], wanted[name], strict=True):
                for row, (length, source) in enumerate(((7, 5), (4, 2))):
                    seen = {"attentions": length, "cross_attentions": source}.get(name)
                    place = (row, ..., slice(length), slice(seen))
                    np.testing.assert_allclose(np.asarray(ours)[place], other.numpy()[place], rtol=0, atol=1e-10)
        if kind == "GPT2Model":
            np.testing.assert_allclose(np.asarray(found["hidden_states"][-1]), np.asarray(found["last_hidden_state"]))


def test_states_of_no_layer(tmp_path: Path) -> None:
    """There is one state, behind the norm; an initialiser that divides by the number of layers is nobody's."""
    folder = folder_of(tmp_path, "GPT2Model", n_layer=0)
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend)([[1, 2]], output_hidden_states=True, output_attentions=True)
        (only,) = found["hidden_states"]
        np.testing.assert_allclose(np.asarray(only), np.asarray(found["last_hidden_state"]))
        assert len(found["attentions"]) == 0


def test_given_embeddings(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "GPT2LMHeadModel")
    words = np.random.default_rng(3).standard_normal((2, 7, 12))
    given = {"inputs_embeds": words, "attention_mask": MASK[:2], "token_type_ids": batch(31)["input_ids"][:2]}
    wanted = theirs(folder, "GPT2LMHeadModel", given).logits
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given)["logits"]
        for row, length in enumerate((7, 4)):
            close(found[row, :length], wanted[row, :length], backend)


def test_loss_of_nothing(tmp_path: Path) -> None:
    """A text of one token foretells nothing."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel")
    for backend in BACKENDS:
        assert float(transformula.load(folder, backend=backend)([[3]], labels=[[3]])["loss"]) == 0


def test_labels_are_never_rounded(tmp_path: Path) -> None:
    """In a module of half width, too: 999 is no number of bfloat16."""
    folder = folder_of(tmp_path, "GPT2LMHeadModel", vocab_size=1000)
    model = transformula.load(folder, backend="torch", dtype="bfloat16")
    ids = np.array([[3, 999, 998, 997]])
    found = model(ids, labels=ids)
    wanted = torch.nn.functional.cross_entropy(found["logits"][0, :-1].double(), torch.tensor([999, 998, 997]))
    assert abs(float(found["loss"]) - float(wanted)) < 0.02 * float(wanted)
