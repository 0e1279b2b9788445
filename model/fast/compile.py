"""torch.compile, with its failures as one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from model.runtime.errors import first_line


def compiled(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function, compiled at its first calls: for their lengths, then for any, and once more for each other
    form: with padding and without, for longer texts, for a single one.

    Raises (when called):
        ValueError: it cannot be compiled, most often for want of a C++ compiler.
    """
    # Which positions are to be predicted is data: without this, the graph ends where they are selected.
    patched = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, recompile_limit=32)
    quick = patched(torch.compile(compute))

    def call(*inputs: Any) -> Tensor:
        try:
            made: Tensor = quick(*inputs)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = first_line(error).rstrip(".")
            raise ValueError(
                f"compile is on and torch.compile failed: {reason}; train without it, or install what it lacks "
                "(most often a C++ compiler; Debian: apt-get install g++)"
            ) from error
        return made

    return call
