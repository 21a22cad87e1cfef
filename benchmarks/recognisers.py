"""Systems that look for a meaning in a spelling: what each fused, and how far its result is from that in float64.

Each is a function of a suite and a name of benchmarks/torch_spellings.py (ours: of tests/compiler/spellings.py). It
returns how many fused nodes there are (0: the spelling is not recognised) and the largest error relative to the largest
value. A system that is not installed raises ImportError.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

Result = tuple[int, float]
System = Callable[[str, str], Result]
FUSED = {
    "attention": ("Attention", "MultiHeadAttention"),
    "LayerNorm": ("LayerNormalization", "SkipLayerNormalization"),
    "GELU": ("Gelu", "FastGelu", "BiasGelu", "QuickGelu"),
}
"""Operations of the optimised ONNX model that are one fused meaning."""

OURS = {"attention": ("attention",), "LayerNorm": ("layer_norm",), "GELU": ("gelu", "gelu_tanh")}
"""The same for our kernels."""


def error(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest value."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def ours(suite: str, name: str) -> Result:
    """Our recognise pass, and the NumPy module in float32 (an objective: the optimised graph in float64)."""
    from tests.compiler import spellings, zoo
    from tests.compiler.test_recognise import point
    from transformula.backends.program import compile
    from transformula.compiler import reference

    draw = np.random.default_rng(0)
    if suite == "attention":
        one = next(one for one in spellings.ATTENTION if one.name == name)
        text, given = one.text, {"input_ids": draw.integers(0, 20, (2, 8))}
        given = given if one.shape != "2-D" else {"x": draw.normal(size=(8, 16))}
    else:
        rows = spellings.LAYER_NORM if suite == "LayerNorm" else spellings.GELU
        text = point(rows[name][0], rows[name][1] if suite == "LayerNorm" else "")
        given = {"x": draw.normal(size=(2, 8, 5))}
    made = compile(text, entry="M")
    graph = made.compiled.graph
    count = sum(one.op == "kernel" and one["name"] in OURS[suite] for one in graph.nodes())
    wanted = zoo.reference_results(made.compiled.formula, given)
    if "objective M" in text:
        found = reference.run(graph, zoo.weight_values(graph), given)
    else:
        found = zoo.model(made, "float32")(**given)
    return count, error(found["y"], wanted["y"])


def inductor(suite: str, name: str) -> Result:
    """torch.compile on the CPU: its counter of fused attention. Norms and activations it fuses as loops, uncounted."""
    import torch
    import torch._inductor.config
    from torch._dynamo.utils import counters

    from benchmarks import torch_spellings

    torch._dynamo.reset()
    torch._inductor.config.force_disable_caches = True  # a graph from the cache was counted when it was made
    counters.clear()
    model = torch_spellings.module(suite, name)
    with torch.no_grad():
        found = torch.compile(model)(*model.inputs())
    return counters["inductor"]["fuse_attention"], error(found, torch_spellings.meaning(suite, name))


def exported(suite: str, name: str, place: str, any_size: bool) -> tuple[str, dict[str, Any]]:
    """The spelling as an ONNX file, with free batch and length where that is wanted, and its inputs."""
    import torch

    from benchmarks import torch_spellings

    model = torch_spellings.module(suite, name)
    inputs = dict(zip(("x", "there"), model.inputs(), strict=False))
    free: dict[str, dict[int, str]] = {}
    for label, value in inputs.items():
        names = ("seq",) if value.dim() == 2 and label == "x" else ("batch", "seq")
        free[label] = {axis: one for axis, one in enumerate(names) if any_size and value.shape[axis] > 1}
    path = f"{place}/model.onnx"
    names = {"input_names": list(inputs), "output_names": ["y"], "dynamic_axes": free}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs.values()), path, dynamo=False, opset_version=14, **names)
    return path, {label: value.numpy() for label, value in inputs.items()}


def onnxruntime(suite: str, name: str) -> Result:
    """ONNX Runtime's transformers optimizer (model_type bert, opt_level 1), then a session on its model."""
    from onnxruntime import InferenceSession
    from onnxruntime.transformers.optimizer import optimize_model

    from benchmarks import torch_spellings

    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as place:
        path, given = exported(suite, name, place, any_size=True)  # of known sizes it makes Gemm, and then no more
        heads, width = torch_spellings.HEADS, torch_spellings.WIDTH
        made = optimize_model(path, "bert", num_heads=heads, hidden_size=heads * width, opt_level=1)
        count = Counter(one.op_type for one in made.model.graph.node)
        fused = sum(count[one] for one in FUSED[suite])
        made.save_model_to_file(path)
        session = InferenceSession(path, providers=["CPUExecutionProvider"])
        read = [one.name for one in session.get_inputs()]
        found = session.run(None, {label: value for label, value in given.items() if label in read})[0]
    return fused, error(found, torch_spellings.meaning(suite, name))


def openvino(suite: str, name: str) -> Result:
    """OpenVINO's CPU runtime graph: an attention is a Subgraph with its second product, no product being outside."""
    import openvino

    from benchmarks import torch_spellings

    with tempfile.TemporaryDirectory() as place:
        path, given = exported(suite, name, place, any_size=False)
        model = openvino.convert_model(path)
        compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    read = [one.any_name for one in compiled.inputs]
    found = compiled({label: value for label, value in given.items() if label in read})[0]
    kinds = [_kinds(one.get_rt_info()) for one in compiled.get_runtime_model().get_ordered_ops()]
    layers = Counter(kind for kind, _ in kinds)
    if suite == "attention":
        inside = sum(kind == "Subgraph" and bool(re.search("MatMul|Einsum", origin)) for kind, origin in kinds)
        fused = 0 if layers["MatMul"] or layers["Softmax"] else inside
    else:  # a GELU goes into the linear map before it
        fused = layers["MVN"] if suite == "LayerNorm" else int(not layers["Eltwise"] + layers["Subgraph"])
    return fused, error(found, torch_spellings.meaning(suite, name))


def _kinds(info: Any) -> tuple[str, str]:
    """The kind of a runtime node, and the names of the nodes that it was made of."""
    return tuple(str(info[key].astype(str)) for key in ("layerType", "originalLayersNames"))  # type: ignore[return-value]


SYSTEMS: dict[str, System] = {
    "transformula": ours,
    "Inductor": inductor,
    "ONNX Runtime": onnxruntime,
    "OpenVINO": openvino,
}
"""Systems that are compared."""

UNCOUNTED = {("Inductor", "LayerNorm"), ("Inductor", "GELU")}
"""Suites for which a system has no fused operation that could be counted."""
