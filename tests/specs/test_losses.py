"""Losses, states, attention weights and given embeddings of every head, against the library, on every backend."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

import transformula
from tests.specs.configs import TINY
from tests.specs.peers import MASK, batch, change_config, saved
from transformula import TransformulaError

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("no_islands")
BACKENDS = ("reference", "numpy", "torch")
SMALL = {**TINY, "num_hidden_layers": 3, "num_labels": 3}
NARROW = {**SMALL, "embedding_size": 6}
CONFIGS: dict[str, Any] = {
    "Bert": transformers.BertConfig(**SMALL),
    "Roberta": transformers.RobertaConfig(**SMALL, pad_token_id=1),
    "Electra": transformers.ElectraConfig(**NARROW),
    "Albert": transformers.AlbertConfig(**{**NARROW, "inner_group_num": 2, "num_hidden_groups": 3}),
    "DistilBert": transformers.DistilBertConfig(
        vocab_size=31, dim=12, n_layers=3, n_heads=3, hidden_dim=20, max_position_embeddings=16, num_labels=3
    ),
    "MPNet": transformers.MPNetConfig(**{k: v for k, v in SMALL.items() if k != "type_vocab_size"}, pad_token_id=1),
    "DebertaV2": transformers.DebertaV2Config(
        **SMALL,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=4,
        conv_kernel_size=3,
        conv_act="gelu",
    ),
    "Deberta": transformers.DebertaConfig(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "ModernBert": transformers.ModernBertConfig(
        **{k: v for k, v in SMALL.items() if k != "type_vocab_size"}, local_attention=2, pad_token_id=1
    ),
}
WITHOUT_SEGMENTS = ("DistilBert", "MPNet", "ModernBert", "Roberta")
ROWS = (0, 1)
"""Examples that are padded on the right only: the library's losses count what stands on the left of others."""


def given(kind: str) -> dict[str, Array]:
    low = 2 if kind in ("Roberta", "MPNet") else 0  # the id of padding is no token's
    whole = batch(31, 0 if kind in WITHOUT_SEGMENTS else 2, low)
    return {name: value[: len(ROWS)] for name, value in whole.items()}


def labels(head: str) -> dict[str, Array]:
    """Labels of every kind; at padding and at some tokens -100."""
    draw = np.random.default_rng(5)
    mask = MASK[: len(ROWS)] != 0
    tokens = np.where((draw.random(mask.shape) < 0.6) & mask, draw.integers(0, 31, mask.shape), -100)
    classes = np.array([2, 0])
    match head:
        case "ForMaskedLM":
            return {"labels": tokens}
        case "ForTokenClassification":
            return {"labels": np.where(tokens == -100, -100, tokens % 3)}
        case "ForQuestionAnswering":
            return {"start_positions": np.array([1, 0]), "end_positions": np.array([5, 3])}
        case "ForNextSentencePrediction":
            return {"labels": np.array([1, 0])}
        case "BertForPreTraining":
            return {"labels": tokens, "next_sentence_label": np.array([1, 0])}
        case "AlbertForPreTraining":
            return {"labels": tokens, "sentence_order_label": np.array([1, 0])}
        case "ElectraForPreTraining":
            return {"labels": (tokens % 2) * mask}
    return {"labels": classes}


HEADS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
CASES = [
    *((kind, head) for kind in CONFIGS for head in HEADS),
    ("Bert", "ForNextSentencePrediction"),
    *((kind, "ForPreTraining") for kind in ("Bert", "Albert", "Electra")),
]


def theirs(folder: Path, name: str, inputs: dict[str, Array], **more: Any) -> Any:
    """The library's results in float64 for a batch that is padded on the right."""
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    model.eval()
    with torch.inference_mode():
        return model(**{key: torch.from_numpy(np.array(value)) for key, value in inputs.items()}, **more)


def close(ours: Any, wanted: Any, what: str) -> None:
    """Alike to ten digits; the library computes ELECTRA's loss in float32."""
    bound = 1e-10 if wanted.dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(np.asarray(ours), wanted.numpy(), rtol=0, atol=bound, err_msg=what)


def config_of(kind: str, head: str = "", **more: Any) -> Any:
    """The tiny config; two labels for heads that have no other number of them."""
    two = {"num_labels": 2} if head in ("ForQuestionAnswering", "ForPreTraining") else {}
    keys = {key: value for key, value in CONFIGS[kind].to_dict().items() if key not in ("id2label", "label2id")}
    return type(CONFIGS[kind])(**{**keys, "num_labels": 3, **two, **more})


