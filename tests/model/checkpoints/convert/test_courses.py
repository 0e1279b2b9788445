"""State dicts of courses compute as their programs do, with what no tensor tells said, or are refused in a sentence."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
import yaml

from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint, renamed_weights
from model.checkpoints.load_hints import LoadHints
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.convert import course_references as courses
from tests.model.checkpoints.convert.course_references import HEADS, WORDS, D, Weights

CPU, EXACT = torch.device("cpu"), {"atol": 1e-5, "rtol": 1e-4}
IDS, TARGET = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]]), torch.tensor([[2, 7, 1, 8]])
ON_FILM = "scores divided by the square root of a head's width (on film it is that of d_model)"
SINES, START = "sinusoidal positions (there is no table of them)", "targets begin with token 0 (there is no tokenizer)"
SAMPLE = "norms that divide by the deviation of all channels (before December 2022 it was the sample deviation)"
META = [
    "texts of at most 2,048 tokens (max_seq_len is not said)",
    "ε = 1e-5 in its norms (norm_eps is not said)",
    "rotary positions of base 10,000 (rope_theta is not said)",
]
PROJECTION = "logits divided by √d_model (scale_emb_or_prj is not said)"
FILES = {
    "LLMs-from-scratch": (courses.raschka_weights(), courses.raschka, []),
    "LLMs-from-scratch, biases": (courses.raschka_weights(qkv_bias=True), courses.raschka, []),
    "LLMs-from-scratch, groups": (courses.raschka_weights(groups=2, out_bias=False), courses.raschka, []),
    "the GPT of Karpathy's lecture": (courses.lecture_weights(), courses.lecture, [ON_FILM]),
    "hyunwoongko/transformer": (courses.hyunwoongko_weights(True), courses.hyunwoongko, [SAMPLE, START]),
    "hyunwoongko/transformer, no table": (
        courses.hyunwoongko_weights(False),
        courses.hyunwoongko,
        [SAMPLE, SINES, START],
    ),
    "jadore801120/attention-is-all-you-need-pytorch": (
        courses.jadore801120_weights(True),
        partial(courses.jadore801120, scaled="prj"),
        [PROJECTION, START],
    ),
    "jadore801120/attention-is-all-you-need-pytorch, apart": (
        courses.jadore801120_weights(False, width=32),
        courses.jadore801120,
        [START],
    ),
    "nanochat": (
        courses.nanochat_weights(),
        courses.nanochat,
        ["texts of at most 2,048 tokens (sequence_len is not said)"],
    ),
    "Llama in Meta's names": (courses.meta_weights(), courses.meta, META),
    "Llama in Meta's names, tied": (courses.meta_weights(groups=4, tied=True), courses.meta, META),
}


def opened(path, **options):
    return open_checkpoint(path, CPU, torch.float32, **options)


def saved(folder, state, name="model.pt", **beside):
    torch.save({"model": dict(state), **beside} if beside else dict(state), folder / name)
    return folder / name


def compare(model, reference, *inputs):
    with torch.inference_mode():
        torch.testing.assert_close(model.network(*inputs), reference(*inputs), **EXACT)


@pytest.mark.parametrize("name", FILES)
def test_it_computes_as_its_program_does(name, tmp_path):
    state, reference, assumed = FILES[name]
    counted = "lecture" in name
    model = opened(saved(tmp_path, state), **({} if counted else {"heads": HEADS}))
    two = model.kind == "encoder-decoder"
    compare(model, partial(reference, state), *((IDS, TARGET) if two else (IDS,)))
    assert model.training["format"].removesuffix(", run by transformers") == name.partition(", ")[0]
    assert model.training["assumed"] == assumed
    assert ("heads" in model.training["open"]) != counted
    assert catalog_entry(tmp_path / "model.pt").parameters == model.network.parameter_count()
    assert model.trace("3 1 4", *(["2 7"] if two else []))["output.logits"].shape == (3, WORDS)


def test_what_lies_beside_meta_s_file_is_read(tmp_path):
    """params.json of Meta, and config.json of transformers in the folder that people put it into."""
    state = courses.meta_weights()
    path = saved(tmp_path, state, "consolidated.00.pth")
    (tmp_path / "params.json").write_text(json.dumps({"n_heads": 4, "norm_eps": 0.1, "rope_theta": 50.0}))
    model = opened(path)
    compare(model, partial(courses.meta, state, base=50.0, eps=0.1), IDS)
    assert model.training["assumed"] == META[:1]
    (tmp_path / "params.json").write_text(json.dumps({"n_heads": 4, "sliding_window": 3}))  # as Mistral's
    assert opened(path).config.window == 3
    (tmp_path / "params.json").unlink()
    settings = {"model_type": "llama", "num_attention_heads": 4, "rms_norm_eps": 0.1, "rope_theta": 50.0}
    (tmp_path / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 64}))
    model = opened(tmp_path)
    compare(model, partial(courses.meta, state, base=50.0, eps=0.1), IDS)
    assert (model.training["assumed"], model.config.max_length) == ([], 64)
    config, weights = renamed_weights(tmp_path, LoadHints())
    assert (config, weights.keys()) == (model.config, dict(model.network.named_parameters()).keys())
    (tmp_path / "config.json").write_text(
        json.dumps({**settings, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})
    )
    with pytest.raises(CheckpointError, match="its rotary positions are of the kind 'yarn'"):
        opened(tmp_path)


@pytest.mark.parametrize(("tied", "stretch"), [(False, 8.0), (True, 32.0)], ids=["Llama 3.1", "Llama 3.2 1B"])
def test_llama_3_stretches_its_rotary_positions(tied, stretch, tmp_path):
    """By Meta's use_scaled_rope alone, to which transformers' convert_llama_weights_to_hf.py gives these factors."""
    state, params = courses.meta_weights(groups=4 if tied else 2, tied=tied), {"n_heads": 4, "use_scaled_rope": True}
    (tmp_path / "params.json").write_text(json.dumps(params))
    model = opened(saved(tmp_path, state))
    config = model.config
    assert (config.rotary_stretch, config.rotary_short, config.rotary_long) == (stretch, 2048.0, 8192.0)
    rest = "original_max_position_embeddings 8192, low_freq_factor 1, high_freq_factor 4"
    said = f"rotary positions stretched with factor {stretch:g}, {rest} (rope_scaling is not said)"
    assert said in model.training["assumed"]
    (tmp_path / "params.json").write_text(json.dumps({**params, "rope_scaling_factor": 16}))
    model = opened(tmp_path / "model.pt")
    assert model.config.rotary_stretch == 16
    assert said.replace(f"factor {stretch:g}, ", "", 1) in model.training["assumed"]


def test_where_jadore801120_puts_the_root_can_be_said(tmp_path):
    state = courses.jadore801120_weights(True)
    for where in ("emb", "prj", "none"):
        path = saved(tmp_path, state, settings={"scale_emb_or_prj": where, "n_head": HEADS})
        compare(opened(path), partial(courses.jadore801120, state, scaled=where), IDS, TARGET)


def test_nanochat_reads_its_meta_file_and_leaves_out_filling_rows(tmp_path):
    state = courses.nanochat_weights(groups=2)
    path = saved(tmp_path, state, "model_000009.pt")
    own = {"sequence_len": 32, "vocab_size": WORDS - 2, "n_head": HEADS, "n_kv_head": 2}
    (tmp_path / "meta_000009.json").write_text(json.dumps({"step": 9, "model_config": own}))
    model = opened(path)
    compare(model, lambda ids: courses.nanochat(state, ids)[..., : WORDS - 2], IDS)
    assert (model.training["assumed"], model.config.vocabulary) == ([], WORDS - 2)
    assert renamed_weights(path, LoadHints()) is None
    torch.save({**state, "resid_lambdas": torch.ones(2)}, path)
    with pytest.raises(
        CheckpointError, match=r"is a nanochat of 2026, whose resid_lambdas \(1 such tensors\) nothing here"
    ):
        opened(path)


NEOX = {
    "name": "pythia-14m",
    "n_head": 4,
    "n_query_groups": 4,
    "block_size": 64,
    "bias": True,
    "norm_class_name": "LayerNorm",
    "norm_eps": 1e-3,
    "parallel_residual": True,
    "shared_attention_norm": False,
    "rotary_percentage": 0.5,
    "rope_base": 1000,
    "mlp_class_name": "GptNeoxMLP",
    "gelu_approximate": "none",
    "scale_embeddings": False,
    "sliding_window_size": None,
}
LLAMA = NEOX | {
    "name": "tiny-llama-1.1b",
    "n_query_groups": 2,
    "bias": False,
    "norm_class_name": "RMSNorm",
    "parallel_residual": False,
    "rotary_percentage": 1.0,
    "mlp_class_name": "LLaMAMLP",
}
LITGPT = {
    "GPT-NeoX": NEOX,
    "one norm": NEOX | {"shared_attention_norm": True, "gelu_approximate": "tanh"},
    "Llama": LLAMA,
    "Gemma": LLAMA | {"name": "Gemma-2b", "mlp_class_name": "GemmaMLP", "scale_embeddings": True, "n_query_groups": 1},
}


@pytest.mark.parametrize("name", LITGPT)
def test_litgpt_computes_as_its_model_config_says(name, tmp_path):
    config = LITGPT[name]
    state = courses.litgpt_weights(config)
    path = saved(tmp_path, state, "lit_model.pth", step=3)
    (tmp_path / "model_config.yaml").write_text(yaml.dump(config))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt_neox"}))  # which litgpt copies beside it
    for place in (path, tmp_path):
        model = opened(place)
        assert model.config.rotary_stretch == 1
        compare(model, lambda ids: courses.litgpt(state, ids, config), IDS)
    assert (model.training["format"], model.training["assumed"]) == ("litgpt", [])


def test_litgpt_stretches_llama_3_s_positions(tmp_path):
    path = saved(tmp_path, courses.litgpt_weights(LLAMA), "lit_model.pth")
    stretch = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_seq_len": 8192}
    own = LLAMA | {"rope_adjustments": stretch, "rope_condense_ratio": 1, "hf_config": {"name": "Gemma"}}
    (tmp_path / "model_config.yaml").write_text(yaml.dump(own))
    config = opened(path).config
    assert (config.rotary_stretch, config.rotary_short, config.rotary_long) == (32.0, 2048.0, 8192.0)


def test_older_files_of_litgpt_hold_the_rows_of_groups_by_turns(tmp_path):
    state = courses.litgpt_weights(LLAMA)
    older = Weights()
    for name, each in state.items():
        query, key, value = each.unflatten(0, (-1, D // 4)).split((4, 2, 2)) if ".qkv." in name else (None,) * 3
        if query is not None:
            each = torch.cat([query[:2], key[:1], value[:1], query[2:], key[1:], value[1:]]).flatten(0, 1)
        older[name.replace(".qkv.", ".attn.")] = each
    path = saved(tmp_path, older, "lit_model.pth")
    with pytest.raises(CheckpointError, match=r"what it computes is in no tensor: put the model_config\.yaml"):
        opened(path)
    (tmp_path / "model_config.yaml").write_text(yaml.dump(LLAMA))
    compare(opened(path), lambda ids: courses.litgpt(state, ids, LLAMA), IDS)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sliding_window_size": 9}, "says sliding_window_size 9, which ours does not compute: convert it"),
        ({"norm_qk": True}, "says norm_qk True, which ours"),
        ({"rope_condense_ratio": 4}, "says rope_condense_ratio 4, which ours"),
        ({"rope_adjustments": {"factor": 2.0}}, "its rotary positions are of the kind 'linear'"),
        ({"mlp_class_name": "LLaMAMoE"}, "names LLaMAMoE, which ours does not compute"),
        ({"rotary_percentage": "half"}, r"rotary_percentage \(half\) must be a number above 0"),
    ],
)
def test_what_litgpt_asks_for_and_ours_does_not_compute_is_refused(changes, sentence, tmp_path):
    path = saved(tmp_path, courses.litgpt_weights(LLAMA), "lit_model.pth")
    (tmp_path / "model_config.yaml").write_text(yaml.dump(LLAMA | changes))
    with pytest.raises(CheckpointError, match=sentence):
        opened(path)


def test_a_yaml_of_aliases_is_not_followed(tmp_path):
    path = saved(tmp_path, courses.litgpt_weights(LLAMA), "lit_model.pth")
    (tmp_path / "model_config.yaml").write_text("a: &a [1, 2]\nb: [*a, *a]\n")
    with pytest.raises(CheckpointError, match=r"model_config\.yaml must hold a mapping of YAML without aliases"):
        opened(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"trf_blocks.0.att.W_query.lora.A": torch.ones(2, D)},
            r"holds trf_blocks\.0\.att\.W_query\.lora\.A .1 in all., for which that network has no place",
        ),
        ({"out_head.weight": torch.ones(2, D)}, r"is a classifier: out_head\.weight gives 2 numbers, and there are 19"),
        ({"out_head.bias": torch.ones(2)}, "output.logits.bias has shape"),
        ({"final_norm.scale": None}, "lacks final_norm.scale"),
        ({"pos_emb.weight": torch.ones(())}, r"pos_emb\.weight has shape \(\), not 2 dimensions above 0"),
        ({"pos_emb.weight": torch.ones(20, 0)}, r"pos_emb\.weight has shape \(20, 0\), not 2 dimensions above 0"),
        ({"trf_blocks.1.att.W_key.weight": torch.ones(3, D)}, "W_key|has shape"),
    ],
)
def test_what_a_course_does_not_have_is_refused(changes, sentence, tmp_path):
    state = {name: each for name, each in (courses.raschka_weights() | changes).items() if each is not None}
    with pytest.raises(CheckpointError, match=sentence):
        opened(saved(tmp_path, state), heads=HEADS)


def test_a_mask_that_the_program_names_only_hides_whatever_its_values(tmp_path):
    state = courses.raschka_weights()
    state |= {name: torch.arange(400.0).reshape(20, 20) for name in state if name.endswith(".att.mask")}
    assert opened(saved(tmp_path, state), heads=HEADS).training["format"] == "LLMs-from-scratch"


def test_heads_that_do_not_fit_are_refused_by_their_number(tmp_path):
    path = saved(tmp_path, courses.raschka_weights(groups=1, out_bias=False))
    with pytest.raises(CheckpointError, match="queries of 16 and keys of 4 channels cannot have 2 heads"):
        opened(path, heads=2)
    with pytest.raises(CheckpointError, match="open it with heads=N"):
        opened(path)
