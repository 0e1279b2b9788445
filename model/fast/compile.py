"""torch.compile, its failures as one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from model.runtime.errors import first_line


def compiled(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Function `compute`, compiled at its first calls: for their lengths, then for any length, and again for each other
    case: with padding or without, longer texts, a single text.

    Raises (when called):
        ValueError: it cannot be compiled, most often for want of a C++ compiler.
    """
    # Predicted positions are data: without the first option, the graph would end where they are selected.
    patched = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, recompile_limit=32)
    optimized = patched(torch.compile(compute))

    def call(*inputs: Any) -> Tensor:
        try:
            result: Tensor = optimized(*inputs)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = first_line(error).rstrip(".")
            raise ValueError(
                f"compile is on and torch.compile failed: {reason}; train without it, or install what it lacks "
                "(most often a C++ compiler; Debian: apt-get install g++)"
            ) from error
        return result

    return call
