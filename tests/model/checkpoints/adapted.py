"""Adapters with random numbers: of peft around tiny models of Hugging Face's, and written by hand."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.model.checkpoints.bridge.models import theirs
from tests.model.checkpoints.convert.twins import saved

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import peft

PREFIX = "base_model.model."
QUERIES = "transformer.h.0.attn.c_attn"  # of GPT-2, (32, 96) in the file


def adapted(
    kind: str, config: Any, folder: Path, bridged: bool = False, trained: bool = True
) -> tuple[Any, Path, Path]:
    """Model of peft with its adapter beside the weights, read from its file again; the adapter's folder and the base's.

    kind: of `twins`, or of the families that are bridged. trained: all that would be trained gets random numbers.
    """
    if bridged:
        base_class, base = type(theirs(kind)[0]), theirs(kind)[1]
    else:
        base = folder / "base"
        base_class = type(saved(kind, base))
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base_class.from_pretrained(base), config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad and trained:
                    parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(folder / "adapter")
        again = peft.PeftModel.from_pretrained(base_class.from_pretrained(base), folder / "adapter").eval()
    settings = settings_of(folder / "adapter")
    assert settings["base_model_name_or_path"] == str(base)
    return again, folder / "adapter", base


def settings_of(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / "adapter_config.json").read_text())
    return settings


def write_settings(folder: Path, **changes: Any) -> None:
    (folder / "adapter_config.json").write_text(json.dumps(settings_of(folder) | changes))


def write_adapter(
    folder: Path, base: Path | str, tensors: Mapping[str, Tensor] | None = None, **settings: Any
) -> dict[str, Tensor]:
    """An adapter by hand, by default a LoRA of rank 2 for GPT-2's first queries, keys and values; gives its tensors."""
    torch.manual_seed(2)
    found = dict(tensors) if tensors is not None else lora(QUERIES, 96, 32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({f"{PREFIX}{name}": tensor for name, tensor in found.items()}, folder / "adapter_model.safetensors")
    usual = {"peft_type": "LORA", "base_model_name_or_path": str(base), "r": 2, "lora_alpha": 4}
    (folder / "adapter_config.json").write_text(json.dumps(usual | settings))
    return found


def lora(module: str, outputs: int, inputs: int, rank: int = 2) -> dict[str, Tensor]:
    factors = {"lora_A": torch.randn(rank, inputs), "lora_B": torch.randn(outputs, rank)}
    return {f"{module}.{name}.weight": factor for name, factor in factors.items()}
