"""Errors of files, models and trainings, as sentences for the user."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

import torch

from model.message import InputError, Message

LONGEST = 600  # most characters of a sentence: names in a file may have any length
BROKEN_OFF = "computing this broke off with {name}: {first}; the log says where"


def first_line(error: BaseException, longest: int = 160) -> str:
    """First line of an error's message, at most `longest` characters; the name of its class if there is no message."""
    sentence = str(error)
    lines = sentence.strip().splitlines()
    first = lines[0][:longest] if lines else type(error).__name__
    return sentence.read_as(first) if isinstance(sentence, Message) else first


def describe(error: Exception) -> str:
    """Sentence about an error that ended a computation; unexpected errors are logged, too."""
    if isinstance(error, ValueError | RuntimeError | OSError | MemoryError):
        return str(error) or type(error).__name__
    logging.getLogger(__name__).error("a computation broke off", exc_info=error)
    return Message(BROKEN_OFF, name=type(error).__name__, first=first_line(error))


class CheckpointError(InputError):
    """File or folder that cannot or must not be opened; one sentence says what is wrong and what to do.

    The sentence may quote the file, so control characters and halves of surrogate pairs are escaped, and it is cut at
    600 characters.
    """

    def __init__(self, text: str, /, *, field: str = "", **values: Any) -> None:
        super().__init__(text, field=field, **values)
        self.args = (printable(str(self)),)


def printable(sentence: str) -> str:
    """Sentence of at most 600 characters, all of which can be printed."""
    cut = sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
    text = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)
    return sentence.read_as(text) if isinstance(sentence, Message) else text


class MissingWeightsError(CheckpointError):
    """Weights that a model needs and its file does not hold."""


class OtherWeightsError(CheckpointError):
    """Weights that are not those that a config asks for."""


class UnmeasuredError(CheckpointError):
    """Tensor whose values cannot be read, as their type is unknown; it is listed all the same."""


class MissingQuantityError(KeyError):
    """Quantity that a network does not have; name: of the quantity, reason: a sentence that says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


def require(network: object, *names: str) -> None:
    """Refuse quantities that `network` lacks.

    Raises:
        MissingQuantityError: `network.missing` has one of these names.
    """
    missing: Mapping[str, str] = getattr(network, "missing", {})
    for name in names:
        if name in missing:
            raise MissingQuantityError(name, missing[name])


# Errors that end a training, as sentences that say what to change.


class NotFiniteError(FloatingPointError):
    """Loss or gradient of a step that is not finite; what: which, as the beginning of a sentence. last: good step."""

    def __init__(self, what: Message, last: int, rate: float) -> None:
        super().__init__(
            Message(
                "{what}; the weights are still those of step {last}: lower the rate ({rate:.2g})",
                what=what,
                last=last,
                rate=rate,
            )
        )
        self.what = what


NO_ROOM = (
    "step {step}: a batch of {tokens:,} tokens a side does not fit into memory: lower batch_tokens, and raise "
    "accumulation to keep steps as large; the weights are those of step {last}"
)
TRAINING_BROKEN_OFF = (
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
GONE = ("CUDA error", "HIP error", "cuDNN error", "CUBLAS_STATUS_NOT_INITIALIZED")  # of a device that is gone
# Messages of torch when memory is exhausted: of the CPU, MPS and cuBLAS; elsewhere there is an exception for it.
NO_MEMORY = (
    *("DefaultCPUAllocator", "can't allocate memory", "not enough memory", "MPS backend out of memory"),
    *("Invalid buffer size", "CUBLAS_STATUS_ALLOC_FAILED"),
)


NO_ROOM_HERE = "this does not fit into memory: type a shorter text, close what is not needed, or open a smaller model"
DEVICE_GONE = "the device no longer computes ({first}): start the server anew, or with VITRINE_DEVICE=cpu"


def device_trouble(error: Exception) -> str:
    """Sentence about memory that is exhausted or a device that is gone; empty of any other error."""
    if is_out_of_memory(error):
        _let_go(error)
        return NO_ROOM_HERE
    gone = type(error).__name__ == "AcceleratorError" or any(words in str(error) for words in GONE)
    if not (isinstance(error, RuntimeError) and gone):
        return ""
    logging.getLogger(__name__).error("the device no longer computes", exc_info=error)
    return Message(DEVICE_GONE, first=first_line(error))


def is_out_of_memory(error: Exception) -> bool:
    """True if an error says that memory is exhausted."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def describe_training_error(error: Exception, step: int, batch_tokens: int) -> str:
    """Sentence about an error that ended a training; unexpected errors are logged, too. step: the last good one."""
    if isinstance(error, FloatingPointError | ValueError):
        return str(error)
    if is_out_of_memory(error):
        _let_go(error)
        return Message(NO_ROOM, step=step + 1, tokens=batch_tokens, last=step)
    logging.getLogger(__name__).error("training broke off after step %d", step, exc_info=error)
    return Message(TRAINING_BROKEN_OFF, step=step + 1, name=type(error).__name__, first=first_line(error), last=step)


def _let_go(error: Exception) -> None:
    """Free what a computation held that memory had no room for."""
    traceback.clear_frames(error.__traceback__)
    for module in (torch.cuda, torch.mps):
        if module.is_available():
            module.empty_cache()
