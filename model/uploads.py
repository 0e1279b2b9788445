"""Files that a visitor has sent: into a folder of their own, which is removed with the session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path


class Uploads:
    """Stub of the branch "safety"."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vitrine-"))

    def add(self, files: Sequence[tuple[str, bytes]]) -> Path:
        raise NotImplementedError

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
