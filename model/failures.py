"""What broke a training off, as a sentence that says what to change."""

from __future__ import annotations

import logging
import traceback

import torch

from model.errors import first_line

NO_ROOM = (
    "step {step}: a batch of {tokens:,} tokens a side does not fit into memory: lower batch_tokens, and raise "
    "accumulation to keep steps as large; the weights are those of step {last}"
)
BROKEN_OFF = (
    "step {step}: training broke off with {name}: {first}; the weights are those of step {last}: go back to a key "
    "frame or reset"
)
STANDS = (
    "{what}; the run stands on step {step}, its last good one: go back to an earlier step and lower the rate "
    "({rate:.2g}), or change the seed to go on with another batch"
)
WENT_BACK = "{what}; {why}, so that the run went back to step {step}: lower the rate ({rate:.2g}) before it goes on"
AGAIN = "this step failed for the second time"
NOT_FINITE = "{name} of step {step} is not finite either"
NO_PREDICTIONS = "the model of step {step} makes no finite predictions either"
NO_WAY_BACK = "{what}; it has no earlier step to go back to: begin with another model"
NO_MEMORY_LEFT = "memory is exhausted: give a smaller model, or a lower --batch-tokens, --beam or --length"
# What torch says when memory is exhausted: the CPU's, MPS's, and what cuBLAS wants of CUDA's; else it has an exception.
NO_MEMORY = (
    *("DefaultCPUAllocator", "can't allocate memory", "not enough memory", "MPS backend out of memory"),
    *("Invalid buffer size", "CUBLAS_STATUS_ALLOC_FAILED"),
)


def is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def explained(error: Exception, step: int, batch_tokens: int) -> str:
    """step: the last good one. What nobody expected goes to the log too."""
    if isinstance(error, FloatingPointError | ValueError):
        return str(error)
    if is_out_of_memory(error):
        traceback.clear_frames(error.__traceback__)  # they hold what the step had computed
        for module in (torch.cuda, torch.mps):
            if module.is_available():
                module.empty_cache()
        return NO_ROOM.format(step=step + 1, tokens=batch_tokens, last=step)
    logging.getLogger(__name__).error("training broke off after step %d", step, exc_info=error)
    return BROKEN_OFF.format(step=step + 1, name=type(error).__name__, first=first_line(error), last=step)
