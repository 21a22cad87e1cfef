"""The language says five more architectures: test specs against transformers, in float64."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.compiler.spec_tools import Array, close, run
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Graph

SPECS = Path(__file__).parent / "specs"
MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]])
IDS = np.random.default_rng(5).integers(2, 19, MASK.shape)


def lowered(name: str, config: dict[str, Any], entry: str | None = None) -> Graph:
    return compile_graph(SPECS / f"{name}.formula", config, entry, until="formula").formula


def peer(made: Any) -> Any:
    """The model in float64 with weights large enough that no term is negligible."""
    torch.manual_seed(1)
    made = made.double().eval()
    for name, weight in made.named_parameters():
        weight.data.normal_(std=0.3)
        if name.endswith(("norm.weight", "norm1.weight", "LayerNorm.weight")):
            weight.data.add_(1)
    return made


def filled(graph: Graph, model: Any, name_of: Callable[[str], str]) -> dict[str, Array]:
    """Our weights from the model's: `name_of` gives the stored name, `{}` in it for an instance's number."""
    table = {key: value.detach().numpy() for key, value in model.state_dict().items()}

    def one(name: str, shape: tuple[Any, ...], is_map: bool) -> Array:
        found = table[name]
        result: Array = (found.T if is_map else found).reshape(shape)
        return result

    full = {}
    for weight in graph.weights:
        name, depth = name_of(weight.name), len(weight.stack)
        is_map = weight.outs is not None
        if depth == 0:
            full[weight.name] = one(name, weight.shape, is_map)
        else:
            count = weight.shape[0]
            assert isinstance(count, int)
            rows = [one(name.format(number), weight.shape[depth:], is_map) for number in range(count)]
            full[weight.name] = np.stack(rows).reshape(weight.shape)  # type: ignore[arg-type]
    return full


def compare(found: Array, wanted: Any, mask: Array = MASK, tolerance: float = 1e-12) -> None:
    seen = mask.astype(bool)
    close(found[seen], wanted.detach().numpy()[seen], tolerance)


def renamed(table: dict[str, str]) -> Callable[[str], str]:
    """Replaces the beginnings and ends of paths by the table's."""

    def name_of(path: str) -> str:
        for ours, theirs in table.items():
            path = path.replace(ours, theirs)
        return path

    return name_of


# ------------------------------------------------------------------------------------------------ ALBERT


def test_albert() -> None:
    config = transformers.AlbertConfig(
        vocab_size=19,
        embedding_size=6,
        hidden_size=8,
        num_hidden_layers=5,
        num_hidden_groups=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
        inner_group_num=1,
        attn_implementation="eager",
    )
    model = peer(transformers.AlbertModel(config))
    names = {
        "embed.E": "embeddings.word_embeddings.weight",
        "embed.S": "embeddings.token_type_embeddings.weight",
        "embed.P": "embeddings.position_embeddings.weight",
        "embed.LN.γ": "embeddings.LayerNorm.weight",
        "embed.LN.β": "embeddings.LayerNorm.bias",
        "embed.M": "encoder.embedding_hidden_mapping_in.weight",
        "embed.b": "encoder.embedding_hidden_mapping_in.bias",
        "pool.W": "pooler.weight",
        "pool.b": "pooler.bias",
        "layer[groups, inner].": "encoder.albert_layer_groups.{}.albert_layers.0.",
        "attn.W_Q": "attention.query.weight",
        "attn.b_Q": "attention.query.bias",
        "attn.W_K": "attention.key.weight",
        "attn.b_K": "attention.key.bias",
        "attn.W_V": "attention.value.weight",
        "attn.b_V": "attention.value.bias",
        "attn.W_O": "attention.dense.weight",
        "attn.b_O": "attention.dense.bias",
        "LN_1.γ": "attention.LayerNorm.weight",
        "LN_1.β": "attention.LayerNorm.bias",
        "FFN.W_1": "ffn.weight",
        "FFN.b_1": "ffn.bias",
        "FFN.W_2": "ffn_output.weight",
        "FFN.b_2": "ffn_output.bias",
        "LN_2.γ": "full_layer_layer_norm.weight",
        "LN_2.β": "full_layer_layer_norm.bias",
    }
    graph = lowered("albert", config.to_dict(), "Bert")
    found = run(graph, filled(graph, model, renamed(names)), input_ids=IDS, attention_mask=MASK)
    wanted = model(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK))
    compare(found["last_hidden_state"], wanted.last_hidden_state)
    close(found["pooler_output"], wanted.pooler_output.detach().numpy())


# ------------------------------------------------------------------------------------------------- GPT-2


GPT2_NAMES = {
    "layer[layers].": "transformer.h.{}.",
    "attn.W_O": "attn.c_proj.weight",
    "attn.b_O": "attn.c_proj.bias",
    "attn.W": "attn.c_attn.weight",
    "attn.b": "attn.c_attn.bias",
    "FFN.W_1": "mlp.c_fc.weight",
    "FFN.b_1": "mlp.c_fc.bias",
    "FFN.W_2": "mlp.c_proj.weight",
    "FFN.b_2": "mlp.c_proj.bias",
    "LN_1.γ": "ln_1.weight",
    "LN_1.β": "ln_1.bias",
    "LN_2.γ": "ln_2.weight",
    "LN_2.β": "ln_2.bias",
    "LN.γ": "transformer.ln_f.weight",
    "LN.β": "transformer.ln_f.bias",
}


