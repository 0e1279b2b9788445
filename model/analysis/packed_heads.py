"""How families pack the queries, keys and values of an attention into one matrix, where only its file is open.

`model.hosted.head_parts` finds the same in a model that runs; the tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Three = tuple[Tensor, Tensor, Tensor]  # W_Q, W_K, W_V; their heads are the first dimensions, of W_Q two where grouped
Cut = Callable[[Tensor, int, int], Three]  # of a matrix (out, in), the number of heads, and of those of keys and values

TRANSPOSED = ("gpt2", "openai-gpt")  # GPT-2's Conv1D keeps (in, out)
DEVICES = 4  # for which CodeGen's matrices were cut


def in_blocks(weight: Tensor, heads: int, shared: int) -> Three:
    """All queries, all keys, all values."""
    width = len(weight) // (heads + 2 * shared)
    cut = weight.unflatten(0, (heads + 2 * shared, width))
    return cut[:heads], cut[heads : heads + shared], cut[heads + shared :]


def in_groups(weight: Tensor, heads: int, shared: int) -> Three:
    """Group by group, its queries, its key and its value; of heads that share nothing a group is one head."""
    cut = weight.unflatten(0, (shared, heads // shared + 2, -1))
    return cut[:, :-2], cut[:, -2], cut[:, -1]


def by_devices(weight: Tensor, heads: int, _shared: int) -> Three:
    """For each device the queries, values and keys of its heads."""
    cut = weight.unflatten(0, (DEVICES, 3, heads // DEVICES, -1))
    return cut[:, 0], cut[:, 2], cut[:, 1]


CUTS: dict[str, Cut] = {
    **dict.fromkeys(("gpt2", "openai-gpt", "phi3", "mpt", "modernbert", "dbrx"), in_blocks),
    **dict.fromkeys(("gpt_neox", "gpt_neox_japanese", "bloom"), in_groups),
    "codegen": by_devices,
}


def cut(weight: Tensor, settings: Mapping[str, Any], heads: int, shared: int) -> tuple[Three, int] | None:
    """The three matrices and how many heads keys and values have; None where the family's packing is not known, or
    the matrix has not as many rows.
    """
    family = settings.get("model_type")
    how = CUTS.get(str(family))
    if family in ("falcon", "gpt_bigcode"):
        how, shared = _one_or_many(settings, heads)
    rows = weight.T if family in TRANSPOSED else weight
    if how is None or not rows.numel() or max(heads, shared) > len(rows):
        return None
    try:
        return how(rows, heads, shared), shared
    except (RuntimeError, ZeroDivisionError):  # rows that these heads do not divide
        return None


def _one_or_many(settings: Mapping[str, Any], heads: int) -> tuple[Cut, int]:
    """Of families whose models differ: one key and value for all heads (Shazeer, 2019), some, or one for each."""
    if settings.get("new_decoder_architecture"):
        some = settings.get("num_kv_heads")
        return in_groups, some if type(some) is int and some > 0 else heads
    return (in_blocks, 1) if settings.get("multi_query", True) else (in_groups, heads)
