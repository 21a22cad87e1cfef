"""GPT-2's step as ONNX Runtime runs it: a decoder written by hand with its kept keys and values, exported to ONNX.

One graph takes new tokens and the rows that are kept, and gives the logits after the last token and all rows, as the
exporters for ONNX Runtime write it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[Any]


class Step(nn.Module):
    """(tokens[b, n], past[layer, 2, b, head, rows, dk]) → (logits[b, vocab], past with the new rows)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.transformer
        self.heads = model.config.n_head

    def forward(self, tokens: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        new, before = tokens.shape[1], past.shape[4]
        places = torch.arange(new) + before
        x = self.model.wte(tokens) + self.model.wpe(places)
        see = torch.arange(before + new) <= places[:, None]
        kept = []
        for number, layer in enumerate(self.model.h):
            attention = layer.attn
            parts = attention.c_attn(layer.ln_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            key = torch.cat([past[number, 0], parts[1]], 2)
            value = torch.cat([past[number, 1], parts[2]], 2)
            kept.append(torch.stack([key, value]))
            scores = parts[0] @ key.transpose(-1, -2) / 8.0
            shares = scores.masked_fill(~see, -1e9).softmax(-1)
            x = x + attention.c_proj((shares @ value).transpose(1, 2).flatten(2))
            x = x + layer.mlp.c_proj(F.gelu(layer.mlp.c_fc(layer.ln_2(x)), approximate="tanh"))
        last = self.model.ln_f(x[:, -1])
        return last @ self.model.wte.weight.T, torch.stack(kept)


def exported(path: Path) -> str:
    """The folder's model as a step in a file of ONNX."""
    model = transformers.GPT2LMHeadModel.from_pretrained(path).eval()
    width = model.config.n_embd // model.config.n_head
    past = torch.zeros(model.config.n_layer, 2, 2, model.config.n_head, 3, width)
    tokens = torch.ones(2, 2, dtype=torch.long)
    batch, new, rows = (torch.export.Dim(name, min=1, max=1024) for name in ("batch", "new", "rows"))
    shapes = {"tokens": {0: batch, 1: new}, "past": {2: batch, 4: rows}}
    target = str(Path(tempfile.mkdtemp()) / "step.onnx")
    torch.onnx.export(Step(model), (tokens, past), target, dynamo=True, dynamic_shapes=shapes, verbose=False)
    return target


def decoder(path: Path, ids: Array, new: int, threads: int) -> Callable[[], None]:
    """A run of greedy search over ONNX Runtime, the kept rows bound to its own memory."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(exported(path), options)
    first, second = (one.name for one in session.get_inputs())
    _, _, _, heads, _, width = session.get_inputs()[1].shape
    layers = session.get_inputs()[1].shape[0]

    def run() -> None:
        past, tokens = np.zeros((layers, 2, len(ids), heads, 0, width), np.float32), ids
        for _ in range(new):
            logits, past = session.run(None, {first: tokens, second: past})
            tokens = logits.argmax(-1)[:, None]

    return run
