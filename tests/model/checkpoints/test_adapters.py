"""Adapters of PEFT merged into their bases: what peft computes, kind by kind; and what is refused."""

from __future__ import annotations

import os
import shutil
import time

import peft
import pytest
import torch
from peft import IA3Config, LoHaConfig, LoKrConfig, LoraConfig
from safetensors.torch import load_file, save_file

from model.checkpoints.adapters import AdapterBaseError, Patterns
from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint
from model.checkpoints.load_hints import LoadHints
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.adapted import QUERIES, adapted, lora, write_adapter, write_settings
from tests.model.checkpoints.bridge.models import theirs
from tests.model.checkpoints.convert.twins import SOURCE, difference, texts

GPT2_LAYERS = ["c_attn", "c_proj", "c_fc"]
CASES = {
    "gpt2": ("gpt2", lambda: LoraConfig(r=4, lora_alpha=6, target_modules=GPT2_LAYERS)),
    "gpt2-bare": ("gpt2-bare", lambda: LoraConfig(r=4, target_modules=["c_attn"])),
    "rslora": ("gpt2", lambda: LoraConfig(r=4, use_rslora=True, target_modules=["c_attn"], bias="lora_only")),
    "embedding": ("gpt2", lambda: LoraConfig(r=4, target_modules=["wte", "c_proj"])),
    "head": ("gpt2", lambda: LoraConfig(r=4, target_modules=["lm_head"])),
    "head-and-embedding": ("gpt2", lambda: LoraConfig(r=4, target_modules=["lm_head", "wte"])),
    "both-tied": (
        "llama-3",
        lambda: LoraConfig(r=4, target_modules=["embed_tokens"], ensure_weight_tying=True),
    ),
    "whole-modules": ("gpt2", lambda: LoraConfig(r=4, target_modules=["c_attn"], modules_to_save=["wte", "ln_1"])),
    "tokens": ("gpt2", lambda: LoraConfig(r=4, target_modules=["c_attn"], trainable_token_indices=[3, 9])),
    "dora": ("gpt2", lambda: LoraConfig(r=4, use_dora=True, bias="all", target_modules=[*GPT2_LAYERS, "wte"])),
    "all-linear": ("bert", lambda: LoraConfig(r=4, target_modules="all-linear", lora_bias=True)),
    "all-biases": ("bert", lambda: LoraConfig(r=4, target_modules=["query"], bias="all")),
    "patterns": (
        "llama",
        lambda: LoraConfig(
            r=4,
            target_modules="all-linear",
            rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 7},
            alpha_pattern={"k_proj": 32, r".*\.mlp\.down_proj": 3, "^model.layers.0.self_attn.v_proj": 1},
        ),
    ),
    "llama-head": ("llama", lambda: LoraConfig(r=4, target_modules=["lm_head", "embed_tokens"])),
    "ia3": (
        "llama",
        lambda: IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    ),
    "ia3-gpt2": (
        "gpt2",
        lambda: IA3Config(target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"]),
    ),
    "loha": ("llama", lambda: LoHaConfig(r=4, alpha=3, target_modules=["k_proj", "up_proj"], init_weights=False)),
    "lokr": (
        "llama",
        lambda: LoKrConfig(r=2, decompose_both=True, target_modules=["k_proj", "up_proj"], init_weights=False),
    ),
    "lokr-patterns": (
        "llama",
        lambda: LoKrConfig(
            r=2, rank_pattern={"k_proj": 3}, alpha_pattern={"o_proj": 1}, target_modules=["k_proj", "o_proj"]
        ),
    ),
    "two-stacks": ("bart", lambda: LoraConfig(r=4, target_modules=["q_proj", "fc1"])),
    "t5-head": ("t5", lambda: LoraConfig(r=4, target_modules=["q", "wo", "lm_head"])),
    "gemma": ("gemma", lambda: LoraConfig(r=4, target_modules=["q_proj", "embed_tokens"])),
}
TIED = ("embedding", "head", "head-and-embedding", "both-tied", "whole-modules", "dora", "t5-head", "gemma")
BRIDGED = {
    "phi3": lambda: LoraConfig(r=4, target_modules=["qkv_proj", "down_proj"]),
    "openai-gpt": lambda: LoraConfig(r=4, target_modules=["c_attn", "c_proj"]),
    "bloom": lambda: LoraConfig(r=4, target_modules=["query_key_value", "word_embeddings"]),
    "gemma2": lambda: LoraConfig(r=4, target_modules=["lm_head", "q_proj"]),
    "gptj": lambda: LoraConfig(r=4, use_dora=True, target_modules=["q_proj", "fc_in"]),
    "mixtral": lambda: LoraConfig(r=4, target_modules=["q_proj", "o_proj"]),
}


