"""A network without values: all its shapes, names and ties, and no memory for its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from model.config import TransformerConfig
from model.network import Network
from model.transformer import build


class NothingDrawn(TorchFunctionMode):
    """Within it `normal_` does nothing: without values there is nothing to draw, and torch would take seconds to load
    what it does that with.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def skeleton(config: TransformerConfig) -> Network:
    """The network of this config on the device "meta"; tables that are computed are there, on the CPU in float32."""
    with torch.device("meta"), NothingDrawn():
        return build(config)
