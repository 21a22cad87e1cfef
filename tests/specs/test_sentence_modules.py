"""Folders of sentence-transformers with any poolings, Dense, LayerNorm and Normalize, against the library itself."""

import json
import shutil
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling

import transformula
from tests.specs.configs import TINY
from tests.specs.peers import MASK, Array, batch, saved
from transformula import TransformulaError
from transformula.backends.torch.convert import convert
from transformula.reading import read_compiled

D = TINY["hidden_size"]
ALL = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
ACTIVATIONS = [
    *("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "LogSigmoid", "LeakyReLU", "ReLU6", "ELU", "SELU"),
    *("Softplus", "Softsign", "Mish", "Hardtanh", "Hardsigmoid", "Hardswish"),
]
BACKENDS = (("reference", "float64", 1e-10), ("numpy", "float64", 1e-10), ("numpy", "float32", 1e-5))


def dense(*sizes: int, act: str = "Tanh", **options: Any) -> Dense:
    return Dense(*sizes, activation_function=getattr(torch.nn, act)(), **options)


def sentence(path: Path, *modules: Any, family: str = "Bert", seed: int = 0) -> Path:
    """The folder that the library writes for a tiny random encoder with these modules behind it."""
    base = saved(path / "base", f"{family}Model", getattr(transformers, f"{family}Config")(**TINY))
    (base / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]))
    transformers.BertTokenizer(str(base / "vocab.txt")).save_pretrained(base)
    torch.manual_seed(seed)
    for module in modules:
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
    made = SentenceTransformer(modules=[Transformer(str(base)), *modules], device="cpu")
    made.save_pretrained(str(path / "made"))
    return path / "made"


def library(folder: Path, given: dict[str, Array]) -> Array:
    """The library's embedding of each example alone, in float64."""
    made = SentenceTransformer(str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"}).double().eval()
    rows = []
    for row in range(len(MASK)):
        real = np.flatnonzero(given["attention_mask"][row])
        place = slice(real[0], real[-1] + 1)
        with torch.inference_mode():
            features = {name: torch.from_numpy(value[row : row + 1, place].copy()) for name, value in given.items()}
            rows.append(made(features)["sentence_embedding"][0].numpy())
    return np.stack(rows)


def agree(folder: Path) -> None:
    """A batch with padding gives what the library gives for each example alone; so does the generated module alone."""
    given = batch(12, low=2)
    wanted = library(folder, given)
    for backend, dtype, bound in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype=dtype)
        assert model.entry == "SentenceBert"
        assert set(model.unused_config_keys) <= set(TINY)  # of which DistilBERT and MPNet have other names
        close(model(**given)["sentence_embedding"], wanted, bound)
    made = types.ModuleType("made")
    exec(compile(model.program.source, "<made>", "exec"), made.__dict__)
    close(made.__dict__["Model"].load(folder, dtype="float64")(**given)["sentence_embedding"], wanted, 1e-10)
    for dtype, bound in (("float64", 1e-10), ("float32", 1e-5)):
        found = transformula.load(folder, backend="torch", dtype=dtype)(**given)["sentence_embedding"]
        close(found.numpy(), wanted, bound)


def close(found: Array, wanted: Array, bound: float) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_each_pooling(tmp_path: Path, family: str, mode: str) -> None:
    agree(sentence(tmp_path, Pooling(D, mode), family=family))


@pytest.mark.parametrize("modes", [["mean", "cls"], ["lasttoken", "cls", "max"], ["mean", "mean", "max"], ALL], ids=str)
@pytest.mark.parametrize("family", ["Bert", "MPNet"])
def test_several_poolings(tmp_path: Path, family: str, modes: list[str]) -> None:
    agree(sentence(tmp_path, Pooling(D, modes), Normalize(), family=family))


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_a_dense(tmp_path: Path, act: str) -> None:
    agree(sentence(tmp_path, Pooling(D, "mean"), dense(D, 7, act=act), Normalize()))


