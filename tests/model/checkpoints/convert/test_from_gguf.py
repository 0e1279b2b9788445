"""GGUF files as models: they compute what the folder does that they were made from, within the quantization's error."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from model.checkpoints.catalog import catalog_entry
from model.checkpoints.convert import from_gguf
from model.checkpoints.convert.from_gguf import GgufModel, as_family, llama3_scaling
from model.checkpoints.formats.gguf import GgufFile
from model.checkpoints.load import open_checkpoint
from model.runtime import memory
from model.runtime.errors import CheckpointError
from model.text.huggingface.tokenizer import IdTokenizer
from tests.model.checkpoints.convert.gguf_files import Kind, factors, gguf, renamed, write_gguf
from tests.model.checkpoints.convert.twins import KINDS, LLAMA3, SOURCE, saved_as
from tests.model.checkpoints.formats.test_headers import gguf_file, record

CPU = torch.device("cpu")
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
SIZES |= {"max_position_embeddings": 24, "num_key_value_heads": 2}
CAPS = {"query_pre_attn_scalar": 24, "sliding_window": 3, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 6}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 24}),
    "gpt2-inner": ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 96, "n_positions": 24}),
    "llama": ("LlamaForCausalLM", SIZES),
    "llama-wide": ("LlamaForCausalLM", SIZES | {"head_dim": 24, "tie_word_embeddings": True}),
    "llama-biased": ("LlamaForCausalLM", SIZES | {"attention_bias": True, "mlp_bias": True}),
    "llama-3": ("LlamaForCausalLM", SIZES | {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-linear": KINDS["llama-linear"],
    "mistral": ("MistralForCausalLM", SIZES | {"sliding_window": 3}),
    "qwen2": ("Qwen2ForCausalLM", SIZES | {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", SIZES | {"head_dim": 24}),
    "gemma": ("GemmaForCausalLM", SIZES | {"head_dim": 24}),
}
BRIDGED = {
    "gemma2": ("Gemma2ForCausalLM", SIZES | CAPS | {"head_dim": 24}),
    "qwen2-yarn": ("Qwen2ForCausalLM", SIZES | {"rope_parameters": YARN}),
}
ENDING = "its tensors can be looked at under Checkpoints → Read"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Of a kind: theirs, and its folder."""

    @cache
    def make(kind):
        folder = tmp_path_factory.mktemp(kind)
        return saved_as(*(MODELS | BRIDGED)[kind], folder), folder

    return make


def logits(network) -> torch.Tensor:
    with torch.inference_mode():
        found = network(SOURCE)
    return found if isinstance(found, torch.Tensor) else found.logits


def opened(file):
    return open_checkpoint(file, CPU, torch.float32)


@pytest.mark.parametrize("kind", MODELS)
def test_of_float32_it_is_the_folder_s_model(kind, folders, tmp_path):
    theirs, folder = folders(kind)
    ours, same = opened(write_gguf(folder, tmp_path / "x.gguf")), opened(folder)
    assert ours.config == same.config
    assert_close(logits(ours.network), logits(theirs), rtol=0, atol=1e-5)
    weights = dict(same.network.named_parameters())
    for name, weight in ours.network.named_parameters():
        assert_close(weight, weights[name], rtol=0, atol=1e-7 if kind == "gemma" and name.endswith("gain") else 0)
    family = {"mistral": "llama"}.get(kind, kind.partition("-")[0])
    assert ours.training["format"] == f"GGUF, {family}, F32"
    assert ours.training["assumed"] == []
    assert ours.name == "x"


@pytest.mark.parametrize("kind", BRIDGED)
def test_what_is_not_rebuilt_is_run_by_transformers(kind, folders, tmp_path):
    theirs, folder = folders(kind)
    ours, same = opened(write_gguf(folder, tmp_path / "x.gguf")), opened(folder)
    assert ours.config == same.config
    assert_close(logits(ours.network), logits(theirs), rtol=0, atol=1e-5)
    assert ours.training["format"] == f"GGUF, {kind.partition('-')[0]}, F32, run by transformers"
    assumed = ["scores are divided by √24, as in Gemma 2 of this size"]
    assert ours.training["assumed"] == (assumed if kind == "gemma2" else [])