@pytest.mark.parametrize(("kind", "head"), CASES, ids=lambda one: one)
def test_loss(tmp_path: Path, kind: str, head: str) -> None:
    folder = saved(tmp_path, kind + head, config_of(kind, head))
    named = labels(kind + head if head == "ForPreTraining" else head)
    whole = {**given(kind), **named}
    if head == "ForQuestionAnswering":  # the library's softmax counts padding: examples one at a time
        rows = [{name: one[n : n + 1, ...] for name, one in whole.items()} for n in range(2)]
        short = {name: one[:, :4] if one.ndim > 1 else one for name, one in rows[1].items()}
        wanted = torch.stack([theirs(folder, kind + head, row).loss for row in (rows[0], short)]).mean()
    else:
        wanted = theirs(folder, kind + head, whole).loss
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**whole)
        assert next(iter(found)) == "loss"
        assert "logits" in found or "start_logits" in found or "prediction_logits" in found
        close(found["loss"], wanted, backend)
        assert set(model(**given(kind))) == set(found) - {"loss"}


PROBLEMS: dict[str, tuple[int, str | None, Any]] = {
    "a number": (1, None, [0.3, -2.0]),
    "a number in a row": (1, None, [[0.3], [-2.0]]),
    "numbers": (3, "regression", [[0.3, 1.0, 2.0], [-2.0, 0.0, 0.5]]),
    "a class": (3, None, [2, 0]),
    "a class, said": (3, "single_label_classification", [1, 1]),
    "truths": (3, "multi_label_classification", [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DebertaV2"])
def test_kinds_of_labels(tmp_path: Path, name: str, kind: str) -> None:
    count, problem, wished = PROBLEMS[name]
    config = config_of(kind, num_labels=count, problem_type=problem)
    folder = saved(tmp_path, f"{kind}ForSequenceClassification", config)
    inputs = {**given(kind), "labels": np.array(wished)}
    wanted = theirs(folder, f"{kind}ForSequenceClassification", inputs).loss
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**inputs)["loss"], wanted, backend)


def test_loss_does_not_depend_on_padding(tmp_path: Path) -> None:
    """The law: what stands at padding, its labels included, and on which side, changes nothing."""
    folder = saved(tmp_path, "BertForMaskedLM", CONFIGS["Bert"])
    inputs, named = given("Bert"), labels("ForMaskedLM")["labels"]
    moved = {name: np.concatenate([np.full((2, 3), 30), value], axis=1) for name, value in inputs.items()}
    moved["attention_mask"][:, :3] = 0
    moved["token_type_ids"][:, :3] = 0
    other = np.where(moved["attention_mask"] != 0, np.concatenate([np.full((2, 3), 7), named], axis=1), 12)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        here, there = model(**inputs, labels=named)["loss"], model(**moved, labels=other)["loss"]
        assert abs(float(here) - float(there)) < 1e-13
        nothing = model(**inputs, labels=np.full_like(named, -100))["loss"]
        assert float(nothing) == 0  # the mean over nothing


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a name": ("ForMaskedLM", {"label": [[1]]}, "no input 'label': did you mean labels"),
    "a class": ("ForSequenceClassification", {"labels": [3, 0]}, "labels holds 3, labels are 0 … 2, or -100"),
    "below": ("ForSequenceClassification", {"labels": [-1, 0]}, "labels holds -1"),
    "a half": ("ForSequenceClassification", {"labels": [0.5, 0]}, "labels should be whole numbers"),
    "of another batch": ("ForSequenceClassification", {"labels": [1]}, "labels has 1 along batch, input_ids has 2"),
    "a shape": ("ForMaskedLM", {"labels": [1, 2]}, r"a loss takes labels\[batch, seq\], not labels of shape \[2\]"),
    "half of them": ("ForQuestionAnswering", {"start_positions": [1, 2]}, "start_positions.* with end_positions"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_labels_are_told(tmp_path: Path, name: str, backend: str) -> None:
    head, named, told = WRONG[name]
    model = transformula.load(saved(tmp_path, "Bert" + head, config_of("Bert", head)), backend=backend)
    with pytest.raises(TransformulaError, match=told):
        model(**given("Bert"), **named)


def test_gradient_of_the_loss(tmp_path: Path) -> None:
    """The module in training mode is differentiated as the library's is, which keeps the row of padding as it is."""
    config = transformers.BertConfig(**SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    folder = saved(tmp_path, "BertForMaskedLM", config)
    tensors = {name: torch.from_numpy(value) for name, value in {**given("Bert"), **labels("ForMaskedLM")}.items()}
    peer = transformers.BertForMaskedLM.from_pretrained(folder, dtype=torch.float64).train()
    peer(**tensors).loss.backward()
    model = transformula.load(folder, backend="torch", dtype="float64")
    model.module.train()(**tensors)["loss"].backward()
    ours = model.module.bert_embed_E.grad
    wanted = peer.bert.embeddings.word_embeddings.weight.grad
    assert float(wanted.abs().max()) > 1e-3
    torch.testing.assert_close(ours[1:], wanted[1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_wrong_label_makes_the_module_s_loss_nan(tmp_path: Path, layout: str) -> None:
    """A module takes no branch on values, so it cannot raise; it must not guess either."""
    folder = saved(tmp_path, "BertForMaskedLM", CONFIGS["Bert"])
    module = transformula.load(folder, backend="torch", layout=layout).module
    tensors = {name: torch.from_numpy(value) for name, value in {**given("Bert"), **labels("ForMaskedLM")}.items()}
    right = module(**tensors)["loss"]
    right.backward()
    assert torch.isfinite(right)
    assert all(torch.isfinite(one.grad).all() for one in module.parameters() if one.grad is not None)
    for wrong in (31, -1):
        named = tensors["labels"].clone()
        named[0, 0] = wrong
        assert torch.isnan(module(**{**tensors, "labels": named})["loss"])
    named = tensors["labels"].clone()
    named[1, 5] = 99  # at padding
    torch.testing.assert_close(module(**{**tensors, "labels": named})["loss"], right, rtol=0, atol=0)


# ------------------------------------------------------------------------------------------------ results on demand


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("head", ["Model", "ForTokenClassification"])
def test_states_and_attention(tmp_path: Path, kind: str, head: str) -> None:
    folder, inputs = saved(tmp_path, kind + head, CONFIGS[kind]), given(kind)
    wanted = theirs(folder, kind + head, inputs, output_hidden_states=True, output_attentions=True)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**inputs, output_hidden_states=True, output_attentions=True)
        plain = model(**inputs)
        assert set(found) == {*plain, "hidden_states", "attentions"}
        for name, value in plain.items():
            np.testing.assert_allclose(np.asarray(found[name]), np.asarray(value), rtol=0, atol=1e-12)
        for name in ("hidden_states", "attentions"):
            assert len(found[name]) == len(wanted[name])
            for step, (ours, other) in enumerate(zip(found[name], wanted[name], strict=True)):
                for row, length in enumerate((7, 4)):
                    place = (row, ..., slice(length), slice(length if name == "attentions" else None))
                    what = f"{name}[{step}] of example {row} by {backend}"
                    np.testing.assert_allclose(np.asarray(ours)[place], other.numpy()[place], atol=1e-10, err_msg=what)


def test_states_by_name_and_by_config(tmp_path: Path) -> None:
    folder, inputs = saved(tmp_path, "BertModel", CONFIGS["Bert"]), given("Bert")
    model = transformula.load(folder)
    assert model.shows == ("hidden_states", "attentions")
    assert list(model(**inputs, outputs=["hidden_states"])) == ["hidden_states"]
    assert "hidden_states" not in model(**inputs, output_hidden_states=False)
    with pytest.raises(TransformulaError, match=r"no result `hidden_state`.*\n.*hidden_states"):
        model(**inputs, outputs=["hidden_state"])
    change_config(folder, output_hidden_states=True)
    model = transformula.load(folder)
    assert "hidden_states" in model(**inputs)
    assert "hidden_states" not in model(**inputs, output_hidden_states=False)


def test_states_of_a_trained_module(tmp_path: Path) -> None:
    """The module with results on demand has the parameters of the one without them, not a copy."""
    folder, inputs = saved(tmp_path, "BertModel", CONFIGS["Bert"]), given("Bert")
    model = transformula.load(folder, backend="torch", dtype="float64")
    before = model(**inputs, output_hidden_states=True)["hidden_states"][-1].clone()
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.5)
    found = model(**inputs, output_hidden_states=True)
    assert float((found["hidden_states"][-1] - before).abs().max()) > 1e-3
    torch.testing.assert_close(found["hidden_states"][-1], found["last_hidden_state"], rtol=0, atol=0)


# -------------------------------------------------------------------------------------------------- given embeddings


@pytest.mark.parametrize("kind", CONFIGS)
def test_given_embeddings(tmp_path: Path, kind: str) -> None:
    folder, inputs = saved(tmp_path, f"{kind}ForMaskedLM", CONFIGS[kind]), given(kind)
    width = {"Electra": 6, "Albert": 6}.get(kind, 12)
    words = np.random.default_rng(3).standard_normal((*inputs["input_ids"].shape, width))
    changed = {name: value for name, value in inputs.items() if name != "input_ids"} | {"inputs_embeds": words}
    wanted = theirs(folder, f"{kind}ForMaskedLM", changed).logits
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**changed)["logits"]
        for row, length in enumerate((7, 4)):
            close(found[row, :length], wanted[row, :length], backend)
        ids = transformula.load(folder, backend="reference").program.compiled.formula
        assert next(one for one in ids.inputs if one.name == "input_ids").instead == "inputs_embeds"
        with pytest.raises(TransformulaError, match=r"'input_ids' is missing .inputs_embeds can stand in for it"):
            model(attention_mask=inputs["attention_mask"])


def test_a_pass_does_not_swallow_what_is_shown(tmp_path: Path) -> None:
    """Attention is one fused kernel, unless its weights are asked for; the ledger says why it is not."""
    folder = saved(tmp_path, "BertModel", CONFIGS["Bert"])
    plain = transformula.load(folder).program
    assert any(line.rule == "attention" and line.fired for line in plain.ledger.lines)
    program = transformula.compile("bert", config=transformula.load(folder).config, shows=["attentions"])
    (line,) = (line for line in program.ledger.lines if line.rule == "attention")
    assert not line.fired
    assert "read elsewhere" in line.reason
