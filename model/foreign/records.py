"""The JSON files that lie beside the weights of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 64 << 20  # bytes: the largest tokenizers have half of it


def read_record(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file.

    Raises:
        ValueError: the file is too large, is not UTF-8 or not JSON, or holds something else than an object.
    """
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path.name} is too large for a JSON file: {path.stat().st_size:,} bytes")
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path.name} must hold a JSON object, not {type(record).__name__}")
    return record
