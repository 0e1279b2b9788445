"""Which folders are rebuilt, which are left to others, and which are refused with a sentence."""

import re
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from model.checkpoints.convert.from_huggingface import FAMILIES, rebuilt_config, rebuilt_weights
from model.checkpoints.tensors import read_tensors
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.convert.twins import (
    SOURCE,
    VOCABULARY,
    read_settings,
    rebuilt,
)


def names_of(folder: Path) -> list[str]:
    return list(load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("model_type", FAMILIES)
def test_settings_that_are_left_out_are_the_classes_own(model_type):
    """From an empty config.json, and from one that says all that transformers would assume."""
    settings = {"model_type": model_type}
    written = transformers.CONFIG_MAPPING[model_type]().to_dict()
    names = {f"{FAMILIES[model_type].prefix}{number}" for number in range(200)}
    assert config_of(settings, names) == config_of(written | settings | {"architectures": None}, names)


def config_of(settings, names) -> TransformerConfig:
    from model.checkpoints.convert.family import SourceCheckpoint
    from model.checkpoints.convert.from_huggingface import _config

    return _config(SourceCheckpoint(FAMILIES[settings["model_type"]], settings, names))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gpt2", {"model_type": "gptj"}),
        ("gpt2", {"activation_function": "quick_gelu"}),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
        ("gpt2", {"add_cross_attention": True}),
        ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}),
        ("gpt2", {"hidden_size": 64}),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 100.0}}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
        ("llama", {"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}),
        ("llama", {"final_logit_softcapping": 30.0}),
        ("llama", {"quantization_config": {"bits": 4}}),
        ("llama", {"auto_map": {"AutoModel": "code.Model"}}),
        ("llama", {"hidden_act": "relu"}),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}),
        ("qwen2", {"layer_types": None, "use_sliding_window": True, "max_window_layers": 1, "sliding_window": 3}),
        ("gemma", {"hidden_activation": "silu"}),
        ("gemma", {"use_bidirectional_attention": True}),
        ("bert", {"is_decoder": True}),
        ("bert", {"position_embedding_type": "relative_key"}),
        ("roberta", {"hidden_act": "relu"}),
        ("roberta", {"pad_token_id": "one"}),
        ("bart", {"encoder_ffn_dim": 64}),
        ("bart", {"tie_word_embeddings": False}),
        ("bart", {"normalize_before": True}),
        ("marian", {"share_encoder_decoder_embeddings": False}),
        ("t5", {"feed_forward_proj": "gated-gated-gelu"}),
        ("opt", {"do_layer_norm_before": False}),
        ("opt", {"word_embed_proj_dim": 16}),
    ],
    ids=str,
)
def test_what_is_not_known_to_be_the_same_is_left_to_others(kind, changes, folders):
    folder = folders(kind)
    assert rebuilt_config(read_settings(folder), names_of(folder)) is not None
    assert rebuilt_config(read_settings(folder) | changes, names_of(folder)) is None


def test_a_tensor_of_something_else_is_left_to_others(folders):
    settings, names = read_settings(folders("bert-bare")), names_of(folders("bert-bare"))
    assert rebuilt_config(settings, [*names, "pooler.dense.scale", "embeddings.position_ids"]) is not None
    assert rebuilt_config(settings, [*names, "classifier.weight"]) is None
    assert rebuilt_config(settings, [*names, "encoder.layer.0.adapter.weight"]) is None


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("gpt2", {"n_layer": 3}, "the weights lack transformer.h.2.attn.c_attn"),
        ("gpt2", {"n_layer": 10**6}, "config.json says 1,000,000 layers, more than the weights"),
        ("gpt2", {"n_head": 5}, "d_model (32) must be divisible by n_heads (5)"),
        ("gpt2", {"n_embd": "32"}, "n_embd (32) must be a whole number from 1 to 10,000,000"),
        ("gpt2", {"layer_norm_epsilon": float("nan")}, "norm_epsilon (nan) must be a finite number"),
        ("gpt2", {"resid_pdrop": "much"}, "resid_pdrop (much) must be a number"),
        ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings (yes) must be true or false"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}},
            "low_freq_factor (4.0) must be between 0 and 1.0",
        ),
        ("llama", {"num_attention_heads": 10**400}, "num_attention_heads (1000"),
        ("marian", {"max_position_embeddings": 10**6}, "max_position_embeddings (1,000,000) must be at most"),
    ],
    ids=str,
)
def test_contradictions_are_refused_in_a_sentence(kind, changes, message, folders):
    folder = folders(kind)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        rebuilt_config(read_settings(folder) | changes, names_of(folder))


