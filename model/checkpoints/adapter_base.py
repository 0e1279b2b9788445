"""Base of an adapter, found on this machine: in a folder or in Hugging Face's cache; nothing is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model.checkpoints.adapters import MERGED, Adapter, AdapterBaseError, base_label, is_adapter
from model.checkpoints.hub import cached
from model.checkpoints.native import CONFIG, is_hugging_face
from model.checkpoints.quantized import plain_weights
from model.checkpoints.tensors import TensorInfo, tensor_table
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record


def find_base(adapter: Adapter, chosen: str | None = None) -> Path:
    """Folder of an adapter's base. chosen: its path, or its name at Hugging Face; None: what the adapter names.

    Raises:
        AdapterBaseError: it is not on this machine; the sentence names it and says what to do.
    """
    named = chosen or adapter.base
    if folder := path_of_base(adapter.folder, named, None if chosen else adapter.revision):
        return folder
    raise base_missing(adapter.name, MERGED[adapter.kind], named)


def path_of_base(folder: Path, named: str, revision: str | None = None) -> Path | None:
    """Folder of a base by its path, absolute or relative to the adapter's folder or to the working directory, or by its
    name in Hugging Face's cache; None: no folder with a config.json is there.

    folder: of the adapter. revision: of the base in the cache.
    """
    if not named:
        return None
    for path in (folder / named, Path(named).expanduser() if named.startswith("~/") else Path(named)):
        try:
            if (path / CONFIG).is_file() or (path / "adapter_config.json").is_file():
                return path
        except (OSError, ValueError):  # a name that is too long, or has a zero in it
            continue
    return cached(named, revision)


def base_name(base: Path) -> str:
    """Name of a base: of its folder, or in Hugging Face's cache, where folders are called by numbers, of the model."""
    folder = base.resolve()
    if folder.parent.name != "snapshots":
        return folder.name
    return folder.parents[1].name.removeprefix("models--").replace("--", "/")


def base_missing(name: str, kind: str, named: str) -> AdapterBaseError:
    """Error of an adapter whose base is not here. name, kind: of the adapter. named: what the base is called."""
    if not named:
        return AdapterBaseError(
            "{file} is a {kind} adapter and does not say which model it changes: choose its base", file=name, kind=kind
        )
    return AdapterBaseError(
        "{file} is a {kind} adapter and changes {shown_base!r}, which is not here: put that model into the list "
        "of checkpoints, or choose its base by hand",
        file=name,
        kind=kind,
        shown_base=base_label(named),
    )


def read_base(base: Path, adapter: Adapter) -> tuple[dict[str, Any], list[TensorInfo]]:
    """Settings and tensors of a base, as of `plain_weights`; no values are read.

    Raises:
        AdapterBaseError: it is an adapter itself, no folder of transformers, or quantized.
        CheckpointError: a file of it is damaged.
    """
    if is_adapter(base):
        raise AdapterBaseError(
            "{base_name}, the base of {name}, is an adapter itself, and one is not merged into another: merge it "
            "with peft (merge_and_unload), save that and choose it",
            base_name=base_name(base),
            name=adapter.name,
        )
    settings = read_record(base / CONFIG) if base.is_dir() else {}
    if not is_hugging_face(settings):
        raise AdapterBaseError(
            "{base_name}, the base of {name}, has no config.json of transformers, by whose names an adapter "
            "changes weights: choose the folder of a model of Hugging Face",
            base_name=base_name(base),
            name=adapter.name,
        )
    table = tensor_table(base)
    try:
        table, settings = plain_weights(table, settings, base_name(base))
    except CheckpointError as error:
        raise AdapterBaseError(str(error)) from error
    return settings, table