CHAINS: dict[str, list[Any]] = {
    "normalize_first": [Pooling(D, ["cls", "max", "mean"]), Normalize(), dense(3 * D, 5, bias=False)],
    "two_denses": [Pooling(D, "cls"), dense(D, 9, act="GELU"), dense(9, 9, act="ReLU", bias=False), Normalize()],
    "normalize_between": [Pooling(D, "mean"), dense(D, 8), Normalize(), dense(8, 6, act="SiLU"), Normalize()],
    "twice": [Pooling(D, "max"), Normalize(), Normalize()],
    "residual": [
        *(Pooling(D, "mean"), dense(D, D, use_residual=True), dense(D, 4, use_residual=True, bias=False)),
        *(LayerNorm(4), Dropout(0.5), Normalize()),
    ],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("family", ["Bert", "DistilBert", "MPNet"])
def test_chains(tmp_path: Path, family: str, chain: str) -> None:
    agree(sentence(tmp_path, *CHAINS[chain], family=family))


@pytest.mark.parametrize("act", ["ELU", "SELU", "Softplus", "Mish", "Sigmoid", "LogSigmoid"])
def test_an_activation_far_out(tmp_path: Path, act: str) -> None:
    """Numbers for which the naive formula overflows."""
    folder = sentence(tmp_path, Pooling(D, "mean"), dense(D, 7, act=act))
    path = folder / "2_Dense" / "model.safetensors"
    save_file({name: value * 2000 for name, value in load_file(path).items()}, path)
    agree(folder)


# --- weights in several files -------------------------------------------------------------------------------


def chain(tmp_path: Path) -> Path:
    modules = (Pooling(D, ["mean", "cls", "max"]), dense(3 * D, 7), Normalize(), LayerNorm(7), dense(7, 5, act="GELU"))
    return sentence(tmp_path, *modules)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_every_file_goes_back_to_its_place(tmp_path: Path, backend: str) -> None:
    before = chain(tmp_path)
    model = transformula.load(before, backend=backend)
    if backend == "torch":
        with torch.no_grad():
            for parameter in model.module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    after = model.save_pretrained(tmp_path / "after")
    files = sorted(path.relative_to(before) for path in before.rglob("*.safetensors"))
    assert files == sorted(path.relative_to(after) for path in after.rglob("*.safetensors"))
    assert len(files) == 4
    for file in files:
        old, new = load_file(before / file), load_file(after / file)
        assert {n: t.shape for n, t in old.items()} == {n: t.shape for n, t in new.items()}
        changed = {name for name in old if not torch.equal(old[name], new[name])}
        assert changed == ({name for name in old if "pooler" not in name} if backend == "torch" else set())
    given = batch(12, low=2)
    found = np.asarray(model(**given)["sentence_embedding"])
    np.testing.assert_allclose(library(after, given), found, rtol=0, atol=1e-5)
    agree(after)


def test_the_transformer_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = chain(tmp_path)
    inside = folder / "0_Transformer"
    inside.mkdir()
    for path in [*folder.glob("*.safetensors"), *folder.glob("tokenizer*"), folder / "config.json"]:
        shutil.move(path, inside / path.name)
    shutil.move(folder / "sentence_bert_config.json", inside)
    modules = folder / "modules.json"
    modules.write_text(modules.read_text().replace('"path": ""', '"path": "0_Transformer"'))
    agree(folder)
    agree(transformula.load(folder).save_pretrained(tmp_path / "after"))


def test_folders_may_have_any_name(tmp_path: Path) -> None:
    folder = chain(tmp_path)
    path, text = folder / "modules.json", (folder / "modules.json").read_text()
    for old, new in (("1_Pooling", "pool"), ("2_Dense", "heads/first one"), ("5_Dense", "last")):
        (folder / new).parent.mkdir(exist_ok=True)
        (folder / old).rename(folder / new)
        text = text.replace(f'"{old}"', f'"{new}"')
    path.write_text(text)
    agree(transformula.load(folder).save_pretrained(tmp_path / "after"))


def test_a_file_that_does_not_fit(tmp_path: Path) -> None:
    folder = chain(tmp_path)
    path = folder / "2_Dense" / "model.safetensors"
    stored = load_file(path)
    save_file({"linear.weight": stored["linear.weight"][:, 1:].clone(), "linear.scale": stored["linear.bias"]}, path)
    with pytest.raises(TransformulaError) as caught:
        transformula.load(folder)
    text = str(caught.value)
    assert "1 missing, 1 misshapen, 1 left over; nothing was loaded" in text
    assert "missing: '2_Dense/linear.bias', for dense_1.b : [out_1] = [7]" in text
    assert "'2_Dense/linear.weight' is [7, 35], dense_1.W wants [out_1, pooled] = [7, 36]" in text
    assert "left over: '2_Dense/linear.scale'" in text
    path.unlink()
    with pytest.raises(TransformulaError, match=r"missing: '2_Dense/linear\.weight'"):
        transformula.load(folder)
    (folder / "2_Dense" / "pytorch_model.bin").touch()
    with pytest.raises(TransformulaError, match="2_Dense holds pickled weights only"):
        transformula.load(folder)


def test_a_module_does_not_ignore_a_dense(tmp_path: Path) -> None:
    """A folder with more modules than a generated file computes is refused by it."""
    made = types.ModuleType("made")
    plain = transformula.load(sentence(tmp_path / "plain", Pooling(D, "mean")))
    exec(compile(plain.program.source, "<made>", "exec"), made.__dict__)
    with pytest.raises(ValueError, match="left over: '2_Dense/linear"):
        made.__dict__["Model"].load(sentence(tmp_path, Pooling(D, "mean"), dense(D, 5)))


def test_the_command_line_takes_such_a_folder(tmp_path: Path) -> None:
    """`compile` and `explain` see what `load` sees, over other encoders, too."""
    folder = sentence(tmp_path, Pooling(D, ["mean", "cls"]), dense(D * 2, 5), family="MPNet")
    assert [one.name for one in read_compiled(str(folder)).graph.weights][-2:] == ["dense_1.W", "dense_1.b"]


def test_pickled_modules_are_converted(tmp_path: Path) -> None:
    """Each pickle becomes a file beside it, or in the same place of another folder, which is then whole."""
    folder = chain(tmp_path)
    wanted = transformula.load(folder, dtype="float64")(**(given := batch(12, low=2)))["sentence_embedding"]
    for place in ("2_Dense", "5_Dense"):
        path = folder / place / "model.safetensors"
        torch.save(load_file(path), path.with_name("pytorch_model.bin"))
        path.unlink()
    for target in (tmp_path / "new", folder):
        convert(folder, target)
        found = transformula.load(target, dtype="float64")(**given)["sentence_embedding"]
        np.testing.assert_array_equal(found, wanted)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"activation_function": "torch.nn.modules.activation.PReLU"}, '"PReLU" is not supported'),
        ({"activation_function": "torch.nn.modules.activation.Sigmoidd"}, "Did you mean Sigmoid"),
        ({"activation_function": "my.Swish"}, "only classes of torch"),
        ({"activation_function": None}, "only classes of torch"),
        ({"module_input_name": "token_embeddings"}, 'only "sentence_embedding"'),
        ({"module_output_name": "other"}, 'only "sentence_embedding"'),
        ({"out_features": 0}, "positive whole number"),
        ({"out_features": "7"}, "positive whole number"),
        ({"bias": 1}, "true or false"),
        ({"use_residual": "yes"}, "true or false"),
    ],
    ids=str,
)
def test_a_dense_that_is_refused(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    folder = chain(tmp_path)
    path = folder / "2_Dense" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
    with pytest.raises(TransformulaError) as caught:
        transformula.load(folder)
    assert told in str(caught.value)


@pytest.mark.parametrize("kind", ["LSTM", "CNN", "WeightedLayerPooling", "Router", "BoW", "StaticEmbedding"])
@pytest.mark.parametrize("place", ["transformer.Transformer", "normalize.Normalize"])
def test_a_module_that_is_refused(tmp_path: Path, kind: str, place: str) -> None:
    folder = chain(tmp_path)
    path = folder / "modules.json"
    path.write_text(path.read_text().replace(place, f"x.{kind}"))
    with pytest.raises(TransformulaError, match=f"the module {kind} is not supported"):
        transformula.load(folder)


def test_a_name_of_a_folder_is_no_formula(tmp_path: Path) -> None:
    folder = chain(tmp_path)
    path = folder / "modules.json"
    (folder / "2_Dense").rename(folder / '2" if true')
    path.write_text(path.read_text().replace("2_Dense", '2\\" if true'))
    with pytest.raises(TransformulaError, match="Give it a plain name"):
        transformula.load(folder)


def test_old_flags(tmp_path: Path) -> None:
    """Flags are concatenated in the library's order, whatever the order in the file."""
    folder = sentence(tmp_path, Pooling(D, ["cls", "mean", "lasttoken"]))
    wanted = library(folder, given := batch(12, low=2))
    flags = {f"pooling_mode_{name}": True for name in ("lasttoken", "mean_tokens", "cls_token")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": D, **flags}))
    close(library(folder, given), wanted, 0)
    agree(folder)
