"""Generated modules standing alone: numpy is all they need, and nothing but the spec goes into their text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

from tests.compiler import zoo

ALONE = """
import sys
sys.modules["transformula"] = None
import numpy as np
import made
ids, mask = np.array({ids}), np.array({mask})
results = [made.Model.load(path, dtype="float64")(ids, mask)["last_hidden_state"] for path in {paths}]
assert all((one == results[0]).all() for one in results)
np.save("result.npy", results[0])
loaded = {{name.partition(".")[0] for name in sys.modules if not name.startswith("_")}}
print(sorted(loaded - set(sys.stdlib_module_names) - {{"numpy", "made", "transformula"}}))
"""


def test_module_alone_loads_a_folder_a_file_and_an_archive(tmp_path: Path) -> None:
    """In a fresh folder, warnings being errors, with numpy alone, blocked from this package."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10,
        max_position_embeddings=16, type_vocab_size=3,
    )  # fmt: skip
    network = transformers.BertModel(config).eval()
    network.save_pretrained(tmp_path / "folder")
    stored = load_file(tmp_path / "folder" / "model.safetensors")
    np.savez(tmp_path / "weights.npz", allow_pickle=False, **stored)
    zoo.whole("bert").save(tmp_path / "made.py")
    ids, mask = zoo.inputs("bert")["input_ids"][:3], zoo.MASK[:3]
    paths = ["folder", "folder/model.safetensors", "weights.npz"]
    script = ALONE.format(ids=ids.tolist(), mask=mask.tolist(), paths=paths)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", "it imports more than numpy"
    assert done.stderr == ""
    found = np.load(tmp_path / "result.npy")
    with torch.inference_mode():
        wanted = network.double()(
            torch.from_numpy(ids[:2]), torch.from_numpy(mask[:2])
        ).last_hidden_state.numpy()
    np.testing.assert_allclose(found[:2][mask[:2] == 1], wanted[mask[:2] == 1], atol=1e-6)


SOURCES = """
import hashlib
from tests.compiler import zoo
for name in {names}:
    print(name, hashlib.sha256(zoo.whole(name).source.encode()).hexdigest())
"""


def test_source_does_not_depend_on_the_hash_seed() -> None:
    names = ["gpt", "rope", "deberta", "maps", "pools", "two_states", "sbert"]
    root = Path(__file__).resolve().parents[3]
    told = [
        subprocess.run(
            [sys.executable, "-c", SOURCES.format(names=names)], cwd=root, capture_output=True, text=True, timeout=120,
            check=True, env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(root)},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1]
    assert told[0].count("\n") == len(names)
