"""Names of tensors without what wraps a model: DistributedDataParallel, torch.compile, FSDP, a class around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

# Attributes under which torch keeps a wrapped module: never the name of a part of a model.
INSIDE = r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\."
PARALLEL = "module."  # of DataParallel and DistributedDataParallel, and of a model's average


def wrapping(names: Collection[str], own: Sequence[str]) -> list[str]:
    """Patterns of what stands around a model and its parts, to be taken out of each name one after the other.

    own: beginnings of names in a model that is not wrapped, such as "model.", where all of them may begin so.
    """
    left, front = {re.sub(INSIDE, "", name) for name in names}, ""
    while root := _around(left, own):
        front += rf"{re.escape(root)}(?:{INSIDE})*"
        left = {name.removeprefix(root) for name in left}
    found = [rf"^(?:{INSIDE})*{front}"] if front else []
    inside = any(re.search(INSIDE, unwrapped(name, found)) for name in names)
    return [*found, INSIDE] if inside else found


def unwrapped(name: str, patterns: Sequence[str]) -> str:
    """Name in the model. patterns: as `wrapping` gives them."""
    for pattern in patterns:
        name = re.sub(pattern, "", name)
    return name


def _around(names: Collection[str], own: Sequence[str]) -> str:
    """What all names begin with, up to the first dot, where it is no part of the model; else ""."""
    first, dot, _rest = next(iter(names), "").partition(".")
    root = first + dot
    if not dot or first.isdigit() or not all(name.startswith(root) and len(name) > len(root) for name in names):
        return ""
    inner = {name.removeprefix(root) for name in names}
    if root == PARALLEL or any(name.startswith((PARALLEL, *own)) for name in inner):
        return root
    several = len({name.partition(".")[0] for name in inner}) > 1
    return root if root not in own and (several or _around(inner, own)) else ""
