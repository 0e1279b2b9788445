"""A part of a file as a tensor whose pages are read when they are used: for files that memory does not hold whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.runtime.errors import CheckpointError

Refused = (RuntimeError, MemoryError)  # what libraries raise where the system maps no file as large as this one


def mapped(path: Path, start: int, count: int) -> Tensor:
    """So many bytes of a file. Writing to them changes no file.

    Raises:
        CheckpointError: not even they fit into memory.
    """
    if not count:
        return torch.empty(0, dtype=torch.uint8)
    try:
        return torch.from_numpy(np.memmap(path, np.uint8, "c", start, (count,)))
    except ValueError as error:
        raise CheckpointError(f"{path} has changed since it was listed: open it again") from error
    except (OSError, MemoryError) as error:
        raise CheckpointError(
            f"{path} holds a tensor of {count / 1e9:.1f} GB, more than can be had of memory: it is listed, not measured"
        ) from error