@lru_cache
def gpt2() -> tuple[Any, dict[str, Any]]:
    config = transformers.GPT2Config(
        vocab_size=19, n_embd=8, n_layer=2, n_head=2, n_positions=16, attn_implementation="eager"
    )
    return peer(transformers.GPT2LMHeadModel(config)), config.to_dict()


def gpt2_weights(graph: Graph) -> dict[str, Array]:
    model, _ = gpt2()
    table = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    full, name_of = {}, renamed(GPT2_NAMES)
    for weight in graph.weights:
        path = weight.name.removeprefix("lm.")
        if path in ("E", "P"):
            full[weight.name] = table[f"transformer.{'wte' if path == 'E' else 'wpe'}.weight"]
            continue
        if not weight.stack:
            full[weight.name] = table[name_of(path)]
            continue
        rows = []
        for number in range(2):
            found = table[name_of(path).format(number)]
            if path.endswith("attn.W"):  # [d, (qkv head dk)] is ours with qkv in front
                found = np.moveaxis(found.reshape(8, 3, 2, 4), 1, 0)
            rows.append(found.reshape(weight.shape[1:]))
        full[weight.name] = np.stack(rows)
    return full


def test_gpt2() -> None:
    model, config = gpt2()
    graph = lowered("gpt2", config)
    wanted = model(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK)).logits
    compare(run(graph, gpt2_weights(graph), input_ids=IDS, attention_mask=MASK)["logits"], wanted)


def test_gpt2_padded_on_the_left_is_gpt2() -> None:
    _, config = gpt2()
    graph = lowered("gpt2", config)
    right = run(graph, gpt2_weights(graph), input_ids=IDS, attention_mask=MASK)["logits"]
    turned = [
        np.stack([np.roll(row, 7 - m.sum()) for row, m in zip(x, MASK, strict=True)]) for x in (IDS, MASK)
    ]
    left = run(graph, gpt2_weights(graph), input_ids=turned[0], attention_mask=turned[1])["logits"]
    close(left[turned[1].astype(bool)], right[MASK.astype(bool)])


def test_the_loss_of_gpt2() -> None:
    model, config = gpt2()
    graph = lowered("gpt2", config, "causal_lm")
    labels = np.where(MASK == 1, IDS, -100)
    logits = model(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK)).logits[:, :-1]
    wanted = torch.nn.functional.cross_entropy(
        logits.reshape(-1, 19), torch.tensor(labels)[:, 1:].reshape(-1)
    )
    found = run(graph, gpt2_weights(graph), input_ids=IDS, labels=labels, attention_mask=MASK)["loss"]
    close(found, wanted.detach().numpy())


# ------------------------------------------------------------------------------------------------- Llama

LLAMA_NAMES = {
    "layer[layers].": "model.layers.{}.",
    "attn.W_Q": "self_attn.q_proj.weight",
    "attn.W_K": "self_attn.k_proj.weight",
    "attn.W_V": "self_attn.v_proj.weight",
    "attn.W_O": "self_attn.o_proj.weight",
    "FFN.W_1": "mlp.gate_proj.weight",
    "FFN.W_3": "mlp.up_proj.weight",
    "FFN.W_2": "mlp.down_proj.weight",
    "N_1.g": "input_layernorm.weight",
    "N_2.g": "post_attention_layernorm.weight",
    "N.g": "model.norm.weight",
}