@pytest.mark.parametrize("kind", ["llama", "llama-wide", "qwen2", "qwen3", "gpt2", "gemma2"])
def test_it_is_the_model_that_transformers_makes_of_the_file(kind, folders, tmp_path):
    theirs, folder = folders(kind)
    tokens = {
        "tokenizer.ggml.tokens": [f"t{row}" for row in range(50)],
        "general.name": "mistral" * (kind == "mistral"),
    }
    file = write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0, tokens)
    # It loses Qwen 3's width of heads, GPT-2's number of positions and Gemma 2's caps.
    known = {} if kind.startswith("llama") or kind == "qwen2" else {"config": theirs.config}
    options = {"gguf_file": file.name, "dtype": torch.float32, **known}
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **options)
    assert_close(logits(opened(file).network), logits(other.eval()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [*MODELS, *BRIDGED])
@pytest.mark.parametrize("quantized", [Kind.F16, Kind.Q8_0, Kind.Q4_0])
def test_quantized_it_computes_with_the_dequantized_values(kind, quantized, folders, tmp_path):
    """The reference has each matrix quantized and dequantized by the package, in Hugging Face's own shape and order."""
    theirs, folder = folders(kind)
    ours = opened(write_gguf(folder, tmp_path / "x.gguf", quantized))
    shutil.copytree(folder, tmp_path / "reference")
    weights = {name: dequantized(name, each, quantized) for name, each in load_file(folder / WEIGHTS).items()}
    save_file(weights, tmp_path / "reference" / WEIGHTS, {"format": "pt"})
    reference = type(theirs).from_pretrained(tmp_path / "reference", dtype=torch.float32).eval()
    assert_close(logits(ours.network), logits(reference), rtol=0, atol=1e-5)
    assert (logits(ours.network) - logits(theirs)).abs().max() > 1e-5
    assert ours.training["format"].startswith(f"GGUF, {ours.training['format'].split(', ')[1]}, {quantized.name}")


@pytest.mark.parametrize("quantized", ["Q4_K", "Q5_K", "Q6_K", "Q3_K", "IQ4_XS"])
def test_any_type_that_the_package_knows_has_the_package_s_values(quantized, tmp_path):
    """Blocks of random bytes whose scales are finite, and the same file with what the package makes of them."""
    kind, random = gguf.GGMLQuantizationType[quantized], np.random.default_rng(0)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    sizes = SIZES | {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
    saved_as("LlamaForCausalLM", sizes, tmp_path / "folder")
    weights = renamed(
        json.loads((tmp_path / "folder" / "config.json").read_text()), load_file(tmp_path / "folder" / WEIGHTS)
    )
    packed = {
        name: random.integers(0, 64, (len(each), each.shape[1] // elements * size), np.uint8)
        for name, each in weights.items()
        if each.ndim == 2
    }
    plain = {name: gguf.quants.dequantize(blocks, kind) for name, blocks in packed.items()}
    one, two = (
        dict(
            opened(write_gguf(tmp_path / "folder", tmp_path / "x.gguf", other, given=values)).network.named_parameters()
        )
        for other, values in ((kind, packed), (Kind.F32, plain))
    )
    assert all(torch.equal(one[name], two[name]) and two[name].isfinite().all() for name in two)


WEIGHTS = "model.safetensors"


def dequantized(name: str, tensor: torch.Tensor, kind: Kind) -> torch.Tensor:
    """What is left of a tensor of a folder: rows keep their blocks in whatever order they lie."""
    transposed = ".c_" in name and tensor.ndim == 2
    values = np.ascontiguousarray(tensor.T.numpy() if transposed else tensor.numpy())
    if values.ndim == 2 and values.shape[1] % 32 == 0:
        half = kind == Kind.F16
        stored = values.astype(np.float16) if half else gguf.quants.quantize(values, kind)
        values = stored.astype(np.float32) if half else gguf.quants.dequantize(stored, kind)
    return torch.from_numpy(np.ascontiguousarray(values.T if transposed else values))


@pytest.mark.parametrize("kind", [*MODELS, *BRIDGED])
def test_beside_its_folder_each_tensor_s_error_is_the_quantization_s(kind, folders, tmp_path):
    from model.analysis.weights.movement import moved
    from model.checkpoints.tensors import tensor_table

    _theirs, folder = folders(kind)
    before = {info.name: info for info in tensor_table(folder)}
    for quantized in (Kind.F32, Kind.Q8_0):
        after = as_family(write_gguf(folder, tmp_path / "x.gguf", quantized), before)
        assert {info.name: info.shape for info in after} == {info.name: info.shape for info in before.values()}
        for info in after:
            original = before[info.name].load()
            expected = dequantized(info.name, original, quantized) if quantized != Kind.F32 else original
            change = torch.linalg.vector_norm((expected - original).double()) / torch.linalg.vector_norm(
                original.double()
            )
            # 1 + γ is rounded where it is written
            rounded = 5e-7 if kind.startswith("gemma") and info.name.endswith("norm.weight") else 1e-12
            assert moved(before[info.name], info).relative == pytest.approx(float(change), abs=rounded, rel=1e-9)
            matrix = original.ndim == 2 and info.dtype != "F32"
            assert info.dtype == (quantized.name if matrix else "F32")
            assert info.quantized == (matrix and quantized == Kind.Q8_0)


def test_names_of_a_bare_model_have_no_prefix(folders, tmp_path):
    _theirs, folder = folders("gpt2")
    names = [name.removeprefix("transformer.") for name in load_file(folder / WEIGHTS)]
    file = write_gguf(folder, tmp_path / "x.gguf")
    assert sorted(info.name for info in as_family(file, names)) == sorted(names)


def test_a_copy_of_the_embedding_is_tied_and_another_output_is_not(folders, tmp_path):
    """Files of GPT-2 had its output twice; where both are quantized otherwise, the second one computes the logits."""
    theirs, folder = folders("gpt2")
    weights = load_file(folder / WEIGHTS)
    for scale, tied in ((1.0, "output"), (2.0, "none")):
        other = tmp_path / str(scale)
        shutil.copytree(folder, other)
        save_file(weights | {"lm_head.weight": weights["transformer.wte.weight"] * scale}, other / WEIGHTS)
        ours = opened(write_gguf(other, tmp_path / "x.gguf"))
        assert ours.config.tied_embeddings == tied
        assert_close(logits(ours.network), scale * logits(theirs), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("theta", "width", "factor", "tokens"),
    [(500000.0, 128, 8.0, 8192), (500000.0, 64, 32.0, 8192), (500.0, 16, 8.0, 16), (10000.0, 64, 4.0, 2048)],
)
def test_llama_3_s_scaling_is_found_again(theta, width, factor, tokens):
    rope = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"original_max_position_embeddings": tokens}
    settings = {"rope_parameters": rope | {"rope_theta": theta}, "head_dim": width}
    found = llama3_scaling(factors(settings).tolist(), theta, width)
    assert found == rope | {"rope_type": "llama3"}
    assert llama3_scaling([1.0] * (width // 2), theta, width) == {}
    assert llama3_scaling([1.0, 3.0] * (width // 4), theta, width) is None
    for wrong in ([], [float("nan")] * (width // 2), [0.5] * (width // 2), [1.0] * width):
        assert llama3_scaling(wrong, theta, width) is None


def test_the_list_says_what_it_is_and_what_it_needs(folders, tmp_path):
    _theirs, folder = folders("llama")
    entry = catalog_entry(write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0))
    assert (entry.format, entry.family, entry.kind, entry.computes) == ("GGUF", "llama, Q8_0", "decoder-only", True)
    assert (entry.problem, entry.part) == ("", "")
    assert entry.parameters == catalog_entry(folder).parameters  # of whose bytes the need is computed
    assert entry.bytes < 2 * entry.parameters
    assert catalog_entry(tmp_path) == entry  # the only file of a folder


def test_a_folder_whose_only_weights_are_a_gguf_file_is_that_file(folders, tmp_path):
    """Also with a config.json beside it, as such folders of Hugging Face often have one."""
    theirs, folder = folders("qwen2")
    write_gguf(folder, tmp_path / "x.gguf")
    shutil.copy(folder / "config.json", tmp_path)
    assert_close(logits(opened(tmp_path).network), logits(theirs), rtol=0, atol=1e-5)
    assert catalog_entry(tmp_path).family == "qwen2, F32"
    shutil.copy(folder / WEIGHTS, tmp_path)
    assert catalog_entry(tmp_path).format == "Hugging Face"


def test_the_room_for_the_dequantized_weights_is_asked_for_before_any_is_read(folders, tmp_path, monkeypatch):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", Kind.Q4_0)
    parameters = catalog_entry(file).parameters
    read = []
    monkeypatch.setattr(GgufFile, "load", lambda _file, tensor, _bounded=True: read.append(tensor))
    monkeypatch.setattr(memory, "available", lambda _device: 4 * parameters)  # and a tenth more is needed
    with pytest.raises(
        CheckpointError, match=r"this model needs 0.0 GB in float32 and 0.0 GB are free: choose bfloat16"
    ):
        opened(file)
    assert read == []


def test_memory_holds_one_dequantized_tensor_beside_the_network(folders, tmp_path):
    _theirs, folder = folders("llama")
    model = GgufModel(write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0))
    weights = model.weights(model.config)
    assert len(weights) == len(list(weights))
    name = "decoder.layers.0.self_attention.query.weight"
    assert weights[name] is not weights[name]  # none is kept
    assert_close(weights[name], weights[name])


def test_a_tensor_too_large_to_look_at_is_computed_with_all_the_same(folders, tmp_path, monkeypatch):
    from model.checkpoints.formats import gguf as formats

    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0)
    expected = logits(opened(file).network)
    monkeypatch.setattr(formats, "MOST_UNPACKED", 100)
    assert torch.equal(logits(opened(file).network), expected)
    assert not any(info.loaded for info in as_family(file, ()) if info.dtype == "Q8_0")


def test_bfloat16_is_a_precision_too(folders, tmp_path):
    theirs, folder = folders("qwen3")
    network = open_checkpoint(write_gguf(folder, tmp_path / "x.gguf"), CPU, torch.bfloat16).network
    assert {each.dtype for each in network.parameters()} == {torch.bfloat16}
    assert_close(logits(network).float(), logits(theirs), rtol=0.1, atol=0.2)


def test_heads_of_a_file_are_those_of_its_folder(folders, tmp_path):
    from model.analysis.weights.heads import head_tensors, moved_heads
    from model.checkpoints.load_hints import LoadHints

    for kind in ("llama", "gpt2", "gemma", "gemma2"):
        _theirs, folder = folders(kind)
        file = write_gguf(folder, tmp_path / f"{kind}.gguf")
        one, other = (head_tensors(path, LoadHints(), "decoder-only")["decoder"] for path in (folder, file))
        assert float(moved_heads(one, other)[0].abs().max()) == 0


# Files that contradict themselves, or would harm.

WRONG = [
    ({"general.type": "adapter"}, "x.gguf is by its general.type no model but 'adapter'"),
    ({"split.count": 3}, "x.gguf is one of several files of a model: join them with llama-gguf-split --merge"),
    ({"llama.expert_count": 8}, "x.gguf is a mixture of experts of the architecture 'llama'"),
    ({"llama.logit_scale": 0.5}, "x.gguf says llama.logit_scale (0.5), which is not known here and may change"),
    ({"llama.something": [1, 2]}, "x.gguf says llama.something (a list), which is not known here"),
    ({"llama.block_count": None}, "x.gguf does not say llama.block_count: convert it again"),
    ({"llama.block_count": "2"}, "x.gguf: llama.block_count (2) must be a number"),
    ({"llama.block_count": 0}, "x.gguf: llama.block_count (0) must be a whole number from 1 to 10,000,000"),
    ({"llama.attention.head_count": 2.5}, "(2.5) must be a whole number"),
    ({"llama.attention.head_count_kv": [1, 2]}, "x.gguf says llama.attention.head_count_kv for each layer"),
    ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "(nan) must be a number"),
    ({"llama.rope.dimension_count": 8}, "x.gguf says llama.rope.dimension_count 8, and its heads are 16 channels wide"),
    ({"llama.attention.value_length": 8}, "x.gguf says llama.attention.value_length 8"),
    ({"llama.rope.scaling.type": "longrope"}, "x.gguf stretches its positions by 'longrope'"),
    (
        {"llama.attention.head_count": 3, "llama.attention.head_count_kv": 1, "llama.rope.dimension_count": None},
        "shape",
    ),
]
CONTRADICTED = [
    {"llama.block_count": 3},
    {"llama.block_count": 9_999_999},
    {"llama.embedding_length": 128, "llama.rope.dimension_count": None},
    {"llama.vocab_size": 51},
    {"llama.vocab_size": 9_999_999},
    {"llama.feed_forward_length": 95},
    {"llama.attention.key_length": 32, "llama.rope.dimension_count": None},
    {"llama.context_length": 10_000_000},
    {"llama.rope.freq_base": 0.0},
    {"llama.attention.layer_norm_rms_epsilon": -1.0},
]


@pytest.mark.parametrize(("records", "sentence"), WRONG)
def test_what_is_not_understood_is_refused(records, sentence, folders, tmp_path):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", **records)
    entry = catalog_entry(file)
    assert (entry.computes, entry.problem) == (False, "")
    assert sentence in entry.part
    assert entry.part.endswith(ENDING)
    with pytest.raises(CheckpointError) as error:
        opened(file)
    assert str(error.value) == entry.part
    assert entry.parameters  # its tensors are listed


@pytest.mark.parametrize("records", CONTRADICTED)
def test_records_that_contradict_the_tensors_are_refused_before_memory_is_taken(records, folders, tmp_path):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", **records)
    with pytest.raises(CheckpointError, match=r"^x\.gguf|^the config") as error:
        opened(file)
    assert "x.gguf" in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("architecture", ["qwen3moe", "phi3", "x" * 5000, "\x1b[31m", "{0}"])
def test_other_architectures_are_named(architecture, tmp_path):
    gguf_file(tmp_path / "x.gguf", records=text_record("general.architecture", architecture))
    part = catalog_entry(tmp_path / "x.gguf").part
    assert part.startswith("x.gguf is of the architecture ")
    assert "GGUF files of llama, qwen2, qwen3, gemma, gemma2, gpt2 are computed with: open the folder" in part
    assert part.isprintable()
    assert len(part) < 400


def text_record(name: str, text: str) -> bytes:
    return record(name, 8, struct.pack("<Q", len(text.encode())) + text.encode())


def test_a_strange_tensor_is_refused(folders, tmp_path, monkeypatch):
    _theirs, folder = folders("llama")
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    weights = load_file(folder / WEIGHTS)
    monkeypatch.setitem(from_gguf_writer(), "self_attn.sinks", "attn_sinks")
    save_file(weights | {"model.layers.0.self_attn.sinks.weight": torch.ones(4)}, other / WEIGHTS)
    sentence = (
        "x.gguf has a tensor 'blk.0.attn_sinks.weight', which models of the architecture 'llama' do not have here"
    )
    assert sentence in catalog_entry(write_gguf(other, tmp_path / "x.gguf")).part


def from_gguf_writer() -> dict[str, str]:
    from tests.model.checkpoints.convert import gguf_files

    return gguf_files.RMS


def test_other_factors_of_wavelengths_are_refused(folders, tmp_path, monkeypatch):
    from tests.model.checkpoints.convert import gguf_files

    _theirs, folder = folders("llama-3")
    monkeypatch.setattr(gguf_files, "factors", lambda _settings: np.array([1, 3, 1, 3, 1, 3, 1, 3], np.float32))
    part = catalog_entry(write_gguf(folder, tmp_path / "x.gguf")).part
    assert "x.gguf: the factors in rope_freqs.weight are not those of Llama 3" in part


def test_a_type_that_the_package_cannot_dequantize_is_named(folders, tmp_path, monkeypatch):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0)
    monkeypatch.setattr(from_gguf, "loaded_dtype", lambda tensor, _bounded: "float32" * (tensor.kind == "F32"))
    with pytest.raises(CheckpointError, match="is of the type Q8_0, which the package gguf cannot turn into numbers"):
        opened(file)


def test_without_the_package_it_asks_for_it(folders, tmp_path, monkeypatch):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf")
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(CheckpointError, match=r"needs the package gguf, which is not installed: pip install gguf"):
        opened(file)
    assert "pip install gguf" in catalog_entry(file).problem


def test_a_file_that_was_replaced_meanwhile_is_not_read(folders, tmp_path):
    _theirs, folder = folders("llama")
    file = write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0)
    model = GgufModel(file)
    weights = model.weights(model.config)
    file.write_bytes(b"GGUF")
    with pytest.raises(CheckpointError, match="has changed since it was listed: open it again"):
        weights["decoder.norm.weight"]


def test_a_tokenizer_that_cannot_be_read_leaves_bare_ids(folders, tmp_path):
    _theirs, folder = folders("llama")
    model = opened(write_gguf(folder, tmp_path / "x.gguf"))
    assert isinstance(model.source_tokenizer, IdTokenizer)
    assert model.source_tokenizer.reason == "there are no tokens in the GGUF file"
    records = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b", "a"]}
    model = opened(write_gguf(folder, tmp_path / "x.gguf", vocabulary=records))
    assert model.source_tokenizer.reason == "its tokenizer has a token twice, or one that is too long"


@pytest.mark.parametrize("seed", range(150))
def test_damaged_bytes_give_a_sentence(seed, folders, tmp_path):
    """Of the header, where everything is that is read before values."""
    _theirs, folder = folders("llama")
    tokens = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [f"t{row}" for row in range(50)]}
    tokens |= {"tokenizer.ggml.merges": ["t 1"], "tokenizer.ggml.token_type": [1] * 50}
    content = bytearray(write_gguf(folder, tmp_path / "x.gguf", Kind.Q8_0, tokens).read_bytes())
    random = np.random.default_rng(seed)
    for place in random.integers(4, 3000, size=random.integers(1, 6)):
        content[place] = random.integers(0, 256)
    (tmp_path / "x.gguf").write_bytes(content)
    with contextlib.suppress(CheckpointError):
        assert opened(tmp_path / "x.gguf").network.parameter_count() > 0
