"""The JSON files that lie beside the weights of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model.errors import CheckpointError
from model.safe_json import read_json


def read_record(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file.

    Raises:
        CheckpointError: the file is too large or not JSON, or holds something else than an object.
    """
    if not path.exists():
        return {}
    record = read_json(path, nan=True)
    if not isinstance(record, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object, not {type(record).__name__}")
    return record