@pytest.mark.parametrize("tied", [False, True])
def test_llama(tied: bool) -> None:
    config = transformers.LlamaConfig(
        vocab_size=19,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        intermediate_size=12,
        max_position_embeddings=32,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    model = peer(transformers.LlamaForCausalLM(config))

    def name_of(path: str) -> str:
        return {"E": "model.embed_tokens.weight", "U": "lm_head.weight"}.get(path) or renamed(LLAMA_NAMES)(
            path
        )

    graph = lowered("llama", {**config.to_dict(), "rope_parameters": {"rope_theta": 10_000}})  # it knows no other kind
    assert ("U" in {one.name for one in graph.weights}) is not tied
    weights = filled(graph, model, name_of)
    given: dict[str, Any] = {"input_ids": IDS, "attention_mask": MASK}
    wanted = model(**{key: torch.tensor(value) for key, value in given.items()}).logits
    compare(
        run(graph, weights, **given)["logits"], wanted, tolerance=2e-5
    )  # its norms and angles are float32 inside
    ids = np.broadcast_to(np.arange(3, 10), MASK.shape)
    wanted = model(
        **{key: torch.tensor(value) for key, value in given.items()}, position_ids=torch.tensor(ids.copy())
    ).logits
    compare(run(graph, weights, **given, position_ids=ids)["logits"], wanted, tolerance=2e-5)


# ---------------------------------------------------------------------------------------------------- T5

T5_NAMES = {
    "encoder.layer[layers].attn.": "encoder.block.{}.layer.0.SelfAttention.",
    "encoder.layer[layers].N_1.g": "encoder.block.{}.layer.0.layer_norm.weight",
    "encoder.layer[layers].FFN.": "encoder.block.{}.layer.1.DenseReluDense.",
    "encoder.layer[layers].N_2.g": "encoder.block.{}.layer.1.layer_norm.weight",
    "decoder.layer[layers].attn.": "decoder.block.{}.layer.0.SelfAttention.",
    "decoder.layer[layers].N_1.g": "decoder.block.{}.layer.0.layer_norm.weight",
    "decoder.layer[layers].cross.": "decoder.block.{}.layer.1.EncDecAttention.",
    "decoder.layer[layers].N_2.g": "decoder.block.{}.layer.1.layer_norm.weight",
    "decoder.layer[layers].FFN.": "decoder.block.{}.layer.2.DenseReluDense.",
    "decoder.layer[layers].N_3.g": "decoder.block.{}.layer.2.layer_norm.weight",
    "coder.N.g": "coder.final_layer_norm.weight",
    "coder.R": "coder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "W_Q": "q.weight",
    "W_K": "k.weight",
    "W_V": "v.weight",
    "W_O": "o.weight",
    "W_2": "wo.weight",
}


@pytest.mark.parametrize("gated", [False, True])
def test_t5(gated: bool) -> None:
    config = transformers.T5Config(
        vocab_size=19,
        d_model=8,
        d_kv=3,
        d_ff=12,
        num_layers=2,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=not gated,
    )
    model = peer(transformers.T5ForConditionalGeneration(config))
    first = {"W_1": "wi_0.weight", "W_3": "wi_1.weight"} if gated else {"W_1": "wi.weight"}

    def name_of(path: str) -> str:
        return {"E": "shared.weight", "U": "lm_head.weight"}.get(path) or renamed({**T5_NAMES, **first})(path)

    target, seen = IDS[:, ::-1][:, :5].copy(), np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])
    graph = lowered("t5", config.to_dict())
    given: dict[str, Any] = {
        "input_ids": IDS,
        "attention_mask": MASK,
        "decoder_input_ids": target,
        "decoder_attention_mask": seen,
    }
    found = run(graph, filled(graph, model, name_of), **given)
    wanted = model(**{key: torch.tensor(value) for key, value in given.items()})
    compare(
        found["encoder_last_hidden_state"], wanted.encoder_last_hidden_state, tolerance=2e-5
    )  # float32 norms inside
    compare(found["logits"], wanted.logits, seen, tolerance=2e-5)


# ----------------------------------------------------------------------------------------------- DeBERTa


def test_deberta() -> None:
    config = transformers.DebertaV2Config(
        vocab_size=19,
        hidden_size=6,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        position_buckets=4,
        max_relative_positions=8,
        max_position_embeddings=8,
        relative_attention=True,
        share_att_key=True,
        pos_att_type=["c2p", "p2c"],
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        type_vocab_size=0,
    )
    model = peer(transformers.DebertaV2Model(config))
    names = {
        "LN_r.γ": "encoder.LayerNorm.weight",
        "LN_r.β": "encoder.LayerNorm.bias",
        "layer[layers].": "encoder.layer.{}.",
        "attn.W_Q": "attention.self.query_proj.weight",
        "attn.b_Q": "attention.self.query_proj.bias",
        "attn.W_K": "attention.self.key_proj.weight",
        "attn.b_K": "attention.self.key_proj.bias",
        "attn.W_V": "attention.self.value_proj.weight",
        "attn.b_V": "attention.self.value_proj.bias",
        "attn.W_O": "attention.output.dense.weight",
        "attn.b_O": "attention.output.dense.bias",
        "LN_1.γ": "attention.output.LayerNorm.weight",
        "LN_1.β": "attention.output.LayerNorm.bias",
        "FFN.W_1": "intermediate.dense.weight",
        "FFN.b_1": "intermediate.dense.bias",
        "FFN.W_2": "output.dense.weight",
        "FFN.b_2": "output.dense.bias",
        "LN_2.γ": "output.LayerNorm.weight",
        "LN_2.β": "output.LayerNorm.bias",
    }
    others = {
        "E": "embeddings.word_embeddings.weight",
        "R": "encoder.rel_embeddings.weight",
        "LN.γ": "embeddings.LayerNorm.weight",
        "LN.β": "embeddings.LayerNorm.bias",
    }
    graph = lowered("deberta", config.to_dict(), "Deberta")
    weights = filled(graph, model, lambda path: others.get(path) or renamed(names)(path))
    found = run(graph, weights, input_ids=IDS, attention_mask=MASK)["last_hidden_state"]
    wanted = model(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK)).last_hidden_state
    compare(found, wanted, tolerance=1e-7)  # its √(3·dk) is float32
