"""Weights of few bits: FP8 becomes the numbers that it stands for, codes are refused by name."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.load import open_checkpoint
from model.checkpoints.quantized import ROUNDED, UNSCALED, fp8_notes, plain_weights, require_no_codes
from model.checkpoints.tensors import described
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import GROUPED, random_model, write_tokenizer

F8 = torch.float8_e4m3fn


def table(tensors):
    return [described(name, tensor) for name, tensor in tensors.items()]


def codes(*shape):
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).to(F8)


def drawn(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 0.5


@pytest.mark.parametrize(
    ("of_codes", "of_scale", "block", "told"),
    [
        ((6, 4), (), None, {}),
        ((6, 4), (1,), None, {}),
        ((6, 4), (6,), None, {}),
        ((6, 4), (6, 1), None, {}),
        ((6, 4), (3, 2), (2, 2), {}),
        ((7, 5), (3, 2), (3, 3), {"weight_block_size": [3, 3]}),
        ((7, 5), (3, 2), (3, 3), {"config_groups": {"a": {"weights": {"block_structure": [3, 3]}}}}),
        ((200, 4), (2, 1), (128, 4), {}),
        ((2, 6, 4), (2, 3, 2), (2, 2), {"weight_block_size": [2, 2]}),
        ((2, 6, 4), (2, 1, 4), None, {}),
    ],
)
@pytest.mark.parametrize("scale", ["a.weight_scale_inv", "a.weight_scale", "a.scale_weight", "a.scale"])
def test_an_fp8_weight_is_multiplied_by_the_scale_of_its_block(of_codes, of_scale, block, told, scale):
    weight, factors = codes(*of_codes), drawn(*of_scale)
    given = table({"a.weight": weight, scale: factors, "a.input_scale": torch.ones(1), "b": torch.ones(2)})
    plain, settings = plain_weights(given, {"quantization_config": told, "x": 1}, "m")
    assert settings == {"x": 1}
    assert [info.name for info in plain] == ["a.weight", "b"]
    wanted = weight.float()
    for place in torch.cartesian_prod(*map(torch.arange, of_codes)).tolist():  # number by number
        *before, row, column = place
        if not of_scale or of_scale == (1,):
            factor = factors.reshape(())
        elif len(of_scale) == 1:
            factor = factors[row]
        elif block:
            factor = factors[(*before, row // block[0], column // block[1])]
        else:
            factor = factors.expand(of_codes)[tuple(place)]
        wanted[tuple(place)] *= factor
    torch.testing.assert_close(plain[0].load(), wanted, rtol=0, atol=0)
    assert plain[0].load().dtype == torch.float32
    assert fp8_notes(plain) == [ROUNDED]
    assert plain_weights(plain, settings, "m")[0] == plain


def test_a_scale_in_powers_of_two_and_no_scale_at_all():
    weight, scale = codes(4, 4), torch.tensor([0.25, 2.0]).to(torch.float8_e8m0fnu)[:, None]
    plain, _settings = plain_weights(table({"a.weight": weight, "a.weight_scale": scale}), {}, "m")
    assert torch.equal(plain[0].load(), weight.float() * torch.tensor([0.25, 0.25, 2.0, 2.0])[:, None])
    alone = table({"a.weight": weight})
    assert plain_weights(alone, {}, "m")[0] == alone
    assert fp8_notes(alone) == [UNSCALED]
    with pytest.raises(CheckpointError, match=r"a.weight is of 8 bits \(FP8\) and has no scale beside it"):
        plain_weights(alone, {"quantization_config": {"quant_method": "fp8"}}, "m")
    with pytest.raises(CheckpointError, match=r"a.scale has shape \(3, 1\), which is none of scales"):
        plain_weights(table({"a.weight": weight, "a.scale": torch.ones(3, 1)}), {}, "m")
    with pytest.raises(CheckpointError, match=r"is quantized \(FP8\): a.weight_scale \(uint8\) belongs to codes"):
        plain_weights(table({"a.weight": weight, "a.weight_scale": torch.ones(4, 1, dtype=torch.uint8)}), {}, "m")


whole = torch.int32
CODES = {
    "bitsandbytes in 8 bits": {"a.weight": torch.int8, "a.SCB": torch.float32},
    "bitsandbytes in 4 bits": {"a.weight": torch.uint8, "a.weight.absmax": torch.float32},
    "GPTQ": {"a.qweight": whole, "a.qzeros": whole, "a.scales": torch.float16, "a.g_idx": whole},
    "AWQ or GPTQ": {"a.qweight": whole, "a.qzeros": whole, "a.scales": torch.float16},
    "HQQ": {"a.W_q": torch.uint8, "a.scale": torch.float16},
    "compressed-tensors": {"a.weight_packed": whole, "a.weight_scale": torch.bfloat16},
    "MXFP4": {"a.gate_up_proj_blocks": torch.uint8, "a.gate_up_proj_scales": torch.uint8},
    "MLX": {"a.weight": torch.uint32, "a.scales": torch.float16, "a.biases": torch.float16},
    "AQLM": {"a.codes": torch.int16, "a.codebooks": torch.float16},
    "Quanto": {"a.weight._data": torch.int8, "a.weight._scale": torch.float32},
    "torchao": {"a._weight_qdata": torch.int8, "a._weight_scale": torch.float32},
    "EETQ": {"a.weight": torch.int8, "a.weight_scales": torch.float16},
    "whole numbers": {"a.weight": torch.int8, "a.weight_scale": torch.float32},
    "FP8": {"a.weight": F8, "a.weight_scale": torch.float32},
}


@pytest.mark.parametrize("name", CODES)
def test_codes_are_refused_by_the_name_of_their_quantization(name):
    given = table({each: torch.zeros(4, 4).to(dtype) for each, dtype in CODES[name].items()})
    with pytest.raises(CheckpointError) as refused:
        require_no_codes(given, "m")
    assert str(refused.value).startswith(f"m is quantized ({name}): a.")


def test_masks_indices_and_counts_are_no_codes():
    long, small = torch.zeros(1, 9, dtype=torch.int64), torch.ones(1, 1, 4, 4, dtype=torch.uint8)
    names = {"embeddings.position_ids": long, "h.0.attn.mask": small.bool(), "rel_index": long}
    names |= {f"h.0.{of}.bias": small for of in ("attn", "crossattention", "self_attention", "cross_attention")}
    names |= {"step": torch.tensor(3, dtype=torch.int32), "optimizer.0.step": long, "a.weight": torch.ones(2, 2)}
    require_no_codes(table(names), "m")


@pytest.mark.parametrize("family", ["Llama", "Gemma2"], ids=["ours", "run by transformers"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_an_fp8_folder_opens_as_the_weights_that_it_stands_for(family, precision, tmp_path):
    model = random_model(f"{family}ForCausalLM", **GROUPED)
    for name in ("plain", "packed"):
        model.save_pretrained(tmp_path / name)
        write_tokenizer(tmp_path / name)
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    packed = dict(plain)
    for name in [each for each in plain if each.endswith("_proj.weight")]:
        packed[name] = (plain[name] * 50).to(F8)
        rows, columns = (-(-size // 16) for size in plain[name].shape)
        packed[f"{name}_scale_inv"] = 0.02 * drawn(rows, columns)
        blocks = packed[f"{name}_scale_inv"].repeat_interleave(16, 0).repeat_interleave(16, 1)
        plain[name] = packed[name].float() * blocks[: plain[name].shape[0], : plain[name].shape[1]]
    for name, tensors in (("plain", plain), ("packed", packed)):
        save_file(tensors, tmp_path / name / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "packed" / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    (tmp_path / "packed" / "config.json").write_text(json.dumps(config))
    wanted, found = (open_checkpoint(tmp_path / name, torch.device("cpu"), precision) for name in ("plain", "packed"))
    assert found.training["assumed"] == [ROUNDED]
    assert wanted.network.ours == found.network.ours == (family == "Llama")
    logits = [each.trace("the cat sees")["output.logits"] for each in (wanted, found)]
    torch.testing.assert_close(*logits, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", ["Llama", "Gemma2"], ids=["ours", "run by transformers"])
def test_a_folder_of_codes_does_not_open_without_a_word_of_them_in_its_config(family, tmp_path):
    random_model(f"{family}ForCausalLM", **GROUPED).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    codes = {name: (50 * each).to(torch.int8) for name, each in tensors.items() if name.endswith("_proj.weight")}
    save_file(tensors | codes, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"is quantized \(whole numbers\): .*_proj.weight \(int8\)"):
        open_checkpoint(tmp_path)
    unknown = {"quantization_config": {"quant_method": "unheard-of"}}
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | unknown))
    with pytest.raises(CheckpointError, match=r"is quantized \(whole numbers\): .*_proj.weight \(int8\)"):
        open_checkpoint(tmp_path)
