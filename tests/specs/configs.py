"""Unusual legal configurations of BERT's family, drawn by number: the same number is the same one."""

from random import Random
from typing import Any

TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "sigmoid", "tanh")


def unusual(number: int, length: int, **more: Any) -> dict[str, Any]:
    """Sizes of one, odd sizes, wide and narrow layers, a table of positions that just fits a text of `length`."""
    draw = Random(number)
    heads = draw.choice((1, 2, 3, 5, 7))
    vocab = draw.choice((4, 17, 200))
    pad = draw.randrange(vocab - 1) % 5
    return {
        "vocab_size": vocab,
        "hidden_size": heads * draw.choice((1, 3, 4)) if heads > 2 else heads * draw.choice((3, 4, 8)),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.choice((1, 3, 4)),
        "intermediate_size": draw.choice((1, 3, 33)),
        "hidden_act": ACTIVATIONS[number % len(ACTIVATIONS)],
        "max_position_embeddings": length + pad + 1 + draw.choice((0, 3)),
        "type_vocab_size": draw.choice((1, 3)),
        "layer_norm_eps": draw.choice((1e-12, 1e-30, 1e-3, 0.5)),
        "pad_token_id": pad,
        "hidden_dropout_prob": draw.choice((0.0, 0.3)),
        "attention_probs_dropout_prob": draw.choice((0.0, 0.3)),
        **more,
    }


def labels(kind: str, number: int) -> dict[str, int]:
    """A number of labels that the head may have."""
    return {} if kind.endswith(("QuestionAnswering", "Pretraining")) else {"num_labels": (3, 1, 7)[number % 3]}