def logits_of(reference, ids) -> torch.Tensor:
    given = dict(zip(("input_ids", "decoder_input_ids"), ids, strict=False))
    with torch.inference_mode():
        output = reference(**given)
    return output.get("logits", output.get("last_hidden_state"))


@pytest.mark.parametrize("case", CASES)
def test_a_merged_model_computes_what_peft_does(case, tmp_path):
    kind, config = CASES[case]
    reference, folder, base = adapted(kind, config(), tmp_path)
    ours = open_checkpoint(folder)
    assert ours.name == "adapter"
    assert ours.training["base"] == "base"
    ids = texts(ours.network)
    with torch.inference_mode():
        logits, before = ours.network(*ids), open_checkpoint(base).network(*ids)
    expected = logits_of(reference, ids)
    assert difference(expected, logits) < 1e-5
    assert difference(expected, before) > 1e-2  # the adapter changes something
    if case not in TIED:  # there its merging changes the output with the embedding
        assert difference(logits_of(reference.merge_and_unload(), ids), logits) < 1e-5


@pytest.mark.parametrize("family", BRIDGED)
def test_a_bridged_base_is_merged_before_transformers_runs_it(family, tmp_path):
    reference, folder, _base = adapted(family, BRIDGED[family](), tmp_path, bridged=True)
    ours = open_checkpoint(folder)
    assert "run by transformers" in ours.training["format"]
    with torch.inference_mode():
        logits = ours.network(SOURCE)
    assert difference(logits_of(reference, (SOURCE,)), logits) < 1e-5


def test_an_adapter_of_a_pickle_is_read_by_our_own_reader(tmp_path):
    reference, folder, _base = adapted("gpt2", LoraConfig(r=4, target_modules=["c_attn"]), tmp_path)
    tensors = load_file(folder / "adapter_model.safetensors")
    (folder / "adapter_model.safetensors").unlink()
    torch.save(tensors, folder / "adapter_model.bin")
    torch.save({"args": 1}, folder / "training_args.bin")  # what Trainer leaves beside it
    with torch.inference_mode():
        assert difference(logits_of(reference, (SOURCE,)), open_checkpoint(folder).network(SOURCE)) < 1e-5

    class Bomb:
        def __reduce__(self):
            return os.system, ("touch /tmp/vitrine-was-here",)

    torch.save(tensors | {"x": Bomb()}, folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match="which could run code"):
        open_checkpoint(folder)


def test_half_precision_is_merged_in_float32_and_rounded_once(tmp_path):
    base, folder = tmp_path / "base", tmp_path / "adapter"
    shutil.copytree(theirs("gpt2")[1], base)
    found = write_adapter(folder, base)
    weight = load_file(base / "model.safetensors")[f"{QUERIES}.weight"]
    change = 2 * found[f"{QUERIES}.lora_B.weight"] @ found[f"{QUERIES}.lora_A.weight"]
    ours = open_checkpoint(folder, dtype=torch.bfloat16).network
    queries = dict(ours.named_parameters())["decoder.layers.0.self_attention.query.weight"]
    assert torch.equal(queries, (weight.T + change)[:32].bfloat16())


def test_the_catalogue_says_what_it_is_and_whose(tmp_path):
    write_adapter(tmp_path / "adapter", "somebody/gpt2")
    found = catalog_entry(tmp_path / "adapter")
    assert (found.format, found.family, found.base, found.computes) == ("PEFT", "LoRA", "somebody/gpt2", True)
    assert (found.parameters, found.problem, found.part) == (2 * (32 + 96), "", "")
    write_settings(tmp_path / "adapter", peft_type="PREFIX_TUNING")
    found = catalog_entry(tmp_path / "adapter")
    assert (found.computes, found.problem, found.base) == (False, "", None)
    assert "of the kind PREFIX_TUNING, which puts trained vectors beside the text" in found.part
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(tmp_path / "adapter")
    assert str(error.value) == found.part


