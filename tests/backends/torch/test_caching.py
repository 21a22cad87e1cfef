"""The memory of a decoder in PyTorch: weights in oneDNN's order, for a few texts at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiler import decoders, zoo

NAME = "gpt"


@pytest.fixture(scope="module")
def module() -> Any:
    """A decoder in float32."""
    torch.manual_seed(0)
    return zoo.module(decoders.program(NAME, "torch", "padded").source)["Model"](dtype=torch.float32).eval()


def fed(decoder: Any, ids: torch.Tensor) -> torch.Tensor:
    """logits[example, place, vocab], token by token after the first two."""
    first = decoder.feed(ids[:, :2])
    return torch.stack([first, *(decoder.feed(ids[:, at : at + 1]) for at in range(2, ids.shape[1]))], 1)


@pytest.mark.parametrize(("batch", "packed"), [(1, False), (2, False), (3, True), (5, True), (65, False)])
def test_a_few_texts_read_weights_in_an_order_of_their_own(module: Any, batch: int, packed: bool) -> None:
    ids = torch.arange(batch * 5).reshape(batch, 5) % 7
    decoder = module.decoder(room=3)
    found = fed(decoder, ids)
    assert bool(decoder.cache.packed) == packed
    alone = torch.cat([fed(module.decoder(), row[None]) for row in ids])
    torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)


def test_a_weight_is_ordered_once(module: Any) -> None:
    ids = torch.ones(4, 3, dtype=torch.long)
    decoder = module.decoder()
    decoder.feed(ids[:, :1])
    orders = {key: id(value) for key, value in decoder.cache.packed.items()}
    matrices = [one for one in module.parameters() if one.dim() > 1]
    assert 0 < len(orders) <= len(matrices)
    decoder.feed(ids[:, :1])
    assert {key: id(value) for key, value in decoder.cache.packed.items()} == orders


def test_gradients_and_other_dtypes_read_the_weights_themselves(module: Any) -> None:
    cache = module.decoder().cache
    x, weight = torch.ones(4, 1, 6), torch.ones(5, 6)
    assert cache.linear(x, weight).shape == (4, 1, 5)  # gradients may be asked for
    with torch.inference_mode():
        assert cache.linear(x.double(), weight.double()).dtype == torch.float64
        cache.onednn = False
        cache.linear(x, weight)
        assert not cache.packed
        cache.onednn = True
        cache.linear(x, weight)
    assert len(cache.packed) == 1
