"""Models of Hugging Face's beside ours, made once each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from model.network.transformer import Network
from tests.model.checkpoints.convert.twins import rebuilt, saved

Made = Callable[[str], tuple[Any, Network, Path]]


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of a kind: theirs, ours in float32, and the folder of theirs."""

    @cache
    def make(kind: str) -> tuple[Any, Network, Path]:
        folder = tmp_path_factory.mktemp(kind)
        return saved(kind, folder), rebuilt(folder), folder

    return make


@pytest.fixture(scope="package")
def folders(made: Made) -> Callable[[str], Path]:
    return lambda kind: made(kind)[2]
