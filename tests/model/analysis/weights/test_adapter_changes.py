"""Size and rank of what adapters change, beside peft's own ΔW in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import IA3Config, LoHaConfig, LoKrConfig, LoraConfig
from safetensors.torch import load_file

from model.analysis.weights.adapter_changes import AdapterChange, adapter_change
from model.checkpoints.load import merged_adapter
from model.checkpoints.load_hints import LoadHints
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.adapted import QUERIES, adapted, write_adapter
from tests.model.checkpoints.bridge.models import theirs

KINDS = {
    "lora": ("gpt2", LoraConfig(r=4, lora_alpha=3, target_modules=["c_attn", "c_proj", "wte"])),
    "wide": ("gpt2", LoraConfig(r=40, target_modules=["c_attn"])),
    "head": ("gpt2", LoraConfig(r=4, target_modules=["lm_head"])),
    "loha": ("llama", LoHaConfig(r=2, target_modules=["k_proj", "up_proj"], init_weights=False)),
    "loha-full": ("llama", LoHaConfig(r=6, target_modules=["k_proj", "up_proj"], init_weights=False)),
    "lokr": ("llama", LoKrConfig(r=2, decompose_both=True, target_modules=["k_proj", "up_proj"], init_weights=False)),
}


def changes_of(folder) -> dict[str, AdapterChange]:
    found = merged_adapter(folder, LoadHints())[2].changes
    return {change.name: adapter_change(change) for change in found}


def agrees(found: AdapterChange, delta: np.ndarray, weight: np.ndarray) -> None:
    """Numbers of a change beside numpy's of ΔW."""
    values = np.linalg.svd(delta.astype(np.float64), compute_uv=False)
    norm = np.linalg.norm(delta.astype(np.float64))
    assert found.norm == pytest.approx(norm, rel=1e-6)
    assert found.relative == pytest.approx(norm / np.linalg.norm(weight.astype(np.float64)), rel=1e-6)
    count = len(found.values)
    assert np.allclose(found.values, values[:count], rtol=1e-6, atol=1e-6 * values[0])
    assert np.all(values[count:] < 1e-6 * values[0])
    shares = values[values > 1e-6 * values[0]] / values.sum()
    assert found.rank == pytest.approx(float(np.exp(-(shares * np.log(shares)).sum())), rel=1e-4)
    assert found.stable == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-6)
    assert not found.nothing


@pytest.mark.parametrize("kind", KINDS)
def test_factors_have_the_singular_values_of_their_product(kind, tmp_path):
    family, config = KINDS[kind]
    reference, folder, base = adapted(family, config, tmp_path)
    found, weights = changes_of(folder), load_file(base / "model.safetensors")
    modules = dict(reference.base_model.model.named_modules())
    assert found
    for name, change in found.items():
        module = modules[name.removesuffix(".weight")]
        weight = weights.get(name, weights.get("transformer.wte.weight"))
        agrees(change, module.get_delta_weight("default").detach().numpy(), weight.numpy())
        if kind in ("lora", "head"):
            assert len(change.values) == 4  # no more than the factors have


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("gpt2", LoraConfig(r=4, use_dora=True, target_modules=["c_attn"], modules_to_save=["ln_f"])),
        ("llama", IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])),
    ],
)
def test_other_changes_are_the_difference_of_the_merged_weight(family, config, tmp_path):
    reference, folder, base = adapted(family, config, tmp_path)
    found, weights = changes_of(folder), load_file(base / "model.safetensors")
    after = reference.merge_and_unload().state_dict()
    for name, change in found.items():
        delta = (after[name].double() - weights[name].double()).numpy()
        if delta.ndim == 2:
            values = np.linalg.svd(delta, compute_uv=False)
            assert np.allclose(change.values, values, rtol=1e-4, atol=1e-5 * values[0])
        else:
            assert not len(change.values)
            assert np.isnan(change.rank)
        size = np.linalg.norm(weights[name].double().numpy())
        assert change.relative == pytest.approx(np.linalg.norm(delta) / size, rel=1e-4)


@pytest.mark.parametrize("dora", [False, True])
def test_an_adapter_before_its_training_changes_nothing(dora, tmp_path):
    config = LoraConfig(r=4, use_dora=dora, target_modules=["c_attn"])
    found = changes_of(adapted("gpt2", config, tmp_path, trained=False)[1])
    assert len(found) == 2
    assert all(change.nothing for change in found.values())
    assert all(change.relative < 1e-6 for change in found.values())


def test_a_change_that_is_not_finite_is_a_sentence(tmp_path):
    tensors = write_adapter(tmp_path, theirs("gpt2")[1])
    write_adapter(tmp_path, theirs("gpt2")[1], tensors | {f"{QUERIES}.lora_B.weight": torch.full((96, 2), torch.nan)})
    with pytest.raises(CheckpointError, match="not finite"):
        changes_of(tmp_path)