@pytest.mark.parametrize(("kind", "name"), [("gpt2", "transformer.wte.weight"), ("t5", "shared.weight")])
def test_a_missing_embedding_is_said(kind, name, folders):
    names = [other for other in names_of(folders(kind)) if other != name]
    with pytest.raises(CheckpointError, match=f"the weights lack {name}"):
        rebuilt_config(read_settings(folders(kind)), names)


def test_tensors_that_do_not_fit_are_refused_in_a_sentence(folders):
    folder = folders("gpt2")
    settings, weights = read_settings(folder), read_tensors(folder)
    config = rebuilt_config(settings, weights)
    name = "transformer.h.0.attn.c_attn.weight"
    for tensor, message in (
        (torch.zeros(()), f"{name} has shape (), from which"),
        (torch.zeros(3, 3), f"{name} has shape (3, 3), which does not fit config.json: decoder.layers.0"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            rebuilt_weights(settings, config, weights | {name: tensor})
    with pytest.raises(CheckpointError, match=f"the weights lack {name}"):
        rebuilt_weights(settings, config, {other: weights[other] for other in weights if other != name})
    copy = weights["transformer.wte.weight"].clone()
    assert (
        rebuilt_weights(settings, config, weights | {"lm_head.weight": copy}).keys()
        == rebuilt_weights(settings, config, weights).keys()
    )
    copy[0, 0] += 1
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from transformer.wte.weight"):
        rebuilt_weights(settings, config, weights | {"lm_head.weight": copy})


def test_old_names_and_old_files_are_read(folders, tmp_path):
    """GPT-2 as on the hub (no prefix, kept masks), BERT's of TensorFlow, Marian with its curves in the file."""
    weights = read_tensors(folders("gpt2"))
    old = {name.removeprefix("transformer."): tensor.clone() for name, tensor in weights.items()}
    old |= {"h.0.attn.bias": torch.ones(1, 1, 24, 24), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    assert_same(folders("gpt2"), tmp_path / "gpt2", old)
    weights = read_tensors(folders("bert"))
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): each
        for name, each in weights.items()
    }
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old |= {"cls.seq_relationship.weight": torch.zeros(2, 32), "bert.pooler.dense.bias": torch.zeros(32)}
    assert_same(folders("bert"), tmp_path / "bert", old)
    table = rebuilt(folders("marian")).encoder.embedding.positions.table
    old = read_tensors(folders("marian"))
    old |= {f"model.{stack}.embed_positions.weight": table.clone() for stack in ("encoder", "decoder")}
    assert_same(folders("marian"), tmp_path / "marian", old)
    assert rebuilt(tmp_path / "marian").config.position == "learned"


def assert_same(folder: Path, other: Path, weights: dict[str, torch.Tensor]) -> None:
    other.mkdir()
    (other / "config.json").write_text((folder / "config.json").read_text())
    save_file(weights, other / "model.safetensors")
    one, two = rebuilt(folder), rebuilt(other)
    inputs = (SOURCE, SOURCE) if one.kind == "encoder-decoder" else (SOURCE,)
    with torch.inference_mode():
        assert torch.equal(one(*inputs), two(*inputs))


def test_settings_that_follow_from_others_may_be_left_out(folders):
    settings = read_settings(folders("llama-biased"))
    for name in ("head_dim", "num_key_value_heads", "architectures"):
        del settings[name]
    config = rebuilt_config(settings, names_of(folders("llama-biased")))
    assert config is not None
    assert (config.d_head, config.kv_heads, config.vocabulary) == (8, 4, VOCABULARY)
