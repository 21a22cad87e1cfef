"""What config.json says in more than one way."""

from typing import Any

import pytest

from transformula.compiler.ecosystem import settled


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {}),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, {"num_labels": 3}),
        ({"id2label": {"0": "a"}, "num_labels": 4}, {"num_labels": 4}),
        ({"id2label": None}, {}),
        ({"pos_att_type": ["p2c", "c2p"]}, {"pos_att_type": "c2p|p2c"}),
        ({"pos_att_type": "p2c | C2P"}, {"pos_att_type": "c2p|p2c"}),
        ({"pos_att_type": []}, {"pos_att_type": ""}),
        ({"pos_att_type": None}, {}),
        ({"pos_att_type": [1]}, {}),
        ({"norm_rel_ebd": "layer_norm"}, {}),
    ],
    ids=str,
)
def test_settled(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert settled(given) == {**given, **wanted}
    assert settled(settled(given)) == settled(given)
