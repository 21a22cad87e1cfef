"""Engines that turn a padded batch into vectors: each a function of a model's folder that returns `encode(ids, mask)`.

Libraries give the last hidden states; where the folder is one of sentence-transformers, all bring the mean over each
sentence to unit length alike.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Encode = Callable[[Array, Array], Array]


def pools(folder: Path) -> bool:
    """Whether the folder asks for a vector a sentence."""
    return (folder / "modules.json").is_file()


def finished(folder: Path, hidden: Any, mask: Any) -> Array:
    """Hidden states (tensors or arrays) as they are, or their mean over each sentence at unit length."""
    import torch

    hidden, mask = torch.as_tensor(hidden), torch.as_tensor(mask)
    if not pools(folder):
        return np.asarray(hidden)
    vectors = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return np.asarray(torch.nn.functional.normalize(vectors))


def transformers_sdpa(folder: Path, threads: int) -> Encode:
    """transformers with scaled_dot_product_attention."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            hidden = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state
            return finished(folder, hidden, mask)

    return encode


def sentence_transformers(folder: Path, threads: int) -> Encode:
    """sentence-transformers' modules, without its tokenizer."""
    import torch
    from sentence_transformers import SentenceTransformer

    if not pools(folder):
        raise ImportError("no folder of sentence-transformers")
    model = SentenceTransformer(str(folder), device="cpu").eval()

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            return np.asarray(model(features)["sentence_embedding"])

    return encode


def ctranslate2(folder: Path, threads: int) -> Encode:
    """CTranslate2's float32 encoder on the converted model."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    with tempfile.TemporaryDirectory() as place:
        TransformersConverter(str(folder)).convert(place, force=True)
        model = ctranslate2.Encoder(place, compute_type="float32", intra_threads=threads)

    def encode(ids: Array, mask: Array) -> Array:
        tokens = [row[:size].tolist() for row, size in zip(ids, mask.sum(axis=1), strict=True)]
        return finished(folder, np.array(model.forward_batch(tokens).last_hidden_state), mask)

    return encode


def hidden_states(folder: Path) -> Any:
    """Our padded module as a function of ids and mask alone, for what takes over a PyTorch model."""
    import torch

    import transformula

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = transformula.load(folder, backend="torch", layout="padded").module

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.model(input_ids, attention_mask)["last_hidden_state"]

    sample = torch.arange(1, 11).reshape(2, 5)
    return Hidden().eval(), (sample, torch.ones_like(sample))


def onnxruntime(folder: Path, threads: int) -> Encode:
    """ONNX Runtime on our padded module, exported by torch.onnx."""
    import onnxruntime
    import torch

    model, sample = hidden_states(folder)
    names, any_size = ["input_ids", "attention_mask"], {0: "batch", 1: "seq"}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/model.onnx"
        shapes = {"dynamic_shapes": (any_size, any_size), "input_names": names, "output_names": ["hidden"]}
        torch.onnx.export(model, sample, path, dynamo=True, verbose=False, **shapes)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def encode(ids: Array, mask: Array) -> Array:
        return finished(folder, session.run(None, dict(zip(names, (ids, mask), strict=True)))[0], mask)

    return encode


def openvino(folder: Path, threads: int) -> Encode:
    """OpenVINO on our padded module, in float32."""
    import openvino

    model, sample = hidden_states(folder)
    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(openvino.convert_model(model, example_input=sample), "CPU", hints)
    return lambda ids, mask: finished(folder, compiled((ids, mask))[0], mask)


def transformula_torch(layout: str, folder: Path, threads: int) -> Encode:
    """The generated PyTorch module."""
    import torch

    import transformula

    model = transformula.load(folder, backend="torch", layout=layout).module
    name = "sentence_embedding" if pools(folder) else "last_hidden_state"

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            return np.asarray(model(torch.from_numpy(ids), torch.from_numpy(mask))[name])

    return encode


def transformula_numpy(folder: Path, threads: int) -> Encode:
    """The generated NumPy module."""
    import transformula

    model = transformula.load(folder, backend="numpy", threads=threads)
    name = "sentence_embedding" if pools(folder) else "last_hidden_state"
    return lambda ids, mask: np.asarray(model(input_ids=ids, attention_mask=mask, outputs=[name])[name])


ENGINES: dict[str, Callable[[Path, int], Encode]] = {
    "transformula torch, packed": partial(transformula_torch, "packed"),
    "transformula torch, padded": partial(transformula_torch, "padded"),
    "transformers sdpa": transformers_sdpa,
    "sentence-transformers": sentence_transformers,
    "ctranslate2": ctranslate2,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
"""Engines that compute on the batches that they are given."""
