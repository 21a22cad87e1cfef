"""What the tests of several specs need."""

import types
from typing import Any

import pytest
import torch
from transformers import modeling_rope_utils
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.gemma import modeling_gemma
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.marian import modeling_marian
from transformers.models.mistral import modeling_mistral
from transformers.models.modernbert import modeling_modernbert
from transformers.models.phi import modeling_phi
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.t5 import modeling_t5

WITH_ROTATION = (
    modeling_rope_utils,
    modeling_llama,
    modeling_mistral,
    modeling_qwen2,
    modeling_qwen3,
    modeling_gemma,
    modeling_gemma2,
    modeling_gpt_neox,
    modeling_modernbert,
    modeling_phi,
)
"""Modules of the library that compute norms, softmax and angles in float32, whatever the model's numbers are."""


class Wide(types.ModuleType):
    """torch, in which float32 means float64."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


@pytest.fixture
def no_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library keeps float32 in its float64 models: DeBERTa in √(s · d), and version 1 in its norms, as does T5;
    Llama and its kin in norms, softmax and rotation. All are widened here, so that we can compare to 1e-10."""

    def root(query: torch.Tensor, factor: int) -> torch.Tensor:
        return torch.sqrt(torch.tensor(query.size(-1), dtype=torch.float64) * factor).to(query.dtype)

    def norm(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)

    def rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))
        return made

    plain = torch.Tensor.float

    def widened(self: torch.Tensor) -> torch.Tensor:
        return plain(self) if self.dtype in (torch.float16, torch.bfloat16, torch.float32) else self.double()

    plain_dynamic = modeling_rope_utils.ROPE_INIT_FUNCTIONS["dynamic"]

    def dynamic(config: Any, device: Any = None, seq_len: Any = None, **more: Any) -> Any:
        return plain_dynamic(config, device, None if seq_len is None else int(seq_len), **more)

    monkeypatch.setitem(modeling_rope_utils.ROPE_INIT_FUNCTIONS, "dynamic", dynamic)
    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", rms_norm)
    monkeypatch.setattr(modeling_deberta, "scaled_size_sqrt", root)
    monkeypatch.setattr(modeling_deberta_v2, "scaled_size_sqrt", root)
    monkeypatch.setattr(modeling_deberta.DebertaLayerNorm, "forward", norm)
    monkeypatch.setattr(torch.Tensor, "float", widened)
    for module in WITH_ROTATION:
        monkeypatch.setattr(module, "torch", Wide("torch"))


@pytest.fixture
def exact_sinusoids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marian's sinusoids are rounded to float32 even in float64 models: here they are not."""
    monkeypatch.setattr(modeling_marian.torch, "FloatTensor", torch.DoubleTensor)
