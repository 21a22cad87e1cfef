"""Tiny random networks of the library, and a comparison of all that a shipped spec makes of their folders."""

import itertools
import json
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors.numpy import load_file

import transformula
from transformula.backends.checkpoint_table import checkpoint_table
from transformula.backends.numpy.weights import table_entries
from transformula.compiler.checkpoint import checkpoint_rows

Array = NDArray[Any]
LENGTH = 7
MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1],
        [1, 0, 1, 1, 0, 1, 1],
        [0, 0, 0, 0, 0, 1, 0],
    ]
)
"""Whole, padded on the right, on the left, with holes, and a single token."""
MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 0, 0]])
"""The same for texts that a decoder looks at."""
ALONG = ("start_logits", "end_logits")
"""Results with one number for each token."""


def network(kind: str, config: Any, seed: int = 0, keep: str = "") -> Any:
    """A network in which no weight is zero or one, but those with `keep` in their name, which stay."""
    torch.manual_seed(seed)
    made = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if not keep or keep not in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def saved(folder: Path, kind: str, config: Any) -> Path:
    network(kind, config).save_pretrained(folder)
    return folder


def change_config(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def batch(vocab: int, types: int = 0, low: int = 0, seed: int = 0) -> dict[str, Array]:
    """Ids, perhaps segments, and the mask."""
    draw = np.random.default_rng(seed)
    given = {"input_ids": draw.integers(low, vocab, MASK.shape), "attention_mask": MASK}
    return {**given, "token_type_ids": draw.integers(0, types, MASK.shape)} if types else given


def with_memory(given: dict[str, Array], width: int = 12) -> dict[str, Array]:
    """The same, and states of a text that a decoder looks at."""
    states = np.random.default_rng(7).normal(size=(*MEMORY_MASK.shape, width))
    return {**given, "encoder_hidden_states": states, "encoder_attention_mask": MEMORY_MASK}


def alone(folder: Path, kind: str, given: dict[str, Array]) -> list[tuple[slice, dict[str, Array]]]:
    """For each example its place in the batch and the library's results in float64 for it alone."""
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    model.eval()
    found = []
    for row in range(len(MASK)):
        real = np.flatnonzero(given["attention_mask"][row])
        place = slice(real[0], real[-1] + 1)
        whole = {name: value[row : row + 1] for name, value in given.items()}
        shown = {name: one if name.startswith("encoder_") else one[:, place] for name, one in whole.items()}
        example = {name: torch.from_numpy(np.array(one)) for name, one in shown.items()}
        with torch.inference_mode():
            made = model(**example)
        found.append((place, {name: one.numpy()[0] for name, one in made.items() if isinstance(one, torch.Tensor)}))
    return found


def agree(folder: Path, kind: str, given: dict[str, Array], tolerance: float = 1e-10) -> None:
    """Every result, of the formulas and of the generated module, in both precisions, at each real token."""
    wanted = alone(folder, kind, given)
    largest = {name: max(np.abs(one[name]).max() for _, one in wanted) for name in wanted[0][1]}
    for told, dtype, found in found_by_all(folder, given):
        assert set(found) == set(largest)
        for name, value in found.items():
            bound = tolerance if dtype == "float64" else 1e-4 * largest[name]
            for row, (place, results) in enumerate(wanted):
                ours, theirs = value[row], results[name]
                if ours.ndim == 2 or name in ALONG or kind == "ElectraForPreTraining":
                    real = given["attention_mask"][row, place] != 0
                    ours, theirs = ours[place][real], theirs[real]
                what = f"{name} of example {row}, {told}, {dtype}"
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound, err_msg=what)


def found_by_all(
    folder: Path, given: dict[str, Array], layouts: Sequence[str] = ("packed", "padded")
) -> Iterator[tuple[str, str, dict[str, Array]]]:
    """The reference's results, those of a loaded model, and of its module alone in the other precision."""
    formulas = transformula.load(folder, backend="reference")
    assert formulas.unused_config_keys == []
    yield "formulas", "float64", formulas(**given)
    model = transformula.load(folder)
    yield "module", "float32", model(**given)
    made = types.ModuleType("made")
    exec(compile(model.program.source, "<made>", "exec"), made.__dict__)
    yield "module", "float64", made.__dict__["Model"].load(folder, dtype="float64")(**given)
    for layout, dtype in itertools.product(layouts, ("float32", "float64")):
        first = dtype == "float32"  # the passes are the same ones in both
        tensors = transformula.load(folder, backend="torch", dtype=dtype, layout=layout, validate=first)(**given)
        yield f"torch, {layout}", dtype, {name: value.numpy() for name, value in tensors.items()}


def names_match(folder: Path) -> None:
    """The map names each tensor of the file and no other, second homes and skipped ones left out."""
    model = transformula.load(folder, backend="reference")
    made = model.program.compiled
    found = checkpoint_rows(made.module, made.entry, made.formula, made.config)
    first = {row.stored for row in found.rows if not row.also}
    rows = [row for row in checkpoint_table(found)[0] if row[1] in first]
    names = {name for _, _, name in table_entries((tuple(rows), (), (), (), ()))}
    assert names == set(load_file(folder / "model.safetensors"))