# Where the base is.


@pytest.fixture
def base(tmp_path):
    shutil.copytree(theirs("gpt2")[1], tmp_path / "models" / "tiny")
    return tmp_path / "models" / "tiny"


def test_the_base_is_found_by_its_path_whatever_that_is_relative_to(base, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "adapter"
    write_adapter(folder, base)
    assert open_checkpoint(folder).training["base"] == "tiny"
    write_settings(folder, base_model_name_or_path="../../models/tiny")
    assert open_checkpoint(folder).training["base"] == "tiny"
    write_settings(folder, base_model_name_or_path="models/tiny")
    with pytest.raises(AdapterBaseError, match="changes 'models/tiny', which is not here: put that model into the"):
        open_checkpoint(folder)
    monkeypatch.chdir(tmp_path)
    assert open_checkpoint(folder).training["base"] == "tiny"
    write_settings(folder, base_model_name_or_path="elsewhere")
    assert open_checkpoint(folder, base=base).training["base"] == "tiny"
    write_settings(folder, base_model_name_or_path="/home/somebody/models/large")
    with pytest.raises(AdapterBaseError, match="adapter is a LoRA adapter and changes 'large', which is not here"):
        open_checkpoint(folder)  # a page may show it to a visitor


def test_the_base_is_found_in_hugging_faces_cache(base, tmp_path, monkeypatch):
    repository = tmp_path / "hub" / "models--somebody--tiny"
    shutil.copytree(base, repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    write_adapter(tmp_path / "adapter", "somebody/tiny")
    assert open_checkpoint(tmp_path / "adapter").training["base"] == "somebody/tiny"
    write_settings(tmp_path / "adapter", revision="v2")
    with pytest.raises(AdapterBaseError, match="'somebody/tiny', which is not here"):
        open_checkpoint(tmp_path / "adapter")
    write_settings(tmp_path / "adapter", revision="../../../../etc")
    with pytest.raises(AdapterBaseError, match="which is not here"):
        open_checkpoint(tmp_path / "adapter")


@pytest.mark.parametrize("named", ["", None, 7, "\0", "x" * 5000, "/dev", "/dev/zero", "..", "a/b/c", "https://x/y"])
def test_a_base_that_is_none_is_a_sentence(named, tmp_path):
    write_adapter(tmp_path / "adapter", "")
    write_settings(tmp_path / "adapter", base_model_name_or_path=named)
    with pytest.raises(AdapterBaseError, match=r"which is not here|does not say which model it changes"):
        open_checkpoint(tmp_path / "adapter")


def test_a_base_that_is_an_adapter_or_ours_is_refused(base, tmp_path):
    write_adapter(tmp_path / "one", tmp_path / "two")
    write_adapter(tmp_path / "two", tmp_path / "one")
    with pytest.raises(AdapterBaseError, match="two, the base of one, is an adapter itself"):
        open_checkpoint(tmp_path / "one")
    write_settings(tmp_path / "one", base_model_name_or_path=str(tmp_path / "one"))
    with pytest.raises(AdapterBaseError, match="one, the base of one, is an adapter itself"):
        open_checkpoint(tmp_path / "one")
    with pytest.raises(AdapterBaseError, match=r"sort, the base of two, has no config\.json of transformers"):
        open_checkpoint(tmp_path / "two", base="checkpoints/sort")


def test_a_base_in_a_hint_is_any_text():
    for base in ("tiny", "a,b:c%@d", "模型 1"):
        assert LoadHints.read(LoadHints(base=base, heads=3).text()) == LoadHints(base=base, heads=3)


# What does not fit, and what is of others' making.

C_ATTN, NEXT, WTE = f"{QUERIES}.lora_", "transformer.h.7.attn.c_attn.lora_", "transformer.wte.token_adapter."
WPE = "transformer.wpe.lora_"
TOKENS = {f"{WTE}trainable_tokens_delta": (1, 32)}
# Shapes of other tensors (None: left out), other settings, and what is said.
WRONG = {
    "shape": (
        {f"{C_ATTN}A.weight": (2, 31)},
        {},
        r"does not fit transformer.h.0.attn.c_attn.weight \(32, 96\) of this",
    ),
    "rank": ({}, {"r": 10**9}, "says the rank 1000000000 for transformer.h.0.attn.c_attn, and the file has 2"),
    "no-rank": ({}, {"r": 0}, r"the rank \(0\) must be a whole number above 0"),
    "huge-rank": ({}, {"r": 10**30}, "must be a whole number above 0"),
    "text-rank": ({}, {"r": "2"}, "must be a whole number above 0"),
    "alpha": ({}, {"lora_alpha": [1]}, r"alpha \(\[1\]\) must be a number"),
    "factors": ({f"{C_ATTN}B.weight": (96, 3)}, {}, "do not fit each other"),
    "half": ({f"{C_ATTN}B.weight": None}, {}, r"of transformer.h.0.attn.c_attn there are lora_A.weight, which"),
    "module": (
        {f"{NEXT}A.weight": (2, 32), f"{NEXT}B.weight": (96, 2)},
        {},
        r"is of transformer.h.7.attn.c_attn.weight, which this base has not: choose the base",
    ),
    "head": ({"score.weight": (2, 32)}, {}, r"score.weight \(2, 32\) is of score.weight, which this base has not"),
    "vector": ({f"{C_ATTN}B.bias": (95,)}, {}, r"lora_B.bias \(95,\) does not fit transformer.h.0.attn.c_attn.bias"),
    "bias": (
        {f"{WPE}A.weight": (2, 32), f"{WPE}B.weight": (32, 2), f"{WPE}B.bias": (32,)},
        {"lora_bias": True},
        r"adds a bias \(\S+wpe\.lora_B\.bias\) where its base has none beside transformer\.wpe\.weight, so that no",
    ),
    "dora": ({}, {"use_dora": True}, "says use_dora True, and transformer.h.0.attn.c_attn contradicts it"),
    "setting": ({}, {"layer_replication": [[0, 1], [0, 1]]}, "says layer_replication"),
    "unheard": ({}, {"a_new_way": 3}, "says a_new_way '3', and what that changes is not known here"),
    "kind": ({}, {"peft_type": "VERA"}, "of the kind VERA, which is not merged here"),
    "no-kind": ({}, {"peft_type": None}, "of the kind NONE, which is not merged here"),
    "begun": ({}, {"init_lora_weights": "pissa"}, "begun with init_lora_weights 'pissa', which changes the base too"),
    "pattern": ({}, {"alpha_pattern": {"(a+)+b": 1}}, r"the pattern '\(a\+\)\+b' is more than a name"),
    "patterns": ({}, {"rank_pattern": [1]}, "must be values by the names of modules"),
    "empty": ({f"{C_ATTN}A.weight": (0, 32), f"{C_ATTN}B.weight": (96, 0)}, {}, "of which no change is known"),
    "tokens": (TOKENS, {"trainable_token_indices": [10**6]}, "of which no change is known"),
    "which": (TOKENS, {}, "must list the tokens of transformer.wte"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_a_sentence(case, base, tmp_path):
    shapes, settings, sentence = WRONG[case]
    tensors = lora(QUERIES, 96, 32)
    for name, shape in shapes.items():
        tensors.pop(name, None)
        if shape is not None:
            tensors[name] = torch.randn(shape)
    write_adapter(tmp_path / "adapter", base, tensors, **settings)
    with pytest.raises(CheckpointError, match=sentence):
        open_checkpoint(tmp_path / "adapter")


def test_no_tensor_is_left_out_in_silence(base, tmp_path):
    tensors = lora(QUERIES, 96, 32)
    write_adapter(tmp_path / "adapter", base, tensors)
    found = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    for more in ("something.else", "base_model.model.transformer.h.0.attn.c_attn.lora_C.weight", "base_model.vera_A"):
        save_file(found | {more: torch.ones(2, 2)}, tmp_path / "adapter" / "adapter_model.safetensors")
        with pytest.raises(CheckpointError, match=r"which this base has not|of which no change is known here"):
            open_checkpoint(tmp_path / "adapter")
    save_file(
        found | {"base_model.model.x": torch.ones(2, dtype=torch.int64)},
        tmp_path / "adapter" / "adapter_model.safetensors",
    )
    with pytest.raises(CheckpointError, match="of type int64, of which no change is known here"):
        open_checkpoint(tmp_path / "adapter")


def test_an_embedding_that_two_stacks_share_is_refused_where_it_changes(tmp_path):
    _reference, folder, _base = adapted("bart", LoraConfig(r=4, target_modules=["shared"]), tmp_path)
    with pytest.raises(CheckpointError, match="which its base ties to other weights"):
        open_checkpoint(folder)


def test_a_quantized_base_is_refused_by_the_type_of_its_weights(base, tmp_path):
    weights = load_file(base / "model.safetensors")
    name = f"{QUERIES}.weight"
    save_file(weights | {name: weights[name].to(torch.int8)}, base / "model.safetensors")
    write_adapter(tmp_path / "adapter", base)
    with pytest.raises(AdapterBaseError, match=r"is quantized \(whole numbers\): .* \(int8\) belongs to codes"):
        open_checkpoint(tmp_path / "adapter")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"r": NaN}', b"[" * 5000, b'{"r":1,"r":2}', b"\xff"])
def test_a_damaged_config_is_a_sentence(content, base, tmp_path):
    write_adapter(tmp_path / "adapter", base)
    (tmp_path / "adapter" / "adapter_config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"adapter_config\.json"):
        open_checkpoint(tmp_path / "adapter")
    assert not catalog_entry(tmp_path / "adapter").computes


def test_a_file_that_was_cut_short_is_a_sentence(base, tmp_path):
    write_adapter(tmp_path / "adapter", base)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    for size in (0, 7, 100, file.stat().st_size - 1):
        file.write_bytes(file.read_bytes()[:size])
        with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors"):
            open_checkpoint(tmp_path / "adapter")
        assert catalog_entry(tmp_path / "adapter").problem


def test_a_whole_model_beside_an_adapter_is_the_model(base, tmp_path):
    write_adapter(base, "elsewhere")
    assert open_checkpoint(base).training["format"] == "Hugging Face, gpt2"


def test_patterns_are_those_of_peft_and_none_takes_for_ever():
    names = ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj", "lm_head", "model.lm_head"]
    keys = ["q_proj", "layers.1.mlp.up_proj", "^lm_head", "head", "mlp", r".*\.1\.mlp.up_proj", r"\.\d+\.mlp.up_proj"]
    keys += ["q_proj|up_proj$", r"layers\.\d+\.mlp.up_proj", "model.*"]
    for name in names:
        for key in keys:
            matches = peft.utils.other.get_pattern_key([key], name) == key
            assert (Patterns({key: 5}).of(name, 1) == 5) == matches, (key, name)
        ordered = {key: number for number, key in enumerate(keys)}
        assert Patterns(ordered).of(name, None) == ordered.get(peft.utils.other.get_pattern_key(keys, name))
    began, refused = time.monotonic(), 0
    for hostile in ("(a+)+$", "(a|a)*b", ".*" * 30, "a{1,9999}{1,9999}", r"(\w+\s?)*x", "a" * 5000):
        try:
            Patterns({hostile: 5}).of("a" * 200, 1)
        except CheckpointError:
            refused += 1
    assert refused == 5
    many = Patterns({f"layers.{number}": number for number in range(20_000)})
    assert [many.of(f"model.layers.{number}", None) for number in range(20_000)] == list(range(20_000))
    with pytest.raises(CheckpointError, match="more than a name with one repetition"):
        Patterns({f".*a{number}": 1 for number in range(100)})
    assert time.monotonic() - began < 3


def test_factors_whose_product_would_fill_memory_are_refused_by_their_shapes(base, tmp_path):
    module = "transformer.h.0.attn.c_attn"
    tensors = {f"{module}.lokr_w1_a": torch.ones(200_000, 1), f"{module}.lokr_w1_b": torch.ones(1, 200_000)}
    tensors |= {f"{module}.lokr_w2": torch.ones(2, 2)}
    write_adapter(tmp_path / "adapter", base, tensors, peft_type="LOKR", alpha=2)
    with pytest.raises(CheckpointError, match="does not fit transformer"):
        open_checkpoint(tmp_path / "adapter")
    tensors = {f"{module}.hada_w{n}_{x}": torch.ones(shape) for n in (1, 2) for x, shape in
               (("a", (200_000, 2)), ("b", (2, 200_000)))}  # fmt: skip
    write_adapter(tmp_path / "adapter", base, tensors, peft_type="LOHA", alpha=2)
    with pytest.raises(CheckpointError, match="does not fit transformer"):
        open_checkpoint(tmp_path / "adapter")
