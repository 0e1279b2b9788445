"""Weights that accelerate has put aside, on the CPU or on disk, and brings only while their module computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def held(module: nn.Module, name: str = "weight") -> Tensor | None:
    """A tensor of a hosted module: the one that it has, or the one that is put aside for it; None: it has none.

    What lies in a .safetensors file of the same precision stays there, and its pages are read when they are used.
    """
    own: Any = getattr(module, name, None)
    if not isinstance(own, Tensor):
        return None
    aside = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    if not own.is_meta or aside is None:
        return own
    found: Tensor = aside[name]
    return found.to(own.dtype)


def place(model: nn.Module) -> torch.device:
    """Where a hosted model expects its tokens."""
    here = (each.device for each in model.parameters() if not each.is_meta)
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    there = (getattr(hook, "execution_device", None) for hook in hooks)
    return torch.device(next(here, None) or next((each for each in there if each is not None), "cpu"))
