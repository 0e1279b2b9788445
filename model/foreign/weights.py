"""The weights of a checkpoint folder of Hugging Face: of one file or of several, read where they are used."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.errors import CheckpointError
from model.pickled import read_pickled

SAFE, SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
MOST_SHARDS = 1000


def weight_files(folder: Path) -> list[Path]:
    """The files with the weights: safetensors before pickled ones, one file before the shards of an index.

    Raises:
        CheckpointError: there are none, or an index is damaged or names a file that is not in the folder.
    """
    for whole, index in ((SAFE, SAFE_INDEX), (PICKLED, PICKLED_INDEX)):
        if (folder / whole).is_file():
            return [folder / whole]
        if (folder / index).is_file():
            return _shards(folder, index, Path(whole).suffix)
    raise CheckpointError(f"{folder.name} has no weights: neither {SAFE} nor {PICKLED}, nor an index of their parts")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor by its name in the files; values stay in the files until they are used.

    Raises:
        CheckpointError: a file is missing, damaged, or holds something else; or two hold one name.
    """
    weights: dict[str, Tensor] = {}
    for file in weight_files(folder):
        for name, tensor in _read(file).items():
            if name in weights:
                raise CheckpointError(f"{folder.name}: {name[:60]!r} is in more than one file of weights")
            weights[name] = tensor
    return weights


def _read(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file) if file.suffix == ".safetensors" else read_pickled(file)
    except (SafetensorError, OSError) as error:
        reason = str(error).splitlines()[0][:120]
        raise CheckpointError(f"{file.name} cannot be read as safetensors ({reason}): it is damaged") from error
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def _shards(folder: Path, index: str, suffix: str) -> list[Path]:
    try:
        content = json.loads((folder / index).read_text(encoding="utf-8"))
        names = sorted(set(content["weight_map"].values()))
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} in {folder.name} is no index of weights ({type(error).__name__})") from error
    if len(names) > MOST_SHARDS:
        raise CheckpointError(f"{index} names {len(names):,} files: {MOST_SHARDS:,} are the most")
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or Path(name).suffix != suffix:
            raise CheckpointError(f"{index} names {str(name)[:60]!r}: only {suffix} files beside it may be named")
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder.name} lacks {name}, which {index} names: download that part too")
    return [folder / name for name in names]
