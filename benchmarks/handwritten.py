"""all-MiniLM-L6-v2 by hand on the NumPy backend's kernels: the yardstick for generated code.

It does what a generated module should do. Weights are laid out once: [in, out] and contiguous, Q, K and V as
one matrix, 1/√dk inside it, the one token type inside the position table. A batch is packed, cut into chunks
of whole examples of about equal length, and each thread takes chunks through all layers in its own buffers,
with BLAS's threads off; biases, residuals and activations are added while a block is in the cache. A lone
chunk keeps BLAS's threads, as there is nothing else to divide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformula.backends.numpy.kernels import (
    attention,
    gelu,
    layer_norm,
    linear,
    pack,
    read_safetensors,
    run_parallel,
    scratch,
    segment_mean,
    split_examples,
)

Array = NDArray[Any]
HEADS, DK, D, FFN, EPS = 12, 32, 384, 1536, 1e-12


@dataclass(frozen=True)
class Layer:
    """One layer's weights, matrices as [in, out]."""

    W_QKV: Array
    b_QKV: Array
    W_O: Array
    b_O: Array
    gain_1: Array
    shift_1: Array
    W_1: Array
    b_1: Array
    W_2: Array
    b_2: Array
    gain_2: Array
    shift_2: Array


class MiniLM:
    """The encoder with mean pooling and unit length."""

    def __init__(self, folder: str | Path) -> None:
        weights = read_safetensors(Path(folder) / "model.safetensors")
        embeddings = "embeddings."
        self.words = weights[embeddings + "word_embeddings.weight"]
        self.positions = (
            weights[embeddings + "position_embeddings.weight"]
            + weights[embeddings + "token_type_embeddings.weight"][0]
        )
        self.gain = weights[embeddings + "LayerNorm.weight"]
        self.shift = weights[embeddings + "LayerNorm.bias"]
        self.layers = [read_layer(weights, f"encoder.layer.{number}.") for number in range(6)]

    def __call__(
        self, input_ids: Array, attention_mask: Array, threads: int | None = None
    ) -> dict[str, Array]:
        where, lengths, hidden, positions = pack(attention_mask)
        tokens = input_ids.reshape(-1)[where]
        starts = np.cumsum(lengths) - lengths
        result = np.empty((len(lengths), D), np.float32)

        def encode(part: Array) -> None:
            rows = np.concatenate([np.arange(starts[i], starts[i] + lengths[i]) for i in part])
            holes = None if hidden is None else hidden[rows]
            result[part] = self.encode(tokens[rows], positions[rows], lengths[part], holes)

        run_parallel(encode, split_examples(lengths, threads), threads)
        return {"sentence_embedding": result}

    def encode(self, tokens: Array, positions: Array, lengths: Array, hidden: Array | None) -> Array:
        """Packed rows of whole examples -> one vector of unit length for each."""
        rows = len(tokens)
        x, y = scratch("x", (rows, D), np.float32), scratch("y", (rows, D), np.float32)
        qkv = scratch("qkv", (rows, 3 * HEADS * DK), np.float32)
        heads = scratch("heads", (rows, HEADS, DK), np.float32)
        h = scratch("h", (rows, FFN), np.float32)
        Q, K, V = qkv.reshape(rows, 3, HEADS, DK).transpose(1, 0, 2, 3)
        np.take(self.words, tokens, axis=0, out=x, mode="clip")  # the other modes would buffer `out`
        np.take(self.positions, positions, axis=0, out=y, mode="clip")
        layer_norm(x, self.gain, self.shift, EPS, residual=y)
        for w in self.layers:
            linear(x, w.W_QKV, w.b_QKV, out=qkv)
            attention(Q, K, V, lengths, hidden=hidden, out=heads)
            linear(heads.reshape(rows, HEADS * DK), w.W_O, out=y)
            layer_norm(y, w.gain_1, w.shift_1, EPS, bias=w.b_O, residual=x)
            linear(y, w.W_1, out=h)
            gelu(h, bias=w.b_1)
            linear(h, w.W_2, out=x)
            layer_norm(x, w.gain_2, w.shift_2, EPS, bias=w.b_2, residual=y)
        pooled = segment_mean(x, lengths, None if hidden is None else ~hidden)
        pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return pooled


def read_layer(weights: Mapping[str, Array], prefix: str) -> Layer:
    """A layer of the checkpoint, Q scaled by 1/√dk."""

    def product(*names: str) -> tuple[Array, Array]:
        both = [(weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]) for name in names]
        matrix = np.concatenate([weight for weight, _ in both]).T.copy(order="C")
        return matrix, np.concatenate([bias for _, bias in both])

    W_QKV, b_QKV = product("attention.self.query", "attention.self.key", "attention.self.value")
    W_QKV[:, : HEADS * DK] *= DK**-0.5
    b_QKV[: HEADS * DK] *= DK**-0.5
    return Layer(
        W_QKV,
        b_QKV,
        *product("attention.output.dense"),
        weights[prefix + "attention.output.LayerNorm.weight"],
        weights[prefix + "attention.output.LayerNorm.bias"],
        *product("intermediate.dense"),
        *product("output.dense"),
        weights[prefix + "output.LayerNorm.weight"],
        weights[prefix + "output.LayerNorm.bias"],
    )
