"""Load, train, save_pretrained, and the library reads the same model: for each architecture."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.configs import TINY
from tests.specs.peers import agree, batch, saved
from tests.specs.test_llama import TINY as LLAMA

NO_TYPES = {key: value for key, value in TINY.items() if key != "type_vocab_size"}
SIZES = {
    "MPNet": NO_TYPES,
    **{family: {**LLAMA, "head_dim": 4} for family in ("Llama", "Qwen2", "Gemma2")},
    "DistilBert": {"vocab_size": 31, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20},
    "GPT2": {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3},
    "OpenAIGPT": {"vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3},
    "ModernBert": {**NO_TYPES, "pad_token_id": 0, "local_attention": 4},
    "GPTNeoX": {**NO_TYPES, "hidden_size": 24},
    "Phi": {**NO_TYPES, "hidden_size": 24},
}
FAMILIES = ("Bert", "Roberta", "Electra", "Albert", "Deberta", "DebertaV2", "MPNet", "DistilBert", "ModernBert")
CASES = [
    *((family, head) for family in FAMILIES for head in ("Model", "ForMaskedLM")),
    *((family, head) for family in ("GPT2", "OpenAIGPT") for head in ("Model", "LMHeadModel")),
    *((family, "ForCausalLM") for family in ("Llama", "Qwen2", "Gemma2")),
    *((family, head) for family in ("GPTNeoX", "Phi") for head in ("Model", "ForCausalLM")),
]


@pytest.mark.usefixtures("no_islands")
@pytest.mark.parametrize(("family", "head"), CASES)
def test_round_trip(tmp_path: Path, family: str, head: str) -> None:
    """No key is missing or unexpected, the numbers have changed, and all results agree to 1e-10."""
    kind = family + head
    before = saved(tmp_path / "before", kind, getattr(transformers, f"{family}Config")(**SIZES.get(family, TINY)))
    model = transformula.load(before, backend="torch", dtype="float64")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    after = model.save_pretrained(tmp_path / "after")
    _, told = getattr(transformers, kind).from_pretrained(after, output_loading_info=True)
    assert not any(told[fault] for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    given = batch(9, low=4)
    name = "last_hidden_state" if head == "Model" else "logits"
    again = transformula.load(after, backend="torch", dtype="float64")(**given)[name].numpy()
    np.testing.assert_allclose(model(**given)[name].numpy(), again, rtol=0, atol=1e-4 * np.abs(again).max())
    assert np.abs(transformula.load(before)(**given)[name] - again).max() > 0.01
    agree(after, kind, given)
