"""Losses, states, attention weights and given embeddings of Llama and its kin against the library, on every backend."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.peers import Array, saved
from tests.specs.test_llama import TINY
from tests.specs.test_losses import BACKENDS, close, given, labels, theirs
from transformula import TransformulaError

pytestmark = pytest.mark.usefixtures("no_islands")
SMALL = {**TINY, "head_dim": 4, "num_labels": 3, "pad_token_id": 30}
SLIDING = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
CONFIGS: dict[str, Any] = {
    "Llama": transformers.LlamaConfig(**SMALL),
    "Mistral": transformers.MistralConfig(**SMALL, sliding_window=3),
    "Qwen2": transformers.Qwen2Config(**SMALL, **SLIDING),
    "Qwen3": transformers.Qwen3Config(**SMALL, **SLIDING),
    "Gemma": transformers.GemmaConfig(**SMALL),
    "Gemma2": transformers.Gemma2Config(**SMALL, sliding_window=3),
}
CASES = [
    *((kind, "ForCausalLM") for kind in CONFIGS),
    ("Llama", "ForSequenceClassification"),
    ("Llama", "ForTokenClassification"),
    ("Llama", "ForQuestionAnswering"),
    ("Mistral", "ForQuestionAnswering"),
    ("Gemma2", "ForSequenceClassification"),
]
LENGTHS = (7, 4)


def inputs(head: str = "") -> dict[str, Array]:
    """Two texts, the second one padded on the right with the padding's id; and labels."""
    both = {name: value for name, value in given("Roberta").items() if name != "token_type_ids"}
    both["input_ids"] = np.where(both["attention_mask"] == 1, both["input_ids"] % 30, 30)
    return {**both, **labels("ForMaskedLM" if head == "ForCausalLM" else head)} if head else both


@pytest.mark.parametrize(("kind", "head"), CASES, ids=lambda one: one)
def test_loss(tmp_path: Path, kind: str, head: str) -> None:
    settled = {} if head != "ForQuestionAnswering" else {"num_labels": 2}
    folder = saved(tmp_path, kind + head, type(CONFIGS[kind])(**{**CONFIGS[kind].to_dict(), **settled}))
    whole = inputs(head)
    if head == "ForQuestionAnswering":  # the library's softmax counts padding: examples one at a time
        rows = [{name: one[n : n + 1, :length] if one.ndim > 1 else one[n : n + 1] for name, one in whole.items()}
                for n, length in enumerate(LENGTHS)]  # fmt: skip
        wanted = torch.stack([theirs(folder, kind + head, row).loss for row in rows]).mean()
    else:
        wanted = theirs(folder, kind + head, whole).loss
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**whole)
        assert next(iter(found)) == "loss"
        close(found["loss"], wanted, backend)


@pytest.mark.parametrize("kind", CONFIGS)
def test_states_and_attention(tmp_path: Path, kind: str) -> None:
    """The last state is the normed one; the weights have the library's order of heads."""
    folder, texts = saved(tmp_path, f"{kind}ForCausalLM", CONFIGS[kind]), inputs()
    wanted = theirs(folder, f"{kind}ForCausalLM", texts, output_hidden_states=True, output_attentions=True)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**texts, output_hidden_states=True, output_attentions=True)
        for name, square in (("hidden_states", False), ("attentions", True)):
            assert len(found[name]) == len(wanted[name])
            for ours, state in zip(found[name], wanted[name], strict=True):
                assert tuple(ours.shape) == tuple(state.shape)
                for row, length in enumerate(LENGTHS):
                    place = (row, slice(None), slice(length), slice(length)) if square else (row, slice(length))
                    close(ours[place], state[place], f"{name}, {backend}")


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_given_embeddings(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, CONFIGS["Llama"])
    words = {"inputs_embeds": np.random.default_rng(3).standard_normal((1, 5, 12))}
    wanted = theirs(folder, kind, words).logits
    for backend in BACKENDS:
        close(transformula.load(folder, backend=backend, dtype="float64")(**words)["logits"], wanted, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_label_is_told(tmp_path: Path, backend: str) -> None:
    """Labels are moved one place before they choose a token."""
    model = transformula.load(saved(tmp_path, "LlamaForCausalLM", CONFIGS["Llama"]), backend=backend)
    wrong = inputs("ForCausalLM")
    wrong["labels"][0, 3] = 31
    with pytest.raises(TransformulaError, match="labels holds 31, labels are 0 … 30, or -100"):
        model(**wrong)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_module_by_itself_gives_nan_for_a_wrong_label(tmp_path: Path, layout: str) -> None:
    folder = saved(tmp_path, "LlamaForCausalLM", CONFIGS["Llama"])
    module = transformula.load(folder, backend="torch", layout=layout).module
    tensors = {name: torch.from_numpy(value) for name, value in inputs("ForCausalLM").items()}
    assert torch.isfinite(module(**tensors)["loss"])
    tensors["labels"][0, 3] = 31
    assert torch.isnan(module(**tensors)["loss"])


def test_large_labels_keep_their_digits_in_half_precision(tmp_path: Path) -> None:
    """A label is a whole number, whatever the numbers of the model are: 300 and 301 are one number in bfloat16."""
    folder = saved(tmp_path, "LlamaForCausalLM", transformers.LlamaConfig(**{**SMALL, "vocab_size": 400}))
    module = transformula.load(folder, backend="torch", dtype="bfloat16").module
    ids = torch.tensor([[1, 2, 3]])
    logits = module(ids)["logits"].double()
    for label in (300, 301, 302):
        named = torch.tensor([[-100, label, -100]])
        wanted = -logits[0, 0].log_softmax(0)[label]
        assert abs(float(module(ids, labels=named)["loss"]) - float(wanted)) < 0.05
    assert float((logits[0, 0, 300] - logits[0, 0, 301]).abs()) > 0.1
