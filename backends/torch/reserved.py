"""Names that no attribute or variable of a generated nn.Module may take, known without importing torch."""

from __future__ import annotations

LOCALS = (
    *("torch", "F", "nn", "Tensor", "device", "dtype", "batch", "positions", "results", "groups"),
    *("new", "part", "DECODER", "GENERATION"),
)
PACKED_LOCALS = ("packing", "parts", "n", "runs", "lengths", "hidden", "index", "queries", "keys")

METHODS = (
    *("add_module", "apply", "bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "eval"),
    *("extra_repr", "float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half"),
    *("ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children", "named_modules"),
    *("named_parameters", "parameters", "register_backward_hook", "register_buffer", "register_forward_hook"),
    *("register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"),
    *("register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module"),
    *("register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_"),
    *("reset_parameters", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty"),
    *("begin", "decoder", "generate", "generation", "step", "stream"),
    *("rows", "train", "training", "type", "xpu", "zero_grad", "dump_patches", "call_super_init", "T_destination"),
)
"""Attributes of torch.nn.Module (a test compares them with the installed torch), and methods of our own."""
