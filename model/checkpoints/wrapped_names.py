"""Names of tensors without what wraps a model: DistributedDataParallel, torch.compile, FSDP, a class around it; and of
several models in one file."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from model.checkpoints.leftover import TASK_HEADS
from model.message import Message

# Attributes under which torch keeps a wrapped module: never the name of a part of a model.
INSIDE = r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\."
PARALLEL = "module."  # of DataParallel and DistributedDataParallel, and of a model's average


def wrapping(names: Collection[str], own: Sequence[str]) -> list[str]:
    """Patterns of what stands around a model and its parts, to be taken out of each name one after the other.

    own: beginnings of names in a model that is not wrapped, such as "model.", where all of them may begin so.
    """
    left, front = {re.sub(INSIDE, "", name) for name in names}, ""
    left = {name for name in left if not TASK_HEADS.search(name)} or left  # beside what a class for a task wraps
    while root := _around(left, own):
        front += rf"{re.escape(root)}(?:{INSIDE})*"
        left = {name.removeprefix(root) for name in left}
    patterns = [rf"^(?:{INSIDE})*{front}"] if front else []
    inside = any(re.search(INSIDE, unwrapped(name, patterns)) for name in names)
    return [*patterns, INSIDE] if inside else patterns


def unwrapped(name: str, patterns: Sequence[str]) -> str:
    """Name in the model. patterns: as `wrapping` gives them."""
    for pattern in patterns:
        name = re.sub(pattern, "", name)
    return name


def _around(names: Collection[str], own: Sequence[str]) -> str:
    """Beginning of all names up to the first dot, where it is no part of the model; else ""."""
    first, dot, _rest = next(iter(names), "").partition(".")
    root = first + dot
    if not dot or first.isdigit() or not all(name.startswith(root) and len(name) > len(root) for name in names):
        return ""
    inner = {name.removeprefix(root) for name in names}
    if root == PARALLEL or any(name.startswith((PARALLEL, *own)) for name in inner):
        return root
    several = len({name.partition(".")[0] for name in inner}) > 1
    return root if root not in own and (several or _around(inner, own)) else ""


# Several models in one file, as a student and its teacher, a model and its average.

FEWEST = 4  # names of tensors that two models have in common
PARTS = re.compile(r"((src|tgt|source|target)_)?(en|de)coder|mtp|(h|layers?|blocks?|stages?)?_?\d*")  # of one model
DEEPEST, MOST = 16, 32  # names before the models' own; parts of a file that may be models


def models_in(names: Collection[str]) -> list[str]:
    """Beginnings of the names of models that lie side by side and have most names of tensors in common, "" for one
    without a beginning, the shortest first; empty: there are not several.
    """
    common = ""
    for _depth in range(DEEPEST):
        if len({name.partition(".")[0] for name in names}) != 1 or not all("." in name for name in names):
            break
        first = next(iter(names)).partition(".")[0]
        common, names = f"{common}{first}.", [name.partition(".")[2] for name in names]
    parts: dict[str, set[str]] = {}
    for name in names:
        first, dot, rest = name.partition(".")
        if dot and not PARTS.fullmatch(first):
            parts.setdefault(first, set()).add(re.sub(r"\.\d+\.", ".*.", rest))
    firsts = set[str]()
    for first, inside in parts.items() if len(parts) <= MOST else ():
        whole = {re.sub(r"\.\d+\.", ".*.", name) for name in names if not name.startswith(f"{first}.")}
        for other, compared in {"": whole, **parts}.items():
            if other != first and len(inside & compared) >= max(FEWEST, min(len(inside), len(compared)) / 2):
                firsts |= {first, other}
    return sorted((f"{common}{first}".rstrip(".") for first in firsts), key=lambda path: (len(path.split(".")), path))


def chosen_model(prefix: str, paths: Collection[str]) -> str:
    """Sentence of what is assumed where one of several models was chosen without a hint. paths: as of `models_in`."""
    others = ", ".join(path for path in paths if path != prefix)
    if not prefix:
        return Message("the model whose names have no prefix (the file holds others, under {others})", others=others)
    return Message("the model under {prefix} (the file holds others, under {others})", prefix=prefix, others=others)
