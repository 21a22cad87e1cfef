"""What the tests of several specs need."""

from typing import Any

import pytest
import torch
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.t5 import modeling_t5


@pytest.fixture
def no_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeBERTa keeps float32 in its float64 models, in √(s · d), and version 1 in its norms, as does T5: they are widened
    here, so that all else can be compared to 1e-10."""
    def root(query: torch.Tensor, factor: int) -> torch.Tensor:
        return torch.sqrt(torch.tensor(query.size(-1), dtype=torch.float64) * factor).to(query.dtype)

    def norm(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)

    def rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))
        return made

    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", rms_norm)
    monkeypatch.setattr(modeling_deberta, "scaled_size_sqrt", root)
    monkeypatch.setattr(modeling_deberta_v2, "scaled_size_sqrt", root)
    monkeypatch.setattr(modeling_deberta.DebertaLayerNorm, "forward", norm)
