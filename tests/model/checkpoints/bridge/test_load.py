"""Folders of transformers opened as they are, and refused where they must not be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from model.checkpoints.bridge.load import TEXTS_ALONE, open_bridged, open_network
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import (
    CPU,
    GROUPED,
    ONE,
    T5,
    TWO,
    bridged,
    inputs,
    opened,
    random_model,
    settings_in,
    theirs,
    traced,
    write_tokenizer,
)

SINGLE = torch.float32


@pytest.fixture
def folder(tmp_path):
    def copied(name: str):
        shutil.copytree(theirs(name)[1], tmp_path / name)
        return tmp_path / name

    return copied


TEXTS = {"gemma2": "The cat sees", "electra": "the <mask> sees", "pegasus": "the cat"}


@pytest.mark.parametrize(("name", "text"), TEXTS.items())
def test_a_folder_is_read_written_and_filled(folder, name, text):
    path = folder(name)
    write_tokenizer(path)
    model = open_bridged(path, settings_in(path), CPU, SINGLE)
    trace = model.trace(text)
    assert "the" in trace.source_tokens
    assert f"{name}, run by transformers" in model.training["format"]
    if model.kind == "encoder-only":
        assert len(model.guesses(trace)[0].choices) == 5
    else:
        assert len(model.generate(text, length=3).ids) <= 3
    assert model.network.parameter_count() == sum(each.numel() for each in theirs(name)[0].parameters())


def test_code_in_a_folder_is_never_run(folder):
    path = folder("gpt2")
    (path / "evil.py").write_text("raise SystemExit('ran')")
    own = {"auto_map": {"AutoModel": "evil.Model"}}
    for settings in (own, {"text_config": own}, {"x": [own]}):
        with pytest.raises(CheckpointError, match="code of its own"):
            opened(path, **settings)


@pytest.mark.parametrize("said", [True, False])
def test_a_layer_that_predicts_a_further_token_is_left_out(said, folder):
    """As of DeepSeek-V3 and GLM-4.5: behind the last that num_hidden_layers counts; known by config.json or by what it
    joins states and embeddings with.
    """
    path = folder("deepseek_v3")
    last = settings_in(path)["num_hidden_layers"]
    weights = load_file(path / "model.safetensors")
    ends = {name: name.replace(f"layers.{last - 1}.", f"layers.{last}.") for name in weights}
    more = {ends[name]: weights[name] + 1 for name in weights if ends[name] != name}
    refused = weights | more
    more[f"model.layers.{last}.{'shared_head.norm' if said else 'eh_proj'}.weight"] = torch.ones(4)
    save_file(weights | more, path / "model.safetensors", {"format": "pt"})
    network = opened(path, num_nextn_predict_layers=int(said))
    unchanged = bridged("deepseek_v3")
    assert torch.equal(network(*inputs(network)), unchanged(*inputs(unchanged)))
    assert {name[:15] for name in network.runner.model.vitrine_unused.harmless} == {f"model.layers.{last}."}
    save_file(refused, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="its number of layers must be that of the weights"):
        opened(path, num_nextn_predict_layers=0)


def test_no_module_of_the_model_writes_into_its_folder(folder):
    path = folder("llama")
    before = {each: each.read_bytes() for each in path.iterdir()}
    network = opened(path)
    network(*inputs(network))
    assert {each: each.read_bytes() for each in path.iterdir()} == before


def test_weights_that_are_missing_are_not_made_up(folder):
    with pytest.raises(CheckpointError, match=r"lacks weights of BertForMaskedLM, such as cls\."):
        opened(folder("bare"), architectures=["BertForMaskedLM"])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("BertForSequenceClassification", ONE),
        ("RobertaForTokenClassification", ONE | {"max_position_embeddings": 66}),
        ("ElectraForPreTraining", ONE),
        ("T5EncoderModel", T5),
        ("T5ForSequenceClassification", T5 | {"tie_word_embeddings": False}),
        ("T5ForTokenClassification", T5),
        ("LlamaForSequenceClassification", ONE),
        ("LlamaForQuestionAnswering", ONE),
        ("Gemma2Model", GROUPED | {"tie_word_embeddings": False}),
        ("M2M100Model", TWO | {"tie_word_embeddings": False}),
    ],
)
def test_a_model_that_predicts_no_words_opens_without_an_output(kind, options, tmp_path):
    model = random_model(kind, **options)
    model.save_pretrained(tmp_path)
    network = opened(tmp_path)
    assert network.missing["output.logits"] == Reason.OUTPUT
    trace, named = traced(network), dict(zip(("input_ids", "decoder_input_ids"), inputs(network), strict=False))
    with torch.inference_mode():
        wanted = model.base_model(**named, output_attentions=True)
    two = network.kind == "encoder-decoder"
    for stack in ("encoder", "decoder") if two else (network.kind.removesuffix("-only"),):
        expected = wanted[f"{stack}_attentions" if two else "attentions"]
        for weights, theirs_ in zip(trace.attention(stack), expected, strict=True):
            torch.testing.assert_close(weights, theirs_[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kind", "said"), [("OPTModel", 1), ("OPTForCausalLM", 0)])
def test_that_a_bare_decoder_predicts_by_its_embeddings_is_said(kind, said, tmp_path):
    random_model(kind, **ONE, ffn_dim=48, word_embed_proj_dim=32, do_layer_norm_before=False).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    lens = open_checkpoint(tmp_path)
    assert lens.predicts
    sentence = f"its predictions are by its embeddings: config.json names {kind}, which predicts nothing"
    assert lens.training.get("assumed", []) == [sentence] * said


SEEING = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
MROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}}
PICTURES = {
    "Llava": (
        {"text_config": {"model_type": "llama", **ONE}},
        {"vision_config": {"model_type": "clip_vision_model", **SEEING, "image_size": 28, "patch_size": 14}},
    ),
    "Qwen2_5_VL": (
        {"text_config": {**ONE, **MROPE, "num_key_value_heads": 2}},
        {"vision_config": {"depth": 1, "num_heads": 4, "hidden_size": 32, "out_hidden_size": 32}},
    ),
}


@pytest.mark.parametrize("family", PICTURES)
def test_a_model_that_sees_pictures_is_opened_as_the_one_that_writes(family, tmp_path):
    texts, pictures = PICTURES[family]
    config = getattr(transformers, f"{family}Config")(**texts, **pictures)
    model = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    lens = open_bridged(tmp_path, settings_in(tmp_path), CPU, SINGLE)
    assert (lens.kind, lens.predicts, lens.training["assumed"]) == ("decoder-only", True, [TEXTS_ALONE])
    assert not lens.training.keys() & {"unused", "beside"}
    (ids,) = inputs(lens.network)
    with torch.inference_mode():
        torch.testing.assert_close(lens.network(ids), model(input_ids=ids).logits, atol=1e-5, rtol=0)


VISION = {"vision_config": {**SEEING, "image_size": 28, "patch_size": 14}}
# Classes that no list of transformers has under the config that they write, or whose parts choose no attention.
UNLISTED = {
    "GitForCausalLM": ({**ONE, **VISION}, [TEXTS_ALONE]),
    "MllamaForCausalLM": (
        {**ONE, "num_key_value_heads": 2, "cross_attention_layers": [1], "pad_token_id": 1},
        [TEXTS_ALONE],
    ),
    "Emu3ForCausalLM": ({**ONE, "num_key_value_heads": 2, "pad_token_id": 1}, None),
    "BertGenerationEncoder": (ONE, None),
    "CTRLModel": (
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48, "n_positions": 64, "vocab_size": 49},
        None,
    ),  # CTRLLMHeadModel has a bias for its output
}


@pytest.mark.parametrize("kind", UNLISTED)
def test_the_class_that_wrote_a_file_runs_it(kind, tmp_path):
    options, assumed = UNLISTED[kind]
    model = random_model(kind, **options)
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    lens = open_bridged(tmp_path, settings_in(tmp_path), CPU, SINGLE)
    assert lens.training.get("assumed") == assumed
    assert lens.kind == ("encoder-only" if kind.endswith("Encoder") else "decoder-only")
    (ids,) = inputs(lens.network)
    with torch.inference_mode():
        torch.testing.assert_close(lens.network(ids), model(input_ids=ids)[0], atol=1e-5, rtol=0)


TEXT = {**ONE, "eos_token_id": 3, "bos_token_id": 2}


@pytest.mark.parametrize(("family", "kind"), [("CLIP", "decoder-only"), ("Siglip", "encoder-only")])
def test_of_a_model_that_compares_texts_with_pictures_the_text_model_is_opened(family, kind, tmp_path):
    """CLIP's hides later tokens (Radford et al., 2021, section 2.4), SigLIP's hides none."""
    model = random_model(f"{family}Model", text_config=TEXT, **VISION)
    text = getattr(transformers, f"{family}TextModel").from_pretrained
    for name, saved in (("whole", model), ("alone", model.text_model)):
        saved.save_pretrained(tmp_path / name)
        write_tokenizer(tmp_path / name)
        lens = open_bridged(tmp_path / name, settings_in(tmp_path / name), CPU, SINGLE)
        assert (lens.kind, lens.predicts) == (kind, False)
        whole = name == "whole"
        assert lens.training.get("assumed") == ([TEXTS_ALONE] if whole else None)
        beside = lens.training.get("beside", [])
        assert any(each.startswith("vision_model.") for each in beside) == whole
        (ids,) = inputs(lens.network)
        with torch.inference_mode():
            wanted = text(tmp_path / name)(input_ids=ids).last_hidden_state
        torch.testing.assert_close(lens.network(ids), wanted, atol=1e-5, rtol=0)
        causal = all(each.triu(1).abs().max() == 0 for each in traced(lens.network).attention(kind.split("-")[0]))
        assert causal == (family == "CLIP")


@pytest.mark.parametrize(
    "changes",
    [{"num_experts": 16_384}, {"eos_token_id": [2, 3]}],
    ids=["experts, which the model has none of", "several ends of a text"],
)
def test_a_setting_that_changes_no_weight_changes_no_number(changes, folder):
    network = opened(folder("llama"), **changes)
    torch.testing.assert_close(network(*inputs(network)), bridged("llama")(*inputs(network)))


def test_several_streams_of_states_are_refused(tmp_path):
    config = transformers.Gemma3nTextConfig(
        **GROUPED, vocab_size_per_layer_input=49, hidden_size_per_layer_input=8, laurel_rank=4, num_kv_shared_layers=0
    )
    transformers.Gemma3nForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="several streams of states side by side"):
        opened(tmp_path)


def test_other_models_are_refused_by_name(folder):
    path = folder("gpt2")
    for family, sentence in (
        ("vit", "'vit' is of no language model: by its config.json it has no vocabulary of texts"),
        ("pix2struct", "the encoder of model_type 'pix2struct' reads pictures, sounds or pages"),
        ("xmod", "config.json says no default_language, without which this xmod model reads no text"),
        ("siglip_text_model", "lists no class of model_type 'siglip_text_model' that writes"),
        ("unheard-of", "knows no model_type 'unheard-of'"),
    ):
        (path / "config.json").write_text(json.dumps({"model_type": family}))
        with pytest.raises(CheckpointError, match=sentence):
            open_network(path, {"model_type": family}, CPU, SINGLE)


def test_a_bin_is_read_without_running_what_is_in_it(folder, tmp_path):
    path = folder("gpt2")
    (path / "model.safetensors").unlink()
    state = theirs("gpt2")[0].state_dict()
    torch.save(state, path / "pytorch_model.bin")
    network = opened(path)
    torch.testing.assert_close(network(*inputs(network)), bridged("gpt2")(*inputs(network)))
    torch.save(state | {"evil": Evil(tmp_path / "ran")}, path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="could run code"):
        opened(path)
    assert not (tmp_path / "ran").exists()


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_the_environment_spreads_a_model(folder, monkeypatch):
    path = folder("gpt2")
    monkeypatch.setenv("VITRINE_DEVICE_MAP", "auto")
    network = open_bridged(path, settings_in(path), CPU, SINGLE).network
    torch.testing.assert_close(network(*inputs(network)), bridged("gpt2")(*inputs(network)))
    monkeypatch.setenv("VITRINE_DEVICE_MAP", "everywhere")
    with pytest.raises(ValueError, match="must be auto"):
        open_bridged(path, settings_in(path), CPU, SINGLE)


def test_half_precision_and_a_device_map(folder):
    path = folder("llama")
    half = opened(path, dtype=torch.bfloat16)
    assert next(half.parameters()).dtype == torch.bfloat16
    assert not half.missing
    spread = opened(path, device_map={"": "cpu"})
    torch.testing.assert_close(spread(*inputs(spread)), bridged("llama")(*inputs(spread)))


MIXTRAL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
NLLB = {"architectures": ["NllbMoeForConditionalGeneration"], "model_type": "nllb-moe"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_hidden_layers": 10**9}, "says num_hidden_layers 1,000,000,000, more than the weights have tensors"),
        ({"num_hidden_layers": 10**9, "layer_types": None}, "says num_hidden_layers"),
        ({"text_config": {"num_hidden_layers": 10**9}}, "says num_hidden_layers"),
        ({"num_labels": 10**9}, "says num_labels"),
        ({"vocab_size": 10**9}, "asks for more than [0-9,]+ weights"),
        ({"hidden_size": 10**5}, "asks for more than"),
        ({"architectures": {"a": 1}}, "must be a list of names"),
        ({"architectures": [1]}, "must be a list of names"),
        ({"transformers_weights": "other.safetensors"}, "names another file"),
        ({"num_attention_heads": 1, "head_dim": 0}, "lacks weights|cannot"),
        (
            {"intermediate_size": 40},
            r"_proj.weight has shape \(32, 48\), and config.json asks for \(32, 40\) \(6 such",
        ),
        (MIXTRAL | {"num_local_experts": 10**9}, "asks for more"),
        (NLLB | {"num_experts": 10**9}, "than"),
    ],
)
def test_a_config_that_asks_for_more_than_the_files_hold_is_refused_at_once(folder, changes, sentence):
    with pytest.raises(CheckpointError, match=sentence):
        opened(folder("llama"), **changes)


def test_a_number_of_an_outputs_labels_is_none_of_layers(folder):
    assert opened(folder("llama"), num_qa_labels=9500).config.n_decoder_layers == 2


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 49}
LAYERED = {**GROUPED, "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}
REFUSED = {
    "BertLMHeadModel": (ONE, "was saved as one that writes, and its tokens see later ones: set is_decoder to true"),
    "MambaForCausalLM": (SMALL, "no attention could be seen in this mamba model: it does not attend, or by code"),
    "LEDForConditionalGeneration": (
        {**TWO, "attention_window": 8, "max_encoder_position_embeddings": 64},
        "no attention could be seen in this led model",
    ),
    "ProphetNetForCausalLM": (
        {"hidden_size": 32, "vocab_size": 49}
        | {f"num_{stack}_{part}": 2 for stack in ("encoder", "decoder") for part in ("layers", "attention_heads")},
        "ProphetNetForCausalLM reads more than the states",
    ),
    "FSMTForConditionalGeneration": (
        {"src_vocab_size": 49, "tgt_vocab_size": 49, "langs": ["en", "de"]}
        | {name: size for name, size in TWO.items() if name != "vocab_size"},
        r"a stack of this fsmt model asks for arguments of its own \('encoder_padding_mask'",
    ),
    "XLNetLMHeadModel": (
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 49},
        "this xlnet model gives attention weights, and its layers are not laid out as those that are known here",
    ),
    "RwkvForCausalLM": (
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 49, "context_length": 64},
        "no attention could be seen in this rwkv model",  # what it calls attentions is none
    ),
    "DiffLlamaForCausalLM": ({**ONE, "num_key_value_heads": 2}, "DiffLlamaAttention attends twice in one step"),
    "DogeForCausalLM": (
        {**ONE, "is_moe": True, "num_experts": 4, "num_experts_per_tok": 2},
        "what it makes of a token depends on later ones, as by a mask of its own or a router of experts",
    ),
    "T5Gemma2ForConditionalGeneration": (
        {"encoder": {"text_config": LAYERED, **VISION}, "decoder": LAYERED, "vocab_size": 49},
        "each attention of this t5gemma2 model's decoder is over its own tokens and the source's at once",
    ),
    "HYV4ForCausalLM": (
        {**GROUPED, "moe_intermediate_size": 48, "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": 8}
        | {"q_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 8, "head_dim": 8}
        | {"mlp_layer_types": ["dense", "sparse"], "layer_types": 2 * ["indexed_attention"], "index_topk": 2}
        | {"index_head_dim": 32, "index_n_heads": 4, "indexer_types": ["full", "shared"]},
        "this hy_v4 model gives attention weights, and its layers are not laid out as those that are known here",
    ),
    "RecurrentGemmaForCausalLM": (
        {**SMALL, "num_hidden_layers": 3, "intermediate_size": 48, "lru_width": 32, "attention_window_size": 8},
        "2 layers of this recurrent_gemma model do not attend, as they are recurrent or convolutional",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_view_could_show_truly_is_refused_in_a_sentence(name, tmp_path):
    options, sentence = REFUSED[name]
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    kind(kind.config_class(**options, pad_token_id=1, bos_token_id=0, eos_token_id=2)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=sentence):
        opened(tmp_path)


@pytest.mark.slow  # it starts two processes
def test_an_open_model_stays_itself_when_its_file_is_written_over_or_cut_off(folder):
    """In a process of its own: what is mapped of a file that was cut off ends the process."""
    code = (
        "import os, sys, torch\nfrom pathlib import Path\nfrom model.checkpoints.load import open_checkpoint\n"
        "folder = Path(sys.argv[1])\nmodel = open_checkpoint(folder)\n"
        "weights = [each.clone() for each in model.network.parameters()]\n"
        "file = next(folder.glob('*.safetensors'))\nfile.write_bytes(bytes(file.stat().st_size))\n"
        "assert all(map(torch.equal, weights, model.network.parameters()))\n"
        "os.truncate(file, 100)\nmodel.trace(model.example or 'the cat')\nprint('still there')\n"
    )
    for name in ("gemma2", "pegasus"):
        command = [sys.executable, "-c", code, str(folder(name))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "still there\n"), done.stderr
